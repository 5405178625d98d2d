#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"
#include "engine/build/build_internal.h"
#include "image/config_apply.h"
#include "image/dockerfile.h"

/*
 * RUN: the command with its mounts, here-documents and secrets. What is not part of the result is in mounts:
 * secrets in files in memory, scripts below /.atoll.
 */
#define SCRIPT_DIRECTORY "/.atoll/script"
#define SCRIPT SCRIPT_DIRECTORY "/run"
#define SECRETS "/run/secrets/"

static const char *last_component(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* --- mounts --- */

static const struct atoll_make_secret *find_secret(const struct atoll_make *make, const char *id)
{
    for (size_t i = 0; i < make->secret_count; i++)
        if (strcmp(make->secrets[i].id, id) == 0)
            return &make->secrets[i];
    return NULL;
}

static int mount_secret(struct atoll_make_stage *stage, struct atoll_make_job *job,
                        const struct atoll_recipe_mount *m, struct atoll_error *err)
{
    const char *id = m->id ? m->id : m->target ? last_component(m->target) : "";
    const struct atoll_make_secret *secret = find_secret(stage->make, id);
    struct atoll_make_job_file file = {.mode = m->mode >= 0 ? (uint32_t)m->mode : 0400};
    int r;

    if (!secret && m->required)
        return atoll_fail(
            err, ATOLL_ERR_INVALID_ARGUMENT, ENOENT,
            "the step needs the secret %.64s: give it with --secret id=%.64s,src=FILE", id, id);
    if (!secret || (m->env && !m->target))
        return 0;
    file.path = m->target ? atoll_stage_path(stage, job, m->target)
                          : atoll_make_job_textf(job, SECRETS "%s", id);
    file.bytes = secret->bytes;
    file.len = secret->len;
    r = atoll_make_job_add_cache(job, ATOLL_CACHE_FILE, file.path, NULL, err);
    return r < 0 ? r : atoll_make_job_add_file(job, &file, err);
}

/* A cache is named by its id, or by its target. Names on the disk are safe ones. */
static int mount_cache(struct atoll_make_stage *stage, struct atoll_make_job *job,
                       const struct atoll_recipe_mount *m, struct atoll_error *err)
{
    const char *target = atoll_stage_path(stage, job, m->target);
    json_t *facts = json_pack("{s:s}", "cache", m->id ? m->id : target);
    char name[65];

    atoll_make_key(facts, name);
    json_decref(facts);
    return atoll_make_job_add_cache(job, ATOLL_CACHE_KEPT, target,
                                    atoll_make_job_textf(job, "%s", name), err);
}

/* A path of a tree, without what stands for its root. */
static const char *below(const char *path)
{
    while (*path == '/' || strncmp(path, "./", 2) == 0)
        path += *path == '/' ? 1 : 2;
    return strcmp(path, ".") == 0 ? "" : path;
}

static int mount_bind(struct atoll_make_stage *stage, struct atoll_make_job *job, json_t *sources,
                      const struct atoll_recipe_mount *m, struct atoll_error *err)
{
    struct atoll_stage_tree tree;
    const char *layers, *part;
    int r = atoll_stage_find_tree(stage, m->from, &tree, err);

    if (r < 0)
        return r;
    layers = tree.source ? tree.source->layer : tree.layers;
    if (!layers || !*layers)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENOENT,
                          "there is nothing to mount at %s", m->target);
    (void)json_array_append_new(sources, json_string(layers));
    r = atoll_make_job_add_tree(job, atoll_stage_path(stage, job, m->target),
                                atoll_make_job_textf(job, "%s", layers), err);
    part = below(m->source ? m->source : "");
    if (r == 0 && *part)
        job->trees[job->tree_count - 1].part = atoll_make_job_textf(job, "%s", part);
    return r;
}

static int add_mounts(struct atoll_make_stage *stage, struct atoll_make_job *job, json_t *facts,
                      struct atoll_error *err)
{
    const struct atoll_recipe_flags *flags = &stage->now.flags;
    json_t *sources = json_array();
    int r = 0;

    (void)json_object_set_new(facts, "mounts", sources);
    for (size_t i = 0; r == 0 && i < flags->mount_count; i++) {
        const struct atoll_recipe_mount *m = &flags->mounts[i];
        switch (m->type) {
        case ATOLL_RECIPE_MOUNT_SECRET:
            r = mount_secret(stage, job, m, err);
            break;
        case ATOLL_RECIPE_MOUNT_CACHE:
            r = mount_cache(stage, job, m, err);
            break;
        case ATOLL_RECIPE_MOUNT_TMPFS:
            r = atoll_make_job_add_cache(job, ATOLL_CACHE_SCRATCH,
                                         atoll_stage_path(stage, job, m->target), NULL, err);
            break;
        case ATOLL_RECIPE_MOUNT_BIND:
            r = mount_bind(stage, job, sources, m, err);
            break;
        case ATOLL_RECIPE_MOUNT_SSH:
            r = m->required ? atoll_fail(err, ATOLL_ERR_UNIMPLEMENTED, EOPNOTSUPP,
                                         "mounts of type ssh are not supported")
                            : 0;
        }
    }
    return r;
}

/* Secrets as variables: RUN --mount=type=secret,env=NAME. */
static const char *const *add_secret_env(struct atoll_make_stage *stage, struct atoll_make_job *job,
                                         const char *const *env)
{
    const struct atoll_recipe_flags *flags = &stage->now.flags;
    size_t count = 0, added = 0;
    const char **all;

    while (env[count])
        count++;
    all = atoll_make_job_words(job, count + flags->mount_count);
    if (!all)
        return env;
    memcpy(all, env, count * sizeof(*all));
    for (size_t i = 0; i < flags->mount_count; i++) {
        const struct atoll_recipe_mount *m = &flags->mounts[i];
        const struct atoll_make_secret *secret =
            m->type == ATOLL_RECIPE_MOUNT_SECRET && m->env
                ? find_secret(stage->make, m->id ? m->id : m->env)
                : NULL;
        if (secret)
            all[count + added++] = atoll_make_job_textf(job, "%s=%.*s", m->env, (int)secret->len,
                                                        (const char *)secret->bytes);
    }
    return all;
}

/* --- the command --- */

/* NULL: the job is too large, as for the other lists. */
static const char *const *words(struct atoll_make_job *job, const json_t *list)
{
    size_t n = json_array_size(list);
    const char **argv = atoll_make_job_words(job, n);

    for (size_t i = 0; argv && i < n; i++)
        argv[i] = atoll_make_job_textf(job, "%s", json_string_value(json_array_get(list, i)));
    return argv;
}

/* A script that begins with "#!" is a file to execute. */
static int add_script(struct atoll_make_job *job, const char *text, const char *const **ret_argv,
                      struct atoll_error *err)
{
    const struct atoll_make_job_file file = {SCRIPT, 0755, text, strlen(text)};
    const char **argv = atoll_make_job_words(job, 1);
    int r = atoll_make_job_add_cache(job, ATOLL_CACHE_SCRATCH, SCRIPT_DIRECTORY, NULL, err);

    if (argv)
        argv[0] = SCRIPT;
    *ret_argv = argv;
    return r < 0 ? r : atoll_make_job_add_file(job, &file, err);
}

static int set_argv(struct atoll_make_stage *stage, struct atoll_make_job *job, json_t *facts,
                    struct atoll_make_job_command *command, struct atoll_error *err)
{
    const struct atoll_recipe_step *step = &stage->now;
    bool is_script = false;
    const char *text;
    json_t *shell;
    const char **argv;

    if (step->json) {
        argv = atoll_make_job_words(job, step->arg_count);
        if (argv)
            memcpy(argv, step->args, step->arg_count * sizeof(*argv));
        command->argv = argv;
        return 0;
    }
    text = atoll_dockerfile_script(&job->memory, step, &is_script);
    if (!text)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM, "the command is too long");
    if (is_script && strncmp(text, "#!", 2) == 0)
        return add_script(job, text, &command->argv, err);
    shell = atoll_image_config_shell(stage->config, text);
    if (!shell)
        abort();
    command->argv = words(job, shell);
    (void)json_object_set_new(facts, "argv", shell);
    return 0;
}

static int set_network(const struct atoll_make_stage *stage, struct atoll_make_job *job,
                       struct atoll_error *err)
{
    const char *network = stage->now.flags.network;

    job->network = stage->make->network;
    job->policy = stage->make->policy ? atoll_make_job_textf(job, "%s", stage->make->policy) : NULL;
    if (network && strcmp(network, "none") == 0)
        job->network = ATOLL_NETWORK_NONE;
    if (network && strcmp(network, "host") == 0)
        return atoll_fail(err, ATOLL_ERR_PERMISSION_DENIED, EPERM,
                          "steps have no access to the network of the host: remove --network=host");
    if (stage->now.flags.security && strcmp(stage->now.flags.security, "insecure") == 0)
        return atoll_fail(err, ATOLL_ERR_PERMISSION_DENIED, EPERM,
                          "steps are not privileged: remove --security=insecure");
    return 0;
}

int atoll_stage_compose_run(struct atoll_make_stage *stage, struct atoll_make_job *job,
                            json_t *facts, struct atoll_error *err)
{
    const char *user = atoll_config_text(stage->config, "User");
    const char *directory = atoll_config_text(stage->config, "WorkingDir");
    struct atoll_make_job_command command = {
        .what = "the command",
        .user = atoll_make_job_textf(job, "%s", *user ? user : "root"),
        .cwd = atoll_make_job_textf(job, "%s", *directory ? directory : "/"),
    };
    int r = set_network(stage, job, err);

    if (r == 0)
        r = add_mounts(stage, job, facts, err);
    if (r == 0)
        r = set_argv(stage, job, facts, &command, err);
    if (r < 0)
        return r;
    command.env = add_secret_env(stage, job, atoll_stage_env(stage, job));
    return atoll_make_job_add_command(job, &command, err);
}

/*
 * Creates a session in steps: create the sandbox, check that it has the programs the environment
 * requires, write the files, run the start command, add the session. If a step fails, the sandbox
 * is destroyed.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/text.h"
#include "engine/artifact/artifacts.h"
#include "engine/provider/providers.h"
#include "session/sessions_internal.h"

#define WHO "the daemon, because its session could not be made"

/* Where to search for programs; the same as the agent's default PATH. */
static const char *const program_dirs[] = {"/usr/local/bin",  "/usr/bin",  "/bin",
                                           "/usr/local/sbin", "/usr/sbin", "/sbin"};

struct creating {
    struct atoll_sessions *sessions;
    const struct atoll_session_create *create; /* borrowed */
    struct atoll_session *session;             /* owned until it is added */
    json_t *requires, *start;                  /* referenced */
    size_t requirement, dir;                   /* being searched for */
    char **env;                                /* owned */
    struct atoll_session_writer writer;
    struct atoll_error error; /* why the sandbox is being destroyed */
    atoll_session_fn *done;
    void *arg;
};

static void free_env(char **env)
{
    for (size_t i = 0; env && env[i]; i++)
        free(env[i]);
    free(env);
}

static void finish(struct creating *c, struct atoll_session *session,
                   const struct atoll_error *error)
{
    c->done(c->arg, session, error);
    json_decref(c->requires);
    json_decref(c->start);
    free_env(c->env);
    free(c->session);
    free(c);
}

static void taken_down(void *arg, const struct atoll_error *error)
{
    struct creating *c = arg;

    (void)error; /* the engine logs a failed destroy */
    finish(c, NULL, &c->error);
}

static void give_up(struct creating *c, const struct atoll_error *error)
{
    c->error = *error;
    atoll_artifacts_unwant(c->sessions->engine, c->session->sandbox_id);
    atoll_engine_destroy(c->sessions->engine, c->session->sandbox_id, WHO, taken_down, c);
}

/* The last step: adds the session. */
static void keep(struct creating *c)
{
    struct atoll_session *session = ATOLL_TAKE_PTR(c->session);
    char sandbox_id[ATOLL_ID_LEN + 1];
    struct atoll_error error;

    memcpy(sandbox_id, session->sandbox_id, sizeof(sandbox_id));
    if (atoll_sessions_add(c->sessions, session, &error) == 0) {
        finish(c, session, NULL);
        return;
    }
    c->error = error;
    atoll_engine_destroy(c->sessions->engine, sandbox_id, WHO, taken_down, c);
}

static void started(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct creating *c = arg;
    struct atoll_error wrapped;
    struct atoll_exec_view view;

    if (error) {
        wrapped = *error;
        (void)atoll_wrap(&wrapped, "the start command of environment %s", c->session->environment);
        give_up(c, &wrapped);
        return;
    }
    atoll_exec_get(exec, &view);
    (void)!atoll_text_copy(c->session->start_exec, sizeof(c->session->start_exec), view.id);
    keep(c);
}

static void run_start(struct creating *c)
{
    size_t n = json_array_size(c->start);
    const char **argv;
    struct atoll_exec_start start;

    if (n == 0) {
        keep(c);
        return;
    }
    argv = atoll_session_alloc((n + 1) * sizeof(*argv));
    for (size_t i = 0; i < n; i++)
        argv[i] = json_string_value(json_array_get(c->start, i));
    start = (struct atoll_exec_start){.argv = argv};
    atoll_engine_exec(c->sessions->engine, c->session->sandbox_id, &start, started, c);
    free(argv);
}

static void written(void *arg, const struct atoll_error *error)
{
    struct creating *c = arg;

    if (error)
        give_up(c, error);
    else
        run_start(c);
}

/* Required programs. */

static void look(struct creating *c);

static void lacks(struct creating *c, const json_t *requirement)
{
    const struct atoll_sandbox *sandbox =
        atoll_engine_find(c->sessions->engine, c->session->sandbox_id);
    const char *program = json_string_value(json_object_get(requirement, "program"));
    const char *language = c->create->language;
    struct atoll_sandbox_view view = {.image = ""};
    struct atoll_environment e;
    struct atoll_error error;

    if (!language &&
        atoll_environment_find(c->sessions->registry, c->session->environment, &e, &error) == 0)
        language = e.language;

    if (sandbox)
        atoll_sandbox_get(sandbox, &view);
    if (*view.image)
        (void)atoll_fail(
            &error, ATOLL_ERR_FAILED_PRECONDITION, ENOENT,
            "environment %s needs the program \"%s\", which the image %.120s of provider "
            "%s does not have; name an image that has it",
            c->session->environment, program, view.image, view.provider);
    else
        (void)atoll_fail(
            &error, ATOLL_ERR_FAILED_PRECONDITION, ENOENT,
            "environment %s needs the program \"%s\", which its template does not have; "
            "install it where the template comes from (%s)",
            c->session->environment, program,
            json_string_value(json_object_get(requirement, "install")));
    if (sandbox && language)
        atoll_advise_language(sandbox, language, &error);
    give_up(c, &error);
}

static void looked(void *arg, const struct atoll_am_entry *entry, const struct atoll_error *error)
{
    struct creating *c = arg;

    if (entry && entry->type != ATOLL_ENTRY_DIRECTORY) {
        c->requirement++;
        c->dir = 0;
        look(c);
    } else if (error && error->kind != ATOLL_ERR_NOT_FOUND) {
        give_up(c, error);
    } else if (++c->dir < ATOLL_ARRAY_LEN(program_dirs)) {
        look(c);
    } else {
        lacks(c, json_array_get(c->requires, c->requirement));
    }
}

static void look(struct creating *c)
{
    const json_t *requirement = json_array_get(c->requires, c->requirement);
    char path[100];

    if (!requirement) {
        atoll_session_write(&c->writer, c->sessions->engine, c->session->sandbox_id,
                            c->create->files, c->create->file_count, written, c);
        return;
    }
    (void)snprintf(path, sizeof(path), "%s/%s", program_dirs[c->dir],
                   json_string_value(json_object_get(requirement, "program")));
    atoll_files_stat(c->sessions->engine, c->session->sandbox_id, NULL, path, looked, c);
}

/* Creating the sandbox. */

static void created(void *arg, struct atoll_sandbox *sandbox, const struct atoll_error *error)
{
    struct creating *c = arg;
    struct atoll_sandbox_view view;

    if (error) {
        finish(c, NULL, error);
        return;
    }
    atoll_sandbox_get(sandbox, &view);
    (void)!atoll_text_copy(c->session->sandbox_id, sizeof(c->session->sandbox_id), view.id);
    c->session->created_unix_ms = view.created_unix_ms;
    look(c);
}

static bool is_given(const char *const *env, const char *name)
{
    size_t n = strlen(name);

    for (; env && *env; env++)
        if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
            return true;
    return false;
}

/* The request's variables, then those of the environment that the request does not set. */
static char **merge_env(const json_t *base, const char *const *given)
{
    size_t count = json_object_size(base), i = 0;
    json_t *value, *object = (json_t *)base;
    const char *name;
    char **env;

    for (const char *const *p = given; p && *p; p++)
        count++;
    env = atoll_session_alloc((count + 1) * sizeof(*env));
    for (const char *const *p = given; p && *p; p++)
        if (!(env[i++] = strdup(*p)))
            abort();
    json_object_foreach(object, name, value)
    {
        if (!is_given(given, name) &&
            asprintf(&env[i++], "%s=%s", name, json_string_value(value)) < 0)
            abort();
    }
    return env;
}

static struct atoll_limits merge_limits(const struct atoll_limits *base,
                                        const struct atoll_limits *given)
{
    return (struct atoll_limits){
        .memory_bytes = given->memory_bytes ? given->memory_bytes : base->memory_bytes,
        .cpu_millis = given->cpu_millis ? given->cpu_millis : base->cpu_millis,
        .pids = given->pids ? given->pids : base->pids,
        .disk_bytes = given->disk_bytes ? given->disk_bytes : base->disk_bytes,
        .inodes = given->inodes ? given->inodes : base->inodes,
        .open_files = given->open_files ? given->open_files : base->open_files,
        .timeout_s = given->timeout_s ? given->timeout_s : base->timeout_s,
        .io_bytes = given->io_bytes ? given->io_bytes : base->io_bytes,
    };
}

/* Refuses what an environment may declare but no provider supports, instead of ignoring it. */
static int check_usable(const struct atoll_environment *e, struct atoll_error *err)
{
    if (json_object_size(e->packages) > 0)
        return atoll_fail(err, ATOLL_ERR_UNIMPLEMENTED, EOPNOTSUPP,
                          "environment %s names packages; no provider installs them: build a "
                          "template that has them and name that",
                          e->name);
    return 0;
}

void atoll_sessions_create(struct atoll_sessions *sessions,
                           const struct atoll_session_create *create, atoll_session_fn *done,
                           void *arg)
{
    struct atoll_environment e;
    struct atoll_create sandbox;
    struct atoll_error error;
    struct creating *c;

    if (atoll_environment_find(sessions->registry, create->environment, &e, &error) < 0 ||
        check_usable(&e, &error) < 0) {
        done(arg, NULL, &error);
        return;
    }
    c = atoll_session_alloc(sizeof(*c));
    c->sessions = sessions;
    c->create = create;
    c->done = done;
    c->arg = arg;
    c->requires = json_incref((json_t *)e.requires);
    c->start = json_incref((json_t *)e.start);
    c->env = merge_env(e.env, create->env);
    c->session = atoll_session_alloc(sizeof(*c->session));
    atoll_rand_id(c->session->id, ATOLL_ID_LEN);
    (void)!atoll_text_copy(c->session->environment, sizeof(c->session->environment), e.name);
    (void)!atoll_text_copy(c->session->owner, sizeof(c->session->owner),
                           create->owner ? create->owner : "default");
    sandbox = (struct atoll_create){
        .image = create->image ? create->image : e.image,
        .limits = merge_limits(&e.limits, &create->limits),
        .waived = create->waived,
        .lifetime = create->lifetime,
        .env = (const char *const *)c->env,
        .env_is_common = !create->env || !*create->env,
        .metadata_json = create->metadata_json,
        .artifacts = create->artifacts,
        .session_id = c->session->id,
        .owner = create->owner,
        .provider = create->provider,
        .isolation = create->isolation,
        .language = create->language ? create->language : e.language,
        .interpreter = create->language ? create->language : e.language,
        .network = create->network,
        .gpus = create->gpus,
        .recreate = create->recreate,
        .mounts = create->mounts,
        .mount_count = create->mount_count,
        .login = create->login,
    };
    if (!sandbox.image)
        sandbox.template_name = atoll_environment_template(&e, sessions->engine);
    atoll_engine_create(sessions->engine, &sandbox, created, c);
}

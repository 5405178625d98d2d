#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/log.h"
#include "base/memory.h"
#include "git/git.h"
#include "task/task_internal.h"

/*
 * The sandbox from which a branch is pushed with credentials. The agent, or a program of the repository, may be
 * root in the task's own sandbox: it can replace git there, or configure it, and so read what git is given. So
 * the push is done in a new sandbox of the same kind, in which only git runs:
 *
 *   the branch is written as a bundle in the task's sandbox, without the commits that were cloned
 *   its id is stored; it is made
 *   the bundle is copied, through the daemon
 *   it clones the repository with the credentials, and fetches the branch from the bundle
 *   push.c pushes, and it is destroyed
 *
 * Each try of the step begins with another sandbox; one that a killed daemon has left is destroyed first
 * (docs/adr/0061-pushes-apart-from-the-agent.md).
 */
#define ID "_push_sandbox" /* fact: it exists, or is about to */
#define WHO "a task, after its push"
#define BUNDLE "/tmp/.atoll-push" /* with the number of the try, in the task's sandbox */
#define CARRIED "/tmp/atoll-push.bundle"
#define RETURNED "/tmp/atoll-push.returned"
#define BUNDLE_MAX ((uint64_t)2 << 30)
#define BUNDLE_MS (600 * 1000)
#define LIFE_S 7200 /* where the task's sandbox has no time limit */
#define NAME_MAX_BYTES 512

struct atoll_task_apart {
    struct atoll_task *task;
    void (*next)(struct atoll_task *task);  /* when it is ready, or what was asked for is done */
    void (*after)(struct atoll_task *task); /* when it is destroyed */
    bool work_tree, failed;
    struct atoll_error error;
};

const char *atoll_task_apart_id(const struct atoll_task *task)
{
    return atoll_task_fact(task, ID);
}

void atoll_task_apart_free(struct atoll_task *task)
{
    free(ATOLL_TAKE_PTR(task->apart));
}

static struct atoll_task_apart *hold(struct atoll_task *task)
{
    if (!task->apart) {
        task->apart = atoll_alloc(sizeof(*task->apart));
        task->apart->task = task;
    }
    return task->apart;
}

/* --- the end --- */

static void complete(struct atoll_task *task)
{
    struct atoll_task_apart *apart = ATOLL_TAKE_PTR(task->apart);
    struct atoll_error error = apart->error;
    bool failed = apart->failed;

    free(apart);
    atoll_task_step_done(task, failed ? &error : NULL);
}

/* The engine goes on with a removal that failed. */
static void destroyed(void *arg, const struct atoll_error *error)
{
    struct atoll_task *task = arg;

    if (error && error->kind != ATOLL_ERR_NOT_FOUND)
        atoll_log(ATOLL_LOG_WARN, "sandbox of a push is not removed yet", "task", task->id, "error",
                  error->text, NULL);
    (void)json_object_del(task->facts, ID);
    task->apart->after(task);
}

static void destroy(struct atoll_task *task, void (*after)(struct atoll_task *task))
{
    char id[ATOLL_ID_LEN + 1];

    (void)snprintf(id, sizeof(id), "%s", atoll_task_apart_id(task));
    hold(task)->after = after;
    if (*id)
        atoll_engine_destroy(task->tasks->config.engine, id, WHO, destroyed, task);
    else
        after(task);
}

void atoll_task_apart_end(struct atoll_task *task, const struct atoll_error *error)
{
    struct atoll_task_apart *apart = hold(task);

    apart->failed = error != NULL;
    if (error)
        apart->error = *error;
    destroy(task, complete);
}

static void swept(struct atoll_task *task)
{
    struct atoll_task_apart *apart = ATOLL_TAKE_PTR(task->apart);
    void (*next)(struct atoll_task *) = apart->next;

    free(apart);
    next(task);
}

void atoll_task_apart_sweep(struct atoll_task *task, void (*next)(struct atoll_task *task))
{
    hold(task)->next = next;
    destroy(task, swept);
}

static void ignore(void *arg ATOLL_UNUSED, const struct atoll_error *error ATOLL_UNUSED)
{
}

void atoll_task_apart_interrupt(struct atoll_task *task)
{
    const char *id;

    atoll_task_carry_stop(task);
    id = atoll_task_apart_id(task);
    if (*id && atoll_engine_find(task->tasks->config.engine, id))
        atoll_engine_destroy(task->tasks->config.engine, id, "the end of its task", ignore, NULL);
}

/* True: the step was stopped meanwhile, or has failed, and ends. */
static bool ends(struct atoll_task *task, const struct atoll_error *error)
{
    struct atoll_error stopped = task->steps.error;

    if (stopped.kind != ATOLL_ERR_NONE)
        error = &stopped;
    if (error)
        atoll_task_apart_end(task, error);
    return error != NULL;
}

/* The same for a command. what: "git could not …". */
static bool ends_command(struct atoll_task *task, const struct atoll_exec_result *result,
                         const char *tail, const struct atoll_error *error, const char *what)
{
    struct atoll_error failed;

    if (!error && !(result->kind == ATOLL_END_EXITED && result->code == 0)) {
        (void)atoll_fail(&failed, ATOLL_ERR_FAILED_PRECONDITION, ECHILD, "%s: %.300s", what, tail);
        error = &failed;
    }
    return ends(task, error);
}

/* --- the branch comes into it --- */

static void take_line(struct atoll_task *task, const char *line, size_t n)
{
    atoll_task_note(task, "commit", json_stringn(line, n));
}

static void fetched(struct atoll_task *task, const struct atoll_exec_result *result,
                    const char *tail, const struct atoll_error *error)
{
    if (!ends_command(task, result, tail, error, "git does not accept the commits of the agent"))
        task->apart->next(task);
}

/* Objects that come from the agent are checked as a server checks them; not by the fetch, which does not check
 * those of a bundle before git 2.46. A bundle is refused unless what it builds on is in a ref. */
static void fetch(struct atoll_task *task)
{
    static const char script[] =
        "cd \"$1\" || exit\n"
        "if test -n \"$3\"; then git update-ref refs/atoll/base \"$3\" >&2 || exit; fi\n"
        "git fetch -q --no-tags \"$2\" \"+refs/heads/$4:refs/heads/$4\" >&2 || exit\n"
        "rm -f \"$2\"\n"
        "printf '%s\\n' \"refs/heads/$4\" ${3:+\"^$3\"} | git pack-objects -q --revs --stdout |\n"
        "git index-pack --strict --stdin >/dev/null || exit\n"
        "test -z \"$5\" || GIT_LFS_SKIP_SMUDGE=1 git checkout -q \"$4\" -- >&2 || exit\n"
        "git rev-parse --verify \"refs/heads/$4^{commit}\"\n";
    const char *const argv[] = {"/bin/sh",
                                "-c",
                                script,
                                "sh",
                                ATOLL_TASK_APART_REPO,
                                CARRIED,
                                atoll_task_fact(task, "base"),
                                atoll_task_fact(task, "branch"),
                                task->apart->work_tree ? "1" : "",
                                NULL};

    atoll_task_command_run(task, &(struct atoll_task_command_request){
                                     .name = "fetch",
                                     .sandbox_id = atoll_task_apart_id(task),
                                     .argv = argv,
                                     .timeout_ms = BUNDLE_MS,
                                     .quiet = true,
                                     .line = take_line,
                                     .done = fetched,
                                 });
}

static void cloned(void *arg, const struct atoll_git_result *result ATOLL_UNUSED,
                   const struct atoll_error *error)
{
    if (!ends(arg, error))
        fetch(arg);
}

/* As the task has cloned it, but as much of the history as a rebase may need. */
static void clone(struct atoll_task *task)
{
    const json_t *depth = json_object_get(atoll_task_object(task, "repo"), "depth");
    const char *base = atoll_task_fact(task, "base");
    bool is_shallow = depth && !task->apart->work_tree;

    atoll_task_git_as_user(task, atoll_task_apart_id(task),
                           &(struct atoll_git_request){
                               .op = ATOLL_GIT_CLONE,
                               .url = atoll_task_repo_text(task, "url"),
                               .path = ATOLL_TASK_APART_REPO,
                               .ref = is_shallow ? atoll_task_repo_text(task, "branch") : NULL,
                               .commit = *base ? base : NULL,
                               .depth = is_shallow ? (uint32_t)json_integer_value(depth) : 0,
                               .bare = !task->apart->work_tree,
                           },
                           NULL, cloned);
}

static void carried(struct atoll_task *task, const struct atoll_error *error)
{
    if (!ends(task, error))
        clone(task);
}

static void bundle_name(struct atoll_task *task, char out[static 64])
{
    (void)snprintf(out, 64, BUNDLE "-%u", atoll_task_step_tries(task));
}

/* --- it is made --- */

static void created(void *arg, struct atoll_sandbox *sandbox ATOLL_UNUSED,
                    const struct atoll_error *error)
{
    struct atoll_task *task = arg;
    struct atoll_error failed;
    char bundle[64];

    if (error) {
        (void)atoll_fail(&failed, error->kind, error->errnum,
                         "the push needs a further sandbox, which keeps the credentials away from "
                         "the agent: %.220s; then `atoll task retry %s push`",
                         error->text, task->id);
        failed.retry_ms = error->retry_ms;
        error = &failed;
    }
    if (ends(task, error))
        return;
    bundle_name(task, bundle);
    atoll_task_carry(task, &(struct atoll_task_carry_request){
                               .from_id = atoll_task_fact(task, "sandbox_id"),
                               .from = bundle,
                               .to_id = atoll_task_apart_id(task),
                               .to = CARRIED,
                               .max_bytes = BUNDLE_MAX,
                               .done = carried,
                           });
}

/* A snapshot has what an agent may have changed: the template that it is based on is used instead. NULL, the default
 * of the provider: that one is removed, or retired, so that no request can name it. */
static const char *template_of(struct atoll_task *task, const char *name,
                               struct atoll_template_view *view)
{
    struct atoll_engine *engine = task->tasks->config.engine;
    struct atoll_error ignored;

    if (atoll_template_is_retired(name))
        return NULL;
    if (!atoll_templates_find(engine, task->tenant, name, view))
        return name; /* of a provider */
    while (*view->sandbox_id)
        if (!*view->parent || atoll_version_find(engine, view->parent, view, &ignored) < 0)
            return NULL;
    return atoll_template_is_retired(view->name) ? NULL : view->name;
}

/* Environment and network as the request has them. The network of a policy that the task has made is only
 * what the push needs. */
static json_t *wanted_of(const struct atoll_task *task)
{
    static const char *const names[] = {"env", "network", "networkMode"};
    const json_t *given = atoll_task_object(task, "sandbox");
    json_t *wanted = json_object(), *value;
    char host[ATOLL_TASK_HOST_MAX];

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(names); i++)
        if ((value = json_object_get(given, names[i])))
            (void)json_object_set(wanted, names[i], value);
    if (json_is_true(json_object_get(task->facts, ATOLL_TASK_OWN_NETWORK)) &&
        atoll_task_host(task, host)) {
        host[strcspn(host, ":")] = '\0';
        (void)json_object_set_new(wanted, "network",
                                  json_pack("{s:s, s:[s]}", "mode", "bridge", "allow", host));
    }
    return wanted;
}

/* What it has in common with the task's sandbox: nothing that the agent could change, such as volumes. */
static void copy_options(struct atoll_task *task, const struct atoll_sandbox_view *view,
                         struct atoll_template_view *template, const char *metadata,
                         struct atoll_options *options)
{
    bool has_image = *view->image && !view->own_image;

    options->id = atoll_task_apart_id(task);
    options->owner = task->tenant;
    options->provider = view->provider;
    options->image = has_image ? view->image : NULL;
    options->template_name = has_image ? NULL : template_of(task, view->template_name, template);
    options->limits = view->options.limits;
    if (!options->limits.timeout_s)
        options->limits.timeout_s = LIFE_S;
    options->waived = view->options.waived;
    options->service = view->options.service;
    options->region = view->options.region;
    options->credential = view->options.credential;
    options->without_start = true;
    options->metadata_json = metadata;
}

static int create(struct atoll_task *task, struct atoll_error *err)
{
    const struct atoll_tasks_config *config = &task->tasks->config;
    struct atoll_sandbox *sandbox =
        atoll_engine_find(config->engine, atoll_task_fact(task, "sandbox_id"));
    struct atoll_template_view template;
    struct atoll_options options = {0};
    struct atoll_sandbox_view view;
    json_t *wanted = wanted_of(task);
    char metadata[ATOLL_ID_LEN + 16];
    void *held = NULL;
    int r = sandbox ? 0 : atoll_engine_no_sandbox(atoll_task_fact(task, "sandbox_id"), err);

    if (r == 0)
        r = config->decode(wanted, &options, &held, err);
    if (r == 0) {
        atoll_sandbox_get(sandbox, &view);
        (void)snprintf(metadata, sizeof(metadata), "{\"task\":\"%s\"}", task->id);
        copy_options(task, &view, &template, metadata, &options);
        atoll_engine_create(config->engine, &options, created, task);
    }
    if (held)
        config->release(held);
    json_decref(wanted);
    return r;
}

/* Its id is stored before it can exist. */
static void make(struct atoll_task *task)
{
    char id[ATOLL_ID_LEN + 1];
    struct atoll_error error;

    atoll_rand_id(id, ATOLL_ID_LEN);
    atoll_task_note(task, ID, json_string(id));
    if (atoll_task_store(task, &error) < 0 || create(task, &error) < 0)
        atoll_task_apart_end(task, &error);
}

static void bundled(struct atoll_task *task, const struct atoll_exec_result *result,
                    const char *tail, const struct atoll_error *error)
{
    if (!ends_command(task, result, tail, error, "git could not make the bundle of the branch"))
        make(task);
}

void atoll_task_apart(struct atoll_task *task, bool work_tree,
                      void (*next)(struct atoll_task *task))
{
    static const char script[] = "rm -f " BUNDLE "-*\n"
                                 "exec git bundle create -q \"$1\" \"${2:+$2..}refs/heads/$3\"\n";
    struct atoll_task_apart *apart = hold(task);
    char file[64], name[32];
    const char *const argv[] = {"/bin/sh",
                                "-c",
                                script,
                                "sh",
                                file,
                                atoll_task_fact(task, "base"),
                                atoll_task_fact(task, "branch"),
                                NULL};

    apart->next = next;
    apart->work_tree = work_tree;
    bundle_name(task, file);
    (void)snprintf(name, sizeof(name), "bundle-%u", atoll_task_step_tries(task));
    atoll_task_command_run(
        task,
        &(struct atoll_task_command_request){
            .name = name, .argv = argv, .timeout_ms = BUNDLE_MS, .quiet = true, .done = bundled});
}

/* --- the server's branch goes back --- */

/* Without it the conflict can still be resolved by other means. */
static bool is_refused(struct atoll_task *task, const struct atoll_error *error)
{
    if (ends(task, NULL))
        return true;
    if (!error)
        return false;
    atoll_task_log(task, "info", "the server's branch is not in the sandbox: %s", error->text);
    task->apart->next(task);
    return true;
}

static bool is_command_refused(struct atoll_task *task, const struct atoll_exec_result *result,
                               const char *tail, const struct atoll_error *error)
{
    struct atoll_error failed;

    if (!error && !(result->kind == ATOLL_END_EXITED && result->code == 0)) {
        (void)atoll_fail(&failed, ATOLL_ERR_FAILED_PRECONDITION, ECHILD, "%.300s", tail);
        error = &failed;
    }
    return is_refused(task, error);
}

static void taken(struct atoll_task *task, const struct atoll_exec_result *result, const char *tail,
                  const struct atoll_error *error)
{
    if (!is_command_refused(task, result, tail, error))
        task->apart->next(task);
}

static void returned(struct atoll_task *task, const struct atoll_error *error)
{
    static const char script[] =
        "git fetch -q --no-tags " RETURNED " \"+$1:$1\" && rm -f " RETURNED;
    char ref[NAME_MAX_BYTES];
    const char *const argv[] = {"/bin/sh", "-c", script, "sh", ref, NULL};

    if (is_refused(task, error))
        return;
    (void)snprintf(ref, sizeof(ref), "refs/remotes/origin/%s", atoll_task_fact(task, "branch"));
    atoll_task_command_run(task, &(struct atoll_task_command_request){.name = "take-back",
                                                                      .argv = argv,
                                                                      .timeout_ms = BUNDLE_MS,
                                                                      .quiet = true,
                                                                      .done = taken});
}

static void rebundled(struct atoll_task *task, const struct atoll_exec_result *result,
                      const char *tail, const struct atoll_error *error)
{
    if (is_command_refused(task, result, tail, error))
        return;
    atoll_task_carry(task, &(struct atoll_task_carry_request){
                               .from_id = atoll_task_apart_id(task),
                               .from = RETURNED,
                               .to_id = atoll_task_fact(task, "sandbox_id"),
                               .to = RETURNED,
                               .max_bytes = BUNDLE_MAX,
                               .done = returned,
                           });
}

void atoll_task_apart_give_back(struct atoll_task *task, void (*next)(struct atoll_task *task))
{
    static const char script[] =
        "cd \"$1\" && git bundle create -q " RETURNED " \"$3\" ${2:+\"^$2\"}";
    char ref[NAME_MAX_BYTES];
    const char *const argv[] = {
        "/bin/sh", "-c", script, "sh", ATOLL_TASK_APART_REPO, atoll_task_fact(task, "base"),
        ref,       NULL};

    task->apart->next = next;
    (void)snprintf(ref, sizeof(ref), "refs/remotes/origin/%s", atoll_task_fact(task, "branch"));
    atoll_task_command_run(task, &(struct atoll_task_command_request){
                                     .name = "rebundle",
                                     .sandbox_id = atoll_task_apart_id(task),
                                     .argv = argv,
                                     .timeout_ms = BUNDLE_MS,
                                     .quiet = true,
                                     .done = rebundled,
                                 });
}

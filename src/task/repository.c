#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "engine/artifact/artifacts.h"
#include "engine/network/secrets.h"
#include "git/git.h"
#include "git/porcelain.h"
#include "git/url.h"
#include "task/task_internal.h"

/*
 * The steps of a task that use git (git/git.h). The work tree is the directory in which commands of the
 * sandbox start.
 */
#define SOURCE_WAIT_MS 600000 /* for the client's bundle */
#define RESULT ".git/atoll.bundle"
#define AUTHOR "Atoll"
#define AUTHOR_EMAIL "atoll@localhost"
#define CHANGES_MAX 1000

static const json_t *repo_of(const struct atoll_task *task)
{
    return atoll_task_object(task, "repo");
}

static const char *repo_text(const struct atoll_task *task, const char *name)
{
    return json_string_value(json_object_get(repo_of(task), name));
}

static bool is_uploaded(const struct atoll_task *task)
{
    return json_is_true(json_object_get(repo_of(task), "upload"));
}

bool atoll_task_has_repository(const struct atoll_task *task)
{
    return repo_text(task, "url") || is_uploaded(task);
}

static void run_git(struct atoll_task *task, const struct atoll_git_request *request,
                    atoll_git_fn *done)
{
    atoll_git_run(task->tasks->config.engine, atoll_task_fact(task, "sandbox_id"), request, done,
                  task);
}

int atoll_task_split_url(json_t *request, struct atoll_error *err)
{
    json_t *repo = json_object_get(request, "repo");
    const char *text = json_string_value(json_object_get(repo, "url"));
    struct atoll_git_url url;

    if (!text)
        return 0;
    if (atoll_git_url_split(text, &url, err) < 0)
        return atoll_wrap(err, "repo.url");
    (void)json_object_set_new(repo, "url", json_string(url.text));
    if (*url.username && !json_object_get(repo, "username"))
        (void)json_object_set_new(repo, "username", json_string(url.username));
    if (*url.password && !json_object_get(repo, "password"))
        (void)json_object_set_new(repo, "password", json_string(url.password));
    explicit_bzero(&url, sizeof(url));
    return 0;
}

bool atoll_task_host(const struct atoll_task *task, char out[static ATOLL_TASK_HOST_MAX])
{
    const char *text = repo_text(task, "url"), *host;
    struct atoll_git_url url;
    struct atoll_error error;

    if (!text || atoll_git_url_split(text, &url, &error) < 0)
        return false;
    host = strstr(url.server, "://");
    return host && (size_t)snprintf(out, ATOLL_TASK_HOST_MAX, "%s", host + 3) < ATOLL_TASK_HOST_MAX;
}

/* The secret that has the password, if the request has none. */
static const char *password_secret(const struct atoll_task *task)
{
    const char *given = repo_text(task, "secret");
    char host[ATOLL_TASK_HOST_MAX];

    return given                                                            ? given
           : atoll_task_host(task, host) && strcmp(host, "github.com") == 0 ? "GITHUB_TOKEN"
                                                                            : NULL;
}

/* Runs git with the credentials of the repository. host: the only server that gets them, since the agent
 * could have changed the remote. */
static void run_git_as_user(struct atoll_task *task, const struct atoll_git_request *request,
                            const char *host, atoll_git_fn *done)
{
    const char *username = repo_text(task, "username"), *password = repo_text(task, "password");
    const char *secret = password ? NULL : password_secret(task);
    struct atoll_git_request with = *request;
    struct atoll_buf value;

    atoll_buf_init_erasing(&value, ATOLL_SECRET_VALUE_MAX + 1);
    if (secret && atoll_task_key_value(task, secret, &value)) {
        password = atoll_buf_str(&value);
        username = username ? username : "x-access-token"; /* what GitHub expects with a token */
    }
    if (password || username) /* a server may want none */
        with.credentials = (struct atoll_git_credentials){username, password, host};
    run_git(task, &with, done);
    atoll_buf_done(&value);
}

/* Notes the commit that a result has. */
static void note_commit(struct atoll_task *task, const char *name,
                        const struct atoll_git_result *result)
{
    struct atoll_git_cursor cursor = {result->bytes, result->len};
    struct atoll_git_commit commit;

    if (result->op != ATOLL_GIT_LOG)
        (void)atoll_git_branch_current(&cursor); /* comes first */
    if (atoll_git_commit_next(&cursor, &commit))
        atoll_task_note(task, name, json_string(commit.hash));
}

/* --- clone --- */

static void empty_and_clone(struct atoll_task *task);

static void cloned(void *arg, const struct atoll_git_result *result,
                   const struct atoll_error *error)
{
    struct atoll_task *task = arg;

    if (error && !task->emptied && result->failure &&
        result->failure->problem == ATOLL_GIT_EXISTS) {
        empty_and_clone(task); /* the template has files there */
        return;
    }
    if (!error)
        note_commit(task, "base", result);
    atoll_task_step_done(task, error);
}

static void clone_now(struct atoll_task *task)
{
    const char *url = is_uploaded(task) ? ATOLL_TASK_BUNDLE : repo_text(task, "url");

    run_git_as_user(
        task,
        &(struct atoll_git_request){
            .op = ATOLL_GIT_CLONE,
            .url = url,
            .path = ".",
            .ref = repo_text(task, "branch"),
            .commit = repo_text(task, "commit"),
            .depth = (uint32_t)json_integer_value(json_object_get(repo_of(task), "depth")),
        },
        NULL, cloned);
}

static void emptied(struct atoll_task *task, const struct atoll_exec_result *result ATOLL_UNUSED,
                    const char *tail ATOLL_UNUSED, const struct atoll_error *error)
{
    if (error)
        atoll_task_step_done(task, error);
    else
        clone_now(task);
}

/* What an earlier try has left is removed first. */
static void empty_and_clone(struct atoll_task *task)
{
    static const char *const argv[] = {"/bin/sh", "-c",
                                       "find . -mindepth 1 -maxdepth 1 -exec rm -rf {} +", NULL};

    task->emptied = true;
    atoll_task_kill_commands(task, "a task that begins a step again");
    atoll_task_command_run(task,
                           &(struct atoll_task_command_request){
                               .name = "empty", .argv = argv, .quiet = true, .done = emptied});
}

/* The first try finds the directory as the sandbox was made. */
static void begin_clone(struct atoll_task *task)
{
    task->emptied = false;
    if (atoll_task_step_tries(task) > 1)
        empty_and_clone(task);
    else
        clone_now(task);
}

static void no_source(void *arg)
{
    struct atoll_task *task = arg;
    struct atoll_error error;

    task->wants_source = false;
    (void)atoll_fail(&error, ATOLL_ERR_FAILED_PRECONDITION, ETIMEDOUT,
                     "the client did not send the repository (POST /api/tasks/%s/source)",
                     task->id);
    atoll_task_step_done(task, &error);
}

void atoll_task_go_on(struct atoll_task *task)
{
    struct atoll_error error;

    atoll_timer_cancel(&task->timer);
    task->wants_source = false;
    atoll_task_note(task, ATOLL_TASK_SOURCE, json_string(atoll_task_fact(task, "sandbox_id")));
    if (atoll_task_store(task, &error) < 0)
        atoll_task_step_done(task, &error);
    else
        begin_clone(task);
}

/* The step is tried again, or an earlier daemon has begun it: the sandbox has the bundle already. */
static bool was_sent(const struct atoll_task *task)
{
    const char *sandbox_id = atoll_task_fact(task, ATOLL_TASK_SOURCE);

    return *sandbox_id && strcmp(sandbox_id, atoll_task_fact(task, "sandbox_id")) == 0;
}

void atoll_task_source(struct atoll_task *task)
{
    const char *url = repo_text(task, "url");

    if (is_uploaded(task) && !was_sent(task)) {
        task->wants_source = true;
        atoll_timer_set(&task->timer, task->tasks->config.loop, SOURCE_WAIT_MS, no_source, task);
        atoll_task_log(task, "info", "waiting for the repository of the client");
    } else if (url || is_uploaded(task)) {
        atoll_task_log(task, "info", "cloning the repository");
        begin_clone(task);
    } else {
        atoll_task_step_done(task, NULL);
    }
}

/* --- branch --- */

static void branched(void *arg, const struct atoll_git_result *result ATOLL_UNUSED,
                     const struct atoll_error *error)
{
    atoll_task_step_done(arg, error);
}

/* Makes the branch, or goes to it if it is there already. */
static void switched(void *arg, const struct atoll_git_result *result,
                     const struct atoll_error *error)
{
    struct atoll_task *task = arg;

    if (error && result->failure && result->failure->problem == ATOLL_GIT_REF_NOT_FOUND)
        run_git(task,
                &(struct atoll_git_request){.op = ATOLL_GIT_CHECKOUT,
                                            .ref = atoll_task_fact(task, "branch"),
                                            .create = true},
                branched);
    else
        atoll_task_step_done(task, error);
}

void atoll_task_branch(struct atoll_task *task)
{
    const char *given = atoll_task_text(task, "branch");
    char name[ATOLL_TASK_BRANCH_MAX];

    if (!atoll_task_has_repository(task)) {
        atoll_task_step_done(task, NULL);
        return;
    }
    atoll_task_branch_name(atoll_task_text(task, "instruction"), task->id, name);
    atoll_task_note(task, "branch", json_string(given ? given : name));
    atoll_task_kill_commands(task, "a task that begins a step again");
    run_git(task,
            &(struct atoll_git_request){.op = ATOLL_GIT_CHECKOUT,
                                        .ref = atoll_task_fact(task, "branch")},
            switched);
}

/* --- commit --- */

static void found_head(void *arg, const struct atoll_git_result *result,
                       const struct atoll_error *error)
{
    struct atoll_task *task = arg;

    if (!error)
        note_commit(task, "commit", result);
    if (!error && strcmp(atoll_task_fact(task, "commit"), atoll_task_fact(task, "base")) == 0) {
        (void)json_object_del(task->facts, "commit");
        atoll_task_log(task, "info", "the agent has changed nothing");
    }
    atoll_task_step_done(task, error);
}

/* The agent may have committed by itself, or an earlier daemon has. */
static void committed(void *arg, const struct atoll_git_result *result,
                      const struct atoll_error *error)
{
    struct atoll_task *task = arg;

    if (!error)
        note_commit(task, "commit", result);
    if (!error || !(result->failure && result->failure->problem == ATOLL_GIT_NOTHING_TO_COMMIT))
        atoll_task_step_done(task, error);
    else
        run_git(task, &(struct atoll_git_request){.op = ATOLL_GIT_LOG, .limit = 1}, found_head);
}

static const char *commit_text(const struct atoll_task *task, const char *name,
                               const char *otherwise)
{
    const char *text = json_string_value(json_object_get(atoll_task_object(task, "commit"), name));

    return text ? text : otherwise;
}

/* A trailer of the client is a line of its own, in the paragraph of the task's. */
static void write_message(const struct atoll_task *task, struct atoll_buf *out)
{
    const char *given = commit_text(task, "message", NULL);
    const char *trailer = commit_text(task, "trailer", "");
    size_t n = strlen(trailer);
    char subject[80];

    atoll_task_subject(atoll_task_text(task, "instruction"), subject);
    (void)!atoll_buf_appendf(out, "%s\n\n", given ? given : subject);
    while (n > 0 && trailer[n - 1] == '\n')
        n--;
    if (n > 0)
        (void)!atoll_buf_appendf(out, "%.*s\n", (int)n, trailer);
    (void)!atoll_buf_appendf(out, "Atoll-Task: %s\n", task->id);
}

static void added(void *arg, const struct atoll_git_result *result ATOLL_UNUSED,
                  const struct atoll_error *error)
{
    struct atoll_task *task = arg;
    struct atoll_buf message;

    if (error) {
        atoll_task_step_done(task, error);
        return;
    }
    atoll_buf_init(&message, 64 * 1024);
    write_message(task, &message);
    run_git(task,
            &(struct atoll_git_request){
                .op = ATOLL_GIT_COMMIT,
                .message = atoll_buf_str(&message),
                .author_name = commit_text(task, "authorName", AUTHOR),
                .author_email = commit_text(task, "authorEmail", AUTHOR_EMAIL),
            },
            committed);
    atoll_buf_done(&message);
}

/* Files that differ from the commit that was cloned, as far as the agent has not committed them. */
static void note_changes(struct atoll_task *task, const struct atoll_git_result *result)
{
    struct atoll_git_cursor cursor = {result->bytes, result->len};
    struct atoll_git_head head;
    struct atoll_git_file file;
    json_t *changes = json_array();

    atoll_git_status_head(&cursor, &head);
    while (json_array_size(changes) < CHANGES_MAX && atoll_git_status_next(&cursor, &file)) {
        enum atoll_git_state state =
            file.worktree == ATOLL_GIT_UNMODIFIED ? file.staging : file.worktree;
        (void)json_array_append_new(
            changes,
            json_pack("{s:s%, s:s}", "path", file.path, strnlen(file.path, 4096), "state",
                      state == ATOLL_GIT_UNTRACKED ? "added" : atoll_git_state_name(state)));
    }
    atoll_task_note(task, "changes", changes);
}

static void looked(void *arg, const struct atoll_git_result *result,
                   const struct atoll_error *error)
{
    struct atoll_task *task = arg;

    if (error) {
        atoll_task_step_done(task, error);
        return;
    }
    note_changes(task, result);
    run_git(task, &(struct atoll_git_request){.op = ATOLL_GIT_ADD, .all = true}, added);
}

void atoll_task_commit(struct atoll_task *task)
{
    if (!atoll_task_has_repository(task)) {
        atoll_task_step_done(task, NULL);
        return;
    }
    atoll_task_kill_commands(task, "a task whose agent has ended");
    run_git(task, &(struct atoll_git_request){.op = ATOLL_GIT_STATUS}, looked);
}

/* --- push --- */

/* The server has commits that the branch lacks: a retry takes them in first. */
static void behind(struct atoll_task *task)
{
    struct atoll_error error;

    atoll_task_note(task, "behind", json_true());
    (void)atoll_fail(&error, ATOLL_ERR_FAILED_PRECONDITION, EEXIST,
                     "the branch %.100s of the server has commits that this one lacks; `atoll task "
                     "retry %s push` puts the task's commits on top of them, and pushes",
                     atoll_task_fact(task, "branch"), task->id);
    atoll_task_step_done(task, &error);
}

static void pushed(void *arg, const struct atoll_git_result *result,
                   const struct atoll_error *error)
{
    struct atoll_task *task = arg;

    if (error && result->failure && result->failure->problem == ATOLL_GIT_NON_FAST_FORWARD) {
        behind(task);
        return;
    }
    if (!error) {
        atoll_task_note(task, "pushed", json_true());
        (void)json_object_del(task->facts, "behind");
        atoll_task_log(task, "info", "pushed %s", atoll_task_fact(task, "branch"));
    }
    atoll_task_step_done(task, error);
}

static void bundled(struct atoll_task *task, const struct atoll_exec_result *result,
                    const char *tail, const struct atoll_error *error)
{
    static const char *const patterns[] = {RESULT, NULL};
    struct atoll_error failed;

    if (!error && !(result->kind == ATOLL_END_EXITED && result->code == 0)) {
        (void)atoll_fail(&failed, ATOLL_ERR_FAILED_PRECONDITION, ECHILD,
                         "git could not make the bundle of the branch: %.300s", tail);
        error = &failed;
    }
    if (!error && atoll_artifacts_want(task->tasks->config.engine,
                                       atoll_task_fact(task, "sandbox_id"), patterns, &failed) < 0)
        error = &failed;
    if (!error)
        atoll_task_note(task, "bundle", json_string(RESULT));
    atoll_task_step_done(task, error);
}

/* The branch goes back to the client as a bundle: an artifact of the sandbox. */
static void bundle(struct atoll_task *task)
{
    const char *const argv[] = {"/bin/sh",
                                "-c",
                                "git bundle create -q " RESULT " \"$1..$2\"",
                                "sh",
                                atoll_task_fact(task, "base"),
                                atoll_task_fact(task, "branch"),
                                NULL};

    atoll_task_command_run(task, &(struct atoll_task_command_request){
                                     .name = "bundle", .argv = argv, .done = bundled});
}

static void push_now(struct atoll_task *task)
{
    char host[ATOLL_TASK_HOST_MAX] = "";

    (void)atoll_task_host(task, host);
    run_git_as_user(task,
                    &(struct atoll_git_request){.op = ATOLL_GIT_PUSH,
                                                .remote = "origin",
                                                .ref = atoll_task_fact(task, "branch"),
                                                .set_upstream = true},
                    *host ? host : NULL, pushed);
}

static void found_rebased(void *arg, const struct atoll_git_result *result,
                          const struct atoll_error *error)
{
    struct atoll_task *task = arg;

    if (!error)
        note_commit(task, "commit", result);
    if (error)
        atoll_task_step_done(task, error);
    else
        push_now(task);
}

static void given_up(struct atoll_task *task, const struct atoll_exec_result *result ATOLL_UNUSED,
                     const char *tail ATOLL_UNUSED, const struct atoll_error *error)
{
    struct atoll_error failed;

    if (!error)
        (void)atoll_fail(
            &failed, ATOLL_ERR_ABORTED, EEXIST,
            "the changes of the task and those on the server's branch %.100s conflict; "
            "merge them in the sandbox (atoll shell %s), or take another branch; then "
            "`atoll task retry %s push`",
            atoll_task_fact(task, "branch"), atoll_task_fact(task, "sandbox_id"), task->id);
    atoll_task_step_done(task, error ? error : &failed);
}

static void taken_in(void *arg, const struct atoll_git_result *result,
                     const struct atoll_error *error)
{
    static const char *const argv[] = {"/bin/sh", "-c", "git rebase --abort", NULL};
    struct atoll_task *task = arg;

    if (error && result->failure && result->failure->problem == ATOLL_GIT_CONFLICT)
        atoll_task_command_run(task,
                               &(struct atoll_task_command_request){
                                   .name = "abort", .argv = argv, .quiet = true, .done = given_up});
    else if (error)
        atoll_task_step_done(task, error);
    else
        run_git(task, &(struct atoll_git_request){.op = ATOLL_GIT_LOG, .limit = 1}, found_rebased);
}

/* Puts the task's commits on top of those that the server has. */
static void take_in(struct atoll_task *task)
{
    char host[ATOLL_TASK_HOST_MAX] = "";

    (void)atoll_task_host(task, host);
    atoll_task_log(task, "info", "taking in the commits of the server");
    run_git_as_user(task,
                    &(struct atoll_git_request){
                        .op = ATOLL_GIT_PULL,
                        .remote = "origin",
                        .ref = atoll_task_fact(task, "branch"),
                        .rebase = true,
                        .author_name = commit_text(task, "authorName", AUTHOR),
                        .author_email = commit_text(task, "authorEmail", AUTHOR_EMAIL),
                    },
                    *host ? host : NULL, taken_in);
}

static void push_or_take_in(struct atoll_task *task)
{
    if (json_is_true(json_object_get(task->facts, "behind")))
        take_in(task);
    else
        push_now(task);
}

static void alone(struct atoll_task *task, const struct atoll_exec_result *result ATOLL_UNUSED,
                  const char *tail ATOLL_UNUSED, const struct atoll_error *error)
{
    if (error)
        atoll_task_step_done(task, error);
    else
        push_or_take_in(task);
}

/* Ends what the agent has left: it could read the credentials in the memory of git. Only where the
 * sandbox's own agent is PID 1, which no process inside can kill. */
static void push_alone(struct atoll_task *task)
{
    static const char *const argv[] = {"/bin/sh", "-c", "kill -9 -1", NULL};
    const char *provider = atoll_task_fact(task, "provider");

    if (strcmp(provider, "native") == 0 || strcmp(provider, "gvisor") == 0)
        atoll_task_command_run(
            task, &(struct atoll_task_command_request){
                      .name = "alone", .argv = argv, .user = "root", .quiet = true, .done = alone});
    else
        push_or_take_in(task);
}

void atoll_task_push(struct atoll_task *task)
{
    if (!*atoll_task_fact(task, "commit") || json_is_false(atoll_task_object(task, "push")))
        atoll_task_step_done(task, NULL);
    else if (is_uploaded(task))
        bundle(task);
    else
        push_alone(task);
}

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "engine/network/secrets.h"
#include "git/git.h"
#include "git/porcelain.h"
#include "git/url.h"
#include "task/task_internal.h"

/*
 * The steps of a task that use git (git/git.h), except for the push (push.c). The work tree is the directory in which commands of the
 * sandbox start.
 */
#define SOURCE_WAIT_MS 600000 /* for the client's bundle */
#define AUTHOR "Atoll"
#define AUTHOR_EMAIL "atoll@localhost"
#define CHANGES_MAX 1000

static const json_t *repo_of(const struct atoll_task *task)
{
    return atoll_task_object(task, "repo");
}

const char *atoll_task_repo_text(const struct atoll_task *task, const char *name)
{
    return json_string_value(json_object_get(repo_of(task), name));
}

bool atoll_task_is_uploaded(const struct atoll_task *task)
{
    return json_is_true(json_object_get(repo_of(task), "upload"));
}

const char *atoll_task_repo_option(const struct atoll_task *task)
{
    return atoll_task_is_uploaded(task) ? " --repo DIR" : "";
}

bool atoll_task_has_repository(const struct atoll_task *task)
{
    return atoll_task_repo_text(task, "url") || atoll_task_is_uploaded(task);
}

static void run_git(struct atoll_task *task, const struct atoll_git_request *request,
                    atoll_git_fn *done)
{
    atoll_git_run(task->tasks->config.engine, atoll_task_fact(task, "sandbox_id"), request, done,
                  task);
}

/* Whether a task can clone from it: the sandbox has no key for SSH, and its network knows hosts by their names in
 * HTTP and TLS. A path is one of the sandbox, such as that of a volume. */
static bool is_supported(const char *url)
{
    static const char *const starts[] = {"https://", "http://", "git://", "file://", "/"};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(starts); i++)
        if (strncasecmp(url, starts[i], strlen(starts[i])) == 0)
            return true;
    return false;
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
    if (!is_supported(text))
        return atoll_fail(
            err, ATOLL_ERR_INVALID_ARGUMENT, EPROTONOSUPPORT,
            "repo.url must begin with https:// or http://; a task has no key for SSH, "
            "so give the https:// URL, with a password or token (got \"%.100s\")",
            url.text);
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
    const char *text = atoll_task_repo_text(task, "url"), *host;
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
    const char *given = atoll_task_repo_text(task, "secret");
    char host[ATOLL_TASK_HOST_MAX];

    return given                                                            ? given
           : atoll_task_host(task, host) && strcmp(host, "github.com") == 0 ? "GITHUB_TOKEN"
                                                                            : NULL;
}

bool atoll_task_has_password(const struct atoll_task *task)
{
    const char *secret = password_secret(task);
    struct atoll_buf value;
    bool found = atoll_task_repo_text(task, "password") != NULL;

    atoll_buf_init_erasing(&value, ATOLL_SECRET_VALUE_MAX + 1);
    found = found || (secret && atoll_task_key_value(task, secret, &value));
    atoll_buf_done(&value);
    return found;
}

void atoll_task_git_as_user(struct atoll_task *task, const char *sandbox_id,
                            const struct atoll_git_request *request, const char *host,
                            atoll_git_fn *done)
{
    const char *username = atoll_task_repo_text(task, "username"),
               *password = atoll_task_repo_text(task, "password");
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
    atoll_git_run(task->tasks->config.engine, sandbox_id, &with, done, task);
    atoll_buf_done(&value);
}

void atoll_task_note_commit(struct atoll_task *task, const char *name,
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
        atoll_task_note_commit(task, "base", result);
    atoll_task_step_done(task, error);
}

static void clone_now(struct atoll_task *task)
{
    const char *url =
        atoll_task_is_uploaded(task) ? ATOLL_TASK_BUNDLE : atoll_task_repo_text(task, "url");

    atoll_task_git_as_user(
        task, atoll_task_fact(task, "sandbox_id"),
        &(struct atoll_git_request){
            .op = ATOLL_GIT_CLONE,
            .url = url,
            .path = ".",
            .ref = atoll_task_repo_text(task, "branch"),
            .commit = atoll_task_repo_text(task, "commit"),
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
    const char *url = atoll_task_repo_text(task, "url");

    if (atoll_task_is_uploaded(task) && !was_sent(task)) {
        task->wants_source = true;
        atoll_timer_set(&task->timer, task->tasks->config.loop, SOURCE_WAIT_MS, no_source, task);
        atoll_task_log(task, "info", "waiting for the repository of the client");
    } else if (url || atoll_task_is_uploaded(task)) {
        atoll_task_log(task, "info", "cloning the repository");
        begin_clone(task);
    } else {
        atoll_task_step_skip(task);
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
        atoll_task_step_skip(task);
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
        atoll_task_note_commit(task, "commit", result);
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
        atoll_task_note_commit(task, "commit", result);
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

void atoll_task_author(const struct atoll_task *task, struct atoll_git_request *ret)
{
    ret->author_name = commit_text(task, "authorName", AUTHOR);
    ret->author_email = commit_text(task, "authorEmail", AUTHOR_EMAIL);
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
    struct atoll_git_request request = {.op = ATOLL_GIT_COMMIT};
    struct atoll_task *task = arg;
    struct atoll_buf message;

    if (error) {
        atoll_task_step_done(task, error);
        return;
    }
    atoll_buf_init(&message, 64 * 1024);
    write_message(task, &message);
    request.message = atoll_buf_str(&message);
    atoll_task_author(task, &request);
    run_git(task, &request, committed);
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
        atoll_task_step_skip(task);
        return;
    }
    atoll_task_kill_commands(task, "a task whose agent has ended");
    run_git(task, &(struct atoll_git_request){.op = ATOLL_GIT_STATUS}, looked);
}

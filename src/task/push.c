#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "engine/artifact/artifacts.h"
#include "git/git.h"
#include "task/task_internal.h"

/*
 * The step that pushes the branch, or gives it back as a bundle to a client that has sent the repository.
 * With credentials, the push is done in a sandbox of its own (push_apart.c).
 */
#define RESULT ".git/atoll.bundle"

static bool is_apart(const struct atoll_task *task)
{
    return *atoll_task_apart_id(task) != '\0';
}

/* Where git runs. */
static const char *place_of(const struct atoll_task *task)
{
    return is_apart(task) ? atoll_task_apart_id(task) : atoll_task_fact(task, "sandbox_id");
}

/* Only apart from the agent git gets credentials. */
static void run_git(struct atoll_task *task, const struct atoll_git_request *request,
                    atoll_git_fn *done)
{
    struct atoll_git_request there = *request;
    char host[ATOLL_TASK_HOST_MAX] = "";

    if (!is_apart(task)) {
        atoll_git_run(task->tasks->config.engine, place_of(task), request, done, task);
        return;
    }
    (void)atoll_task_host(task, host);
    there.path = ATOLL_TASK_APART_REPO;
    atoll_task_git_as_user(task, place_of(task), &there, *host ? host : NULL, done);
}

/* --- the bundle for the client --- */

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

/* --- the push --- */

/* The server has commits that the branch lacks: a retry takes them in first. */
static void behind(struct atoll_task *task)
{
    struct atoll_error error;

    atoll_task_note(task, "behind", json_true());
    (void)atoll_fail(&error, ATOLL_ERR_FAILED_PRECONDITION, EEXIST,
                     "the branch %.100s of the server has commits that this one lacks; `atoll task "
                     "retry %s push` puts the task's commits on top of them, and pushes",
                     atoll_task_fact(task, "branch"), task->id);
    atoll_task_apart_end(task, &error);
}

static void take_in(struct atoll_task *task);

/* A retry pushes first: the branch may have been merged by hand. */
static void pushed(void *arg, const struct atoll_git_result *result,
                   const struct atoll_error *error)
{
    struct atoll_task *task = arg;
    bool is_behind = json_is_true(json_object_get(task->facts, "behind"));

    if (error && result->failure && result->failure->problem == ATOLL_GIT_NON_FAST_FORWARD) {
        if (is_behind && !task->took_in)
            take_in(task);
        else
            behind(task);
        return;
    }
    if (!error) {
        atoll_task_note(task, "pushed", json_true());
        (void)json_object_del(task->facts, "behind");
        atoll_task_log(task, "info", "pushed %s", atoll_task_fact(task, "branch"));
    }
    atoll_task_apart_end(task, error);
}

static void push_now(struct atoll_task *task)
{
    run_git(task,
            &(struct atoll_git_request){.op = ATOLL_GIT_PUSH,
                                        .remote = "origin",
                                        .ref = atoll_task_fact(task, "branch"),
                                        .set_upstream = !is_apart(task)},
            pushed);
}

/* --- commits of the server are taken in --- */

static void found_rebased(void *arg, const struct atoll_git_result *result,
                          const struct atoll_error *error)
{
    struct atoll_task *task = arg;

    if (!error)
        atoll_task_note_commit(task, "commit", result);
    if (error)
        atoll_task_apart_end(task, error);
    else
        push_now(task);
}

static void refuse(struct atoll_task *task)
{
    struct atoll_error error;

    (void)atoll_fail(&error, ATOLL_ERR_ABORTED, EEXIST,
                     "the changes of the task and those on the server's branch %.100s conflict; "
                     "merge them in the sandbox (atoll shell %s), or take another branch; then "
                     "`atoll task retry %s push`",
                     atoll_task_fact(task, "branch"), atoll_task_fact(task, "sandbox_id"),
                     task->id);
    atoll_task_apart_end(task, &error);
}

static void given_up(struct atoll_task *task, const struct atoll_exec_result *result ATOLL_UNUSED,
                     const char *tail ATOLL_UNUSED, const struct atoll_error *error)
{
    if (error)
        atoll_task_apart_end(task, error);
    else
        refuse(task);
}

static void taken_in(void *arg, const struct atoll_git_result *result,
                     const struct atoll_error *error)
{
    static const char *const argv[] = {"/bin/sh", "-c", "git rebase --abort", NULL};
    struct atoll_task *task = arg;
    bool conflicts = error && result->failure && result->failure->problem == ATOLL_GIT_CONFLICT;

    if (conflicts && is_apart(task))
        atoll_task_apart_give_back(task, refuse);
    else if (conflicts)
        atoll_task_command_run(task,
                               &(struct atoll_task_command_request){
                                   .name = "abort", .argv = argv, .quiet = true, .done = given_up});
    else if (error)
        atoll_task_apart_end(task, error);
    else
        atoll_git_run(
            task->tasks->config.engine, place_of(task),
            &(struct atoll_git_request){.op = ATOLL_GIT_LOG,
                                        .path = is_apart(task) ? ATOLL_TASK_APART_REPO : NULL,
                                        .limit = 1},
            found_rebased, task);
}

/* Puts the task's commits on top of those that the server has. */
static void take_in(struct atoll_task *task)
{
    struct atoll_git_request request = {.op = ATOLL_GIT_PULL,
                                        .remote = "origin",
                                        .ref = atoll_task_fact(task, "branch"),
                                        .rebase = true};

    task->took_in = true;
    atoll_task_log(task, "info", "taking in the commits of the server");
    atoll_task_author(task, &request);
    run_git(task, &request, taken_in);
}

/* --- the step --- */

static void begin(struct atoll_task *task)
{
    task->took_in = false;
    if (atoll_task_has_password(task))
        atoll_task_apart(task, json_is_true(json_object_get(task->facts, "behind")), push_now);
    else
        push_now(task);
}

static void alone(struct atoll_task *task, const struct atoll_exec_result *result ATOLL_UNUSED,
                  const char *tail ATOLL_UNUSED, const struct atoll_error *error)
{
    if (error)
        atoll_task_step_done(task, error);
    else
        begin(task);
}

/* Ends what the agent has left: it could change the branch meanwhile. Only where the sandbox's own agent is
 * PID 1, which no process inside can kill. */
static void push_alone(struct atoll_task *task)
{
    static const char *const argv[] = {"/bin/sh", "-c", "kill -9 -1", NULL};
    const char *provider = atoll_task_fact(task, "provider");

    if (strcmp(provider, "native") == 0 || strcmp(provider, "gvisor") == 0)
        atoll_task_command_run(
            task, &(struct atoll_task_command_request){
                      .name = "alone", .argv = argv, .user = "root", .quiet = true, .done = alone});
    else
        begin(task);
}

void atoll_task_push(struct atoll_task *task)
{
    if (!*atoll_task_fact(task, "commit") || json_is_false(atoll_task_object(task, "push")))
        atoll_task_step_skip(task);
    else if (atoll_task_is_uploaded(task))
        bundle(task);
    else
        atoll_task_apart_sweep(task, push_alone);
}

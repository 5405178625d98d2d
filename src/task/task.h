#pragma once
#include <jansson.h>
#include "engine/engine.h"
#include "registry/registry.h"

/*
 * Tasks: an instruction, and optionally a repository, go in; an agent of the registry works on it in a
 * sandbox; files, a commit on a branch and a log come out.
 *
 * A task is a list of steps (steps.c). Its row is written before each step and after it, so the next
 * daemon continues where a killed one stopped. Every command of a task has a mark in its arguments by
 * which the next daemon finds it in the list of commands of the sandbox: a command that has been started
 * is never started again.
 *
 * Thread: the loop's. Nothing blocks, except for the log: a small local file. Views are borrowed until
 * control returns to the loop.
 */
struct atoll_tasks;
struct atoll_secrets;

struct atoll_tasks_config {
    struct atoll_loop *loop;
    struct atoll_engine *engine;     /* borrowed, like the others */
    struct atoll_registry *registry; /* its agents and environments */
    struct atoll_store *store;
    struct atoll_secrets *secrets;
    int state_fd;                  /* of the state directory; logs are in tasks/ */
    const char *state_dir;         /* its path */
    const char *pull_request_hook; /* a program of the operator; "": none */
    /* Decodes the member "sandbox" of a request. *ret borrows from *ret_hold until release(). */
    int (*decode)(const json_t *sandbox, struct atoll_options *ret, void **ret_hold,
                  struct atoll_error *err);
    void (*release)(void *hold);
};

/* Loads the tasks of earlier daemons. Call after atoll_engine_recover(). */
int atoll_tasks_new(const struct atoll_tasks_config *config, struct atoll_tasks **ret,
                    struct atoll_error *err) ATOLL_MUST_CHECK;
/* Continues the tasks that have not ended. */
void atoll_tasks_resume(struct atoll_tasks *tasks);
/* Frees memory; sandboxes and commands keep running. */
struct atoll_tasks *atoll_tasks_free(struct atoll_tasks *tasks);

/* From now on no waiting task begins: the next daemon begins them. */
void atoll_tasks_drain(struct atoll_tasks *tasks);

#define ATOLL_TASKS_RUNNING_MAX 64  /* of one tenant; others wait */
#define ATOLL_TASKS_WAITING_MAX 256 /* likewise; more are refused */
#define ATOLL_TASKS_ENDED_MAX 1000  /* of one tenant, that are kept */
#define ATOLL_TASK_BRANCH_MAX 200
#define ATOLL_TASK_REQUEST_MAX ((size_t)1024 * 1024)

/* Checks the request and starts the task. request: the body as in docs/agents.md, whose types have been
 * checked; its reference is taken. ret_id: ATOLL_ID_LEN + 1 bytes. INVALID_ARGUMENT, NOT_FOUND (agent,
 * environment), FAILED_PRECONDITION (a key is missing), RESOURCE_EXHAUSTED. */
int atoll_tasks_start(struct atoll_tasks *tasks, const char *tenant, json_t *request, char *ret_id,
                      struct atoll_error *err) ATOLL_MUST_CHECK;

enum atoll_task_state {
    ATOLL_TASK_WAITING,
    ATOLL_TASK_RUNNING,
    ATOLL_TASK_SUCCEEDED,
    ATOLL_TASK_FAILED,
    ATOLL_TASK_CANCELED,
};
const char *atoll_task_state_name(enum atoll_task_state state);
/* False: there is no such state. */
bool atoll_task_state_by_name(const char *name, enum atoll_task_state *ret);
/* How many tasks of all tenants are in a state. */
size_t atoll_tasks_count(struct atoll_tasks *tasks, enum atoll_task_state state);

struct atoll_task_view {
    const char *id, *tenant;
    enum atoll_task_state state;
    const char *step; /* that runs, or that failed; "" before the first and after the last */
    int percent;
    uint32_t attempt;                /* 1, and one more for each retry */
    const json_t *request;           /* without credentials */
    const json_t *facts;             /* see docs/agents.md */
    const struct atoll_error *error; /* FAILED, CANCELED: why; else kind NONE */
    const char *hint;                /* remedy for it; "": the message has all */
    int64_t created_unix_ms, started_unix_ms, ended_unix_ms;
    uint64_t log_bytes;
    bool wants_source; /* it waits for atoll_tasks_source() */
};
/* tenant NULL: of any. NOT_FOUND. */
int atoll_tasks_find(struct atoll_tasks *tasks, const char *tenant, const char *id,
                     struct atoll_task_view *ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Newest first, those older than (created, id): start with INT64_MAX and "". tenant NULL: of any. */
bool atoll_tasks_before(struct atoll_tasks *tasks, const char *tenant, int64_t created_unix_ms,
                        const char *id, struct atoll_task_view *ret);

/* Ends what runs for it. No effect on an ended task. NOT_FOUND. */
int atoll_tasks_cancel(struct atoll_tasks *tasks, const char *id, const char *who,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
/* What a retry changes of the request; NULL: nothing. */
struct atoll_task_change {
    const json_t *budget;  /* replaces members of it */
    const json_t *timeout; /* "timeoutSeconds" */
    const json_t *limits;  /* replaces members of "limits" of its sandbox */
};
/* Starts a failed or canceled task again, from `step`; NULL: from the one that failed. Without its
 * sandbox it begins anew. NOT_FOUND, INVALID_ARGUMENT (no such step), FAILED_PRECONDITION. */
int atoll_tasks_retry(struct atoll_tasks *tasks, const char *id, const char *step,
                      const struct atoll_task_change *change,
                      struct atoll_error *err) ATOLL_MUST_CHECK;
bool atoll_tasks_is_step(const char *name);

/* Forgets an ended task and its log. FAILED_PRECONDITION. */
int atoll_tasks_remove(struct atoll_tasks *tasks, const char *id,
                       struct atoll_error *err) ATOLL_MUST_CHECK;

/* `ended` is called when a task has ended, with its id. */
void atoll_tasks_on_end(struct atoll_tasks *tasks, void (*ended)(void *arg, const char *id),
                        void *arg);

/* The path in its sandbox to which a client writes the bundle of a repository, and the sandbox's id.
 * FAILED_PRECONDITION: the task does not wait for one. Call atoll_tasks_source_written() afterwards. */
#define ATOLL_TASK_BUNDLE "/tmp/.atoll-task.bundle"
int atoll_tasks_source(struct atoll_tasks *tasks, const char *id, char *ret_sandbox_id,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_tasks_source_written(struct atoll_tasks *tasks, const char *id);

/*
 * The log: lines of JSON, each an object:
 *   {"t": unix ms, "level": "info" | "command" | "error" | "success" | "output", "step": "clone",
 *    "percent": 20, "message": "…"}
 * Lines of output also have "stream" and "end", the offset behind them in that stream.
 * Copies at most n bytes from offset; returns how many, 0 at the end. NOT_FOUND.
 */
ssize_t atoll_tasks_log(struct atoll_tasks *tasks, const char *id, uint64_t offset, void *buf,
                        size_t n, struct atoll_error *err) ATOLL_MUST_CHECK;
/* fn is called from the loop when the log has grown or the state has changed, until it is unwatched. */
struct atoll_task_watch;
int atoll_tasks_watch(struct atoll_tasks *tasks, const char *id, void (*fn)(void *arg), void *arg,
                      struct atoll_task_watch **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Accepts NULL. */
struct atoll_task_watch *atoll_tasks_unwatch(struct atoll_task_watch *watch);

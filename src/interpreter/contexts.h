#pragma once
#include <jansson.h>
#include "base/buf.h"
#include "engine/engine.h"

/*
 * Contexts: interpreters that stay. A context is a driver process in a sandbox, an ordinary exec, which
 * keeps the variables of one language from call to call. Drivers are files of ours (drivers/) that the
 * first context of a language brings into the sandbox; they need nothing there but the language.
 *
 * The driver takes one JSON object per line on standard input and answers with lines on standard
 * output; what the code itself prints comes wrapped in such lines. docs/interpreter.md has both
 * formats. Lines are written by code we do not trust: they are checked here, and what reaches a caller
 * is well-formed.
 *
 * One execution at a time per context; others wait their turn. A context survives the daemon like its
 * exec does; an execution whose caller is gone is interrupted. A driver that dies takes its variables
 * along: its context says so once (in an error line where code ran, else on the standard error of the
 * next execution) and starts a new one for the next execution.
 *
 * Thread: the loop's. Callbacks may come before a call returns.
 */
struct atoll_contexts;
struct atoll_store;

struct atoll_contexts_config {
    struct atoll_loop *loop; /* borrowed, as are engine and store */
    struct atoll_engine *engine;
    struct atoll_store *store; /* NULL: nothing survives */
    const char *drivers_dir; /* where drivers/ is on the host; "" or NULL: there are no languages */
};
/* After atoll_engine_recover(). INVALID_ARGUMENT names what is wrong with the drivers. */
int atoll_contexts_new(const struct atoll_contexts_config *config, struct atoll_contexts **ret,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_contexts *atoll_contexts_free(struct atoll_contexts *contexts);

struct atoll_context_view {
    const char *id, *sandbox_id, *language, *cwd, *user;
    const char *exec_id; /* "" before its first execution */
    bool is_default;     /* the one its language is run in when none is named */
};

struct atoll_context_create {
    const char *sandbox_id;
    const char
        *language; /* python, javascript, typescript, bash, r, java; or a short form: js, ts … */
    const char *cwd;  /* NULL: the user's home */
    const char *user; /* NULL: the default one */
};
typedef void atoll_context_fn(void *arg, const struct atoll_context_view *view,
                              const struct atoll_error *error);
/* The driver runs when done comes. INVALID_ARGUMENT for a language that is none,
 * FAILED_PRECONDITION where the sandbox does not have it: says what to install. */
void atoll_contexts_create(struct atoll_contexts *contexts,
                           const struct atoll_context_create *create, atoll_context_fn *done,
                           void *arg);
/* Whether there is a driver for the language, and it uses `program`. */
bool atoll_contexts_speaks(const struct atoll_contexts *contexts, const char *language,
                           const char *program);
/* The default context of a language in a sandbox: made on first use, without its driver. */
int atoll_contexts_default(struct atoll_contexts *contexts,
                           const struct atoll_context_create *create,
                           struct atoll_context_view *ret,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
bool atoll_contexts_find(struct atoll_contexts *contexts, const char *sandbox_id, const char *id,
                         struct atoll_context_view *ret);
/* Of one sandbox, in the order they were made: start with *pos = 0; false at the end. */
bool atoll_contexts_next(struct atoll_contexts *contexts, const char *sandbox_id, size_t *pos,
                         struct atoll_context_view *ret);
/* NOT_FOUND. Executions that wait or run end with an error line. Restarted: when the new driver
 * runs. */
void atoll_contexts_restart(struct atoll_contexts *contexts, const char *sandbox_id, const char *id,
                            atoll_done_fn *done, void *arg);
void atoll_contexts_destroy(struct atoll_contexts *contexts, const char *sandbox_id, const char *id,
                            atoll_done_fn *done, void *arg);

enum atoll_context_line_kind {
    ATOLL_LINE_COUNT,  /* {"type":"number_of_executions","execution_count":n}; first */
    ATOLL_LINE_STDOUT, /* {"type":"stdout","text","timestamp"} */
    ATOLL_LINE_STDERR,
    ATOLL_LINE_RESULT, /* {"type":"result",…}: by MIME type, is_main_result, extra */
    ATOLL_LINE_ERROR,  /* {"type":"error","name","value","traceback"}; at most one */
};

struct atoll_context_run {
    const char *code;
    size_t code_len;
    const char *const *env; /* for this call only; NAME=VALUE, NULL-terminated, or NULL */
    uint32_t timeout_ms;    /* 0: none; then it is interrupted, and killed if that does not help */
};

struct atoll_context_events {
    /* json: one object, ASCII, without a newline; borrowed for the call. */
    void (*line)(void *arg, enum atoll_context_line_kind kind, const char *json, size_t n);
    /* Once, last. An error means that the code was not run, or that the sandbox is gone
     * (UNAVAILABLE): the latter may come after lines. */
    void (*ended)(void *arg, const struct atoll_error *error);
};

struct atoll_execution;
/* events->ended may come before this returns; then it returns NULL. */
struct atoll_execution *atoll_contexts_execute(struct atoll_contexts *contexts,
                                               const char *sandbox_id, const char *context_id,
                                               const struct atoll_context_run *run,
                                               const struct atoll_context_events *events,
                                               void *arg);
/* How the interpreter ended, if that is how the execution did: during the callbacks only. */
const struct atoll_exec_result *atoll_execution_end(const struct atoll_execution *execution);
bool atoll_execution_timed_out(const struct atoll_execution *execution);
/* Of the interpreter that runs it; "" while it waits. */
const char *atoll_execution_exec_id(const struct atoll_execution *execution);
/* The caller is gone: the code is interrupted, no callback comes any more. Accepts NULL. */
struct atoll_execution *atoll_execution_abandon(struct atoll_execution *execution);
/* No more lines until resumed; the driver is held back by its own pipe. */
void atoll_execution_pause(struct atoll_execution *execution);
void atoll_execution_resume(struct atoll_execution *execution);

/* An execution gathered into one answer. The caller's storage; ended is called once, after which
 * atoll_context_collect_done() is due. */
#define ATOLL_COLLECT_TEXT_MAX ((size_t)1024 * 1024)         /* of a stream */
#define ATOLL_COLLECT_RESULTS_MAX ((size_t)16 * 1024 * 1024) /* of all results */
struct atoll_context_collect {
    struct atoll_buf text[ATOLL_STREAM_STDERR + 1]; /* UTF-8, by stream number */
    bool truncated[ATOLL_STREAM_STDERR + 1];
    struct atoll_buf results; /* objects, separated by commas */
    bool results_truncated;
    bool no_memory; /* something is missing without a trace: it ends with an error */
    json_t *error;  /* name, value and traceback; owned, or NULL */
    uint64_t execution_count;
    char exec_id[33];
    bool has_end, timed_out;
    struct atoll_exec_result end; /* of the interpreter, where has_end */
    struct atoll_execution *execution;
    void (*ended)(void *arg, const struct atoll_error *error);
    void *arg;
};
void atoll_context_collect_start(struct atoll_context_collect *collect,
                                 struct atoll_contexts *contexts, const char *sandbox_id,
                                 const char *context_id, const struct atoll_context_run *run,
                                 void (*ended)(void *arg, const struct atoll_error *error),
                                 void *arg);
/* Also before it has ended: then it is abandoned. */
void atoll_context_collect_done(struct atoll_context_collect *collect);

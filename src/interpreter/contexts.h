#pragma once
#include <jansson.h>
#include "base/buf.h"
#include "engine/engine.h"

/*
 * Contexts: interpreters that keep their state. A context is a driver process in a sandbox, an
 * ordinary exec, which keeps the variables of one language from call to call. Drivers are files of
 * ours (drivers/), which the first context of a language writes into the sandbox; they need nothing
 * there but the language.
 *
 * The driver reads one JSON object per line from standard input and answers with lines on standard
 * output. Output of the code itself is wrapped in such lines. docs/interpreter.md describes both
 * formats. The lines come from untrusted code: this module checks them, and callers get well-formed
 * lines only.
 *
 * A context runs one execution at a time; further ones are queued. A context survives a restart of
 * the daemon, like its exec; an execution whose caller is gone is interrupted. If a driver dies,
 * its variables are lost. The context reports that once (in an error line if code was running, else
 * on the standard error of the next execution) and starts a new driver for the next execution.
 *
 * Thread: the loop's. Callbacks may be called before a function returns.
 */
struct atoll_contexts;
struct atoll_store;

struct atoll_contexts_config {
    struct atoll_loop *loop; /* borrowed, like engine and store */
    struct atoll_engine *engine;
    struct atoll_store *store; /* NULL: contexts are lost on restart */
    const char *drivers_dir;   /* path of drivers/ on the host; "" or NULL: no languages */
};
/* Call after atoll_engine_recover(). INVALID_ARGUMENT says what is wrong with the drivers. */
int atoll_contexts_new(const struct atoll_contexts_config *config, struct atoll_contexts **ret,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_contexts *atoll_contexts_free(struct atoll_contexts *contexts);

struct atoll_context_view {
    const char *id, *sandbox_id, *language, *cwd, *user;
    const char *exec_id; /* "" before its first execution */
    bool is_default;     /* used for its language when a request names no context */
};

struct atoll_context_create {
    const char *sandbox_id;
    /* "python", "javascript", "typescript", "bash", "r", "java", or an alias such as "js". */
    const char *language;
    const char *cwd;  /* NULL: the user's home */
    const char *user; /* NULL: the default user */
};
typedef void atoll_context_fn(void *arg, const struct atoll_context_view *view,
                              const struct atoll_error *error);
/* done is called when the driver is ready. INVALID_ARGUMENT: unknown language. FAILED_PRECONDITION:
 * the sandbox does not have the language; the text says what to install. */
void atoll_contexts_create(struct atoll_contexts *contexts,
                           const struct atoll_context_create *create, atoll_context_fn *done,
                           void *arg);
/* Whether there is a driver for the language and it runs `program`. */
bool atoll_contexts_speaks(const struct atoll_contexts *contexts, const char *language,
                           const char *program);
/* The text of the driver, borrowed; NULL: the language has no driver. Code outside of contexts can
 * use its functions (toolbox_execute.c of api/daytona). */
const uint8_t *atoll_contexts_driver(const struct atoll_contexts *contexts, const char *language,
                                     size_t *ret_len);
/* The default context of a language in a sandbox. Made on first use; its driver starts with the
 * first execution. */
int atoll_contexts_default(struct atoll_contexts *contexts,
                           const struct atoll_context_create *create,
                           struct atoll_context_view *ret,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
bool atoll_contexts_find(struct atoll_contexts *contexts, const char *sandbox_id, const char *id,
                         struct atoll_context_view *ret);
/* Iterates over the contexts of one sandbox, in the order they were made: start with *pos = 0;
 * false at the end. */
bool atoll_contexts_next(struct atoll_contexts *contexts, const char *sandbox_id, size_t *pos,
                         struct atoll_context_view *ret);
/* NOT_FOUND. Queued and running executions end with an error line. done of a restart is called when
 * the new driver is ready. */
void atoll_contexts_restart(struct atoll_contexts *contexts, const char *sandbox_id, const char *id,
                            atoll_done_fn *done, void *arg);
void atoll_contexts_destroy(struct atoll_contexts *contexts, const char *sandbox_id, const char *id,
                            atoll_done_fn *done, void *arg);

enum atoll_context_line_kind {
    ATOLL_LINE_COUNT,  /* {"type":"number_of_executions","execution_count":n}; the first line */
    ATOLL_LINE_STDOUT, /* {"type":"stdout","text","timestamp"} */
    ATOLL_LINE_STDERR,
    ATOLL_LINE_RESULT, /* {"type":"result",…}: data by MIME type, is_main_result, extra */
    ATOLL_LINE_ERROR,  /* {"type":"error","name","value","traceback"}; at most one */
};

/* errnum of FAILED_PRECONDITION: a module of the environment's list cannot be imported. */
#define ATOLL_CONTEXT_NO_MODULE ENOPKG

struct atoll_context_run {
    const char *code;
    size_t code_len;
    const char *const *env; /* for this execution only; NAME=VALUE, NULL-terminated, or NULL */
    /* 0: no limit; then the code is interrupted, and killed if it does not stop. */
    uint32_t timeout_ms;
};

struct atoll_context_events {
    /* json: one object in ASCII without a newline; borrowed during the call. */
    void (*line)(void *arg, enum atoll_context_line_kind kind, const char *json, size_t n);
    /* Called once, last. An error means that the code was not run, or that the sandbox is gone
     * (UNAVAILABLE), which can also happen after lines. */
    void (*ended)(void *arg, const struct atoll_error *error);
};

struct atoll_execution;
/* events->ended may be called before this returns; then it returns NULL. */
struct atoll_execution *atoll_contexts_execute(struct atoll_contexts *contexts,
                                               const char *sandbox_id, const char *context_id,
                                               const struct atoll_context_run *run,
                                               const struct atoll_context_events *events,
                                               void *arg);
/* How the interpreter ended, if its end ended the execution; else NULL. Valid during callbacks
 * only. */
const struct atoll_exec_result *atoll_execution_end(const struct atoll_execution *execution);
bool atoll_execution_timed_out(const struct atoll_execution *execution);
/* Exec id of the interpreter that runs the code; "" while the execution is queued. */
const char *atoll_execution_exec_id(const struct atoll_execution *execution);
/* For a caller that has disconnected: interrupts the code; no callback is called any more. Accepts
 * NULL. */
struct atoll_execution *atoll_execution_abandon(struct atoll_execution *execution);
/* Stops delivering lines until resumed; the driver then blocks on its full pipe. */
void atoll_execution_pause(struct atoll_execution *execution);
void atoll_execution_resume(struct atoll_execution *execution);

/* Collects an execution into one result. The caller owns the struct. `ended` is called once; call
 * atoll_context_collect_done() after that. */
#define ATOLL_COLLECT_TEXT_MAX ((size_t)1024 * 1024)         /* per stream */
#define ATOLL_COLLECT_RESULTS_MAX ((size_t)16 * 1024 * 1024) /* for all results */
struct atoll_context_collect {
    struct atoll_buf text[ATOLL_STREAM_STDERR + 1]; /* UTF-8, by stream number */
    bool truncated[ATOLL_STREAM_STDERR + 1];
    struct atoll_buf results; /* JSON objects, separated by commas */
    bool results_truncated;
    bool no_memory; /* output was lost for lack of memory: the execution ends with an error */
    json_t *error;  /* name, value and traceback; owned, or NULL */
    uint64_t execution_count;
    char exec_id[33];
    bool has_end, timed_out;
    struct atoll_exec_result end; /* how the interpreter ended, if has_end */
    struct atoll_execution *execution;
    void (*ended)(void *arg, const struct atoll_error *error);
    void *arg;
};
void atoll_context_collect_start(struct atoll_context_collect *collect,
                                 struct atoll_contexts *contexts, const char *sandbox_id,
                                 const char *context_id, const struct atoll_context_run *run,
                                 void (*ended)(void *arg, const struct atoll_error *error),
                                 void *arg);
/* If the execution has not ended, it is abandoned. */
void atoll_context_collect_done(struct atoll_context_collect *collect);

#pragma once
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
 * along: its context says so once (an error line) and starts a new one for the next execution.
 *
 * Thread: the loop's. Callbacks may come before a call returns.
 */
struct atoll_contexts;
struct atoll_store;

struct atoll_contexts_config {
    struct atoll_engine *engine; /* borrowed, as is store; NULL store: nothing survives */
    struct atoll_store *store;
    const char *drivers_dir; /* where drivers/ is on the host */
};
/* After atoll_engine_recover(). */
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
/* NOT_FOUND. Executions that wait or run end with an error line. */
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
/* The caller is gone: the code is interrupted, no callback comes any more. Accepts NULL. */
struct atoll_execution *atoll_execution_abandon(struct atoll_execution *execution);
/* No more lines until resumed; the driver is held back by its own pipe. */
void atoll_execution_pause(struct atoll_execution *execution);
void atoll_execution_resume(struct atoll_execution *execution);

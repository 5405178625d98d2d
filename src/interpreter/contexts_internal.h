#pragma once
#include "base/list.h"
#include "base/map.h"
#include "base/rand.h"
#include "interpreter/contexts.h"
#include "interpreter/contexts_line.h"

/*
 * Internal to contexts.
 *   contexts.c           the list of contexts
 *   contexts_load.c      contexts in the store
 *   contexts_pool.c      contexts in pooled sandboxes
 *   contexts_manifest.c  languages: drivers/manifest.json and the files it names
 *   contexts_driver.c    the interpreter of a context: its start, its output, its end
 *   contexts_ask.c       requests for executions
 *   contexts_run.c       executions, one after the other
 *   contexts_line.c      the protocol's lines
 *   contexts_collect.c   an execution collected into one result
 */
#define ATOLL_CONTEXTS_PER_SANDBOX 64
#define ATOLL_CONTEXT_QUEUE 64
#define ATOLL_CONTEXT_CODE_MAX ((size_t)16 * 1024 * 1024)
/* Bytes of queued requests of all contexts together; see base/shares.h. */
#define ATOLL_CONTEXTS_PENDING_MAX ((size_t)256 * 1024 * 1024)

#define ATOLL_LANGUAGES_MAX 32

struct atoll_language {
    char name[33];
    char file[65]; /* name of the driver's file in a sandbox */
    char **run;    /* owned, like the next two; "{driver}" is replaced by the file's path */
    char **requires, **aliases; /* programs it needs; other names of the language */
    char *install;              /* owned: how to install the programs */
    uint8_t *driver;            /* owned: content of the file */
    size_t driver_len;
};

struct atoll_contexts {
    struct atoll_contexts_config config;
    struct atoll_language languages[ATOLL_LANGUAGES_MAX];
    size_t language_count;
    struct atoll_map boxes; /* by sandbox id, of struct atoll_context_box, owned */
    int64_t last_number;
    uint64_t last_request; /* last request id; ids are unique across restarts of the daemon */
    struct atoll_shares lines, pending; /* bytes in unfinished lines and in requests, by tenant */
    struct atoll_subscription *subscription; /* owned */
};

/* The contexts of a sandbox. */
struct atoll_context_box {
    char sandbox_id[ATOLL_ID_LEN + 1];
    struct atoll_list contexts; /* in the order they were made */
    size_t count;
};

/* A callback to call when the interpreter of a context is ready. One of the functions is set. */
struct atoll_context_waiter {
    struct atoll_list node;
    atoll_context_fn *made;
    atoll_done_fn *done;
    void *arg;
};

struct atoll_context {
    unsigned refs;
    struct atoll_list node; /* in its box; unlinked once the context is removed */
    struct atoll_contexts *contexts;
    const struct atoll_language *language;
    char id[ATOLL_ID_LEN + 1], sandbox_id[ATOLL_ID_LEN + 1];
    char owner[ATOLL_SHARE_NAME_MAX]; /* tenant of the sandbox */
    char cwd[1025], user[65];         /* "": the default */
    char exec_id[33];                 /* of the interpreter; "" while none runs */
    bool is_default;
    bool is_starting; /* being created: not visible to clients yet */
    bool is_pooled;   /* in a pooled sandbox: not visible to clients, and not stored */
    bool is_used;     /* code has run in it */
    bool is_gone;
    bool was_busy; /* code was running when the previous daemon died */
    int64_t number;
    struct atoll_driver *driver;     /* referenced; NULL: not started */
    struct atoll_execution *current; /* owned */
    struct atoll_list queue;         /* of struct atoll_execution, owned */
    size_t queued;
    /* Time limit of the current execution; time to react to an interrupt. */
    struct atoll_timer limit, interrupt_grace;
    bool interrupted;
    char lost[300]; /* how an interpreter ended between executions, or "" */
    struct atoll_list waiters;
};

struct atoll_execution {
    struct atoll_list node; /* in the queue, while queued */
    struct atoll_context *context;
    uint64_t id;
    char *request; /* owned, until it is sent */
    size_t request_len;
    uint32_t timeout_ms;
    int64_t started_ms;
    char exec_id[33];
    struct atoll_context_events events; /* zeroed: abandoned */
    void *arg;
    const struct atoll_exec_result
        *end;             /* how the interpreter ended; set during the last callbacks */
    bool counted, failed; /* a count line, an error line was delivered */
    bool warned;          /* a warning about an invalid line was delivered */
    bool timed_out, paused;
    bool is_command; /* the code looks like a command line */
    bool ending;     /* detached from the context: its last callback is running or due */
};

/* The interpreter of a context. Outlives the context until no operation is in progress. */
/* Who killed an interpreter whose output could not be processed for lack of memory. */
#define ATOLL_WHO_NO_MEMORY "the daemon, because it had no memory for the output"

struct atoll_driver {
    unsigned refs;
    struct atoll_contexts *contexts;
    struct atoll_context *context; /* NULL: the context does not need it any more */
    const struct atoll_language *language;
    char sandbox_id[ATOLL_ID_LEN + 1], exec_id[33];
    size_t requirement, dir; /* being searched for */
    bool started, ready, pumping, given_up;
    bool adopted; /* started by an earlier daemon, which has read the beginning of its output */
    struct atoll_timer timer;        /* for the ready line */
    struct atoll_tenant_file *found; /* owned: the driver's file that the sandbox has already */
    size_t compared;                 /* bytes of it that are equal to ours */
    struct atoll_reader *reader;     /* owned */
    struct atoll_lines lines;
    char tail[512]; /* end of its standard error, for the error when it dies */
    size_t tail_len;
};

/* Zeroed memory; aborts when there is none. */
void *atoll_context_alloc(size_t n);
void atoll_context_unref(struct atoll_context *context);
/* Makes a context and adds it to the list; NULL: no memory. */
struct atoll_context *atoll_context_new(struct atoll_contexts *contexts, const char *sandbox_id,
                                        const struct atoll_language *language);
/* Removes all contexts of a sandbox that is gone. */
void atoll_contexts_drop_box(struct atoll_contexts *contexts, const char *sandbox_id);

/* contexts_load.c */
int atoll_contexts_load(struct atoll_contexts *contexts, struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_context_drop_row(struct atoll_contexts *contexts, const char *id);
/* Writes its row in the store. */
void atoll_context_save(const struct atoll_context *context, bool is_busy);
void atoll_context_view(const struct atoll_context *context, struct atoll_context_view *ret);
/* Makes the default context of a language in a pooled sandbox and starts its driver. */
void atoll_context_prepare(struct atoll_contexts *contexts, const char *sandbox_id,
                           const struct atoll_language *language, atoll_context_fn *done,
                           void *arg);
/* Removes it from the list; references to it stay valid. */
void atoll_context_take_out(struct atoll_context *context);
/* A callback that does nothing. */
void atoll_context_ignore(void *arg, const struct atoll_error *error);

/* contexts_pool.c */
void atoll_contexts_serve_pool(struct atoll_contexts *contexts);

/* contexts_manifest.c: dir "" or NULL: no languages. */
int atoll_languages_load(struct atoll_contexts *contexts, const char *dir,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_languages_free(struct atoll_contexts *contexts);
/* Finds a language by name or alias, ignoring case. INVALID_ARGUMENT lists the known languages. */
int atoll_language_find(const struct atoll_contexts *contexts, const char *name,
                        const struct atoll_language **ret,
                        struct atoll_error *err) ATOLL_MUST_CHECK;

/* contexts_driver.c */
/* Starts a driver for a context that has none. Calls atoll_context_ready() or _start_failed(),
 * possibly before it returns. */
void atoll_driver_start(struct atoll_context *context);
/* Takes over a driver that an earlier daemon started. */
int atoll_driver_adopt(struct atoll_context *context, struct atoll_exec *exec,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
/* Detaches the driver from its context and kills it. done may be NULL. */
void atoll_driver_discard(struct atoll_context *context, const char *who, atoll_done_fn *done,
                          void *arg);
/* Detaches the driver from its context without killing it. */
void atoll_driver_detach(struct atoll_context *context);
/* Continues to read its output, after a pause. */
void atoll_driver_pump(struct atoll_driver *driver);
void atoll_driver_write(struct atoll_driver *driver, const char *bytes, size_t n);
void atoll_driver_signal(struct atoll_driver *driver, int signo, bool tree, const char *who);
/* Kills a driver whose output cannot be read or processed; its end is reported as usual. */
void atoll_driver_give_up(struct atoll_driver *driver, const char *who);

/* Tells the engine whether the driver is idle, waiting for a request. */
void atoll_driver_set_resting(struct atoll_driver *driver, bool resting);

/* contexts_run.c: called by the driver. */
void atoll_context_ready(struct atoll_context *context);
void atoll_context_start_failed(struct atoll_context *context, const struct atoll_error *error);
/* tail: the end of its standard error, or "". */
void atoll_context_died(struct atoll_context *context, const struct atoll_exec_result *result,
                        const char *tail);
void atoll_context_on_line(struct atoll_context *context, const char *line, size_t n);
void atoll_context_on_long_line(struct atoll_context *context);
/* Sends SIGINT, and SIGKILL if the execution does not end in time. */
void atoll_context_interrupt(struct atoll_context *context);

/* contexts_ask.c */
struct atoll_execution *atoll_execution_new(struct atoll_context *context);
/* NULL with err->kind NONE: the execution has ended already, and `ended` was called. */
struct atoll_execution *atoll_context_execute(struct atoll_context *context,
                                              const struct atoll_context_run *run,
                                              const struct atoll_context_events *events, void *arg,
                                              struct atoll_error *err);
/* Starts the next queued execution if the driver is ready; starts the driver if there is none. */
void atoll_context_next(struct atoll_context *context);
/* Ends all executions with an error line, and fails those who wait for the start with ABORTED. */
void atoll_context_abort(struct atoll_context *context, const char *name, const char *why);
/* Stops code that was running when the previous daemon died. */
void atoll_context_settle(struct atoll_context *context);
void atoll_execution_free(struct atoll_execution *execution);

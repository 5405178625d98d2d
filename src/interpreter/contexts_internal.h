#pragma once
#include "base/list.h"
#include "base/map.h"
#include "base/rand.h"
#include "interpreter/contexts.h"
#include "interpreter/contexts_line.h"

/*
 * What the files of contexts share.
 *   contexts.c           which there are
 *   contexts_load.c      what is kept of them
 *   contexts_pool.c      those that wait in sandboxes nobody has yet
 *   contexts_manifest.c  languages: drivers/manifest.json and the files it names
 *   contexts_driver.c    the interpreter of a context: its start, its output, its end
 *   contexts_ask.c       asking for executions
 *   contexts_run.c       executions, one after the other
 *   contexts_line.c      the protocol's lines
 *   contexts_collect.c   an execution gathered into one answer
 */
#define ATOLL_CONTEXTS_PER_SANDBOX 64
#define ATOLL_CONTEXT_QUEUE 64
#define ATOLL_CONTEXT_CODE_MAX ((size_t)16 * 1024 * 1024)
/* Requests that wait or are being sent, of all contexts together; see base/shares.h. */
#define ATOLL_CONTEXTS_PENDING_MAX ((size_t)256 * 1024 * 1024)

#define ATOLL_LANGUAGES_MAX 32

struct atoll_language {
    char name[33];
    char file[65];              /* name of the driver's file in a sandbox */
    char **run;                 /* owned, as are the next two; "{driver}" stands for its path */
    char **requires, **aliases; /* programs it needs; other names it has */
    char *install;              /* owned: how to get the programs */
    uint8_t *driver;            /* owned: the file */
    size_t driver_len;
};

struct atoll_contexts {
    struct atoll_contexts_config config;
    struct atoll_language languages[ATOLL_LANGUAGES_MAX];
    size_t language_count;
    struct atoll_map boxes; /* by id of the sandbox, of struct atoll_context_box, owned */
    int64_t last_number;
    uint64_t last_request; /* ids of requests; never used twice, also by the next daemon */
    struct atoll_shares lines, pending;      /* bytes in unfinished lines, in requests; by tenant */
    struct atoll_subscription *subscription; /* owned */
};

/* The contexts of a sandbox. */
struct atoll_context_box {
    char sandbox_id[ATOLL_ID_LEN + 1];
    struct atoll_list contexts; /* in the order they were made */
    size_t count;
};

/* Somebody who waits for the interpreter of a context to run. One of the functions is set. */
struct atoll_context_waiter {
    struct atoll_list node;
    atoll_context_fn *made;
    atoll_done_fn *done;
    void *arg;
};

struct atoll_context {
    unsigned refs;
    struct atoll_list node; /* in its box; not there once it is gone */
    struct atoll_contexts *contexts;
    const struct atoll_language *language;
    char id[ATOLL_ID_LEN + 1], sandbox_id[ATOLL_ID_LEN + 1];
    char owner[ATOLL_SHARE_NAME_MAX]; /* of the sandbox */
    char cwd[1025], user[65];         /* "": the default */
    char exec_id[33];                 /* of the interpreter; "" while there is none */
    bool is_default;
    bool is_making;  /* nobody knows of it yet */
    bool is_waiting; /* in a sandbox of the pool: nobody knows of it either, and no row does */
    bool is_used;    /* code was run in it */
    bool is_gone;
    bool was_busy; /* when an earlier daemon died */
    int64_t number;
    struct atoll_driver *driver;     /* referenced; NULL: none, or none yet */
    struct atoll_execution *current; /* owned */
    struct atoll_list queue;         /* of struct atoll_execution, owned */
    size_t queued;
    struct atoll_timer limit, patience; /* of the current execution; until an interrupt must help */
    bool interrupted;
    char lost[300]; /* what became of an interpreter that ended between executions, or "" */
    struct atoll_list waiters;
};

struct atoll_execution {
    struct atoll_list node; /* in the queue, while it waits */
    struct atoll_context *context;
    uint64_t id;
    char *request; /* owned, until it is sent */
    size_t request_len;
    uint32_t timeout_ms;
    int64_t started_ms;
    char exec_id[33];
    struct atoll_context_events events; /* zeroed: nobody listens */
    void *arg;
    const struct atoll_exec_result *end; /* how the interpreter ended, during the last callbacks */
    bool counted, failed;                /* such a line was given */
    bool warned;                         /* of noise */
    bool timed_out, paused;
    bool ending; /* out of the context's hands: its caller is being told */
};

/* The interpreter of a context. Lives on without it until nothing is under way any more. */
/* To whom the end of an interpreter is put down whose lines found no memory. */
#define ATOLL_WHO_NO_MEMORY "the daemon, because it had no memory for its output"

struct atoll_driver {
    unsigned refs;
    struct atoll_contexts *contexts;
    struct atoll_context *context; /* NULL: nobody wants it any more */
    const struct atoll_language *language;
    char sandbox_id[ATOLL_ID_LEN + 1], exec_id[33];
    size_t requirement, dir; /* being looked for */
    bool started, ready, pumping, given_up;
    bool adopted;                    /* of an earlier daemon, which has heard its beginning */
    struct atoll_timer timer;        /* until it must be ready */
    struct atoll_tenant_file *there; /* owned: the driver that is there already, */
    size_t compared;                 /* of which so many bytes are as they should be */
    struct atoll_reader *reader;     /* owned */
    struct atoll_lines lines;
    char tail[512]; /* of its standard error: what it says when it dies */
    size_t tail_len;
};

/* Zeroed; aborts where there is no memory. */
void *atoll_context_alloc(size_t n);
void atoll_context_unref(struct atoll_context *context);
/* A new one, in the books; NULL without memory. */
struct atoll_context *atoll_context_new(struct atoll_contexts *contexts, const char *sandbox_id,
                                        const struct atoll_language *language);
/* The sandbox is gone, and the interpreters with it. */
void atoll_contexts_drop_box(struct atoll_contexts *contexts, const char *sandbox_id);

/* contexts_load.c */
int atoll_contexts_load(struct atoll_contexts *contexts, struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_context_drop_row(struct atoll_contexts *contexts, const char *id);
/* Writes its row. */
void atoll_context_save(const struct atoll_context *context, bool is_busy);
void atoll_context_view(const struct atoll_context *context, struct atoll_context_view *ret);
/* The default one of a language in a sandbox of the pool, its driver being started. */
void atoll_context_prepare(struct atoll_contexts *contexts, const char *sandbox_id,
                           const struct atoll_language *language, atoll_context_fn *done,
                           void *arg);
/* Out of the books; whoever works on it still has it. */
void atoll_context_take_out(struct atoll_context *context);
/* For callbacks nobody waits for. */
void atoll_context_ignore(void *arg, const struct atoll_error *error);

/* contexts_pool.c */
void atoll_contexts_serve_pool(struct atoll_contexts *contexts);

/* contexts_manifest.c: dir "" or NULL: no languages. */
int atoll_languages_load(struct atoll_contexts *contexts, const char *dir,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_languages_free(struct atoll_contexts *contexts);
/* By name or alias, in any case. INVALID_ARGUMENT names those there are. */
int atoll_language_find(const struct atoll_contexts *contexts, const char *name,
                        const struct atoll_language **ret,
                        struct atoll_error *err) ATOLL_MUST_CHECK;

/* contexts_driver.c */
/* Starts one for a context that has none. Leads to atoll_context_ready() or _start_failed(),
 * possibly before it returns. */
void atoll_driver_start(struct atoll_context *context);
/* Takes up the one an earlier daemon started. */
int atoll_driver_adopt(struct atoll_context *context, struct atoll_exec *exec,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
/* The context wants it no more: it is killed. done may be NULL. */
void atoll_driver_discard(struct atoll_context *context, const char *who, atoll_done_fn *done,
                          void *arg);
/* Lets go of it, as it is. */
void atoll_driver_detach(struct atoll_context *context);
/* Goes on with its output, after a pause. */
void atoll_driver_pump(struct atoll_driver *driver);
void atoll_driver_write(struct atoll_driver *driver, const char *bytes, size_t n);
void atoll_driver_signal(struct atoll_driver *driver, int signo, bool tree, const char *who);
/* It cannot be heard any more, so that it is of no use: it is killed, and its end follows. */
void atoll_driver_give_up(struct atoll_driver *driver, const char *who);

/* Whether it waits for the next request. */
void atoll_driver_rest(struct atoll_driver *driver, bool resting);

/* contexts_run.c: what the driver tells its context. */
void atoll_context_ready(struct atoll_context *context);
void atoll_context_start_failed(struct atoll_context *context, const struct atoll_error *error);
/* tail: its last words, or "". */
void atoll_context_died(struct atoll_context *context, const struct atoll_exec_result *result,
                        const char *tail);
void atoll_context_heard(struct atoll_context *context, const char *line, size_t n);
void atoll_context_heard_too_much(struct atoll_context *context);
/* Sends SIGINT, and SIGKILL if that does not help. */
void atoll_context_interrupt(struct atoll_context *context);

/* contexts_ask.c */
struct atoll_execution *atoll_execution_new(struct atoll_context *context);
/* NULL with err->kind NONE: it has ended already, and said so. */
struct atoll_execution *atoll_context_execute(struct atoll_context *context,
                                              const struct atoll_context_run *run,
                                              const struct atoll_context_events *events, void *arg,
                                              struct atoll_error *err);
/* Begins the next execution, if it can. */
void atoll_context_next(struct atoll_context *context);
/* Ends all executions with an error line, those that wait for the start with ABORTED. */
void atoll_context_abort(struct atoll_context *context, const char *name, const char *why);
/* After a daemon died while code ran: makes sure that it does not any more. */
void atoll_context_settle(struct atoll_context *context);
void atoll_execution_free(struct atoll_execution *execution);

#pragma once
#include "base/buf.h"
#include "base/list.h"
#include "base/map.h"
#include "base/rand.h"
#include "interpreter/contexts.h"
#include "session/sessions.h"

/*
 * Internal to sessions.
 */

struct atoll_session {
    char id[ATOLL_ID_LEN + 1];
    char sandbox_id[ATOLL_ID_LEN + 1];
    char environment[65];
    char owner[65];
    char start_exec[33];
    int64_t created_unix_ms;
    char *agent_config;    /* owned; JSON, or NULL */
    struct waking *waking; /* set while its sandbox is being started again; sessions_wake.c */
};

struct atoll_sessions {
    struct atoll_engine *engine;     /* borrowed */
    struct atoll_registry *registry; /* borrowed */
    struct atoll_store *store;       /* borrowed, or NULL */
    struct atoll_contexts *contexts; /* borrowed, or NULL */
    struct atoll_map by_id;          /* of struct atoll_session, owned */
    struct atoll_list runs;          /* code that is running; sessions_run.c */
};

void atoll_session_free(struct atoll_session *session);
/* Zeroed memory; aborts when there is none. */
void *atoll_session_alloc(size_t n);
/* Stores and adds a session. Takes ownership of it, also on failure. */
int atoll_sessions_add(struct atoll_sessions *sessions, struct atoll_session *session,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
/* Writes the current state of the session to the store. */
int atoll_sessions_store(struct atoll_sessions *sessions, const struct atoll_session *session,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* sessions_wake.c: starts the session's sandbox if it is stopped, then calls done. */
void atoll_session_wake(struct atoll_sessions *sessions, struct atoll_session *session,
                        atoll_done_fn *done, void *arg);
int atoll_sessions_need(struct atoll_sessions *sessions, const char *id, struct atoll_session **ret,
                        struct atoll_error *err) ATOLL_MUST_CHECK;

/* sessions_write.c: writes files into a sandbox one by one. The caller owns the struct, until
 * done. */
struct atoll_session_writer {
    struct atoll_engine *engine;
    char sandbox_id[ATOLL_ID_LEN + 1];
    const struct atoll_session_file *files; /* borrowed */
    size_t count, next;
    atoll_done_fn *done;
    void *arg;
};
void atoll_session_write(struct atoll_session_writer *w, struct atoll_engine *engine,
                         const char *sandbox_id, const struct atoll_session_file *files,
                         size_t count, atoll_done_fn *done, void *arg);

/* sessions_listing.c: a snapshot of the regular files in the working directory. */
#define ATOLL_SESSION_CODE_PREFIX ".atoll-code-"
#define ATOLL_SESSION_CODE_MAX 100 /* longest name of a file with code, in bytes */
#define ATOLL_LISTING_CODES 8

struct atoll_listing {
    struct atoll_map files; /* by path, owned */
    size_t root_len;        /* length of the directory's part of the paths */
    bool incomplete;        /* too many files, or a directory could not be read */
    json_t *ignore;         /* referenced: names of directories to skip, or NULL */
    /* Names of the first files with code that were seen. */
    char codes[ATOLL_LISTING_CODES][ATOLL_SESSION_CODE_MAX];
    size_t code_count;
    atoll_done_fn *done;
    void *arg;
};
void atoll_listing_init(struct atoll_listing *l);
void atoll_listing_done(struct atoll_listing *l);
/* Replaces the content with a new listing. done gets an error only when the working directory
 * itself cannot be read. */
void atoll_listing_take(struct atoll_listing *l, struct atoll_engine *engine,
                        const char *sandbox_id, const json_t *ignore, atoll_done_fn *done,
                        void *arg);
/* The files of `after` that are new or changed since `before` (NULL: all are new), by path. The
 * array is malloced; its paths are borrowed from `after`. At most ATOLL_SESSION_ARTIFACTS_MAX;
 * *ret_all tells whether that is all of them. */
struct atoll_session_artifact *atoll_listing_changes(const struct atoll_listing *before,
                                                     const struct atoll_listing *after,
                                                     size_t *ret_count, bool *ret_all);

/* sessions_context.c */
/* Whether code of that interpreter can run in a context. */
bool atoll_session_has_context(const struct atoll_sessions *sessions,
                               const struct atoll_interpreter *interpreter);
/* Runs code in the default context of the language; `collect` is for
 * atoll_context_collect_start(). */
void atoll_session_run_in_context(const struct atoll_sessions *sessions, const char *sandbox_id,
                                  const char *language, const struct atoll_context_run *run,
                                  struct atoll_context_collect *collect,
                                  void (*ended)(void *arg, const struct atoll_error *error),
                                  void *arg);
/* Converts the end of an execution in a context to the result of a command. error->traceback is
 * borrowed from collect. */
void atoll_session_judge(const struct atoll_context_collect *collect, int64_t duration_ms,
                         struct atoll_exec_result *ret_end, struct atoll_session_error *ret_error);

#pragma once
#include "base/buf.h"
#include "base/list.h"
#include "base/map.h"
#include "base/rand.h"
#include "interpreter/contexts.h"
#include "session/sessions.h"

/*
 * What the files of sessions share.
 */

struct atoll_session {
    char id[ATOLL_ID_LEN + 1];
    char sandbox_id[ATOLL_ID_LEN + 1];
    char environment[65];
    char owner[65];
    char start_exec[33];
    int64_t created_unix_ms;
    struct waking *waking; /* its sandbox is being started again; sessions_wake.c */
};

struct atoll_sessions {
    struct atoll_engine *engine;     /* borrowed */
    struct atoll_registry *registry; /* borrowed */
    struct atoll_store *store;       /* borrowed, or NULL */
    struct atoll_contexts *contexts; /* likewise */
    struct atoll_map by_id;          /* of struct atoll_session, owned */
    struct atoll_list runs;          /* of code that runs; sessions_run.c */
};

/* Zeroed; aborts where there is no memory. */
void *atoll_session_alloc(size_t n);
/* Keeps it from now on; takes it over, also on failure. */
int atoll_sessions_add(struct atoll_sessions *sessions, struct atoll_session *session,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
/* As it is now. */
int atoll_sessions_store(struct atoll_sessions *sessions, const struct atoll_session *session,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* sessions_wake.c: done when its sandbox runs, as far as it was only stopped. */
void atoll_session_wake(struct atoll_sessions *sessions, struct atoll_session *session,
                        atoll_done_fn *done, void *arg);
int atoll_sessions_need(struct atoll_sessions *sessions, const char *id, struct atoll_session **ret,
                        struct atoll_error *err) ATOLL_MUST_CHECK;

/* sessions_write.c: files into a sandbox, one after the other. The caller's storage, until done. */
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

/* sessions_listing.c: the regular files of the working directory at one moment. */
#define ATOLL_SESSION_CODE_PREFIX ".atoll-code-"
#define ATOLL_SESSION_CODE_MAX 100 /* bytes of such a name */
#define ATOLL_LISTING_CODES 8

struct atoll_listing {
    struct atoll_map files; /* by path, owned */
    size_t root_len;        /* of the paths' part that is the directory's */
    bool incomplete;        /* there was too much, or it could not be read */
    json_t *ignore;         /* referenced: names of directories, or NULL */
    char codes[ATOLL_LISTING_CODES]
              [ATOLL_SESSION_CODE_MAX]; /* code seen there; no more than that */
    size_t code_count;
    atoll_done_fn *done;
    void *arg;
};
void atoll_listing_init(struct atoll_listing *l);
void atoll_listing_done(struct atoll_listing *l);
/* Fills it, with nothing left of an earlier listing; done gets an error only when the directory
 * cannot be looked at at all. */
void atoll_listing_take(struct atoll_listing *l, struct atoll_engine *engine,
                        const char *sandbox_id, const json_t *ignore, atoll_done_fn *done,
                        void *arg);
/* What `after` has that `before` (NULL: nothing) has not, or not like that, by path; malloced, with
 * paths borrowed from `after`. At most ATOLL_SESSION_ARTIFACTS_MAX; *ret_all tells whether that is
 * all of it. */
struct atoll_session_artifact *atoll_listing_changes(const struct atoll_listing *before,
                                                     const struct atoll_listing *after,
                                                     size_t *ret_count, bool *ret_all);

/* sessions_context.c */
/* Whether code of that interpreter can run in a context. */
bool atoll_session_has_context(const struct atoll_sessions *sessions,
                               const struct atoll_interpreter *interpreter);
/* Runs it in the default context of the language; collect as atoll_context_collect_start() has it. */
void atoll_session_run_in_context(const struct atoll_sessions *sessions, const char *sandbox_id,
                                  const char *language, const struct atoll_context_run *run,
                                  struct atoll_context_collect *collect,
                                  void (*ended)(void *arg, const struct atoll_error *error),
                                  void *arg);
/* How it ended, as if it had been a command of its own; error->traceback is borrowed from collect. */
void atoll_session_judge(const struct atoll_context_collect *collect, int64_t duration_ms,
                         struct atoll_exec_result *ret_end, struct atoll_session_error *ret_error);

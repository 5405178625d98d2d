#pragma once
#include "engine/engine.h"
#include "interpreter/explain.h"
#include "registry/registry.h"

/*
 * Sessions: a sandbox of a registered environment, and code run in it. A session ends with its
 * sandbox, whoever ends that; it survives the daemon like its sandbox does.
 *
 * Code runs in the default context of its language (interpreter/contexts.h): files and variables stay from
 * one call to the next. Where there is no driver for the language, or the environment runs it by
 * another program than the driver, code is a file of its own in the user's home directory, run there
 * by the environment's interpreter and removed afterwards: then only files stay.
 *
 * Thread: the loop's. `done` callbacks are called exactly once, possibly before the call returns;
 * what a request points to is borrowed until then.
 * Ownership: a pointer to a session is good until control goes back to the loop.
 */
struct atoll_sessions;
struct atoll_session;

/* All borrowed; store may be NULL, then nothing survives. After atoll_engine_recover(). */
int atoll_sessions_new(struct atoll_engine *engine, struct atoll_registry *registry,
                       struct atoll_store *store, struct atoll_sessions **ret,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
/* Borrowed. Without it every run is a file of its own. */
struct atoll_contexts;
void atoll_sessions_use_contexts(struct atoll_sessions *sessions, struct atoll_contexts *contexts);
/* Drops memory; sandboxes live on. */
struct atoll_sessions *atoll_sessions_free(struct atoll_sessions *sessions);
struct atoll_registry *atoll_sessions_registry(struct atoll_sessions *sessions);

struct atoll_session_file {
    const char *path; /* absolute, or below the user's home */
    const uint8_t *bytes;
    size_t len;
    uint32_t mode; /* 0: default */
};

struct atoll_session_create {
    const char *environment;
    struct atoll_limits limits; /* 0 fields: the environment's */
    uint32_t waived;
    struct atoll_lifetime lifetime;
    const char *const *env;       /* over the environment's; NAME=VALUE, NULL-terminated, or NULL */
    const char *metadata_json;    /* or NULL */
    const char *const *artifacts; /* patterns of files to keep, or NULL */
    const char *owner;            /* NULL: "default" */
    /* As in atoll_create; an image instead of the environment's template or image. */
    const char *provider, *image, *isolation, *language;
    enum atoll_network network;
    uint32_t gpus;
    const struct atoll_mount *mounts;
    size_t mount_count;
    const struct atoll_registry_login *login;
    bool recreate;
    const struct atoll_session_file *files;
    size_t file_count;
};

typedef void atoll_session_fn(void *arg, struct atoll_session *session,
                              const struct atoll_error *error);
/* When it fails nothing is left of it. FAILED_PRECONDITION says what the environment lacks. */
void atoll_sessions_create(struct atoll_sessions *sessions,
                           const struct atoll_session_create *create, atoll_session_fn *done,
                           void *arg);
/* NULL when there is none, or its sandbox is gone. */
struct atoll_session *atoll_sessions_find(struct atoll_sessions *sessions, const char *id);
struct atoll_session *atoll_sessions_next(struct atoll_sessions *sessions, size_t *pos);
/* Done when nothing of its sandbox is left. NOT_FOUND. */
void atoll_sessions_destroy(struct atoll_sessions *sessions, const char *id, const char *who,
                            atoll_done_fn *done, void *arg);

struct atoll_session_view {
    const char *id, *sandbox_id, *environment, *owner;
    const char *start_exec; /* the environment's start command, "" where it has none */
    int64_t created_unix_ms;
};
void atoll_session_get(const struct atoll_session *session, struct atoll_session_view *ret);

/* --- running code --- */

#define ATOLL_SESSION_OUTPUT_MAX ((size_t)1024 * 1024) /* of a stream, in the result */
#define ATOLL_SESSION_ARTIFACTS_MAX 1000

struct atoll_session_execute {
    const char *code;
    size_t code_len;
    const char *language;                   /* NULL: the environment's */
    const struct atoll_session_file *files; /* written before */
    size_t file_count;
    bool has_timeout;    /* else the environment's */
    uint32_t timeout_ms; /* 0: none */
};

struct atoll_session_artifact {
    const char *path; /* below the working directory */
    uint64_t size_bytes;
    bool is_new; /* else changed */
};

struct atoll_session_result {
    const char *exec_id; /* of the command, or of the interpreter the code ran in */
    const struct atoll_exec_result *end;
    const struct atoll_context_collect *context; /* where it ran in one: results and count */
    struct {
        const uint8_t *bytes;
        size_t len;
        bool truncated;
    } streams[ATOLL_STREAM_STDERR + 1]; /* by stream number */
    struct atoll_session_error error;
    const struct atoll_session_artifact *artifacts;
    size_t artifact_count;
    bool artifacts_complete; /* false: there was too much to look at */
};

typedef void atoll_session_result_fn(void *arg, const struct atoll_session_result *result,
                                     const struct atoll_error *error);
/* An error means that the code was not run. */
void atoll_sessions_execute(struct atoll_sessions *sessions, const char *id,
                            const struct atoll_session_execute *execute,
                            atoll_session_result_fn *done, void *arg);

/* What files the working directory holds, by path; as `artifacts` above. */
typedef void atoll_session_list_fn(void *arg, const struct atoll_session_artifact *files,
                                   size_t count, bool complete, const struct atoll_error *error);
void atoll_sessions_list_files(struct atoll_sessions *sessions, const char *id,
                               atoll_session_list_fn *done, void *arg);

#pragma once
#include "engine/engine.h"
#include "interpreter/explain.h"
#include "registry/registry.h"

/*
 * Sessions: a sandbox made from a registered environment, and code that runs in it. A session ends
 * with its sandbox, however the sandbox ends. Like its sandbox it survives a restart of the daemon.
 *
 * Code runs in the default context of its language (interpreter/contexts.h): files and variables
 * are kept from one call to the next. If there is no driver for the language, or the environment
 * runs the language with another program than the driver uses, the code is written to a file in the
 * user's home directory, run there by the environment's interpreter, and the file is removed: then
 * only files are kept.
 *
 * Thread: the loop's. `done` callbacks are called exactly once, possibly before the call returns;
 * the memory that a request points to is borrowed until then. Ownership: a pointer to a session is
 * valid until control returns to the loop.
 */
struct atoll_sessions;
struct atoll_session;

/* All arguments are borrowed. store NULL: sessions are lost on restart. Call after
 * atoll_engine_recover(). */
int atoll_sessions_new(struct atoll_engine *engine, struct atoll_registry *registry,
                       struct atoll_store *store, struct atoll_sessions **ret,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
/* Borrowed. Without contexts, all code runs as files. */
struct atoll_contexts;
void atoll_sessions_use_contexts(struct atoll_sessions *sessions, struct atoll_contexts *contexts);
/* Frees memory; the sandboxes keep running. */
struct atoll_sessions *atoll_sessions_free(struct atoll_sessions *sessions);
struct atoll_registry *atoll_sessions_registry(struct atoll_sessions *sessions);

struct atoll_session_file {
    const char *path; /* absolute, or relative to the user's home */
    const uint8_t *bytes;
    size_t len;
    uint32_t mode; /* 0: default */
};

struct atoll_session_create {
    /* The name of an environment, or a container image ("python:3.12"): it runs with the environment
     * that has the image's last component as its name or alias, else with Bash. */
    const char *environment;
    const char *agent_config; /* JSON, kept for the client; or NULL */
    /* As for atoll_environment_create(); template_name stays NULL. */
    struct atoll_options sandbox;
    const struct atoll_session_file *files;
    size_t file_count;
};

typedef void atoll_session_fn(void *arg, struct atoll_session *session,
                              const struct atoll_error *error);
/* On failure the sandbox is destroyed. FAILED_PRECONDITION says what the environment lacks. */
void atoll_sessions_create(struct atoll_sessions *sessions,
                           const struct atoll_session_create *create, atoll_session_fn *done,
                           void *arg);
/* NULL when the session does not exist or its sandbox is gone. */
struct atoll_session *atoll_sessions_find(struct atoll_sessions *sessions, const char *id);
struct atoll_session *atoll_sessions_next(struct atoll_sessions *sessions, size_t *pos);
/* done is called after the sandbox is destroyed. NOT_FOUND. */
void atoll_sessions_destroy(struct atoll_sessions *sessions, const char *id, const char *who,
                            atoll_done_fn *done, void *arg);

struct atoll_session_view {
    const char *id, *sandbox_id, *environment, *owner;
    const char *start_exec;   /* exec id of the environment's start command, "" if it has none */
    const char *agent_config; /* or NULL */
    int64_t created_unix_ms;
};
void atoll_session_get(const struct atoll_session *session, struct atoll_session_view *ret);

/* --- running code --- */

#define ATOLL_SESSION_OUTPUT_MAX ((size_t)1024 * 1024) /* per stream, in the result */
#define ATOLL_SESSION_ARTIFACTS_MAX 1000

struct atoll_session_execute {
    const char *code;
    size_t code_len;
    const char *language;                   /* NULL: the environment's default */
    const struct atoll_session_file *files; /* written before the code runs */
    size_t file_count;
    bool has_timeout;    /* false: the environment's */
    uint32_t timeout_ms; /* 0: no limit */
};

struct atoll_session_artifact {
    const char *path; /* relative to the working directory */
    uint64_t size_bytes;
    bool is_new; /* false: changed */
};

struct atoll_session_result {
    const char *exec_id; /* of the command, or of the interpreter the code ran in */
    const struct atoll_exec_result *end;
    /* Results and count; NULL when the code ran as a file. */
    const struct atoll_context_collect *context;
    struct {
        const uint8_t *bytes;
        size_t len;
        bool truncated;
    } streams[ATOLL_STREAM_STDERR + 1]; /* by stream number */
    struct atoll_session_error error;
    const struct atoll_session_artifact *artifacts;
    size_t artifact_count;
    bool artifacts_complete; /* false: too many files to compare all */
};

typedef void atoll_session_result_fn(void *arg, const struct atoll_session_result *result,
                                     const struct atoll_error *error);
/* An error means that the code was not run. */
void atoll_sessions_execute(struct atoll_sessions *sessions, const char *id,
                            const struct atoll_session_execute *execute,
                            atoll_session_result_fn *done, void *arg);

/* Lists the files of the working directory by path; `complete` is as artifacts_complete. */
typedef void atoll_session_list_fn(void *arg, const struct atoll_session_artifact *files,
                                   size_t count, bool complete, const struct atoll_error *error);
void atoll_sessions_list_files(struct atoll_sessions *sessions, const char *id,
                               atoll_session_list_fn *done, void *arg);

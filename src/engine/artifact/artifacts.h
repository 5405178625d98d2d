#pragma once
#include "engine/engine.h"

/*
 * Artifacts: files of a sandbox that are kept when it is destroyed. Which ones is said by patterns
 * (base/glob.h) of paths below the working directory, when it is made or when it is destroyed. They
 * are copied through the agent before anything of the sandbox is taken down; nothing that goes
 * wrong with that prevents the destruction, and what was left out is said.
 *
 * Copies are in the state directory, artifacts/<sandbox id>/<number>, until somebody removes them,
 * their time is over or newer ones need the room.
 *
 * Blocking: local files, at most 256 KiB a turn of the loop, and the store. Thread: the loop's.
 */

#define ATOLL_ARTIFACTS_PATTERNS_MAX 64
#define ATOLL_ARTIFACTS_PATTERN_BYTES 256
#define ATOLL_ARTIFACTS_FILES_MAX 1000
#define ATOLL_ARTIFACTS_BYTES_MAX (UINT64_C(256) << 20) /* of one sandbox */

/* Whether patterns (NULL-terminated) can be used. INVALID_ARGUMENT. */
int atoll_artifacts_check(const char *const *patterns, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Adds to what is to be kept of a sandbox. NOT_FOUND, INVALID_ARGUMENT, FAILED_PRECONDITION when it
 * is ending or this daemon keeps nothing. */
int atoll_artifacts_want(struct atoll_engine *engine, const char *sandbox_id,
                         const char *const *patterns, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Nothing is to be kept of it after all. */
void atoll_artifacts_unwant(struct atoll_engine *engine, const char *sandbox_id);

/* What is kept of one sandbox. Borrowed until control goes back to the loop. */
struct atoll_artifacts_view {
    const char *sandbox_id, *session_id, *owner; /* session_id "": it was none's */
    bool complete;
    const char *reason; /* why it is not */
    uint32_t count;
    uint64_t size_bytes;
    int64_t created_unix_ms, expires_unix_ms;
};
/* False when nothing of that sandbox, or session, is kept. */
bool atoll_artifacts_find(struct atoll_engine *engine, const char *sandbox_id,
                          struct atoll_artifacts_view *ret);
bool atoll_artifacts_find_session(struct atoll_engine *engine, const char *session_id,
                                  struct atoll_artifacts_view *ret);
/* Walks them, oldest first: start with *pos = NULL; false at the end. */
bool atoll_artifacts_next(struct atoll_engine *engine, const void **pos,
                          struct atoll_artifacts_view *ret);

struct atoll_artifact {
    const char *path; /* below the working directory */
    uint64_t size_bytes;
    int64_t mtime_ms;
};
/* Calls each() for every file, by path. INTERNAL. */
int atoll_artifacts_files(struct atoll_engine *engine, const char *sandbox_id,
                          void (*each)(void *arg, const struct atoll_artifact *file), void *arg,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* A descriptor the caller owns. NOT_FOUND. */
int atoll_artifacts_open(struct atoll_engine *engine, const char *sandbox_id, const char *path,
                         int *ret_fd, uint64_t *ret_size_bytes,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* NOT_FOUND. */
int atoll_artifacts_remove(struct atoll_engine *engine, const char *sandbox_id,
                           struct atoll_error *err) ATOLL_MUST_CHECK;

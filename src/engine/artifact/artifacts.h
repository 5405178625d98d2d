#pragma once
#include "engine/engine.h"

/*
 * Artifacts: files of a sandbox that are kept when it is destroyed, or captured while it runs. They are
 * selected by patterns (base/glob.h) of paths relative to the working directory, given when the sandbox is
 * created or destroyed, or with the capture. The files are copied through the agent before the sandbox is destroyed. A failure does
 * not prevent the destroy; the listing says what was left out.
 *
 * Copies are in the state directory, artifacts/<sandbox id>/<number>, until a client removes them,
 * they expire, or newer ones need the room.
 *
 * Blocking: local files, at most 256 KiB per iteration of the loop, and the store. Thread: the
 * loop's.
 */

#define ATOLL_ARTIFACTS_PATTERNS_MAX 64
#define ATOLL_ARTIFACTS_PATTERN_BYTES 256
/* Not a pattern of files: those that .gitignore files exclude are left out (base/ignore.h). */
#define ATOLL_ARTIFACTS_GITIGNORE ":gitignore"
#define ATOLL_ARTIFACTS_FILES_MAX 1000
#define ATOLL_ARTIFACTS_BYTES_MAX (UINT64_C(256) << 20) /* per sandbox */

/* Checks patterns (NULL-terminated). INVALID_ARGUMENT. */
int atoll_artifacts_check(const char *const *patterns, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Adds patterns to a sandbox. NOT_FOUND, INVALID_ARGUMENT; FAILED_PRECONDITION when it is being
 * destroyed or this daemon keeps no artifacts. */
int atoll_artifacts_want(struct atoll_engine *engine, const char *sandbox_id,
                         const char *const *patterns, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Removes all patterns of a sandbox. */
void atoll_artifacts_unwant(struct atoll_engine *engine, const char *sandbox_id);
/* Copies the files of a running sandbox now, in place of those that an earlier capture has copied. patterns
 * NULL: those that the sandbox has; without any nothing is done. NOT_FOUND, INVALID_ARGUMENT,
 * FAILED_PRECONDITION (it does not run), ABORTED (it ended meanwhile). done is called once, possibly before
 * this returns; not if the engine is freed first. */
void atoll_artifacts_capture(struct atoll_engine *engine, const char *sandbox_id,
                             const char *const *patterns, atoll_done_fn *done, void *arg);

/* The artifacts of one sandbox. Borrowed until control returns to the loop. */
struct atoll_artifacts_view {
    const char *sandbox_id, *session_id, *owner; /* session_id "": no session */
    bool complete;
    const char *reason; /* why it is incomplete */
    uint32_t count;
    uint64_t size_bytes;
    int64_t created_unix_ms, expires_unix_ms;
};
/* False when there are no artifacts of that sandbox, or session. */
bool atoll_artifacts_find(struct atoll_engine *engine, const char *sandbox_id,
                          struct atoll_artifacts_view *ret);
bool atoll_artifacts_find_session(struct atoll_engine *engine, const char *session_id,
                                  struct atoll_artifacts_view *ret);
/* Iterates, oldest first: start with *pos = NULL; false at the end. */
bool atoll_artifacts_next(struct atoll_engine *engine, const void **pos,
                          struct atoll_artifacts_view *ret);

struct atoll_artifact {
    const char *path; /* relative to the working directory */
    uint64_t size_bytes;
    int64_t mtime_ms;
};
/* Calls each() for every file, in order of paths. INTERNAL. */
int atoll_artifacts_files(struct atoll_engine *engine, const char *sandbox_id,
                          void (*each)(void *arg, const struct atoll_artifact *file), void *arg,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* Opens a file; the caller owns the descriptor. NOT_FOUND. */
int atoll_artifacts_open(struct atoll_engine *engine, const char *sandbox_id, const char *path,
                         int *ret_fd, uint64_t *ret_size_bytes,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* NOT_FOUND. */
int atoll_artifacts_remove(struct atoll_engine *engine, const char *sandbox_id,
                           struct atoll_error *err) ATOLL_MUST_CHECK;

#pragma once
#include "engine/engine.h"

/*
 * The commands of a sandbox with checkpoints: what each changed, going back before them, and which one last changed a
 * path. FAILED_PRECONDITION for a sandbox without checkpoints.
 *
 * Thread: the loop's. done is called exactly once, possibly before the call returns.
 */
struct atoll_command_view {
    uint64_t number;
    const char *exec_id, *command;
    int64_t started_unix_ms;
    bool shared;                /* another command ran at the same time */
    bool has_before, has_after; /* the files are kept */
    bool counted;               /* the numbers below are known */
    uint64_t added, changed, removed, bytes;
};
#define ATOLL_HISTORY_LIMIT 100
/* Newest first, at most `limit`. Views are borrowed. */
typedef void atoll_history_fn(void *arg, const struct atoll_command_view *views, size_t count,
                              const struct atoll_error *error);
void atoll_commands_history(struct atoll_engine *engine, const char *sandbox_id, size_t limit,
                            atoll_history_fn *done, void *arg);

/* The newest command that changed the path. kind: "added" and the like. NOT_FOUND: none of those whose files are
 * kept. */
typedef void atoll_blame_fn(void *arg, const struct atoll_command_view *view, const char *kind,
                            const struct atoll_error *error);
void atoll_engine_blame(struct atoll_engine *engine, const char *sandbox_id, const char *path,
                        atoll_blame_fn *done, void *arg);

/* Brings the files back to before the last `count` commands, which leave the history; all processes end, as by a
 * restore. FAILED_PRECONDITION: commands run and `force` is false, or the files are not kept any more. number: of the
 * last command that remains, 0: none. */
typedef void atoll_undo_fn(void *arg, uint64_t number, const struct atoll_error *error);
void atoll_engine_undo(struct atoll_engine *engine, const char *sandbox_id, uint32_t count,
                       bool force, atoll_undo_fn *done, void *arg);
/* Free what is in progress without callbacks, when the engine is freed. */
void atoll_histories_done(struct atoll_engine *engine);
void atoll_undos_done(struct atoll_engine *engine);

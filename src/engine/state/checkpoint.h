#pragma once
#include "engine/engine_internal.h"
#include "engine/state/history.h"

/*
 * Checkpoints of a sandbox that was created with "checkpoints": "command". Every command of a client is
 * bracketed: its start waits until the files are kept, and its end is told when they are kept again. Each is a layer
 * (capture.h). If nothing can have changed since the last one, that one is used again.
 *
 * Commands that run at the same time have brackets of their own, and history says so. What processes in the
 * background write between two commands counts for the later one.
 *
 * Thread: the loop's.
 */
/* Bounds of one sandbox: commands in its history, and commands of which layers are kept. */
#define ATOLL_HISTORY_MAX 1000
#define ATOLL_CHECKPOINTS_MAX 64
/* The newest of them, which are removed only if their bytes exceed the limits below. */
#define ATOLL_CHECKPOINTS_NEW 16
/* Bytes of layers, as each would take by itself: of one sandbox and of one tenant. */
#define ATOLL_CHECKPOINT_BYTES ATOLL_HISTORY_BYTES
#define ATOLL_CHECKPOINT_TENANT_BYTES (UINT64_C(16) << 30)

struct atoll_kept {
    char *stack; /* held; owned, or NULL: not kept */
    uint64_t bytes;
};
/* A command and its bracket. */
struct atoll_checkpoint {
    struct atoll_list node; /* in checkpoints->commands, oldest first */
    uint64_t number;
    char exec_id[17]; /* "" until it has started */
    char command[256];
    int64_t started_unix_ms;
    struct atoll_kept before, after;
    bool shared;
    bool counted;
    uint64_t added, changed, removed, bytes;
};
typedef void atoll_checkpoints_room_fn(struct atoll_sandbox *sandbox);
struct atoll_checkpoints {
    struct atoll_list commands;
    size_t count, kept; /* kept: commands that have a layer */
    uint64_t bytes;     /* of their layers */
    uint64_t next;      /* number of the next command */
    /* Of struct mark: for the next capture; for the present one, or for its second try, and then `last` is NULL. */
    struct atoll_list waiting, capturing;
    bool is_capturing;
    bool is_queued;                  /* waits for its turn; capture_queue.h */
    bool is_second_try;              /* of the present capture: the first one found no room */
    bool has_room;                   /* the disk was measured for the next command */
    unsigned room_checks, room_next; /* made since that began; when more checkpoints go */
    struct atoll_timer room;         /* layers are being removed */
    atoll_checkpoints_room_fn *room_done;
    bool live_is_known;  /* false since a restore, whose disk is empty */
    uint64_t live_bytes; /* of the last capture: what the files on the disk take */
    char *last; /* the stack of the last capture, if the files are still those; owned, or NULL */
    uint64_t last_bytes;
};

/* For a new sandbox that has the option, and for a loaded one. */
void atoll_checkpoints_open(struct atoll_sandbox *sandbox);
/* With its layers; the store's rows are dropped with the sandbox. Commands that wait fail. */
void atoll_checkpoints_close(struct atoll_sandbox *sandbox);
/* Rows of the store, after those of sandboxes. */
int atoll_checkpoints_load(struct atoll_engine *engine, struct atoll_error *err) ATOLL_MUST_CHECK;

/* Starts the command when the files are kept. */
void atoll_checkpoint_before(struct atoll_sandbox *sandbox, const struct atoll_exec_start *start,
                             atoll_exec_fn *done, void *arg);
/* The command of this checkpoint runs as `exec`. */
void atoll_checkpoint_started(struct atoll_sandbox *sandbox, uint64_t number,
                              struct atoll_exec *exec);
/* The command could not be started: it leaves the history. */
void atoll_checkpoint_failed(struct atoll_sandbox *sandbox, uint64_t number);
/* The command has ended: finishes the exec when the files are kept, or when that is not possible. */
void atoll_checkpoint_after(struct atoll_exec *exec, const struct atoll_exec_result *result);
/* A command has ended whose checkpoint is to be made. */
bool atoll_checkpoints_await_end(const struct atoll_sandbox *sandbox);
/* Makes that checkpoint before all that wait: a stop or a resume comes next. Call when no capture is in progress. The
 * sandbox may be gone afterwards. */
void atoll_checkpoints_hurry(struct atoll_sandbox *sandbox);
/* Ends the commands of which the end is known, without a checkpoint: the others are about to be ended. The sandbox may
 * be gone afterwards. */
void atoll_checkpoints_tell_ends(struct atoll_sandbox *sandbox);
/* Refuses the commands that wait for their checkpoint: the sandbox is being stopped. */
void atoll_checkpoints_refuse_starts(struct atoll_sandbox *sandbox);
/* The files may have changed: a request to the agent. */
void atoll_checkpoints_touch(struct atoll_sandbox *sandbox);

/* The sandbox gets an empty disk on another stack. */
void atoll_checkpoints_empty_disk(struct atoll_sandbox *sandbox);

/* A request found the disk of the sandbox full. If that can be in the pool, where blocks of removed files count as long
 * as a checkpoint has them, the older half of the checkpoints is released (checkpoint_thin.c). */
void atoll_checkpoints_disk_full(struct atoll_engine *engine, const char *sandbox_id);

/* The sandbox was brought back to a checkpoint of `bytes`: the next command begins with that one, unless a start
 * command has run meanwhile. Call at once: before anything else is started in the sandbox. */
void atoll_checkpoints_restored(struct atoll_sandbox *sandbox, uint64_t bytes);

/* restore.c: brings a running sandbox back to a stack on its version. */
void atoll_restore_stack(struct atoll_sandbox *sandbox, const char *stack, const char *who,
                         atoll_done_fn *done, void *arg);

/* history.c: a sandbox that has checkpoints. NOT_FOUND, FAILED_PRECONDITION. */
int atoll_history_find(struct atoll_engine *engine, const char *sandbox_id,
                       struct atoll_sandbox **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_checkpoint *atoll_checkpoint_find(struct atoll_sandbox *sandbox, uint64_t number);
/* The stack after command `number`; 0: before the first one. NULL: it is not kept. */
const char *atoll_checkpoint_stack(struct atoll_sandbox *sandbox, uint64_t number);
/* Stores the numbers of a command. */
void atoll_checkpoint_store(struct atoll_sandbox *sandbox, struct atoll_checkpoint *checkpoint);
/* Drops the commands from that number on. */
int atoll_checkpoints_drop(struct atoll_sandbox *sandbox, uint64_t from,
                           struct atoll_error *err) ATOLL_MUST_CHECK;

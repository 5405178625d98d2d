#pragma once
#include "engine/engine.h"

/*
 * The files of a volume, for requests that name no sandbox. The daemon does not open paths of tenants: a hidden
 * sandbox mounts the volume at ATOLL_VOLUME_ROOT, and the file operations of the engine name that sandbox.
 * The first request makes it, later ones share it, and it is destroyed ATOLL_VOLUME_IDLE_MS after the last.
 *
 * At most ATOLL_VOLUMES_OPEN volumes are open, and ATOLL_VOLUMES_OPEN_TENANT of one tenant; beyond that, one
 * that no request uses is closed.
 *
 * Thread: the loop's. Ownership: the caller owns struct atoll_volume_use until atoll_volume_leave().
 */
#define ATOLL_VOLUME_ROOT "/volume"
#define ATOLL_VOLUME_IDLE_MS 5000
#define ATOLL_VOLUMES_OPEN 64
#define ATOLL_VOLUMES_OPEN_TENANT 8

struct atoll_volume_use;

enum atoll_volume_entry {
    ATOLL_VOLUME_EXISTING, /* NOT_FOUND without it */
    ATOLL_VOLUME_NEW,      /* ALREADY_EXISTS */
};

/* Copied. */
struct atoll_volume_request {
    const char *tenant, *name;
    const char *provider; /* NULL: any */
    enum atoll_volume_entry entry;
    uint64_t size_bytes; /* NEW: its limit; 0: the default of the provider */
};

typedef void atoll_volume_fn(void *arg, struct atoll_volume_use *use,
                             const struct atoll_error *error);
/* done is called exactly once, maybe before this returns. UNIMPLEMENTED: its provider cannot.
 * RESOURCE_EXHAUSTED; other errors are those of a create. */
void atoll_volume_enter(struct atoll_engine *engine, const struct atoll_volume_request *request,
                        atoll_volume_fn *done, void *arg);
/* The id of the sandbox. */
const char *atoll_volume_sandbox(const struct atoll_volume_use *use);
/* Its name. */
const char *atoll_volume_name(const struct atoll_volume_use *use);
/* Accepts NULL. */
void atoll_volume_leave(struct atoll_volume_use *use);

/* The path in that sandbox: `path` starts at the top of the volume. The agent resolves it, so that ".." could lead
 * to files that are not the volume's. INVALID_ARGUMENT. */
int atoll_volume_path(const char *path, char *out, size_t cap,
                      struct atoll_error *err) ATOLL_MUST_CHECK;
/* The reverse: the path as clients of the volume see it, or the same if it is not in the volume. Borrowed. */
const char *atoll_volume_shown(const char *path);

/* For a removal: destroys the sandbox, unless a request uses it. FAILED_PRECONDITION. */
void atoll_volume_close(struct atoll_engine *engine, const char *tenant, const char *name,
                        atoll_done_fn *done, void *arg);
/* Frees memory when the engine is freed; uses stay valid for atoll_volume_leave(). */
void atoll_volumes_done(struct atoll_engine *engine);

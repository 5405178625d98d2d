#pragma once
#include "base/list.h"
#include "loop/loop.h"
#include "spawn/plan_run.h"

/*
 * Removes dropped layers. Each is first renamed, so that its name is free at once and no layer is
 * ever partly removed under its own name; then a separate process removes it, one layer at a time,
 * while spawn serves other requests. A layer that was renamed but not removed stays under the new
 * name and can be dropped again. A layer in the pool is a link (disk_pool.h), whose subvolume is removed,
 * too. Other trees of the state directory can be removed the same way.
 * Thread: the loop's.
 */
struct atoll_layers {
    struct atoll_loop *loop;
    const struct atoll_spawn_host *host;
    /* The layer is removed, or error says why not. */
    void (*dropped)(void *arg, uint32_t request, const struct atoll_error *error);
    void *arg;
    struct atoll_list queue; /* the first is being removed */
    unsigned count;
};

#define ATOLL_LAYER_NAME_CAP 72

/* A new layer name that no plan uses. */
void atoll_layer_aside_name(char ret[static ATOLL_LAYER_NAME_CAP]);
/* Moves a tree of the state directory to a new layer name that no plan uses; ret receives that
 * name. */
int atoll_layer_put_aside(const struct atoll_spawn_host *host, int dir, const char *name,
                          char ret[static ATOLL_LAYER_NAME_CAP]) ATOLL_MUST_CHECK;

void atoll_layers_init(
    struct atoll_layers *layers, struct atoll_loop *loop, const struct atoll_spawn_host *host,
    void (*dropped)(void *arg, uint32_t request, const struct atoll_error *error), void *arg);
/* Drops a layer. ids: possible owners of its files, as for atoll_child_sweep(). `dropped` is called
 * now or later; a missing layer is success. */
int atoll_layers_drop(struct atoll_layers *layers, const char *name, const struct atoll_po_ids *ids,
                      uint32_t request, struct atoll_error *err) ATOLL_MUST_CHECK;
/* The directory volumes/TENANT of a volume TENANT/NAME, and its name. False: that is not the name of a volume. */
#define ATOLL_VOLUME_PATH_CAP 96
bool atoll_volume_path(const char *volume, char ret_dir[static ATOLL_VOLUME_PATH_CAP],
                       const char **ret_name);
/* The same for volumes/TENANT/NAME; a missing one is NOT_FOUND. */
int atoll_volumes_drop(struct atoll_layers *layers, const char *name,
                       const struct atoll_po_ids *ids, uint32_t request,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
#define ATOLL_VOLUMES "volumes" /* below the state directory */
/* Continues removals of an earlier run. Layers whose owners only the daemon knows stay until the
 * daemon drops them. */
void atoll_layers_sweep(struct atoll_layers *layers);
/* The daemon disconnected: removals continue, but `dropped` is not called for its requests. */
void atoll_layers_forget_requests(struct atoll_layers *layers);

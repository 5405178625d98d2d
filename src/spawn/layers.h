#pragma once
#include "base/list.h"
#include "loop/loop.h"
#include "spawn/plan_run.h"

/*
 * Layers that nobody wants any more. Each is put aside in one step, so that its name is free and no layer
 * is ever half there, and then removed by a process of its own, one after the other: a large tree
 * takes the time it takes, and others are served meanwhile.
 * One that was put aside and not removed is a layer of that name, which is nobody's: to be dropped again.
 * Other trees that nobody wants can become such a layer, too.
 * Thread: the loop's.
 */
struct atoll_layers {
    struct atoll_loop *loop;
    const struct atoll_spawn_host *host;
    /* Nothing of it is left, or error says why. */
    void (*dropped)(void *arg, uint32_t request, const struct atoll_error *error);
    void *arg;
    struct atoll_list queue; /* the first is being removed */
    unsigned count;
};

#define ATOLL_LAYER_NAME_CAP 72

/* Moves a tree of the state directory to where nobody looks for it; ret has the layer it is now. */
int atoll_layer_put_aside(const struct atoll_spawn_host *host, int dir, const char *name,
                          char ret[static ATOLL_LAYER_NAME_CAP]) ATOLL_MUST_CHECK;

void atoll_layers_init(
    struct atoll_layers *layers, struct atoll_loop *loop, const struct atoll_spawn_host *host,
    void (*dropped)(void *arg, uint32_t request, const struct atoll_error *error), void *arg);
/* ids: whose its files may be, as for atoll_child_sweep(). `dropped` comes at once or later. Absent is
 * success. */
int atoll_layers_drop(struct atoll_layers *layers, const char *name, const struct atoll_po_ids *ids,
                      uint32_t request, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Goes on with what an earlier life had put aside. What has owners that only the daemon knows stays until
 * it drops it. */
void atoll_layers_sweep(struct atoll_layers *layers);
/* Whoever asked is gone. What they asked for is done all the same. */
void atoll_layers_forget_requests(struct atoll_layers *layers);

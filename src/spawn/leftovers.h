#pragma once
#include "base/list.h"
#include "loop/loop.h"
#include "spawn/plan_run.h"

/*
 * Cleans up after an earlier run of this instance. Its processes were killed with it but may need
 * time to exit: until then their id ranges and names are in use and no sandbox may be created. Its
 * files are renamed at once and removed in the background.
 * Thread: the loop's.
 */
struct atoll_leftovers {
    struct atoll_loop *loop;
    const struct atoll_cgroups *cgroups;
    struct atoll_list groups; /* of struct group, owned: cgroups that still have processes */
    struct atoll_timer retry;
    unsigned tries; /* since the last group was removed */
    void (*ended)(void *arg);
    void *arg;
};

/* Files: one rename makes them a dropped layer, see layers.h. Call once, before host->sandboxes_fd
 * is opened and after host->layers_fd is. */
int atoll_leftovers_put_aside(const struct atoll_spawn_host *host,
                              struct atoll_error *err) ATOLL_MUST_CHECK;

/* Processes: kills them and calls `ended`, possibly before returning, when none is left or when
 * killing has failed for too long. */
int atoll_leftovers_end(struct atoll_leftovers *leftovers, struct atoll_loop *loop,
                        const struct atoll_spawn_host *host, void (*ended)(void *arg), void *arg,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
bool atoll_leftovers_live(const struct atoll_leftovers *leftovers);

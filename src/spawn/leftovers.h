#pragma once
#include "base/list.h"
#include "loop/loop.h"
#include "spawn/plan_run.h"

/*
 * What an earlier life of this instance left behind. Its processes died with it, but that may take a
 * while: until none is left their id ranges and names are in use, and no sandbox may be made. Its files
 * are nobody's as soon as they are put aside, and take the time they take.
 * Thread: the loop's.
 */
struct atoll_leftovers {
    struct atoll_loop *loop;
    const struct atoll_cgroups *cgroups;
    struct atoll_list groups; /* of struct group, owned: those that still have processes */
    struct atoll_timer retry;
    unsigned tries; /* since the last group went */
    void (*ended)(void *arg);
    void *arg;
};

/* Files: in one step they become a layer that nobody wants, see layers.h. Called once, before
 * host->sandboxes_fd is opened and after host->layers_fd is. */
int atoll_leftovers_put_aside(const struct atoll_spawn_host *host,
                              struct atoll_error *err) ATOLL_MUST_CHECK;

/* Processes: `ended` comes, perhaps at once, when none is left or no more can be done about it. */
int atoll_leftovers_end(struct atoll_leftovers *leftovers, struct atoll_loop *loop,
                        const struct atoll_spawn_host *host, void (*ended)(void *arg), void *arg,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
bool atoll_leftovers_live(const struct atoll_leftovers *leftovers);

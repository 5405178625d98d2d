#pragma once
#include "base/list.h"
#include "loop/loop.h"
#include "spawn/plan_run.h"

/*
 * Copies of volumes that are images: a new volume with the files that another one has at one moment. A separate
 * process freezes the file system, so that what writes to it waits, copies the image and thaws it. Where
 * the state directory's file system can, the copy shares the blocks. It gets its name when it is on disk. A file
 * system that stays frozen because that process died is thawed here, or by the next atoll-spawn.
 * Thread: the loop's.
 */
struct atoll_volume_copies {
    struct atoll_loop *loop;
    const struct atoll_spawn_host *host;
    /* The copy is there, or error says why not. */
    void (*copied)(void *arg, uint32_t request, const struct atoll_error *error);
    void *arg;
    struct atoll_list list;
    unsigned count;
};

void atoll_volume_copies_init(struct atoll_volume_copies *copies, struct atoll_loop *loop,
                              const struct atoll_spawn_host *host,
                              void (*copied)(void *arg, uint32_t request,
                                             const struct atoll_error *error),
                              void *arg);
/* from: TENANT/NAME; to: the name of the new one, of the same tenant. `copied` is called later. */
int atoll_volume_copy(struct atoll_volume_copies *copies, const char *from, const char *to,
                      uint32_t request, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Thaws what an earlier atoll-spawn left frozen. */
void atoll_volume_copies_begin(const struct atoll_volume_copies *copies);
/* The daemon disconnected: copies continue, but `copied` is not called for its requests. */
void atoll_volume_copies_forget_requests(struct atoll_volume_copies *copies);

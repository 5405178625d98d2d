#pragma once
#include <stdatomic.h>
#include "base/defs.h"

/*
 * A file that reserves space on the database's disk. It is deleted when the disk is full, so that
 * the daemon can still record how sandboxes and commands end. Without fallocate() support there is
 * no reserve.
 *
 * Thread: atoll_reserve_take() and atoll_reserve_give() may run on different threads.
 */
struct atoll_reserve {
    int dir_fd; /* borrowed */
    atomic_bool held;
};

void atoll_reserve_init(struct atoll_reserve *reserve, int dir_fd);
/* Creates the file, unless it exists or the disk has little free space. Blocking: a few file
 * operations. */
void atoll_reserve_take(struct atoll_reserve *reserve);
/* Removes the file. False if there was none. */
bool atoll_reserve_give(struct atoll_reserve *reserve);

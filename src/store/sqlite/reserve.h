#pragma once
#include <stdatomic.h>
#include "base/defs.h"

/*
 * A file that takes room on the disk of the database, to be given up when that is full: so the end of
 * what there is can still be written down. A disk that cannot set room aside has none.
 *
 * Thread: atoll_reserve_take() on one, atoll_reserve_give() on another.
 */
struct atoll_reserve {
    int dir_fd; /* borrowed */
    atomic_bool held;
};

void atoll_reserve_init(struct atoll_reserve *reserve, int dir_fd);
/* Makes the file, unless it is there or the disk has little room. Blocking: as files are. */
void atoll_reserve_take(struct atoll_reserve *reserve);
/* Removes it. False: there was none. */
bool atoll_reserve_give(struct atoll_reserve *reserve);

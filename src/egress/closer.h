#pragma once
#include "loop/loop.h"

/*
 * Closes sockets that an agent has, too (connections between sandboxes). It can set SO_LINGER on them at
 * any time, and close(2) then waits: on a thread of its own, never on the loop's.
 */
struct atoll_closer;

int atoll_closer_new(struct atoll_loop *loop, struct atoll_closer **ret,
                     struct atoll_error *err) ATOLL_MUST_CHECK;
/* Waits for the threads. Accepts NULL; returns NULL. */
struct atoll_closer *atoll_closer_free(struct atoll_closer *closer);
/* Takes fd; one below 0 is ignored. reset: the peer gets a reset. */
void atoll_closer_close(struct atoll_closer *closer, int fd, bool reset);

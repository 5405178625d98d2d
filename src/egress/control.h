#pragma once
#include "egress/egress.h"

/*
 * The server side of proto/egress_proto.h: one daemon at a time. A newer connection replaces the older
 * one, whose daemon has ended or will find out.
 */
struct atoll_control;

/* listen_fd is borrowed. starter_fd is taken on success: the pidfd of the daemon that started the program, or
 * ATOLL_NO_FD. Stops the loop on END, and when no daemon and none of the processes of HELLO is left; before
 * the first HELLO, when the starter has ended. */
int atoll_control_open(struct atoll_egress *egress, int listen_fd, int starter_fd,
                       struct atoll_control **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Sends the request to the daemon. False: there is no daemon. c may be NULL. */
bool atoll_control_dial(struct atoll_control *c, const struct atoll_em_dial *message);
/* Removes all boxes. Accepts NULL; returns NULL. */
struct atoll_control *atoll_control_close(struct atoll_control *c);

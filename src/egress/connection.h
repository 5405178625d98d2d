#pragma once
#include "egress/egress.h"

/*
 * One connection of a sandbox: what it wants to reach, whether it may, and what carries its bytes. Boxes
 * know connections by their node in box->connections.
 */

/* Takes a socket that was just accepted. false: the tenant's share of connections is used up, and the
 * connection was refused. */
bool atoll_connection_start(struct atoll_box *box, int fd);
/* The policy has changed: ends the connection if it is denied now. */
void atoll_connection_review(struct atoll_list *node);
/* Ends it. */
void atoll_connection_revoke(struct atoll_list *node);

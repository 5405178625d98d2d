#pragma once
#include "egress/egress.h"

/*
 * Isolated networks: sandboxes of one tenant whose policies name the same network reach each other as
 * NAME, NAME.internal, ID or ID.internal. Each sandbox has an address of 100.65.0.0/16 that only means
 * something here: DNS answers with it, and a connection to it is made by the daemon through the agent of
 * that sandbox (ATOLL_EGRESS_DIAL). No packet passes between the sandboxes.
 */
struct atoll_peer_dial;

/* Gives the box its address and its name, which may be "" and may have changed. */
void atoll_peers_add(struct atoll_box *box, const char *name);
void atoll_peers_remove(struct atoll_box *box);
void atoll_peers_done(struct atoll_egress *egress);

/* Whether the address is one of these, whether or not a sandbox has it. */
bool atoll_peers_is_address(const struct in6_addr *address);
/* The sandbox of the same network that a question for `name` means; NULL: there is no such sandbox. */
struct atoll_box *atoll_peers_by_name(const struct atoll_box *box, const char *name);
struct atoll_box *atoll_peers_by_address(const struct atoll_box *box,
                                         const struct in6_addr *address);
void atoll_peers_address(const struct atoll_box *box, struct in6_addr *ret);

/* Asks the daemon for a connection to a port of the peer. done: once, never before this returns, and frees
 * the dial; fd: connected, non-blocking, the caller's; or -errno. */
struct atoll_peer_dial *atoll_peer_dial_start(struct atoll_box *peer, uint16_t port,
                                              void (*done)(void *arg, int fd), void *arg);
/* done is not called. Accepts NULL; returns NULL. */
struct atoll_peer_dial *atoll_peer_dial_cancel(struct atoll_peer_dial *dial);
/* The answer of the daemon; takes fd. Ignores a dial that was cancelled. */
void atoll_peer_dial_answer(struct atoll_egress *egress, uint64_t number, int fd, int errnum);
/* The daemon has gone: every dial fails. */
void atoll_peer_dials_fail(struct atoll_egress *egress);

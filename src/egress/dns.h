#pragma once
#include "egress/egress.h"
#include "egress/names.h"
#include "egress/resolve.h"

/*
 * Names: the DNS server of each sandbox, the lookups of atoll-egress itself by the host's resolver, and
 * what was answered, by address. Everything that a sandbox asks counts in box->stats.queries.
 */

/* Serves DNS on the sandbox's UDP socket, which is taken, also on failure. */
int atoll_dns_open(struct atoll_box *box, int udp_fd, struct atoll_dns **ret,
                   struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_dns *atoll_dns_close(struct atoll_dns *dns);

/* Serves DNS on a TCP connection of the sandbox (to port 53 of any address). */
struct atoll_dns_stream;
/* Takes fd, also on failure (NULL). end is called once, from the loop, when the connection has ended by
 * itself; it frees the stream. */
struct atoll_dns_stream *atoll_dns_stream_open(struct atoll_box *box, int fd,
                                               void (*end)(void *arg), void *arg);
/* end is not called. Accepts NULL; returns NULL. */
struct atoll_dns_stream *atoll_dns_stream_close(struct atoll_dns_stream *s);

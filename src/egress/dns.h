#pragma once
#include "egress/egress.h"
#include "egress/names.h"

/*
 * Names: the DNS server of each sandbox, the lookups of atoll-egress itself by the host's resolver, and
 * what was answered, by address. Everything that a sandbox asks counts in box->stats.queries.
 */

/* The host's resolver (nsswitch, /etc/hosts), asked by worker threads. Opened before the worker confines
 * itself. */
int atoll_resolver_new(struct atoll_loop *loop, struct atoll_resolver **ret,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
/* No callback comes after this. Accepts NULL; returns NULL. */
struct atoll_resolver *atoll_resolver_free(struct atoll_resolver *r);

/* One lookup of both families. */
struct atoll_lookup;
#define ATOLL_LOOKUP_MAX 16 /* addresses */
/* addresses: IPv4 as ::ffff:a.b.c.d, in the order of the resolver; borrowed. count 0: error is -ENOENT
 * (no such name) or another -errno. Frees the lookup. */
typedef void (*atoll_lookup_fn)(void *arg, const struct in6_addr *addresses, size_t count,
                                int error);
/* Asks for a name; done is called once, from the loop, never before this returns. Does not ask the policy
 * and remembers nothing. owner: the tenant, for fairness between threads; lives as long. NULL: too many
 * lookups wait. */
struct atoll_lookup *atoll_resolver_ask(struct atoll_resolver *r, const char *owner,
                                        const char *name, atoll_lookup_fn done, void *arg);
/* done is not called. Accepts NULL; returns NULL. */
struct atoll_lookup *atoll_lookup_cancel(struct atoll_lookup *lookup);

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

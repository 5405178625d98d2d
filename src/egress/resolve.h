#pragma once
#include <netinet/in.h>
#include "loop/loop.h"

/*
 * The addresses of names, by the host's resolver (nsswitch, /etc/hosts), asked by worker threads; and a
 * cache of them for all sandboxes. Lookups of one tenant for the same name are one lookup. Tenants share
 * the lookups that wait (base/shares.h) and the threads (loop/workers.h).
 *
 * Thread: the loop's.
 */
struct atoll_resolver;
struct atoll_forwarder;

#define ATOLL_LOOKUP_MAX 16         /* addresses of one name */
#define ATOLL_RESOLVER_LOOKUPS 1024 /* that wait, of all tenants */
#define ATOLL_RESOLVER_THREADS 16   /* the resolver blocks, for seconds if servers are silent */
#define ATOLL_RESOLVER_CACHE 4096   /* names */
#define ATOLL_RESOLVER_KEPT_MS (60 * 1000) /* an answer */
#define ATOLL_RESOLVER_KEPT_NOT_MS 5000    /* that there is no such name */
#define ATOLL_RESOLVER_KEPT_FAILED_MS 1000

/* For tests. Zeroed: the host's. */
struct atoll_resolver_config {
    /* Blocking, on a worker: stores up to cap addresses, IPv4 as ::ffff:a.b.c.d, and returns how many, or
     * -ENOENT: no such name, -ENODATA: it has no address, -EAGAIN: no server answered, another -errno. */
    int (*look)(const char *name, struct in6_addr *ret, size_t cap);
    const char *resolv_conf; /* NULL: /etc/resolv.conf */
    uint16_t port;           /* of its servers; 0: 53 */
    int64_t kept_ms;         /* 0: ATOLL_RESOLVER_KEPT_MS */
};

/* Opened before the worker confines itself. config may be NULL. */
int atoll_resolver_new(struct atoll_loop *loop, const struct atoll_resolver_config *config,
                       struct atoll_resolver **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Waits for lookups that run. No callback comes after this; what was asked for is
 * still cancelled by its owner. Accepts NULL; returns NULL. */
struct atoll_resolver *atoll_resolver_free(struct atoll_resolver *r);
/* Questions for other types than addresses (forward.h). */
struct atoll_forwarder *atoll_resolver_forwarder(const struct atoll_resolver *r);

/* One lookup of both families. */
struct atoll_lookup;
/* addresses: in the order of the resolver, without those that the host has no route to if it has one to
 * others; borrowed. count 0: error is -ENOENT (no such name) or another -errno. Frees the lookup. */
typedef void (*atoll_lookup_fn)(void *arg, const struct in6_addr *addresses, size_t count,
                                int error);
/* Asks for a name, which may have a trailing dot; done is called once, from the loop, never before this
 * returns. Does not ask the policy and remembers nothing for a sandbox. owner: the tenant. NULL: too many
 * lookups wait, or the name is too long. */
struct atoll_lookup *atoll_resolver_ask(struct atoll_resolver *r, const char *owner,
                                        const char *name, atoll_lookup_fn done, void *arg);
/* done is not called. Accepts NULL; returns NULL. */
struct atoll_lookup *atoll_lookup_cancel(struct atoll_lookup *lookup);

#pragma once
#include "base/list.h"
#include "base/map.h"
#include "base/shares.h"
#include "egress/bucket.h"
#include "loop/loop.h"
#include "network/policy.h"
#include "proto/egress_proto.h"

/*
 * What the parts of atoll-egress share: the worker, the sandboxes it serves ("boxes"), and what they
 * offer to the DNS server (dns.h) and to the interception of HTTP (intercept.h).
 *
 * Thread: the loop's, for everything here. Nothing blocks.
 * Ownership: a box outlives its connections, lookups, DNS sockets and interceptions: it closes them
 * before it is freed. The policy of a box may be replaced between any two callbacks: read it where it is
 * needed and keep no pointer into it.
 */
struct atoll_resolver;
struct atoll_names;
struct atoll_names_kept;
struct atoll_dns;
struct atoll_interceptor;
struct atoll_reports;
struct atoll_host_addresses;
struct atoll_pipes;
struct atoll_control;
struct atoll_egress_cache;
struct atoll_closer;

#define ATOLL_EGRESS_ID_MAX 64
#define ATOLL_EGRESS_NAME_MAX 254 /* of a domain, with NUL; lower case, no trailing dot */
#define ATOLL_EGRESS_RULE_MAX 340 /* "allow " and a target */

/* The worker. */
struct atoll_egress {
    struct atoll_loop *loop;
    struct atoll_map boxes;     /* by id, owned */
    struct atoll_shares shares; /* connections of all boxes, by tenant */
    struct atoll_map secrets;   /* by tenant, owned */
    struct atoll_resolver *resolver;
    struct atoll_names_kept *kept_names; /* the supervisor's; or NULL */
    /* NULL: absent; then connections to domains with transforms are denied. */
    struct atoll_interceptor *interceptor;
    struct atoll_egress_cache *cache; /* NULL: absent */
    struct atoll_reports *reports;
    struct atoll_host_addresses *host;
    struct atoll_pipes *pipes;
    struct atoll_control *control; /* NULL until it is open */
    /* peers.c */
    struct atoll_box *
        *places; /* by the last two bytes of their address; NULL until one is needed */
    struct atoll_closer *closer; /* of sockets to peers; NULL: the loop's thread closes them */
    struct atoll_map names;      /* boxes by tenant and name, borrowed */
    struct atoll_list dials;     /* of struct atoll_peer_dial */
    uint64_t dial_numbers;
};

/* One sandbox. */
struct atoll_box {
    struct atoll_egress *egress;
    char id[ATOLL_EGRESS_ID_MAX];
    char tenant[ATOLL_SHARE_NAME_MAX];
    char key[ATOLL_SHARE_NAME_MAX + ATOLL_EGRESS_ID_MAX + 1]; /* in egress->names, or "" */
    uint32_t place;                                           /* in egress->places; 0: none */
    struct atoll_network_policy *policy;                      /* never NULL */
    struct atoll_network_bound *bound;                        /* never NULL */
    uint64_t proxies;          /* how often the proxy of the policy has changed */
    struct atoll_names *names; /* what DNS told the sandbox */
    struct atoll_dns *dns;     /* the UDP socket */
    struct atoll_em_stats stats;
    struct atoll_bucket up, down; /* policy->mbps; up: from the sandbox */
    uint64_t numbers;             /* given to connections and DNS questions */
    struct atoll_list connections;
    int listen_fd;
    struct atoll_watch accepting;
    struct atoll_timer accept_later; /* after EMFILE and the like */
    uint64_t lost;                   /* events since the last one that was queued */
    bool named;                      /* by PUT since the last HELLO */
};

/* Decides about a destination. address NULL: whether the name may be resolved. name NULL: unknown.
 * Knows the addresses of the host. */
struct atoll_network_decision atoll_box_decide(const struct atoll_box *box, const char *name,
                                               const struct in6_addr *address, uint16_t port);
/* What decided, as a text for events: "allow *.example.org", "default", "internal address" …; out holds
 * ATOLL_EGRESS_RULE_MAX bytes. */
void atoll_box_print_rule(const struct atoll_box *box,
                          const struct atoll_network_decision *decision, char *out);

/* The value of a secret of the box's tenant, or NULL. Borrowed until the callback returns. */
const char *atoll_box_secret(const struct atoll_box *box, const char *name);

/* Counts bytes that the sandbox received and sent. */
static inline void atoll_box_count(struct atoll_box *box, uint64_t rx_bytes, uint64_t tx_bytes)
{
    box->stats.rx_bytes += rx_bytes;
    box->stats.tx_bytes += tx_bytes;
}

/* Queues an event for the daemon. Texts are copied; NULL is "". id and lost are set here. Drops and counts
 * it when the daemon does not read. A DNS question takes its number from ++box->numbers. */
void atoll_box_report(struct atoll_box *box, const struct atoll_em_connection *event);

/*
 * An outgoing connection: resolves the name if there is no address, decides about each address, and
 * connects to the first that answers, through the policy's SOCKS5 proxy if it has one.
 */
struct atoll_dial;

struct atoll_dial_request {
    struct atoll_box *box;
    const char *name;               /* copied; NULL: unknown */
    const struct in6_addr *address; /* copied; NULL: resolve the name */
    uint16_t port;
    /* The policy itself names this destination ("forward"): only the operator's bound counts. */
    bool by_policy;
    /* Once, never before atoll_dial_start() returns; frees the dial. fd: connected, non-blocking, the
     * caller's; or -errno: -EACCES denied. decision: about the address, or NULL. */
    void (*done)(void *arg, int fd, const struct atoll_network_decision *decision);
    void *arg;
};

/* NULL without memory or descriptors. */
struct atoll_dial *atoll_dial_start(const struct atoll_dial_request *request);
/* done is not called. Accepts NULL; returns NULL. */
struct atoll_dial *atoll_dial_cancel(struct atoll_dial *dial);

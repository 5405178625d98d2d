#pragma once
#include "proto/frame.h"

/*
 * Messages between the daemon and atoll-egress, in the frames of proto/frame.h. The daemon sends
 * requests (id != 0), atoll-egress answers with REPLY or ERROR of that id; CONNECTION is an event.
 *
 * After a restart of either side the daemon says HELLO, sends PUT for every sandbox that has a network,
 * and then SYNCED: atoll-egress forgets sandboxes that were not named since HELLO. Connections of a
 * sandbox that is put again stay open.
 */
#define ATOLL_EGRESS_VERSION 1
#define ATOLL_EGRESS_SOCKET "egress.sock" /* below the state directory */

enum atoll_egress_type {
    ATOLL_EGRESS_REPLY = 1,      /* payload by the request */
    ATOLL_EGRESS_ERROR = 2,      /* atoll_em_error */
    ATOLL_EGRESS_PART = 3,       /* more follow */
    ATOLL_EGRESS_CONNECTION = 4, /* event, atoll_em_connection */
    /* Event, atoll_em_dial: connect to a port of a sandbox, and answer with DIALED. */
    ATOLL_EGRESS_DIAL = 5,
    /* Event, atoll_em_cached: what the cache of downloads did since the last one. Only after CACHE. */
    ATOLL_EGRESS_CACHED = 6,

    /* atoll_em_hello → atoll_em_hello. Descriptors: pidfds of the processes that keep the sandboxes
     * alive. When all of them have ended and no daemon is connected, atoll-egress exits. */
    ATOLL_EGRESS_HELLO = 32,
    /* atoll_em_put → empty. Descriptors: the listening TCP socket and the UDP socket for DNS, both of
     * the sandbox's network namespace (struct atoll_netspace says how to use them). For a sandbox that it has already, the policy is replaced. */
    ATOLL_EGRESS_PUT = 33,
    ATOLL_EGRESS_SYNCED = 34, /* empty → empty */
    /* atoll_em_put without descriptors → empty: replaces the policy, and closes connections that the
     * new one denies before the answer. NOT_FOUND. */
    ATOLL_EGRESS_POLICY = 35,
    ATOLL_EGRESS_DROP = 36,  /* atoll_em_ref → atoll_em_stats, once its connections are closed */
    ATOLL_EGRESS_STATS = 37, /* atoll_em_ref → atoll_em_stats. NOT_FOUND */
    ATOLL_EGRESS_END = 38,   /* empty; no answer: exit */
    ATOLL_EGRESS_PING = 39,  /* empty → empty */
    /* atoll_em_secrets → empty: the secrets of a tenant, replacing all earlier ones. */
    ATOLL_EGRESS_SECRETS = 40,
    /* atoll_em_dialed → empty. Descriptor: the connection, a stream socket; or no descriptor, and errnum is
     * set. */
    ATOLL_EGRESS_DIALED = 41,
    /* atoll_em_cache → empty: keeps downloads that never change, until the next HELLO. INVALID_ARGUMENT. */
    ATOLL_EGRESS_CACHE = 42,
};

struct atoll_em_error {
    uint32_t kind; /* enum atoll_error_kind */
    int32_t errnum;
    const char *text;
};

struct atoll_em_hello {
    uint32_t version;
    uint32_t pid;
    uint64_t
        total_max; /* connections of all sandboxes, shared fairly by tenants; 0: no other limit */
};

struct atoll_em_put {
    const char *id, *tenant;
    const char *name;          /* of the sandbox, or "" */
    struct atoll_bytes policy; /* JSON, canonical form of struct atoll_network_policy */
    struct atoll_bytes bound;  /* JSON of struct atoll_network_bound */
};

struct atoll_em_ref {
    const char *id;
};

struct atoll_em_dial {
    uint64_t number; /* never the same twice */
    const char *id;
    uint32_t port;
};

struct atoll_em_dialed {
    uint64_t number; /* of the dial */
    int32_t errnum;
};

struct atoll_em_secrets {
    const char *tenant;
    struct atoll_bytes secrets; /* JSON, {"NAME": "value"} */
};

struct atoll_em_cache {
    uint64_t max_bytes;
    struct atoll_bytes table; /* JSON of registry/downloads.yaml */
};

struct atoll_em_cached {
    uint64_t hits, misses;
    uint64_t hit_bytes, miss_bytes;
    uint64_t evictions, mismatches, failures;
    uint64_t bytes, files; /* now */
};

struct atoll_em_stats {
    uint64_t rx_bytes, tx_bytes;  /* received and sent by the sandbox */
    uint64_t connections, denied; /* since it was put */
    uint64_t open;
    uint64_t queries; /* of DNS */
};

enum atoll_egress_end {
    ATOLL_EGRESS_OPENED = 0,      /* a connection begins */
    ATOLL_EGRESS_CLOSED = 1,      /* both sides finished */
    ATOLL_EGRESS_RESET = 2,       /* one side aborted it */
    ATOLL_EGRESS_DENIED = 3,      /* by policy; `rule` says by which */
    ATOLL_EGRESS_UNREACHABLE = 4, /* errnum says why */
    ATOLL_EGRESS_REVOKED = 5,     /* a changed policy denies it */
    ATOLL_EGRESS_LIMITED = 6,     /* the tenant's share of connections was used up */
    ATOLL_EGRESS_RESOLVED = 7,    /* DNS: answered */
    ATOLL_EGRESS_UNRESOLVED = 8,  /* DNS: the name does not exist, or no server answered */
};

struct atoll_em_connection {
    const char *id;
    uint64_t number; /* of the connection in its sandbox, from 1; the same at begin and end */
    uint8_t end;     /* enum atoll_egress_end */
    uint8_t dns;     /* a DNS question: no address and port */
    int64_t started_unix_ms, ended_unix_ms;
    const char *name;    /* or "" */
    const char *address; /* text */
    uint32_t port;
    const char *rule; /* what decided: "allow *.example.org", "default", "internal address", … */
    const char *hint; /* denied: the entry that would allow it; or "" */
    int32_t errnum;
    uint64_t rx_bytes, tx_bytes;
    uint64_t lost; /* events that were not sent before this one because the daemon did not read */
};

extern const struct atoll_msg_desc atoll_em_error_desc, atoll_em_hello_desc, atoll_em_put_desc,
    atoll_em_ref_desc, atoll_em_dial_desc, atoll_em_dialed_desc, atoll_em_secrets_desc,
    atoll_em_cache_desc, atoll_em_cached_desc, atoll_em_stats_desc, atoll_em_connection_desc;

#pragma once
#include "engine/engine.h"

/*
 * The connections of sandboxes that atoll-egress serves: what was connected to, what was denied, and
 * names that could not be resolved. Each is a line in the journal of its sandbox when it begins and when
 * it ends; the newest 1 to 2 MiB are kept, and 64 KiB as long as the record of a sandbox that
 * has ended.
 * Thread: the loop's.
 */
struct atoll_connection {
    uint64_t line;   /* of the journal: increases with each */
    uint64_t number; /* of the connection; unique for its worker */
    uint32_t worker; /* pid of the worker of atoll-egress that served it */
    const char *end; /* "open", "closed", "reset", "denied", "unreachable", "revoked", "limited",
                            "unresolved", or "lost" if the worker died before the connection ended */
    bool dns;        /* a question to the DNS server: no address and port */
    int64_t started_unix_ms, ended_unix_ms; /* ended 0: open, or lost */
    const char *name;                       /* or "" */
    const char *address;                    /* or "" */
    uint32_t port;
    const char *rule;            /* what decided */
    const char *hint;            /* denied: the entry of an allow list that would allow it; or "" */
    int errnum;                  /* unreachable: why; or 0 */
    uint64_t rx_bytes, tx_bytes; /* received and sent by the sandbox */
    uint64_t lost;               /* events before this one that are missing */
};

/* Texts are borrowed for the call. */
typedef void atoll_connection_fn(void *arg, const struct atoll_connection *connection);

/* The newest lines first: at most `most` connections before the line `before` (0: from the newest on).
 * A connection that has ended is listed by its end. *ret_more: there are older ones. */
int atoll_connections_list(struct atoll_engine *engine, const char *sandbox_id, uint64_t before,
                           size_t most, atoll_connection_fn *fn, void *arg, bool *ret_more,
                           struct atoll_error *err) ATOLL_MUST_CHECK;

/* The lines after the line `after`, oldest first; if there are more than `most`, the newest of them. */
void atoll_connections_since(struct atoll_engine *engine, const char *sandbox_id, uint64_t after,
                             size_t most, atoll_connection_fn *fn, void *arg);

struct atoll_connections_follower;
/* Calls fn for each line from now on, from the loop, and `ended` once when the sandbox has no network any
 * more; the caller still has to unfollow. FAILED_PRECONDITION: it has none now. */
int atoll_connections_follow(struct atoll_engine *engine, const char *sandbox_id,
                             atoll_connection_fn *fn, void (*ended)(void *arg), void *arg,
                             struct atoll_connections_follower **ret,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
/* No callback is called after this. Accepts NULL. */
struct atoll_connections_follower *atoll_connections_unfollow(
    struct atoll_connections_follower *follower);

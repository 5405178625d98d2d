#pragma once
#include <sys/uio.h>
#include "base/buf.h"
#include "base/list.h"
#include "base/shares.h"
#include "net/http1_answer.h"
#include "net/proxy.h"

/*
 * What the files of the proxy share.
 *   proxy.c         an exchange: from a request to the end of its answer
 *   proxy_answer.c  the upstream's answer
 *   proxy_head.c    request heads: which headers are forwarded
 *   proxy_conn.c    a connection to an upstream
 *   proxy_pool.c    idle connections
 *   proxy_tunnel.c  the tunnel after an upgrade
 */

struct atoll_proxy {
    struct atoll_proxy_config config;
    struct atoll_list idle; /* of struct kept.node, the last used first */
    size_t idle_count;
    struct atoll_list exchanges; /* active requests */
    struct atoll_list dials;
    struct atoll_list waiting; /* exchanges beyond DIALS_PER_KEY that wait to connect */
    struct atoll_timer wake;
    struct atoll_list tunnels;
    struct atoll_shares active; /* exchanges and tunnels */
    struct atoll_timer sweep;
};

/* Bytes queued for one side at which reading from the other side is paused. */
#define PROXY_HIGH_WATER ((size_t)64 * 1024)
#define PROXY_SWEEP_MS 1000

/* An active request. */
struct atoll_proxy_exchange {
    struct atoll_list node, wait;
    struct atoll_proxy *proxy;
    struct atoll_http_request *req; /* NULL once it has ended */
    const struct atoll_proxy_hooks *hooks;
    void *arg;
    char key[ATOLL_PROXY_KEY_MAX], owner[ATOLL_SHARE_NAME_MAX];
    struct atoll_buf head;         /* of the request for the upstream; kept for a retry */
    struct dial *dial;             /* connection attempt in progress, or NULL */
    struct atoll_proxy_conn *conn; /* owned; NULL while connecting */
    struct atoll_proxy_outcome outcome;
    int64_t since_ms; /* when we began to wait for the answer */
    bool reused, upgrade;
    bool body_ended; /* the request's body has been forwarded completely */

    struct atoll_http1_answer answer;
    bool begun; /* its head was sent to the client */
};

/* proxy_conn.c: a connection. Not a struct atoll_stream: while paused, that reports the end of the peer
 * even if input is unread, so the last bytes of an upstream that answers and closes would be lost. */
struct atoll_proxy_conn;

struct atoll_proxy_conn_events {
    void (*input)(void *arg, const uint8_t *bytes, size_t n);
    void (*drain)(void *arg);             /* the queue fell below PROXY_HIGH_WATER */
    void (*closed)(void *arg, int error); /* once, after all input; 0: an orderly end */
};

/* Takes ownership of fd, even on failure. NULL without memory or descriptors. */
struct atoll_proxy_conn *atoll_proxy_conn_new(const struct atoll_proxy_config *config,
                                              const char *key, int fd);
/* May be called from its own callbacks. Accepts NULL; returns NULL. */
struct atoll_proxy_conn *atoll_proxy_conn_free(struct atoll_proxy_conn *conn);
void atoll_proxy_conn_own(struct atoll_proxy_conn *conn,
                          const struct atoll_proxy_conn_events *events, void *arg);
/* Sends or queues. If sending has failed, drops the bytes silently: the upstream may already have
 * answered, and its answer is still to be read. */
void atoll_proxy_conn_write(struct atoll_proxy_conn *conn, const struct iovec *iov, int count);
size_t atoll_proxy_conn_pending(const struct atoll_proxy_conn *conn);
void atoll_proxy_conn_pause(struct atoll_proxy_conn *conn);
void atoll_proxy_conn_resume(struct atoll_proxy_conn *conn);
/* Half-close, after what is queued. */
void atoll_proxy_conn_shutdown(struct atoll_proxy_conn *conn);
bool atoll_proxy_conn_broken(const struct atoll_proxy_conn *conn);

/* proxy_pool.c */
/* Removes an idle connection of that key from the pool and returns it; NULL if there is none. */
struct atoll_proxy_conn *atoll_proxy_pool_take(struct atoll_proxy *proxy, const char *key);
/* Takes ownership of the connection. */
void atoll_proxy_pool_put(struct atoll_proxy *proxy, const char *key,
                          struct atoll_proxy_conn *conn);
void atoll_proxy_pool_sweep(struct atoll_proxy *proxy, int64_t now_ms);
void atoll_proxy_pool_done(struct atoll_proxy *proxy);

/* proxy_head.c */
/* Writes the head of the request for the upstream. *ret_upgrade: it asks for an upgrade. -ENOBUFS,
 * -ENOMEM. */
int atoll_proxy_head_write(struct atoll_buf *out, const struct atoll_http_request *req,
                           const struct atoll_proxy_request *request,
                           bool *ret_upgrade) ATOLL_MUST_CHECK;
/* Whether the header is not forwarded: hop-by-hop (RFC 9110 section 7.6.1), or written by us. */
bool atoll_proxy_is_hop(const char *name);

/* proxy_answer.c */
void atoll_proxy_answer_start(struct atoll_proxy_exchange *x);
/* Sets the answer's headers for the client; false for a head that cannot be forwarded. */
bool atoll_proxy_answer_copy(struct atoll_proxy_exchange *x);

/* proxy_tunnel.c */
/* Answers 101 with `upgrade` as the protocol and the headers set so far, and relays bytes until one
 * side ends. Takes ownership of both connections. `early`: bytes that the upstream has sent already. */
void atoll_proxy_tunnel(struct atoll_proxy *proxy, struct atoll_http_request *req,
                        struct atoll_proxy_conn *conn, const char *key, const char *owner,
                        const char *upgrade, const uint8_t *early, size_t n,
                        const struct atoll_proxy_hooks *hooks, void *arg);
void atoll_proxy_tunnels_sweep(struct atoll_proxy *proxy, int64_t now_ms);
void atoll_proxy_tunnels_done(struct atoll_proxy *proxy);

/* proxy.c: counts a request or tunnel that begins (1) or ends (-1). */
void atoll_proxy_use(struct atoll_proxy *proxy, const char *key, const char *owner, int by);
/* proxy.c: starts the timeout sweep, if it is needed and does not run. */
void atoll_proxy_arm(struct atoll_proxy *proxy);

#pragma once
#include <llhttp.h>
#include <sys/uio.h>
#include "base/buf.h"
#include "base/list.h"
#include "base/shares.h"
#include "net/proxy.h"

/*
 * What the files of the proxy share.
 *   proxy.c         an exchange: from a request to the end of its answer
 *   proxy_answer.c  what the upstream says
 *   proxy_head.c    heads: what is passed on and what is not
 *   proxy_conn.c    a connection to an upstream
 *   proxy_pool.c    those kept for later
 *   proxy_tunnel.c  what an upgrade becomes
 */

struct atoll_proxy {
    struct atoll_proxy_config config;
    struct atoll_list idle; /* of struct kept.node, the last used first */
    size_t idle_count;
    struct atoll_list exchanges; /* requests under way */
    struct atoll_list dials;
    struct atoll_list waiting; /* exchanges, for one of too many dials to end */
    struct atoll_timer wake;
    struct atoll_list tunnels;
    struct atoll_shares active; /* exchanges and tunnels */
    struct atoll_timer sweep;
};

/* The most that may wait to be sent to one side before the other is told to stop. */
#define PROXY_HIGH_WATER ((size_t)64 * 1024)
#define PROXY_SWEEP_MS 1000
#define PROXY_ANSWER_HEAD_MAX ((size_t)32 * 1024) /* of the head of an answer */

/* A request under way. */
struct atoll_proxy_exchange {
    struct atoll_list node, wait;
    struct atoll_proxy *proxy;
    struct atoll_http_request *req; /* NULL once it is over */
    const struct atoll_proxy_hooks *hooks;
    void *arg;
    char key[ATOLL_PROXY_KEY_MAX], owner[ATOLL_SHARE_NAME_MAX];
    struct atoll_buf head;         /* what we ask; kept to ask again */
    struct dial *dial;             /* under way, or NULL */
    struct atoll_proxy_conn *conn; /* owned; NULL while dialling */
    struct atoll_proxy_outcome outcome;
    int64_t since_ms; /* when we began to wait for the answer */
    bool reused, upgrade;
    bool body_ended; /* all of the request's body has been sent on */

    llhttp_t parser;
    struct atoll_buf fields; /* the answer's headers: "name\0value\0" pairs */
    size_t head_bytes;       /* of the answer so far, while its head is not complete */
    bool answered;           /* the answer's first byte is here */
    bool begun;              /* the client has its head */
    bool informational, switching, complete, keep;
};

/* proxy_conn.c: a connection. Not a struct atoll_stream, which reports the end of its peer even
 * before what that sent has been read, while it is paused: an upstream that answers, closes and is
 * read slowly would lose its last bytes. */
struct atoll_proxy_conn;

struct atoll_proxy_conn_events {
    void (*input)(void *arg, const uint8_t *bytes, size_t n);
    void (*drain)(void *arg);             /* fewer than PROXY_HIGH_WATER wait, after more did */
    void (*closed)(void *arg, int error); /* once, after all input; 0: an orderly end */
};

/* Takes fd in every case; NULL out of memory or descriptors. */
struct atoll_proxy_conn *atoll_proxy_conn_new(const struct atoll_proxy_config *config,
                                              const char *key, int fd);
/* May be called from its own callbacks. Accepts NULL; returns NULL. */
struct atoll_proxy_conn *atoll_proxy_conn_free(struct atoll_proxy_conn *conn);
void atoll_proxy_conn_own(struct atoll_proxy_conn *conn,
                          const struct atoll_proxy_conn_events *events, void *arg);
/* Sends or queues. An upstream that takes no more is silently not written to: it may have
 * answered, and what it says is then still to be read. */
void atoll_proxy_conn_write(struct atoll_proxy_conn *conn, const struct iovec *iov, int count);
size_t atoll_proxy_conn_pending(const struct atoll_proxy_conn *conn);
void atoll_proxy_conn_pause(struct atoll_proxy_conn *conn);
void atoll_proxy_conn_resume(struct atoll_proxy_conn *conn);
/* Half-close, after what is queued. */
void atoll_proxy_conn_shutdown(struct atoll_proxy_conn *conn);
bool atoll_proxy_conn_broken(const struct atoll_proxy_conn *conn);

/* proxy_pool.c */
/* A connection of that key, taken out; NULL when there is none. */
struct atoll_proxy_conn *atoll_proxy_pool_take(struct atoll_proxy *proxy, const char *key);
/* Takes the connection over. */
void atoll_proxy_pool_put(struct atoll_proxy *proxy, const char *key,
                          struct atoll_proxy_conn *conn);
void atoll_proxy_pool_sweep(struct atoll_proxy *proxy, int64_t now_ms);
void atoll_proxy_pool_done(struct atoll_proxy *proxy);

/* proxy_head.c */
/* The request for the upstream. *ret_upgrade: it asks for one. -ENOBUFS, -ENOMEM. */
int atoll_proxy_head_write(struct atoll_buf *out, const struct atoll_http_request *req,
                           const struct atoll_proxy_request *request,
                           bool *ret_upgrade) ATOLL_MUST_CHECK;
/* Whether the header ends here: hop-by-hop (RFC 9110 section 7.6.1), or ours to write. */
bool atoll_proxy_is_hop(const char *name);
/* Whether `list`, the value of a Connection header, names it. */
bool atoll_proxy_list_has(const char *list, const char *token);

/* proxy_answer.c */
void atoll_proxy_answer_start(struct atoll_proxy_exchange *x);
/* A header of the answer, or NULL. */
const char *atoll_proxy_answer_field(const struct atoll_proxy_exchange *x, const char *wanted);
/* Sets its headers for the client; false for a head that cannot be passed on. */
bool atoll_proxy_answer_copy(struct atoll_proxy_exchange *x);

/* proxy_tunnel.c */
/* Answers 101 with `upgrade` as the protocol and the headers set so far, and carries bytes until
 * one side ends. Takes both connections; early is what the upstream sent already. */
void atoll_proxy_tunnel(struct atoll_proxy *proxy, struct atoll_http_request *req,
                        struct atoll_proxy_conn *conn, const char *owner, const char *upgrade,
                        const uint8_t *early, size_t n, const struct atoll_proxy_hooks *hooks,
                        void *arg);
void atoll_proxy_tunnels_sweep(struct atoll_proxy *proxy, int64_t now_ms);
void atoll_proxy_tunnels_done(struct atoll_proxy *proxy);

/* proxy.c: keeps the sweep going while there is something to look after. */
void atoll_proxy_arm(struct atoll_proxy *proxy);

#pragma once
#include <nghttp2/nghttp2.h>
#include "base/list.h"
#include "base/map.h"
#include "egress/cache.h"
#include "egress/intercept.h"
#include "net/http1_answer.h"
#include "net/http_server.h"
#include "net/http_tunnel.h"
#include "net/tls.h"
#include "net/tls_issuer.h"

/*
 * What the files of the interception share.
 *   intercept.c           what all interceptions share; one interception; requests as they arrive
 *   intercept_box.c       the interception of a sandbox's connection: its policy, secrets and dials
 *   intercept_exchange.c  one request, from its head to the end of its answer
 *   intercept_head.c      the request as it is sent: where to, with which headers
 *   intercept_cache.c     downloads that are kept
 *   intercept_upstream.c  connections to servers: dial, TLS, which one takes a request
 *   intercept_http1.c     a connection that speaks HTTP/1.1
 *   intercept_http2.c     a connection that speaks HTTP/2
 * The client's side is our HTTP server (net/http_server.h), in both versions. Exchanges hide the version of
 * the server: struct atoll_upstream_wire has the operations that differ.
 */

/* What an interception needs to know and to do outside. */
struct atoll_intercept_hooks {
    /* The transform of this request in the policy as it is now, or NULL. Borrowed until the callback
     * returns. */
    const struct atoll_network_transform *(*transform)(void *arg,
                                                       const struct atoll_network_message *message);
    /* The value of a secret, or NULL. Borrowed until the callback returns. */
    const char *(*secret)(void *arg, const char *name);
    /* Connects to `host`, which the policy names ("forward"), or, if it is NULL, to where the client
     * wanted. done gets a connected socket or -errno: once, never before this returns. NULL without
     * memory or descriptors, or beyond the tenant's share of connections. */
    void *(*dial)(void *arg, const char *host, uint16_t port, void (*done)(void *ctx, int fd),
                  void *ctx);
    /* done is not called. */
    void (*cancel)(void *arg, void *dial);
    /* Once for each dial, when its connection is closed or was not made. */
    void (*release)(void *arg);
    /* The cache of downloads, and whose requests these are (borrowed until the callback returns); NULL:
     * this connection uses none. The function may be NULL. */
    struct atoll_egress_cache *(*cache)(void *arg, const char **ret_tenant);
    /* A number that changes when dials take another route (another proxy): connections that were dialled
     * before take no more requests. The function may be NULL: it never changes. */
    uint64_t (*route)(void *arg);
};

/* For what the client takes us. */
struct atoll_intercept_site {
    bool tls;
    const char *name; /* copied */
    uint16_t port;
};

struct atoll_interceptor {
    struct atoll_loop *loop;
    struct atoll_tls_issuer *issuer;
    struct atoll_tls *any;   /* for servers: offers HTTP/2 and HTTP/1.1 */
    struct atoll_tls *http1; /* offers HTTP/1.1 only */
    struct atoll_http_server *server;
    struct atoll_map by_tag; /* of struct atoll_intercept */
    uint64_t tags;
    bool plain_http2;   /* servers without TLS speak HTTP/2; for tests */
    bool plain_secrets; /* secrets are sent without TLS; for tests */
};

struct atoll_intercept {
    struct atoll_interceptor *shared;
    const struct atoll_intercept_hooks *hooks;
    void *arg;
    void *owned; /* freed with it: the argument of hooks, if it belongs to it */
    char tag[24];
    char name[ATOLL_EGRESS_NAME_MAX];
    uint16_t port;
    bool tls;
    bool http1; /* a server of it chose HTTP/1.1: requests need connections of their own */
    struct atoll_list exchanges, upstreams;
    struct atoll_http_tunnel *tunnel; /* owned; NULL: absent */
};

#define INTERCEPT_URL_MAX 320

/* Where a request goes. */
struct atoll_intercept_place {
    bool tls;
    bool by_policy; /* the transform's "forward" */
    uint16_t port;
    char host[ATOLL_EGRESS_NAME_MAX]; /* name, or address without brackets */
    char key[INTERCEPT_URL_MAX];      /* the same for the same place */
};

struct atoll_upstream;

/* One request. */
struct atoll_exchange {
    struct atoll_list node; /* of the interception */
    struct atoll_intercept *intercept;
    struct atoll_http_request *req;
    struct atoll_intercept_place place;
    struct atoll_buf target; /* origin-form */
    struct atoll_buf authority;
    struct atoll_buf fields;   /* "name\0value\0" pairs, without Host and framing */
    struct atoll_upstream *up; /* NULL while it waits for a connection */
    bool wants_trailers;       /* TE: trailers */
    bool upgrade;              /* asks for another protocol */
    bool fresh;                /* takes only a connection that no other request has used */
    bool reused;               /* the connection had served another request before */
    bool begun;                /* the head of the answer was sent to the client */
    bool body_ended;           /* the request is complete */
    bool body_paused;

    /* HTTP/2. */
    int32_t stream_id;
    struct atoll_buf out; /* body of the request, not yet in frames */
    bool deferred;        /* nghttp2 waits for more of it */
    int status;
    struct atoll_buf answer; /* "name\0value\0" pairs of the answer's head or trailers */
    size_t owed;             /* bytes of the answer not yet returned to the windows */

    /* A download that may be kept. */
    struct atoll_egress_cache *cache;
    char *url; /* owned; NULL: it is not one */
    struct atoll_cache_expected expected;
    struct atoll_cache_read *read;   /* answered from the cache */
    struct atoll_cache_write *write; /* kept while it passes */
    bool missed;                     /* a server answers */
};

/* What differs between servers of HTTP/1.1 and of HTTP/2. */
struct atoll_upstream_wire {
    /* Takes the descriptor of a connection that was made. -errno. */
    int (*open)(struct atoll_upstream *up);
    bool (*has_room)(const struct atoll_upstream *up);
    /* Sends the head of the request; the body follows by write() and end_body(). */
    void (*ask)(struct atoll_upstream *up, struct atoll_exchange *x);
    void (*write)(struct atoll_exchange *x, const uint8_t *bytes, size_t n);
    void (*end_body)(struct atoll_exchange *x);
    size_t (*pending)(const struct atoll_exchange *x);
    /* The client takes more of the answer. */
    void (*resume)(struct atoll_exchange *x);
    /* The exchange ends and forgets the connection. complete: it has its whole answer. May free the
     * connection. */
    void (*leave)(struct atoll_exchange *x, bool complete);
    /* Releases what open() made, but not the stream. */
    void (*free)(struct atoll_upstream *up);
};
extern const struct atoll_upstream_wire atoll_upstream_http1, atoll_upstream_http2;

/* A connection to a server. */
struct atoll_upstream {
    struct atoll_list node; /* of the interception */
    struct atoll_intercept *intercept;
    struct atoll_intercept_place place;
    uint64_t route;                         /* of hooks->route, when it was dialled */
    const struct atoll_upstream_wire *wire; /* NULL until the connection is made */
    bool http1_only;                        /* made for one exchange: an upgrade, or a fresh one */
    struct atoll_exchange *first; /* http1_only: for which it is made; NULL once that has ended */
    void *dial;                   /* NULL: not dialling */
    int fd;                       /* owned, during the handshake */
    struct atoll_tls_conn *tls;   /* owned by `stream` once there is one */
    struct atoll_watch watch;     /* of the handshake */
    struct atoll_timer timer;     /* of the handshake; HTTP/2: sends */
    struct atoll_stream *stream;  /* owned */
    unsigned depth;               /* callbacks running; the memory is freed after they return */
    bool freed;
    bool used;    /* has served a request */
    bool dialled; /* release is to be called */

    /* HTTP/1.1. */
    struct atoll_exchange *busy; /* its exchange, or NULL */
    struct atoll_http1_answer answer;

    /* HTTP/2. */
    nghttp2_session *lib;
    size_t since_frame; /* input since a frame other than CONTINUATION */
    bool receiving;     /* input is being processed; frames are sent after it */
    bool going_away;    /* takes no more requests */
};

/* intercept.c */
int atoll_intercept_new(struct atoll_interceptor *shared, const struct atoll_intercept_site *site,
                        const struct atoll_intercept_hooks *hooks, void *arg,
                        struct atoll_intercept **ret, int *ret_fd) ATOLL_MUST_CHECK;
/* Answers with a text that names the cause. Ends the request. */
void atoll_intercept_refuse(struct atoll_http_request *req, int status, const char *text);

/* intercept_head.c */
/* Whether the request is for the name of the connection; if not, *ret_host is what it is for. */
bool atoll_intercept_is_meant(const struct atoll_intercept *i, const struct atoll_http_request *req,
                              const char **ret_host);
/* Fills place, target, authority and fields of the exchange. INVALID_ARGUMENT: the request is too large;
 * PERMISSION_DENIED: it would carry a secret without TLS; FAILED_PRECONDITION: the transform cannot be carried out, the text names the secret or the URL. */
int atoll_exchange_prepare(struct atoll_exchange *x, const struct atoll_network_transform *t,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
/* Reduces authority and fields of a prepared exchange without a transform to what may be sent if its answer
 * is kept for other sandboxes: a header that is not part of the URL must not choose the answer. */
void atoll_exchange_make_plain(struct atoll_exchange *x);
/* Iterates over "name\0value\0" pairs: start with *at = 0; false at the end. */
bool atoll_intercept_next_field(const struct atoll_buf *fields, size_t *at, const char **ret_name,
                                const char **ret_value);

/* intercept_exchange.c */
void atoll_exchange_start(struct atoll_intercept *i, struct atoll_http_request *req,
                          const struct atoll_network_transform *t);
/* Ends it and resets the client's request, if it is not answered. */
void atoll_exchange_cancel(struct atoll_exchange *x);
/* The connection `x->up` takes the request: its body may be sent. */
void atoll_exchange_go(struct atoll_exchange *x);
/* The server has taken queued bytes of the body. */
void atoll_exchange_drained(struct atoll_exchange *x);
/* The answer, in order; fields: "name\0value\0" pairs. */
void atoll_exchange_inform(struct atoll_exchange *x, int status, const struct atoll_buf *fields);
/* length: of the body, -1 if it is not known. false: it cannot be passed on. */
bool atoll_exchange_head(struct atoll_exchange *x, int status, const char *reason,
                         const struct atoll_buf *fields, int64_t length);
/* The same for an answer that ends with its head; frees the exchange if it could be passed on. HTTP/2 tells
 * it from an empty body, and gRPC's errors depend on that. */
bool atoll_exchange_only_head(struct atoll_exchange *x, int status, const struct atoll_buf *fields,
                              int64_t length);
/* false: it cannot be passed on. *ret_full: the client does not take more at present. */
bool atoll_exchange_body(struct atoll_exchange *x, const uint8_t *bytes, size_t n, bool *ret_full);
/* The answer is complete; frees the exchange. */
void atoll_exchange_end(struct atoll_exchange *x, const struct atoll_buf *trailers);
/* The server accepted the upgrade: frees the exchange. Takes ownership of the server's stream. */
void atoll_exchange_switch(struct atoll_exchange *x, const struct atoll_buf *fields,
                           struct atoll_stream *stream, const uint8_t *early, size_t n);
/* Without an answer: 502 with the text, or the client's request is reset if the answer has begun. Frees
 * the exchange. */
void atoll_exchange_fail(struct atoll_exchange *x, const char *fmt, ...) ATOLL_PRINTF(2, 3);
/* The connection was closed. Sends a request again that the server has not seen, or that may be repeated;
 * otherwise fails it. unseen: the server says that it has not processed it. */
void atoll_exchange_lost(struct atoll_exchange *x, bool answered, bool unseen);

/* intercept_cache.c */
/* Whether the cache answers; if it cannot after all, the exchange finds a connection. */
bool atoll_exchange_from_cache(struct atoll_exchange *x);
/* The head of a server's answer; its body: true if the disk does not take more at present. */
void atoll_exchange_keep_head(struct atoll_exchange *x, int status, const struct atoll_buf *fields,
                              int64_t length);
bool atoll_exchange_keep_body(struct atoll_exchange *x, const uint8_t *bytes, size_t n);
/* The exchange ends. */
void atoll_exchange_leave_cache(struct atoll_exchange *x, bool complete);

/* intercept_upstream.c */
/* Finds or makes a connection for the exchange, or lets it wait for one. May free the exchange. */
void atoll_upstream_find(struct atoll_exchange *x);
/* The connections of the interception have changed: serves exchanges that wait. */
void atoll_upstream_wake(struct atoll_intercept *i);
/* Does not end its exchanges. */
void atoll_upstream_free(struct atoll_upstream *up);
/* Ends a section that began with up->depth++. */
void atoll_upstream_leave(struct atoll_upstream *up);
/* Makes the stream of the connection from its descriptor and TLS. -errno. */
int atoll_upstream_open_stream(struct atoll_upstream *up,
                               const struct atoll_stream_callbacks *callbacks) ATOLL_MUST_CHECK;

#pragma once
#include "net/http_server.h"

/*
 * Reverse proxy: forwards requests of our HTTP server to HTTP/1.1 upstream servers, with streaming and
 * back-pressure both ways. Messages are parsed and written anew, in both directions; neither side sees
 * the framing of the other, which prevents request smuggling. An upgrade that the upstream accepts
 * becomes a tunnel of bytes.
 *
 * A key names an upstream; idle connections are kept and reused per key. The owner's dial() connects.
 *
 * Blocking: nothing here blocks. Thread: the loop's.
 */
struct atoll_proxy;

#define ATOLL_PROXY_KEY_MAX 64

/* fd: connected; the proxy takes ownership. Ignored if error is not NULL. */
typedef void atoll_proxy_dialed_fn(void *ctx, int fd, const struct atoll_error *error);

struct atoll_proxy_config {
    struct atoll_loop *loop;
    /* Connects to the upstream that `key` names; calls done once, possibly before it returns. */
    void (*dial)(void *arg, const char *key, atoll_proxy_dialed_fn *done, void *ctx);
    /* Closes a descriptor of dial; NULL: close(2). */
    void (*discard)(void *arg, const char *key, int fd);
    /* Called with 1 when a request or tunnel for the upstream begins, and with -1 at its end. May be NULL. */
    void (*use)(void *arg, const char *key, int by);
    void *arg;
    int64_t answer_ms; /* timeout for the head of an answer; 0: 120 s */
};

/* How one request ended. */
struct atoll_proxy_outcome {
    int status; /* as the client saw it; 101 for a tunnel, 499 if the client disconnected */
    uint64_t in_bytes, out_bytes; /* of bodies and tunnels: from the client, to the client */
};

struct atoll_proxy_hooks {
    /* Called for each header; false drops it. May replace *value by a text that stays valid until the
     * next call of the hook. May be NULL. */
    bool (*request_header)(void *arg, const char *name, const char **value);
    bool (*response_header)(void *arg, const char *name, const char **value);
    /* Forwarding failed before any of the answer was sent: answers the request and returns the status.
     * UNAVAILABLE: no connection; DEADLINE_EXCEEDED; DATA_LOSS: malformed answer. */
    int (*failed)(void *arg, struct atoll_http_request *req, const struct atoll_error *error);
    /* The last call. */
    void (*done)(void *arg, const struct atoll_proxy_outcome *outcome);
};

struct atoll_proxy_request {
    const char *key;
    const char *owner;  /* whose share of the limit this request counts to; see base/shares.h */
    const char *target; /* origin-form: "/path?query" */
    const char *host;   /* Host for the upstream */
    const char *scheme; /* for X-Forwarded-Proto */
    const char *extra;  /* whole header lines to add, or "" */
    const struct atoll_proxy_hooks *hooks; /* static storage */
    void *arg;
};

struct atoll_proxy *atoll_proxy_new(const struct atoll_proxy_config *config);
/* Closes tunnels and kept connections. Free the HTTP server first. */
struct atoll_proxy *atoll_proxy_free(struct atoll_proxy *proxy);

/* Takes over the request, with its on_close, on_drain and body. The strings are borrowed for the call.
 * Results are reported through the hooks. */
void atoll_proxy_forward(struct atoll_proxy *proxy, struct atoll_http_request *req,
                         const struct atoll_proxy_request *request);

/* Connects a client to the upstream `key` without HTTP: bytes are relayed both ways until one side ends.
 * Takes ownership of fd, which is connected and non-blocking. Of the hooks only `done` is called, once:
 * status 101, or 502 if there was no connection, or 503 if the owner has too many. Until it is called,
 * the owner of dial() must not be freed. */
void atoll_proxy_relay(struct atoll_proxy *proxy, int fd, const char *key, const char *owner,
                       const struct atoll_proxy_hooks *hooks, void *arg);

/* The same for a client of our HTTP server that asked for an upgrade: answers 101 with `upgrade` as the
 * protocol, which ends the request. fd: a connection of dial(); takes ownership of it. -EAGAIN: the owner has
 * too many; then the request is as it was. */
int atoll_proxy_join(struct atoll_proxy *proxy, struct atoll_http_request *req, const char *upgrade,
                     int fd, const char *key, const char *owner,
                     const struct atoll_proxy_hooks *hooks, void *arg) ATOLL_MUST_CHECK;

/* Number of active requests and tunnels, and of idle connections. */
size_t atoll_proxy_active(const struct atoll_proxy *proxy);
size_t atoll_proxy_kept(const struct atoll_proxy *proxy);

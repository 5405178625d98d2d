#pragma once
#include "net/http_server.h"

/*
 * Passes requests of our HTTP server on to HTTP/1.1 servers elsewhere, with streaming and
 * back-pressure both ways. Messages are taken apart and written anew: what the client sent never
 * reaches the upstream as it was framed, and the other way round, so neither can smuggle anything
 * past the other. An upgrade that the upstream accepts becomes a tunnel of bytes.
 *
 * Upstreams have a key, within which connections are kept and used again. How to connect is the
 * owner's business.
 *
 * Blocking: nothing here blocks. Thread: the loop's.
 */
struct atoll_proxy;

#define ATOLL_PROXY_KEY_MAX 64

/* fd: connected, taken; ignored where there is an error. */
typedef void atoll_proxy_dialed_fn(void *ctx, int fd, const struct atoll_error *error);

struct atoll_proxy_config {
    struct atoll_loop *loop;
    /* Connects to the upstream `key` names; calls done once, maybe before it returns. */
    void (*dial)(void *arg, const char *key, atoll_proxy_dialed_fn *done, void *ctx);
    /* Closes what dial gave; NULL: close(2). */
    void (*discard)(void *arg, const char *key, int fd);
    void *arg;
    int64_t answer_ms; /* the longest wait for the head of an answer; 0: 120 s */
};

/* How one request ended. */
struct atoll_proxy_outcome {
    int status; /* as the client saw it; 101 for a tunnel, 499 when it went away */
    uint64_t in_bytes, out_bytes; /* of bodies and tunnels: from the client, to the client */
};

struct atoll_proxy_hooks {
    /* A header on its way; false drops it. *value may be replaced by a text that lives until the
     * next call of the hook. May be NULL. */
    bool (*request_header)(void *arg, const char *name, const char **value);
    bool (*response_header)(void *arg, const char *name, const char **value);
    /* Nothing of an answer is out yet: answers the request, and returns the status it gave.
     * UNAVAILABLE: no connection; DEADLINE_EXCEEDED; DATA_LOSS: the answer makes no sense. */
    int (*failed)(void *arg, struct atoll_http_request *req, const struct atoll_error *error);
    /* The last call. */
    void (*done)(void *arg, const struct atoll_proxy_outcome *outcome);
};

struct atoll_proxy_request {
    const char *key;
    const char *owner;  /* whose part of what all share it takes; see base/shares.h */
    const char *target; /* origin-form: "/path?query" */
    const char *host;   /* Host for the upstream */
    const char *scheme; /* for X-Forwarded-Proto */
    const char *extra;  /* whole header lines to add, or "" */
    const struct atoll_proxy_hooks *hooks; /* lives for ever */
    void *arg;
};

struct atoll_proxy *atoll_proxy_new(const struct atoll_proxy_config *config);
/* After the HTTP server is freed. Closes tunnels and kept connections. */
struct atoll_proxy *atoll_proxy_free(struct atoll_proxy *proxy);

/* Takes the request over, with its on_close, on_drain and body; the strings are borrowed for the
 * call. Everything it says comes through the hooks. */
void atoll_proxy_forward(struct atoll_proxy *proxy, struct atoll_http_request *req,
                         const struct atoll_proxy_request *request);

/* Requests and tunnels under way, and connections kept for later. */
size_t atoll_proxy_active(const struct atoll_proxy *proxy);
size_t atoll_proxy_kept(const struct atoll_proxy *proxy);

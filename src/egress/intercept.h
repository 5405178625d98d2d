#pragma once
#include "egress/egress.h"

/*
 * HTTP connections to domains that have a transform in the policy: TLS is ended here, requests are
 * changed and sent on.
 */

/* The CA that signs certificates for such domains: reads or makes STATE/egress-ca.pem (the certificate)
 * and its key. Called before the worker confines itself. */
int atoll_ca_open(int state_fd, struct atoll_ca **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_ca *atoll_ca_free(struct atoll_ca *ca);

struct atoll_intercept;

struct atoll_intercept_config {
    struct atoll_box *box;
    int client_fd; /* taken, also on failure; non-blocking; the first bytes were peeked at, not read */
    bool tls;      /* the first bytes are a ClientHello, otherwise an HTTP/1 request */
    /* From SNI or Host; copied. Requests for another host on this connection get 421. The transform is
     * looked up with atoll_network_find_transform(box->policy, name) for each request: it may have
     * changed; without one the request is sent on as it is. */
    const char *name;
    /* The destination that the client wanted, already allowed; connect with atoll_dial_start() when a
     * request needs it. */
    struct in6_addr address;
    uint16_t port;
    /* Once, from the loop, never before the start returns, when it has ended by itself; frees it. end:
     * enum atoll_egress_end, errnum for UNREACHABLE. */
    void (*on_end)(void *arg, uint8_t end, int errnum);
    void *arg;
};

/* Bytes count by atoll_box_count() as they pass on the client's socket, and are taken from box->up and
 * box->down. NULL without memory, or without a CA for tls. */
struct atoll_intercept *atoll_intercept_start(const struct atoll_intercept_config *config);
/* Bytes that the client received and sent on this connection so far. */
void atoll_intercept_bytes(const struct atoll_intercept *i, uint64_t *ret_rx, uint64_t *ret_tx);
/* Closes both sides at once (RST towards the client); on_end is not called. Accepts NULL; returns
 * NULL. */
struct atoll_intercept *atoll_intercept_close(struct atoll_intercept *i);

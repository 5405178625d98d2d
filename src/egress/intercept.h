#pragma once
#include "egress/egress.h"

/*
 * HTTP connections to domains that have a transform in the policy: TLS is ended here with a certificate
 * of our own, requests are changed and sent on (docs/network.md "Header rules").
 *
 * An interception stands in for the server: the caller relays the client's bytes to a socket of it, as it
 * would to the server's. So bandwidth, counters, the end of the connection and its events are those of
 * every connection. The interception connects to the server when a request needs it.
 *
 * Blocking: opening reads files. Thread: the loop's.
 */

/* What all interceptions of a worker share: the CA that signs certificates for such domains
 * (STATE/egress-ca.pem and its key are read, or made the first time), and the CA bundle of the host, by
 * which servers are verified. Called before the worker confines itself. */
struct atoll_interceptor;
int atoll_interceptor_open(struct atoll_loop *loop, int state_fd, struct atoll_interceptor **ret,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
/* Close all interceptions first. Accepts NULL; returns NULL. */
struct atoll_interceptor *atoll_interceptor_close(struct atoll_interceptor *shared);

struct atoll_intercept;

struct atoll_intercept_config {
    struct atoll_box *box; /* has egress->interceptor */
    bool tls;              /* the first bytes are a ClientHello, otherwise an HTTP/1 request */
    /* From SNI or Host; copied. Requests for another host on this connection get 421. The transform is
     * looked up with atoll_network_find_transform(box->policy, name) for each request: it may have
     * changed; without one the request is sent on as it is. */
    const char *name;
    /* The destination that the client wanted, already allowed; copied. NULL: it is not known to be one of
     * the name's, which is resolved if a request goes there. */
    const struct in6_addr *address;
    uint16_t port;
};

/* *ret_fd: a connected stream socket, non-blocking and the caller's, to which it relays the client's
 * bytes. NULL without memory or descriptors, or if `name` is not a host name. */
struct atoll_intercept *atoll_intercept_start(const struct atoll_intercept_config *config,
                                              int *ret_fd);
/* Ends the requests and closes the connections to the server. Required after the end of *ret_fd, too.
 * Accepts NULL; returns NULL. */
struct atoll_intercept *atoll_intercept_close(struct atoll_intercept *i);

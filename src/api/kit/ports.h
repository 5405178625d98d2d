#pragma once
#include "engine/engine.h"
#include "net/proxy.h"

/*
 * HTTP servers inside sandboxes: a reverse proxy whose upstreams are ports of sandboxes. Who may
 * visit a port, and which headers pass, is the caller's decision.
 */
struct atoll_ports;

/* tries: how often a port is tried, with short pauses, before a request fails: a server that was
 * just started may not listen yet. */
struct atoll_ports *atoll_ports_new(struct atoll_loop *loop, struct atoll_engine *engine,
                                    unsigned tries);
/* Call after the HTTP server is freed. */
struct atoll_ports *atoll_ports_free(struct atoll_ports *ports);

struct atoll_port_request {
    const char *sandbox_id;
    uint16_t port;
    const char *target; /* as in net/proxy.h, and so are the following */
    const char *host;
    const char *extra;
    const struct atoll_proxy_hooks *hooks;
    void *arg;
};
/* Forwards the request; the sandbox counts as active until its end. */
void atoll_ports_forward(struct atoll_ports *ports, struct atoll_http_request *req,
                         const struct atoll_port_request *request);
/* Connects a client of a published port to the port of the sandbox, which counts as active until
 * its end. Takes ownership of fd. done is called once, at that end. */
void atoll_ports_relay(struct atoll_ports *ports, const char *sandbox_id, uint16_t port, int fd,
                       void (*done)(void *arg), void *arg);
/* Answers an upgrade to `protocol` with 101, and relays bytes between the client and fd, which came from
 * atoll_engine_connect() for the port; takes ownership of fd. The request ends. -EAGAIN: the tenant has too
 * many connections; then the request is as it was. */
int atoll_ports_join(struct atoll_ports *ports, struct atoll_http_request *req,
                     const char *protocol, const char *sandbox_id, uint16_t port,
                     int fd) ATOLL_MUST_CHECK;
/* For the hook `done`: counts the request in the metrics. */
void atoll_ports_measure(const struct atoll_proxy_outcome *outcome);
/* Number of requests and tunnels in progress. */
size_t atoll_ports_active(const struct atoll_ports *ports);

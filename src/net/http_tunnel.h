#pragma once
#include "net/http_server.h"
#include "net/stream.h"

/*
 * An upgrade that a proxy passes on: after 101 the bytes of the client and of the server are relayed as they
 * are. Each side is read only as fast as the other one takes the bytes, and the end of one side is passed
 * on after its last byte.
 *
 * Thread: the loop's.
 */
struct atoll_http_tunnel;

/* Answers 101 with `protocol` and the headers set so far, which ends the request. Takes ownership of the
 * server's stream; `early`: bytes of it that were read already. done is called once, from the loop, when
 * the tunnel has ended; it is freed then. Aborts without memory. */
struct atoll_http_tunnel *atoll_http_tunnel_open(struct atoll_http_request *req,
                                                 const char *protocol, struct atoll_stream *server,
                                                 const uint8_t *early, size_t n,
                                                 void (*done)(void *arg), void *arg);
/* Closes both sides; done is not called. Accepts NULL; returns NULL. */
struct atoll_http_tunnel *atoll_http_tunnel_close(struct atoll_http_tunnel *t);

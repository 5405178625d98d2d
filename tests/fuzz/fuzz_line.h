#pragma once
/*
 * What the fuzzers of our HTTP client share: a connection whose server has said all it has to say before
 * it is asked. The sources are included, not linked. Our own way to connect, because a server that speaks
 * first is dropped by the usual one; and a WebSocket without its opening, because nothing could guess the
 * key of one.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include "base/buf.h"
#include "fuzz.h"

#define atoll_http_client_connect connect_as_usual
#include "net/client_socket.c"
#undef atoll_http_client_connect
#include "net/ws_client.c"

int atoll_http_client_connect(struct atoll_http_client *client,
                              struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_http_client_connect(struct atoll_http_client *client, struct atoll_error *err)
{
    return client->line.fd >= 0 ? 0 : connect_as_usual(client, err);
}

/* The other end of the client's line, which has sent all of it and hung up: to be closed. */
static int line_with(struct atoll_http_client *client, const void *data, size_t size)
{
    int pair[2], room = 512 * 1024;

    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    (void)setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    FUZZ_CHECK(send(pair[1], data, size, MSG_NOSIGNAL) == (ssize_t)size);
    (void)shutdown(pair[1], SHUT_WR);
    client->line.fd = pair[0];
    return pair[1];
}

/* The first `early` bytes came with the answer that opened the WebSocket. */
static int websocket_with(struct atoll_http_client *client, const uint8_t *data, size_t size,
                          size_t early, size_t max_message, struct atoll_wsc **ret_ws)
{
    int server;

    early = ATOLL_MIN(early, size);
    server = line_with(client, data + early, size - early);
    memcpy(client->in, data, early);
    FUZZ_CHECK(wsc_new(client, max_message, 0, early, ret_ws, NULL) == 0);
    return server;
}

#pragma once
#include "net/http_client.h"

/*
 * What http_client.c (requests and replies), client_socket.c (connecting and moving bytes) and
 * ws_client.c share.
 */

#define CLIENT_READ_BYTES (64 * 1024)

struct atoll_http_client {
    char *where;      /* owned; as given, for messages */
    char *unix_path;  /* owned; or NULL */
    char *host_port;  /* owned; or NULL */
    const char *host; /* for the Host header */
    int fd;           /* owned; ATOLL_NO_FD when not connected */
    int timeout_ms;
    uint8_t *in; /* owned; CLIENT_READ_BYTES */
};

/* client_socket.c */
/* Connects, or makes sure that the connection kept from the last request still stands. */
int atoll_client_connect(struct atoll_http_client *client,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_client_disconnect(struct atoll_http_client *client);
/* Waits for any of `events`: those that are ready, or DEADLINE_EXCEEDED. */
int atoll_client_wait(int fd, short events, int timeout_ms,
                      struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_client_lost(const struct atoll_http_client *client, int errnum, struct atoll_error *err);

/* http_client.c */
/* Sends a request that asks for an upgrade and reads the reply's head. When that is a 101, what
 * came behind it is *ret_rest bytes at client->in + *ret_at, and the socket is still client->fd. */
int atoll_client_upgrade(struct atoll_http_client *client, const char *target,
                         const struct atoll_http_field *headers, const struct atoll_http_field *own,
                         struct atoll_http_reply *reply, size_t *ret_at, size_t *ret_rest,
                         struct atoll_error *err) ATOLL_MUST_CHECK;

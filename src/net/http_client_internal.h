#pragma once
#include <sys/uio.h>
#include "net/http_client.h"
#include "net/tls.h"

/*
 * What http_client.c (requests and replies), client_socket.c (connecting and moving bytes) and
 * ws_client.c share.
 */

#define CLIENT_READ_BYTES (64 * 1024)

/* A connection, plain or with TLS. */
struct atoll_http_line {
    int fd;                     /* owned; ATOLL_NO_FD when not connected */
    struct atoll_tls_conn *tls; /* owned; NULL: plain */
};

struct atoll_http_client {
    char *where;      /* owned; as given, for messages */
    char *unix_path;  /* owned; or NULL */
    char *host_port;  /* owned; or NULL */
    const char *host; /* for the Host header */
    bool is_tls;
    char *ca_file; /* owned; or NULL */
    bool insecure;
    struct atoll_tls *tls; /* owned; made for the first connection */
    struct atoll_http_line line;
    int timeout_ms;
    uint8_t *in; /* owned; CLIENT_READ_BYTES */
};

/* client_socket.c */
/* Connects, unless the connection kept from the last request is still usable. */
int atoll_http_client_connect(struct atoll_http_client *client,
                              struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_http_client_disconnect(struct atoll_http_client *client);
/* Waits for any of `events`. Returns those that are ready, or DEADLINE_EXCEEDED. */
int atoll_http_client_wait(int fd, short events, int timeout_ms,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_http_client_lost(const struct atoll_http_client *client, int errnum,
                           struct atoll_error *err);

/* Return the number of bytes, 0 at the end of the connection, or -errno; -EAGAIN instead of waiting. */
ssize_t atoll_http_line_recv(struct atoll_http_line *line, void *buf, size_t n);
ssize_t atoll_http_line_sendv(struct atoll_http_line *line, const struct iovec *iov, int count);
/* What to poll for before receiving again. */
short atoll_http_line_events(const struct atoll_http_line *line);
void atoll_http_line_close(struct atoll_http_line *line);

/* http_client.c */
/* Sends an upgrade request and reads the head of the reply. After a 101, the bytes received behind the
 * head are *ret_rest bytes at client->in + *ret_at; the client still owns the connection. */
int atoll_http_client_upgrade(struct atoll_http_client *client, const char *target,
                              const struct atoll_http_field *headers,
                              const struct atoll_http_field *own, struct atoll_http_reply *reply,
                              size_t *ret_at, size_t *ret_rest,
                              struct atoll_error *err) ATOLL_MUST_CHECK;

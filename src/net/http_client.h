#pragma once
#include "base/buf.h"
#include "base/error.h"

/*
 * A small HTTP/1.1 client for libatoll, the CLI and the tests, optionally with TLS. One connection, kept
 * alive between requests and reopened if the server closed it.
 *
 * Blocking: every function, up to the timeout. Needs no loop.
 * Thread: one at a time.
 * Ownership: the caller owns replies and frees them with atoll_http_reply_done().
 */
struct atoll_http_client;

/* A header to send; lists of them end with a NULL name and may be NULL. */
struct atoll_http_field {
    const char *name;
    const char *value;
};

struct atoll_http_reply {
    int status;
    struct atoll_buf head; /* "name\0value\0" for each header */
    struct atoll_buf body;
};

/* `where`: a path with a '/' in it, "unix:PATH", "http://HOST[:PORT]" or "https://HOST[:PORT]".
 * Does not connect yet. INVALID_ARGUMENT. */
int atoll_http_client_open(const char *where, struct atoll_http_client **ret_client,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_http_client *atoll_http_client_close(struct atoll_http_client *client);
/* How long a request waits for the server to send or take bytes. Default: 60 s; -1: for ever. */
void atoll_http_client_set_timeout(struct atoll_http_client *client, int timeout_ms);
/* Which certificates to trust with https: those in a PEM file (NULL or "": the system's), or any if
 * `insecure`. A request to a server that is not trusted fails with UNAVAILABLE; an unusable file makes
 * the first request fail with INVALID_ARGUMENT. */
int atoll_http_client_set_trust(struct atoll_http_client *client, const char *ca_file,
                                bool insecure, struct atoll_error *err) ATOLL_MUST_CHECK;

/* *reply need not be initialised and is set only on success, which is a reply with any status.
 * UNAVAILABLE if the server cannot be reached or closes the connection, DEADLINE_EXCEEDED after the
 * timeout, RESOURCE_EXHAUSTED for a reply body above max_reply, INVALID_ARGUMENT for a header or target
 * that HTTP does not allow, DATA_LOSS for a reply that is not valid HTTP. */
int atoll_http_client_request(struct atoll_http_client *client, const char *method,
                              const char *target, const struct atoll_http_field *headers,
                              const void *body, size_t n, size_t max_reply,
                              struct atoll_http_reply *reply,
                              struct atoll_error *err) ATOLL_MUST_CHECK;

/* Bodies in pieces. */
struct atoll_http_transfer {
    /* Fills buf with up to n bytes of the request body; returns their number, 0 at the end, or -errno
     * to abort. May block. NULL for a request without a body. */
    ssize_t (*read)(void *arg, void *buf, size_t n);
    int64_t length; /* of the request body when known, or -1 to send it chunked */
    /* Gets a piece of the body of a 2xx reply; returns 0, or -errno to abort. Bodies of other replies
     * are stored in reply->body. NULL: all bodies are stored there. */
    int (*write)(void *arg, const void *bytes, size_t n);
    const char *accept; /* media type to ask for; NULL: any */
    void *arg;
};

/* Like atoll_http_client_request(). The -errno of a callback is returned as CANCELED. If the server
 * replies before it has the whole body, that reply is returned and the rest of the body is not sent. */
int atoll_http_client_stream(struct atoll_http_client *client, const char *method,
                             const char *target, const struct atoll_http_field *headers,
                             const struct atoll_http_transfer *transfer, size_t max_reply,
                             struct atoll_http_reply *reply,
                             struct atoll_error *err) ATOLL_MUST_CHECK;

/* Value of the first header of that name (case-insensitive), or NULL. */
const char *atoll_http_reply_header(const struct atoll_http_reply *reply, const char *name);
void atoll_http_reply_done(struct atoll_http_reply *reply);

/*
 * The client's end of a WebSocket, for a poll loop: only atoll_wsc_recv() with a timeout and
 * atoll_wsc_flush() block. Before each poll(), call atoll_wsc_recv(…, 0, …) until it returns 0, because
 * messages may be buffered; then poll atoll_wsc_fd() for atoll_wsc_events().
 * Back-pressure: do not send while atoll_wsc_pending() is high.
 */
struct atoll_wsc;

/* Takes over the client's connection (its next request opens a new one). If the server replies anything
 * but 101, the error is FAILED_PRECONDITION and *reply is that reply, owned by the caller; otherwise
 * *reply is empty. max_message is the largest message that is received. */
int atoll_http_client_websocket(struct atoll_http_client *client, const char *target,
                                const struct atoll_http_field *headers, size_t max_message,
                                struct atoll_http_reply *reply, struct atoll_wsc **ret_ws,
                                struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_wsc *atoll_wsc_free(struct atoll_wsc *ws);

int atoll_wsc_fd(const struct atoll_wsc *ws);
/* POLLIN, and POLLOUT while bytes are queued. */
short atoll_wsc_events(const struct atoll_wsc *ws);
size_t atoll_wsc_pending(const struct atoll_wsc *ws);

/* Sends what the socket takes and queues the rest. UNAVAILABLE if closed, RESOURCE_EXHAUSTED if more
 * than 16 MiB would be queued. */
int atoll_wsc_send(struct atoll_wsc *ws, bool binary, const void *bytes, size_t n,
                   struct atoll_error *err) ATOLL_MUST_CHECK;
/* Sends and receives bytes, and answers pings. 1: a message, borrowed until the next call.
 * 0: none within timeout_ms (0: do not wait, -1: wait for ever). -EPIPE (UNAVAILABLE): closed;
 * see atoll_wsc_close_code(). */
int atoll_wsc_recv(struct atoll_wsc *ws, int timeout_ms, bool *ret_binary,
                   const uint8_t **ret_bytes, size_t *ret_n,
                   struct atoll_error *err) ATOLL_MUST_CHECK;
/* Waits until nothing is pending. DEADLINE_EXCEEDED, UNAVAILABLE. */
int atoll_wsc_flush(struct atoll_wsc *ws, int timeout_ms, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Queues a close frame; atoll_wsc_recv() then ends with -EPIPE when the server has answered. */
int atoll_wsc_close(struct atoll_wsc *ws, uint16_t code, struct atoll_error *err) ATOLL_MUST_CHECK;
/* The server's close code; 1005 if it gave none, 1006 if the connection ended without a close frame. */
uint16_t atoll_wsc_close_code(const struct atoll_wsc *ws);

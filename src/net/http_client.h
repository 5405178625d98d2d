#pragma once
#include "base/buf.h"
#include "base/error.h"

/*
 * A small HTTP/1.1 client for libatoll, the CLI and the tests, with TLS if asked for. One connection, kept alive between requests
 * and reopened when the server closed it.
 *
 * Blocking: every function, up to the timeout set; it needs no loop.
 * Thread: one at a time.
 * Ownership: replies are the caller's storage, to be released with atoll_http_reply_done().
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
/* The longest silence of the server during a request, 60 s at first; -1 waits for ever. */
void atoll_http_client_set_timeout(struct atoll_http_client *client, int timeout_ms);
/* Whose certificates count with https: those in a PEM file instead of the system's (NULL or ""), or
 * any at all. A server that is not trusted is UNAVAILABLE; a file that cannot be used shows with the
 * first request, as INVALID_ARGUMENT. */
int atoll_http_client_set_trust(struct atoll_http_client *client, const char *ca_file,
                                bool insecure, struct atoll_error *err) ATOLL_MUST_CHECK;

/* *reply need not be initialised and is set on success only, whatever the status.
 * UNAVAILABLE when the server cannot be reached or hangs up, DEADLINE_EXCEEDED after the timeout,
 * RESOURCE_EXHAUSTED for a reply body above max_reply, INVALID_ARGUMENT for a header or target that
 * HTTP does not allow, DATA_LOSS for a reply that is no HTTP. */
int atoll_http_client_request(struct atoll_http_client *client, const char *method,
                              const char *target, const struct atoll_http_field *headers,
                              const void *body, size_t n, size_t max_reply,
                              struct atoll_http_reply *reply,
                              struct atoll_error *err) ATOLL_MUST_CHECK;

/* Bodies in pieces. */
struct atoll_http_transfer {
    /* Fills buf with up to n bytes of the request body: returns how many, 0 at the end, or -errno
     * to give up. May block. NULL for a request without a body. */
    ssize_t (*read)(void *arg, void *buf, size_t n);
    int64_t length; /* of the request body when known, or -1 to send it chunked */
    /* Takes a piece of the body of a 2xx reply: 0, or -errno to give up. Bodies of other replies
     * are gathered in reply->body. NULL gathers those of all. */
    int (*write)(void *arg, const void *bytes, size_t n);
    void *arg;
};

/* As atoll_http_client_request(). A callback's -errno comes back as CANCELED. A server that answers
 * before it has the whole body is listened to, and the rest of the body is not sent. */
int atoll_http_client_stream(struct atoll_http_client *client, const char *method,
                             const char *target, const struct atoll_http_field *headers,
                             const struct atoll_http_transfer *transfer, size_t max_reply,
                             struct atoll_http_reply *reply,
                             struct atoll_error *err) ATOLL_MUST_CHECK;

/* Value of the first header of that name in any case, or NULL. */
const char *atoll_http_reply_header(const struct atoll_http_reply *reply, const char *name);
void atoll_http_reply_done(struct atoll_http_reply *reply);

/*
 * The client's end of a WebSocket. Made for a poll loop: nothing but atoll_wsc_recv() with a
 * timeout and atoll_wsc_flush() blocks. Before each poll call atoll_wsc_recv(…, 0, …) until it
 * returns 0, since messages may be waiting inside; then poll atoll_wsc_fd() for atoll_wsc_events().
 * Stop feeding it while atoll_wsc_pending() is high: that is the back-pressure.
 */
struct atoll_wsc;

/* Takes the client's connection away (its next request opens another). When the server answers
 * anything but 101, the error is FAILED_PRECONDITION and *reply holds that answer for the caller to
 * show and release; otherwise *reply is left empty. max_message bounds what is received. */
int atoll_http_client_websocket(struct atoll_http_client *client, const char *target,
                                const struct atoll_http_field *headers, size_t max_message,
                                struct atoll_http_reply *reply, struct atoll_wsc **ret_ws,
                                struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_wsc *atoll_wsc_free(struct atoll_wsc *ws);

int atoll_wsc_fd(const struct atoll_wsc *ws);
/* POLLIN, and POLLOUT while bytes are waiting to go out. */
short atoll_wsc_events(const struct atoll_wsc *ws);
size_t atoll_wsc_pending(const struct atoll_wsc *ws);

/* Sends what the socket takes and queues the rest. UNAVAILABLE when closed, RESOURCE_EXHAUSTED
 * when more than 16 MiB would wait. */
int atoll_wsc_send(struct atoll_wsc *ws, bool binary, const void *bytes, size_t n,
                   struct atoll_error *err) ATOLL_MUST_CHECK;
/* Moves bytes in both directions and answers pings. 1: a message, borrowed until the next call.
 * 0: none within timeout_ms (0: do not wait, -1: wait for ever). -EPIPE (UNAVAILABLE): closed;
 * see atoll_wsc_close_code(). */
int atoll_wsc_recv(struct atoll_wsc *ws, int timeout_ms, bool *ret_binary,
                   const uint8_t **ret_bytes, size_t *ret_n,
                   struct atoll_error *err) ATOLL_MUST_CHECK;
/* Waits until nothing is pending. DEADLINE_EXCEEDED, UNAVAILABLE. */
int atoll_wsc_flush(struct atoll_wsc *ws, int timeout_ms, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Queues a close frame; atoll_wsc_recv() then ends with -EPIPE when the server has answered. */
int atoll_wsc_close(struct atoll_wsc *ws, uint16_t code, struct atoll_error *err) ATOLL_MUST_CHECK;
/* What the server closed with: its code, 1005 for none, 1006 when the connection just ended. */
uint16_t atoll_wsc_close_code(const struct atoll_wsc *ws);

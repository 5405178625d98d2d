#pragma once
#include "net/http_server.h"

/*
 * A WebSocket (RFC 6455), made from an HTTP request. Delivers whole messages: assembles fragments,
 * answers pings, checks that text is UTF-8. A message is sent immediately if nothing is queued before
 * it. A ping is sent every 30 s; a peer that is silent for 90 s counts as dead.
 *
 * Blocking: nothing here blocks. Thread: the loop's.
 * Ownership: the caller of atoll_ws_accept() owns the ws until atoll_ws_free(), also after on_close. It
 * may be freed from any callback. No callback is made from inside a call of the owner.
 */
struct atoll_ws;

struct atoll_ws_callbacks {
    /* bytes are borrowed for the call. */
    void (*on_message)(void *arg, struct atoll_ws *ws, bool binary, const uint8_t *bytes, size_t n);
    /* Pending fell below ATOLL_HTTP_HIGH_WATER after having exceeded it. May be NULL. */
    void (*on_drain)(void *arg, struct atoll_ws *ws);
    /* The WebSocket has ended; called once. code: the peer's status code, 1005 if it gave none, 1006 if
     * the connection ended without a close frame, or the code with which this side failed it (1002
     * protocol error, 1007 not UTF-8, 1009 message too big). Free the ws here or later. */
    void (*on_close)(void *arg, struct atoll_ws *ws, uint16_t code);
};

/* Close codes. */
#define ATOLL_WS_NORMAL 1000
#define ATOLL_WS_GOING_AWAY 1001
#define ATOLL_WS_NO_CODE 1005
#define ATOLL_WS_LOST 1006
#define ATOLL_WS_POLICY 1008
#define ATOLL_WS_TOO_BIG 1009
#define ATOLL_WS_INTERNAL 1011

/* Whether the request asks for a WebSocket; the upgrade may still be invalid. */
bool atoll_ws_wanted(const struct atoll_http_request *req);

/* Validates the upgrade, answers 101 and ends the request. The 101 contains headers set before with
 * atoll_http_set_header(): to choose a subprotocol, set Sec-WebSocket-Protocol to one that the client
 * offered.
 * INVALID_ARGUMENT if the upgrade is not valid: nothing was sent, and the caller still has to answer the
 * request. */
int atoll_ws_accept(struct atoll_http_request *req, const struct atoll_ws_callbacks *callbacks,
                    void *arg, size_t max_message, struct atoll_ws **ret_ws,
                    struct atoll_error *err) ATOLL_MUST_CHECK;
/* Closes the connection, without a closing handshake if there was none. Accepts NULL. */
struct atoll_ws *atoll_ws_free(struct atoll_ws *ws);

/* Sends one whole message. -EPIPE if closing or closed, -ENOBUFS if more than 16 MiB would be queued,
 * -EINVAL for text that is not UTF-8. */
int atoll_ws_send(struct atoll_ws *ws, bool binary, const void *bytes, size_t n) ATOLL_MUST_CHECK;
size_t atoll_ws_pending(const struct atoll_ws *ws);
/* Calls on_drain once more when nothing is pending any more. Requires pending bytes. */
void atoll_ws_await_empty(struct atoll_ws *ws);
/* Stops reading the socket: no on_message until resumed. */
void atoll_ws_pause(struct atoll_ws *ws);
void atoll_ws_resume(struct atoll_ws *ws);
/* Starts the closing handshake; reason (may be NULL) is cut to 123 bytes. on_close is called when the
 * peer answers, or 5 s after it has received everything. No message is delivered any more. */
void atoll_ws_close(struct atoll_ws *ws, uint16_t code, const char *reason);

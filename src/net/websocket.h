#pragma once
#include "net/http_server.h"

/*
 * A WebSocket (RFC 6455) taken over from an HTTP request. Messages are whole: fragments are put
 * together, pings are answered, text is checked to be UTF-8. A message leaves at once when nothing
 * is queued before it. A ping goes out every 30 s; a peer silent for 90 s is dead.
 *
 * Blocking: nothing here blocks. Thread: the loop's.
 * Ownership: the one who accepted owns the ws until atoll_ws_free(), also after on_close. It may be
 * freed from inside any callback. No callback is made from inside a call the owner makes.
 */
struct atoll_ws;

struct atoll_ws_callbacks {
    /* bytes are borrowed for the call. */
    void (*on_message)(void *arg, struct atoll_ws *ws, bool binary, const uint8_t *bytes, size_t n);
    /* Pending fell below ATOLL_HTTP_HIGH_WATER after having exceeded it. May be NULL. */
    void (*on_drain)(void *arg, struct atoll_ws *ws);
    /* It is over, once: the peer's status code, 1005 when it gave none, 1006 when the connection
     * just ended, or the code with which this side failed it (1002 protocol error, 1007 not UTF-8,
     * 1009 message too big). Free the ws here or later. */
    void (*on_close)(void *arg, struct atoll_ws *ws, uint16_t code);
};

/* Close codes in use here. */
#define ATOLL_WS_NORMAL 1000
#define ATOLL_WS_GOING_AWAY 1001
#define ATOLL_WS_NO_CODE 1005
#define ATOLL_WS_LOST 1006
#define ATOLL_WS_POLICY 1008
#define ATOLL_WS_TOO_BIG 1009
#define ATOLL_WS_INTERNAL 1011

/* True when the request asks for a WebSocket at all; it may still be malformed. */
bool atoll_ws_wanted(const struct atoll_http_request *req);

/* Validates the upgrade, answers 101 and ends the request. Headers set before with
 * atoll_http_set_header() go out with the 101: a subprotocol is chosen by setting
 * Sec-WebSocket-Protocol to one that the client offered.
 * INVALID_ARGUMENT when it is no valid upgrade: nothing has been sent, the request is still the
 * caller's to answer. */
int atoll_ws_accept(struct atoll_http_request *req, const struct atoll_ws_callbacks *callbacks,
                    void *arg, size_t max_message, struct atoll_ws **ret_ws,
                    struct atoll_error *err) ATOLL_MUST_CHECK;
/* Drops the connection without a closing handshake if there was none. Accepts NULL. */
struct atoll_ws *atoll_ws_free(struct atoll_ws *ws);

/* One whole message. -EPIPE once closing or gone, -ENOBUFS when more than 16 MiB would wait,
 * -EINVAL for text that is no UTF-8. */
int atoll_ws_send(struct atoll_ws *ws, bool binary, const void *bytes, size_t n) ATOLL_MUST_CHECK;
size_t atoll_ws_pending(const struct atoll_ws *ws);
/* With something pending: calls on_drain also when nothing is pending any more, once. */
void atoll_ws_await_empty(struct atoll_ws *ws);
/* Stops reading the socket: no on_message until resumed. */
void atoll_ws_pause(struct atoll_ws *ws);
void atoll_ws_resume(struct atoll_ws *ws);
/* Starts the closing handshake; reason (may be NULL) is cut at 123 bytes. on_close follows when the
 * peer answers, or 5 s after it has taken all that was sent before. No message is delivered any more. */
void atoll_ws_close(struct atoll_ws *ws, uint16_t code, const char *reason);

#pragma once
#include "api/call.h"
#include "net/websocket.h"

/*
 * A stream of events for a client: small JSON objects as Server-Sent Events or, if the client asked
 * for an upgrade, as text messages of a WebSocket. Messages from a WebSocket client are ignored. A
 * client with more than ATOLL_FEED_PENDING_MAX unread bytes is disconnected; it can reconnect and
 * name the last event it got.
 *
 * Ownership: the caller's storage, zeroed before use. It is in use from atoll_feed_open() until
 * `gone` has been called, exactly once, and never from inside atoll_feed_send().
 */
#define ATOLL_FEED_PENDING_MAX ((size_t)1024 * 1024)

struct atoll_feed {
    struct atoll_api_call *call; /* of the SSE response; NULL for a WebSocket */
    struct atoll_ws *ws;         /* owned; NULL for SSE */
    struct atoll_api_session session;
    struct atoll_loop *loop;
    struct atoll_timer timer; /* the next keep-alive, or the closing of a broken feed */
    struct atoll_buf out;     /* the message being written */
    bool broken;
    void (*gone)(void *arg);
    void *arg;
};

/* Takes ownership of the call. On failure (an invalid upgrade) the call has been answered and
 * `gone` called. */
void atoll_feed_open(struct atoll_feed *feed, struct atoll_api_call *call, void (*gone)(void *arg),
                     void *arg);
/* Begins a message: write the members of one object, then send it. */
struct atoll_json_out atoll_feed_begin(struct atoll_feed *feed);
/* event: the name of the SSE event. id: the client sends it back as Last-Event-ID; may be NULL. */
void atoll_feed_send(struct atoll_feed *feed, struct atoll_json_out *out, const char *event,
                     const char *id);
/* Closes the feed. `gone` follows, possibly before this returns. */
void atoll_feed_end(struct atoll_feed *feed);

#pragma once
#include "api/call.h"
#include "net/websocket.h"

/*
 * News for a client that stays: small JSON objects as Server-Sent Events or, when the client asked
 * for an upgrade, as texts of a WebSocket. One way; what a WebSocket client says is not read.
 * A client that lets more than ATOLL_FEED_PENDING_MAX bytes pile up is cut off: it can come back
 * and say where it was.
 *
 * Ownership: the caller's storage, first zeroed. It is busy from atoll_feed_open() until `gone` has
 * been called, exactly once, and never from inside atoll_feed_send().
 */
#define ATOLL_FEED_PENDING_MAX ((size_t)1024 * 1024)

struct atoll_feed {
    struct atoll_api_call *call; /* of the SSE; NULL for a WebSocket */
    struct atoll_ws *ws;         /* owned; NULL for SSE */
    struct atoll_api_session session;
    struct atoll_loop *loop;
    struct atoll_timer timer; /* the next sign of life, or the end of one that is broken */
    struct atoll_buf out;     /* the message being made */
    bool broken;
    void (*gone)(void *arg);
    void *arg;
};

/* Takes the call over. On failure (no valid upgrade) it has been answered and `gone` called. */
void atoll_feed_open(struct atoll_feed *feed, struct atoll_api_call *call, void (*gone)(void *arg),
                     void *arg);
/* A message in the making: write members of one object, then send. */
struct atoll_json_out atoll_feed_begin(struct atoll_feed *feed);
/* event: its name for SSE. id: what the client gives back as Last-Event-ID, or NULL. */
void atoll_feed_send(struct atoll_feed *feed, struct atoll_json_out *out, const char *event,
                     const char *id);
/* No more news. `gone` follows, possibly before this returns. */
void atoll_feed_end(struct atoll_feed *feed);

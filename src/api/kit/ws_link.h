#pragma once
#include "api/call.h"
#include "net/websocket.h"

/*
 * A WebSocket of a sandbox. Ownership: part of the caller's struct, which is zeroed; ws is NULL after the client
 * disconnected.
 */
struct atoll_ws_link {
    struct atoll_api_session session;
    struct atoll_ws *ws; /* owned */
    struct atoll_engine *engine;
    struct atoll_loop *loop;
    char sandbox_id[33];
};

/* Upgrades the request and ends the call. drop is called when the daemon shuts down. False: the call has been
 * refused. */
bool atoll_ws_link_accept(struct atoll_ws_link *w, struct atoll_api_call *call,
                          const struct atoll_ws_callbacks *callbacks, void *arg, size_t max_message,
                          void (*drop)(struct atoll_api_session *session));
/* Frees the WebSocket. Safe if it was freed or never opened. */
void atoll_ws_link_close(struct atoll_ws_link *w);
/* Sends a text that was written whole; else nothing. A failed send means that the client has disconnected;
 * on_close follows. */
void atoll_ws_link_send(struct atoll_ws_link *w, const struct atoll_json_out *out);

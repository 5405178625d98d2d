#pragma once
#include "api/call.h"

/*
 * Changes in a directory as the response to a request: Server-Sent Events, or messages of a WebSocket
 * (feed.h). The response begins when the watch is active, so that no later change is missed. The query may
 * have `recursive`.
 */
struct atoll_watch_feed {
    const char *user, *path; /* user NULL: the default one */
    const char *kind;        /* name of the member that has the kind of a change */
    void (*fail)(struct atoll_api_call *call, const struct atoll_error *error);
};
void atoll_watch_feed_send(struct atoll_api_call *call, const struct atoll_watch_feed *request);

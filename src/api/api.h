#pragma once
#include "api/auth.h"
#include "base/list.h"
#include "engine/engine.h"
#include "net/http_server.h"

/*
 * The HTTP API: one atoll_api serves the requests of an HTTP server with the engine.
 *
 * Thread: the loop's. Nothing here blocks but writes to files of sandboxes, which are in memory or
 * on a local disk.
 */
struct atoll_api;

struct atoll_api_config {
    struct atoll_loop *loop;
    struct atoll_engine *engine;
    struct atoll_auth auth;
    bool access_log; /* a debug line per request */
};

struct atoll_api *atoll_api_new(const struct atoll_api_config *config);
/* After the HTTP server is freed and before the engine is: closes what WebSockets are left. */
struct atoll_api *atoll_api_free(struct atoll_api *api);

/* on_request of the HTTP server; arg is the api. */
void atoll_api_serve(void *arg, struct atoll_http_request *req);

/* From now on every request is answered 503; those under way are not touched. */
void atoll_api_drain(struct atoll_api *api);

/* A WebSocket and what it is bound to, known to the api so that it can be closed at the end. */
struct atoll_api_session {
    struct atoll_list node;
    void (*drop)(struct atoll_api_session *session);
};
void atoll_api_session_add(struct atoll_api *api, struct atoll_api_session *session);
void atoll_api_session_remove(struct atoll_api_session *session);

#pragma once
#include "api/audit.h"
#include "api/auth.h"
#include "api/limits.h"
#include "base/list.h"
#include "engine/engine.h"
#include "net/http_server.h"
#include "session/sessions.h"

/*
 * The HTTP API: one atoll_api serves the requests of an HTTP server with the engine.
 *
 * Thread: the loop's. Nothing here blocks but writes to files of sandboxes, which are in memory or
 * on a local disk.
 */
struct atoll_api;

#define ATOLL_URL_SECRET_BYTES 32
struct atoll_answers;      /* access/answers.h */
struct atoll_contexts;     /* interpreter/contexts.h */
struct atoll_previews;     /* access/previews.h */
struct atoll_preview_site; /* api/preview.h */

struct atoll_api_config {
    struct atoll_loop *loop;
    struct atoll_engine *engine;
    struct atoll_sessions *sessions; /* borrowed; NULL: there are none */
    struct atoll_contexts *contexts; /* likewise */
    struct atoll_auth auth;
    struct atoll_audit *audit;                  /* borrowed; NULL: none is kept */
    struct atoll_rate key_rate;                 /* requests of one key */
    struct atoll_rate wrong_key_rate;           /* without a valid key, from one address */
    struct atoll_answers *answers;              /* borrowed; NULL: of this process only */
    struct atoll_previews *previews;            /* borrowed; NULL: there are none */
    const struct atoll_preview_site *site;      /* borrowed; with previews */
    uint32_t e2b_max_hours;                     /* a sandbox may live in E2B's API; 0: any */
    bool access_log;                            /* a debug line per request */
    uint8_t url_secret[ATOLL_URL_SECRET_BYTES]; /* for signed URLs; all 0: one for this process */
};

struct atoll_api *atoll_api_new(const struct atoll_api_config *config);
/* After the HTTP server is freed and before the engine is: closes what WebSockets are left. */
struct atoll_api *atoll_api_free(struct atoll_api *api);

/* on_request of the HTTP server; arg is the api. */
void atoll_api_serve(void *arg, struct atoll_http_request *req);

/* From now on every request is answered 503; those under way are not touched. */
void atoll_api_drain(struct atoll_api *api);

/* Walks all routes: start with *pos = 0; false at the end. */
struct atoll_api_route {
    const char *method, *path;
    enum atoll_scope scope;
    bool is_own;       /* of our own API, not of another protocol */
    const char *query; /* as in api/router.h */
};
bool atoll_api_next_route(size_t *pos, struct atoll_api_route *ret);

/* A WebSocket and what it is bound to, known to the api so that it can be closed at the end. */
struct atoll_api_session {
    struct atoll_list node;
    void (*drop)(struct atoll_api_session *session);
};
void atoll_api_session_add(struct atoll_api *api, struct atoll_api_session *session);
void atoll_api_session_remove(struct atoll_api_session *session);

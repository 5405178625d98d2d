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
 * Thread: the loop's. Nothing here blocks except writes to files of sandboxes, which are in memory
 * or on a local disk.
 */
struct atoll_api;

#define ATOLL_URL_SECRET_BYTES 32
struct atoll_answers;      /* access/answers.h */
struct atoll_contexts;     /* interpreter/contexts.h */
struct atoll_previews;     /* access/previews.h */
struct atoll_guard;        /* guard/guard.h */
struct atoll_preview_site; /* api/preview.h */
struct atoll_ssh_site;     /* api/ssh.h */
struct atoll_secrets;      /* engine/network/secrets.h */
struct atoll_swarms;       /* task/swarm.h */
struct atoll_tasks;        /* task/task.h */

struct atoll_api_config {
    struct atoll_loop *loop;
    struct atoll_engine *engine;
    struct atoll_sessions *sessions; /* borrowed; NULL: disabled */
    struct atoll_contexts *contexts; /* likewise */
    struct atoll_secrets *secrets;   /* likewise */
    struct atoll_tasks *tasks;       /* likewise */
    struct atoll_swarms *swarms;     /* likewise */
    struct atoll_guard *guard;       /* likewise */
    struct atoll_auth auth;
    struct atoll_audit *audit;             /* borrowed; NULL: no audit log */
    struct atoll_rate key_rate;            /* requests with one valid key */
    struct atoll_rate wrong_key_rate;      /* requests without a valid key, per address */
    struct atoll_answers *answers;         /* borrowed; NULL: kept in this process only */
    struct atoll_previews *previews;       /* borrowed; NULL: previews are disabled */
    const struct atoll_preview_site *site; /* borrowed; required with previews */
    const struct atoll_ssh_site *ssh;      /* borrowed; NULL: no SSH server */
    const uint32_t *facade_options;        /* borrowed; as in api/facade.h; NULL: all 0 */
    const char *cors_origins;              /* borrowed; as for atoll_cors_serve(); NULL: none */
    bool access_log;                       /* logs each request at level debug */
    uint8_t url_secret[ATOLL_URL_SECRET_BYTES]; /* signs URLs; all 0: random per process */
};

struct atoll_api *atoll_api_new(const struct atoll_api_config *config);
/* Call after the HTTP server is freed and before the engine is freed. Closes the WebSockets that
 * are still open. */
struct atoll_api *atoll_api_free(struct atoll_api *api);

/* on_request of the HTTP server; arg is the api. */
void atoll_api_serve(void *arg, struct atoll_http_request *req);

/* From now on every new request gets 503. Requests in progress continue. */
void atoll_api_drain(struct atoll_api *api);

/* Walks all routes: start with *pos = 0; false at the end. */
struct atoll_api_route {
    const char *method, *path;
    enum atoll_scope scope;
    bool is_own;       /* part of Atoll's own API, not of another facade */
    const char *query; /* as in api/router.h */
};
bool atoll_api_next_route(size_t *pos, struct atoll_api_route *ret);

/* An open WebSocket. The api keeps a list of them and closes them in atoll_api_free(). */
struct atoll_api_session {
    struct atoll_list node;
    void (*drop)(struct atoll_api_session *session);
};
void atoll_api_session_add(struct atoll_api *api, struct atoll_api_session *session);
void atoll_api_session_remove(struct atoll_api_session *session);

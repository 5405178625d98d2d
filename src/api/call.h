#pragma once
#include "api/api.h"
#include "api/json_out.h"
#include "api/router.h"
#include "base/trace.h"
#include "engine/engine.h"

/*
 * One request on its way through the API. The HTTP request can end at any time, when the client
 * disconnects; the call lives until its handler ends it.
 *
 * A handler ends its call exactly once, with atoll_api_reply(), _empty(), _fail(), _end(), _abort()
 * or _drop(), immediately or from a callback of the engine. It does so even when `req` has become
 * NULL; the response is then discarded. A handler that waits for the client, not for the engine,
 * sets on_gone: it is called when the client disconnects, and must drop the call. The pointer is
 * invalid when the ending function returns.
 */
struct atoll_api_call {
    struct atoll_api *api;
    struct atoll_engine *engine;
    struct atoll_http_request *req; /* NULL after the client disconnected */
    const struct atoll_route *route;
    const struct atoll_protocol *protocol; /* NULL: Atoll's own */
    struct atoll_route_params params;
    struct atoll_caller caller;            /* zeroed on public routes */
    bool all;                              /* ?all=true by an admin: lists show all tenants */
    bool ended;                            /* params.id is an ended sandbox, which has a record */
    unsigned retry_after_s;                /* Retry-After of a 429; 0: one second */
    struct atoll_kept_answer *idempotency; /* the response is to be stored; or NULL */
    struct atoll_repeat *repeat;           /* a repeated request may get the answer; or NULL */
    void (*on_gone)(struct atoll_api_call *call); /* called after req became NULL */
    void *state;                                  /* the handler's */
    struct atoll_volume_use *volume; /* its files are the subject; left with the call. Or NULL */
    /* Writes further members beside "error" of our own error body; or NULL. */
    void (*error_more)(const struct atoll_api_call *call, struct atoll_json_out *out);
    bool handled;  /* the handler owns the call, not the router */
    bool upgraded; /* to a WebSocket or a tunnel */
    int64_t started_us;
    struct atoll_trace trace;
    char request_id[65];
};

/* Starts serving a request: finds its route, authorizes the caller, reads the body. */
void atoll_api_call_start(struct atoll_api *api, struct atoll_http_request *req);

/* Starts serving a request with these routes only, for a request that was selected by host or
 * header. Sets params.id to sandbox_id; the protocol of the table authorizes the caller. */
void atoll_api_call_start_in(struct atoll_api *api, struct atoll_http_request *req,
                             const struct atoll_routes *table, const char *sandbox_id);

/* Starts serving a request as if its path was another one, whose route has no {path}. For a product whose
 * API has another base at its own host names. */
void atoll_api_call_start_at(struct atoll_api *api, struct atoll_http_request *req,
                             const char *path);

/* Whether the caller's lists include objects of `owner`. The sandbox named by {id} in a route is
 * checked before the handler is called; the handler checks ids from other sources. */
bool atoll_api_sees(const struct atoll_api_call *call, const char *owner);
/* The tenant whose sandboxes the caller's lists show; NULL: all tenants. */
const char *atoll_api_list_tenant(const struct atoll_api_call *call);
/* Makes the session's sandbox the subject of the call (session_call.c). NOT_FOUND also for a
 * session of another tenant. Called by the router for {session} in a route. */
int atoll_api_enter_session(struct atoll_api_call *call, const char *id,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* The tenant of a sandbox, "" if the sandbox does not exist; valid until the next event. */
const char *atoll_api_owner_of(struct atoll_engine *engine, const char *sandbox_id);
/* Makes the owner of the sandbox in params.id the caller, for a request that showed a token of the
 * sandbox instead of a key. credential: in place of the key's id, in the audit log. */
void atoll_api_act_for_owner(struct atoll_api_call *call, enum atoll_scope scope,
                             const char *credential);
bool atoll_api_sees_sandbox(const struct atoll_api_call *call, const struct atoll_sandbox *sandbox);

/* The largest reply in one piece. */
#define ATOLL_API_REPLY_MAX ((size_t)32 * 1024 * 1024)

/* Initializes a buffer for a reply, to be passed to atoll_api_reply(). */
void atoll_api_reply_init(struct atoll_buf *buf, struct atoll_json_out *out);
/* For callbacks: if there is an error, the call fails with it and the result is false; else like
 * atoll_api_reply_init(). */
bool atoll_api_reply_begin(struct atoll_api_call *call, const struct atoll_error *error,
                           struct atoll_buf *buf, struct atoll_json_out *out);
/* Sends the buffered reply and frees the buffer. */
void atoll_api_reply(struct atoll_api_call *call, int status, struct atoll_json_out *out);
void atoll_api_reply_empty(struct atoll_api_call *call, int status);
/* A reply that is not JSON; the bytes are borrowed for the call. */
void atoll_api_reply_text(struct atoll_api_call *call, int status, const char *content_type,
                          const void *bytes, size_t n);
void atoll_api_fail(struct atoll_api_call *call, const struct atoll_error *error);
/* The path of providers.yaml if the caller may see it; or NULL. */
const char *atoll_api_operators_file(const struct atoll_api_call *call);

/* Begins a streamed reply: write with atoll_http_write() on call->req, then call
 * atoll_api_end(). */
void atoll_api_begin(struct atoll_api_call *call, int status, const char *content_type,
                     int64_t content_length);
void atoll_api_end(struct atoll_api_call *call);
/* Closes the connection in the middle of a reply; `why` is for the log. */
void atoll_api_abort(struct atoll_api_call *call, const char *why);
/* Ends a call without a response: the client disconnected, or the request became a WebSocket. */
void atoll_api_drop(struct atoll_api_call *call);
/* Ends a call without a response and returns its request, which the caller then answers otherwise. Only
 * while the client is connected. */
struct atoll_http_request *atoll_api_hand_over(struct atoll_api_call *call);
/* The first call answers the request of the second one, which ends; the client of the first has
 * disconnected. */
void atoll_api_take_over(struct atoll_api_call *first, struct atoll_api_call *second);
/* Whether the client has disconnected, including a hangup that was not reported yet. */
bool atoll_api_client_is_gone(const struct atoll_api_call *call);

/* Parameters of the query. INVALID_ARGUMENT. */
int atoll_api_query_flag(const struct atoll_api_call *call, const char *name, bool *ret_value,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* *ret_value stays as it is when the parameter is absent. */
int atoll_api_query_u64(const struct atoll_api_call *call, const char *name, uint64_t min,
                        uint64_t max, uint64_t *ret_value,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
/* Permission bits in octal, as in "0644"; likewise. */
int atoll_api_query_mode(const struct atoll_api_call *call, const char *name, uint32_t *ret_mode,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* -EINVAL if the text is not a mode. */
int atoll_api_parse_mode(const char *text, uint32_t *ret_mode) ATOLL_MUST_CHECK;

/* Zeroed memory for a small object of fixed size; aborts when out of memory. */
void *atoll_api_alloc(size_t n);

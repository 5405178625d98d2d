#pragma once
#include "api/api.h"
#include "api/json_out.h"
#include "api/router.h"
#include "base/trace.h"
#include "engine/engine.h"

/*
 * One request on its way through the API. The HTTP request can die at any time, when the client
 * goes away; the call lives on until its handler is through with it.
 *
 * A handler ends its call exactly once: by atoll_api_reply(), _empty(), _fail(), _end(), _abort() or
 * _drop(), now or from a callback of the engine, also when `req` has become NULL; the answer then
 * goes nowhere. A handler that waits for the client rather than for the engine sets on_gone, which
 * is where it learns that the wait is over, and drops the call there.
 * The pointer is dead when the ending function returns.
 */
struct atoll_api_call {
    struct atoll_api *api;
    struct atoll_engine *engine;
    struct atoll_http_request *req; /* NULL once the client is gone */
    const struct atoll_route *route;
    const struct atoll_facade *facade; /* NULL: our own */
    struct atoll_route_params params;
    struct atoll_caller caller;            /* zeroed on public routes */
    bool all;                              /* ?all=true of an admin: lists show every tenant's */
    unsigned retry_after_s;                /* of a 429; 0: a second */
    struct atoll_kept_answer *idempotency; /* the answer is to be remembered; or NULL */
    void (*on_gone)(struct atoll_api_call *call); /* req is NULL already */
    void *state;                                  /* the handler's */
    bool handled;                                 /* the handler has it, not the router */
    bool upgraded;                                /* to a WebSocket */
    int64_t started_us;
    struct atoll_trace trace;
    char request_id[65];
};

/* Begins to serve a request: finds its route, checks who asks, gathers the body. */
void atoll_api_call_start(struct atoll_api *api, struct atoll_http_request *req);

/* The same where these are the only routes: for a host or header that leads somewhere else. sandbox_id
 * is what params.id says then; the table's facade admits. */
void atoll_api_call_start_in(struct atoll_api *api, struct atoll_http_request *req,
                             const struct atoll_routes *table, const char *sandbox_id);

/* Whether what belongs to `owner` is in the caller's lists. Sandboxes named by {id} in a route are
 * checked before the handler is called; ids from elsewhere are for the handler to check. */
bool atoll_api_sees(const struct atoll_api_call *call, const char *owner);
/* Whose sandboxes are in them; NULL: those of all tenants. */
const char *atoll_api_list_tenant(const struct atoll_api_call *call);
/* The sandbox of that session is the one the call is about from now on (session_call.c). NOT_FOUND for
 * a session of somebody else, too. Done for {session} in a route. */
int atoll_api_enter_session(struct atoll_api_call *call, const char *id,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* The tenant of a sandbox, "" where there is none of that id; good until the next event. */
const char *atoll_api_owner_of(struct atoll_engine *engine, const char *sandbox_id);
bool atoll_api_sees_sandbox(const struct atoll_api_call *call, const struct atoll_sandbox *sandbox);

/* The largest reply in one piece. */
#define ATOLL_API_REPLY_MAX ((size_t)32 * 1024 * 1024)

/* A buffer for a reply, to be given to atoll_api_reply(). */
void atoll_api_reply_init(struct atoll_buf *buf, struct atoll_json_out *out);
/* Sends what was written and frees the buffer. */
void atoll_api_reply(struct atoll_api_call *call, int status, struct atoll_json_out *out);
void atoll_api_reply_empty(struct atoll_api_call *call, int status);
/* What is no JSON; the bytes are borrowed for the call. */
void atoll_api_reply_text(struct atoll_api_call *call, int status, const char *content_type,
                          const void *bytes, size_t n);
void atoll_api_fail(struct atoll_api_call *call, const struct atoll_error *error);
/* Where providers.yaml is, if the caller may know; or NULL. */
const char *atoll_api_operators_file(const struct atoll_api_call *call);

/* A reply in pieces: atoll_http_write() on call->req between the two. */
void atoll_api_begin(struct atoll_api_call *call, int status, const char *content_type,
                     int64_t content_length);
void atoll_api_end(struct atoll_api_call *call);
/* Cuts the connection; `why` is for the log. */
void atoll_api_abort(struct atoll_api_call *call, const char *why);
/* Ends a call whose client is gone, or whose request became a WebSocket. */
void atoll_api_drop(struct atoll_api_call *call);
/* Whether nobody will hear the answer: the client is gone, if only just now. */
bool atoll_api_is_unheard(const struct atoll_api_call *call);

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
/* -EINVAL for what is no mode. */
int atoll_api_parse_mode(const char *text, uint32_t *ret_mode) ATOLL_MUST_CHECK;

/* Zeroed memory for a small fixed object; aborts where there is none. */
void *atoll_api_alloc(size_t n);

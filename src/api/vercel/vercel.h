#pragma once
#include "api/call.h"
#include "api/facade.h"

/*
 * The protocol of Vercel Sandbox, for unmodified `@vercel/sandbox` (0.0.x to 3.x) and `sandbox`.
 * Below ATOLL_VERCEL_BASE:
 *   - /v1: a sandbox is what /v2 calls a session; it runs once;
 *   - /v2, /v3: named sandboxes, each with sessions, of which the last one may run.
 *
 * Objects. A sandbox of Vercel is a persistent sandbox of the engine, with its name. A session is
 * one run of it, from a start to the next stop: sessions have no objects of their own, their ids say
 * which sandbox and which run of it they are. Facts that the engine does not keep are in facade_json of the
 * sandbox (facts.c).
 *
 * Authorization. Bearer is a key of Atoll, which identifies the tenant (call->caller.tenant). teamId and
 * projectId select nothing: they are shown as they were sent.
 *
 * Handlers. When the handler of a route with {sandbox} or {sid} is called, call->params.id is the id of
 * a sandbox of the engine that the caller may use. Query parameters that are unknown are accepted.
 */
extern const struct atoll_facade atoll_vercel_facade; /* routes.c */

#define ATOLL_VERCEL_BASE "/vercel/api"
/* One session; the second form is that of /v1. */
#define ATOLL_VERCEL_SESSION ATOLL_VERCEL_BASE "/v2/sandboxes/sessions/{sid}"
#define ATOLL_VERCEL_SESSION_OLD ATOLL_VERCEL_BASE "/v1/sandboxes/{sid}"

#define ATOLL_VERCEL_CWD "/vercel/sandbox" /* working directory of commands, and the user's own */
#define ATOLL_VERCEL_USER "vercel-sandbox" /* default user of commands and files */

#define ATOLL_VERCEL_HANDLER(name) \
    void atoll_vercel_##name(struct atoll_api_call *call, const uint8_t *body, size_t n)

/* Tables of routes. A table of sessions lists its rows for both bases, as
 *   #define ROWS(BASE) {ATOLL_POST, BASE "/cmd", …}, …
 *   static const struct atoll_route rows[] = {ROWS(ATOLL_VERCEL_SESSION), ROWS(ATOLL_VERCEL_SESSION_OLD)};
 */
extern const struct atoll_routes atoll_vercel_control_routes;     /* routes.c */
extern const struct atoll_routes atoll_vercel_session_routes;     /* session_routes.c */
extern const struct atoll_routes atoll_vercel_account_routes;     /* account.c */
extern const struct atoll_routes atoll_vercel_interactive_routes; /* interactive.c: own protocol */

/*
 * protocols.c: for the tables above. Both authorize by key and find the sandbox of the path; errors
 * have the form of Vercel.
 *
 * With the session protocol, the session is the one that runs now: else the answer is 410 sandbox_stopped,
 * or 422 sandbox_stopping or sandbox_snapshotting, upon which clients start it and repeat the request. A
 * GET is also accepted for a session that has ended; with call->ended, its sandbox is destroyed and
 * engine/sandbox/ended.h has its commands.
 */
extern const struct atoll_protocol atoll_vercel_control_protocol;
extern const struct atoll_protocol atoll_vercel_session_protocol;

/*
 * Parameters of paths:
 *   {sandbox}  name or id of a sandbox, in params.template; params.id is its id;
 *   {sid}      id of a session, in params.name as the client wrote it; params.id is that of its sandbox;
 *   {cid}      id of a command, "cmd_" and the id of the exec: without the prefix in params.exec;
 *   {key}      any text of at most 255 bytes without a slash, in params.template.
 */
#define ATOLL_VERCEL_PARAM_COUNT 4
extern const struct atoll_param_kind atoll_vercel_params[ATOLL_VERCEL_PARAM_COUNT];
#define ATOLL_VERCEL_COMMAND_PREFIX "cmd_"

extern const struct atoll_key_spelling atoll_vercel_key; /* keys.c */

/* hosts.c: requests that are addressed by Vercel's host names, as docs/vercel.md says under "DNS and TLS":
 * its API at vercel.com and api.vercel.com, and ports of sandboxes below vercel.run. */
void *atoll_vercel_open(struct atoll_api *api, const uint32_t *options);
bool atoll_vercel_serve(void *state, struct atoll_http_request *req);

/* Whether the path is of /v1: there "sandboxId" stands for "sessionId" and "sandbox" for "session". */
bool atoll_vercel_is_v1(const struct atoll_api_call *call);

/* errors.c: ends the call with {"error":{"code","message"}}. code NULL: the general one of the status,
 * such as not_found. Clients repeat requests that a status of 500 or above answered: no user's error has
 * one. atoll_api_fail() makes the same body from an error of the engine. */
void atoll_vercel_refuse(struct atoll_api_call *call, int status, const char *code, const char *fmt,
                         ...) ATOLL_PRINTF(4, 5);
/* The same with the text and the hint of an error. */
void atoll_vercel_refuse_error(struct atoll_api_call *call, int status, const char *code,
                               const struct atoll_error *error);
/* The code of a status, such as "bad_request". */
const char *atoll_vercel_code_of(int status);

#pragma once
#include "api/call.h"
#include "api/facade.h"
#include "api/kit/token.h"

/*
 * The Daytona protocol, for unmodified Daytona SDKs. A client sets DAYTONA_API_URL to
 * http://HOST:PORT/daytona and DAYTONA_API_KEY to any key of Atoll. It has two planes on one port:
 *   - control: /daytona/sandbox, /daytona/snapshots, /daytona/volumes …;
 *   - toolbox: requests to one sandbox below ATOLL_DAYTONA_TOOLBOX, or below
 *     ATOLL_DAYTONA_TOOLBOX_OLD for SDKs that send them through the control plane. The view of a sandbox
 *     gives SDKs the first one as toolboxProxyUrl.
 *
 * Authorization. Bearer is a key of Atoll, which identifies the tenant (call->caller.tenant);
 * X-Daytona-Organization-ID is ignored. The toolbox also accepts the token of the sandbox, as header
 * X-Daytona-Preview-Token or query DAYTONA_SANDBOX_AUTH_KEY, and signed URLs of files. All of this is
 * done before a handler is called (protocols.c).
 *
 * Handlers. A route with {id} accepts the id or the name of a sandbox. When the handler is called,
 * call->params.id is the id of a sandbox that the caller may use, in any state; the engine refuses
 * commands and files of a sandbox that does not run. Further parameters of paths are rows of
 * atoll_daytona_params.
 */
extern const struct atoll_facade atoll_daytona_facade; /* routes.c */

#define ATOLL_DAYTONA_BASE "/daytona"
#define ATOLL_DAYTONA_TOOLBOX ATOLL_DAYTONA_BASE "/toolbox/{id}"
#define ATOLL_DAYTONA_TOOLBOX_OLD ATOLL_DAYTONA_BASE "/toolbox/{id}/toolbox"

#define ATOLL_DAYTONA_HANDLER(name) \
    void atoll_daytona_##name(struct atoll_api_call *call, const uint8_t *body, size_t n)

/* Tables of routes, one for each group of them. A table of the toolbox lists its rows for both
 * bases:
 *   #define ROWS(BASE) {ATOLL_POST, BASE "/process/execute", …}, …
 *   static const struct atoll_route rows[] = {ROWS(ATOLL_DAYTONA_TOOLBOX), ROWS(ATOLL_DAYTONA_TOOLBOX_OLD)};
 */
extern const struct atoll_routes atoll_daytona_control_routes; /* routes.c */
extern const struct atoll_routes atoll_daytona_toolbox_routes; /* toolbox_routes.c */
extern const struct atoll_routes atoll_daytona_git_routes;     /* toolbox_git.c */

/* protocols.c: for the tables above. They differ in the form of errors and in authorization. */
extern const struct atoll_protocol atoll_daytona_control_protocol;
extern const struct atoll_protocol atoll_daytona_toolbox_protocol;

/* Parameters of paths beyond those of all tables: {key} is any text of at most 255 bytes without a
 * slash, in params.template (ids of sessions, PTYs and contexts; names of snapshots); {item} is such a
 * text of at most 64 bytes, in params.name (ids of commands; also intervals and tokens). */
#define ATOLL_DAYTONA_PARAM_COUNT 2
extern const struct atoll_param_kind atoll_daytona_params[ATOLL_DAYTONA_PARAM_COUNT];

/* errors.c: ends the call with the error body that SDKs expect:
 *   {"statusCode","message","code","source","timestamp","path","method"}
 * source is DAYTONA_API or DAYTONA_DAEMON, by the protocol of the call. code NULL: the general one of
 * the status, such as NOT_FOUND. SDKs choose the class of the exception by source and code, then by
 * status. atoll_api_fail() makes the same body from an error of the engine. */
void atoll_daytona_refuse(struct atoll_api_call *call, int status, const char *code,
                          const char *fmt, ...) ATOLL_PRINTF(4, 5);
/* The same with the status and text of an engine's error, and a code of Daytona. */
void atoll_daytona_fail_as(struct atoll_api_call *call, const char *code,
                           const struct atoll_error *error);
/* Writes the members of the body into an open object, for errors inside of other answers. */
void atoll_daytona_error_members(struct atoll_json_out *out, const struct atoll_api_call *call,
                                 int status, const char *code, const char *text);

/* protocols.c: the token of a sandbox, which the toolbox and previews accept until the signing key of
 * the sandbox is rotated. out holds ATOLL_TOKEN_LEN + 1 bytes. */
void atoll_daytona_sandbox_token(const struct atoll_api *api, const char *sandbox_id, char *out);

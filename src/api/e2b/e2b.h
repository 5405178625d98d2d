#pragma once
#include <jansson.h>
#include "api/call.h"
#include "api/facade.h"
#include "api/kit/token.h"

/*
 * The E2B protocol, for unmodified E2B SDKs. It has two planes on the same port:
 *   - control: /sandboxes, /v2/sandboxes, /templates …: ordinary routes, with API keys;
 *   - sandbox: requests to one sandbox, addressed by the headers E2b-Sandbox-Id and
 *     E2b-Sandbox-Port, by the host <port>-<id>.<domain>, or by a signed file URL. Port 49983 is
 *     "envd" (processes and files), port 49999 the code interpreter; on any other port, a server
 *     inside the sandbox.
 * The facts of a sandbox are what this facade stores in addition to the engine's record, as the
 * engine's facade_json. Sandboxes created by other facades have default facts, so these SDKs can
 * use all sandboxes.
 */
extern const struct atoll_facade atoll_e2b_facade;    /* routes.c */
extern const struct atoll_key_spelling atoll_e2b_key; /* keys.c */

/* Options of the facade. */
enum { ATOLL_E2B_OPTION_MAX_HOURS /* longest timeout; 0: unlimited */ };

#define ATOLL_E2B_ENVD_PORT 49983
#define ATOLL_E2B_INTERPRETER_PORT 49999

/* plane.c: open, close and serve of the facade; its state is the plane. Requests that are addressed
 * to a sandbox are served before previews: the hosts of sandboxes created by this facade are
 * served here. */
void *atoll_e2b_open(struct atoll_api *api, const uint32_t *options);
void atoll_e2b_close(void *state);
bool atoll_e2b_serve(void *state, struct atoll_http_request *req);

/* facts.c */
struct atoll_e2b_facts {
    bool made_here;        /* created by this facade */
    char template_id[129]; /* as in the request */
    char alias[129];       /* "" if not set */
    bool secure;           /* envd and code execution require the token */
    bool public_traffic;   /* false: other ports require the traffic token */
    bool auto_resume;      /* a request to a paused sandbox resumes it */
    char mask_host[257];   /* Host header for other ports; "": unchanged */
    json_t *network;       /* as given, owned, or NULL */
    json_t *lifecycle;     /* likewise */
    json_t *team;          /* headers of the request that name a team, likewise */
    int allow_internet;    /* -1: not given */
};
void atoll_e2b_facts_get(const struct atoll_sandbox *sandbox, struct atoll_e2b_facts *ret);
void atoll_e2b_facts_done(struct atoll_e2b_facts *facts);
/* The facts as facade_json; malloc'd. */
char *atoll_e2b_facts_json(const struct atoll_e2b_facts *facts);

/* Tokens (api/kit/token.h). out holds ATOLL_TOKEN_LEN + 1 bytes. */
void atoll_e2b_envd_token(const struct atoll_api *api, const char *sandbox_id, char *out);
void atoll_e2b_traffic_token(const struct atoll_api *api, const char *sandbox_id, char *out);

/* The header in which clients send the envd token, and the error text without a valid one. */
#define ATOLL_E2B_TOKEN_HEADER "x-access-token"
#define ATOLL_E2B_UNAUTHORIZED \
    "unauthorized access, please provide a valid access token or method signing if supported"

/* errors.c: {"code":<status>,"message":…}, for the control plane and envd's plain HTTP. */
void atoll_e2b_fail(struct atoll_api_call *call, int status, const struct atoll_error *error);

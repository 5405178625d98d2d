#pragma once
#include <jansson.h>
#include "api/call.h"

/*
 * The E2B protocol, for its SDKs as they are. Two planes on the same port:
 *   - control: /sandboxes, /v2/sandboxes, /templates …, routes like any other, with keys;
 *   - sandbox: requests to one sandbox, addressed by the headers E2b-Sandbox-Id and E2b-Sandbox-Port,
 *     by the host <port>-<id>.<domain>, or by a signed file URL. Port 49983 is "envd" (processes and
 *     files), port 49999 the code interpreter, any other port what listens there inside.
 * Everything a sandbox of this facade has beyond the engine's own record is its facts, kept as the
 * engine's facade_json. Sandboxes made by other facades have default facts: all of them can be
 * reached by these SDKs.
 */
extern const struct atoll_routes atoll_e2b_routes;

#define ATOLL_E2B_ENVD_PORT 49983
#define ATOLL_E2B_INTERPRETER_PORT 49999
#define ATOLL_E2B_TOKEN_LEN 43

/* plane.c: serves the request if it is for a sandbox; false leaves it to others. Before previews: a
 * host of a sandbox this facade made is served here. */
bool atoll_e2b_serve(struct atoll_api *api, struct atoll_http_request *req);
/* After the HTTP server is freed. */
struct atoll_e2b_plane;
struct atoll_e2b_plane *atoll_e2b_plane_free(struct atoll_e2b_plane *plane);

/* facts.c */
struct atoll_e2b_facts {
    bool made_here;        /* by this facade */
    char template_id[129]; /* as asked for */
    char alias[129];       /* "" where there is none */
    bool secure;           /* envd and running code want the token */
    bool public_traffic;   /* false: other ports want the traffic token */
    bool auto_resume;      /* any request to a paused one wakes it */
    char mask_host[257];   /* Host for requests to other ports; "" leaves it */
    json_t *network;       /* as given, owned, or NULL */
    json_t *lifecycle;     /* likewise */
    json_t *team;          /* headers of the request that name a team, likewise */
    int allow_internet;    /* -1: not said */
};
void atoll_e2b_facts_get(const struct atoll_sandbox *sandbox, struct atoll_e2b_facts *ret);
void atoll_e2b_facts_done(struct atoll_e2b_facts *facts);
/* As facade_json; from malloc. */
char *atoll_e2b_facts_json(const struct atoll_e2b_facts *facts);

/* Tokens are made from the daemon's secret and the id: the same for as long as the sandbox exists,
 * stored nowhere. out holds ATOLL_E2B_TOKEN_LEN + 1 bytes. */
void atoll_e2b_envd_token(const struct atoll_api *api, const char *sandbox_id, char *out);
void atoll_e2b_traffic_token(const struct atoll_api *api, const char *sandbox_id, char *out);
/* Compares in constant time. shown NULL: no token was sent. */
bool atoll_e2b_token_fits(const char *shown, const char *token);

/* Where clients show the token of envd, and what they hear without it. */
#define ATOLL_E2B_TOKEN_HEADER "x-access-token"
#define ATOLL_E2B_UNAUTHORIZED \
    "unauthorized access, please provide a valid access token or method signing if supported"

/* errors.c: {"code":<status>,"message":…}, for the control plane and envd's plain HTTP. */
void atoll_e2b_fail(struct atoll_api_call *call, int status, const struct atoll_error *error);

/*
 * Requests to one sandbox: finds the sandbox and the port, and passes the request to the code that
 * serves them. A request is addressed by two headers, by its host or, for a signed file URL, by its
 * signature.
 *
 * The headers count only if the Host is ours. A page loaded through DNS rebinding can set headers,
 * too, and must not reach a sandbox with them.
 */
#include "api/e2b/plane.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/e2b/envd.h"
#include "api/e2b/template_requests.h"
#include "api/kit/cors.h"
#include "api/preview.h"
#include "api/preview_rules.h"
#include "base/text.h"

#define ID_CHARS "abcdefghijklmnopqrstuvwxyz0123456789"
#define EXPOSED                                                                                \
    "Grpc-Status, Grpc-Message, Grpc-Status-Details-Bin, Connect-Protocol-Version, Location, " \
    "Cache-Control, X-Content-Type-Options, Content-Disposition, Content-Range, X-Request-Id"
#define PORT_TRIES 5
#define TRAFFIC_HEADER "e2b-traffic-access-token"

struct address {
    char id[33];
    uint16_t port;
    bool by_header;
};

/* State of the plane. */

static bool was_made(const struct atoll_e2b_plane *plane, const char *id)
{
    for (size_t i = 0; i < ATOLL_MIN(plane->made_count, (size_t)ATOLL_PLANE_MADE_MAX); i++)
        if (strcmp(plane->made[i], id) == 0)
            return true;
    return false;
}

void atoll_plane_remember(struct atoll_e2b_plane *plane, const struct atoll_sandbox *sandbox)
{
    struct atoll_e2b_facts facts;
    struct atoll_sandbox_view view;

    atoll_sandbox_get(sandbox, &view);
    atoll_e2b_facts_get(sandbox, &facts);
    if (facts.made_here && !was_made(plane, view.id))
        (void)!atoll_text_copy(plane->made[plane->made_count++ % ATOLL_PLANE_MADE_MAX],
                               ATOLL_ID_LEN + 1, view.id);
    atoll_e2b_facts_done(&facts);
}

static void on_event(void *arg, const struct atoll_event *event)
{
    struct atoll_e2b_plane *plane = arg;

    if (strcmp(event->kind, "sandbox.destroyed") == 0) {
        atoll_notes_drop(plane, event->sandbox_id);
        atoll_watchers_drop(plane, event->sandbox_id);
    }
}

struct atoll_e2b_plane *atoll_e2b_plane_of(const struct atoll_api *api)
{
    return atoll_api_facade_state(api, &atoll_e2b_facade);
}

void *atoll_e2b_open(struct atoll_api *api, const uint32_t *options)
{
    struct atoll_e2b_plane *plane = atoll_api_alloc(sizeof(*plane));
    const struct atoll_sandbox *sandbox;

    plane->api = api;
    plane->max_hours = options[ATOLL_E2B_OPTION_MAX_HOURS];
    plane->made = atoll_api_alloc(sizeof(*plane->made) * ATOLL_PLANE_MADE_MAX);
    atoll_map_init(&plane->notes_by_sandbox);
    atoll_map_init(&plane->notes_by_exec);
    atoll_list_init(&plane->watchers);
    atoll_e2b_requests_init(plane);
    plane->ports = atoll_ports_new(api->config.loop, api->config.engine, PORT_TRIES);
    for (size_t pos = 0; (sandbox = atoll_engine_next(api->config.engine, &pos));)
        atoll_plane_remember(plane, sandbox);
    plane->events = atoll_events_subscribe(api->config.engine, UINT64_MAX, on_event, plane);
    return plane;
}

void atoll_e2b_close(void *state)
{
    struct atoll_e2b_plane *plane = state;

    plane->events = atoll_events_unsubscribe(plane->events);
    plane->ports = atoll_ports_free(plane->ports);
    atoll_notes_drop_all(plane);
    atoll_watchers_drop(plane, NULL);
    atoll_e2b_requests_done(plane);
    atoll_map_done(&plane->notes_by_sandbox);
    atoll_map_done(&plane->notes_by_exec);
    free(plane->made);
    free(plane);
}

/* Addressing. */

static bool is_own_host(const struct atoll_api *api, const struct atoll_http_request *req)
{
    const char *host = atoll_http_header(req, "host");
    const struct atoll_preview_site *site = api->config.site;

    /* Browsers cannot connect to the unix socket. */
    return !host || !*host || atoll_http_peer(req)->is_unix ||
           atoll_host_is_own(host, site ? site->names : NULL);
}

/* An id, optionally with "-" and a suffix that older clients append. */
static bool take_id(const char *text, size_t n, char *out)
{
    size_t len = strspn(text, ID_CHARS);

    len = ATOLL_MIN(len, n);
    if (len == 0 || len > 32 || (len < n && text[len] != '-'))
        return false;
    memcpy(out, text, len);
    out[len] = '\0';
    return true;
}

/* 1: *ret is set, 0: the request has no such headers, -EINVAL: the request has been answered. */
static int by_header(const struct atoll_api *api, struct atoll_http_request *req,
                     struct address *ret)
{
    const char *id = atoll_http_header(req, "e2b-sandbox-id");
    const char *port = atoll_http_header(req, "e2b-sandbox-port");
    uint64_t number;

    if ((!id && !port) || !is_own_host(api, req))
        return 0;
    if (!id || !port) {
        atoll_plane_refuse(req, 400,
                           "missing header: E2b-Sandbox-Id and E2b-Sandbox-Port belong "
                           "together\n");
        return -EINVAL;
    }
    if (!take_id(id, strlen(id), ret->id)) {
        atoll_plane_refuse(req, 400, "invalid sandbox ID\n");
        return -EINVAL;
    }
    if (atoll_text_u64(port, 1, UINT16_MAX, &number) < 0) {
        atoll_plane_refuse(req, 400, "invalid sandbox port\n");
        return -EINVAL;
    }
    ret->port = (uint16_t)number;
    ret->by_header = true;
    return 1;
}

/* <port>-<id>[-x].<domain>[:port] of a sandbox created by this facade. */
static bool by_host(struct atoll_e2b_plane *plane, const struct atoll_http_request *req,
                    struct address *ret)
{
    const char *host = atoll_http_header(req, "host");
    const struct atoll_preview_site *site = plane->api->config.site;
    const struct atoll_sandbox *sandbox;
    struct atoll_e2b_facts facts;
    struct atoll_preview_name name;
    char plain[300];
    const char *dot, *dash;
    bool made;

    if (!host || !site || !(dot = strchr(host, '.')) || !(dash = strchr(host, '-')) || dash > dot)
        return false;
    /* Without the suffix of older clients, the host must match the syntax of previews exactly. */
    dash = memchr(dash + 1, '-', (size_t)(dot - dash - 1));
    (void)snprintf(plain, sizeof(plain), "%.*s%s", (int)((dash ? dash : dot) - host), host, dot);
    if (!atoll_preview_parse_host(plain, site->domain, &name) || strlen(name.sandbox_id) > 32)
        return false;
    sandbox = atoll_engine_find(plane->api->config.engine, name.sandbox_id);
    if (sandbox) {
        atoll_e2b_facts_get(sandbox, &facts);
        made = facts.made_here;
        atoll_e2b_facts_done(&facts);
    } else {
        made = was_made(plane, name.sandbox_id);
    }
    if (!made)
        return false;
    (void)!atoll_text_copy(ret->id, sizeof(ret->id), name.sandbox_id);
    ret->port = name.port;
    return true;
}

/* A URL of /files that names no sandbox. Returns 1, 0 and -EINVAL as above. */
static int by_signature(struct atoll_e2b_plane *plane, struct atoll_http_request *req,
                        struct address *ret)
{
    struct atoll_api *api = plane->api;
    struct atoll_sandbox *sandbox;
    struct atoll_sandbox_view view;
    const char *source = atoll_http_peer(req)->source;
    char token[ATOLL_TOKEN_LEN + 1];

    if (strcmp(atoll_http_path(req), "/files") != 0 || !atoll_http_query(req, "signature") ||
        !is_own_host(api, req))
        return 0;
    if (atoll_http_method(req) == ATOLL_OPTIONS) {
        atoll_cors_preflight(req);
        return -EINVAL;
    }
    /* The search tries the token of every sandbox, so failed requests are rate-limited. */
    if (atoll_buckets_take(api->wrong_signatures, source, atoll_loop_now_ms(api->config.loop)) >
        0) {
        atoll_envd_refuse(req, 429, "too many requests with invalid signatures");
        return -EINVAL;
    }
    for (size_t pos = 0; (sandbox = atoll_engine_next(api->config.engine, &pos));) {
        atoll_sandbox_get(sandbox, &view);
        atoll_e2b_envd_token(api, view.id, token);
        if (!atoll_e2b_signature_fits(req, token))
            continue;
        atoll_buckets_return(api->wrong_signatures, source);
        (void)!atoll_text_copy(ret->id, sizeof(ret->id), view.id);
        ret->port = ATOLL_E2B_ENVD_PORT;
        return 1;
    }
    atoll_envd_refuse(req, 401, "invalid signature");
    return -EINVAL;
}

/* Serving. */

static bool may_pass(struct atoll_e2b_plane *plane, struct atoll_http_request *req, const char *id,
                     const struct atoll_e2b_facts *facts)
{
    const char *shown = atoll_http_header(req, TRAFFIC_HEADER);
    char token[ATOLL_TOKEN_LEN + 1];

    if (facts->public_traffic)
        return true;
    atoll_e2b_traffic_token(plane->api, id, token);
    if (atoll_token_fits(shown, token))
        return true;
    if (shown)
        atoll_plane_refuse(req, 403,
                           "Sandbox is secured with traffic access token. Provided traffic access "
                           "token is invalid.");
    else
        atoll_plane_refuse(
            req, 403,
            "Sandbox is secured with traffic access token. Token header '" TRAFFIC_HEADER
            "' is missing");
    return false;
}

static void dispatch(struct atoll_e2b_plane *plane, struct atoll_http_request *req,
                     const struct address *to, const struct atoll_e2b_facts *facts)
{
    switch (to->port) {
    case ATOLL_E2B_ENVD_PORT:
        atoll_cors_allow(req, EXPOSED);
        atoll_api_call_start_in(plane->api, req, &atoll_e2b_envd_routes, to->id);
        return;
    case ATOLL_E2B_INTERPRETER_PORT:
        atoll_cors_allow(req, EXPOSED);
        atoll_api_call_start_in(plane->api, req, &atoll_e2b_interpreter_routes, to->id);
        return;
    default:
        if (may_pass(plane, req, to->id, facts))
            atoll_plane_forward(plane, req, to->id, to->port, facts->mask_host, to->by_header);
    }
}

static void serve_at(struct atoll_e2b_plane *plane, struct atoll_http_request *req,
                     const struct address *to, bool may_wake);

/* A request that waits until its sandbox is resumed. */
struct waiting_request {
    struct atoll_e2b_plane *plane;
    struct atoll_http_request *req; /* NULL after the client disconnected */
    struct address to;
};

static void waiting_gone(void *arg, struct atoll_http_request *req ATOLL_UNUSED)
{
    struct waiting_request *s = arg;
    s->req = NULL;
}

static void awake(void *arg, const struct atoll_error *error)
{
    struct waiting_request *s = arg;

    if (s->req) {
        atoll_http_on_close(s->req, NULL, NULL);
        if (error)
            atoll_plane_no_sandbox(s->req, s->to.id);
        else
            serve_at(s->plane, s->req, &s->to, false);
    }
    free(s);
}

static void wake(struct atoll_e2b_plane *plane, struct atoll_http_request *req,
                 const struct address *to)
{
    struct waiting_request *s = atoll_api_alloc(sizeof(*s));

    *s = (struct waiting_request){plane, req, *to};
    atoll_http_on_close(req, waiting_gone, s);
    atoll_engine_resume(plane->api->config.engine, to->id, awake, s);
}

static void serve_at(struct atoll_e2b_plane *plane, struct atoll_http_request *req,
                     const struct address *to, bool may_wake)
{
    const struct atoll_sandbox *sandbox = atoll_engine_find(plane->api->config.engine, to->id);
    struct atoll_sandbox_view view = {0};
    struct atoll_e2b_facts facts = {0};
    bool asleep;

    if (sandbox) {
        atoll_sandbox_get(sandbox, &view);
        atoll_e2b_facts_get(sandbox, &facts);
    }
    asleep = view.state == ATOLL_SANDBOX_PAUSED || view.state == ATOLL_SANDBOX_STOPPED;
    if (sandbox && view.state == ATOLL_SANDBOX_RUNNING)
        dispatch(plane, req, to, &facts);
    else if (sandbox && asleep && facts.auto_resume && may_wake)
        wake(plane, req, to);
    else
        atoll_plane_no_sandbox(req, to->id);
    atoll_e2b_facts_done(&facts);
}

bool atoll_e2b_serve(void *state, struct atoll_http_request *req)
{
    struct atoll_e2b_plane *plane = state;
    struct address to = {0};
    const char *authority;
    size_t n;
    int r;

    /* A target in absolute form may name a second host; the preview code checks and refuses
     * that. */
    (void)atoll_target_path(atoll_http_target(req), &authority, &n);
    if (authority)
        return false;
    r = by_header(plane->api, req, &to);
    if (r == 0)
        r = by_host(plane, req, &to);
    if (r == 0)
        r = by_signature(plane, req, &to);
    if (r <= 0)
        return r < 0;
    if (atoll_http_method(req) == ATOLL_OPTIONS &&
        (to.port == ATOLL_E2B_ENVD_PORT || to.port == ATOLL_E2B_INTERPRETER_PORT))
        atoll_cors_preflight(req);
    else if (plane->api->draining)
        atoll_plane_refuse(req, 503, "The daemon is shutting down\n");
    else
        serve_at(plane, req, &to, true);
    return true;
}

/*
 * Requests to previews. The Host header decides whether a request is for a preview or for the API,
 * or is refused. A visitor must prove access to the preview. Headers that the sandbox must not see
 * are removed from the request; headers that would affect other hosts are removed from the
 * response.
 */
#include "api/preview.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "api/api_internal.h"
#include "api/kit/ports.h"
#include "api/preview_internal.h"
#include "api/preview_rules.h"
#include "api/published.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "base/trace.h"

#define TOKEN_HEADER "x-atoll-preview-token"
/* Pages below /preview/ share the origin of the API; this policy puts them into an opaque
 * origin. */
#define PATH_POLICY "sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts"

struct atoll_preview_server {
    struct atoll_api *api;
    struct atoll_engine *engine;
    struct atoll_previews *previews;
    struct atoll_preview_site site;
    struct atoll_ports *ports;
    struct atoll_published *published;
    struct atoll_subscription *events;
    bool access_log;
};

/* How a visitor proved its access. */
enum proof { PROOF_NONE, PROOF_PUBLIC, PROOF_HEADER, PROOF_QUERY, PROOF_COOKIE };

/* One request in progress. */
struct visit {
    struct atoll_preview_server *server;
    struct atoll_preview_name name;
    bool by_path;                    /* below a path of the API's own host */
    char base[96];                   /* that path, without a slash at its end */
    atoll_preview_failed_fn *answer; /* of a facade; or NULL */
    char token[ATOLL_PREVIEW_TOKEN_LEN + 1];
    char *scratch; /* owned: a rewritten header */
    struct atoll_trace trace;
    int64_t started_ms;
    char method[8];
    char request_id[65];
};

static char *scratch(struct visit *v, size_t n)
{
    char *p = realloc(v->scratch, n);

    if (!p)
        abort();
    return v->scratch = p;
}

/* Request headers. */

static bool is_credential(const char *name)
{
    return strcasecmp(name, "authorization") == 0 || strcasecmp(name, "x-api-key") == 0;
}

static bool request_cookie(struct visit *v, const char **value)
{
    char *out;

    if (v->by_path)
        return false; /* they belong to the API's host */
    out = scratch(v, strlen(*value) + 1);
    atoll_preview_strip_cookies(*value, out);
    *value = out;
    return *out != '\0';
}

static bool shows_token(struct visit *v, const char *referer)
{
    return (v->token[0] && strstr(referer, v->token)) ||
           atoll_preview_strip_parameter(referer, ATOLL_PREVIEW_DAYTONA_QUERY,
                                         scratch(v, strlen(referer) + 1));
}

static bool request_header(void *arg, const char *name, const char **value)
{
    struct visit *v = arg;

    switch (name[0] | 0x20) {
    case 'a':
        return !is_credential(name) || (!v->by_path && !atoll_preview_holds_key(*value));
    case 'c':
        return strcasecmp(name, "cookie") != 0 || request_cookie(v, value);
    case 'r':
        return strcasecmp(name, "referer") != 0 || !shows_token(v, *value);
    case 't':
        return strcasecmp(name, "traceparent") != 0 || !v->trace.id[0];
    case 'x':
        if (is_credential(name))
            return !v->by_path && !atoll_preview_holds_key(*value);
        return strncasecmp(name, "x-atoll-", 8) != 0 && strcasecmp(name, "x-request-id") != 0 &&
               strcasecmp(name, ATOLL_PREVIEW_DAYTONA_HEADER) != 0;
    default:
        return true;
    }
}

/* Response headers. */

static bool response_location(struct visit *v, const char **value)
{
    size_t cap = strlen(*value) + sizeof(v->base);
    char *out;

    /* An absolute path of the sandbox's server is below our prefix. */
    if (!v->by_path || **value != '/' || (*value)[1] == '/')
        return true;
    out = scratch(v, cap);
    (void)snprintf(out, cap, "%s%s", v->base, *value);
    *value = out;
    return true;
}

static bool response_header(void *arg, const char *name, const char **value)
{
    struct visit *v = arg;
    char *out;

    if (!atoll_preview_may_answer(name,
                                  v->by_path ? ATOLL_PREVIEW_API_ORIGIN : ATOLL_PREVIEW_OWN_HOST))
        return false;
    if (strcasecmp(name, "location") == 0)
        return response_location(v, value);
    if (strcasecmp(name, "set-cookie") != 0)
        return true;
    out = scratch(v, strlen(*value) + 1);
    if (!atoll_preview_clean_set_cookie(*value, out))
        return false;
    *value = out;
    return true;
}

/* End of a request. */

/* Why no server of the sandbox can be reached. */
static enum atoll_preview_page page_of_state(const struct visit *v)
{
    const struct atoll_sandbox *s = atoll_engine_find(v->server->engine, v->name.sandbox_id);
    struct atoll_sandbox_view view = {0};

    if (s)
        atoll_sandbox_get(s, &view);
    return view.state == ATOLL_SANDBOX_PAUSED    ? ATOLL_PREVIEW_PAUSED
           : view.state == ATOLL_SANDBOX_STOPPED ? ATOLL_PREVIEW_STOPPED
                                                 : ATOLL_PREVIEW_SILENT;
}

static int failed(void *arg, struct atoll_http_request *req, const struct atoll_error *error)
{
    static const struct {
        enum atoll_error_kind kind;
        enum atoll_preview_page page;
    } rows[] = {
        {ATOLL_ERR_NOT_FOUND, ATOLL_PREVIEW_UNKNOWN},
        {ATOLL_ERR_UNAVAILABLE, ATOLL_PREVIEW_SILENT},
        {ATOLL_ERR_DEADLINE_EXCEEDED, ATOLL_PREVIEW_SLOW},
        {ATOLL_ERR_RESOURCE_EXHAUSTED, ATOLL_PREVIEW_BUSY},
        {ATOLL_ERR_INVALID_ARGUMENT, ATOLL_PREVIEW_TOO_LARGE},
        {ATOLL_ERR_DATA_LOSS, ATOLL_PREVIEW_BROKEN},
    };
    const struct visit *v = arg;

    if (error->kind == ATOLL_ERR_FAILED_PRECONDITION)
        return atoll_preview_page(req, page_of_state(v), v->name.port, v->answer);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++)
        if (rows[i].kind == error->kind)
            return atoll_preview_page(req, rows[i].page, v->name.port, v->answer);
    atoll_log(ATOLL_LOG_ERROR, "preview failed", "sandbox", v->name.sandbox_id, "error",
              error->text, "request_id", v->request_id, "trace_id", v->trace.id, NULL);
    return atoll_preview_page(req, ATOLL_PREVIEW_BROKEN, v->name.port, v->answer);
}

static void done(void *arg, const struct atoll_proxy_outcome *outcome)
{
    struct visit *v = arg;
    char status[12], port[8], ms[24];

    atoll_ports_measure(outcome);
    if (v->server->access_log) {
        (void)snprintf(status, sizeof(status), "%d", outcome->status);
        (void)snprintf(port, sizeof(port), "%u", v->name.port);
        (void)snprintf(ms, sizeof(ms), "%lld", (long long)(atoll_clock_ms() - v->started_ms));
        atoll_log(ATOLL_LOG_DEBUG, "preview", "method", v->method, "sandbox", v->name.sandbox_id,
                  "port", port, "status", status, "ms", ms, "request_id", v->request_id, "trace_id",
                  v->trace.id, NULL);
    }
    free(v->scratch);
    free(v);
}

static const struct atoll_proxy_hooks hooks = {
    .request_header = request_header,
    .response_header = response_header,
    .failed = failed,
    .done = done,
};

static void forward(struct visit *v, struct atoll_http_request *req, const char *target)
{
    const char *host = atoll_http_header(req, "host");
    char local[32], extra[200], trace[ATOLL_TRACE_TEXT_MAX];
    const struct atoll_port_request request = {
        .sandbox_id = v->name.sandbox_id,
        .port = v->name.port,
        .target = target,
        .host = v->by_path || !host ? local : host,
        .extra = extra,
        .hooks = &hooks,
        .arg = v,
    };

    (void)snprintf(local, sizeof(local), "localhost:%u", v->name.port);
    (void)snprintf(extra, sizeof(extra), "X-Request-Id: %s\r\n%s%s%s", v->request_id,
                   v->trace.id[0] ? "traceparent: " : "",
                   v->trace.id[0] ? atoll_trace_format(&v->trace, trace) : "",
                   v->trace.id[0] ? "\r\n" : "");
    if (v->by_path)
        (void)atoll_http_set_header(req, "Content-Security-Policy", PATH_POLICY);
    if (v->trace.id[0])
        (void)atoll_http_set_header(req, "traceresponse", trace);
    atoll_ports_forward(v->server->ports, req, &request);
}

/* Access checks. */

static bool is_token(const char *shown, size_t n, const char *token)
{
    return shown && n == ATOLL_PREVIEW_TOKEN_LEN && CRYPTO_memcmp(shown, token, n) == 0;
}

static enum proof find_proof(const struct atoll_http_request *req,
                             const struct atoll_preview_view *view)
{
    const char *shown = atoll_http_header(req, TOKEN_HEADER), *name, *value;
    size_t n = 0;

    if (shown && is_token(shown, strlen(shown), view->token))
        return PROOF_HEADER;
    shown = atoll_http_query(req, "token");
    if (shown && is_token(shown, strlen(shown), view->token))
        return PROOF_QUERY;
    if (view->is_public)
        return PROOF_PUBLIC;
    for (size_t i = 0; atoll_http_header_at(req, i, &name, &value); i++)
        if (strcasecmp(name, "cookie") == 0 &&
            (shown = atoll_preview_find_cookie(value, &n)) != NULL &&
            is_token(shown, n, view->token))
            return PROOF_COOKIE;
    return PROOF_NONE;
}

/* A browser sends the cookie also with requests from pages of other sites, which must not use it
 * to act. Previews of other ports of the same sandbox may. */
static bool is_foreign(const struct visit *v, const struct atoll_http_request *req)
{
    enum atoll_http_method method = atoll_http_method(req);
    const char *origin = atoll_http_header(req, "origin"), *host = atoll_http_header(req, "host");
    struct atoll_preview_name name;

    if (!origin ||
        ((method == ATOLL_GET || method == ATOLL_HEAD) && !atoll_http_header(req, "upgrade")))
        return false;
    origin = strstr(origin, "://");
    if (!origin || !host)
        return true;
    origin += 3;
    if (strcmp(origin, host) == 0)
        return false;
    return !atoll_preview_parse_host(origin, v->server->site.domain, &name) ||
           strcmp(name.sandbox_id, v->name.sandbox_id) != 0;
}

/* Stores the token in a cookie and redirects, so that the token disappears from the address bar,
 * the history and Referer headers. */
static void welcome(struct visit *v, struct atoll_http_request *req, const char *target)
{
    bool is_tls = atoll_http_peer(req)->is_tls;
    char path[80] = "", cookie[240];
    size_t cap = strlen(target) + sizeof(path);
    char *location = scratch(v, cap);
    struct atoll_proxy_outcome outcome = {.status = 302};

    if (v->by_path)
        (void)snprintf(path, sizeof(path), "/preview/%s/%u", v->name.sandbox_id, v->name.port);
    (void)snprintf(location, cap, "%s%s", path, target);
    (void)snprintf(cookie, sizeof(cookie),
                   ATOLL_PREVIEW_COOKIE "=%s; Path=%s/; HttpOnly; SameSite=Lax%s", v->token, path,
                   is_tls ? "; Secure" : "");
    (void)atoll_http_set_header(req, "Set-Cookie", cookie);
    (void)atoll_http_set_header(req, "Location", location);
    (void)atoll_http_set_header(req, "Cache-Control", "no-store");
    (void)atoll_http_set_header(req, "Referrer-Policy", "no-referrer");
    atoll_http_respond(req, 302, NULL, NULL, 0);
    done(v, &outcome);
}

/* Whether a browser opens a page. Other clients need no redirect, and may keep no cookies. */
static bool is_navigation(const struct atoll_http_request *req)
{
    enum atoll_http_method method = atoll_http_method(req);
    const char *accept = atoll_http_header(req, "accept");

    return (method == ATOLL_GET || method == ATOLL_HEAD) && !atoll_http_header(req, "upgrade") &&
           accept && strcasestr(accept, "text/html");
}

static void choose_request_id(struct visit *v, const struct atoll_http_request *req)
{
    const char *given = atoll_http_header(req, "x-request-id");

    if (given && atoll_text_is_name(given))
        (void)!atoll_text_copy(v->request_id, sizeof(v->request_id), given);
    else
        (void)snprintf(v->request_id, sizeof(v->request_id), "%s-%llx", v->server->api->id_prefix,
                       (unsigned long long)++v->server->api->id_count);
}

static void refuse(struct visit *v, struct atoll_http_request *req, enum atoll_preview_page page)
{
    struct atoll_proxy_outcome outcome = {
        .status = atoll_preview_page(req, page, v->name.port, v->answer)};

    done(v, &outcome);
}

/* Redirects to the path with a slash: without it, relative links of the page would resolve
 * outside of the preview. */
static void add_slash(struct visit *v, struct atoll_http_request *req, const char *rest)
{
    size_t cap = strlen(rest) + 80;
    char *location = scratch(v, cap);
    struct atoll_proxy_outcome outcome = {.status = 308};

    (void)snprintf(location, cap, "/preview/%s/%u/%s", v->name.sandbox_id, v->name.port, rest);
    (void)atoll_http_set_header(req, "Location", location);
    atoll_http_respond(req, 308, NULL, NULL, 0);
    done(v, &outcome);
}

/* rest: the target for the server in the sandbox; our token is still in it. */
static void admit(struct visit *v, struct atoll_http_request *req, const char *rest)
{
    struct atoll_preview_view view;
    enum proof proof = PROOF_NONE;
    char *target;

    if (atoll_previews_find(v->server->previews, v->name.sandbox_id, v->name.port, &view) &&
        atoll_engine_find(v->server->engine, v->name.sandbox_id))
        proof = find_proof(req, &view);
    if (proof == PROOF_NONE) {
        refuse(v, req, ATOLL_PREVIEW_UNKNOWN);
        return;
    }
    memcpy(v->token, view.token, sizeof(v->token));
    if (proof == PROOF_COOKIE && is_foreign(v, req)) {
        refuse(v, req, ATOLL_PREVIEW_FOREIGN);
        return;
    }
    if (v->by_path && *rest != '/') {
        add_slash(v, req, rest);
        return;
    }
    target = malloc(strlen(rest) + 2);
    if (!target)
        abort();
    target[0] = '/';
    (void)atoll_preview_strip_token(*rest == '/' ? rest + 1 : rest, view.token, target + 1);
    if (proof == PROOF_QUERY && !view.is_public && is_navigation(req))
        welcome(v, req, target);
    else
        forward(v, req, target);
    free(target);
}

static struct visit *begin(struct atoll_preview_server *server, struct atoll_http_request *req,
                           const struct atoll_preview_name *name, bool by_path)
{
    struct visit *v = atoll_api_alloc(sizeof(*v));

    *v = (struct visit){.server = server, .name = *name, .by_path = by_path};
    (void)snprintf(v->base, sizeof(v->base), "/preview/%s/%u", name->sandbox_id, name->port);
    (void)snprintf(v->method, sizeof(v->method), "%s",
                   atoll_http_method_name(atoll_http_method(req)));
    v->started_ms = server->access_log ? atoll_clock_ms() : 0;
    choose_request_id(v, req);
    atoll_trace_init(&v->trace, atoll_http_header(req, "traceparent"));
    return v;
}

static void visit(struct atoll_preview_server *server, struct atoll_http_request *req,
                  const struct atoll_preview_name *name, bool by_path, const char *rest)
{
    struct visit *v = begin(server, req, name, by_path);

    if (server->api->draining)
        refuse(v, req, ATOLL_PREVIEW_ENDING);
    else
        admit(v, req, rest);
}

static void pass(struct atoll_api *api, struct atoll_http_request *req, const char *sandbox_id,
                 uint16_t port, const char *base, const char *target,
                 atoll_preview_failed_fn *answer)
{
    struct atoll_preview_name name = {.port = port};
    struct visit *v;

    (void)snprintf(name.sandbox_id, sizeof(name.sandbox_id), "%s", sandbox_id);
    v = begin(api->preview, req, &name, *base != '\0');
    (void)snprintf(v->base, sizeof(v->base), "%s", base);
    v->answer = answer;
    if (api->draining)
        refuse(v, req, ATOLL_PREVIEW_ENDING);
    else
        forward(v, req, target);
}

void atoll_preview_pass(struct atoll_api *api, struct atoll_http_request *req,
                        const char *sandbox_id, uint16_t port, const char *target)
{
    pass(api, req, sandbox_id, port, "", target, NULL);
}

void atoll_preview_pass_below(struct atoll_api *api, struct atoll_http_request *req,
                              const char *sandbox_id, uint16_t port, const char *base,
                              const char *target, atoll_preview_failed_fn *answer)
{
    pass(api, req, sandbox_id, port, base, target, answer);
}

void atoll_preview_refuse(struct atoll_http_request *req)
{
    (void)atoll_preview_page(req, ATOLL_PREVIEW_UNKNOWN, 0, NULL);
}

/* Dispatch by Host header and path. */

bool atoll_preview_serve(struct atoll_preview_server *server, struct atoll_http_request *req)
{
    const char *host = atoll_http_header(req, "host"), *authority, *rest;
    const char *domain = server->site.domain;
    struct atoll_preview_name name;
    size_t n;
    const char *path = atoll_target_path(atoll_http_target(req), &authority, &n);

    host = host ? host : "";
    if (authority && (strlen(host) != n || strncasecmp(host, authority, n) != 0)) {
        (void)atoll_preview_page(req, ATOLL_PREVIEW_TWO_HOSTS, 0, NULL);
        return true;
    }
    if (atoll_preview_parse_host(host, domain, &name)) {
        visit(server, req, &name, false, path);
        return true;
    }
    if (*host && !atoll_host_is_own(host, server->site.names)) {
        bool lost = atoll_preview_in_domain(host, domain);
        /* On the unix socket any other name is accepted: browsers cannot connect to it. */
        if (lost || !atoll_http_peer(req)->is_unix) {
            (void)atoll_preview_page(req, lost ? ATOLL_PREVIEW_UNKNOWN : ATOLL_PREVIEW_MISDIRECTED,
                                     0, NULL);
            return true;
        }
    }
    if (!atoll_preview_parse_path(path, &name, &rest))
        return false;
    visit(server, req, &name, true, rest);
    return true;
}

/* Setup. */

static void on_event(void *arg, const struct atoll_event *event)
{
    struct atoll_preview_server *server = arg;

    if (strcmp(event->kind, "sandbox.destroyed") != 0)
        return;
    atoll_published_close(server->published, event->sandbox_id, 0);
    atoll_previews_forget(server->previews, event->sandbox_id);
}

/* Forgets the previews of sandboxes that were destroyed while the daemon was not running. */
static void forget_orphans(struct atoll_preview_server *server)
{
    struct atoll_preview_view view;

    for (size_t pos = 0; atoll_previews_next(server->previews, NULL, &pos, &view);)
        if (!atoll_engine_find(server->engine, view.sandbox_id)) {
            char id[33];
            (void)!atoll_text_copy(id, sizeof(id), view.sandbox_id);
            atoll_previews_forget(server->previews, id);
            pos = 0;
        }
}

/* Listens again at the addresses of published ports. */
static void publish_again(struct atoll_preview_server *server)
{
    char address[ATOLL_PREVIEW_ADDRESS_MAX];
    struct atoll_preview_view view;
    struct atoll_error error;

    for (size_t pos = 0; atoll_previews_next(server->previews, NULL, &pos, &view);)
        if (*view.address && atoll_published_open(server->published, view.sandbox_id, view.port,
                                                  view.address, address, &error) < 0)
            atoll_log(ATOLL_LOG_ERROR, "a port cannot be published again", "sandbox",
                      view.sandbox_id, "address", view.address, "error", error.text, NULL);
}

int atoll_preview_publish(struct atoll_api *api, const char *sandbox_id, uint16_t port,
                          const char *address, struct atoll_preview_view *ret,
                          struct atoll_error *err)
{
    struct atoll_preview_server *server = api->preview;
    char at[ATOLL_PREVIEW_ADDRESS_MAX];
    int r = atoll_published_open(server->published, sandbox_id, port, address, at, err);

    if (r < 0)
        return r;
    r = atoll_previews_publish(server->previews, sandbox_id, port, at, ret, err);
    if (r < 0)
        atoll_published_close(server->published, sandbox_id, port);
    return r;
}

void atoll_preview_unpublish(struct atoll_api *api, const char *sandbox_id, uint16_t port)
{
    atoll_published_close(api->preview->published, sandbox_id, port);
}

struct atoll_preview_server *atoll_preview_server_new(struct atoll_api *api,
                                                      const struct atoll_api_config *config)
{
    struct atoll_preview_server *server = atoll_api_alloc(sizeof(*server));

    server->api = api;
    server->engine = config->engine;
    server->previews = config->previews;
    server->site = *config->site;
    server->access_log = config->access_log;
    server->ports = atoll_ports_new(config->loop, config->engine, 1);
    server->published = atoll_published_new(config->loop, server->ports);
    forget_orphans(server);
    publish_again(server);
    server->events = atoll_events_subscribe(config->engine, UINT64_MAX, on_event, server);
    return server;
}

struct atoll_preview_server *atoll_preview_server_free(struct atoll_preview_server *server)
{
    if (!server)
        return NULL;
    server->published = atoll_published_free(server->published);
    server->ports = atoll_ports_free(server->ports);
    server->events = atoll_events_unsubscribe(server->events);
    free(server);
    return NULL;
}

size_t atoll_preview_active(const struct atoll_preview_server *server)
{
    return server ? atoll_ports_active(server->ports) : 0;
}

struct atoll_ports *atoll_api_ports(const struct atoll_api *api)
{
    return api->preview ? api->preview->ports : NULL;
}

struct atoll_previews *atoll_api_previews(const struct atoll_api *api)
{
    return api->config.previews;
}

const struct atoll_preview_site *atoll_api_site(const struct atoll_api *api)
{
    return api->config.site;
}

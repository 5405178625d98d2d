/*
 * Requests by Vercel's own host names, for clients that cannot be told another address: DNS leads the names
 * here, or a header has the name (clients/vercel/vercel.mjs).
 */
#include <stdio.h>
#include <string.h>
#include "access/previews.h"
#include "api/api_internal.h"
#include "api/preview.h"
#include "api/preview_rules.h"
#include "api/vercel/session_internal.h"
#include "api/vercel/vercel_internal.h"

#define PORT_DOMAIN "vercel.run"
/* In place of Host, from a client that cannot set that. A browser sends it only where CORS permits. */
#define HOST_HEADER "x-atoll-host"

/* Paths at these hosts, and the paths of this daemon that they stand for. What follows them is the
 * same. */
static const struct {
    const char *host, *path, *ours;
} bases[] = {
    {"vercel.com", "/api/", ATOLL_VERCEL_BASE "/"},
    {"vercel.com", ATOLL_VERCEL_INTERACTIVE "/", ATOLL_VERCEL_INTERACTIVE "/"},
    {"vercel.com", "/health", "/healthz"}, /* `sandbox sh` asks before it connects */
    {"api.vercel.com", ATOLL_VERCEL_INTERACTIVE "/", ATOLL_VERCEL_INTERACTIVE "/"},
    {"api.vercel.com", "/health", "/healthz"},
    {"api.vercel.com", "/", ATOLL_VERCEL_BASE "/"},
};

/* Whether the Host header is this name, with or without a port. */
static bool is_host(const char *host, const char *name)
{
    size_t n = strlen(name);

    return strncmp(host, name, n) == 0 && (host[n] == '\0' || host[n] == ':');
}

static bool serve_api(struct atoll_api *api, struct atoll_http_request *req, const char *host)
{
    const char *path = atoll_http_path(req);
    char *ours;
    size_t n;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bases); i++) {
        n = strlen(bases[i].path);
        if (!is_host(host, bases[i].host) || strncmp(path, bases[i].path, n) != 0)
            continue;
        if (asprintf(&ours, "%s%s", bases[i].ours, path + n) < 0)
            abort();
        atoll_api_call_start_at(api, req, ours);
        free(ours);
        return true;
    }
    return false;
}

/* Ports are public there, as the previews that are made for them. */
static bool serve_port(struct atoll_api *api, struct atoll_http_request *req, const char *host)
{
    struct atoll_preview_name name;
    struct atoll_preview_view view;
    const char *authority, *target;
    size_t n;

    target = atoll_target_path(atoll_http_target(req), &authority, &n);
    if (!api->preview || authority || !atoll_preview_in_domain(host, PORT_DOMAIN))
        return false;
    if (atoll_preview_parse_host(host, PORT_DOMAIN, &name) &&
        atoll_previews_find(atoll_api_previews(api), name.sandbox_id, name.port, &view) &&
        view.is_public)
        atoll_preview_pass(api, req, name.sandbox_id, name.port, target);
    else
        atoll_preview_refuse(req);
    return true;
}

bool atoll_vercel_serve(void *state, struct atoll_http_request *req)
{
    const char *host = atoll_http_header(req, "host");
    const char *shown = atoll_http_header(req, HOST_HEADER);
    struct atoll_api *api = ((const struct atoll_vercel *)state)->api;

    return host && (serve_api(api, req, host) || serve_port(api, req, shown ? shown : host));
}

/*
 * Requests to servers inside a sandbox. They are forwarded like previews, but without preview
 * tokens: access was checked before.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "api/e2b/plane.h"
#include "api/preview_rules.h"
#include "base/log.h"

/* One request in progress. */
struct passage {
    char id[ATOLL_ID_LEN + 1];
    uint16_t port;
    bool by_header; /* Host is that of the daemon */
};

static bool request_header(void *arg, const char *name, const char **value)
{
    static const char *const ours[] = {"e2b-sandbox-id", "e2b-sandbox-port",
                                       "e2b-traffic-access-token", "x-access-token",
                                       ATOLL_PREVIEW_DAYTONA_HEADER};

    (void)arg;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(ours); i++)
        if (strcasecmp(name, ours[i]) == 0)
            return false;
    if (strcasecmp(name, "authorization") == 0 || strcasecmp(name, "x-api-key") == 0)
        return !atoll_preview_holds_key(*value);
    return true;
}

static bool response_header(void *arg, const char *name, const char **value ATOLL_UNUSED)
{
    const struct passage *p = arg;

    return atoll_preview_may_answer(name, p->by_header ? ATOLL_PREVIEW_API_ORIGIN
                                                       : ATOLL_PREVIEW_OWN_HOST);
}

static int failed(void *arg, struct atoll_http_request *req, const struct atoll_error *error)
{
    const struct passage *p = arg;

    switch (error->kind) {
    case ATOLL_ERR_UNAVAILABLE:
        atoll_plane_no_port(req, p->id, p->port);
        return 502;
    case ATOLL_ERR_NOT_FOUND:
    case ATOLL_ERR_FAILED_PRECONDITION:
        atoll_plane_no_sandbox(req, p->id);
        return 502;
    case ATOLL_ERR_DEADLINE_EXCEEDED:
        atoll_plane_refuse(req, 504, "The server in the sandbox did not answer in time\n");
        return 504;
    case ATOLL_ERR_RESOURCE_EXHAUSTED:
        atoll_plane_refuse(req, 429, "Too many requests to this sandbox are in progress\n");
        return 429;
    case ATOLL_ERR_INVALID_ARGUMENT:
        atoll_plane_refuse(req, 431, "The headers of the request are too large\n");
        return 431;
    case ATOLL_ERR_DATA_LOSS:
        atoll_plane_refuse(req, 502, "The server in the sandbox gave no valid HTTP answer\n");
        return 502;
    default:
        atoll_log(ATOLL_LOG_ERROR, "request to a port failed", "sandbox", p->id, "error",
                  error->text, NULL);
        atoll_plane_refuse(req, 502, "The request could not be passed on\n");
        return 502;
    }
}

static void done(void *arg, const struct atoll_proxy_outcome *outcome)
{
    atoll_ports_measure(outcome);
    free(arg);
}

static const struct atoll_proxy_hooks hooks = {
    .request_header = request_header,
    .response_header = response_header,
    .failed = failed,
    .done = done,
};

/* Replaces ${PORT} in the mask by the port. */
static void mask(char *out, size_t cap, const char *text, uint16_t port)
{
    const char *at = strstr(text, "${PORT}");

    if (at)
        (void)snprintf(out, cap, "%.*s%u%s", (int)(at - text), text, port, at + 7);
    else
        (void)snprintf(out, cap, "%s", text);
}

void atoll_plane_forward(struct atoll_e2b_plane *plane, struct atoll_http_request *req,
                         const char *id, uint16_t port, const char *mask_host, bool by_header)
{
    const char *given = atoll_http_header(req, "host"), *authority;
    struct passage *p = atoll_api_alloc(sizeof(*p));
    char host[280];
    size_t n;
    const struct atoll_port_request request = {
        .sandbox_id = id,
        .port = port,
        .target = atoll_target_path(atoll_http_target(req), &authority, &n),
        .host = host,
        .extra = "",
        .hooks = &hooks,
        .arg = p,
    };

    (void)snprintf(p->id, sizeof(p->id), "%s", id);
    p->port = port;
    p->by_header = by_header;
    if (*mask_host)
        mask(host, sizeof(host), mask_host, port);
    else if (by_header || !given)
        (void)snprintf(host, sizeof(host), "localhost:%u", port);
    else
        (void)snprintf(host, sizeof(host), "%s", given);
    atoll_ports_forward(plane->ports, req, &request);
}

/*
 * Requests to servers inside a sandbox. They are forwarded like previews, but without preview
 * tokens: access was checked before.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "api/e2b/plane.h"
#include "api/metrics.h"
#include "api/preview_rules.h"
#include "base/log.h"

/* A server that was just started may not listen yet. */
#define TRIES 5
#define RETRY_MS 60

/* A connection attempt with retries. */
struct dialing {
    struct atoll_list node; /* in plane->dialings */
    struct atoll_e2b_plane *plane;
    struct atoll_timer again;
    bool asking; /* a callback of the engine is pending */
    int tries;
    char id[ATOLL_ID_LEN + 1];
    uint16_t port;
    atoll_proxy_dialed_fn *done; /* NULL: canceled */
    void *ctx;
};

static void dial_once(void *arg);

static void dialing_free(struct dialing *d)
{
    atoll_list_remove(&d->node);
    atoll_timer_cancel(&d->again);
    free(d);
}

static void dialed(void *arg, int fd, const struct atoll_error *error)
{
    struct dialing *d = arg;

    d->asking = false;
    if (!d->done) {
        if (!error)
            (void)close(fd); /* the daemon is shutting down */
        free(d);
        return;
    }
    if (error && error->kind == ATOLL_ERR_UNAVAILABLE && ++d->tries < TRIES) {
        atoll_timer_set(&d->again, d->plane->api->config.loop, (int64_t)RETRY_MS * d->tries,
                        dial_once, d);
        return;
    }
    d->done(d->ctx, fd, error);
    dialing_free(d);
}

static void dial_once(void *arg)
{
    struct dialing *d = arg;

    d->asking = true;
    atoll_engine_connect(d->plane->api->config.engine, d->id, d->port, dialed, d);
}

/* key: "<port>-<id>". */
static void dial(void *arg, const char *key, atoll_proxy_dialed_fn *done, void *ctx)
{
    struct dialing *d = atoll_api_alloc(sizeof(*d));

    d->plane = arg;
    d->port = (uint16_t)strtoul(key, NULL, 10);
    (void)snprintf(d->id, sizeof(d->id), "%s", strchr(key, '-') + 1);
    d->done = done;
    d->ctx = ctx;
    atoll_list_push_back(&d->plane->dialings, &d->node);
    dial_once(d);
}

static void discard(void *arg, const char *key, int fd)
{
    struct atoll_e2b_plane *plane = arg;

    atoll_engine_discard(plane->api->config.engine, strchr(key, '-') + 1, fd);
}

void atoll_plane_ports_open(struct atoll_e2b_plane *plane)
{
    const struct atoll_proxy_config config = {
        .loop = plane->api->config.loop, .dial = dial, .discard = discard, .arg = plane};

    atoll_list_init(&plane->dialings);
    plane->proxy = atoll_proxy_new(&config);
}

void atoll_plane_ports_close(struct atoll_e2b_plane *plane)
{
    struct atoll_error error;

    (void)atoll_fail(&error, ATOLL_ERR_UNAVAILABLE, ESHUTDOWN, "the daemon is shutting down");
    ATOLL_LIST_FOREACH (&plane->dialings, node) {
        struct dialing *d = ATOLL_CONTAINER_OF(node, struct dialing, node);
        atoll_proxy_dialed_fn *done = ATOLL_TAKE_PTR(d->done);
        atoll_list_remove(&d->node);
        atoll_timer_cancel(&d->again);
        done(d->ctx, ATOLL_NO_FD, &error);
        if (!d->asking)
            free(d); /* else dialed() frees it */
    }
    plane->proxy = atoll_proxy_free(plane->proxy);
}

/* One request in progress. */
struct passage {
    char id[ATOLL_ID_LEN + 1];
    uint16_t port;
    bool by_header; /* Host is that of the daemon */
};

static bool request_header(void *arg, const char *name, const char **value)
{
    static const char *const ours[] = {"e2b-sandbox-id", "e2b-sandbox-port",
                                       "e2b-traffic-access-token", "x-access-token"};

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
    atoll_metric_add(ATOLL_METRIC_PREVIEW_REQUESTS,
                     ATOLL_LABELS(atoll_api_status_text(outcome->status)), 1);
    atoll_metric_add(ATOLL_METRIC_BYTES, ATOLL_LABELS("preview", "in"), (double)outcome->in_bytes);
    atoll_metric_add(ATOLL_METRIC_BYTES, ATOLL_LABELS("preview", "out"),
                     (double)outcome->out_bytes);
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
    char key[ATOLL_PROXY_KEY_MAX], host[280];
    size_t n;
    struct atoll_proxy_request request = {
        .key = key,
        .owner = atoll_api_owner_of(plane->api->config.engine, id),
        .target = atoll_target_path(atoll_http_target(req), &authority, &n),
        .host = host,
        .scheme = atoll_http_peer(req)->is_tls ? "https" : "http",
        .extra = "",
        .hooks = &hooks,
        .arg = p,
    };

    (void)snprintf(p->id, sizeof(p->id), "%s", id);
    p->port = port;
    p->by_header = by_header;
    (void)snprintf(key, sizeof(key), "%u-%s", port, id);
    if (*mask_host)
        mask(host, sizeof(host), mask_host, port);
    else if (by_header || !given)
        (void)snprintf(host, sizeof(host), "localhost:%u", port);
    else
        (void)snprintf(host, sizeof(host), "%s", given);
    atoll_engine_touch(plane->api->config.engine, id); /* a reused connection is activity, too */
    atoll_proxy_forward(plane->proxy, req, &request);
}

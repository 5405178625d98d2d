/*
 * /healthz: the daemon answers. /readyz: it can create sandboxes: the store accepts writes, there
 * is room for another sandbox, and at least one provider can create it. Both are for monitors,
 * which need no key on this host.
 */
#include <errno.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/metrics.h"
#include "api/rest/rest_internal.h"
#include "engine/provider/providers.h"

#define ANSWER_MS 2000

/* Behind a reverse proxy on this host every client has a local address; a proxy adds these
 * headers. */
static bool is_near(const struct atoll_http_request *req)
{
    const struct atoll_http_peer *peer = atoll_http_peer(req);

    if (atoll_http_header(req, "x-forwarded-for") || atoll_http_header(req, "forwarded"))
        return false;
    return peer->is_unix || strncmp(peer->address, "127.", 4) == 0 ||
           strncmp(peer->address, "[::1]:", 6) == 0;
}

bool atoll_api_allow_near(struct atoll_api_call *call)
{
    struct atoll_error error;

    if (is_near(call->req) || atoll_api_authorize(call, ATOLL_SCOPE_READ, &error) == 0)
        return true;
    atoll_api_fail(call, &error);
    return false;
}

void atoll_rest_health(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                       size_t n ATOLL_UNUSED)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (!atoll_api_allow_near(call))
        return;
    atoll_api_reply_init(&buf, &out);
    atoll_json_raw(&out, NULL, "{\"status\":\"ok\",\"version\":\"" ATOLL_VERSION "\"}");
    atoll_api_reply(call, 200, &out);
}

/* A check that exceeds the timeout is answered first, and freed when it ends. */
struct check {
    struct atoll_api_call *call; /* NULL after the call was answered */
    struct atoll_timer timer;
};

/* Why the provider cannot create a sandbox now; NULL if it can. builder_error: the error of the
 * check of the builder, or NULL. */
static const char *why_not(const struct atoll_provider_view *v, const char *builder_error)
{
    if (v->is_builder && builder_error)
        return builder_error;
    if (v->can_create)
        return !v->is_builder && *v->full ? v->full : NULL;
    return v->health == ATOLL_HEALTH_DOWN ? v->reason
                                          : "its maximum number of sandboxes is reached";
}

static bool can_any(struct atoll_engine *engine, const char *builder_error)
{
    struct atoll_provider_view view;

    for (size_t pos = 0; atoll_providers_next(engine, &pos, &view);)
        if (!view.removed && !why_not(&view, builder_error))
            return true;
    return false;
}

static void write_providers(struct atoll_json_out *out, struct atoll_engine *engine,
                            const char *builder_error)
{
    struct atoll_provider_view view;

    atoll_json_open(out, "providers", '[');
    for (size_t pos = 0; atoll_providers_next(engine, &pos, &view);) {
        const char *reason = why_not(&view, builder_error);

        if (view.removed)
            continue;
        atoll_json_open(out, NULL, '{');
        atoll_json_text(out, "name", view.name);
        atoll_json_bool(out, "ready", !reason);
        if (reason)
            atoll_json_text(out, "reason", reason);
        atoll_json_close(out, '}');
    }
    atoll_json_close(out, ']');
}

static void write_store(struct atoll_json_out *out, const struct atoll_engine *engine)
{
    struct atoll_disk_view disk;

    atoll_engine_disk(engine, &disk);
    atoll_json_open(out, "store", '{');
    atoll_json_u64(out, "database_bytes", disk.store_bytes);
    atoll_json_u64(out, "log_bytes", disk.log_bytes);
    if (disk.free_bytes != UINT64_MAX)
        atoll_json_u64(out, "disk_free_bytes", disk.free_bytes);
    atoll_json_close(out, '}');
}

/* reason: a failure of the daemon itself, or NULL. */
static void answer(struct check *check, const char *reason, const char *builder_error)
{
    struct atoll_api_call *call = ATOLL_TAKE_PTR(check->call);
    struct atoll_provider_view view;
    struct atoll_buf buf;
    struct atoll_json_out out;
    bool any = can_any(call->engine, builder_error), ready = any && !reason;

    atoll_timer_cancel(&check->timer);
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_text(&out, "status", ready ? "ready" : "unavailable");
    atoll_json_open(&out, "reasons", '[');
    if (reason)
        atoll_json_text(&out, NULL, reason);
    for (size_t pos = 0; !any && atoll_providers_next(call->engine, &pos, &view);)
        if (!view.removed)
            atoll_json_text(&out, NULL, why_not(&view, builder_error));
    atoll_json_close(&out, ']');
    write_providers(&out, call->engine, builder_error);
    write_store(&out, call->engine);
    atoll_json_close(&out, '}');
    atoll_api_reply(call, ready ? 200 : 503, &out);
}

static void checked(void *arg, const struct atoll_error *error)
{
    struct check *check = arg;

    if (check->call)
        answer(check, NULL, error ? error->text : NULL);
    free(check);
}

static void too_late(void *arg)
{
    answer(arg, NULL, "the builder of sandboxes does not answer");
}

void atoll_rest_ready(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                      size_t n ATOLL_UNUSED)
{
    struct atoll_error error;
    struct check *check;

    if (!atoll_api_allow_near(call))
        return;
    check = atoll_api_alloc(sizeof(*check));
    check->call = call;
    if (call->api->draining || atoll_engine_check_store(call->engine, &error) < 0 ||
        atoll_engine_check_room(call->engine, &error) < 0) {
        answer(check, call->api->draining ? "the daemon is shutting down" : error.text, NULL);
        free(check);
        return;
    }
    atoll_timer_set(&check->timer, call->api->config.loop, ANSWER_MS, too_late, check);
    atoll_engine_check(call->engine, checked, check);
}

/*
 * Sandboxes in the format of E2B, and helpers shared by all requests.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/e2b/e2b_internal.h"
#include "api/e2b/plane.h"
#include "api/kit/json_value.h"
#include "api/preview.h"
#include "engine/json_memory.h"

#define MIB UINT64_C(1048576)
/* Clients require an end date: 2999-12-31T23:59:59Z stands for "no deadline". */
#define FAR_UNIX_MS INT64_C(32503679999000)
#define HOUR_S 3600u

bool atoll_e2b_is_paused(const struct atoll_sandbox_view *view)
{
    return view->state == ATOLL_SANDBOX_PAUSED || view->state == ATOLL_SANDBOX_STOPPED;
}

bool atoll_e2b_is_known(const struct atoll_sandbox_view *view)
{
    return view->state == ATOLL_SANDBOX_RUNNING || atoll_e2b_is_paused(view);
}

struct atoll_sandbox *atoll_e2b_find(const struct atoll_api_call *call, struct atoll_error *err)
{
    struct atoll_sandbox *sandbox = atoll_engine_find(call->engine, call->params.id);
    struct atoll_sandbox_view view;

    if (sandbox) {
        atoll_sandbox_get(sandbox, &view);
        if (atoll_e2b_is_known(&view))
            return sandbox;
    }
    (void)atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no sandbox %s", call->params.id);
    return NULL;
}

/* The domain of <port>-<id>.<domain>. Clients expect TLS there; without a TLS listener this is
 * the plain one. It is null only without any listener: for null, clients use E2B's own domain, show
 * URLs of E2B to their users and send our tokens there. */
static void view_domain(struct atoll_json_out *out, const struct atoll_api *api)
{
    const struct atoll_preview_site *site = atoll_api_site(api);
    uint16_t port = !site ? 0 : site->tls_port ? site->tls_port : site->port;
    bool usual = site && port == (site->tls_port ? 443 : 80);
    char text[300];

    if (port == 0) {
        atoll_json_null(out, "domain");
        return;
    }
    (void)snprintf(text, sizeof(text), usual ? "%s" : "%s:%u", site->domain, port);
    atoll_json_text(out, "domain", text);
}

static void view_names(struct atoll_json_out *out, const struct atoll_sandbox_view *v,
                       const struct atoll_e2b_facts *facts)
{
    atoll_json_text(out, "templateID", facts->template_id);
    if (facts->alias[0])
        atoll_json_text(out, "alias", facts->alias);
    atoll_json_text(out, "sandboxID", v->id);
    atoll_json_text(out, "clientID", ATOLL_E2B_CLIENT_ID);
    atoll_json_text(out, "envdVersion", ATOLL_E2B_ENVD_VERSION);
}

static void view_envd_token(struct atoll_json_out *out, const struct atoll_api *api, const char *id,
                            const struct atoll_e2b_facts *facts)
{
    char token[ATOLL_TOKEN_LEN + 1];

    if (!facts->secure)
        return;
    atoll_e2b_envd_token(api, id, token);
    atoll_json_text(out, "envdAccessToken", token);
}

void atoll_e2b_view_made(struct atoll_json_out *out, const struct atoll_api *api,
                         const struct atoll_sandbox *sandbox)
{
    atoll_e2b_view_made_as(out, NULL, api, sandbox);
}

void atoll_e2b_view_made_as(struct atoll_json_out *out, const char *key,
                            const struct atoll_api *api, const struct atoll_sandbox *sandbox)
{
    struct atoll_sandbox_view v;
    struct atoll_e2b_facts facts;
    char token[ATOLL_TOKEN_LEN + 1];

    atoll_sandbox_get(sandbox, &v);
    atoll_e2b_facts_get(sandbox, &facts);
    atoll_json_open(out, key, '{');
    view_names(out, &v, &facts);
    view_envd_token(out, api, v.id, &facts);
    if (facts.public_traffic) {
        atoll_json_null(out, "trafficAccessToken");
    } else {
        atoll_e2b_traffic_token(api, v.id, token);
        atoll_json_text(out, "trafficAccessToken", token);
    }
    view_domain(out, api);
    atoll_json_close(out, '}');
    atoll_e2b_facts_done(&facts);
}

void atoll_e2b_reply_made(struct atoll_api_call *call, int status,
                          const struct atoll_sandbox *sandbox)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_plane_remember(atoll_e2b_plane_of(call->api), sandbox);
    atoll_api_reply_init(&buf, &out);
    atoll_e2b_view_made(&out, call->api, sandbox);
    atoll_api_reply(call, status, &out);
}

static void view_lifecycle(struct atoll_json_out *out, const struct atoll_sandbox_view *v,
                           const struct atoll_e2b_facts *facts)
{
    bool pauses =
        v->options.lifetime.at_deadline != ATOLL_DEADLINE_DESTROY || v->options.lifetime.persistent;

    atoll_json_open(out, "lifecycle", '{');
    atoll_json_text(out, "onTimeout", pauses ? "pause" : "kill");
    atoll_json_bool(out, "autoResume", facts->auto_resume);
    atoll_json_close(out, '}');
}

/* Fields that only a request for one sandbox returns. */
static void view_detail(struct atoll_json_out *out, const struct atoll_api *api,
                        const struct atoll_sandbox_view *v, const struct atoll_e2b_facts *facts)
{
    view_envd_token(out, api, v->id, facts);
    view_domain(out, api);
    /* What is so, not what was asked for. */
    atoll_json_bool(out, "allowInternetAccess",
                    v->options.network == ATOLL_NETWORK_BRIDGE && facts->allow_internet != 0);
    if (facts->network)
        atoll_json_value(out, "network", facts->network);
    view_lifecycle(out, v, facts);
}

static int64_t end_of(const struct atoll_sandbox_view *v)
{
    if (atoll_e2b_is_paused(v))
        return v->paused_unix_ms;
    return v->expires_unix_ms ? v->expires_unix_ms : FAR_UNIX_MS;
}

static void view_mounts(struct atoll_json_out *out, const struct atoll_sandbox_view *v)
{
    atoll_json_open(out, "volumeMounts", '[');
    for (size_t i = 0; i < v->options.mount_count; i++) {
        const struct atoll_mount *m = &v->options.mounts[i];

        if (!*m->volume)
            continue;
        atoll_json_open(out, NULL, '{');
        atoll_json_text(out, "name", m->volume);
        atoll_json_text(out, "path", m->path);
        atoll_json_close(out, '}');
    }
    atoll_json_close(out, ']');
}

void atoll_e2b_view_sandbox(struct atoll_json_out *out, const struct atoll_api *api,
                            const struct atoll_sandbox *sandbox, bool full)
{
    struct atoll_sandbox_view v;
    struct atoll_e2b_facts facts;

    atoll_sandbox_get(sandbox, &v);
    atoll_e2b_facts_get(sandbox, &facts);
    atoll_json_open(out, NULL, '{');
    view_names(out, &v, &facts);
    atoll_json_time(out, "startedAt", v.created_unix_ms);
    atoll_json_time(out, "endAt", end_of(&v));
    atoll_json_text(out, "state", atoll_e2b_is_paused(&v) ? "paused" : "running");
    atoll_json_u64(out, "cpuCount", (v.options.limits.cpu_millis + 999) / 1000);
    atoll_json_u64(out, "memoryMB", v.options.limits.memory_bytes / MIB);
    atoll_json_u64(out, "diskSizeMB", v.options.limits.disk_bytes / MIB);
    atoll_json_raw(out, "metadata",
                   v.options.metadata_json && *v.options.metadata_json ? v.options.metadata_json
                                                                       : "{}");
    view_mounts(out, &v);
    if (full)
        view_detail(out, api, &v, &facts);
    atoll_json_close(out, '}');
    atoll_e2b_facts_done(&facts);
}

void atoll_e2b_done(void *arg, const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;

    if (error)
        atoll_api_fail(call, error);
    else
        atoll_api_reply_empty(call, 204);
}

/* Requests. */

int atoll_e2b_decode(struct atoll_body *body, const uint8_t *bytes, size_t n,
                     const struct atoll_field *table, void *into, struct atoll_error *err)
{
    int r = atoll_body_decode(body, bytes, n, table, into, err);

    if (r < 0)
        atoll_body_done(body);
    return r;
}

int atoll_e2b_check_timeout(const struct atoll_api_call *call, uint64_t seconds,
                            struct atoll_error *err)
{
    uint32_t hours = atoll_e2b_plane_of(call->api)->max_hours;

    if (hours == 0 || seconds <= (uint64_t)hours * HOUR_S)
        return 0;
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ERANGE,
                      "Timeout cannot be greater than %u hours", hours);
}

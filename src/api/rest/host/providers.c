/*
 * GET /api/providers: the providers, their capabilities and their health.
 */
#include "engine/provider/providers.h"
#include <string.h>
#include "api/rest/rest_internal.h"
#include "api/rest/views.h"

/* Commands and files use Atoll's agent, which is the same for every provider that runs it. */
static const char *const everywhere[] = {"exec",  "pty",   "files",  "archive",
                                         "watch", "ports", "timeout"};

static void write_capabilities(struct atoll_json_out *out, const struct atoll_provider_view *v)
{
    const struct {
        const char *name;
        bool there;
    } some[] = {{"stats", v->stats},           {"templates", v->templates},
                {"images", v->images},         {"pause", v->pause},
                {"persistent", v->persistent}, {"set_limits", v->set_limits},
                {"builds", v->builds},         {"snapshots", v->snapshots},
                {"volumes", v->volumes},       {"network_policy", v->policies}};

    atoll_json_open(out, "capabilities", '[');
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(everywhere); i++)
        atoll_json_text(out, NULL, everywhere[i]);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(some); i++)
        if (some[i].there)
            atoll_json_text(out, NULL, some[i].name);
    atoll_json_close(out, ']');
    atoll_json_open(out, "networks", '[');
    for (uint32_t n = ATOLL_NETWORK_NONE; n <= ATOLL_NETWORK_BRIDGE; n++)
        if (v->networks & 1u << n)
            atoll_json_text(out, NULL, atoll_network_name((enum atoll_network)n));
    atoll_json_close(out, ']');
}

/* Values that routing uses besides capabilities. */
static void write_bounds(struct atoll_json_out *out, const struct atoll_provider_view *v)
{
    static const struct atoll_limits none;

    if (v->languages) {
        atoll_json_open(out, "languages", '[');
        for (const char *const *p = v->languages; *p; p++)
            atoll_json_text(out, NULL, *p);
        atoll_json_close(out, ']');
    }
    if (memcmp(&v->most, &none, sizeof(none)) != 0)
        atoll_view_limits(out, "most", &v->most, false);
}

/* Counts the sandboxes that the caller may see. */
static size_t count_sandboxes(const struct atoll_api_call *call, const char *provider)
{
    size_t states[ATOLL_SANDBOX_STATES];

    return atoll_engine_count(call->engine, atoll_api_list_tenant(call), provider, states, NULL);
}

static void write_provider(struct atoll_json_out *out, struct atoll_api_call *call,
                           const struct atoll_provider_view *v)
{
    atoll_json_open(out, NULL, '{');
    atoll_json_text(out, "name", v->name);
    if (*v->kind)
        atoll_json_text(out, "kind", v->kind);
    if (v->removed)
        atoll_json_bool(out, "removed", true);
    atoll_json_bool(out, "default", v->is_default);
    atoll_json_u64(out, "order", v->order);
    atoll_json_bool(out, "named_only", v->named_only);
    if (*v->source)
        atoll_json_text(out, "source", v->source);
    atoll_json_text(out, "isolation", v->isolation);
    atoll_json_bool(out, "remote", v->remote);
    atoll_json_text(out, "state", atoll_health_name(v->health));
    atoll_json_time(out, "since", v->since_unix_ms);
    if (*v->reason)
        atoll_json_text(out, "reason", v->reason);
    if (*v->detail)
        atoll_json_text(out, "detail", v->detail);
    atoll_json_double(out, "latency_ms", v->latency_ms, 6);
    atoll_json_u64(out, "sandboxes", count_sandboxes(call, v->name));
    atoll_json_u64(out, "max_sandboxes", v->max_sandboxes);
    write_capabilities(out, v);
    write_bounds(out, v);
    atoll_json_close(out, '}');
}

/* Whether the providers file is loaded, and the error of its last reload. */
static void write_loaded(struct atoll_json_out *out, const struct atoll_engine *engine)
{
    const char *error;
    int64_t when = atoll_providers_loaded(engine, &error);

    if (when == 0)
        return;
    atoll_json_open(out, "reload", '{');
    atoll_json_time(out, "at", when);
    atoll_json_bool(out, "in_force", !*error);
    if (*error)
        atoll_json_text(out, "error", error);
    atoll_json_close(out, '}');
}

void atoll_rest_providers(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                          size_t n ATOLL_UNUSED)
{
    const char *file = atoll_api_operators_file(call);
    struct atoll_provider_view view;
    struct atoll_buf buf;
    struct atoll_json_out out;
    size_t pos = 0;

    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_open(&out, "providers", '[');
    while (atoll_providers_next(call->engine, &pos, &view))
        write_provider(&out, call, &view);
    atoll_json_close(&out, ']');
    if (file && *file)
        atoll_json_text(&out, "file", file);
    write_loaded(&out, call->engine);
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

/*
 * Sandboxes in the format of Daytona.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "api/daytona/daytona_internal.h"
#include "api/daytona/socketio.h"
#include "api/kit/json_value.h"
#include "api/kit/metadata.h"
#include "api/preview.h"
#include "engine/json_memory.h"

#define GIB 1073741824.0

/* States. */

static const char *state_of_kept(const struct atoll_sandbox_view *v, const json_t *facts)
{
    if (atoll_fact_flag(facts, "archived"))
        return "archived";
    if (v->state == ATOLL_SANDBOX_PAUSED && !atoll_fact_flag(facts, "halted"))
        return "paused";
    return "stopped";
}

const char *atoll_daytona_state(const struct atoll_sandbox_view *v, const json_t *facts)
{
    if (*atoll_fact_text(facts, "state"))
        return atoll_fact_text(facts, "state");
    if (atoll_fact_flag(facts, "destroyed"))
        return "destroyed";
    switch (v->state) {
    case ATOLL_SANDBOX_RUNNING:
        return "started";
    case ATOLL_SANDBOX_CREATING:
        return v->paused_unix_ms ? "starting" : "creating";
    case ATOLL_SANDBOX_STOPPING:
        return "stopping";
    case ATOLL_SANDBOX_FAILED:
        return "error";
    case ATOLL_SANDBOX_PAUSED:
    case ATOLL_SANDBOX_STOPPED:
        return state_of_kept(v, facts);
    case ATOLL_SANDBOX_UNREACHABLE:
        break;
    }
    return "unknown";
}

bool atoll_daytona_is_recoverable(const struct atoll_sandbox_view *v)
{
    bool died = v->state == ATOLL_SANDBOX_STOPPED && v->cause && *v->cause;

    return v->options.lifetime.persistent && (died || v->state == ATOLL_SANDBOX_FAILED);
}

static const char *desired_of(const char *state)
{
    static const struct {
        const char *state, *desired;
    } rows[] = {{"stopped", "stopped"},   {"archived", "archived"},    {"paused", "paused"},
                {"stopping", "stopped"},  {"destroying", "destroyed"}, {"destroyed", "destroyed"},
                {"archiving", "archived"}};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++)
        if (strcmp(rows[i].state, state) == 0)
            return rows[i].desired;
    return "started";
}

/* Members. */

/* Clients expect whole numbers. */
static void view_size(struct atoll_json_out *out, const char *key, double value)
{
    atoll_json_i64(out, key, (int64_t)ceil(value));
}

static void view_env(struct atoll_json_out *out, const char *const *env)
{
    char name[256];

    atoll_json_open(out, "env", '{');
    for (; env && *env; env++) {
        const char *equals = strchr(*env, '=');
        if (!equals || (size_t)(equals - *env) >= sizeof(name))
            continue;
        (void)snprintf(name, sizeof(name), "%.*s", (int)(equals - *env), *env);
        atoll_json_text(out, name, equals + 1);
    }
    atoll_json_close(out, '}');
}

static void view_resources(struct atoll_json_out *out, const struct atoll_sandbox_view *v)
{
    const struct atoll_limits *l = &v->options.limits;

    view_size(out, "cpu", l->cpu_millis / 1000.0);
    atoll_json_u64(out, "gpu", v->options.gpus);
    view_size(out, "memory", (double)l->memory_bytes / GIB);
    view_size(out, "disk", (double)l->disk_bytes / GIB);
}

static void view_network(struct atoll_json_out *out, const struct atoll_sandbox_view *v,
                         const json_t *facts)
{
    static const char *const lists[] = {"networkAllowList", "domainAllowList"};

    atoll_json_bool(out, "networkBlockAll",
                    v->options.network == ATOLL_NETWORK_NONE ||
                        atoll_fact_flag(facts, "networkBlockAll"));
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(lists); i++)
        if (*atoll_fact_text(facts, lists[i]))
            atoll_json_text(out, lists[i], atoll_fact_text(facts, lists[i]));
}

static void view_life(struct atoll_json_out *out, const struct atoll_sandbox_view *v,
                      const json_t *facts)
{
    static const char *const names[] = {ATOLL_DAYTONA_AUTO_STOP, ATOLL_DAYTONA_AUTO_PAUSE,
                                        ATOLL_DAYTONA_AUTO_ARCHIVE, ATOLL_DAYTONA_AUTO_DELETE};
    const char *state = atoll_daytona_state(v, facts);
    int64_t destroy_at = atoll_fact_number(facts, "destroyAt", 0);

    atoll_json_text(out, "state", state);
    atoll_json_text(out, "desiredState", desired_of(state));
    if (v->cause && *v->cause &&
        (v->state == ATOLL_SANDBOX_FAILED || v->state == ATOLL_SANDBOX_STOPPED ||
         v->state == ATOLL_SANDBOX_CREATING))
        atoll_json_text(out, "errorReason", v->cause);
    atoll_json_bool(out, "recoverable", atoll_daytona_is_recoverable(v));
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(names); i++)
        atoll_json_i64(out, names[i], atoll_fact_number(facts, names[i], 0));
    if (destroy_at)
        atoll_json_time(out, "autoDestroyAt", destroy_at);
}

static void view_times(struct atoll_json_out *out, const struct atoll_api *api,
                       const struct atoll_sandbox_view *v, const json_t *facts)
{
    atoll_json_time(out, "createdAt", v->created_unix_ms);
    atoll_json_time(out, "updatedAt", atoll_fact_number(facts, "updated", v->created_unix_ms));
    atoll_json_time(out, "lastActivityAt", atoll_daytona_last_activity(api, v, facts));
}

static void view_full(struct atoll_json_out *out, const struct atoll_sandbox_view *v,
                      const json_t *facts, bool with_env)
{
    const json_t *volumes = json_object_get(facts, "volumes");
    const json_t *build = json_object_get(facts, "buildInfo");
    const char *proxy = atoll_fact_text(facts, "outboundProxyUrl");
    int64_t backup = atoll_fact_number(facts, "backupAt", 0);

    if (*proxy)
        atoll_json_text(out, "outboundProxyUrl", proxy);
    view_env(out, with_env ? v->options.env : NULL); /* clients require the member */
    if (json_is_array(volumes)) {
        atoll_json_value(out, "volumes", volumes);
    } else {
        atoll_json_open(out, "volumes", '[');
        atoll_json_close(out, ']');
    }
    if (build)
        atoll_json_value(out, "buildInfo", build);
    if (backup)
        atoll_json_time(out, "backupCreatedAt", backup);
}

static void view_names(struct atoll_json_out *out, const struct atoll_sandbox_view *v,
                       const json_t *facts)
{
    const char *snapshot = atoll_fact_text(facts, "snapshot");
    const char *target = atoll_fact_text(facts, "target");

    atoll_json_text(out, "id", v->id);
    atoll_json_text(out, "organizationId", v->owner && *v->owner ? v->owner : "default");
    atoll_json_text(out, "name", atoll_name_or_id(v));
    if (!json_object_get(facts, "buildInfo"))
        atoll_json_text(out, "snapshot", *snapshot ? snapshot : v->template_name);
    atoll_json_text(out, "user",
                    v->options.user && *v->options.user ? v->options.user
                                                        : ATOLL_DAYTONA_OTHER_USER);
    atoll_json_text(out, "target", *target ? target : ATOLL_DAYTONA_REGION);
}

enum atoll_daytona_detail atoll_daytona_detail_for(const struct atoll_api_call *call)
{
    return call->caller.scope >= ATOLL_SCOPE_WRITE && !call->idempotency ? ATOLL_DAYTONA_WITH_ENV
                                                                         : ATOLL_DAYTONA_FULL;
}

static const char *backup_state(const struct atoll_api *api, const struct atoll_sandbox_view *v,
                                const json_t *facts)
{
    if (atoll_daytona_is_backing_up(api, v->id))
        return "InProgress";
    if (*atoll_fact_text(facts, "backupError"))
        return "Error";
    return atoll_fact_number(facts, "backupAt", 0) ? "Completed" : "None";
}

void atoll_daytona_view_of(struct atoll_json_out *out, const char *key, const struct atoll_api *api,
                           const char *origin, const struct atoll_sandbox_view *v,
                           const json_t *facts, enum atoll_daytona_detail detail)
{
    char url[ATOLL_ORIGIN_MAX + 32];

    (void)snprintf(url, sizeof(url), "%s" ATOLL_DAYTONA_BASE "/toolbox", origin);
    atoll_json_open(out, key, '{');
    view_names(out, v, facts);
    atoll_json_raw(out, "labels",
                   v->options.metadata_json && *v->options.metadata_json ? v->options.metadata_json
                                                                         : "{}");
    atoll_json_bool(out, "public", atoll_fact_flag(facts, "public"));
    view_network(out, v, facts);
    view_resources(out, v);
    view_life(out, v, facts);
    atoll_json_text(out, "backupState", backup_state(api, v, facts));
    view_times(out, api, v, facts);
    atoll_json_text(out, "sandboxClass", "container");
    atoll_json_bool(out, "kvm", false);
    atoll_json_bool(out, "spot", false);
    atoll_json_text(out, "daemonVersion", ATOLL_DAYTONA_VERSION);
    atoll_json_text(out, "runnerId", v->provider);
    atoll_json_text(out, "toolboxProxyUrl", url);
    if (detail != ATOLL_DAYTONA_ITEM)
        view_full(out, v, facts, detail == ATOLL_DAYTONA_WITH_ENV);
    atoll_json_close(out, '}');
}

void atoll_daytona_view_sandbox(struct atoll_json_out *out, const char *key,
                                const struct atoll_api *api, const char *origin,
                                const struct atoll_sandbox *sandbox,
                                enum atoll_daytona_detail detail)
{
    json_t *facts = atoll_daytona_facts(sandbox);
    struct atoll_sandbox_view v;

    atoll_sandbox_get(sandbox, &v);
    atoll_daytona_view_of(out, key, api, origin, &v, facts, detail);
    json_decref(facts);
}

/* Answers. */

void atoll_daytona_reply_sandbox(struct atoll_api_call *call, int status, const char *id)
{
    const struct atoll_sandbox *sandbox = atoll_engine_find(call->engine, id);
    char origin[ATOLL_ORIGIN_MAX];
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (!sandbox) {
        atoll_daytona_no_sandbox(call);
        return;
    }
    atoll_origin(call->api, call->req, origin);
    atoll_api_reply_init(&buf, &out);
    atoll_daytona_view_sandbox(&out, NULL, call->api, origin, sandbox,
                               atoll_daytona_detail_for(call));
    atoll_api_reply(call, status, &out);
}

void atoll_daytona_no_sandbox(struct atoll_api_call *call)
{
    atoll_daytona_refuse(call, 404, NULL, "Sandbox with ID or name %.64s not found",
                         call->params.id);
}

void atoll_daytona_done(void *arg, const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;

    if (error)
        atoll_api_fail(call, error);
    else
        atoll_daytona_reply_sandbox(call, 200, call->params.id);
}

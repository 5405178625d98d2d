/*
 * Sandboxes, sessions and routes in the format of Vercel. A member that is absent is left out: its
 * clients reject null.
 */
#include <stdio.h>
#include <string.h>
#include "access/previews.h"
#include "api/kit/json_value.h"
#include "api/kit/metadata.h"
#include "api/preview.h"
#include "api/vercel/vercel_internal.h"
#include "engine/json_memory.h"

#define INTERACTIVE_PORT 1 /* clients only check that it is a number */

const char *atoll_vercel_status(const struct atoll_sandbox_view *v)
{
    switch (v->state) {
    case ATOLL_SANDBOX_CREATING:
        return "pending";
    case ATOLL_SANDBOX_RUNNING:
        return "running";
    case ATOLL_SANDBOX_STOPPING:
        return "stopping";
    case ATOLL_SANDBOX_FAILED:
        return "failed";
    case ATOLL_SANDBOX_PAUSED:
    case ATOLL_SANDBOX_STOPPED:
        return v->snapshotting ? "snapshotting" : "stopped";
    case ATOLL_SANDBOX_UNREACHABLE:
        break;
    }
    return "aborted";
}

/* Copies members of the facts that are there. */
static void view_facts(struct atoll_json_out *out, const json_t *facts, const char *const *names,
                       size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_object_get(facts, names[i]);
        if (value)
            atoll_json_value(out, names[i], value);
    }
}

static int64_t vcpus_of(const struct atoll_vercel_box *box)
{
    return atoll_fact_number(box->facts, "vcpus",
                             (box->view.options.limits.cpu_millis + 999) / 1000);
}

static int64_t memory_of(const struct atoll_vercel_box *box)
{
    return atoll_fact_number(box->facts, "memory",
                             (int64_t)(box->view.options.limits.memory_bytes >> 20));
}

static const char *region_of(const json_t *facts)
{
    const char *region = atoll_fact_text(facts, "region");

    return *region ? region : ATOLL_VERCEL_REGION;
}

static const char *cwd_of(const struct atoll_sandbox_view *v)
{
    return v->options.workdir && *v->options.workdir ? v->options.workdir : ATOLL_VERCEL_CWD;
}

/* Sandboxes. */

static void view_keep(struct atoll_json_out *out, const json_t *facts)
{
    json_t *keep = json_copy(json_object_get(facts, "keepLastSnapshots"));

    if (json_is_object(keep)) {
        if (!json_object_get(keep, "deleteEvicted"))
            (void)json_object_set_new(keep, "deleteEvicted", json_true());
        atoll_json_value(out, "keepLastSnapshots", keep);
    }
    json_decref(keep);
}

static void view_tags(struct atoll_json_out *out, const struct atoll_sandbox_view *v)
{
    json_t *tags = atoll_json_load_own(v->options.metadata_json);

    if (json_object_size(tags) > 0)
        atoll_json_value(out, "tags", tags);
    json_decref(tags);
}

void atoll_vercel_view_sandbox(struct atoll_json_out *out, const char *key,
                               const struct atoll_vercel_box *box)
{
    static const char *const members[] = {
        "failoverRegions",    "runtime", "image",     "networkPolicy", "currentSnapshotId",
        "snapshotExpiration", "mounts",  "networkId", "projectId"};
    const struct atoll_sandbox_view *v = &box->view;
    int64_t updated = atoll_fact_number(box->facts, "updatedAt", v->created_unix_ms);
    char sid[ATOLL_VERCEL_SID_MAX];

    atoll_vercel_sid_write(v->id, atoll_vercel_session_number(box->facts), sid);
    atoll_json_open(out, key, '{');
    atoll_json_text(out, "name", atoll_name_or_id(v));
    atoll_json_bool(out, "persistent", atoll_fact_flag(box->facts, "persistent"));
    atoll_json_text(out, "status", atoll_vercel_status(v));
    atoll_json_text(out, "currentSessionId", sid);
    atoll_json_i64(out, "createdAt", v->created_unix_ms);
    atoll_json_i64(out, "updatedAt", ATOLL_MAX(updated, v->paused_unix_ms));
    atoll_json_i64(out, "statusUpdatedAt", ATOLL_MAX(updated, v->paused_unix_ms));
    atoll_json_text(out, "region", region_of(box->facts));
    atoll_json_i64(out, "vcpus", vcpus_of(box));
    atoll_json_i64(out, "memory", memory_of(box));
    atoll_json_i64(out, "timeout",
                   atoll_fact_number(box->facts, "timeout", ATOLL_VERCEL_TIMEOUT_MS));
    atoll_json_text(out, "cwd", cwd_of(v));
    view_facts(out, box->facts, members, ATOLL_ARRAY_LEN(members));
    view_keep(out, box->facts);
    view_tags(out, v);
    atoll_json_close(out, '}');
}

/* Sessions. */

static void view_end(struct atoll_json_out *out, const json_t *record, int64_t started,
                     int64_t stopped)
{
    int64_t requested = atoll_fact_number(record, "requestedStopAt", 0);
    int64_t snapshotted = atoll_fact_number(record, "snapshottedAt", 0);

    if (requested)
        atoll_json_i64(out, "requestedStopAt", requested);
    if (snapshotted)
        atoll_json_i64(out, "snapshottedAt", snapshotted);
    if (stopped) {
        atoll_json_i64(out, "stoppedAt", stopped);
        atoll_json_i64(out, "duration", ATOLL_MAX(stopped - started, INT64_C(0)));
    }
}

static void view_size(struct atoll_json_out *out, const struct atoll_vercel_box *box,
                      const json_t *record)
{
    static const char *const members[] = {"runtime", "networkPolicy"};

    /* Clients before 3.0 need one, also of a sandbox that is made from an image. */
    if (!*atoll_fact_text(box->facts, "runtime"))
        atoll_json_text(out, "runtime", ATOLL_VERCEL_RUNTIME);
    atoll_json_i64(out, "memory", memory_of(box));
    atoll_json_i64(out, "vcpus", vcpus_of(box));
    atoll_json_text(out, "region", region_of(box->facts));
    atoll_json_i64(out, "timeout", atoll_fact_number(record, "timeout", ATOLL_VERCEL_TIMEOUT_MS));
    atoll_json_text(out, "cwd", cwd_of(&box->view));
    atoll_json_i64(out, "interactivePort", INTERACTIVE_PORT);
    view_facts(out, box->facts, members, ATOLL_ARRAY_LEN(members));
}

void atoll_vercel_view_session(struct atoll_json_out *out, const char *key,
                               const struct atoll_vercel_box *box, int64_t number)
{
    const json_t *record = atoll_vercel_session_record(box->facts, number);
    bool current = number == atoll_vercel_session_number(box->facts);
    const struct atoll_sandbox_view *v = &box->view;
    int64_t created = atoll_fact_number(record, "createdAt", v->created_unix_ms);
    int64_t started = atoll_fact_number(record, "startedAt", created);
    int64_t stopped = current ? v->paused_unix_ms : atoll_fact_number(record, "stoppedAt", 1);
    const char *source = atoll_fact_text(record, "sourceSnapshotId");
    char sid[ATOLL_VERCEL_SID_MAX];

    if (v->state == ATOLL_SANDBOX_RUNNING && current)
        stopped = 0;
    atoll_vercel_sid_write(v->id, number, sid);
    atoll_json_open(out, key, '{');
    atoll_json_text(out, "id", sid);
    atoll_json_text(out, "status", current ? atoll_vercel_status(v) : "stopped");
    atoll_json_i64(out, "requestedAt", created);
    atoll_json_i64(out, "createdAt", created);
    atoll_json_i64(out, "startedAt", started);
    atoll_json_i64(out, "updatedAt", ATOLL_MAX(started, stopped));
    if (*source)
        atoll_json_text(out, "sourceSnapshotId", source);
    view_end(out, record, started, stopped);
    view_size(out, box, record);
    atoll_json_close(out, '}');
}

/* Routes. */

static void view_route(struct atoll_json_out *out, const struct atoll_api *api,
                       const char *sandbox_id, uint16_t port)
{
    const struct atoll_preview_view preview = {
        .sandbox_id = sandbox_id, .token = "", .port = port, .is_public = true};
    const struct atoll_preview_site *site = atoll_api_site(api);
    char url[ATOLL_PREVIEW_URL_MAX] = "", label[64];

    if (site)
        atoll_preview_url(site, &preview, url);
    if (!*url)
        atoll_preview_path_url(&preview, url);
    (void)snprintf(label, sizeof(label), "%u-%s", port, sandbox_id);
    atoll_json_open(out, NULL, '{');
    atoll_json_text(out, "url", url);
    atoll_json_text(out, "subdomain", label);
    atoll_json_u64(out, "port", port);
    atoll_json_close(out, '}');
}

void atoll_vercel_view_routes(struct atoll_json_out *out, const struct atoll_api *api,
                              const char *sandbox_id, const json_t *ports)
{
    size_t i;
    json_t *port;

    atoll_json_open(out, "routes", '[');
    json_array_foreach(ports, i, port)
        view_route(out, api, sandbox_id, (uint16_t)json_integer_value(port));
    atoll_json_close(out, ']');
}

static bool is_listed(const json_t *ports, uint16_t port)
{
    size_t i;
    json_t *value;

    json_array_foreach(ports, i, value) if (json_integer_value(value) == port) return true;
    return false;
}

int atoll_vercel_open_ports(const struct atoll_api *api, const struct atoll_vercel_box *box,
                            struct atoll_error *err)
{
    struct atoll_previews *previews = atoll_api_previews(api);
    const json_t *ports = json_object_get(box->facts, "ports");
    struct atoll_preview_view view;
    size_t pos = 0, i;
    json_t *port;
    int r = 0;

    if (!previews)
        return 0;
    while (atoll_previews_next(previews, box->view.id, &pos, &view))
        if (!is_listed(ports, view.port)) {
            r = atoll_previews_remove(previews, box->view.id, view.port, err);
            if (r < 0)
                return r;
            pos = 0;
        }
    json_array_foreach(ports, i, port) if (r == 0) r = atoll_previews_add(
        previews, box->view.id, (uint16_t)json_integer_value(port), true, &view, err);
    return r;
}

/* Answers. */

void atoll_vercel_reply_box(struct atoll_api_call *call, const char *id, bool resumed)
{
    bool v1 = atoll_vercel_is_v1(call);
    struct atoll_vercel_box box;
    struct atoll_buf buf;
    struct atoll_json_out out;
    int64_t number;

    if (!atoll_vercel_box_get(call->engine, id, &box)) {
        atoll_vercel_refuse_missing(call, "Sandbox", id);
        return;
    }
    number = atoll_vercel_session_number(box.facts);
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    if (!v1)
        atoll_vercel_view_sandbox(&out, "sandbox", &box);
    atoll_vercel_view_session(&out, v1 ? "sandbox" : "session", &box, number);
    atoll_vercel_view_routes(&out, call->api, id, json_object_get(box.facts, "ports"));
    if (!v1)
        atoll_json_bool(&out, "resumed", resumed);
    atoll_json_close(&out, '}');
    atoll_vercel_box_done(&box);
    atoll_api_reply(call, 200, &out);
}

void atoll_vercel_reply_session(struct atoll_api_call *call, const char *id, int64_t number)
{
    struct atoll_vercel_box box;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (!atoll_vercel_box_get(call->engine, id, &box)) {
        atoll_vercel_refuse_missing(call, "Session", call->params.name);
        return;
    }
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_vercel_view_session(&out, atoll_vercel_is_v1(call) ? "sandbox" : "session", &box, number);
    atoll_vercel_view_routes(&out, call->api, id, json_object_get(box.facts, "ports"));
    atoll_json_close(&out, '}');
    atoll_vercel_box_done(&box);
    atoll_api_reply(call, 200, &out);
}

/*
 * Changes of a sandbox: PATCH /sandboxes/{sandbox}, and the network policy of a session.
 */
#include <stdio.h>
#include <string.h>
#include "api/vercel/control_create.h"
#include "engine/json_memory.h"
#include "loop/steps.h"

#define MIB ((uint64_t)1 << 20)
#define MEMORY_OF_VCPU 2048 /* MiB */

/* The parts of a change that the engine carries out. */
struct change {
    struct atoll_steps steps;
    struct atoll_api_call *call;
    char id[ATOLL_ID_LEN + 1];
    char *policy;          /* owned; the canonical one */
    json_t *answer_policy; /* owned; NULL: the policy stays */
    struct atoll_limits limits;
    bool ports; /* the answer has routes */
    bool session;
    int64_t number;
};

static void set_policy(void *arg)
{
    struct change *c = arg;
    struct atoll_vercel_box box;
    bool none;

    if (!c->answer_policy || !atoll_vercel_box_get(c->call->engine, c->id, &box)) {
        atoll_steps_done(&c->steps, NULL);
        return;
    }
    none = box.view.options.network == ATOLL_NETWORK_NONE; /* nothing can be reached anyway */
    atoll_vercel_box_done(&box);
    if (none)
        atoll_steps_done(&c->steps, NULL);
    else
        atoll_engine_set_network(c->call->engine, c->id, c->policy, atoll_steps_done, &c->steps);
}

static void note_policy(void *arg)
{
    struct change *c = arg;
    struct atoll_error error;
    int r = 0;

    if (c->answer_policy)
        r = atoll_vercel_change(c->call->engine, c->id, "networkPolicy",
                                json_incref(c->answer_policy), &error);
    atoll_steps_done(&c->steps, r < 0 ? &error : NULL);
}

/* A session keeps its size: the next one gets the new one. */
static void set_limits(void *arg)
{
    struct change *c = arg;
    struct atoll_vercel_box box;
    bool stands = false;

    if (atoll_vercel_box_get(c->call->engine, c->id, &box)) {
        stands = box.view.state == ATOLL_SANDBOX_STOPPED;
        atoll_vercel_box_done(&box);
    }
    if (stands && (c->limits.cpu_millis || c->limits.memory_bytes))
        atoll_engine_resize(c->call->engine, c->id, &c->limits, atoll_steps_done, &c->steps);
    else
        atoll_steps_done(&c->steps, NULL);
}

static const struct atoll_step steps[] = {
    {"changing the network policy", set_policy, NULL},
    {"storing the network policy", note_policy, NULL},
    {"changing the limits", set_limits, NULL},
};

static void reply(struct change *c)
{
    struct atoll_vercel_box box;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (c->session) {
        atoll_vercel_reply_session(c->call, c->id, c->number);
        return;
    }
    if (!atoll_vercel_box_get(c->call->engine, c->id, &box)) {
        atoll_vercel_refuse(c->call, 404, NULL, "Sandbox %.64s not found", c->id);
        return;
    }
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_vercel_view_sandbox(&out, "sandbox", &box);
    if (c->ports)
        atoll_vercel_view_routes(&out, c->call->api, &box);
    atoll_json_close(&out, '}');
    atoll_vercel_box_done(&box);
    atoll_api_reply(c->call, 200, &out);
}

static void done(void *arg, const struct atoll_error *error)
{
    struct change *c = arg;

    if (error)
        atoll_api_fail(c->call, error);
    else
        reply(c);
    free(c->policy);
    json_decref(c->answer_policy);
    free(c);
}

static struct change *new_change(struct atoll_api_call *call)
{
    struct change *c = atoll_api_alloc(sizeof(*c));

    c->call = call;
    (void)snprintf(c->id, sizeof(c->id), "%.26s", call->params.id);
    c->steps = (struct atoll_steps){
        .steps = steps, .count = ATOLL_ARRAY_LEN(steps), .arg = c, .done = done};
    return c;
}

static void drop_change(struct change *c, const struct atoll_error *error)
{
    atoll_api_fail(c->call, error);
    free(c->policy);
    json_decref(c->answer_policy);
    free(c);
}

/* The policy of a session. */

void atoll_vercel_session_policy(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct change *c = new_change(call);
    char id[ATOLL_ID_LEN + 1];
    struct atoll_error error;
    struct atoll_body body;
    int r = atoll_body_parse(&body, bytes, n, &error);

    c->session = true;
    (void)atoll_vercel_sid_read(call->params.name, id, &c->number);
    if (r == 0)
        r = atoll_vercel_policy(body.root, &c->policy, &c->answer_policy, &error);
    atoll_body_done(&body);
    if (r < 0)
        drop_change(c, &error);
    else
        atoll_steps_start(&c->steps);
}

/* PATCH. */

static bool is_given(const json_t *value)
{
    return value && !json_is_null(value);
}

/* Members that are stored as they are; null removes them. */
static void keep(json_t *facts, const char *name, const json_t *value)
{
    if (json_is_null(value))
        (void)json_object_del(facts, name);
    else if (value)
        (void)json_object_set(facts, name, (json_t *)value);
}

static int change_size(const struct atoll_vercel_create *q, json_t *facts, struct change *c,
                       struct atoll_error *err)
{
    struct atoll_limits limits = {0};
    int r;

    if (!is_given(q->vcpus) && !is_given(q->memory))
        return 0;
    r = atoll_vercel_limits(q, &limits, err);
    if (r < 0)
        return r;
    c->limits.cpu_millis = limits.cpu_millis;
    c->limits.memory_bytes = limits.memory_bytes;
    (void)json_object_set_new(facts, "vcpus", json_integer((limits.cpu_millis + 999) / 1000));
    (void)json_object_set_new(facts, "memory",
                              json_integer((json_int_t)(limits.memory_bytes / MIB)));
    return 0;
}

static int change_snapshot(struct atoll_api_call *call, const struct atoll_vercel_create *q,
                           json_t *facts, struct atoll_error *err)
{
    ATOLL_AUTOFREE char *reference = NULL;
    int r;

    if (!q->snapshot)
        return 0;
    r = atoll_vercel_snapshot_reference(call, q->snapshot, &reference, err);
    if (r < 0)
        return r;
    (void)json_object_set_new(facts, "restore", json_true());
    (void)json_object_set_new(facts, "currentSnapshotId", json_string(q->snapshot));
    return 0;
}

static int change_facts(struct atoll_api_call *call, struct atoll_vercel_create *q, json_t *facts,
                        struct change *c, struct atoll_error *err)
{
    int64_t timeout = 0;
    int r;

    if (!q->region && *atoll_fact_text(facts, "region"))
        q->region = atoll_fact_text(facts, "region");
    if (!q->failover)
        q->failover = json_object_get(facts, "failoverRegions");
    r = atoll_vercel_settings_check(q, err);
    if (r == 0)
        r = atoll_vercel_timeout_check(q->timeout, "timeout", &timeout, err);
    if (r == 0)
        r = change_size(q, facts, c, err);
    if (r == 0)
        r = change_snapshot(call, q, facts, err);
    if (r < 0)
        return r;
    if (timeout)
        (void)json_object_set_new(facts, "timeout", json_integer(timeout));
    keep(facts, "persistent", q->persistent);
    keep(facts, "ports", q->ports);
    keep(facts, "snapshotExpiration", q->expiration);
    keep(facts, "keepLastSnapshots", q->keep_last);
    keep(facts, "failoverRegions", q->failover);
    if (q->region)
        (void)json_object_set_new(facts, "region", json_string(q->region));
    if (q->network_id)
        (void)json_object_set_new(facts, "networkId", json_string(q->network_id));
    c->ports = is_given(q->ports);
    if (is_given(q->policy))
        r = atoll_vercel_policy(q->policy, &c->policy, &c->answer_policy, err);
    return r;
}

static int change_tags(struct atoll_api_call *call, const json_t *tags, struct atoll_error *err)
{
    ATOLL_AUTOFREE char *text = is_given(tags) ? atoll_json_dump(tags, JSON_COMPACT) : NULL;

    if (!is_given(tags))
        return 0;
    return text ? atoll_engine_set_metadata(call->engine, call->params.id, text, err)
                : atoll_fields_no_memory(err);
}

static int change(struct atoll_api_call *call, struct atoll_vercel_create *q, struct change *c,
                  struct atoll_error *err)
{
    struct atoll_vercel_box box;
    int r;

    if (!atoll_vercel_box_get(call->engine, call->params.id, &box))
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, 0, "Sandbox %.64s not found",
                          call->params.template);
    r = change_facts(call, q, box.facts, c, err);
    if (r == 0)
        r = change_tags(call, q->tags, err);
    if (r == 0)
        r = atoll_vercel_facts_store(call->engine, call->params.id, box.facts, err);
    if (r == 0 && c->ports)
        r = atoll_vercel_open_ports(call->api, &box, err);
    atoll_vercel_box_done(&box);
    return r;
}

void atoll_vercel_sandbox_update(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct change *c = new_change(call);
    struct atoll_vercel_create q = {0};
    struct atoll_error error;
    struct atoll_body body;
    int r;

    if (call->ended) {
        (void)atoll_fail(&error, ATOLL_ERR_NOT_FOUND, 0, "Sandbox %.64s not found",
                         call->params.template);
        drop_change(c, &error);
        return;
    }
    r = atoll_vercel_create_decode(&body, bytes, n, &q, &error);
    if (r == 0) {
        q.snapshot = json_string_value(json_object_get(body.root, "currentSnapshotId"));
        /* Here null is a value: it removes the member. */
        q.keep_last = json_object_get(body.root, "keepLastSnapshots");
        q.expiration = json_object_get(body.root, "snapshotExpiration");
    }
    if (r == 0)
        r = change(call, &q, c, &error);
    atoll_body_done(&body);
    if (r < 0)
        drop_change(c, &error);
    else
        atoll_steps_start(&c->steps);
}

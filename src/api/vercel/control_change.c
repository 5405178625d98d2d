/*
 * Changes of a sandbox: PATCH /sandboxes/{sandbox}, and the network policy of a session.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "api/vercel/control_create.h"
#include "base/log.h"
#include "engine/json_memory.h"
#include "loop/steps.h"

#define MIB ((uint64_t)1 << 20)
#define MEMORY_OF_VCPU 2048 /* MiB */

/* A change happens as a whole, or not at all: first all of it is checked, then the engine does what can fail,
 * and the facade's own record comes last. */
struct change {
    struct atoll_steps steps;
    struct atoll_api_call *call;
    char id[ATOLL_ID_LEN + 1];
    struct atoll_body body;       /* of PATCH */
    struct atoll_vercel_create q; /* the same; borrows from the body */
    char *policy;                 /* owned; the canonical one */
    json_t *answer_policy;        /* owned; NULL: the policy stays */
    struct atoll_limits limits;   /* 0: they stay */
    char *policy_before;          /* owned; NULL: there was none */
    struct atoll_limits limits_before;
    bool policy_is_set, limits_are_set; /* by a step */
    bool session;                       /* the network policy of a session, and nothing else */
    int64_t number;
};

static void undone(void *arg, const struct atoll_error *error)
{
    struct change *c = arg;

    if (error)
        atoll_log(ATOLL_LOG_WARN, "change not undone", "sandbox", c->id, "error", error->text,
                  NULL);
    atoll_steps_done(&c->steps, NULL);
}

/* A session keeps its size: the next one gets the new one. */
static void set_limits(void *arg)
{
    struct change *c = arg;
    struct atoll_vercel_box box;

    if ((c->limits.cpu_millis || c->limits.memory_bytes) &&
        atoll_vercel_box_get(c->call->engine, c->id, &box)) {
        c->limits_are_set = box.view.state == ATOLL_SANDBOX_STOPPED;
        c->limits_before.cpu_millis = box.view.options.limits.cpu_millis;
        c->limits_before.memory_bytes = box.view.options.limits.memory_bytes;
        atoll_vercel_box_done(&box);
    }
    if (c->limits_are_set)
        atoll_engine_resize(c->call->engine, c->id, &c->limits, atoll_steps_done, &c->steps);
    else
        atoll_steps_done(&c->steps, NULL);
}

static void undo_limits(void *arg)
{
    struct change *c = arg;

    if (c->limits_are_set)
        atoll_engine_resize(c->call->engine, c->id, &c->limits_before, undone, c);
    else
        atoll_steps_done(&c->steps, NULL);
}

/* One that atoll-egress has not taken over yet is stored, and is answered as UNAVAILABLE: it holds as soon as
 * it can, and a repeated request completes the change. */
static void set_policy(void *arg)
{
    struct change *c = arg;
    struct atoll_vercel_box box;

    if (c->answer_policy && atoll_vercel_box_get(c->call->engine, c->id, &box)) {
        const char *before = box.view.options.network_json;
        /* Without a network nothing can be reached anyway. */
        c->policy_is_set = box.view.options.network != ATOLL_NETWORK_NONE;
        c->policy_before = before ? strdup(before) : NULL;
        if (before && !c->policy_before)
            abort(); /* its size is bounded: the daemon is crash-only */
        atoll_vercel_box_done(&box);
    }
    if (c->policy_is_set)
        atoll_engine_set_network(c->call->engine, c->id, c->policy, atoll_steps_done, &c->steps);
    else
        atoll_steps_done(&c->steps, NULL);
}

/* Another request may have changed it meanwhile, and was answered that its policy holds. */
static bool policy_is_ours(const struct change *c)
{
    struct atoll_vercel_box box;
    const char *now;
    bool ours;

    if (!c->policy_is_set || !atoll_vercel_box_get(c->call->engine, c->id, &box))
        return false;
    now = box.view.options.network_json;
    ours = now && c->policy ? strcmp(now, c->policy) == 0 : !now && !c->policy;
    atoll_vercel_box_done(&box);
    return ours;
}

static void undo_policy(void *arg)
{
    struct change *c = arg;

    if (policy_is_ours(c))
        atoll_engine_set_network(c->call->engine, c->id, c->policy_before, undone, c);
    else
        atoll_steps_done(&c->steps, NULL);
}

static void store(void *arg);

static const struct atoll_step steps[] = {
    {"changing the limits", set_limits, undo_limits},
    {"changing the network policy", set_policy, undo_policy},
    {"storing the settings", store, NULL},
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
        atoll_vercel_refuse_missing(c->call, "Sandbox", c->id);
        return;
    }
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_vercel_view_sandbox(&out, "sandbox", &box);
    if (c->q.ports)
        atoll_vercel_view_routes(&out, c->call->api, c->id, json_object_get(box.facts, "ports"));
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
    atoll_body_done(&c->body);
    free(c->policy);
    free(c->policy_before);
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

/* The policy of a session. */

void atoll_vercel_session_policy(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct change *c = new_change(call);
    char id[ATOLL_ID_LEN + 1];
    struct atoll_error error;
    int r = atoll_body_parse(&c->body, bytes, n, &error);

    c->session = true;
    (void)atoll_vercel_sid_read(call->params.name, id, &c->number);
    if (r == 0)
        r = atoll_vercel_policy(c->body.root, &c->policy, &c->answer_policy, &error);
    if (r < 0)
        done(c, &error);
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

static int change_size(const struct atoll_vercel_create *q, json_t *facts, struct atoll_limits *ret,
                       struct atoll_error *err)
{
    struct atoll_limits limits = {0};
    int r;

    if (!is_given(q->vcpus) && !is_given(q->memory))
        return 0;
    r = atoll_vercel_limits(q, &limits, err);
    if (r < 0)
        return r;
    *ret = limits;
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

/* Volumes are chosen when a sandbox is made. */
static int check_mounts(const json_t *mounts, const json_t *facts, struct atoll_error *err)
{
    const json_t *have = json_object_get(facts, "mounts");

    if (!is_given(mounts) || json_equal(mounts, have) ||
        (!have && json_is_object(mounts) && json_object_size(mounts) == 0))
        return 0;
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                      "mounts of a sandbox cannot be changed: create or fork one with them");
}

/* Checks the request and changes the facts. */
static int change_facts(struct change *c, json_t *facts, struct atoll_error *err)
{
    struct atoll_vercel_create q = c->q;
    int64_t timeout = 0;
    int r;

    if (!q.region && *atoll_fact_text(facts, "region"))
        q.region = atoll_fact_text(facts, "region");
    if (!q.failover)
        q.failover = json_object_get(facts, "failoverRegions");
    r = atoll_vercel_settings_check(&q, err);
    if (r == 0)
        r = atoll_vercel_timeout_check(q.timeout, "timeout", &timeout, err);
    if (r == 0)
        r = check_mounts(q.mounts, facts, err);
    if (r == 0)
        r = change_size(&q, facts, &c->limits, err);
    if (r == 0)
        r = change_snapshot(c->call, &q, facts, err);
    if (r < 0)
        return r;
    if (timeout)
        (void)json_object_set_new(facts, "timeout", json_integer(timeout));
    keep(facts, "persistent", q.persistent);
    keep(facts, "ports", q.ports);
    keep(facts, "snapshotExpiration", q.expiration);
    keep(facts, "keepLastSnapshots", q.keep_last);
    keep(facts, "failoverRegions", q.failover);
    keep(facts, "networkPolicy", c->answer_policy);
    if (c->q.region)
        (void)json_object_set_new(facts, "region", json_string(c->q.region));
    keep(facts, "networkId", json_object_get(c->body.root, "networkId"));
    return 0;
}

static int check(struct change *c, struct atoll_error *err)
{
    ATOLL_AUTOFREE char *text = NULL;
    struct atoll_vercel_box box;
    int r = 0;

    if (is_given(c->q.policy))
        r = atoll_vercel_policy(c->q.policy, &c->policy, &c->answer_policy, err);
    if (r < 0)
        return r;
    if (c->call->ended || !atoll_vercel_box_get(c->call->engine, c->id, &box))
        return atoll_vercel_missing("Sandbox", c->call->params.template, err);
    r = change_facts(c, box.facts, err);
    if (r == 0)
        r = atoll_facts_dump(&atoll_vercel_kind, box.facts, &text, err);
    atoll_vercel_box_done(&box);
    return r;
}

static int store_tags(struct change *c, struct atoll_error *err)
{
    ATOLL_AUTOFREE char *text =
        is_given(c->q.tags) ? atoll_json_dump(c->q.tags, JSON_COMPACT) : NULL;

    if (!is_given(c->q.tags))
        return 0;
    return text ? atoll_engine_set_metadata(c->call->engine, c->id, text, err)
                : atoll_fields_no_memory(err);
}

/* After a failure: as it was before. */
static void put_back(struct change *c, struct atoll_vercel_box *box, json_t *facts,
                     const char *metadata)
{
    struct atoll_error ignored;

    json_decref(box->facts);
    box->facts = json_incref(facts);
    if (is_given(c->q.tags))
        (void)!atoll_engine_set_metadata(c->call->engine, c->id, metadata, &ignored);
    (void)!atoll_vercel_facts_store(c->call->engine, c->id, facts, &ignored);
    if (c->q.ports)
        (void)!atoll_vercel_open_ports(c->call->api, box, &ignored);
}

static int store_all(struct change *c, struct atoll_vercel_box *box, struct atoll_error *err)
{
    const char *tags = box->view.options.metadata_json;
    ATOLL_AUTOFREE char *metadata = strdup(tags ? tags : "{}");
    json_t *before = json_deep_copy(box->facts);
    int r = metadata && before ? 0 : atoll_fields_no_memory(err);

    if (r == 0 && c->session)
        keep(box->facts, "networkPolicy", c->answer_policy);
    else if (r == 0)
        r = change_facts(c, box->facts, err);
    if (r == 0) {
        r = store_tags(c, err);
        if (r == 0)
            r = atoll_vercel_facts_store(c->call->engine, c->id, box->facts, err);
        if (r == 0 && c->q.ports)
            r = atoll_vercel_open_ports(c->call->api, box, err);
        if (r < 0)
            put_back(c, box, before, metadata);
    }
    json_decref(before);
    return r;
}

static void store(void *arg)
{
    struct change *c = arg;
    struct atoll_vercel_box box;
    struct atoll_error error;
    int r;

    if (!atoll_vercel_box_get(c->call->engine, c->id, &box)) {
        r = atoll_vercel_missing("Sandbox", c->id, &error);
    } else {
        r = store_all(c, &box, &error);
        atoll_vercel_box_done(&box);
    }
    atoll_steps_done(&c->steps, r < 0 ? &error : NULL);
}

void atoll_vercel_sandbox_update(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct change *c = new_change(call);
    struct atoll_error error;
    int r = atoll_vercel_create_decode(&c->body, bytes, n, &c->q, &error);

    if (r == 0) {
        c->q.snapshot = json_string_value(json_object_get(c->body.root, "currentSnapshotId"));
        /* Here null is a value: it removes the member. */
        c->q.keep_last = json_object_get(c->body.root, "keepLastSnapshots");
        c->q.expiration = json_object_get(c->body.root, "snapshotExpiration");
        r = check(c, &error);
    }
    if (r < 0)
        done(c, &error);
    else
        atoll_steps_start(&c->steps);
}

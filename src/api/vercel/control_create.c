/*
 * POST /sandboxes: from a runtime, an image or a snapshot to a running sandbox; then its files from a
 * git repository or an archive (making.c).
 */
#include "api/vercel/control_create.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "api/kit/metadata.h"
#include "api/kit/network_mode.h"
#include "api/repeats.h"
#include "base/rand.h"
#include "base/text.h"
#include "engine/json_memory.h"

#define MIB ((uint64_t)1 << 20)
#define VCPUS 2
#define VCPUS_MAX 64
#define MEMORY_OF_VCPU 2048 /* MiB */
#define DISK_BYTES (10240 * MIB)
#define PROCESSES 4096
#define NAME_RANDOM 16

#define AT(member) offsetof(struct atoll_vercel_create, member)
static const struct atoll_field resource_fields[] = {
    {"vcpus", ATOLL_FIELD_JSON, AT(vcpus), 0, 0, NULL, 0},
    {"memory", ATOLL_FIELD_JSON, AT(memory), 0, 0, NULL, 0},
    ATOLL_FIELDS_TOLERANT,
    {0},
};

static const struct atoll_field fields[] = {
    {"projectId", ATOLL_FIELD_STRING, AT(project), 0, 255, NULL, 0},
    {"name", ATOLL_FIELD_STRING, AT(name), 0, 255, NULL, 0},
    {"runtime", ATOLL_FIELD_STRING, AT(runtime), 0, 64, NULL, 0},
    {"image", ATOLL_FIELD_STRING, AT(image), 0, 512, NULL, 0},
    {"ports", ATOLL_FIELD_JSON, AT(ports), 0, 0, NULL, 0},
    {"source", ATOLL_FIELD_JSON, AT(source), 0, 0, NULL, 0},
    {"timeout", ATOLL_FIELD_JSON, AT(timeout), 0, 0, NULL, 0},
    {"resources", ATOLL_FIELD_OBJECT, 0, 0, 0, resource_fields, 0},
    {"persistent", ATOLL_FIELD_JSON, AT(persistent), 0, 0, NULL, 0},
    {"networkPolicy", ATOLL_FIELD_JSON, AT(policy), 0, 0, NULL, 0},
    {"networkId", ATOLL_FIELD_STRING, AT(network_id), 0, 255, NULL, 0},
    {"env", ATOLL_FIELD_ENV, AT(env), 0, 0, NULL, 0},
    {"tags", ATOLL_FIELD_JSON, AT(tags), 0, 0, NULL, 0},
    {"snapshotExpiration", ATOLL_FIELD_JSON, AT(expiration), 0, 0, NULL, 0},
    {"keepLastSnapshots", ATOLL_FIELD_JSON, AT(keep_last), 0, 0, NULL, 0},
    {"mounts", ATOLL_FIELD_JSON, AT(mounts), 0, 0, NULL, 0},
    {"region", ATOLL_FIELD_STRING, AT(region), 0, 64, NULL, 0},
    {"failoverRegions", ATOLL_FIELD_JSON, AT(failover), 0, 0, NULL, 0},
    ATOLL_FIELDS_TOLERANT,
    {0},
};

static bool is_given(const json_t *value)
{
    return value && !json_is_null(value);
}

/* Checks that other requests share. */

int atoll_vercel_ports_check(const json_t *ports, struct atoll_error *err)
{
    size_t i;
    json_t *port;

    if (!is_given(ports))
        return 0;
    if (!json_is_array(ports) || json_array_size(ports) > ATOLL_VERCEL_PORTS_MAX)
        return atoll_fields_refuse(err, "", "ports", ports, "an array of at most 15 ports");
    json_array_foreach(ports, i,
                       port) if (!json_is_integer(port) || json_integer_value(port) < 1 ||
                                 json_integer_value(port) >
                                     65535) return atoll_fields_refuse(err, "", "ports", port,
                                                                       "an array of ports");
    return 0;
}

int atoll_vercel_timeout_check(const json_t *value, const char *name, int64_t *ret_ms,
                               struct atoll_error *err)
{
    double ms = json_number_value(value);

    if (!is_given(value))
        return 0;
    if (!json_is_number(value) || !(ms >= 1) || ms > (double)ATOLL_VERCEL_TIMEOUT_MAX_MS)
        return atoll_fields_refuse(err, "", name, value,
                                   "a number of milliseconds from 1 to 86400000");
    *ret_ms = (int64_t)ms;
    return 0;
}

static int keep_last_check(const json_t *keep, struct atoll_error *err)
{
    const json_t *expiration = json_object_get(keep, "expiration");
    const json_t *deletes = json_object_get(keep, "deleteEvicted");

    if (!is_given(keep) || (json_is_integer(json_object_get(keep, "count")) &&
                            (!is_given(expiration) || json_is_number(expiration)) &&
                            (!is_given(deletes) || json_is_boolean(deletes))))
        return 0;
    return atoll_fields_refuse(err, "", "keepLastSnapshots", keep,
                               "an object with a number `count`, and optionally a number "
                               "`expiration` and a boolean `deleteEvicted`");
}

int atoll_vercel_settings_check(const struct atoll_vercel_create *q, struct atoll_error *err)
{
    int r = atoll_vercel_ports_check(q->ports, err);
    size_t i;
    json_t *region;

    if (r == 0 && is_given(q->tags))
        r = atoll_metadata_check(q->tags, "tags", err);
    if (r == 0 && is_given(q->persistent) && !json_is_boolean(q->persistent))
        r = atoll_fields_refuse(err, "", "persistent", q->persistent, "true or false");
    if (r == 0 && is_given(q->expiration) && !json_is_number(q->expiration))
        r = atoll_fields_refuse(err, "", "snapshotExpiration", q->expiration, "a number");
    if (r == 0)
        r = keep_last_check(q->keep_last, err);
    if (r == 0 && is_given(q->failover) && !json_is_array(q->failover))
        r = atoll_fields_refuse(err, "", "failoverRegions", q->failover, "an array of strings");
    json_array_foreach(q->failover, i, region)
    {
        const char *text = json_string_value(region);
        if (r == 0 && !text)
            r = atoll_fields_refuse(err, "", "failoverRegions", region, "an array of strings");
        else if (r == 0 && strcmp(text, q->region ? q->region : ATOLL_VERCEL_REGION) == 0)
            r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                           "failoverRegions must not contain the region of the sandbox");
    }
    return r;
}

/* Limits. */

int atoll_vercel_limits(const struct atoll_vercel_create *q, struct atoll_limits *limits,
                        struct atoll_error *err)
{
    double vcpus = is_given(q->vcpus) ? json_number_value(q->vcpus) : VCPUS, memory;

    if (is_given(q->vcpus) && (!json_is_number(q->vcpus) || !(vcpus > 0) || vcpus > VCPUS_MAX))
        return atoll_fields_refuse(err, "resources", "vcpus", q->vcpus,
                                   "a number above 0 and at most 64");
    memory = is_given(q->memory) ? json_number_value(q->memory) : vcpus * MEMORY_OF_VCPU;
    if (is_given(q->memory) && (!json_is_number(q->memory) || !(memory >= 1) || memory > 1048576))
        return atoll_fields_refuse(err, "resources", "memory", q->memory, "a number of MiB");
    limits->cpu_millis = (uint32_t)(vcpus * 1000);
    limits->memory_bytes = (uint64_t)memory * MIB;
    return 0;
}

static int take_limits(const struct atoll_vercel_create *q, struct atoll_limits *limits,
                       struct atoll_error *err)
{
    limits->disk_bytes = DISK_BYTES;
    limits->pids = PROCESSES;
    limits->timeout_s = (uint32_t)((q->timeout_ms + 999) / 1000);
    return atoll_vercel_limits(q, limits, err);
}

/* Facts. */

static void keep_json(json_t *facts, const char *name, const json_t *value)
{
    if (is_given(value))
        (void)json_object_set(facts, name, (json_t *)value);
}

/* What the record of the sandbox keeps when it has ended. Only the ports of /v1 cannot change. */
static json_t *make_ended(const struct atoll_vercel_create *q, bool v1)
{
    json_t *ended = json_object();

    atoll_fact_put_text(ended, "runtime", q->runtime);
    if (v1)
        keep_json(ended, "ports", q->ports);
    return ended;
}

static json_t *make_facts(const struct atoll_api_call *call, const struct atoll_vercel_create *q,
                          const struct atoll_options *o)
{
    json_t *facts = atoll_facts_new(&atoll_vercel_kind);

    atoll_fact_put_text(facts, "projectId", q->project);
    atoll_fact_put_text(facts, "runtime", q->runtime);
    atoll_fact_put_text(facts, "image", q->image);
    atoll_fact_put_text(facts, "region", q->region);
    atoll_fact_put_text(facts, "networkId", q->network_id);
    atoll_fact_put_text(facts, "origin", o->image ? o->image : o->template_name);
    atoll_fact_put_text(facts, "currentSnapshotId", q->snapshot);
    keep_json(facts, "ports", q->ports);
    keep_json(facts, "snapshotExpiration", q->expiration);
    keep_json(facts, "keepLastSnapshots", q->keep_last);
    keep_json(facts, "mounts", q->mounts);
    keep_json(facts, "failoverRegions", q->failover);
    keep_json(facts, "networkPolicy", q->answer_policy);
    (void)json_object_set_new(facts, "v1", json_boolean(atoll_vercel_is_v1(call)));
    (void)json_object_set_new(facts, "ended", make_ended(q, atoll_vercel_is_v1(call)));
    (void)json_object_set_new(facts, "persistent", json_boolean(q->keeps_files));
    (void)json_object_set_new(facts, "timeout", json_integer(q->timeout_ms));
    (void)json_object_set_new(facts, "vcpus", json_integer((o->limits.cpu_millis + 999) / 1000));
    (void)json_object_set_new(facts, "memory",
                              json_integer((json_int_t)(o->limits.memory_bytes / MIB)));
    atoll_vercel_session_add(facts, 0, q->timeout_ms, q->snapshot ? q->snapshot : "");
    return facts;
}

static int take_facts(const struct atoll_api_call *call, const struct atoll_vercel_create *q,
                      struct atoll_body *body, struct atoll_options *o, struct atoll_error *err)
{
    json_t *facts = make_facts(call, q, o);
    char *text;
    int r = atoll_facts_dump(&atoll_vercel_kind, facts, &text, err);

    json_decref(facts);
    if (r == 0) {
        atoll_body_take(body, text);
        o->facade_json = text;
    }
    return r;
}

/* Options. */

/* A sandbox has a name that it can be created with again, so not its id. */
static int choose_name(struct atoll_vercel_create *q, struct atoll_body *body, bool v1,
                       struct atoll_options *o, struct atoll_error *err)
{
    char random[NAME_RANDOM + 1];
    char *name;

    if (q->name && *q->name) {
        o->name = q->name;
        if (atoll_vercel_is_segment(q->name))
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "name must not be \"%.64s\": the API has a path of that name",
                              q->name);
        return atoll_name_check(q->name, err);
    }
    if (v1)
        return 0;
    atoll_rand_id(random, NAME_RANDOM);
    if (asprintf(&name, "sandbox-%s", random) < 0)
        return atoll_fields_no_memory(err);
    atoll_body_take(body, name);
    o->name = name;
    return 0;
}

static int choose_network(const struct atoll_api_call *call, struct atoll_vercel_create *q,
                          struct atoll_body *body, struct atoll_options *o, struct atoll_error *err)
{
    char *policy = NULL;
    int r = q->answer_policy ? 0 : atoll_vercel_policy(q->policy, &policy, &q->answer_policy, err);

    if (policy)
        atoll_body_take(body, policy);
    o->network_is_given = true;
    o->network = atoll_api_network_mode(call);
    o->network_json = o->network == ATOLL_NETWORK_NONE ? NULL : policy;
    return r;
}

int atoll_vercel_prepare(const struct atoll_api_call *call, struct atoll_vercel_create *q,
                         struct atoll_body *body, struct atoll_options *o, struct atoll_error *err)
{
    bool v1 = atoll_vercel_is_v1(call);
    int r = atoll_vercel_settings_check(q, err);

    q->timeout_ms = ATOLL_VERCEL_TIMEOUT_MS;
    q->keeps_files = !v1 && !json_is_false(q->persistent);
    if (r == 0)
        r = atoll_vercel_timeout_check(q->timeout, "timeout", &q->timeout_ms, err);
    if (r < 0)
        return r;
    *o = (struct atoll_options){.env = q->env,
                                .owner = call->caller.tenant,
                                .workdir = ATOLL_VERCEL_CWD,
                                .lifetime = {.persistent = !v1}};
    r = choose_name(q, body, v1, o, err);
    if (r == 0)
        r = atoll_vercel_choose_root(call, q, body, o, err);
    if (r == 0)
        r = take_limits(q, &o->limits, err);
    if (r == 0)
        r = atoll_metadata_take(q->tags, body, &o->metadata_json, err);
    if (r == 0)
        r = atoll_vercel_mounts(q->mounts, body, o, err);
    if (r == 0)
        r = choose_network(call, q, body, o, err);
    return r < 0 ? r : take_facts(call, q, body, o, err);
}

int atoll_vercel_create_decode(struct atoll_body *body, const uint8_t *bytes, size_t n,
                               struct atoll_vercel_create *ret, struct atoll_error *err)
{
    return atoll_body_decode(body, bytes, n, fields, ret, err);
}

void atoll_vercel_create(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct atoll_vercel_create q = {0};
    struct atoll_options options;
    struct atoll_error error;
    struct atoll_body body;

    if (atoll_repeat_check(call, bytes, n, NULL))
        return;
    if (atoll_vercel_create_decode(&body, bytes, n, &q, &error) < 0 ||
        atoll_vercel_prepare(call, &q, &body, &options, &error) < 0)
        atoll_api_fail(call, &error);
    else
        atoll_vercel_make(call, &options, q.source);
    json_decref(q.answer_policy);
    atoll_body_done(&body);
}

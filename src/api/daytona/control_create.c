/*
 * POST /sandbox: from a snapshot, an image or a Dockerfile to a running sandbox.
 */
#include "api/daytona/control_create.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/daytona/builds.h"
#include "api/idempotency.h"
#include "api/kit/metadata.h"
#include "api/kit/network_mode.h"
#include "api/kit/volumes.h"
#include "base/clock.h"
#include "base/text.h"
#include "engine/json_memory.h"

#define GIB 1073741824.0
#define MINUTES_MAX 5256000 /* ten years */
#define MINUTE_MS 60000
#define DEFAULT_STOP_MIN 15
#define DEFAULT_ARCHIVE_MIN (7 * 24 * 60)
#define DEFAULT_TEMPLATE "host"
#define PROCESSES 1024

/* Snapshots that every account of Daytona has, with their sizes in CPUs and GiB. The first is the
 * default. */
static const struct size {
    const char *name;
    uint32_t cpus, memory, disk;
} sizes[] = {
    {"daytona-small", 1, 1, 3},
    {"daytona-medium", 2, 4, 8},
    {"daytona-large", 4, 8, 10},
};

#define AT(member) offsetof(struct atoll_daytona_create, member)
static const struct atoll_field build_fields[] = {
    {"dockerfileContent", ATOLL_FIELD_STRING, AT(dockerfile), 1, 1024 * 1024, NULL, 0},
    {"contextHashes", ATOLL_FIELD_STRINGS, AT(hashes), 0, ATOLL_DAYTONA_CONTEXTS_MAX, NULL, 0},
    ATOLL_FIELDS_TOLERANT,
    {0},
};

static const struct atoll_field fields[] = {
    {"name", ATOLL_FIELD_STRING, AT(name), 0, 64, NULL, 0},
    {"snapshot", ATOLL_FIELD_STRING, AT(snapshot), 0, 512, NULL, 0},
    {"user", ATOLL_FIELD_STRING, AT(user), 0, 64, NULL, 0},
    {"target", ATOLL_FIELD_STRING, AT(target), 0, 64, NULL, 0},
    {"env", ATOLL_FIELD_ENV, AT(env), 0, 0, NULL, 0},
    {"labels", ATOLL_FIELD_JSON, AT(labels), 0, 0, NULL, 0},
    {"public", ATOLL_FIELD_BOOL, AT(is_public), 0, 0, NULL, 0},
    {"networkBlockAll", ATOLL_FIELD_BOOL, AT(block_all), 0, 0, NULL, 0},
    {"networkAllowList", ATOLL_FIELD_STRING, AT(addresses), 0, 4096, NULL, 0},
    {"domainAllowList", ATOLL_FIELD_STRING, AT(domains), 0, 8192, NULL, 0},
    {"outboundProxyUrl", ATOLL_FIELD_STRING, AT(proxy), 0, 1024, NULL, 0},
    {"secrets", ATOLL_FIELD_JSON, AT(secrets), 0, 0, NULL, 0},
    {"cpu", ATOLL_FIELD_JSON, AT(cpu), 0, 0, NULL, 0},
    {"memory", ATOLL_FIELD_JSON, AT(memory), 0, 0, NULL, 0},
    {"disk", ATOLL_FIELD_JSON, AT(disk), 0, 0, NULL, 0},
    {"gpu", ATOLL_FIELD_U32, AT(gpus), 0, 64, NULL, 0},
    {"gpuType", ATOLL_FIELD_JSON, AT(gpu_types), 0, 0, NULL, 0},
    {"kvm", ATOLL_FIELD_BOOL, AT(kvm), 0, 0, NULL, 0},
    {"autoStopInterval", ATOLL_FIELD_JSON, AT(auto_stop), 0, 0, NULL, 0},
    {"autoPauseInterval", ATOLL_FIELD_JSON, AT(auto_pause), 0, 0, NULL, 0},
    {"autoArchiveInterval", ATOLL_FIELD_JSON, AT(auto_archive), 0, 0, NULL, 0},
    {"autoDeleteInterval", ATOLL_FIELD_JSON, AT(auto_delete), 0, 0, NULL, 0},
    {"ttlMinutes", ATOLL_FIELD_JSON, AT(ttl), 0, 0, NULL, 0},
    {"volumes", ATOLL_FIELD_JSON, AT(volumes), 0, 0, NULL, 0},
    {"buildInfo", ATOLL_FIELD_OBJECT, 0, 0, 0, build_fields, AT(has_build)},
    {"linkedSandbox", ATOLL_FIELD_STRING, AT(linked), 0, 64, NULL, 0},
    ATOLL_FIELDS_TOLERANT,
    {0},
};

static int refuse(struct atoll_error *err, const char *text)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s", text);
}

/* Values. */

static int take_minutes(const json_t *value, const char *name, int64_t otherwise, int64_t *ret,
                        struct atoll_error *err)
{
    int64_t minutes = json_integer_value(value);

    *ret = otherwise;
    if (!value || json_is_null(value))
        return 0;
    if (!json_is_integer(value) || minutes > MINUTES_MAX || minutes < -MINUTES_MAX)
        return atoll_fields_refuse(err, "", name, value, "a whole number of minutes");
    *ret = minutes;
    return 0;
}

int atoll_daytona_take_size(const json_t *value, const char *name, double *ret,
                            struct atoll_error *err)
{
    if (!value || json_is_null(value))
        return 0;
    if (!json_is_number(value) || !(json_number_value(value) > 0) ||
        json_number_value(value) > ATOLL_DAYTONA_SIZE_MAX_GIB)
        return atoll_fields_refuse(err, "", name, value, "a number above 0 and at most 4096");
    *ret = json_number_value(value);
    return 0;
}

static int take_limits(const struct atoll_daytona_create *q, struct atoll_limits *limits,
                       struct atoll_error *err)
{
    double cpu = 0, memory = 0, disk = 0;
    int r = atoll_daytona_take_size(q->cpu, "cpu", &cpu, err);

    if (r == 0)
        r = atoll_daytona_take_size(q->memory, "memory", &memory, err);
    if (r == 0)
        r = atoll_daytona_take_size(q->disk, "disk", &disk, err);
    if (r < 0)
        return r;
    limits->cpu_millis = cpu > 0 ? (uint32_t)(cpu * 1000) : limits->cpu_millis;
    limits->memory_bytes = memory > 0 ? (uint64_t)(memory * GIB) : limits->memory_bytes;
    limits->disk_bytes = disk > 0 ? (uint64_t)(disk * GIB) : limits->disk_bytes;
    limits->pids = PROCESSES;
    return 0;
}

/* Where the root comes from. */

static const struct size *find_size(const char *name)
{
    if (!name || !*name)
        return &sizes[0];
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(sizes); i++)
        if (strcmp(name, sizes[i].name) == 0)
            return &sizes[i];
    return NULL;
}

bool atoll_daytona_default_snapshot(size_t i, const char **ret_name, uint32_t *ret_cpus,
                                    uint32_t *ret_memory, uint32_t *ret_disk)
{
    if (i >= ATOLL_ARRAY_LEN(sizes))
        return false;
    *ret_name = sizes[i].name;
    *ret_cpus = sizes[i].cpus;
    *ret_memory = sizes[i].memory;
    *ret_disk = sizes[i].disk;
    return true;
}

static void take_size_row(const struct size *row, struct atoll_limits *limits)
{
    limits->cpu_millis = row->cpus * 1000;
    limits->memory_bytes = (uint64_t)row->memory << 30;
    limits->disk_bytes = (uint64_t)row->disk << 30;
}

/* By name, or by id. */
int atoll_daytona_snapshot_find(const struct atoll_api_call *call, const char *text,
                                struct atoll_template_view *ret, struct atoll_error *err)
{
    const char *tenant = call->caller.tenant;

    if (atoll_version_find(call->engine, text, ret, err) == 0 &&
        atoll_template_may_use(ret, tenant) && !atoll_template_is_retired(ret->name))
        return 0;
    if (atoll_template_is_reference(text) &&
        atoll_template_resolve(call->engine, tenant, text, ret, err) == 0)
        return 0;
    return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "Snapshot with ID or name %.200s not found",
                      text);
}

static int choose_snapshot(const struct atoll_api_call *call, const struct atoll_daytona_create *q,
                           struct atoll_body *body, struct atoll_options *o,
                           struct atoll_error *err)
{
    const struct size *row = find_size(q->snapshot);
    struct atoll_template_view t;
    uint64_t disk;
    char *reference;

    take_size_row(row ? row : &sizes[0], &o->limits);
    o->template_name = DEFAULT_TEMPLATE;
    if (row) {
        o->user_is_optional = !o->user && !q->has_build;
        o->user = o->user_is_optional ? ATOLL_DAYTONA_USER : o->user;
        return 0;
    }
    if (atoll_daytona_snapshot_find(call, q->snapshot, &t, err) < 0)
        return atoll_fail(
            err, ATOLL_ERR_INVALID_ARGUMENT, ENOENT,
            "Snapshot %.200s not found. Did you add it through the Daytona Dashboard?",
            q->snapshot);
    if (!atoll_daytona_snapshot_is_active(&t))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EPERM, "Snapshot %.200s is inactive",
                          q->snapshot);
    if (t.cpu_millis)
        o->limits.cpu_millis = t.cpu_millis;
    if (t.memory_bytes)
        o->limits.memory_bytes = t.memory_bytes;
    disk = atoll_daytona_snapshot_disk(&t);
    if (disk)
        o->limits.disk_bytes = disk;
    if (asprintf(&reference, *t.digest ? "%s@sha256:%s" : "%s", t.name, t.digest) < 0)
        return atoll_fields_no_memory(err);
    atoll_body_take(body, reference);
    o->template_name = reference;
    return 0;
}

/* Facts. */

static json_t *build_info(const struct atoll_daytona_create *q)
{
    char now[ATOLL_CLOCK_TEXT_MAX];

    atoll_clock_format(q->asked_unix_ms, now);
    return json_pack("{s:s,s:s,s:s,s:s}", "dockerfileContent", q->dockerfile, "createdAt", now,
                     "updatedAt", now, "snapshotRef", "");
}

static int make_facts(const struct atoll_daytona_create *q, struct atoll_body *body,
                      const char **ret, struct atoll_error *err)
{
    json_t *facts = atoll_facts_new(&atoll_daytona_kind);
    const char *proxy = NULL;
    char *text;
    int r = q->proxy && *q->proxy ? atoll_daytona_proxy_show(q->proxy, body, &proxy, err) : 0;

    atoll_fact_put_text(facts, "outboundProxyUrl", proxy);
    atoll_fact_put_text(facts, "snapshot",
                        q->snapshot && *q->snapshot ? q->snapshot : sizes[0].name);
    atoll_fact_put_text(facts, "target", q->target);
    atoll_fact_put_text(facts, "networkAllowList", q->addresses);
    atoll_fact_put_text(facts, "domainAllowList", q->domains);
    (void)json_object_set_new(facts, "public", json_boolean(q->is_public));
    (void)json_object_set_new(facts, "networkBlockAll", json_boolean(q->block_all));
    (void)json_object_set_new(facts, ATOLL_DAYTONA_AUTO_STOP, json_integer(q->minutes.stop));
    (void)json_object_set_new(facts, ATOLL_DAYTONA_AUTO_PAUSE, json_integer(q->minutes.pause));
    (void)json_object_set_new(facts, ATOLL_DAYTONA_AUTO_ARCHIVE, json_integer(q->minutes.archive));
    (void)json_object_set_new(facts, ATOLL_DAYTONA_AUTO_DELETE, json_integer(q->minutes.destroy));
    if (q->minutes.ttl > 0)
        (void)json_object_set_new(facts, "destroyAt",
                                  json_integer(q->asked_unix_ms + q->minutes.ttl * MINUTE_MS));
    if (json_is_array(q->volumes))
        (void)json_object_set(facts, "volumes", (json_t *)q->volumes);
    if (q->has_build)
        (void)json_object_set_new(facts, "buildInfo", build_info(q));
    text = r == 0 ? atoll_json_dump(facts, JSON_COMPACT) : NULL;
    json_decref(facts);
    if (!text)
        return atoll_fields_no_memory(err);
    atoll_body_take(body, text);
    *ret = text;
    return strlen(text) <= ATOLL_DAYTONA_FACTS_MAX ? 0 : refuse(err, "the request is too large");
}

/* Checks. */

static int take_intervals(struct atoll_daytona_create *q, struct atoll_error *err)
{
    struct atoll_daytona_minutes *m = &q->minutes;
    int r = take_minutes(q->auto_pause, ATOLL_DAYTONA_AUTO_PAUSE, 0, &m->pause, err);

    if (r == 0)
        r = take_minutes(q->auto_stop, ATOLL_DAYTONA_AUTO_STOP, m->pause > 0 ? 0 : DEFAULT_STOP_MIN,
                         &m->stop, err);
    if (r == 0)
        r = take_minutes(q->auto_archive, ATOLL_DAYTONA_AUTO_ARCHIVE, DEFAULT_ARCHIVE_MIN,
                         &m->archive, err);
    if (r == 0)
        r = take_minutes(q->auto_delete, ATOLL_DAYTONA_AUTO_DELETE, -1, &m->destroy, err);
    if (r == 0)
        r = take_minutes(q->ttl, "ttlMinutes", 0, &m->ttl, err);
    if (r < 0)
        return r;
    if (m->stop < 0)
        return refuse(err, "Auto-stop interval must be non-negative");
    if (m->pause < 0)
        return refuse(err, "Auto-pause interval must be non-negative");
    if (m->archive < 0)
        return refuse(err, "Auto-archive interval must be non-negative");
    if (m->ttl < 0)
        return refuse(err, "TTL must be non-negative");
    m->archive = atoll_daytona_archive_minutes(m->archive);
    if (m->stop > 0 && m->pause > 0)
        return refuse(err, "Auto-stop and auto-pause intervals are mutually exclusive");
    return 0;
}

static bool is_given(const json_t *value)
{
    return value && !json_is_null(value);
}

/* Refuses what would change the meaning of the sandbox and is not possible. */
static int check_abilities(const struct atoll_daytona_create *q, struct atoll_error *err)
{
    if (q->gpus > 0 || json_array_size(q->gpu_types) > 0 || json_is_string(q->gpu_types))
        return refuse(err, "Sandboxes have no GPUs here: leave out gpu and gpuType");
    if (q->kvm)
        return refuse(err, "Sandboxes have no /dev/kvm here: leave out kvm");
    if (q->linked && *q->linked)
        return refuse(err, "Sandboxes cannot be linked here: leave out linkedSandbox");
    if (json_array_size(q->secrets) > 0 || json_object_size(q->secrets) > 0)
        return refuse(err, "Secrets in variables are not supported: store the value with \"atoll "
                           "secret create\" and name it in a transform of the network policy");
    return 0;
}

static int check(const struct atoll_daytona_create *q, struct atoll_error *err)
{
    bool snapshot = q->snapshot && *q->snapshot;
    int r = q->name && *q->name ? atoll_name_check(q->name, err) : 0;

    if (r == 0)
        r = check_abilities(q, err);
    if (r == 0)
        r = atoll_daytona_proxy_check(q, err);
    if (r == 0 && snapshot && q->has_build)
        r = refuse(err, "Cannot specify a snapshot when using a build info entry");
    if (r == 0 && q->has_build && !q->dockerfile)
        r = refuse(err, "buildInfo.dockerfileContent is missing");
    if (r == 0 && snapshot && (is_given(q->cpu) || is_given(q->memory) || is_given(q->disk)))
        r = refuse(err, "Cannot specify Sandbox resources when using a snapshot");
    return r < 0 || !is_given(q->labels) ? r : atoll_metadata_check(q->labels, "labels", err);
}

static int take_volumes(const json_t *volumes, struct atoll_body *body, struct atoll_options *o,
                        struct atoll_error *err)
{
    size_t n = json_array_size(volumes);
    int r = 0;

    if (n == 0)
        return is_given(volumes) && !json_is_array(volumes)
                   ? atoll_fields_refuse(err, "", "volumes", volumes, "an array")
                   : 0;
    if (n > ATOLL_MOUNTS_MAX)
        return atoll_fields_refuse(err, "", "volumes", NULL, "at most 8 volumes");
    for (size_t i = 0; r == 0 && i < n; i++) {
        const json_t *v = json_array_get(volumes, i);
        const char *id = json_string_value(json_object_get(v, "volumeId"));
        const char *path = json_string_value(json_object_get(v, "mountPath"));
        if (!atoll_mount_is_named(id, path))
            return refuse(err, "a volume needs a volumeId and an absolute mountPath");
        if (json_is_string(json_object_get(v, "subpath")))
            return atoll_fail(err, ATOLL_ERR_UNIMPLEMENTED, ENOTSUP,
                              "volumes are mounted whole: subpath is not supported");
        r = atoll_mounts_add(body, o, id, path, false, err);
    }
    return r;
}

static int choose_network(const struct atoll_api_call *call, const struct atoll_daytona_create *q,
                          struct atoll_body *body, struct atoll_options *o, struct atoll_error *err)
{
    char *policy = NULL;
    json_t *proxy = atoll_daytona_proxy_policy(q->proxy);
    int r = atoll_daytona_policy(q->block_all, q->addresses, q->domains, proxy, &policy, err);

    json_decref(proxy);
    if (policy)
        atoll_body_take(body, policy);
    o->network_is_given = true;
    o->network = atoll_api_network_mode(call);
    o->network_json = o->network == ATOLL_NETWORK_NONE ? NULL : policy;
    return r;
}

static int prepare(const struct atoll_api_call *call, struct atoll_daytona_create *q,
                   struct atoll_body *body, struct atoll_options *o, struct atoll_error *err)
{
    int r = take_intervals(q, err);
    int64_t idle = ATOLL_MAX(q->minutes.stop, q->minutes.pause);

    if (r == 0)
        r = check(q, err);
    if (r < 0)
        return r;
    *o = (struct atoll_options){
        .env = q->env,
        .owner = call->caller.tenant,
        .name = q->name && *q->name ? q->name : NULL,
        .user = q->user && *q->user ? q->user : NULL,
        .lifetime = {.idle_s = (uint32_t)idle * 60,
                     .at_deadline =
                         q->minutes.pause > 0 ? ATOLL_DEADLINE_PAUSE : ATOLL_DEADLINE_DESTROY,
                     .persistent = q->minutes.destroy != 0},
    };
    r = choose_snapshot(call, q, body, o, err);
    if (r == 0)
        r = atoll_daytona_proxy_env(q->proxy, body, &o->env, err);
    if (r == 0)
        r = take_limits(q, &o->limits, err);
    if (r == 0)
        r = atoll_metadata_take(q->labels, body, &o->metadata_json, err);
    if (r == 0)
        r = take_volumes(q->volumes, body, o, err);
    if (r == 0)
        r = make_facts(q, body, &o->facade_json, err);
    return r < 0 ? r : choose_network(call, q, body, o, err);
}

/* Creating the sandbox. */

static void forgotten(void *arg ATOLL_UNUSED, const struct atoll_error *error ATOLL_UNUSED)
{
}

void atoll_daytona_created(void *arg, struct atoll_sandbox *sandbox,
                           const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;
    struct atoll_sandbox_view view;

    if (error) {
        atoll_api_fail(call, error);
        return;
    }
    atoll_sandbox_get(sandbox, &view);
    if (atoll_api_client_is_gone(call) && !call->idempotency) {
        /* The client did not receive the id, so no client could destroy the sandbox. */
        atoll_engine_destroy(call->engine, view.id, ATOLL_DAYTONA_WHO_GONE, forgotten, NULL);
        atoll_api_drop(call);
        return;
    }
    /* For the audit log. */
    (void)snprintf(call->params.id, sizeof(call->params.id), "%s", view.id);
    atoll_daytona_reply_sandbox(call, 200, view.id);
}

int atoll_daytona_create_decode(const struct atoll_api_call *call, const void *bytes, size_t n,
                                int64_t asked_unix_ms, struct atoll_body *body,
                                struct atoll_daytona_create *ret, struct atoll_options *ret_options,
                                struct atoll_error *err)
{
    int r = atoll_body_decode(body, bytes, n, fields, ret, err);

    ret->asked_unix_ms = asked_unix_ms;
    ret->text = bytes;
    ret->text_len = n;
    return r < 0 ? r : prepare(call, ret, body, ret_options, err);
}

void atoll_daytona_create(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct atoll_daytona_create q = {0};
    struct atoll_options options;
    struct atoll_error error;
    struct atoll_body body;

    if (atoll_idempotency_check(call, bytes, n))
        return;
    if (atoll_daytona_create_decode(call, bytes, n, atoll_clock_unix_ms(), &body, &q, &options,
                                    &error) < 0 ||
        atoll_daytona_check_name(call, options.name, &error) < 0)
        atoll_api_fail(call, &error);
    else if (q.has_build)
        atoll_daytona_create_built(call, &q, &options);
    else
        atoll_engine_create(call->engine, &options, atoll_daytona_created, call);
    atoll_body_done(&body);
}

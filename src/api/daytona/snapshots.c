/*
 * Snapshots: templates of the tenant and of all tenants, builds that will become templates, and the
 * sizes that every account of Daytona has.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "api/daytona/builds.h"
#include "api/kit/json_value.h"
#include "base/text.h"
#include "engine/json_memory.h"

#define GIB 1073741824.0
#define INACTIVE "daytona-inactive" /* tag of a version that no sandbox may be made from */
#define LIMIT 100
#define DISK_GIB 3 /* of a sandbox from a snapshot whose disk is unknown, as from the default one */
#define HOST "host"

/* One of the three. */
struct item {
    const struct atoll_template_view *template;
    const struct atoll_make_view *build;
    const char *size;
    uint32_t cpus, memory, disk;
};

static bool has_tag(const char *tags, const char *tag)
{
    size_t n = strlen(tag);

    for (const char *p = tags ? strstr(tags, tag) : NULL; p; p = strstr(p + 1, tag))
        if ((p == tags || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0'))
            return true;
    return false;
}

static const char *name_of(const struct item *item)
{
    if (item->size)
        return item->size;
    return item->template ? item->template->name : item->build->name;
}

/* Bytes; 0: unknown. The label is what the request for a build said; a snapshot of a sandbox inherits it from
 * what the sandbox was made of, but has the sandbox's own size. */
uint64_t atoll_daytona_snapshot_disk(const struct atoll_template_view *t)
{
    json_t *config = atoll_json_load_own(t->config_json);
    const char *label = json_string_value(
        json_object_get(json_object_get(config, "Labels"), ATOLL_DAYTONA_DISK_LABEL));
    uint64_t gib = 0;

    if (!label || atoll_text_u64(label, 1, ATOLL_DAYTONA_SIZE_MAX_GIB, &gib) < 0)
        gib = 0;
    json_decref(config);
    return t->disk_bytes ? t->disk_bytes : gib << 30;
}

/* Views. */

static const char *state_of(const struct item *item)
{
    static const char *const states[] = {[ATOLL_MAKE_WAITING] = "pending",
                                         [ATOLL_MAKE_RUNNING] = "building",
                                         [ATOLL_MAKE_READY] = "active",
                                         [ATOLL_MAKE_FAILED] = "build_failed",
                                         [ATOLL_MAKE_CANCELED] = "build_failed"};

    if (item->build)
        return states[item->build->state];
    return item->template && has_tag(item->template->tags, INACTIVE) ? "inactive" : "active";
}

static void view_config(struct atoll_json_out *out, const struct atoll_template_view *t)
{
    json_t *config = t ? atoll_json_load_own(t->config_json) : NULL;
    const json_t *entrypoint = json_object_get(config, "Entrypoint");
    uint64_t disk = t ? atoll_daytona_snapshot_disk(t) : 0;

    if (json_is_array(entrypoint))
        atoll_json_value(out, "entrypoint", entrypoint);
    else
        atoll_json_null(out, "entrypoint");
    atoll_json_i64(out, "disk", disk ? (int64_t)ceil((double)disk / GIB) : DISK_GIB);
    json_decref(config);
}

static void view_sizes(struct atoll_json_out *out, const struct item *item)
{
    const struct atoll_template_view *t = item->template;

    if (item->size) {
        atoll_json_null(out, "size");
        atoll_json_null(out, "entrypoint");
        atoll_json_u64(out, "cpu", item->cpus);
        atoll_json_u64(out, "mem", item->memory);
        atoll_json_u64(out, "disk", item->disk);
        return;
    }
    if (t)
        atoll_json_double(out, "size", (double)t->size_bytes / GIB, 4);
    else
        atoll_json_null(out, "size");
    view_config(out, t);
    atoll_json_double(out, "cpu", t && t->cpu_millis ? t->cpu_millis / 1000.0 : 1, 4);
    atoll_json_double(out, "mem", t && t->memory_bytes ? (double)t->memory_bytes / GIB : 1, 4);
}

static void view_times(struct atoll_json_out *out, const struct item *item)
{
    int64_t created = item->template ? item->template->created_unix_ms
                      : item->build  ? item->build->created_unix_ms
                                     : 1;

    created = created ? created : 1;
    atoll_json_time(out, "createdAt", created);
    atoll_json_time(out, "updatedAt",
                    item->build && item->build->ended_unix_ms ? item->build->ended_unix_ms
                                                              : created);
    atoll_json_null(out, "lastUsedAt");
}

static void view_build_info(struct atoll_json_out *out, const struct item *item)
{
    const struct atoll_template_view *t = item->template;

    if (!t || strcmp(t->source, "dockerfile") != 0)
        return;
    atoll_json_open(out, "buildInfo", '{');
    atoll_json_text(out, "dockerfileContent", t->definition);
    atoll_json_time(out, "createdAt", t->created_unix_ms);
    atoll_json_time(out, "updatedAt", t->created_unix_ms);
    atoll_json_text(out, "snapshotRef", t->digest);
    atoll_json_close(out, '}');
}

static void view(struct atoll_json_out *out, const struct atoll_api_call *call,
                 const struct item *item)
{
    const struct atoll_template_view *t = item->template;
    const struct atoll_make_view *b = item->build;
    bool failed = b && b->state >= ATOLL_MAKE_FAILED;

    atoll_json_open(out, NULL, '{');
    atoll_json_text(out, "id", t && t->id && *t->id ? t->id : b ? b->id : name_of(item));
    atoll_json_text(out, "organizationId", call->caller.tenant);
    atoll_json_bool(out, "general", !b && (!t || !*t->owner));
    atoll_json_text(out, "name", name_of(item));
    if (t && strcmp(t->source, "image") == 0)
        atoll_json_text(out, "imageName", t->definition);
    atoll_json_text(out, "state", state_of(item));
    view_sizes(out, item);
    atoll_json_u64(out, "gpu", 0);
    atoll_json_text_or_null(out, "errorReason", failed ? b->error->text : "");
    view_times(out, item);
    view_build_info(out, item);
    atoll_json_open(out, "regionIds", '[');
    atoll_json_text(out, NULL, ATOLL_DAYTONA_REGION);
    atoll_json_close(out, ']');
    atoll_json_text_or_null(out, "sourceSandboxId", t ? t->sandbox_id : "");
    atoll_json_text(out, "sandboxClass", "container");
    atoll_json_close(out, '}');
}

static void reply(struct atoll_api_call *call, int status, const struct item *item)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_api_reply_init(&buf, &out);
    view(&out, call, item);
    atoll_api_reply(call, status, &out);
}

/* Finding. */

static bool is_own_build(const struct atoll_api_call *call, const struct atoll_make_view *b)
{
    return strcmp(b->tenant ? b->tenant : "", call->caller.tenant) == 0 && b->name &&
           strcmp(b->name, ATOLL_DAYTONA_BUILD_TEMPLATE) != 0;
}

/* The newest build of the name, or the one of the id. */
static bool find_build(const struct atoll_api_call *call, const char *text,
                       struct atoll_make_view *ret)
{
    size_t n = strcspn(text, ":");
    struct atoll_make_view b;
    bool found = false;

    for (size_t pos = 0; atoll_make_next(call->engine, &pos, &b);) {
        if (!is_own_build(call, &b) || b.state == ATOLL_MAKE_READY)
            continue;
        if (strcmp(b.id, text) != 0 && (strlen(b.name) != n || strncmp(b.name, text, n) != 0))
            continue;
        if (!found || b.created_unix_ms >= ret->created_unix_ms)
            *ret = b;
        found = true;
    }
    return found;
}

/* The views are filled as far as they are needed. NOT_FOUND. */
static int find(const struct atoll_api_call *call, const char *text, struct item *ret,
                struct atoll_template_view *t, struct atoll_make_view *b, struct atoll_error *err)
{
    const char *name;

    *ret = (struct item){0};
    for (size_t i = 0;
         atoll_daytona_default_snapshot(i, &name, &ret->cpus, &ret->memory, &ret->disk); i++)
        if (strcmp(name, text) == 0) {
            ret->size = name;
            return 0;
        }
    if (find_build(call, text, b)) {
        ret->build = b;
        return 0;
    }
    if (atoll_daytona_snapshot_find(call, text, t, err) < 0)
        return -ENOENT;
    ret->template = t;
    return 0;
}

int atoll_daytona_snapshot_build(const struct atoll_api_call *call, const char *text,
                                 char out[ATOLL_VERSION_ID_LEN + 1], struct atoll_error *err)
{
    struct atoll_template_view t;
    struct atoll_make_view b;
    struct item item;
    int r = find(call, text, &item, &t, &b, err);

    if (r == 0 && item.size)
        r = atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "Snapshot %.100s has no build", text);
    if (r == 0)
        (void)snprintf(out, ATOLL_VERSION_ID_LEN + 1, "%s", item.build ? b.id : t.id);
    return r;
}

bool atoll_daytona_snapshot_is_active(const struct atoll_template_view *t)
{
    return !has_tag(t->tags, INACTIVE);
}

/* Listing. */

struct listing {
    struct atoll_api_call *call;
    struct atoll_json_out *out;
    const char *name, *sandbox_id;
    uint64_t page, limit, total;
};

static void list_item(struct listing *l, const struct item *item)
{
    if (l->name && !strstr(name_of(item), l->name))
        return;
    if (l->sandbox_id &&
        (!item->template || strcmp(item->template->sandbox_id, l->sandbox_id) != 0))
        return;
    if (l->total >= (l->page - 1) * l->limit && l->total < l->page * l->limit)
        view(l->out, l->call, item);
    l->total++;
}

static void list_all(struct listing *l)
{
    struct atoll_template_view t;
    struct atoll_make_view b;
    struct item item = {0};

    for (size_t pos = 0; atoll_make_next(l->call->engine, &pos, &b);)
        if (is_own_build(l->call, &b) && b.state != ATOLL_MAKE_READY)
            list_item(l, &(struct item){.build = &b});
    for (size_t pos = 0; atoll_templates_next(l->call->engine, &pos, &t);)
        if (atoll_template_may_use(&t, l->call->caller.tenant) && strcmp(t.name, HOST) != 0 &&
            strcmp(t.name, ATOLL_DAYTONA_BUILD_TEMPLATE) != 0)
            list_item(l, &(struct item){.template = &t});
    for (size_t i = 0;
         atoll_daytona_default_snapshot(i, &item.size, &item.cpus, &item.memory, &item.disk); i++)
        list_item(l, &item);
}

void atoll_daytona_snapshot_list(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                 size_t n ATOLL_UNUSED)
{
    struct atoll_buf buf;
    struct atoll_json_out out;
    struct listing l = {.call = call, .out = &out, .page = 1, .limit = LIMIT};
    struct atoll_error error;
    int r = atoll_api_query_u64(call, "page", 1, UINT32_MAX, &l.page, &error);

    if (r == 0)
        r = atoll_api_query_u64(call, "limit", 1, 200, &l.limit, &error);
    if (!atoll_api_reply_begin(call, r < 0 ? &error : NULL, &buf, &out))
        return;
    l.name = atoll_http_query(call->req, "name");
    l.sandbox_id = atoll_http_query(call->req, "sourceSandboxId");
    atoll_json_open(&out, NULL, '{');
    atoll_json_open(&out, "items", '[');
    list_all(&l);
    atoll_json_close(&out, ']');
    atoll_json_u64(&out, "total", l.total);
    atoll_json_u64(&out, "page", l.page);
    atoll_json_u64(&out, "totalPages", (l.total + l.limit - 1) / l.limit);
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

void atoll_daytona_snapshot_get(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                size_t n ATOLL_UNUSED)
{
    struct atoll_template_view t;
    struct atoll_make_view b;
    struct atoll_error error;
    struct item item;

    if (find(call, call->params.template, &item, &t, &b, &error) < 0)
        atoll_api_fail(call, &error);
    else
        reply(call, 200, &item);
}

/* Creating. */

struct request {
    const char *name, *image, *dockerfile;
    const char *const *entrypoint, *const *hashes;
    uint32_t cpu_millis, disk;
    uint64_t memory;
    bool has_build;
};

#define AT(member) offsetof(struct request, member)
static const struct atoll_field build_fields[] = {
    {"dockerfileContent", ATOLL_FIELD_STRING, AT(dockerfile), 1, 1024 * 1024, NULL, 0},
    {"contextHashes", ATOLL_FIELD_STRINGS, AT(hashes), 0, ATOLL_DAYTONA_CONTEXTS_MAX, NULL, 0},
    ATOLL_FIELDS_TOLERANT,
    {0},
};
static const struct atoll_field fields[] = {
    {"name", ATOLL_FIELD_STRING, AT(name), 1, 190, NULL, 0},
    {"imageName", ATOLL_FIELD_STRING, AT(image), 1, 255, NULL, 0},
    {"entrypoint", ATOLL_FIELD_STRINGS, AT(entrypoint), 0, 64, NULL, 0},
    {"cpu", ATOLL_FIELD_MILLI, AT(cpu_millis), 0, 1024, NULL, 0},
    {"memory", ATOLL_FIELD_U64, AT(memory), 0, 4096, NULL, 0},
    {"disk", ATOLL_FIELD_U32, AT(disk), 0, ATOLL_DAYTONA_SIZE_MAX_GIB, NULL, 0},
    {"buildInfo", ATOLL_FIELD_OBJECT, 0, 0, 0, build_fields, AT(has_build)},
    ATOLL_FIELDS_TOLERANT,
    {0},
};

static bool is_image(const char *text)
{
    return text[strcspn(text, " \t\r\n\"'\\$#")] == '\0';
}

static int check(const struct atoll_api_call *call, const struct request *q,
                 struct atoll_error *err)
{
    struct atoll_template_view t;
    struct atoll_make_view b;
    struct item item;
    size_t n = q->name ? strcspn(q->name, ":") : 0;
    char name[65];

    (void)snprintf(name, sizeof(name), "%.*s", (int)ATOLL_MIN(n, (size_t)64),
                   q->name ? q->name : "");
    if (!q->name || n > 64 || !atoll_text_is_name(name) || !atoll_template_is_reference(q->name))
        return atoll_fail(
            err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
            "name must have up to 64 letters, digits, \".\", \"_\" and \"-\", and may "
            "be followed by \":\" and a tag");
    if (!q->image == !q->dockerfile)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "Must specify either an image name or build info");
    if (q->image && !is_image(q->image))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "Invalid image name: %.100s",
                          q->image);
    if (find(call, q->name, &item, &t, &b, err) == 0 &&
        !(item.build && b.state >= ATOLL_MAKE_FAILED))
        return atoll_fail(err, ATOLL_ERR_ALREADY_EXISTS, EEXIST,
                          "Snapshot with name \"%.100s\" already exists", q->name);
    return 0;
}

static int start(const struct atoll_api_call *call, const struct request *q,
                 struct atoll_error *err)
{
    char from[300], id[ATOLL_VERSION_ID_LEN + 1];
    const struct atoll_daytona_definition definition = {
        .dockerfile = q->image ? from : q->dockerfile,
        .hashes = q->hashes && q->hashes[0] ? q->hashes : NULL,
        .entrypoint = q->entrypoint && q->entrypoint[0] ? q->entrypoint : NULL,
        .name = q->name,
        .cpu_millis = q->cpu_millis,
        .memory_bytes = q->memory << 30,
        .disk_gib = q->disk,
    };

    (void)snprintf(from, sizeof(from), "FROM %s", q->image ? q->image : "");
    return atoll_daytona_build_start(call, &definition, id, err);
}

void atoll_daytona_snapshot_create(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct request q = {0};
    struct atoll_template_view t;
    struct atoll_make_view b;
    struct atoll_error error;
    struct atoll_body body;
    struct item item;
    int r = atoll_body_decode(&body, bytes, n, fields, &q, &error);

    if (r == 0)
        r = check(call, &q, &error);
    if (r == 0)
        r = start(call, &q, &error);
    if (r == 0)
        r = find(call, q.name, &item, &t, &b, &error);
    if (r < 0)
        atoll_api_fail(call, &error);
    else
        reply(call, 200, &item);
    atoll_body_done(&body);
}

/* Changing. */

static void gone(void *arg, const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;

    if (error)
        atoll_api_fail(call, error);
    else
        atoll_api_reply_empty(call, 200);
}

/* Finds a template of the caller's tenant; false: the call has been answered. */
static bool find_own(struct atoll_api_call *call, struct atoll_template_view *t)
{
    struct atoll_make_view b;
    struct atoll_error error;
    struct item item;

    if (find(call, call->params.template, &item, t, &b, &error) < 0) {
        atoll_api_fail(call, &error);
        return false;
    }
    if (item.template && strcmp(t->owner, call->caller.tenant) == 0)
        return true;
    if (!item.build)
        atoll_daytona_refuse(call, 403, NULL, "Snapshot %.100s belongs to all organizations",
                             call->params.template);
    else if (atoll_make_cancel(call->engine, b.id, ATOLL_DAYTONA_WHO, &error) < 0)
        atoll_api_fail(call, &error);
    else
        atoll_api_reply_empty(call, 200);
    return false;
}

void atoll_daytona_snapshot_remove(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                   size_t n ATOLL_UNUSED)
{
    struct atoll_template_view t;

    if (find_own(call, &t))
        atoll_templates_retire(call->engine, t.owner, t.name, gone, call);
}

static void activated(void *arg, const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;

    if (error)
        atoll_api_fail(call, error);
    else
        atoll_daytona_snapshot_get(call, NULL, 0);
}

void atoll_daytona_snapshot_activate(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                     size_t n ATOLL_UNUSED)
{
    struct atoll_template_view t;
    char reference[ATOLL_TEMPLATE_REFERENCE_MAX];

    if (!find_own(call, &t))
        return;
    if (!has_tag(t.tags, INACTIVE)) {
        atoll_daytona_refuse(call, 400, NULL, "Snapshot %.100s is already active", t.name);
        return;
    }
    (void)snprintf(reference, sizeof(reference), "%s:" INACTIVE, t.name);
    atoll_templates_remove(call->engine, t.owner, reference, activated, call);
}

void atoll_daytona_snapshot_deactivate(struct atoll_api_call *call,
                                       const uint8_t *body ATOLL_UNUSED, size_t n ATOLL_UNUSED)
{
    struct atoll_template_view t;
    struct atoll_error error;
    char reference[ATOLL_TEMPLATE_REFERENCE_MAX];

    if (!find_own(call, &t))
        return;
    (void)snprintf(reference, sizeof(reference), "%s@sha256:%s", t.name, t.digest);
    if (atoll_template_tag(call->engine, t.owner, reference, INACTIVE, &error) < 0)
        atoll_api_fail(call, &error);
    else
        atoll_api_reply_empty(call, 204);
}

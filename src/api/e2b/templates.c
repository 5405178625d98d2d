/*
 * Templates for E2B's clients: the environments of the registry with their names and aliases, and
 * the engine's templates that no environment shadows. An environment is shown without an owner and
 * has one build.
 */
#include <errno.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/e2b/e2b_internal.h"
#include "base/clock.h"

#define MIB UINT64_C(1048576)
#define REMOVE_MS 3000
#define REMOVE_AGAIN_MS 50

static bool has_version(const struct atoll_e2b_template *t)
{
    return t->has_view && !t->is_environment && t->view.id && *t->view.id;
}

static const char *id_of(const struct atoll_e2b_template *t)
{
    return t->is_environment ? t->environment.name : t->view.name;
}

void atoll_e2b_template_build_id(const struct atoll_e2b_template *t,
                                 char out[ATOLL_VERSION_ID_LEN + 1])
{
    uint8_t sha[SHA256_DIGEST_LENGTH];
    char text[200];
    int n;

    if (has_version(t)) {
        (void)snprintf(out, ATOLL_VERSION_ID_LEN + 1, "%s", t->view.id);
        return;
    }
    /* A UUID, since clients expect one. */
    n = snprintf(text, sizeof(text), "%.64s\n%.72s", id_of(t), t->has_view ? t->view.digest : "");
    (void)SHA256((const uint8_t *)text, (size_t)n, sha);
    (void)snprintf(out, ATOLL_VERSION_ID_LEN + 1,
                   "%02x%02x%02x%02x-%02x%02x-4%x%02x-a%x%02x-%02x%02x%02x%02x%02x%02x", sha[0],
                   sha[1], sha[2], sha[3], sha[4], sha[5], sha[6] & 15, sha[7], sha[8] & 15, sha[9],
                   sha[10], sha[11], sha[12], sha[13], sha[14], sha[15]);
}

int64_t atoll_e2b_template_created(const struct atoll_api_call *call,
                                   const struct atoll_e2b_template *t)
{
    return t->has_view && t->view.created_unix_ms ? t->view.created_unix_ms
                                                  : call->api->started_unix_ms;
}

static bool is_public(const struct atoll_e2b_template *t)
{
    return t->is_environment || !t->view.owner || !*t->view.owner ||
           (t->view.shares && strcmp(t->view.shares, "*") == 0);
}

static void view_names(struct atoll_json_out *out, const char *key,
                       const struct atoll_e2b_template *t)
{
    const json_t *aliases = t->environment.aliases;

    atoll_json_open(out, key, '[');
    atoll_json_text(out, NULL, id_of(t));
    for (size_t i = 0; i < json_array_size(aliases); i++)
        atoll_json_text(out, NULL, json_string_value(json_array_get(aliases, i)));
    atoll_json_close(out, ']');
}

static void view_size(struct atoll_json_out *out, uint32_t cpu_millis, uint64_t memory_bytes,
                      uint64_t disk_bytes)
{
    const struct atoll_limits d = atoll_limits_default();

    cpu_millis = cpu_millis ? cpu_millis : d.cpu_millis;
    atoll_json_u64(out, "cpuCount", (cpu_millis + 999) / 1000);
    atoll_json_u64(out, "memoryMB", (memory_bytes ? memory_bytes : d.memory_bytes) / MIB);
    atoll_json_u64(out, "diskSizeMB", (disk_bytes ? disk_bytes : d.disk_bytes) / MIB);
    atoll_json_text(out, "envdVersion", ATOLL_E2B_ENVD_VERSION);
}

/* Uses of a template are not counted. */
static void view_common(struct atoll_json_out *out, const struct atoll_api_call *call,
                        const struct atoll_e2b_template *t)
{
    atoll_json_text(out, "templateID", id_of(t));
    atoll_json_bool(out, "public", is_public(t));
    view_names(out, "aliases", t);
    view_names(out, "names", t);
    atoll_json_time(out, "createdAt", atoll_e2b_template_created(call, t));
    atoll_json_time(out, "updatedAt", atoll_e2b_template_created(call, t));
    atoll_json_null(out, "lastSpawnedAt");
    atoll_json_u64(out, "spawnCount", 0);
}

static void view_listed(struct atoll_json_out *out, const struct atoll_api_call *call,
                        const struct atoll_e2b_template *t)
{
    const struct atoll_limits *l = &t->environment.limits;
    char build[ATOLL_VERSION_ID_LEN + 1];

    atoll_e2b_template_build_id(t, build);
    atoll_json_open(out, NULL, '{');
    view_common(out, call, t);
    atoll_json_text(out, "buildID", build);
    view_size(out, l->cpu_millis, l->memory_bytes, l->disk_bytes);
    atoll_json_null(out, "createdBy");
    atoll_json_u64(out, "buildCount", has_version(t) ? t->view.version_count : 1);
    atoll_json_text(out, "buildStatus", "ready");
    atoll_json_close(out, '}');
}

static const struct atoll_registry *registry_of(const struct atoll_api_call *call)
{
    struct atoll_sessions *sessions = call->api->config.sessions;
    return sessions ? atoll_sessions_registry(sessions) : NULL;
}

void atoll_e2b_templates(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                         size_t n ATOLL_UNUSED)
{
    const struct atoll_registry *registry = registry_of(call);
    struct atoll_registry_item item;
    struct atoll_template_view view;
    struct atoll_e2b_template t;
    struct atoll_buf buf;
    struct atoll_json_out out;
    size_t pos = 0;

    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '[');
    while (registry && atoll_registry_next(registry, ATOLL_REGISTRY_ENVIRONMENT, &pos, &item))
        if (atoll_e2b_template_find(call, item.name, &t, NULL) == 0 && t.is_environment)
            view_listed(&out, call, &t);
    for (pos = 0; atoll_templates_next(call->engine, &pos, &view);)
        if (atoll_e2b_template_sees(call, &view) &&
            atoll_e2b_template_find(call, view.name, &t, NULL) == 0 && !t.is_environment)
            view_listed(&out, call, &t);
    atoll_json_close(&out, ']');
    atoll_api_reply(call, 200, &out);
}

/* One template. */

static void view_build(struct atoll_json_out *out, const char *id, int64_t created_unix_ms)
{
    atoll_json_text(out, "buildID", id);
    atoll_json_text(out, "status", "ready");
    atoll_json_time(out, "createdAt", created_unix_ms);
    atoll_json_time(out, "updatedAt", created_unix_ms);
    atoll_json_time(out, "finishedAt", created_unix_ms);
}

static void view_version(void *arg, const struct atoll_template_view *version,
                         const char *tags ATOLL_UNUSED)
{
    struct atoll_json_out *out = arg;

    atoll_json_open(out, NULL, '{');
    view_build(out, version->id, version->created_unix_ms);
    view_size(out, version->cpu_millis, version->memory_bytes, 0);
    atoll_json_close(out, '}');
}

static void view_builds(struct atoll_json_out *out, const struct atoll_api_call *call,
                        const struct atoll_e2b_template *t)
{
    const struct atoll_limits *l = &t->environment.limits;
    char build[ATOLL_VERSION_ID_LEN + 1];

    if (has_version(t)) {
        atoll_template_each_version(call->engine, t->view.owner, t->view.name, view_version, out);
        return;
    }
    atoll_e2b_template_build_id(t, build);
    atoll_json_open(out, NULL, '{');
    view_build(out, build, atoll_e2b_template_created(call, t));
    view_size(out, l->cpu_millis, l->memory_bytes, l->disk_bytes);
    atoll_json_close(out, '}');
}

bool atoll_e2b_template_in_path(struct atoll_api_call *call, const char *asked,
                                struct atoll_e2b_template *ret)
{
    struct atoll_error error;
    char name[256];

    (void)snprintf(name, sizeof(name), "%s", asked);
    for (char *p = name; atoll_http_has_encoded_slash(call->req) && (p = strstr(p, "%2F"));) {
        *p++ = '/';
        memmove(p, p + 2, strlen(p + 2) + 1);
    }
    if (atoll_e2b_template_find(call, name, ret, &error) == 0)
        return true;
    atoll_api_fail(call, &error);
    return false;
}

void atoll_e2b_template_get(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                            size_t n ATOLL_UNUSED)
{
    struct atoll_e2b_template t;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (!atoll_e2b_template_in_path(call, call->params.path, &t))
        return;
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    view_common(&out, call, &t);
    atoll_json_open(&out, "builds", '[');
    view_builds(&out, call, &t);
    atoll_json_close(&out, ']');
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

void atoll_e2b_template_alias(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                              size_t n ATOLL_UNUSED)
{
    struct atoll_e2b_template t;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (!atoll_e2b_template_in_path(call, call->params.path, &t))
        return;
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_text(&out, "templateID", id_of(&t));
    atoll_json_bool(&out, "public", is_public(&t));
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

/* Changes. */

int atoll_e2b_template_check_owner(const struct atoll_api_call *call,
                                   const struct atoll_e2b_template *t, struct atoll_error *err)
{
    const char *owner = t->view.owner ? t->view.owner : "";

    if (t->is_environment)
        return atoll_fail(err, ATOLL_ERR_PERMISSION_DENIED, EPERM,
                          "%s is an environment of the registry: only the operator changes it",
                          t->environment.name);
    if (*owner ? atoll_api_sees(call, owner) : call->caller.scope >= ATOLL_SCOPE_ADMIN)
        return 0;
    return atoll_fail(err, ATOLL_ERR_PERMISSION_DENIED, EPERM, "template %s is not yours",
                      t->view.name);
}

/* A sandbox that was killed uses its template until it is cleaned up, shortly after the answer to the
 * kill: a removal waits for that. */
struct removal {
    struct atoll_api_call *call;
    char owner[65], reference[sizeof(((struct atoll_e2b_template *)NULL)->reference)];
    int64_t until_ms;
    struct atoll_timer again;
};

static void remove_template(void *arg);

static void removed(void *arg, const struct atoll_error *error)
{
    struct removal *r = arg;

    if (error && error->kind == ATOLL_ERR_FAILED_PRECONDITION && atoll_clock_ms() < r->until_ms) {
        atoll_timer_set(&r->again, r->call->api->config.loop, REMOVE_AGAIN_MS, remove_template, r);
        return;
    }
    atoll_e2b_done(r->call, error);
    free(r);
}

static void remove_template(void *arg)
{
    struct removal *r = arg;

    atoll_templates_remove(r->call->engine, r->owner, r->reference, removed, r);
}

/* A tag; or the version of a snapshot if that is its only tag. */
static void write_removed(const struct atoll_e2b_template *t, char *out, size_t cap)
{
    const char *tag = atoll_e2b_tag_stored(t->asked.tag), *digest = t->view.digest;

    if (*tag && strcmp(t->view.source, "snapshot") == 0 && strcmp(t->view.tags, tag) == 0)
        (void)snprintf(out, cap, "%s@sha256:%s", t->view.name,
                       strncmp(digest, "sha256:", 7) == 0 ? digest + 7 : digest);
    else
        (void)snprintf(out, cap, "%s%s%s", t->view.name, *tag ? ":" : "", tag);
}

void atoll_e2b_template_remove(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                               size_t n ATOLL_UNUSED)
{
    struct atoll_e2b_template t;
    struct atoll_error error;
    struct removal *r;

    if (!atoll_e2b_template_in_path(call, call->params.path, &t))
        return;
    if (atoll_e2b_template_check_owner(call, &t, &error) < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    r = atoll_api_alloc(sizeof(*r));
    r->call = call;
    r->until_ms = atoll_clock_ms() + REMOVE_MS;
    (void)snprintf(r->owner, sizeof(r->owner), "%s", t.view.owner ? t.view.owner : "");
    write_removed(&t, r->reference, sizeof(r->reference));
    remove_template(r);
}

struct sharing {
    bool is_public;
};

static const struct atoll_field sharing_fields[] = {
    {"public", ATOLL_FIELD_BOOL, offsetof(struct sharing, is_public), 0, 0, NULL, 0},
    ATOLL_FIELDS_TOLERANT,
    {0},
};

static int share(const struct atoll_api_call *call, const struct atoll_e2b_template *t,
                 const struct sharing *q, struct atoll_error *err)
{
    int r = atoll_e2b_template_check_owner(call, t, err);

    if (r < 0 || !t->view.owner || !*t->view.owner)
        return r;
    return atoll_template_share(call->engine, t->view.owner, t->view.name, q->is_public ? "*" : "",
                                err);
}

void atoll_e2b_template_share(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct atoll_e2b_template t;
    struct sharing q = {0};
    struct atoll_error error;
    struct atoll_body body;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (!atoll_e2b_template_in_path(call, call->params.path, &t))
        return;
    if (atoll_e2b_decode(&body, bytes, n, sharing_fields, &q, &error) < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    atoll_body_done(&body);
    if (share(call, &t, &q, &error) < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    view_names(&out, "names", &t);
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

/*
 * Templates for E2B's clients: the environments of the registry with their names and aliases, and
 * the engine's templates that no environment shadows. They are created elsewhere (atoll template
 * import, the registry), are shown without an owner, and have one build and one tag.
 */
#include <errno.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/e2b/e2b_internal.h"

#define MIB UINT64_C(1048576)
#define UUID_MAX 37

struct shown {
    const char *id;
    const json_t *aliases; /* NULL: no aliases */
    struct atoll_limits limits;
    const char *digest;
    int64_t created_unix_ms;
};

/* Stable as long as the template exists; a UUID, since clients expect one. */
static void build_id(const struct shown *t, char *out)
{
    uint8_t sha[SHA256_DIGEST_LENGTH];
    char text[200];
    int n = snprintf(text, sizeof(text), "%.64s\n%.72s", t->id, t->digest);

    (void)SHA256((const uint8_t *)text, (size_t)n, sha);
    (void)snprintf(out, UUID_MAX,
                   "%02x%02x%02x%02x-%02x%02x-4%x%02x-a%x%02x-%02x%02x%02x%02x%02x%02x", sha[0],
                   sha[1], sha[2], sha[3], sha[4], sha[5], sha[6] & 15, sha[7], sha[8] & 15, sha[9],
                   sha[10], sha[11], sha[12], sha[13], sha[14], sha[15]);
}

/* Whether a template of that name is visible to the caller. */
static bool find_view(const struct atoll_api_call *call, const char *name,
                      struct atoll_template_view *ret)
{
    size_t pos = 0;

    while (atoll_templates_next(call->engine, &pos, ret))
        if (strcmp(ret->name, name) == 0 &&
            (!ret->owner || !*ret->owner || atoll_api_sees(call, ret->owner)))
            return true;
    return false;
}

static void show(const struct atoll_api_call *call, const struct atoll_e2b_template *t,
                 struct shown *ret)
{
    const struct atoll_limits d = atoll_limits_default();
    struct atoll_template_view view = {0};

    *ret = (struct shown){.id = t->is_environment ? t->environment.name : t->name,
                          .aliases = t->environment.aliases,
                          .limits = t->environment.limits,
                          .digest = "",
                          .created_unix_ms = call->api->started_unix_ms};
    if (find_view(call, t->name, &view) && view.created_unix_ms) {
        ret->digest = view.digest;
        ret->created_unix_ms = view.created_unix_ms;
    }
    ret->limits.cpu_millis = ret->limits.cpu_millis ? ret->limits.cpu_millis : d.cpu_millis;
    ret->limits.memory_bytes = ret->limits.memory_bytes ? ret->limits.memory_bytes : d.memory_bytes;
    ret->limits.disk_bytes = ret->limits.disk_bytes ? ret->limits.disk_bytes : d.disk_bytes;
}

static void view_names(struct atoll_json_out *out, const char *key, const struct shown *t)
{
    atoll_json_open(out, key, '[');
    atoll_json_text(out, NULL, t->id);
    for (size_t i = 0; i < json_array_size(t->aliases); i++)
        atoll_json_text(out, NULL, json_string_value(json_array_get(t->aliases, i)));
    atoll_json_close(out, ']');
}

static void view_size(struct atoll_json_out *out, const struct shown *t)
{
    atoll_json_u64(out, "cpuCount", (t->limits.cpu_millis + 999) / 1000);
    atoll_json_u64(out, "memoryMB", t->limits.memory_bytes / MIB);
    atoll_json_u64(out, "diskSizeMB", t->limits.disk_bytes / MIB);
    atoll_json_text(out, "envdVersion", ATOLL_E2B_ENVD_VERSION);
}

/* Uses of a template are not counted. */
static void view_common(struct atoll_json_out *out, const struct shown *t)
{
    atoll_json_text(out, "templateID", t->id);
    atoll_json_bool(out, "public", true);
    view_names(out, "aliases", t);
    view_names(out, "names", t);
    atoll_json_time(out, "createdAt", t->created_unix_ms);
    atoll_json_time(out, "updatedAt", t->created_unix_ms);
    atoll_json_null(out, "lastSpawnedAt");
    atoll_json_u64(out, "spawnCount", 0);
}

static void view_listed(struct atoll_json_out *out, const struct atoll_api_call *call,
                        const struct atoll_e2b_template *template)
{
    char build[UUID_MAX];
    struct shown t;

    show(call, template, &t);
    build_id(&t, build);
    atoll_json_open(out, NULL, '{');
    view_common(out, &t);
    atoll_json_text(out, "buildID", build);
    view_size(out, &t);
    atoll_json_null(out, "createdBy");
    atoll_json_u64(out, "buildCount", 1);
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
        if (atoll_e2b_template_find(call, item.name, &t, NULL) == 0)
            view_listed(&out, call, &t);
    for (pos = 0; atoll_templates_next(call->engine, &pos, &view);)
        if ((!view.owner || !*view.owner || atoll_api_sees(call, view.owner)) &&
            atoll_e2b_template_find(call, view.name, &t, NULL) == 0 && !t.is_environment)
            view_listed(&out, call, &t);
    atoll_json_close(&out, ']');
    atoll_api_reply(call, 200, &out);
}

static void view_build(struct atoll_json_out *out, const struct shown *t)
{
    char build[UUID_MAX];

    build_id(t, build);
    atoll_json_open(out, NULL, '{');
    atoll_json_text(out, "buildID", build);
    atoll_json_text(out, "status", "ready");
    atoll_json_time(out, "createdAt", t->created_unix_ms);
    atoll_json_time(out, "updatedAt", t->created_unix_ms);
    atoll_json_time(out, "finishedAt", t->created_unix_ms);
    view_size(out, t);
    atoll_json_close(out, '}');
}

/* Finds the template named in the path; false: the call has been answered. */
static bool find_shown(struct atoll_api_call *call, const char *asked, struct shown *ret)
{
    struct atoll_e2b_template t;
    struct atoll_error error;
    char name[256];

    (void)snprintf(name, sizeof(name), "%s", asked);
    for (char *p = name; atoll_http_has_encoded_slash(call->req) && (p = strstr(p, "%2F"));) {
        *p++ = '/';
        memmove(p, p + 2, strlen(p + 2) + 1);
    }
    if (atoll_e2b_template_find(call, name, &t, &error) < 0) {
        atoll_api_fail(call, &error);
        return false;
    }
    show(call, &t, ret);
    return true;
}

void atoll_e2b_template_get(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                            size_t n ATOLL_UNUSED)
{
    struct shown t;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (!find_shown(call, call->params.path, &t))
        return;
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    view_common(&out, &t);
    atoll_json_open(&out, "builds", '[');
    view_build(&out, &t);
    atoll_json_close(&out, ']');
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

void atoll_e2b_template_tags(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                             size_t n ATOLL_UNUSED)
{
    char build[UUID_MAX];
    struct shown t;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (!find_shown(call, call->params.template, &t))
        return;
    build_id(&t, build);
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '[');
    atoll_json_open(&out, NULL, '{');
    atoll_json_text(&out, "tag", "default");
    atoll_json_text(&out, "buildID", build);
    atoll_json_time(&out, "createdAt", t.created_unix_ms);
    atoll_json_close(&out, '}');
    atoll_json_close(&out, ']');
    atoll_api_reply(call, 200, &out);
}

void atoll_e2b_template_alias(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                              size_t n ATOLL_UNUSED)
{
    struct shown t;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (!find_shown(call, call->params.path, &t))
        return;
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_text(&out, "templateID", t.id);
    atoll_json_bool(&out, "public", true);
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

void atoll_e2b_template_remove(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                               size_t n ATOLL_UNUSED)
{
    struct atoll_error error;
    struct shown t;

    if (!find_shown(call, call->params.path, &t))
        return;
    (void)atoll_fail(&error, ATOLL_ERR_UNIMPLEMENTED, EOPNOTSUPP,
                     "removing templates is not supported here; use atoll template rm");
    atoll_api_fail(call, &error);
}

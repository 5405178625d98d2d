/*
 * Versions and tags of templates. {template} is NAME, NAME:TAG, NAME@sha256:DIGEST, or one of these
 * with TENANT/ before it; slashes are encoded (%2F).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "api/fields.h"
#include "api/kit/file_send.h"
#include "api/kit/list_reply.h"
#include "api/rest/rest_internal.h"
#include "api/rest/views.h"
#include "engine/template/version_sbom.h"

#define REFERENCE_MAX ATOLL_REST_TEMPLATE_MAX

static void decode(const char *text, char out[static REFERENCE_MAX])
{
    size_t at = 0;

    for (; *text && at + 1 < REFERENCE_MAX; at++) {
        bool slash = strncmp(text, "%2F", 3) == 0;
        out[at] = slash ? '/' : *text;
        text += slash ? 3 : 1;
    }
    out[at] = '\0';
}

void atoll_rest_template_reference(const struct atoll_api_call *call,
                                   char out[static ATOLL_REST_TEMPLATE_MAX])
{
    decode(call->params.template, out);
}

/* An admin may also name templates that their tenant does not share. */
static int resolve(const struct atoll_api_call *call, const char *reference,
                   struct atoll_template_view *ret, struct atoll_error *err)
{
    const char *slash = strchr(reference, '/');
    int r = atoll_template_resolve(call->engine, call->caller.tenant, reference, ret, err);
    char tenant[65];

    if (r != -ENOENT || call->caller.scope < ATOLL_SCOPE_ADMIN || !slash ||
        (size_t)(slash - reference) >= sizeof(tenant))
        return r;
    (void)snprintf(tenant, sizeof(tenant), "%.*s", (int)(slash - reference), reference);
    return atoll_template_resolve(call->engine, tenant, reference, ret, err);
}

/* Fails the call if the template does not exist. */
static bool find(struct atoll_api_call *call, struct atoll_template_view *ret)
{
    char reference[REFERENCE_MAX];
    struct atoll_error error;

    atoll_rest_template_reference(call, reference);
    if (resolve(call, reference, ret, &error) == 0)
        return true;
    atoll_api_fail(call, &error);
    return false;
}

/* The same for requests that change it: the template's tenant may, and admins. */
static bool find_own(struct atoll_api_call *call, struct atoll_template_view *ret)
{
    struct atoll_error error;
    bool is_shared;

    if (!find(call, ret))
        return false;
    is_shared = !*ret->owner;
    if (call->caller.scope >= ATOLL_SCOPE_ADMIN || strcmp(ret->owner, call->caller.tenant) == 0)
        return true;
    (void)atoll_fail(&error, ATOLL_ERR_PERMISSION_DENIED, EPERM,
                     is_shared
                         ? "%.150s is a shared template: to change it needs a key of scope admin"
                         : "template %.150s belongs to another tenant",
                     ret->name);
    atoll_api_fail(call, &error);
    return false;
}

/* The reference in the route as its owner writes it: without TENANT/. */
static void own_reference(const struct atoll_api_call *call, const struct atoll_template_view *view,
                          char out[static REFERENCE_MAX])
{
    size_t n = strlen(view->name);
    const char *slash;

    atoll_rest_template_reference(call, out);
    slash = strchr(out, '/');
    if (slash && (strncmp(out, view->name, n) != 0 || out[n] == '/')) /* TENANT/NAME… */
        memmove(out, slash + 1, strlen(slash));
}

/* Definitions and logs of builds are for the template's tenant, and for admins. */
static bool may_read_build(const struct atoll_api_call *call,
                           const struct atoll_template_view *view)
{
    return !*view->owner || call->caller.scope >= ATOLL_SCOPE_ADMIN ||
           strcmp(view->owner, call->caller.tenant) == 0;
}

/* One version. */

static void write_layers(const struct atoll_api_call *call, struct atoll_json_out *out,
                         const char *layers)
{
    struct atoll_layer_facts facts;
    char name[72];

    atoll_json_open(out, "layers", '[');
    while (*layers) {
        size_t n = strcspn(layers, " ");

        (void)snprintf(name, sizeof(name), "%.*s", (int)n, layers);
        layers += n + (layers[n] == ' ');
        atoll_json_open(out, NULL, '{');
        atoll_json_text(out, "name", name);
        if (atoll_layer_find(call->engine, name, &facts)) {
            if (*facts.diff_id)
                atoll_json_text(out, "diff_id", facts.diff_id);
            atoll_json_u64(out, "size_bytes", facts.size_bytes);
            atoll_json_u64(out, "files", facts.files);
        } else if (strcmp(name, "host") != 0) { /* the host's own files have no layer */
            atoll_json_bool(out, "missing", true);
        }
        atoll_json_close(out, '}');
    }
    atoll_json_close(out, ']');
}

static void write_text(struct atoll_json_out *out, const char *key, const char *text)
{
    if (*text)
        atoll_json_text(out, key, text);
}

static void write_raw(struct atoll_json_out *out, const char *key, const char *json)
{
    if (*json)
        atoll_json_raw(out, key, json);
}

static void get_one(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                    size_t n ATOLL_UNUSED)
{
    struct atoll_template_view view;
    struct atoll_json_out out;
    struct atoll_buf buf;

    if (!find(call, &view))
        return;
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_view_template_fields(&out, &view);
    write_layers(call, &out, view.layers);
    write_raw(&out, "config", view.config_json);
    if (may_read_build(call, &view))
        write_text(&out, "definition", view.definition);
    write_text(&out, "start_cmd", view.start_cmd);
    write_text(&out, "ready_cmd", view.ready_cmd);
    if (view.cpu_millis)
        atoll_json_double(&out, "cpus", view.cpu_millis / 1000.0, 3);
    if (view.memory_bytes)
        atoll_json_u64(&out, "memory_mb", view.memory_bytes >> 20);
    write_raw(&out, "report", view.report_json);
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

static void list_version(void *arg, const struct atoll_template_view *view,
                         const char *tags ATOLL_UNUSED)
{
    struct atoll_list_reply *list = arg;
    atoll_view_template(&list->out, NULL, view);
}

static void list_versions(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                          size_t n ATOLL_UNUSED)
{
    struct atoll_template_view view;
    struct atoll_list_reply *list;

    if (!find(call, &view))
        return;
    list = atoll_list_reply_new(call, "versions", ']');
    atoll_template_each_version(call->engine, view.owner, view.name, list_version, list);
    atoll_list_reply_done(list, NULL);
}

/* Its files. */

static void send_file(struct atoll_api_call *call, const char *version_id, bool sbom)
{
    struct atoll_file_part part = {0};
    struct atoll_error error;
    int fd = atoll_version_file(call->engine, version_id, sbom ? "sbom" : "log", O_RDONLY, &error);

    if (fd < 0 ||
        atoll_engine_file(call->engine, call->caller.tenant, fd, &part.file, &error) < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    part.length = (uint64_t)atoll_tenant_file_stat(part.file)->st_size;
    atoll_file_send(call, 200, sbom ? "application/vnd.cyclonedx+json" : "application/x-ndjson",
                    &part);
}

static void send_log(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                     size_t n ATOLL_UNUSED)
{
    struct atoll_template_view view;
    struct atoll_error error;

    if (!find(call, &view))
        return;
    if (may_read_build(call, &view)) {
        send_file(call, view.id, false);
        return;
    }
    (void)atoll_fail(&error, ATOLL_ERR_PERMISSION_DENIED, EPERM,
                     "template %.150s belongs to another tenant", view.name);
    atoll_api_fail(call, &error);
}

struct listing {
    struct atoll_api_call *call;
    char version_id[ATOLL_VERSION_ID_LEN + 1];
};

static void packages_listed(void *arg, const struct atoll_error *error)
{
    struct listing l = *(struct listing *)arg;

    free(arg);
    if (!l.call->req)
        atoll_api_drop(l.call);
    else if (error)
        atoll_api_fail(l.call, error);
    else
        send_file(l.call, l.version_id, true);
}

/* Its packages are no secret of the owner: each tenant that may use a template can list them in a sandbox. */
static void send_sbom(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                      size_t n ATOLL_UNUSED)
{
    struct atoll_template_view view;
    struct listing *l;

    if (!find(call, &view))
        return;
    l = atoll_api_alloc(sizeof(*l));
    l->call = call;
    (void)snprintf(l->version_id, sizeof(l->version_id), "%s", view.id);
    atoll_version_sbom_make(call->engine, l->version_id, packages_listed, l);
}

/* Changes. */

static void answer(struct atoll_api_call *call, int r, const struct atoll_error *error)
{
    if (r < 0)
        atoll_api_fail(call, error);
    else
        atoll_api_reply_empty(call, 204);
}

struct tag_request {
    const char *tag;
};

static const struct atoll_field tag_fields[] = {
    {"tag", ATOLL_FIELD_STRING, offsetof(struct tag_request, tag), 1, ATOLL_TEMPLATE_TAG_MAX, NULL,
     0},
    {0},
};

static void put_tag(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct tag_request request = {0};
    struct atoll_template_view view;
    char reference[REFERENCE_MAX];
    struct atoll_body body;
    struct atoll_error error;
    int r = atoll_body_decode(&body, bytes, n, tag_fields, &request, &error);

    if (r == 0 && !request.tag)
        r = atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "tag is missing");
    if (r < 0) {
        atoll_api_fail(call, &error);
    } else if (find_own(call, &view)) {
        own_reference(call, &view, reference);
        r = atoll_template_tag(call->engine, view.owner, reference, request.tag, &error);
        answer(call, r, &error);
    }
    atoll_body_done(&body);
}

struct share_request {
    bool public;
    const char *const *tenants;
};

static const struct atoll_field share_fields[] = {
    {"public", ATOLL_FIELD_BOOL, offsetof(struct share_request, public), 0, 0, NULL, 0},
    {"tenants", ATOLL_FIELD_STRINGS, offsetof(struct share_request, tenants), 0, 64, NULL, 0},
    {0},
};

static void put_shares(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct share_request request = {0};
    struct atoll_template_view view;
    char shares[64 * 65 + 1] = "";
    struct atoll_body body;
    struct atoll_error error;
    size_t at = 0;
    int r = atoll_body_decode(&body, bytes, n, share_fields, &request, &error);

    for (const char *const *t = request.tenants; r == 0 && t && *t; t++)
        if (strlen(*t) > 64 || strchr(*t, ' ') || !**t)
            r = atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                           "tenants must be names of tenants");
        else
            at += (size_t)snprintf(shares + at, sizeof(shares) - at, "%s%s", at ? " " : "", *t);
    if (r < 0) {
        atoll_api_fail(call, &error);
    } else if (find_own(call, &view)) {
        r = atoll_template_share(call->engine, view.owner, view.name, request.public ? "*" : shares,
                                 &error);
        answer(call, r, &error);
    }
    atoll_body_done(&body);
}

static void remove_one(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                       size_t n ATOLL_UNUSED)
{
    struct atoll_template_view view;
    char reference[REFERENCE_MAX], owner[65];

    if (!find_own(call, &view))
        return;
    own_reference(call, &view, reference);
    (void)snprintf(owner, sizeof(owner), "%s", view.owner);
    atoll_templates_remove(call->engine, owner, reference, atoll_rest_done, call);
}

/* DELETE /api/snapshots/{template}: the same for what is a snapshot. */
static void remove_snapshot(struct atoll_api_call *call, const uint8_t *body, size_t n)
{
    struct atoll_template_view view;
    struct atoll_error error;

    if (!find_own(call, &view))
        return;
    if (strcmp(view.source, "snapshot") == 0) {
        remove_one(call, body, n);
        return;
    }
    (void)atoll_fail(&error, ATOLL_ERR_NOT_FOUND, ENOENT,
                     "%.150s is no snapshot, but a template; see `atoll template rm`", view.name);
    atoll_api_fail(call, &error);
}

/* POST /api/templates/gc: of the caller's tenant; admins with ?all=true: of all. */
static void collect(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                    size_t n ATOLL_UNUSED)
{
    const char *cache = atoll_http_query(call->req, "cache");
    struct atoll_template_usage went;
    struct atoll_json_out out;
    struct atoll_buf buf;

    went = atoll_templates_collect(call->engine, atoll_api_list_tenant(call),
                                   cache && strcmp(cache, "true") == 0);
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_u64(&out, "versions", went.removed_versions);
    atoll_json_u64(&out, "steps", went.removed_steps);
    atoll_json_u64(&out, "layers", went.removed_layers);
    atoll_json_u64(&out, "bytes", went.removed_bytes);
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

/* The difference of two versions. */

static void write_difference(struct atoll_json_out *out, const char *key, const char *a,
                             const char *b, bool common)
{
    char name[72];

    atoll_json_open(out, key, '[');
    while (*a) {
        size_t n = strcspn(a, " ");
        const char *found = b;
        bool has = false;

        (void)snprintf(name, sizeof(name), "%.*s", (int)n, a);
        while (!has && (found = strstr(found, name)) != NULL) {
            has = (found == b || found[-1] == ' ') && (found[n] == ' ' || !found[n]);
            found += n;
        }
        if (has == common)
            atoll_json_text(out, NULL, name);
        a += n + (a[n] == ' ');
    }
    atoll_json_close(out, ']');
}

static void write_change(struct atoll_json_out *out, const char *key, json_t *from, json_t *to)
{
    char *a = from ? json_dumps(from, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    char *b = to ? json_dumps(to, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;

    atoll_json_open(out, key, '{');
    atoll_json_raw(out, "from", a ? a : "null");
    atoll_json_raw(out, "to", b ? b : "null");
    atoll_json_close(out, '}');
    free(a);
    free(b);
}

static json_t *object_of(const struct atoll_template_view *v, bool with_definition)
{
    json_t *config = json_loads(*v->config_json ? v->config_json : "{}", 0, NULL);

    (void)json_object_set_new(config, "start_cmd", json_string(v->start_cmd));
    (void)json_object_set_new(config, "ready_cmd", json_string(v->ready_cmd));
    (void)json_object_set_new(config, "cpus", json_real(v->cpu_millis / 1000.0));
    (void)json_object_set_new(config, "memory_mb",
                              json_integer((json_int_t)(v->memory_bytes >> 20)));
    if (with_definition)
        (void)json_object_set_new(config, "definition", json_string(v->definition));
    return config;
}

static void write_changes(const struct atoll_api_call *call, struct atoll_json_out *out,
                          const struct atoll_template_view *from,
                          const struct atoll_template_view *to)
{
    bool definition = may_read_build(call, from) && may_read_build(call, to);
    json_t *a = object_of(from, definition), *b = object_of(to, definition), *value;
    const char *key;

    atoll_json_open(out, "changed", '{');
    json_object_foreach(a, key, value) if (!json_equal(value, json_object_get(b, key)))
        write_change(out, key, value, json_object_get(b, key));
    json_object_foreach(b, key, value) if (!json_object_get(a, key))
        write_change(out, key, NULL, value);
    atoll_json_close(out, '}');
    json_decref(a);
    json_decref(b);
}

static void compare(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                    size_t n ATOLL_UNUSED)
{
    const char *with = atoll_http_query(call->req, "with");
    struct atoll_template_view from, to;
    struct atoll_error error;
    struct atoll_json_out out;
    struct atoll_buf buf;
    int r = with ? resolve(call, with, &to, &error)
                 : atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "?with= must name the version to compare with");

    if (r < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    if (!find(call, &from))
        return;
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_view_template(&out, "from", &from);
    atoll_view_template(&out, "to", &to);
    atoll_json_open(&out, "layers", '{');
    write_difference(&out, "same", from.layers, to.layers, true);
    write_difference(&out, "removed", from.layers, to.layers, false);
    write_difference(&out, "added", to.layers, from.layers, false);
    atoll_json_close(&out, '}');
    write_changes(call, &out, &from, &to);
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

static bool is_reference(const char *text)
{
    return *text &&
           text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                             "0123456789._-:@%")] == '\0' &&
           *text != '.' && *text != '-';
}

#define TEMPLATE "/api/templates/{template}"

/* clang-format off */
static const struct atoll_route rows[] = {
    {ATOLL_POST,   "/api/templates/gc",  ATOLL_SCOPE_WRITE, ATOLL_BODY_NONE, collect,
     "cache, all"},
    {ATOLL_GET,    TEMPLATE,             ATOLL_SCOPE_READ,  ATOLL_BODY_NONE, get_one, ""},
    {ATOLL_PUT,    TEMPLATE,             ATOLL_SCOPE_ADMIN, ATOLL_BODY_STREAM, atoll_rest_template_import, ""},
    {ATOLL_DELETE, TEMPLATE,             ATOLL_SCOPE_WRITE, ATOLL_BODY_NONE, remove_one, ""},
    {ATOLL_DELETE, "/api/snapshots/{template}", ATOLL_SCOPE_WRITE, ATOLL_BODY_NONE, remove_snapshot, ""},
    {ATOLL_GET,    TEMPLATE "/versions", ATOLL_SCOPE_READ,  ATOLL_BODY_NONE, list_versions, ""},
    {ATOLL_GET,    TEMPLATE "/diff",     ATOLL_SCOPE_READ,  ATOLL_BODY_NONE, compare, "with"},
    {ATOLL_GET,    TEMPLATE "/log",      ATOLL_SCOPE_READ,  ATOLL_BODY_NONE, send_log, ""},
    {ATOLL_GET,    TEMPLATE "/sbom",     ATOLL_SCOPE_READ,  ATOLL_BODY_NONE, send_sbom, ""},
    {ATOLL_POST,   TEMPLATE "/tags",     ATOLL_SCOPE_WRITE, ATOLL_BODY_JSON, put_tag, ""},
    {ATOLL_PUT,    TEMPLATE "/shares",   ATOLL_SCOPE_WRITE, ATOLL_BODY_JSON, put_shares, ""},
    {ATOLL_POST,   TEMPLATE "/push",     ATOLL_SCOPE_WRITE, ATOLL_BODY_JSON, atoll_rest_template_push, ""},
    {ATOLL_GET,    TEMPLATE "/archive",  ATOLL_SCOPE_READ,  ATOLL_BODY_NONE, atoll_rest_template_archive, ""},
};
/* clang-format on */

static const struct atoll_protocol protocol = {.takes_slashes = true};
static const struct atoll_param_kind params[] = {
    {"{template}", offsetof(struct atoll_route_params, template),
     sizeof(((struct atoll_route_params *)0)->template), is_reference,
     "the name of a template: NAME, NAME:TAG or NAME@sha256:DIGEST", '\0', NULL},
};
const struct atoll_routes atoll_rest_template_routes = {.rows = rows,
                                                        .count = ATOLL_ARRAY_LEN(rows),
                                                        .protocol = &protocol,
                                                        .params = params,
                                                        .param_count = ATOLL_ARRAY_LEN(params)};

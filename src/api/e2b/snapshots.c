/*
 * Snapshots and forks. A snapshot's id is the name and the tag of its template, "name:default", which
 * creates take as templateID and DELETE /templates/{id} removes. Memory is not part of a snapshot or a
 * fork here: processes do not go on in the new sandboxes.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "api/e2b/e2b_internal.h"
#include "api/e2b/plane.h"
#include "engine/state/state.h"

#define LIMIT 100

/* Names. */

/* The first of its tags. */
static void write_id(const struct atoll_template_view *v, char *out, size_t cap)
{
    char tag[ATOLL_TEMPLATE_TAG_MAX + 1];

    (void)snprintf(tag, sizeof(tag), "%.*s", (int)strcspn(v->tags, " "), v->tags);
    (void)snprintf(out, cap, "%s:%s", v->name, atoll_e2b_tag_shown(tag));
}

static void view_snapshot(struct atoll_json_out *out, const struct atoll_template_view *v)
{
    const char *rest = v->tags;
    char text[400], tag[ATOLL_TEMPLATE_TAG_MAX + 1];

    atoll_json_open(out, NULL, '{');
    write_id(v, text, sizeof(text));
    atoll_json_text(out, "snapshotID", text);
    atoll_json_open(out, "names", '[');
    while (*rest) {
        size_t n = strcspn(rest, " ");
        (void)snprintf(tag, sizeof(tag), "%.*s", (int)n, rest);
        (void)snprintf(text, sizeof(text), "%s/%s:%s", v->owner, v->name, atoll_e2b_tag_shown(tag));
        atoll_json_text(out, NULL, text);
        rest += n + (rest[n] == ' ');
    }
    atoll_json_close(out, ']');
    atoll_json_close(out, '}');
}

/* Create. */

struct snapshot_request {
    const char *name;
};

static const struct atoll_field snapshot_fields[] = {
    {"name", ATOLL_FIELD_STRING, offsetof(struct snapshot_request, name), 1, 256, NULL, 0},
    ATOLL_FIELDS_TOLERANT,
    {0},
};

static void snapshot_made(void *arg, const struct atoll_template_view *view,
                          const struct atoll_snapshot_facts *facts ATOLL_UNUSED,
                          const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (!atoll_api_reply_begin(call, error, &buf, &out))
        return;
    view_snapshot(&out, view);
    atoll_api_reply(call, 201, &out);
}

/* As the engine writes it. A snapshot is always the caller's own. */
static int take_name(const struct atoll_api_call *call, const char *asked, char *out, size_t cap,
                     struct atoll_error *err)
{
    struct atoll_e2b_name name;

    if (atoll_e2b_name_parse(asked, &name) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "Invalid snapshot name '%.128s': use letters, digits, dashes and "
                          "underscores, and a tag after a colon",
                          asked);
    if (*name.team && strcmp(name.team, call->caller.tenant) != 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EPERM,
                          "a snapshot cannot be made in the name of team %.64s", name.team);
    (void)snprintf(out, cap, "%s%s%s", name.alias, *name.tag ? ":" : "",
                   atoll_e2b_tag_stored(name.tag));
    return 0;
}

void atoll_e2b_snapshot_create(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct snapshot_request q = {0};
    struct atoll_error error;
    struct atoll_body body;
    char name[256];
    int r = atoll_e2b_decode(&body, bytes, n, snapshot_fields, &q, &error);

    if (r < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    if (!atoll_e2b_find(call, &error))
        r = -ENOENT;
    if (r == 0 && q.name)
        r = take_name(call, q.name, name, sizeof(name), &error);
    if (r < 0)
        atoll_api_fail(call, &error);
    else
        atoll_engine_snapshot(call->engine, call->params.id, q.name ? name : NULL, snapshot_made,
                              call);
    atoll_body_done(&body);
}

/* List: newest first. The token is the last snapshot of the page before. */

struct listing {
    struct atoll_json_out *out;
    struct atoll_e2b_name name; /* alias "": any */
    int64_t after_ms;
    char after_id[ATOLL_VERSION_ID_LEN + 1]; /* "": from the first on */
    uint64_t limit, shown;
    int64_t last_ms;
    char last_id[ATOLL_VERSION_ID_LEN + 1];
    bool more;
};

static bool has_tag(const char *tags, const char *tag)
{
    size_t n = strlen(tag);

    for (const char *p = tags; *p; p += strcspn(p, " "), p += *p == ' ')
        if (strncasecmp(p, tag, n) == 0 && (p[n] == ' ' || !p[n]))
            return true;
    return false;
}

static bool is_wanted(const struct listing *l, const struct atoll_template_view *v)
{
    if (!*v->tags) /* an older version of its name */
        return false;
    if (*l->name.alias && (strcasecmp(l->name.alias, v->name) != 0 ||
                           (*l->name.team && strcmp(l->name.team, v->owner) != 0) ||
                           (*l->name.tag && !has_tag(v->tags, atoll_e2b_tag_stored(l->name.tag)))))
        return false;
    return !*l->after_id || v->created_unix_ms < l->after_ms ||
           (v->created_unix_ms == l->after_ms && strcmp(v->id, l->after_id) > 0);
}

static void list_one(void *arg, const struct atoll_template_view *v)
{
    struct listing *l = arg;

    if (!is_wanted(l, v))
        return;
    if (l->shown == l->limit) {
        l->more = true;
        return;
    }
    l->shown++;
    l->last_ms = v->created_unix_ms;
    (void)snprintf(l->last_id, sizeof(l->last_id), "%s", v->id);
    view_snapshot(l->out, v);
}

static int take_token(struct listing *l, const char *token, struct atoll_error *err)
{
    if (!token || !*token || sscanf(token, "%" SCNd64 ".%36s", &l->after_ms, l->after_id) == 2)
        return 0;
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                      "nextToken must be the X-Next-Token of the page before (got \"%.80s\")",
                      token);
}

/* 1: no snapshot has such a name. */
static int take_query(const struct atoll_api_call *call, struct listing *l, struct atoll_error *err)
{
    const char *name = atoll_http_query(call->req, "name");
    int r = atoll_api_query_u64(call, "limit", 1, LIMIT, &l->limit, err);

    if (r == 0)
        r = take_token(l, atoll_http_query(call->req, "nextToken"), err);
    return r == 0 && name && *name && atoll_e2b_name_parse(name, &l->name) < 0 ? 1 : r;
}

void atoll_e2b_snapshots(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                         size_t n ATOLL_UNUSED)
{
    const char *sandbox = atoll_http_query(call->req, "sandboxID");
    struct listing l = {.limit = LIMIT};
    struct atoll_error error;
    struct atoll_buf buf;
    struct atoll_json_out out;
    char token[80];
    int r = take_query(call, &l, &error);

    if (r < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    l.out = &out;
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '[');
    if (r == 0)
        atoll_snapshots_each(call->engine, atoll_api_list_tenant(call),
                             sandbox && *sandbox ? sandbox : NULL, list_one, &l);
    atoll_json_close(&out, ']');
    (void)snprintf(token, sizeof(token), "%" PRId64 ".%s", l.last_ms, l.last_id);
    if (l.more)
        (void)atoll_http_set_header(call->req, "X-Next-Token", token);
    atoll_api_reply(call, 200, &out);
}

/* Forks. */

struct fork_request {
    uint64_t timeout_s, count;
};

#define AT(member) offsetof(struct fork_request, member)
static const struct atoll_field fork_fields[] = {
    {"timeout", ATOLL_FIELD_U64, AT(timeout_s), 0, 1e12, NULL, 0},
    {"count", ATOLL_FIELD_U64, AT(count), 1, ATOLL_FORKS_MAX, NULL, 0},
    ATOLL_FIELDS_TOLERANT,
    {0},
};
#undef AT

static void ignore(void *arg ATOLL_UNUSED, const struct atoll_error *error ATOLL_UNUSED)
{
}

/* The client did not receive the ids, so no client could destroy the sandboxes. */
static void drop_forks(struct atoll_api_call *call, const char (*ids)[ATOLL_ID_LEN + 1],
                       size_t count)
{
    for (size_t i = 0; i < count; i++)
        atoll_engine_destroy(call->engine, ids[i], ATOLL_E2B_WHO_GONE, ignore, NULL);
    atoll_api_drop(call);
}

static void view_fork(struct atoll_api_call *call, struct atoll_json_out *out, const char *id)
{
    const struct atoll_sandbox *sandbox = atoll_engine_find(call->engine, id);

    atoll_json_open(out, NULL, '{');
    if (sandbox) {
        atoll_engine_keep_history(call->engine, id);
        atoll_plane_remember(atoll_e2b_plane_of(call->api), sandbox);
        atoll_e2b_view_made_as(out, "sandbox", call->api, sandbox);
    } else { /* destroyed meanwhile */
        atoll_json_open(out, "error", '{');
        atoll_json_u64(out, "code", 404);
        atoll_json_text(out, "message", "the sandbox was killed");
        atoll_json_close(out, '}');
    }
    atoll_json_close(out, '}');
}

static void forked(void *arg, const char (*ids)[ATOLL_ID_LEN + 1], size_t count,
                   const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (error) {
        atoll_api_fail(call, error);
        return;
    }
    if (atoll_api_client_is_gone(call)) {
        drop_forks(call, ids, count);
        return;
    }
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '[');
    for (size_t i = 0; i < count; i++)
        view_fork(call, &out, ids[i]);
    atoll_json_close(&out, ']');
    atoll_api_reply(call, 201, &out);
}

void atoll_e2b_fork(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct fork_request q = {.timeout_s = ATOLL_E2B_TIMEOUT_S, .count = 1};
    struct atoll_fork_request request = {.timeout_is_given = true};
    struct atoll_error error;
    struct atoll_body body;
    int r = atoll_e2b_decode(&body, bytes, n, fork_fields, &q, &error);

    if (r == 0) {
        atoll_body_done(&body);
        r = atoll_e2b_check_timeout(call, q.timeout_s, &error);
    }
    if (r == 0 && !atoll_e2b_find(call, &error))
        r = -ENOENT;
    if (r < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    request.count = (uint32_t)q.count;
    request.timeout_s =
        (uint32_t)ATOLL_MIN(ATOLL_MAX(q.timeout_s, UINT64_C(1)), (uint64_t)UINT32_MAX);
    atoll_engine_fork(call->engine, call->params.id, &request, forked, call);
}

/*
 * Routes of snapshots: make, list, get, delete, ancestry; and what removes old ones.
 */
#include <stdio.h>
#include <string.h>
#include "api/repeats.h"
#include "api/vercel/control_stop.h"
#include "api/vercel/list.h"
#include "api/vercel/snapshots.h"
#include "base/clock.h"
#include "base/log.h"
#include "engine/state/state.h"

#define TREE_LIMIT 20
#define TREE_LIMIT_MAX 100
#define DELETED_MAX 50 /* that a sandbox remembers */

/* Making. */

struct request {
    const json_t *expiration;
};
static const struct atoll_field fields[] = {
    {"expiration", ATOLL_FIELD_JSON, offsetof(struct request, expiration), 0, 0, NULL, 0},
    ATOLL_FIELDS_TOLERANT,
    {0},
};

void atoll_vercel_snapshot_create(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    char id[ATOLL_ID_LEN + 1];
    struct request q = {0};
    struct atoll_error error;
    struct atoll_body body;
    int64_t number = 1;
    double keep = 0;
    int r;

    if (atoll_repeat_check(call, bytes, n, NULL))
        return;
    (void)atoll_vercel_sid_read(call->params.name, id, &number);
    if (atoll_vercel_check_runs(call, number, &error) < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    r = atoll_body_decode(&body, bytes, n, fields, &q, &error);
    if (r == 0 && q.expiration && !json_is_null(q.expiration)) {
        keep = json_number_value(q.expiration);
        if (!json_is_number(q.expiration) || keep < 0)
            r = atoll_fields_refuse(&error, "", "expiration", q.expiration,
                                    "a number of milliseconds");
    }
    atoll_body_done(&body);
    if (r < 0)
        atoll_api_fail(call, &error);
    else
        atoll_vercel_stop_with_snapshot(call, number, atoll_vercel_snapshot_expiry(keep));
}

/* Lists. */

struct gathered {
    struct atoll_vercel_list list;
    struct atoll_vercel_snapshot *items; /* owned; entries have indexes */
    size_t count, room;
    const char *only; /* id of the sandbox whose deleted ones are gathered; NULL: of all */
};

static struct atoll_vercel_snapshot *add_room(struct gathered *g)
{
    struct atoll_vercel_snapshot *more;
    size_t room = g->room ? g->room * 2 : 32;

    if (g->count == g->room) {
        more = realloc(g->items, room * sizeof(*more));
        if (!more)
            abort(); /* small objects: the daemon is crash-only */
        g->items = more;
        g->room = room;
    }
    return &g->items[g->count++];
}

static void gather(void *arg, const struct atoll_template_view *view)
{
    atoll_vercel_snapshot_of(view, add_room(arg));
}

/* Deleted ones stay in lists as long as their sandbox: the facts of the sandbox have the newest of them. */

static json_t *pack_deleted(const struct atoll_vercel_snapshot *s)
{
    return json_pack("{s:s,s:s,s:s,s:I,s:I,s:b}", "id", s->id, "parent", s->parent, "session",
                     s->session, "createdAt", (json_int_t)s->created_unix_ms, "bytes",
                     (json_int_t)s->bytes, "automatic", s->automatic);
}

static void keep_deleted(struct atoll_engine *engine, const struct atoll_vercel_snapshot *s)
{
    char id[ATOLL_ID_LEN + 1];
    struct atoll_vercel_box box;
    struct atoll_error error;
    json_t *list;
    int64_t number;

    if (!atoll_vercel_sid_read(s->session, id, &number) || !atoll_vercel_box_get(engine, id, &box))
        return;
    list = json_object_get(box.facts, "deleted");
    if (!list) {
        list = json_array();
        (void)json_object_set_new(box.facts, "deleted", list);
    }
    (void)json_array_append_new(list, pack_deleted(s));
    if (json_array_size(list) > DELETED_MAX)
        (void)json_array_remove(list, 0);
    if (atoll_vercel_box_is_ours(&box) &&
        atoll_vercel_facts_store(engine, id, box.facts, &error) < 0)
        atoll_log(ATOLL_LOG_WARN, "deleted snapshot not listed", "sandbox", id, "error", error.text,
                  NULL);
    atoll_vercel_box_done(&box);
}

static void gather_deleted(void *arg, const struct atoll_vercel_box *box)
{
    struct gathered *g = arg;
    const json_t *list = json_object_get(box->facts, "deleted");
    size_t i;
    json_t *item;

    if (g->only && strcmp(g->only, box->view.id) != 0)
        return;
    json_array_foreach(list, i, item)
    {
        struct atoll_vercel_snapshot *s = add_room(g);
        *s = (struct atoll_vercel_snapshot){.created_unix_ms =
                                                atoll_fact_number(item, "createdAt", 1),
                                            .bytes = (uint64_t)atoll_fact_number(item, "bytes", 0),
                                            .automatic = atoll_fact_flag(item, "automatic"),
                                            .deleted = true};
        (void)snprintf(s->id, sizeof(s->id), "%.63s", atoll_fact_text(item, "id"));
        (void)snprintf(s->parent, sizeof(s->parent), "%.63s", atoll_fact_text(item, "parent"));
        (void)snprintf(s->session, sizeof(s->session), "%.64s", atoll_fact_text(item, "session"));
    }
}

static bool is_over(const struct atoll_vercel_snapshot *s)
{
    return s->expires_unix_ms && s->expires_unix_ms <= atoll_clock_unix_ms();
}

static void view_entry(struct atoll_json_out *out, const struct atoll_vercel_list *list,
                       const struct atoll_keyed *entry)
{
    const struct gathered *g = ATOLL_CONTAINER_OF(list, struct gathered, list);

    atoll_vercel_view_snapshot(out, NULL, &g->items[entry->number], list->v1);
}

/* The sandbox that ?name= means. False: it does not exist. */
static bool find_named(const struct atoll_api_call *call, const char *name,
                       char id[ATOLL_ID_LEN + 1])
{
    struct atoll_sandbox *sandbox = atoll_engine_find_name(call->engine, call->caller.tenant, name);
    struct atoll_sandbox_view v;

    if (!sandbox)
        sandbox = atoll_engine_find(call->engine, name);
    if (!sandbox || !atoll_api_sees_sandbox(call, sandbox))
        return false;
    atoll_sandbox_get(sandbox, &v);
    (void)snprintf(id, ATOLL_ID_LEN + 1, "%s", v.id);
    return true;
}

void atoll_vercel_snapshot_list(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                size_t n ATOLL_UNUSED)
{
    const char *name = atoll_http_query(call->req, "name");
    char id[ATOLL_ID_LEN + 1] = "";
    struct gathered g = {0};
    struct atoll_error error;
    bool known = !name || find_named(call, name, id);

    if (atoll_vercel_list_begin(call, &g.list, &error) < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    if (known)
        atoll_snapshots_each(call->engine, call->caller.tenant, *id ? id : NULL, gather, &g);
    g.only = *id ? id : NULL;
    if (known)
        atoll_vercel_each_box(call, gather_deleted, &g);
    for (size_t i = 0; i < g.count; i++) {
        struct atoll_keyed e = {.created_unix_ms = g.items[i].created_unix_ms,
                                .number = (int64_t)i};
        (void)snprintf(e.id, sizeof(e.id), "%s", g.items[i].id);
        if (!is_over(&g.items[i]))
            atoll_vercel_list_add(&g.list, NULL, &e);
    }
    atoll_vercel_list_reply(&g.list, "snapshots", view_entry);
    free(g.items);
}

/* One snapshot. */

static const struct atoll_vercel_snapshot *find(const struct gathered *g, const char *id)
{
    for (size_t i = 0; i < g->count; i++)
        if (strcmp(g->items[i].id, id) == 0)
            return &g->items[i];
    return NULL;
}

static void refuse_missing(struct atoll_api_call *call, const char *id)
{
    atoll_vercel_refuse(call, 404, NULL, "Snapshot %.100s not found", id);
}

static void reply(struct atoll_api_call *call, const struct atoll_vercel_snapshot *s)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_vercel_view_snapshot(&out, "snapshot", s, atoll_vercel_is_v1(call));
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

void atoll_vercel_snapshot_get(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                               size_t n ATOLL_UNUSED)
{
    const struct atoll_vercel_snapshot *gone;
    struct atoll_vercel_snapshot s;
    struct atoll_template_view t;
    struct gathered g = {0};

    if (atoll_vercel_snapshot_find(call, call->params.template, &t)) {
        atoll_vercel_snapshot_of(&t, &s);
        reply(call, &s);
        return;
    }
    atoll_vercel_each_box(call, gather_deleted, &g);
    gone = find(&g, call->params.template);
    if (gone)
        reply(call, gone);
    else
        refuse_missing(call, call->params.template);
    free(g.items);
}

/* Deleting. */

struct deleting {
    struct atoll_api_call *call;
    struct atoll_vercel_snapshot snapshot;
};

static void deleted(void *arg, const struct atoll_error *error)
{
    struct deleting *d = arg;

    d->snapshot.deleted = true;
    if (error && error->kind == ATOLL_ERR_FAILED_PRECONDITION)
        atoll_vercel_refuse_error(d->call, 400, "snapshot_in_use", error);
    else if (error)
        atoll_api_fail(d->call, error);
    if (!error) {
        keep_deleted(d->call->engine, &d->snapshot);
        reply(d->call, &d->snapshot);
    }
    free(d);
}

void atoll_vercel_snapshot_delete(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                  size_t n ATOLL_UNUSED)
{
    ATOLL_AUTOFREE char *reference = NULL;
    struct atoll_template_view t;
    struct atoll_error error;
    struct deleting *d;

    if (!atoll_vercel_snapshot_find(call, call->params.template, &t)) {
        refuse_missing(call, call->params.template);
        return;
    }
    d = atoll_api_alloc(sizeof(*d));
    d->call = call;
    atoll_vercel_snapshot_of(&t, &d->snapshot);
    if (atoll_vercel_snapshot_reference(call, call->params.template, &reference, &error) < 0)
        deleted(d, &error);
    else
        atoll_templates_remove(call->engine, call->caller.tenant, reference, deleted, d);
}

/* Old automatic ones of a sandbox, and expired ones. */

struct old {
    struct atoll_engine *engine;
    struct atoll_vercel_retention keep; /* of automatic ones, newest first */
    bool all, manual;
    char (*references)[ATOLL_TEMPLATE_REFERENCE_MAX + 1]; /* owned */
    char (*owners)[65];                                   /* owned */
    size_t count;
};
#define OLD_MAX 64 /* of one sweep */

static void forgotten(void *arg ATOLL_UNUSED, const struct atoll_error *error ATOLL_UNUSED)
{
}

/* The automatic ones go with their sandbox. One that a fork was made from stays until that is gone, and the daemon
 * may have ended between the two. */
static bool is_orphan(const struct old *o, const struct atoll_template_view *view,
                      const struct atoll_vercel_snapshot *s)
{
    return s->automatic && !atoll_engine_find(o->engine, view->sandbox_id);
}

static void note_old(void *arg, const struct atoll_template_view *view)
{
    struct old *o = arg;
    struct atoll_vercel_snapshot s;

    if (strncmp(view->name, ATOLL_VERCEL_SNAPSHOT_TEMPLATE,
                strlen(ATOLL_VERCEL_SNAPSHOT_TEMPLATE)) != 0 ||
        o->count == OLD_MAX)
        return;
    atoll_vercel_snapshot_of(view, &s);
    if (!is_over(&s) && !is_orphan(o, view, &s)) {
        if (!o->all || (!s.automatic && !o->manual))
            return;
        if (s.automatic && o->keep.count > 0) {
            o->keep.count--;
            return;
        }
        if (s.automatic && o->keep.evicted_stay &&
            (o->keep.evicted_ms <= 0 ||
             atoll_clock_unix_ms() - s.created_unix_ms < o->keep.evicted_ms))
            return;
    }
    /* One that a sandbox was made from stays until that sandbox is gone, and takes no place in a sweep. */
    if (view->sandboxes > 0)
        return;
    (void)snprintf(o->references[o->count], sizeof(o->references[0]), "%.200s@sha256:%.64s",
                   view->name, view->digest);
    (void)snprintf(o->owners[o->count++], sizeof(o->owners[0]), "%.64s", view->owner);
}

static void remove_old(struct old *o, const char *sandbox_id)
{
    o->references = atoll_api_alloc(OLD_MAX * sizeof(*o->references));
    o->owners = atoll_api_alloc(OLD_MAX * sizeof(*o->owners));
    atoll_snapshots_each(o->engine, NULL, sandbox_id, note_old, o);
    for (size_t i = 0; i < o->count; i++)
        atoll_templates_remove(o->engine, o->owners[i], o->references[i], forgotten, NULL);
    free(o->references);
    free(o->owners);
}

void atoll_vercel_snapshots_trim(struct atoll_engine *engine, const char *sandbox_id,
                                 const struct atoll_vercel_retention *retention)
{
    struct old o = {.engine = engine, .keep = *retention, .all = true};

    remove_old(&o, sandbox_id);
}

void atoll_vercel_snapshots_drop(struct atoll_engine *engine, const char *sandbox_id, bool manual)
{
    struct old o = {.engine = engine, .all = true, .manual = manual};

    remove_old(&o, sandbox_id);
}

void atoll_vercel_snapshots_expire(struct atoll_engine *engine)
{
    struct old o = {.engine = engine};

    remove_old(&o, NULL);
}

/* Ancestry. */

static void view_node(struct atoll_json_out *out, const char *key, const struct gathered *g,
                      const struct atoll_vercel_snapshot *s)
{
    char count[24];
    size_t siblings = 0;

    atoll_json_open(out, key, '{');
    atoll_vercel_view_snapshot(out, "snapshot", s, false);
    atoll_json_open(out, "siblings", '[');
    for (size_t i = 0; *s->parent && i < g->count; i++)
        if (&g->items[i] != s && strcmp(g->items[i].parent, s->parent) == 0) {
            atoll_vercel_view_snapshot(out, NULL, &g->items[i], false);
            siblings++;
        }
    atoll_json_close(out, ']');
    (void)snprintf(count, sizeof(count), "%zu", siblings + 1);
    atoll_json_text(out, "count", count);
    atoll_json_close(out, '}');
}

/* The next one: the parent, or with asc the oldest child. */
static const struct atoll_vercel_snapshot *next_of(const struct gathered *g, bool ascending,
                                                   const struct atoll_vercel_snapshot *s)
{
    if (!ascending)
        return *s->parent ? find(g, s->parent) : NULL;
    for (size_t i = g->count; i > 0; i--) /* newest first */
        if (strcmp(g->items[i - 1].parent, s->id) == 0)
            return &g->items[i - 1];
    return NULL;
}

/* `next` is the snapshot that the next page begins behind: clients give it as ?snapshotId=. */
static void reply_tree(struct atoll_api_call *call, const struct gathered *g,
                       const struct atoll_vercel_snapshot *anchor, uint64_t limit, bool ascending)
{
    const struct atoll_vercel_snapshot *s = next_of(g, ascending, anchor), *last = anchor;
    uint64_t count = 0;
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_open(&out, "snapshots", '[');
    for (; s && count < limit; s = next_of(g, ascending, s), count++) {
        view_node(&out, NULL, g, s);
        last = s;
    }
    atoll_json_close(&out, ']');
    view_node(&out, "anchor", g, anchor);
    atoll_json_open(&out, "pagination", '{');
    atoll_json_u64(&out, "count", count);
    atoll_json_text_or_null(&out, "next", s ? last->id : "");
    atoll_json_close(&out, '}');
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

void atoll_vercel_snapshot_tree(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                size_t n ATOLL_UNUSED)
{
    const char *id = atoll_http_query(call->req, "snapshotId");
    const char *cursor = atoll_http_query(call->req, "cursor");
    const char *order = atoll_http_query(call->req, "sortOrder");
    const struct atoll_vercel_snapshot *anchor;
    struct gathered g = {0};
    struct atoll_error error;
    uint64_t limit = TREE_LIMIT;

    if (atoll_api_query_u64(call, "limit", 1, TREE_LIMIT_MAX, &limit, &error) < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    atoll_snapshots_each(call->engine, call->caller.tenant, NULL, gather, &g);
    anchor = find(&g, cursor && *cursor ? cursor : id ? id : "");
    if (anchor)
        reply_tree(call, &g, anchor, limit, order && strcmp(order, "asc") == 0);
    else
        refuse_missing(call, id ? id : "");
    free(g.items);
}

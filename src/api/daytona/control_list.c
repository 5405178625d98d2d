/*
 * GET /sandbox: the tenant's sandboxes with filters, sorted, in pages.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "api/daytona/builds.h"
#include "api/kit/keyed_list.h"
#include "api/kit/metadata.h"
#include "api/kit/rfc3339.h"
#include "base/text.h"
#include "engine/json_memory.h"

#define LIMIT 100
#define LIMIT_MAX 200
#define GIB 1073741824.0

enum sort { BY_ACTIVITY, BY_CREATED, BY_UPDATED, BY_NAME, BY_ID, BY_STATE, BY_SNAPSHOT, BY_REGION };
static const struct {
    const char *name;
    enum sort sort;
} sorts[] = {{"lastActivityAt", BY_ACTIVITY},
             {"createdAt", BY_CREATED},
             {"updatedAt", BY_UPDATED},
             {"name", BY_NAME},
             {"id", BY_ID},
             {"state", BY_STATE},
             {"snapshot", BY_SNAPSHOT},
             {"region", BY_REGION}};

/* Bounds of a number or a time: the parameters, and the value of a sandbox. */
enum bound { CPU, MEMORY, DISK, GPU, CREATED, LAST_EVENT, DESTROY, BOUNDS };
static const struct {
    const char *from, *to;
    bool is_time;
    const char *old_from, *old_to; /* of SDKs before 0.191 */
} bounds[BOUNDS] = {
    [CPU] = {"minCpu", "maxCpu", false, NULL, NULL},
    [MEMORY] = {"minMemoryGiB", "maxMemoryGiB", false, "minMemoryGib", "maxMemoryGib"},
    [DISK] = {"minDiskGiB", "maxDiskGiB", false, "minDiskGib", "maxDiskGib"},
    [GPU] = {"minGpu", "maxGpu", false, NULL, NULL},
    [CREATED] = {"createdAtAfter", "createdAtBefore", true, NULL, NULL},
    [LAST_EVENT] = {"lastEventAfter", "lastEventBefore", true, NULL, NULL},
    [DESTROY] = {"autoDestroyAtAfter", "autoDestroyAtBefore", true, NULL, NULL},
};

struct query {
    const struct atoll_api_call *call;
    const char *id, *name;
    json_t *labels; /* owned, or NULL */
    enum sort sort;
    double from[BOUNDS], to[BOUNDS];
    int is_public, is_recoverable; /* -1: any */
    uint64_t limit;
    struct atoll_keyed_list found; /* owned */
    size_t total;                  /* on all pages */
};

/* The query. */

static int refuse(struct atoll_error *err, const char *name, const char *got)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s is not valid (got \"%.80s\")",
                      name, got);
}

static int take_bound(const struct query *q, const char *name, bool is_time, double *ret,
                      struct atoll_error *err)
{
    const char *text = name ? atoll_http_query(q->call->req, name) : NULL;
    int64_t us;

    if (!text || !*text)
        return 0;
    if (is_time) {
        if (atoll_rfc3339_parse(text, &us) < 0)
            return refuse(err, name, text);
        *ret = (double)us / 1000;
        return 0;
    }
    return atoll_text_double(text, 0, 1e9, ret) < 0 ? refuse(err, name, text) : 0;
}

static int take_flag(const struct query *q, const char *name, int *ret, struct atoll_error *err)
{
    bool value;
    int r = atoll_api_query_flag(q->call, name, &value, err);

    *ret = r == 0 && atoll_http_query(q->call->req, name) ? value : -1;
    return r;
}

static int take_labels(struct query *q, struct atoll_error *err)
{
    const char *text = atoll_http_query(q->call->req, "labels");
    bool no_memory = false;
    json_error_t why;

    if (!text || !*text)
        return 0;
    q->labels = atoll_fields_load(text, strlen(text), &why, &no_memory);
    if (no_memory)
        return atoll_fields_no_memory(err);
    return json_is_object(q->labels) ? 0 : refuse(err, "labels", text);
}

static int take_sort(struct query *q, struct atoll_error *err)
{
    const char *sort = atoll_http_query(q->call->req, "sort");
    const char *order = atoll_http_query(q->call->req, "order");

    for (size_t i = 0; sort && *sort; i++) {
        if (i == ATOLL_ARRAY_LEN(sorts))
            return refuse(err, "sort", sort);
        if (strcmp(sort, sorts[i].name) == 0) {
            q->sort = sorts[i].sort;
            break;
        }
    }
    return atoll_keyed_take_order(&q->found, order && *order ? order : NULL) < 0
               ? refuse(err, "order", order)
               : 0;
}

static int take_bounds(struct query *q, enum bound bound, struct atoll_error *err)
{
    const bool is_time = bounds[bound].is_time;
    int r;

    q->from[bound] = -INFINITY;
    q->to[bound] = INFINITY;
    r = take_bound(q, bounds[bound].old_from, is_time, &q->from[bound], err);
    if (r == 0)
        r = take_bound(q, bounds[bound].old_to, is_time, &q->to[bound], err);
    if (r == 0)
        r = take_bound(q, bounds[bound].from, is_time, &q->from[bound], err);
    return r < 0 ? r : take_bound(q, bounds[bound].to, is_time, &q->to[bound], err);
}

/* There are no warm sandboxes of tenants, and destroyed ones are forgotten: these add nothing. */
static int take_additions(const struct query *q, struct atoll_error *err)
{
    int ignored, r = take_flag(q, "includeWarm", &ignored, err);

    return r < 0 ? r : take_flag(q, "includeErroredDeleted", &ignored, err);
}

static int take_query(struct query *q, struct atoll_error *err)
{
    const char *cursor = atoll_http_query(q->call->req, "cursor");
    int r = take_sort(q, err);

    q->id = atoll_http_query(q->call->req, "id");
    q->name = atoll_http_query(q->call->req, "name");
    q->limit = LIMIT;
    if (r == 0)
        r = take_labels(q, err);
    if (r == 0 && atoll_keyed_take_cursor(&q->found, cursor) < 0)
        r = refuse(err, "cursor", cursor);
    if (r == 0)
        r = take_flag(q, "isPublic", &q->is_public, err);
    if (r == 0)
        r = take_flag(q, "isRecoverable", &q->is_recoverable, err);
    if (r == 0)
        r = atoll_api_query_u64(q->call, "limit", 1, LIMIT_MAX, &q->limit, err);
    if (r == 0)
        r = take_additions(q, err);
    for (enum bound i = 0; r == 0 && i < BOUNDS; i++)
        r = take_bounds(q, i, err);
    return r;
}

/* Filters. */

static bool has_labels(const struct query *q, const char *metadata_json)
{
    json_t *labels, *wanted;
    const char *name;
    bool all = true;

    if (!q->labels)
        return true;
    labels = atoll_json_load_own(metadata_json);
    json_object_foreach(q->labels, name, wanted) all =
        all && json_equal(wanted, json_object_get(labels, name));
    json_decref(labels);
    return all;
}

/* Whether the parameter is absent, or one of its values is the text. */
static bool is_listed(const struct query *q, const char *parameter, const char *text)
{
    const char *value;
    bool any = false;

    for (size_t pos = 0; (value = atoll_http_query_next(q->call->req, parameter, &pos));) {
        any = true;
        if (strcmp(value, text) == 0)
            return true;
    }
    return !any;
}

static bool is_within(const struct query *q, enum bound bound, double value)
{
    return value >= q->from[bound] && value <= q->to[bound];
}

static const char *or_default(const char *text, const char *otherwise)
{
    return *text ? text : otherwise;
}

/* A sandbox without an end is not in a range of ends. */
static bool ends_within(const struct query *q, const json_t *facts)
{
    int64_t at = atoll_fact_number(facts, "destroyAt", 0);

    return at > 0 ? is_within(q, DESTROY, (double)at)
                  : isinf(q->from[DESTROY]) && isinf(q->to[DESTROY]);
}

static bool is_sized(const struct query *q, const struct atoll_sandbox_view *v, const json_t *facts)
{
    const struct atoll_limits *l = &v->options.limits;

    return is_within(q, CPU, l->cpu_millis / 1000.0) &&
           is_within(q, MEMORY, (double)l->memory_bytes / GIB) &&
           is_within(q, DISK, (double)l->disk_bytes / GIB) && is_within(q, GPU, v->options.gpus) &&
           ends_within(q, facts) && is_within(q, CREATED, (double)v->created_unix_ms) &&
           is_within(q, LAST_EVENT, (double)atoll_daytona_last_activity(q->call->api, v, facts));
}

static bool is_wanted(const struct query *q, const struct atoll_sandbox_view *v,
                      const json_t *facts)
{
    const char *state = atoll_daytona_state(v, facts);
    bool recoverable = atoll_daytona_is_recoverable(v);

    if (strcmp(state, "destroyed") == 0)
        return false;
    if ((q->id && !strstr(v->id, q->id)) || (q->name && !strstr(atoll_name_or_id(v), q->name)))
        return false;
    if ((q->is_public >= 0 && q->is_public != atoll_fact_flag(facts, "public")) ||
        (q->is_recoverable >= 0 && q->is_recoverable != recoverable))
        return false;
    return is_listed(q, "states", state) &&
           is_listed(q, "snapshots",
                     or_default(atoll_fact_text(facts, "snapshot"), v->template_name)) &&
           is_listed(q, "regionIds",
                     or_default(atoll_fact_text(facts, "target"), ATOLL_DAYTONA_REGION)) &&
           is_listed(q, "sandboxClasses", "container") && is_sized(q, v, facts) &&
           has_labels(q, v->options.metadata_json);
}

/* Order. */

static void set_key(const struct query *q, const struct atoll_sandbox_view *v, const json_t *facts,
                    struct atoll_keyed *e)
{
    switch (q->sort) {
    case BY_ACTIVITY:
        atoll_keyed_set_time(e, atoll_daytona_last_activity(q->call->api, v, facts));
        break;
    case BY_CREATED:
        atoll_keyed_set_time(e, v->created_unix_ms);
        break;
    case BY_UPDATED:
        atoll_keyed_set_time(e, atoll_fact_number(facts, "updated", v->created_unix_ms));
        break;
    case BY_NAME:
        atoll_keyed_set_text(e, atoll_name_or_id(v));
        break;
    case BY_STATE:
        atoll_keyed_set_text(e, atoll_daytona_state(v, facts));
        break;
    case BY_SNAPSHOT:
        atoll_keyed_set_text(e, atoll_fact_text(facts, "snapshot"));
        break;
    case BY_ID:
    case BY_REGION: /* all are in one, so that the id decides */
        break;
    }
}

static void add(struct query *q, const struct atoll_sandbox_view *v, const json_t *facts,
                bool waits, const void *data)
{
    struct atoll_keyed e = {.data = data, .number = waits};

    if (!is_wanted(q, v, facts))
        return;
    (void)snprintf(e.id, sizeof(e.id), "%s", v->id);
    set_key(q, v, facts, &e);
    atoll_keyed_add(&q->found, &e);
    q->total++;
}

static void add_waiting(void *arg, const struct atoll_daytona_waiting *w,
                        const struct atoll_sandbox_view *v, const json_t *facts)
{
    add(arg, v, facts, true, w);
}

static void gather(struct query *q)
{
    const char *tenant = atoll_api_list_tenant(q->call);
    struct atoll_sandbox_view v = {.created_unix_ms = INT64_MIN, .id = ""};
    struct atoll_sandbox *sandbox;

    while ((sandbox = atoll_engine_after(q->call->engine, tenant, v.created_unix_ms, v.id))) {
        json_t *facts = atoll_daytona_facts(sandbox);
        atoll_sandbox_get(sandbox, &v);
        add(q, &v, facts, false, sandbox);
        json_decref(facts);
    }
    atoll_daytona_waiting_each(q->call->api, tenant, add_waiting, q);
    atoll_keyed_sort(&q->found);
}

/* Response. */

struct page {
    size_t skip; /* of the sorted entries */
    uint64_t number;
    bool numbered;
};

static void view(struct atoll_json_out *out, const struct atoll_api_call *call, const char *origin,
                 const struct atoll_keyed *e, bool numbered)
{
    enum atoll_daytona_detail detail =
        numbered ? atoll_daytona_detail_for(call) : ATOLL_DAYTONA_ITEM;

    if (e->number)
        atoll_daytona_waiting_view(out, e->data, origin, detail);
    else
        atoll_daytona_view_sandbox(out, NULL, call->api, origin, e->data, detail);
}

static void reply(struct atoll_api_call *call, struct query *q, const struct page *page)
{
    char origin[ATOLL_ORIGIN_MAX];
    size_t shown = 0, i = page->skip;
    const struct atoll_keyed *e = NULL;
    struct atoll_buf buf;
    struct atoll_json_out out;

    gather(q);
    atoll_origin(call->api, call->req, origin);
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_open(&out, "items", '[');
    for (; i < q->found.count && shown < q->limit; i++, shown++) {
        e = atoll_keyed_at(&q->found, i);
        view(&out, call, origin, e, page->numbered);
    }
    atoll_json_close(&out, ']');
    if (page->numbered) {
        atoll_json_u64(&out, "total", q->total);
        atoll_json_u64(&out, "page", page->number);
        atoll_json_u64(&out, "totalPages", (q->total + q->limit - 1) / q->limit);
    } else {
        atoll_keyed_write_cursor(&out, "nextCursor", i < q->found.count ? e : NULL);
    }
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

static void list(struct atoll_api_call *call, bool numbered)
{
    struct query q = {.call = call};
    struct page page = {.number = 1, .numbered = numbered};
    struct atoll_error error;
    int r = take_query(&q, &error);

    if (r == 0 && numbered)
        r = atoll_api_query_u64(call, "page", 1, UINT32_MAX, &page.number, &error);
    page.skip = numbered ? (size_t)((page.number - 1) * q.limit) : 0;
    if (r < 0)
        atoll_api_fail(call, &error);
    else
        reply(call, &q, &page);
    atoll_keyed_done(&q.found);
    json_decref(q.labels);
}

void atoll_daytona_list(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                        size_t n ATOLL_UNUSED)
{
    list(call, false);
}

void atoll_daytona_list_pages(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                              size_t n ATOLL_UNUSED)
{
    list(call, true);
}

/*
 * GET /v2/sandboxes: the tenant's sandboxes, newest first by default, with filters and paging. The
 * next page starts after the last sandbox of this one, so that sandboxes created or destroyed
 * meanwhile do not shift the pages.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "api/e2b/e2b_internal.h"
#include "api/e2b/list_query.h"
#include "api/kit/paging.h"
#include "api/kit/rfc3339.h"
#include "engine/json_memory.h"
#include "net/url.h"

#define LIMIT 100
#define METADATA_MAX ((size_t)16 * 1024)

struct query {
    bool running, paused;
    bool ascending;
    bool has_cursor;
    struct atoll_e2b_cursor cursor;
    int64_t started_after_us; /* INT64_MIN: any */
    const char *template_id;  /* NULL: any */
    struct atoll_buf metadata;
    uint64_t limit;
};

static int refuse(struct atoll_error *err, const char *text, const char *got)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s (got \"%.80s\")", text, got);
}

static int take_states(struct query *q, const char *text, struct atoll_error *err)
{
    if (!text || !*text) {
        q->running = q->paused = true;
        return 0;
    }
    for (const char *p = text;; p++) {
        size_t n = strcspn(p, ",");
        if (n == 7 && strncmp(p, "running", n) == 0)
            q->running = true;
        else if (n == 6 && strncmp(p, "paused", n) == 0)
            q->paused = true;
        else
            return refuse(err, "state must be running, paused or both with a comma", text);
        p += n;
        if (*p == '\0')
            return 0;
    }
}

static int take_metadata(struct query *q, const char *text, struct atoll_error *err)
{
    if (text && *text && atoll_e2b_metadata_decode(&q->metadata, text) < 0)
        return refuse(err, "metadata must be key=value pairs, joined by & and percent-encoded",
                      text);
    return 0;
}

static int take_order(struct query *q, const char *order, const char *token,
                      struct atoll_error *err)
{
    q->ascending = order && strcmp(order, "asc") == 0;
    if (order && !q->ascending && strcmp(order, "desc") != 0)
        return refuse(err, "order must be asc or desc", order);
    if (!token || !*token)
        return 0;
    q->has_cursor = true;
    if (atoll_e2b_cursor_parse(token, &q->cursor) < 0)
        return refuse(err, "nextToken must be the X-Next-Token of the page before", token);
    if (q->cursor.ascending != q->ascending)
        return refuse(err, "nextToken belongs to a list in the other order", token);
    return 0;
}

static int take_query(const struct atoll_api_call *call, struct query *q, struct atoll_error *err)
{
    const char *after = atoll_http_query(call->req, "startedAfter");
    int r = take_states(q, atoll_http_query(call->req, "state"), err);

    if (r == 0)
        r = take_metadata(q, atoll_http_query(call->req, "metadata"), err);
    if (r == 0)
        r = take_order(q, atoll_http_query(call->req, "order"),
                       atoll_http_query(call->req, "nextToken"), err);
    if (r == 0 && after && atoll_rfc3339_parse(after, &q->started_after_us) < 0)
        r = refuse(err, "startedAfter must be a time like 2026-01-31T12:00:00Z", after);
    if (r == 0)
        r = atoll_api_query_u64(call, "limit", 1, LIMIT, &q->limit, err);
    q->template_id = atoll_http_query(call->req, "template");
    return r;
}

/* Filters. */

static bool has_metadata(const struct query *q, const char *metadata_json)
{
    const char *p = (const char *)atoll_buf_head(&q->metadata), *end;
    json_t *metadata;
    bool all = true;

    if (atoll_buf_size(&q->metadata) == 0)
        return true;
    end = p + atoll_buf_size(&q->metadata);
    metadata = atoll_json_load_own(metadata_json);
    while (p < end && all) {
        const char *key = p, *wanted = key + strlen(key) + 1;
        const char *value = json_string_value(json_object_get(metadata, key));
        all = value && strcmp(value, wanted) == 0;
        p = wanted + strlen(wanted) + 1;
    }
    json_decref(metadata);
    return all;
}

static bool has_template(const struct query *q, const struct atoll_sandbox *sandbox)
{
    struct atoll_e2b_facts facts;
    bool has;

    if (!q->template_id || !*q->template_id)
        return true;
    atoll_e2b_facts_get(sandbox, &facts);
    has = strcasecmp(q->template_id, facts.template_id) == 0 ||
          (facts.alias[0] && strcasecmp(q->template_id, facts.alias) == 0);
    atoll_e2b_facts_done(&facts);
    return has;
}

static bool is_wanted(const struct query *q, const struct atoll_sandbox *sandbox,
                      const struct atoll_sandbox_view *v)
{
    if (!atoll_e2b_is_known(v) || (atoll_e2b_is_paused(v) ? !q->paused : !q->running))
        return false;
    return v->created_unix_ms * 1000 >= q->started_after_us &&
           has_metadata(q, v->options.metadata_json) && has_template(q, sandbox);
}

static bool is_behind_cursor(const struct query *q, const struct atoll_sandbox_view *v)
{
    int order = atoll_page_compare(v->created_unix_ms, v->id, q->cursor.unix_ms, q->cursor.id);

    return !q->has_cursor || (q->ascending ? order > 0 : order < 0);
}

struct found {
    struct atoll_sandbox **sandboxes; /* owned, sorted oldest first */
    size_t count;
    size_t running; /* on all pages together */
};

static void gather(const struct atoll_api_call *call, const struct query *q, struct found *ret)
{
    const char *tenant = atoll_api_list_tenant(call);
    struct atoll_sandbox_view view = {.created_unix_ms = INT64_MIN, .id = ""};
    size_t states[ATOLL_SANDBOX_STATES];
    size_t total = atoll_engine_count(call->engine, tenant, NULL, states, NULL);
    struct atoll_sandbox *sandbox;

    ret->sandboxes = atoll_api_alloc((total + 1) * sizeof(struct atoll_sandbox *));
    while (ret->count < total &&
           (sandbox = atoll_engine_after(call->engine, tenant, view.created_unix_ms, view.id))) {
        atoll_sandbox_get(sandbox, &view);
        if (!is_wanted(q, sandbox, &view))
            continue;
        ret->running += !atoll_e2b_is_paused(&view);
        if (is_behind_cursor(q, &view))
            ret->sandboxes[ret->count++] = sandbox;
    }
}

/* Response. */

static struct atoll_sandbox *at(const struct query *q, const struct found *found, size_t i)
{
    return found->sandboxes[q->ascending ? i : found->count - 1 - i];
}

static void set_headers(struct atoll_api_call *call, const struct query *q,
                        const struct found *found, size_t shown)
{
    struct atoll_e2b_cursor cursor = {.ascending = q->ascending};
    struct atoll_sandbox_view last;
    char text[ATOLL_E2B_CURSOR_MAX];

    if (q->running) {
        (void)snprintf(text, sizeof(text), "%zu", found->running);
        (void)atoll_http_set_header(call->req, "X-Total-Running", text);
    }
    if (shown == found->count)
        return;
    atoll_sandbox_get(at(q, found, shown - 1), &last);
    cursor.unix_ms = last.created_unix_ms;
    (void)snprintf(cursor.id, sizeof(cursor.id), "%s", last.id);
    atoll_e2b_cursor_format(&cursor, text);
    (void)atoll_http_set_header(call->req, "X-Next-Token", text);
}

static void reply(struct atoll_api_call *call, const struct query *q)
{
    struct found found = {0};
    struct atoll_buf buf;
    struct atoll_json_out out;
    size_t shown;

    gather(call, q, &found);
    shown = q->limit ? ATOLL_MIN(found.count, (size_t)q->limit) : found.count;
    set_headers(call, q, &found, shown);
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '[');
    for (size_t i = 0; i < shown; i++)
        atoll_e2b_view_sandbox(&out, call->api, at(q, &found, i), false);
    atoll_json_close(&out, ']');
    free(found.sandboxes);
    atoll_api_reply(call, 200, &out);
}

void atoll_e2b_list(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                    size_t n ATOLL_UNUSED)
{
    struct query q = {.limit = LIMIT, .started_after_us = INT64_MIN};
    struct atoll_error error;

    atoll_buf_init(&q.metadata, METADATA_MAX);
    if (take_query(call, &q, &error) < 0)
        atoll_api_fail(call, &error);
    else
        reply(call, &q);
    atoll_buf_done(&q.metadata);
}

/* API version 1: all running sandboxes, without paging. */
void atoll_e2b_list_running(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                            size_t n ATOLL_UNUSED)
{
    struct query q = {.running = true, .started_after_us = INT64_MIN};
    struct atoll_error error;

    atoll_buf_init(&q.metadata, METADATA_MAX);
    if (take_metadata(&q, atoll_http_query(call->req, "metadata"), &error) < 0)
        atoll_api_fail(call, &error);
    else
        reply(call, &q);
    atoll_buf_done(&q.metadata);
}

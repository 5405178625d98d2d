/*
 * Lists of sandboxes and of sessions.
 */
#include <stdio.h>
#include <string.h>
#include "api/kit/metadata.h"
#include "api/vercel/list.h"
#include "engine/json_memory.h"

/* Each value of ?tags= is NAME:VALUE; a sandbox needs all of them. */
static bool has_tags(const struct atoll_api_call *call, const struct atoll_sandbox_view *v)
{
    json_t *tags = atoll_json_load_own(v->options.metadata_json);
    const char *wanted, *value;
    char name[256];
    bool all = true;

    for (size_t pos = 0; all && (wanted = atoll_http_query_next(call->req, "tags", &pos));) {
        size_t n = strcspn(wanted, ":");
        (void)snprintf(name, sizeof(name), "%.*s", (int)ATOLL_MIN(n, sizeof(name) - 1), wanted);
        value = json_string_value(json_object_get(tags, name));
        all = value && (wanted[n] != ':' || strcmp(value, wanted + n + 1) == 0);
    }
    json_decref(tags);
    return all;
}

void atoll_vercel_each_box(const struct atoll_api_call *call,
                           void (*fn)(void *arg, const struct atoll_vercel_box *box), void *arg)
{
    const char *tenant = atoll_api_list_tenant(call);
    struct atoll_sandbox_view v = {.created_unix_ms = INT64_MIN, .id = ""};
    struct atoll_sandbox *sandbox;
    struct atoll_vercel_box box;

    while ((sandbox = atoll_engine_after(call->engine, tenant, v.created_unix_ms, v.id))) {
        atoll_sandbox_get(sandbox, &v);
        if (!atoll_vercel_box_get(call->engine, v.id, &box))
            continue;
        if (atoll_vercel_box_is_ours(&box))
            fn(arg, &box);
        atoll_vercel_box_done(&box);
    }
}

/* Sandboxes. */

static void add_sandbox(void *arg, const struct atoll_vercel_box *box)
{
    struct atoll_vercel_list *list = arg;
    const char *sort = atoll_http_query(list->call->req, "sortBy");
    const char *prefix = atoll_http_query(list->call->req, "namePrefix");
    const struct atoll_sandbox_view *v = &box->view;
    struct atoll_keyed e = {.created_unix_ms = v->created_unix_ms, .data = box->sandbox};
    int64_t updated;

    if ((prefix && strncmp(atoll_name_or_id(v), prefix, strlen(prefix)) != 0) ||
        !has_tags(list->call, v))
        return;
    (void)snprintf(e.id, sizeof(e.id), "%s", v->id);
    updated = ATOLL_MAX(atoll_fact_number(box->facts, "updatedAt", v->created_unix_ms),
                        v->paused_unix_ms);
    atoll_keyed_set_time(&e, updated);
    if (sort && strcmp(sort, "name") == 0)
        atoll_vercel_list_add(list, atoll_name_or_id(v), &e);
    else if (sort && (strcmp(sort, "statusUpdatedAt") == 0 || strcmp(sort, "updatedAt") == 0))
        atoll_vercel_list_add(list, e.key, &e);
    else
        atoll_vercel_list_add(list, NULL, &e);
}

static void view_sandbox(struct atoll_json_out *out, const struct atoll_vercel_list *list,
                         const struct atoll_keyed *entry)
{
    struct atoll_vercel_box box;

    if (!atoll_vercel_box_get(list->call->engine, entry->id, &box))
        return;
    if (list->v1)
        atoll_vercel_view_session(out, NULL, &box, atoll_vercel_session_number(box.facts));
    else
        atoll_vercel_view_sandbox(out, NULL, &box);
    atoll_vercel_box_done(&box);
}

static void reply_list(struct atoll_api_call *call, const char *name,
                       void (*add)(void *arg, const struct atoll_vercel_box *box),
                       void (*view)(struct atoll_json_out *out,
                                    const struct atoll_vercel_list *list,
                                    const struct atoll_keyed *entry))
{
    struct atoll_vercel_list list;
    struct atoll_error error;

    if (atoll_vercel_list_begin(call, &list, &error) < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    atoll_vercel_each_box(call, add, &list);
    atoll_vercel_list_reply(&list, name, view);
}

void atoll_vercel_sandbox_list(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                               size_t n ATOLL_UNUSED)
{
    reply_list(call, "sandboxes", add_sandbox, view_sandbox);
}

/* Sessions. */

static void add_sessions(void *arg, const struct atoll_vercel_box *box)
{
    struct atoll_vercel_list *list = arg;
    const char *name = atoll_http_query(list->call->req, "name");
    const json_t *records = json_object_get(box->facts, "sessions");
    size_t i;
    json_t *record;

    if (name && strcmp(name, atoll_name_or_id(&box->view)) != 0 && strcmp(name, box->view.id) != 0)
        return;
    json_array_foreach(records, i, record)
    {
        struct atoll_keyed e = {.created_unix_ms = atoll_fact_number(record, "createdAt", 0),
                                .number = atoll_fact_number(record, "n", 1)};
        atoll_vercel_sid_write(box->view.id, e.number, e.id);
        atoll_vercel_list_add(list, NULL, &e);
    }
}

static void view_session(struct atoll_json_out *out, const struct atoll_vercel_list *list,
                         const struct atoll_keyed *entry)
{
    struct atoll_vercel_box box;
    char id[ATOLL_ID_LEN + 1];
    int64_t number;

    if (!atoll_vercel_sid_read(entry->id, id, &number) ||
        !atoll_vercel_box_get(list->call->engine, id, &box))
        return;
    atoll_vercel_view_session(out, NULL, &box, number);
    atoll_vercel_box_done(&box);
}

void atoll_vercel_session_list(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                               size_t n ATOLL_UNUSED)
{
    reply_list(call, "sessions", add_sessions, view_session);
}

#include "api/vercel/list.h"
#include <errno.h>
#include <string.h>

#define LIMIT 20
#define LIMIT_MAX 1000

static int refuse(struct atoll_error *err, const char *name, const char *got)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "?%s= is not valid (got \"%.80s\")",
                      name, got);
}

int atoll_vercel_list_begin(struct atoll_api_call *call, struct atoll_vercel_list *list,
                            struct atoll_error *err)
{
    const char *order = atoll_http_query(call->req, "sortOrder");
    const char *cursor = atoll_http_query(call->req, "cursor");
    int r = 0;

    *list = (struct atoll_vercel_list){
        .call = call, .limit = LIMIT, .until_ms = INT64_MAX, .v1 = atoll_vercel_is_v1(call)};
    if (atoll_keyed_take_order(&list->entries, order) < 0)
        r = refuse(err, "sortOrder", order);
    if (r == 0)
        r = atoll_api_query_u64(call, "limit", 1, LIMIT_MAX, &list->limit, err);
    if (r == 0)
        r = atoll_api_query_u64(call, "until", 0, INT64_MAX, &list->until_ms, err);
    if (r == 0)
        r = atoll_api_query_u64(call, "since", 0, INT64_MAX, &list->since_ms, err);
    if (r == 0 && atoll_keyed_take_cursor(&list->entries, cursor) < 0)
        r = refuse(err, "cursor", cursor);
    return r;
}

void atoll_vercel_list_add(struct atoll_vercel_list *list, const char *key,
                           const struct atoll_keyed *entry)
{
    struct atoll_keyed e = *entry;

    if ((uint64_t)e.created_unix_ms >= list->until_ms ||
        (uint64_t)e.created_unix_ms < list->since_ms)
        return;
    if (key)
        atoll_keyed_set_text(&e, key);
    else
        atoll_keyed_set_time(&e, e.created_unix_ms);
    atoll_keyed_add(&list->entries, &e);
}

static void write_next(struct atoll_json_out *out, const struct atoll_vercel_list *list,
                       const struct atoll_keyed *last)
{
    if (list->v1 && last)
        atoll_json_i64(out, "next", last->created_unix_ms);
    else
        atoll_keyed_write_cursor(out, "next", last);
    if (list->v1)
        atoll_json_null(out, "prev");
}

void atoll_vercel_list_reply(struct atoll_vercel_list *list, const char *name,
                             void (*view)(struct atoll_json_out *out,
                                          const struct atoll_vercel_list *list,
                                          const struct atoll_keyed *entry))
{
    const struct atoll_keyed *e = NULL;
    size_t i = 0;
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_keyed_sort(&list->entries);
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_open(&out, name, '[');
    for (; i < list->entries.count && i < list->limit; i++) {
        e = atoll_keyed_at(&list->entries, i);
        view(&out, list, e);
    }
    atoll_json_close(&out, ']');
    atoll_json_open(&out, "pagination", '{');
    atoll_json_u64(&out, "count", i);
    write_next(&out, list, i < list->entries.count ? e : NULL);
    atoll_json_close(&out, '}');
    atoll_json_close(&out, '}');
    atoll_keyed_done(&list->entries);
    atoll_api_reply(list->call, 200, &out);
}

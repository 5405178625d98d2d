#include "api/vercel/list.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/base64.h"
#include "base/text.h"

#define LIMIT 20
#define LIMIT_MAX 1000
#define CURSOR_MAX 512

static int refuse(struct atoll_error *err, const char *name, const char *got)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "?%s= is not valid (got \"%.80s\")",
                      name, got);
}

static int take_cursor(struct atoll_vercel_list *list, struct atoll_error *err)
{
    const char *text = atoll_http_query(list->call->req, "cursor");
    char plain[CURSOR_MAX];
    const char *tab;
    ssize_t n;

    if (!text || !*text)
        return 0;
    n = atoll_base64_bytes(plain, sizeof(plain) - 1, text, strlen(text));
    if (n < 0)
        return refuse(err, "cursor", text);
    plain[n] = '\0';
    tab = strrchr(plain, '\t');
    if (!tab || tab - plain >= ATOLL_VERCEL_KEY_MAX || strlen(tab + 1) >= ATOLL_VERCEL_SID_MAX)
        return refuse(err, "cursor", text);
    (void)snprintf(list->after_key, sizeof(list->after_key), "%.*s", (int)(tab - plain), plain);
    (void)snprintf(list->after_id, sizeof(list->after_id), "%.64s", tab + 1);
    return 0;
}

int atoll_vercel_list_begin(struct atoll_api_call *call, struct atoll_vercel_list *list,
                            struct atoll_error *err)
{
    const char *order = atoll_http_query(call->req, "sortOrder");
    int r = 0;

    *list = (struct atoll_vercel_list){
        .call = call, .limit = LIMIT, .until_ms = INT64_MAX, .v1 = atoll_vercel_is_v1(call)};
    if (order && strcmp(order, "asc") != 0 && strcmp(order, "desc") != 0)
        r = refuse(err, "sortOrder", order);
    list->ascending = order && strcmp(order, "asc") == 0;
    if (r == 0)
        r = atoll_api_query_u64(call, "limit", 1, LIMIT_MAX, &list->limit, err);
    if (r == 0)
        r = atoll_api_query_u64(call, "until", 0, INT64_MAX, &list->until_ms, err);
    if (r == 0)
        r = atoll_api_query_u64(call, "since", 0, INT64_MAX, &list->since_ms, err);
    return r < 0 ? r : take_cursor(list, err);
}

static int compare(const void *a, const void *b)
{
    const struct atoll_vercel_entry *x = a, *y = b;
    int order = strcmp(x->key, y->key);

    return order ? order : strcmp(x->id, y->id);
}

static bool is_after(const struct atoll_vercel_list *list, const struct atoll_vercel_entry *e)
{
    int order = strcmp(e->key, list->after_key);

    if ((uint64_t)e->created_unix_ms >= list->until_ms ||
        (uint64_t)e->created_unix_ms < list->since_ms)
        return false;
    order = order ? order : strcmp(e->id, list->after_id);
    return !list->after_id[0] || (list->ascending ? order > 0 : order < 0);
}

void atoll_vercel_list_add(struct atoll_vercel_list *list, const char *key,
                           const struct atoll_vercel_entry *entry)
{
    struct atoll_vercel_entry e = *entry, *more;
    size_t room = list->room ? list->room * 2 : 32;

    if (key)
        (void)snprintf(e.key, sizeof(e.key), "%.*s", ATOLL_VERCEL_KEY_MAX - 1, key);
    else
        (void)snprintf(e.key, sizeof(e.key), "%020lld", (long long)e.created_unix_ms);
    if (!is_after(list, &e))
        return;
    if (list->count == list->room) {
        more = realloc(list->entries, room * sizeof(*more));
        if (!more)
            abort(); /* small objects: the daemon is crash-only */
        list->entries = more;
        list->room = room;
    }
    list->entries[list->count++] = e;
}

static void write_next(struct atoll_json_out *out, const struct atoll_vercel_list *list,
                       const struct atoll_vercel_entry *last)
{
    char plain[CURSOR_MAX / 2], text[CURSOR_MAX];
    int n;

    if (!last) {
        atoll_json_null(out, "next");
    } else if (list->v1) {
        atoll_json_i64(out, "next", last->created_unix_ms);
    } else {
        n = snprintf(plain, sizeof(plain), "%s\t%s", last->key, last->id);
        atoll_base64_text(text, plain, (size_t)n);
        atoll_json_text(out, "next", text);
    }
    if (list->v1)
        atoll_json_null(out, "prev");
}

void atoll_vercel_list_reply(struct atoll_vercel_list *list, const char *name,
                             void (*view)(struct atoll_json_out *out,
                                          const struct atoll_vercel_list *list,
                                          const struct atoll_vercel_entry *entry))
{
    const struct atoll_vercel_entry *e = NULL;
    size_t i = 0;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (list->count > 0)
        qsort(list->entries, list->count, sizeof(*list->entries), compare);
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_open(&out, name, '[');
    for (; i < list->count && i < list->limit; i++) {
        e = &list->entries[list->ascending ? i : list->count - 1 - i];
        view(&out, list, e);
    }
    atoll_json_close(&out, ']');
    atoll_json_open(&out, "pagination", '{');
    atoll_json_u64(&out, "count", i);
    write_next(&out, list, i < list->count ? e : NULL);
    atoll_json_close(&out, '}');
    atoll_json_close(&out, '}');
    free(list->entries);
    atoll_api_reply(list->call, 200, &out);
}

#include "api/kit/paging.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"

#define LIMIT_MAX 1000

static int take_cursor(struct atoll_page *page, const char *text, struct atoll_error *err)
{
    const char *dash = text ? strchr(text, '-') : NULL;
    char number[24];
    uint64_t ms;

    if (!text || !*text)
        return 0;
    if (!dash || (size_t)(dash - text) >= sizeof(number) || !atoll_text_is_id(dash + 1))
        goto bad;
    memcpy(number, text, (size_t)(dash - text));
    number[dash - text] = '\0';
    if (atoll_text_u64(number, 0, INT64_MAX, &ms) < 0)
        goto bad;
    page->has_cursor = true;
    page->after_ms = (int64_t)ms;
    (void)snprintf(page->after_id, sizeof(page->after_id), "%s", dash + 1);
    return 0;
bad:
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                      "?cursor= must be the next_cursor of the page before (got \"%.48s\")", text);
}

int atoll_page_take(const struct atoll_api_call *call, struct atoll_page *ret,
                    struct atoll_error *err)
{
    int r;

    *ret = (struct atoll_page){0};
    r = atoll_api_query_u64(call, "limit", 1, LIMIT_MAX, &ret->limit, err);
    return r < 0 ? r : take_cursor(ret, atoll_http_query(call->req, "cursor"), err);
}

int atoll_page_compare(int64_t a_unix_ms, const char *a_id, int64_t b_unix_ms, const char *b_id)
{
    if (a_unix_ms != b_unix_ms)
        return a_unix_ms < b_unix_ms ? -1 : 1;
    return strcmp(a_id, b_id);
}

bool atoll_page_has(const struct atoll_page *page, int64_t created_unix_ms, const char *id)
{
    return !page->has_cursor ||
           atoll_page_compare(created_unix_ms, id, page->after_ms, page->after_id) > 0;
}

size_t atoll_page_shown(const struct atoll_page *page, size_t count)
{
    return page->limit && page->limit < count ? (size_t)page->limit : count;
}

void atoll_page_write(struct atoll_json_out *out, int64_t created_unix_ms, const char *id)
{
    char text[64];

    (void)snprintf(text, sizeof(text), "%lld-%s", (long long)created_unix_ms, id);
    atoll_json_text(out, "next_cursor", text);
}

bool atoll_page_admit(struct atoll_page_out *p, int64_t created_unix_ms, const char *id)
{
    if (p->more || !atoll_page_has(&p->page, created_unix_ms, id))
        return false;
    p->more = p->page.limit && p->shown == p->page.limit;
    if (p->more)
        return false;
    p->shown++;
    p->last_unix_ms = created_unix_ms;
    (void)snprintf(p->last_id, sizeof(p->last_id), "%s", id);
    return true;
}

void atoll_page_end(const struct atoll_page_out *p, struct atoll_json_out *out)
{
    if (p->more)
        atoll_page_write(out, p->last_unix_ms, p->last_id);
}

/*
 * GET /api/sandboxes: the sandboxes that the caller may see, oldest first, with filters and paging.
 */
#include <errno.h>
#include <jansson.h>
#include <string.h>
#include "api/kit/paging.h"
#include "api/rest/rest_internal.h"
#include "api/rest/sandbox/ended.h"
#include "api/rest/views.h"
#include "api/rest/walk.h"
#include "base/text.h"
#include "engine/json_memory.h"

#define STEP 32 /* sandboxes examined per turn of the loop */
#define PAIRS_MAX 16
#define PAIR_BYTES_MAX 1024

struct filter {
    const char *state, *template_name; /* NULL: any */
    struct {
        const char *key, *value;
    } pairs[PAIRS_MAX]; /* of the metadata; all must match */
    size_t pair_count;
    char pair_text[PAIR_BYTES_MAX];
};

/* key=value pairs joined by '&' (which the client has percent-encoded). */
static int take_metadata(struct filter *f, const char *text, struct atoll_error *err)
{
    char *pair, *rest = f->pair_text;

    if (!text)
        return 0;
    if (atoll_text_copy(f->pair_text, sizeof(f->pair_text), text) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG,
                          "?metadata= must be shorter than %d bytes", PAIR_BYTES_MAX);
    while ((pair = strsep(&rest, "&"))) {
        char *equals = strchr(pair, '=');
        if (!equals || equals == pair || f->pair_count == PAIRS_MAX)
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "?metadata= must be KEY=VALUE, or up to %d of them joined by %%26",
                              PAIRS_MAX);
        *equals = '\0';
        f->pairs[f->pair_count].key = pair;
        f->pairs[f->pair_count++].value = equals + 1;
    }
    return 0;
}

static int take_filter(const struct atoll_api_call *call, struct filter *f, struct atoll_page *page,
                       struct atoll_error *err)
{
    int r = atoll_rest_state_take(call, &f->state, err);

    f->template_name = atoll_http_query(call->req, "template");
    if (r == 0)
        r = take_metadata(f, atoll_http_query(call->req, "metadata"), err);
    return r < 0 ? r : atoll_page_take(call, page, err);
}

static bool has_pairs(const struct filter *f, const char *metadata_json)
{
    json_t *metadata;
    bool all = true;

    if (f->pair_count == 0)
        return true;
    metadata = atoll_json_load_own(metadata_json);
    for (size_t i = 0; i < f->pair_count && all; i++) {
        const char *value = json_string_value(json_object_get(metadata, f->pairs[i].key));
        all = value && strcmp(value, f->pairs[i].value) == 0;
    }
    json_decref(metadata);
    return all;
}

static bool passes(const struct filter *f, const struct atoll_sandbox_view *v)
{
    return (!f->state || strcmp(f->state, atoll_sandbox_state_name(v->state)) == 0) &&
           (!f->template_name || strcmp(f->template_name, v->template_name) == 0) &&
           has_pairs(f, v->options.metadata_json);
}

/* State while the response is written. */
struct list {
    struct atoll_api_call *call;
    struct filter filter;
    struct atoll_buf buf;
    struct atoll_json_out out;
    struct atoll_page_out page;
};

static bool show(void *arg, struct atoll_sandbox *sandbox)
{
    struct list *l = arg;
    struct atoll_sandbox_view view;

    atoll_sandbox_get(sandbox, &view);
    if (passes(&l->filter, &view) && atoll_page_admit(&l->page, view.created_unix_ms, view.id))
        atoll_view_sandbox(&l->out, NULL, sandbox);
    return !l->page.more;
}

static void finish(void *arg)
{
    struct list *l = arg;

    atoll_json_close(&l->out, ']');
    atoll_page_end(&l->page, &l->out);
    atoll_json_close(&l->out, '}');
    atoll_api_reply(l->call, 200, &l->out);
    free(l);
}

static void show_ended(void *arg, const struct atoll_store_ended *row)
{
    struct list *l = arg;
    const struct filter *f = &l->filter;

    if ((!f->template_name || strcmp(f->template_name, row->template_name) == 0) &&
        has_pairs(f, row->metadata_json))
        atoll_rest_ended_view(&l->out, NULL, row);
}

static void list_ended(struct list *l)
{
    struct atoll_rest_ended_list records = {.page = l->page, .show = show_ended, .arg = l};
    struct atoll_error error;

    if (atoll_rest_ended_list(l->call, &records, &error) < 0) {
        atoll_api_fail(l->call, &error);
        atoll_buf_done(&l->buf);
        free(l);
        return;
    }
    l->page = records.page;
    finish(l);
}

void atoll_rest_sandbox_list(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                             size_t n ATOLL_UNUSED)
{
    struct list *l = atoll_api_alloc(sizeof(*l));
    const struct atoll_page *page = &l->page.page;
    struct atoll_error error;

    l->call = call;
    if (take_filter(call, &l->filter, &l->page.page, &error) < 0) {
        free(l);
        atoll_api_fail(call, &error);
        return;
    }
    atoll_api_reply_init(&l->buf, &l->out);
    atoll_json_open(&l->out, NULL, '{');
    atoll_json_open(&l->out, "sandboxes", '[');
    if (l->filter.state && strcmp(l->filter.state, ATOLL_REST_STATE_ENDED) == 0) {
        list_ended(l);
        return;
    }
    atoll_rest_walk(call, page->has_cursor ? page->after_ms : INT64_MIN, page->after_id, STEP, show,
                    finish, l);
}

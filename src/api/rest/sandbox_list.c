/*
 * GET /api/sandboxes: those the caller may see, oldest first, filtered and in pages.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include "api/rest/paging.h"
#include "api/rest/rest_internal.h"
#include "api/rest/views.h"
#include "base/text.h"
#include "engine/json_memory.h"

#define PAIRS_MAX 16
#define PAIR_BYTES_MAX 1024

struct filter {
    const char *state, *template_name; /* NULL: any */
    struct {
        const char *key, *value;
    } pairs[PAIRS_MAX]; /* of the metadata; all must be there */
    size_t pair_count;
    char pair_text[PAIR_BYTES_MAX];
    struct atoll_rest_page page;
};

static int take_state(struct filter *f, const char *state, struct atoll_error *err)
{
    if (!state)
        return 0;
    for (int i = ATOLL_SANDBOX_CREATING; i < ATOLL_SANDBOX_STATES; i++)
        if (strcmp(state, atoll_sandbox_state_name((enum atoll_sandbox_state)i)) == 0)
            f->state = state;
    return f->state ? 0
                    : atoll_fail(
                          err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "?state= must be creating, running, stopping, failed, paused, stopped or "
                          "unreachable (got \"%.48s\")",
                          state);
}

/* key=value, and more of them after a '&' (which the client has encoded once more). */
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

static int take_filter(const struct atoll_api_call *call, struct filter *f, struct atoll_error *err)
{
    int r = take_state(f, atoll_http_query(call->req, "state"), err);

    f->template_name = atoll_http_query(call->req, "template");
    if (r == 0)
        r = take_metadata(f, atoll_http_query(call->req, "metadata"), err);
    return r < 0 ? r : atoll_rest_page_take(call, &f->page, err);
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
    return atoll_rest_page_has(&f->page, v->created_unix_ms, v->id) &&
           (!f->state || strcmp(f->state, atoll_sandbox_state_name(v->state)) == 0) &&
           (!f->template_name || strcmp(f->template_name, v->template_name) == 0) &&
           has_pairs(f, v->metadata_json);
}

static int by_age(const void *left, const void *right)
{
    struct atoll_sandbox_view a, b;

    atoll_sandbox_get(*(struct atoll_sandbox *const *)left, &a);
    atoll_sandbox_get(*(struct atoll_sandbox *const *)right, &b);
    return atoll_rest_page_compare(a.created_unix_ms, a.id, b.created_unix_ms, b.id);
}

/* All that pass, sorted; as many as the engine allows sandboxes. */
static struct atoll_sandbox **gather(struct atoll_api_call *call, const struct filter *f,
                                     size_t *ret_count)
{
    struct atoll_sandbox **found, *sandbox;
    size_t pos = 0, count = 0, kept = 0;

    while (atoll_rest_next_sandbox(call, &pos))
        count++;
    found = atoll_api_alloc((count + 1) * sizeof(struct atoll_sandbox *));
    for (pos = 0; kept < count && (sandbox = atoll_rest_next_sandbox(call, &pos));) {
        struct atoll_sandbox_view view;
        atoll_sandbox_get(sandbox, &view);
        if (passes(f, &view))
            found[kept++] = sandbox;
    }
    qsort(found, kept, sizeof(struct atoll_sandbox *), by_age);
    *ret_count = kept;
    return found;
}

void atoll_rest_sandbox_list(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                             size_t n ATOLL_UNUSED)
{
    struct filter filter = {0};
    struct atoll_sandbox **found;
    struct atoll_sandbox_view last;
    struct atoll_error error;
    struct atoll_buf buf;
    struct atoll_json_out out;
    size_t count, shown;

    if (take_filter(call, &filter, &error) < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    found = gather(call, &filter, &count);
    shown = atoll_rest_page_shown(&filter.page, count);
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_open(&out, "sandboxes", '[');
    for (size_t i = 0; i < shown; i++)
        atoll_view_sandbox(&out, NULL, found[i]);
    atoll_json_close(&out, ']');
    if (shown < count) {
        atoll_sandbox_get(found[shown - 1], &last);
        atoll_rest_page_write(&out, last.created_unix_ms, last.id);
    }
    atoll_json_close(&out, '}');
    free(found);
    atoll_api_reply(call, 200, &out);
}

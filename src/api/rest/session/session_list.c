/* GET /api/sessions: the sessions that the caller may see, oldest first, with paging; or the records
 * of ended ones. */
#include <string.h>
#include "api/api_internal.h"
#include "api/kit/paging.h"
#include "api/rest/rest_internal.h"
#include "api/rest/sandbox/ended.h"
#include "api/rest/session/sessions_view.h"

static bool has_state(const struct atoll_api_call *call, const char *sandbox_id, const char *state)
{
    const struct atoll_sandbox *sandbox = atoll_engine_find(call->engine, sandbox_id);
    struct atoll_sandbox_view view;

    if (!state || !sandbox)
        return !state;
    atoll_sandbox_get(sandbox, &view);
    return strcmp(atoll_sandbox_state_name(view.state), state) == 0;
}

/* state NULL: any. */
static struct atoll_session *next_seen(struct atoll_api_call *call, const char *state, size_t *pos,
                                       struct atoll_session_view *ret)
{
    struct atoll_session *session;

    while ((session = atoll_sessions_next(call->api->config.sessions, pos))) {
        atoll_session_get(session, ret);
        if (atoll_api_sees(call, ret->owner) && has_state(call, ret->sandbox_id, state))
            return session;
    }
    return NULL;
}

static int by_age(const void *left, const void *right)
{
    struct atoll_session_view a, b;

    atoll_session_get(*(struct atoll_session *const *)left, &a);
    atoll_session_get(*(struct atoll_session *const *)right, &b);
    return atoll_page_compare(a.created_unix_ms, a.id, b.created_unix_ms, b.id);
}

/* Bounded by the maximum number of sandboxes. */
static struct atoll_session **gather(struct atoll_api_call *call, const char *state,
                                     const struct atoll_page *page, size_t *ret_count)
{
    struct atoll_session **found, *session;
    struct atoll_session_view view;
    size_t pos = 0, count = 0, kept = 0;

    while (next_seen(call, state, &pos, &view))
        count++;
    found = atoll_api_alloc((count + 1) * sizeof(struct atoll_session *));
    for (pos = 0; kept < count && (session = next_seen(call, state, &pos, &view));)
        if (atoll_page_has(page, view.created_unix_ms, view.id))
            found[kept++] = session;
    qsort(found, kept, sizeof(struct atoll_session *), by_age);
    *ret_count = kept;
    return found;
}

static void show_ended(void *arg, const struct atoll_store_ended *row)
{
    if (*row->session_id)
        atoll_rest_ended_session_view(arg, row);
}

static int list_ended(struct atoll_api_call *call, const struct atoll_page *page,
                      struct atoll_json_out *out, struct atoll_error *err)
{
    struct atoll_rest_ended_list records = {
        .page = {.page = *page}, .show = show_ended, .arg = out};
    int r = atoll_rest_ended_list(call, &records, err);

    atoll_json_close(out, ']');
    atoll_page_end(&records.page, out);
    return r;
}

static void list_living(struct atoll_api_call *call, const char *state,
                        const struct atoll_page *page, struct atoll_json_out *out)
{
    struct atoll_session_view last;
    size_t count, shown;
    struct atoll_session **found = gather(call, state, page, &count);

    shown = atoll_page_shown(page, count);
    for (size_t i = 0; i < shown; i++)
        atoll_rest_session_view(out, NULL, call, found[i]);
    atoll_json_close(out, ']');
    if (shown < count) {
        atoll_session_get(found[shown - 1], &last);
        atoll_page_write(out, last.created_unix_ms, last.id);
    }
    free(found);
}

void atoll_rest_session_list(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                             size_t n ATOLL_UNUSED)
{
    struct atoll_page page;
    const char *state;
    struct atoll_error error;
    struct atoll_buf buf;
    struct atoll_json_out out;
    int r = atoll_rest_state_take(call, &state, &error);

    if (r == 0)
        r = atoll_page_take(call, &page, &error);
    if (r < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_open(&out, "sessions", '[');
    if (state && strcmp(state, ATOLL_REST_STATE_ENDED) == 0)
        r = list_ended(call, &page, &out, &error);
    else
        list_living(call, state, &page, &out);
    if (r < 0) {
        atoll_buf_done(&buf);
        atoll_api_fail(call, &error);
        return;
    }
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

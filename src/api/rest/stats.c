#include <errno.h>
#include <stdio.h>
#include "api/rest/rest_internal.h"
#include "api/rest/views.h"

/* Writes the stats of a sandbox that may be gone by now; false then. */
static bool write_stats(struct atoll_json_out *out, struct atoll_engine *engine, const char *id,
                        const struct atoll_sandbox_stats *stats, bool with_id)
{
    const struct atoll_sandbox *sandbox = atoll_engine_find(engine, id);
    struct atoll_sandbox_view view;

    if (!sandbox)
        return false;
    atoll_sandbox_get(sandbox, &view);
    atoll_json_open(out, NULL, '{');
    if (with_id)
        atoll_json_text(out, "id", id);
    atoll_view_stats(out, stats, &view);
    atoll_json_close(out, '}');
    return true;
}

static void got_one(void *arg, const struct atoll_sandbox_stats *stats,
                    const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;
    struct atoll_error missing;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (error) {
        atoll_api_fail(call, error);
        return;
    }
    atoll_api_reply_init(&buf, &out);
    if (write_stats(&out, call->engine, call->params.id, stats, false)) {
        atoll_api_reply(call, 200, &out);
        return;
    }
    atoll_buf_done(&buf);
    (void)atoll_rest_find_sandbox(call, &missing);
    atoll_api_fail(call, &missing);
}

void atoll_rest_stats_one(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                          size_t n ATOLL_UNUSED)
{
    atoll_engine_figures(call->engine, call->params.id, got_one, call);
}

/* Of all of them: one question per sandbox, answered in any order. */

struct all_stats {
    struct atoll_api_call *call;
    struct atoll_buf buf;
    struct atoll_json_out out;
    size_t waiting; /* questions under way, and one for the loop that asks them */
    struct one_of_all {
        struct all_stats *all;
        char id[ATOLL_ID_LEN + 1];
    } * each; /* owned */
};

static void finish_all(struct all_stats *all)
{
    if (--all->waiting > 0)
        return;
    atoll_json_close(&all->out, ']');
    atoll_json_close(&all->out, '}');
    atoll_api_reply(all->call, 200, &all->out);
    free(all->each);
    free(all);
}

/* One that cannot answer, because it is being destroyed, is left out. */
static void got_one_of_all(void *arg, const struct atoll_sandbox_stats *stats,
                           const struct atoll_error *error)
{
    struct one_of_all *one = arg;
    struct all_stats *all = one->all;

    if (!error)
        (void)write_stats(&all->out, all->call->engine, one->id, stats, true);
    finish_all(all);
}

void atoll_rest_stats_all(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                          size_t n ATOLL_UNUSED)
{
    struct all_stats *all = atoll_api_alloc(sizeof(*all));
    struct atoll_sandbox *sandbox;
    struct atoll_sandbox_view view;
    size_t count = 0, pos = 0, i = 0;

    while (atoll_rest_next_sandbox(call, &pos))
        count++;
    all->call = call;
    all->each = atoll_api_alloc((count + 1) * sizeof(*all->each));
    atoll_api_reply_init(&all->buf, &all->out);
    atoll_json_open(&all->out, NULL, '{');
    atoll_json_open(&all->out, "sandboxes", '[');
    for (pos = 0; i < count && (sandbox = atoll_rest_next_sandbox(call, &pos)); i++) {
        atoll_sandbox_get(sandbox, &view);
        all->each[i].all = all;
        (void)snprintf(all->each[i].id, sizeof(all->each[i].id), "%s", view.id);
    }
    all->waiting = i + 1;
    for (size_t k = 0; k < i; k++)
        atoll_engine_figures(call->engine, all->each[k].id, got_one_of_all, &all->each[k]);
    finish_all(all);
}

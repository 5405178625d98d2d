#include <errno.h>
#include <stdio.h>
#include "api/rest/rest_internal.h"
#include "api/rest/views.h"

/* Writes the stats of a sandbox. False if the sandbox no longer exists. */
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

    if (!atoll_api_reply_begin(call, error, &buf, &out))
        return;
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

/* Stats of all sandboxes: one query per sandbox, a bounded number at a time, in any order. */

#define ASKED_MAX 64
#define ASKED_STEP 16 /* per turn of the loop */

struct all_stats {
    struct atoll_api_call *call;
    struct atoll_buf buf;
    struct atoll_json_out out;
    size_t waiting;   /* queries in progress */
    int64_t asked_ms; /* sort position of the last sandbox queried */
    char asked_id[ATOLL_ID_LEN + 1];
    struct one_of_all {
        struct all_stats *all; /* NULL: unused */
        char id[ATOLL_ID_LEN + 1];
    } each[ASKED_MAX];
    bool asking, ended; /* inside ask_more(); no more sandboxes */
    struct atoll_timer again;
};

static void ask_more(void *arg);

static void settle_all(struct all_stats *all)
{
    if (!all->asking && !all->ended) {
        if (!all->again.loop && all->waiting < ASKED_MAX)
            atoll_timer_set(&all->again, atoll_http_loop(all->call->req), 0, ask_more, all);
        return;
    }
    if (all->waiting > 0 || all->asking)
        return;
    atoll_json_close(&all->out, ']');
    atoll_json_close(&all->out, '}');
    atoll_api_reply(all->call, 200, &all->out);
    free(all);
}

/* A sandbox that fails to answer, because it is being destroyed, is omitted. */
static void got_one_of_all(void *arg, const struct atoll_sandbox_stats *stats,
                           const struct atoll_error *error)
{
    struct one_of_all *one = arg;
    struct all_stats *all = ATOLL_TAKE_PTR(one->all);

    if (!error)
        (void)write_stats(&all->out, all->call->engine, one->id, stats, true);
    all->waiting--;
    settle_all(all);
}

static struct one_of_all *free_place(struct all_stats *all)
{
    size_t i = 0;

    while (i < ASKED_MAX && all->each[i].all)
        i++;
    return i < ASKED_MAX ? &all->each[i] : NULL;
}

static void ask_more(void *arg)
{
    struct all_stats *all = arg;
    struct atoll_engine *engine = all->call->engine;
    struct one_of_all *one;

    all->asking = true;
    for (size_t i = 0; i < ASKED_STEP && !all->ended && (one = free_place(all)); i++) {
        struct atoll_sandbox *sandbox = atoll_engine_after(engine, atoll_api_list_tenant(all->call),
                                                           all->asked_ms, all->asked_id);
        struct atoll_sandbox_view view;

        all->ended = !sandbox;
        if (all->ended)
            break;
        atoll_sandbox_get(sandbox, &view);
        all->asked_ms = view.created_unix_ms;
        (void)snprintf(all->asked_id, sizeof(all->asked_id), "%s", view.id);
        (void)snprintf(one->id, sizeof(one->id), "%s", view.id);
        one->all = all;
        all->waiting++;
        atoll_engine_figures(engine, one->id, got_one_of_all, one);
    }
    all->asking = false;
    settle_all(all);
}

void atoll_rest_stats_all(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                          size_t n ATOLL_UNUSED)
{
    struct all_stats *all = atoll_api_alloc(sizeof(*all));

    all->call = call;
    all->asked_ms = INT64_MIN;
    atoll_api_reply_init(&all->buf, &all->out);
    atoll_json_open(&all->out, NULL, '{');
    atoll_json_open(&all->out, "sandboxes", '[');
    ask_more(all);
}

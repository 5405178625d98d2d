/*
 * Health of sandboxes: the agent must answer within two seconds. A sandbox whose agent does not
 * answer is reported as failed, with the cause; the request itself succeeds. A paused or stopped
 * sandbox has no agent to ask, and nothing is wrong with it.
 */
#include <stdio.h>
#include <string.h>
#include "api/rest/rest_internal.h"
#include "api/rest/views.h"
#include "base/clock.h"

#define TIMEOUT_MS 2000
#define ASKED_STEP 64

struct health_check {
    struct atoll_api_call *call; /* NULL after the call was answered */
    struct atoll_buf buf;
    struct atoll_json_out out;
    struct atoll_timer timeout, again;
    size_t asked; /* sandboxes queried so far */
    bool one;     /* the request names one sandbox */
    size_t waiting, count;
    size_t answers; /* pending callbacks of the engine */
    struct probe {
        struct health_check *health_check;
        int64_t asked_ms;
        char id[ATOLL_ID_LEN + 1];
        bool reported;
    } * probes; /* owned */
};

static void health_check_free(struct health_check *c)
{
    free(c->probes);
    free(c);
}

static enum atoll_sandbox_state state_of(const struct atoll_sandbox_view *view)
{
    return view->silent_ms > 0 ? ATOLL_SANDBOX_UNREACHABLE : view->state;
}

static void write_probe(struct health_check *c, struct probe *p, const char *cause)
{
    const struct atoll_sandbox *sandbox = atoll_engine_find(c->call->engine, p->id);
    struct atoll_sandbox_view view = {0};
    char silence[80];

    bool rests = false;

    p->reported = true;
    c->waiting--;
    if (sandbox) {
        atoll_sandbox_get(sandbox, &view);
        rests = view.state == ATOLL_SANDBOX_PAUSED || view.state == ATOLL_SANDBOX_STOPPED;
    }
    if (rests)
        cause = NULL;
    atoll_json_open(&c->out, NULL, '{');
    atoll_json_text(&c->out, "id", p->id);
    atoll_json_text(&c->out, "status", cause ? "failed" : "ok");
    if (view.silent_ms > 0)
        cause = atoll_view_silence(&view, silence, sizeof(silence));
    atoll_json_text(&c->out, "state",
                    !sandbox ? "gone" : atoll_sandbox_state_name(state_of(&view)));
    if (cause)
        atoll_json_text(&c->out, "cause", sandbox && *view.cause ? view.cause : cause);
    else if (!rests)
        atoll_json_i64(&c->out, "answered_ms", atoll_clock_ms() - p->asked_ms);
    atoll_json_close(&c->out, '}');
}

static void write_network(struct atoll_json_out *out, const char *problem)
{
    atoll_json_open(out, "network", '{');
    atoll_json_text(out, "status", problem ? "failed" : "ok");
    if (problem)
        atoll_json_text(out, "cause", problem);
    atoll_json_close(out, '}');
}

/* The sandboxes that environments keep ready. Learned classes would tell what others request. */
static void write_pool(struct atoll_json_out *out, const struct atoll_engine *engine)
{
    struct atoll_pool_view view;
    size_t pos = 0;

    atoll_json_open(out, "pool", '[');
    while (atoll_pool_next(engine, &pos, &view)) {
        if (!*view.environment)
            continue;
        atoll_json_open(out, NULL, '{');
        atoll_json_text(out, "environment", view.environment);
        atoll_json_text(out, "template", view.template_name);
        atoll_json_text(out, "language", view.language);
        atoll_json_open(out, "warm", '[');
        for (size_t i = 0; view.warm && view.warm[i]; i++)
            atoll_json_text(out, NULL, view.warm[i]);
        atoll_json_close(out, ']');
        atoll_json_u64(out, "wanted", view.target);
        atoll_json_u64(out, "ready", view.ready);
        atoll_json_u64(out, "making", view.making);
        atoll_json_u64(out, "memory_bytes", view.memory_bytes);
        if (*view.problem)
            atoll_json_text(out, "cause", view.problem);
        atoll_json_close(out, '}');
    }
    atoll_json_close(out, ']');
}

static void finish(struct health_check *c)
{
    struct atoll_api_call *call = ATOLL_TAKE_PTR(c->call);

    atoll_timer_cancel(&c->timeout);
    if (!c->one) {
        atoll_json_close(&c->out, ']');
        write_network(&c->out, atoll_engine_network_problem(call->engine));
        write_pool(&c->out, call->engine);
        atoll_json_close(&c->out, '}');
    }
    atoll_api_reply(call, 200, &c->out);
    if (c->answers == 0)
        health_check_free(c);
}

static void answered(void *arg, const struct atoll_sandbox_stats *stats,
                     const struct atoll_error *error)
{
    struct probe *p = arg;
    struct health_check *c = p->health_check;

    (void)stats;
    c->answers--;
    if (!c->call) {
        if (c->answers == 0)
            health_check_free(c);
        return;
    }
    write_probe(c, p, error ? error->text : NULL);
    if (c->waiting == 0)
        finish(c);
}

static void timed_out(void *arg)
{
    struct health_check *c = arg;

    for (size_t i = 0; i < c->count; i++)
        if (!c->probes[i].reported)
            write_probe(c, &c->probes[i], "its agent did not answer within 2 s");
    finish(c);
}

/* Queries some sandboxes per turn of the loop. The timeout starts after the last query, so that
 * every agent has two seconds. */
static void ask_some(void *arg)
{
    struct health_check *c = arg;
    struct atoll_loop *loop = atoll_http_loop(c->call->req);
    size_t until = ATOLL_MIN(c->count, c->asked + ASKED_STEP);

    for (; c->asked < until; c->asked++) {
        struct probe *p = &c->probes[c->asked];

        p->asked_ms = atoll_clock_ms();
        atoll_engine_ask_agent(c->call->engine, p->id, answered, p);
    }
    if (c->asked < c->count)
        atoll_timer_set(&c->again, loop, 0, ask_some, c);
    else if (--c->waiting == 0)
        finish(c);
    else
        atoll_timer_set(&c->timeout, loop, TIMEOUT_MS, timed_out, c);
}

static void ask(struct health_check *c)
{
    c->answers = c->count;
    c->waiting = c->count + 1; /* one more until all are queried: callbacks may run at once */
    ask_some(c);
}

static struct health_check *health_check_new(struct atoll_api_call *call, size_t count)
{
    struct health_check *c = atoll_api_alloc(sizeof(*c));

    c->call = call;
    c->probes = atoll_api_alloc((count + 1) * sizeof(*c->probes));
    atoll_api_reply_init(&c->buf, &c->out);
    return c;
}

static void add_probe(struct health_check *c, const char *id)
{
    struct probe *p = &c->probes[c->count++];

    p->health_check = c;
    (void)snprintf(p->id, sizeof(p->id), "%s", id);
}

void atoll_rest_health_one(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                           size_t n ATOLL_UNUSED)
{
    struct atoll_error error;
    const struct atoll_sandbox *sandbox = atoll_rest_find_sandbox(call, &error);
    struct health_check *c;

    if (!sandbox) {
        atoll_api_fail(call, &error);
        return;
    }
    c = health_check_new(call, 1);
    c->one = true;
    add_probe(c, call->params.id);
    ask(c);
}

void atoll_rest_health_all(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                           size_t n ATOLL_UNUSED)
{
    size_t count;
    char(*ids)[ATOLL_ID_LEN + 1] = atoll_rest_sandbox_ids(call, &count);
    struct health_check *c = health_check_new(call, count);

    for (size_t i = 0; i < count; i++)
        add_probe(c, ids[i]);
    free(ids);
    atoll_json_open(&c->out, NULL, '{');
    atoll_json_open(&c->out, "sandboxes", '[');
    ask(c);
}

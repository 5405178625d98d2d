/*
 * Is a sandbox well: its agent has to answer within two seconds. One that does not is reported as
 * failed with the cause; the question itself succeeds.
 */
#include <stdio.h>
#include <string.h>
#include "api/rest/rest_internal.h"
#include "api/rest/views.h"
#include "base/clock.h"

#define PATIENCE_MS 2000
#define ASKED_STEP 64

struct checkup {
    struct atoll_api_call *call; /* NULL once it has been answered */
    struct atoll_buf buf;
    struct atoll_json_out out;
    struct atoll_timer patience, again;
    size_t asked; /* so many of them so far */
    bool one;     /* of one sandbox only */
    size_t waiting, count;
    size_t answers; /* of the engine that are still to come */
    struct patient {
        struct checkup *checkup;
        int64_t asked_ms;
        char id[ATOLL_ID_LEN + 1];
        bool told;
    } * patients; /* owned */
};

static void checkup_free(struct checkup *c)
{
    free(c->patients);
    free(c);
}

static enum atoll_sandbox_state state_of(const struct atoll_sandbox_view *view)
{
    return view->silent_ms > 0 ? ATOLL_SANDBOX_UNREACHABLE : view->state;
}

static void write_patient(struct checkup *c, struct patient *p, const char *cause)
{
    const struct atoll_sandbox *sandbox = atoll_engine_find(c->call->engine, p->id);
    struct atoll_sandbox_view view = {0};
    char silence[80];

    p->told = true;
    c->waiting--;
    if (sandbox)
        atoll_sandbox_get(sandbox, &view);
    atoll_json_open(&c->out, NULL, '{');
    atoll_json_text(&c->out, "id", p->id);
    atoll_json_text(&c->out, "status", cause ? "failed" : "ok");
    if (view.silent_ms > 0)
        cause = atoll_view_silence(&view, silence, sizeof(silence));
    atoll_json_text(&c->out, "state",
                    !sandbox ? "gone" : atoll_sandbox_state_name(state_of(&view)));
    if (cause)
        atoll_json_text(&c->out, "cause", sandbox && *view.cause ? view.cause : cause);
    else
        atoll_json_i64(&c->out, "answered_ms", atoll_clock_ms() - p->asked_ms);
    atoll_json_close(&c->out, '}');
}

static void finish(struct checkup *c)
{
    struct atoll_api_call *call = ATOLL_TAKE_PTR(c->call);

    atoll_timer_cancel(&c->patience);
    if (!c->one) {
        atoll_json_close(&c->out, ']');
        atoll_json_close(&c->out, '}');
    }
    atoll_api_reply(call, 200, &c->out);
    if (c->answers == 0)
        checkup_free(c);
}

static void answered(void *arg, const struct atoll_sandbox_stats *stats,
                     const struct atoll_error *error)
{
    struct patient *p = arg;
    struct checkup *c = p->checkup;

    (void)stats;
    c->answers--;
    if (!c->call) {
        if (c->answers == 0)
            checkup_free(c);
        return;
    }
    write_patient(c, p, error ? error->text : NULL);
    if (c->waiting == 0)
        finish(c);
}

static void out_of_patience(void *arg)
{
    struct checkup *c = arg;

    for (size_t i = 0; i < c->count; i++)
        if (!c->patients[i].told)
            write_patient(c, &c->patients[i], "its agent did not answer within 2 s");
    finish(c);
}

/* Some in each turn of the loop; the last has two seconds as well. */
static void ask_some(void *arg)
{
    struct checkup *c = arg;
    struct atoll_loop *loop = atoll_http_loop(c->call->req);
    size_t until = ATOLL_MIN(c->count, c->asked + ASKED_STEP);

    for (; c->asked < until; c->asked++) {
        struct patient *p = &c->patients[c->asked];

        p->asked_ms = atoll_clock_ms();
        atoll_engine_ask_agent(c->call->engine, p->id, answered, p);
    }
    if (c->asked < c->count)
        atoll_timer_set(&c->again, loop, 0, ask_some, c);
    else if (--c->waiting == 0)
        finish(c);
    else
        atoll_timer_set(&c->patience, loop, PATIENCE_MS, out_of_patience, c);
}

static void ask(struct checkup *c)
{
    c->answers = c->count;
    c->waiting = c->count + 1; /* one until all are asked: answers may come at once */
    ask_some(c);
}

static struct checkup *checkup_new(struct atoll_api_call *call, size_t count)
{
    struct checkup *c = atoll_api_alloc(sizeof(*c));

    c->call = call;
    c->patients = atoll_api_alloc((count + 1) * sizeof(*c->patients));
    atoll_api_reply_init(&c->buf, &c->out);
    return c;
}

static void add_patient(struct checkup *c, const char *id)
{
    struct patient *p = &c->patients[c->count++];

    p->checkup = c;
    (void)snprintf(p->id, sizeof(p->id), "%s", id);
}

void atoll_rest_health_one(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                           size_t n ATOLL_UNUSED)
{
    struct atoll_error error;
    const struct atoll_sandbox *sandbox = atoll_rest_find_sandbox(call, &error);
    struct checkup *c;

    if (!sandbox) {
        atoll_api_fail(call, &error);
        return;
    }
    c = checkup_new(call, 1);
    c->one = true;
    add_patient(c, call->params.id);
    ask(c);
}

void atoll_rest_health_all(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                           size_t n ATOLL_UNUSED)
{
    size_t count;
    char(*ids)[ATOLL_ID_LEN + 1] = atoll_rest_sandbox_ids(call, &count);
    struct checkup *c = checkup_new(call, count);

    for (size_t i = 0; i < count; i++)
        add_patient(c, ids[i]);
    free(ids);
    atoll_json_open(&c->out, NULL, '{');
    atoll_json_open(&c->out, "sandboxes", '[');
    ask(c);
}

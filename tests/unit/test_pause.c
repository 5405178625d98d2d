/* A pause that the provider refuses, and what became of the agent meanwhile. */
#include <errno.h>
#include <string.h>
#include "engine/state/capture_queue.h"
#include "one_sandbox.h"

static atoll_answer_fn *answered;
static void *answered_arg;
static atoll_provider_done_fn *froze, *thawed;
static void *frozen_arg, *thawed_arg;
static unsigned adopted, ended;

/* Stand in for the engine's. */
int atoll_sandbox_ask(struct atoll_sandbox *s, uint16_t type, const struct atoll_msg_desc *desc,
                      const void *msg, atoll_answer_fn *fn, void *arg, struct atoll_error *err)
{
    (void)desc;
    (void)msg;
    if (!s->agent)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EPIPE, "nobody there");
    if (type == ATOLL_AGENT_PAUSE) {
        answered = fn;
        answered_arg = arg;
    }
    return 0;
}

int atoll_persist_sandbox(struct atoll_sandbox *s, struct atoll_error *err)
{
    (void)s;
    (void)err;
    return 0;
}

void atoll_persist_sandbox_later(struct atoll_sandbox *s)
{
    (void)s;
}

void atoll_sandbox_adopt(struct atoll_sandbox *s, void (*done)(void *arg), void *arg)
{
    assert_int_equal(s->phase, ATOLL_PHASE_RUNNING);
    adopted++;
    done(arg);
}

void atoll_sandbox_arm_deadline(struct atoll_sandbox *s)
{
    (void)s;
}

void atoll_sandbox_start_again(struct atoll_sandbox *s)
{
    (void)s;
}

void atoll_capture_await(struct atoll_sandbox *s, const void *owner, atoll_done_fn *fn, void *arg)
{
    (void)s;
    (void)owner;
    fn(arg, NULL);
}

void atoll_capture_next_soon(struct atoll_sandbox *s)
{
    (void)s;
}

void atoll_lifetime_begin(struct atoll_sandbox *s)
{
    (void)s;
}

int atoll_provider_entry_refuse_pause(const struct atoll_provider_entry *slot,
                                      struct atoll_error *err)
{
    (void)slot;
    return atoll_fail(err, ATOLL_ERR_UNIMPLEMENTED, EOPNOTSUPP, "not here");
}

void atoll_events_emit(struct atoll_engine *e, const char *kind, const struct atoll_sandbox *s,
                       const char *exec_id, const char *detail)
{
    (void)e;
    (void)kind;
    (void)s;
    (void)exec_id;
    (void)detail;
}

/* The provider. */

static const struct atoll_provider_caps *caps(struct atoll_provider *p)
{
    static const struct atoll_provider_caps pauses = {.pause = true};

    (void)p;
    return &pauses;
}

static void freeze(struct atoll_provider *p, const struct atoll_spec *spec,
                   atoll_provider_done_fn *done, void *arg)
{
    (void)p;
    (void)spec;
    froze = done;
    frozen_arg = arg;
}

static void thaw(struct atoll_provider *p, const struct atoll_spec *spec,
                 atoll_provider_done_fn *done, void *arg)
{
    (void)p;
    (void)spec;
    thawed = done;
    thawed_arg = arg;
}

static const struct atoll_provider_ops ops = {.name = "slow",
                                              .caps = caps,
                                              .pause = freeze,
                                              .resume = thaw};
static struct atoll_provider provider = {.ops = &ops};

static void on_done(void *arg, const struct atoll_error *error)
{
    (void)arg;
    assert_non_null(error);
    ended++;
}

static void refused(bool loses_agent)
{
    struct atoll_error err;

    memset(&engine, 0, sizeof(engine));
    adopted = ended = 0;
    sandbox = (struct atoll_sandbox){
        .engine = &engine, .provider = &provider, .phase = ATOLL_PHASE_RUNNING};
    sandbox.agent = (struct atoll_rpc *)&sandbox; /* any but NULL */
    memcpy(sandbox.spec.id, "abc", 4);
    atoll_list_init(&sandbox.resumers);
    atoll_map_init(&engine.sandboxes);
    assert_int_equal(atoll_map_put(&engine.sandboxes, "abc", &sandbox), 0);
    atoll_engine_pause(&engine, "abc", true, "the test", on_done, NULL);
    answered(answered_arg, &(struct atoll_reply){0});
    assert_int_equal(sandbox.phase, ATOLL_PHASE_FREEZING);
    if (loses_agent)
        sandbox.agent = NULL; /* nobody looks for that of a paused one */
    (void)atoll_fail(&err, ATOLL_ERR_UNAVAILABLE, EIO, "not now");
    froze(frozen_arg, &err);
    thawed(thawed_arg, NULL);
    assert_int_equal(ended, 1);
    assert_int_equal(sandbox.phase, ATOLL_PHASE_RUNNING);
    atoll_map_done(&engine.sandboxes);
}

static void runs_on(void **state)
{
    (void)state;
    refused(false);
    assert_int_equal(adopted, 0);
}

static void looks_for_its_agent(void **state)
{
    (void)state;
    refused(true);
    assert_int_equal(adopted, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(runs_on),
                                       cmocka_unit_test(looks_for_its_agent)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

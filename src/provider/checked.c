#include "provider/checked_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/rand.h"
#include "base/switches.h"

#define FIRST_DELAY_MS 100
#define DELAY_MAX_MS 5000

bool atoll_error_is_transient(const struct atoll_error *error)
{
    return error->kind == ATOLL_ERR_UNAVAILABLE || error->kind == ATOLL_ERR_DEADLINE_EXCEEDED;
}

int64_t atoll_checked_delay_ms(unsigned tries, const struct atoll_error *error, int64_t first_ms,
                               int64_t spent_ms, int64_t budget_ms, uint32_t random)
{
    int64_t delay = first_ms << (tries > 0 ? tries - 1 : 0);

    if (!atoll_error_is_transient(error) || tries >= ATOLL_CHECKED_TRIES || budget_ms == 0)
        return -1;
    /* A random delay between half and one and a half of it, so that calls that failed together
     * are not retried together. */
    delay = ATOLL_MIN(delay, (int64_t)DELAY_MAX_MS);
    delay = delay / 2 + (int64_t)(random % (uint32_t)(delay + 1));
    delay = ATOLL_MAX(delay, (int64_t)error->retry_ms);
    return spent_ms + delay > budget_ms ? -1 : delay;
}

static struct atoll_checked_call *call_of(struct atoll_call *call)
{
    return ATOLL_CONTAINER_OF(call, struct atoll_checked_call, call);
}

static struct atoll_checked *checked_of(const struct atoll_checked_call *c)
{
    return ATOLL_CONTAINER_OF(c->call.callee, struct atoll_checked, callee);
}

static const char *name_of(const struct atoll_checked_call *c)
{
    return c->call.callee->ops.name;
}

static const char *op_of(const struct atoll_checked_call *c)
{
    return atoll_op_facts[c->call.op].name;
}

/* Refusals. */

/* Writes, for example, "provider docker cannot pause sandboxes; native can". */
static void refuse(const struct atoll_checked_call *c, struct atoll_error *err)
{
    const struct atoll_checked *k = checked_of(c);
    const struct atoll_checked_group *group = k->group;
    char others[120] = "";
    size_t at = 0;

    for (size_t i = 0; i < group->count && at < sizeof(others); i++) {
        struct atoll_checked *m = atoll_checked_of(group->members[i]);
        if (m != k && atoll_op_is_supported(m->inner, c->call.op))
            at += (size_t)snprintf(others + at, sizeof(others) - at, "%s%s", at ? ", " : "; ",
                                   m->callee.ops.name);
    }
    (void)atoll_fail(err, ATOLL_ERR_UNIMPLEMENTED, EOPNOTSUPP, "provider %s cannot %s%s%s",
                     name_of(c), atoll_op_facts[c->call.op].verb, others, at ? " can" : "");
}

void atoll_checked_call_free(struct atoll_checked_call *c)
{
    atoll_timer_cancel(&c->again);
    atoll_call_free(&c->call);
}

static void finish(struct atoll_checked_call *c, const struct atoll_call_outcome *o,
                   const struct atoll_error *error)
{
    /* What the engine does in the callback belongs to the same request. */
    struct atoll_origin before = atoll_origin_enter(&c->origin);

    atoll_call_tell(&c->call, o, error);
    (void)atoll_origin_enter(&before);
    atoll_checked_call_free(c);
}

void atoll_checked_give_up(struct atoll_checked_call *c, const struct atoll_error *error)
{
    finish(c, NULL, error);
}

/* Records the span of one try: sandbox, provider, operation, duration, result. */
static void record(const struct atoll_checked_call *c, const struct atoll_error *error)
{
    const char *result = error ? atoll_error_kind_name(error->kind) : "ok";
    int64_t took_us = atoll_clock_us() - c->began_us;
    char ms[32], tries[16];

    atoll_metric_add(ATOLL_METRIC_PROVIDER_CALLS, ATOLL_LABELS(name_of(c), op_of(c), result), 1);
    atoll_metric_observe(ATOLL_METRIC_PROVIDER_SECONDS, ATOLL_LABELS(name_of(c), op_of(c)),
                         (double)took_us / 1e6);
    (void)snprintf(ms, sizeof(ms), "%.3f", (double)took_us / 1000);
    (void)snprintf(tries, sizeof(tries), "%u", c->tries);
    atoll_log(ATOLL_LOG_DEBUG, "provider call", "provider", name_of(c), "op", op_of(c), "sandbox",
              c->call.spec.id, "ms", ms, "try", tries, "result", result, "error",
              error ? error->text : "", "request_id", c->origin.request_id, "trace_id",
              c->origin.trace.id, "span_id", c->origin.trace.span, NULL);
}

/* The error of an injected fault. Errors that are transient in operation are transient here. */
static int fault_error(struct atoll_error *err, int errnum)
{
    return atoll_fail(err,
                      errnum == ETIMEDOUT || errnum == ECONNRESET ? ATOLL_ERR_UNAVAILABLE
                                                                  : ATOLL_ERR_INTERNAL,
                      errnum, "a fault injected by a test");
}

static void try(struct atoll_checked_call *c);

static void try_again(void *arg)
{
    struct atoll_checked_call *c = arg;

    atoll_metric_add(ATOLL_METRIC_PROVIDER_RETRIES, ATOLL_LABELS(name_of(c), op_of(c)), 1);
    try(c);
}

/* Test switch: the operation was done, but its answer is lost. For create this would look like a
 * failed create, after which nothing may be left; so there the switch can only kill the daemon. */
static bool answer_lost(const struct atoll_checked_call *c, const struct atoll_call_outcome *o,
                        struct atoll_error *err)
{
    int errnum;

    if (c->call.op == ATOLL_OP_CREATE) {
        atoll_fault_die("provider.%s.create.after", name_of(c));
        return false;
    }
    errnum = atoll_faultf("provider.%s.%s.after", name_of(c), op_of(c));
    if (errnum == 0)
        return false;
    if (o->fd >= 0)
        (void)close(o->fd);
    if (c->call.op == ATOLL_OP_SOCKETS)
        (void)close(o->dns_fd);
    (void)fault_error(err, errnum);
    return true;
}

static void tried(struct atoll_call *call, const struct atoll_call_outcome *o,
                  const struct atoll_error *error)
{
    struct atoll_checked_call *c = call_of(call);
    const int64_t first = checked_of(c)->group->first_delay_ms;
    uint32_t random;
    int64_t delay = -1;
    struct atoll_error lost;

    if (checked_of(c)->closing) {
        atoll_checked_call_free(c);
        return;
    }
    if (!error && answer_lost(c, o, &lost))
        error = &lost;
    record(c, error);
    if (error && !c->cancelled) {
        atoll_rand_bytes(&random, sizeof(random));
        delay = atoll_checked_delay_ms(c->tries, error, first ? first : FIRST_DELAY_MS,
                                       atoll_clock_ms() - c->first_ms,
                                       atoll_op_facts[c->call.op].budget_ms, random);
    }
    if (delay < 0) {
        finish(c, o, error);
        return;
    }
    c->last = *error;
    atoll_timer_set(&c->again, checked_of(c)->loop, delay, try_again, c);
}

static void try(struct atoll_checked_call *c)
{
    int errnum = atoll_faultf("provider.%s.%s", name_of(c), op_of(c));
    struct atoll_origin before;
    struct atoll_error err;

    c->tries++;
    c->began_us = atoll_clock_us();
    atoll_trace_begin_span(&c->origin.trace);
    if (errnum == 0) {
        before = atoll_origin_enter(&c->origin);
        atoll_call_pass(&c->call, checked_of(c)->inner, tried);
        (void)atoll_origin_enter(&before);
        return;
    }
    (void)fault_error(&err, errnum);
    tried(&c->call, NULL, &err);
}

void atoll_checked_begin(struct atoll_call *call)
{
    struct atoll_checked_call *c = call_of(call);
    struct atoll_error err;

    c->first_ms = atoll_clock_ms();
    c->origin = *atoll_origin_get();
    if (atoll_op_is_supported(checked_of(c)->inner, call->op)) {
        try(c);
        return;
    }
    refuse(c, &err);
    finish(c, NULL, &err);
}

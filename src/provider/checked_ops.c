#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/metrics.h"
#include "provider/checked_internal.h"

/*
 * The operations that are not calls; checked.c carries out the calls.
 */

static const struct atoll_provider_caps *caps(struct atoll_provider *p)
{
    struct atoll_checked *k = atoll_checked_of(p);
    return k->inner->ops->caps(k->inner);
}

static uint32_t missing_limits(struct atoll_provider *p, const struct atoll_spec *spec)
{
    struct atoll_checked *k = atoll_checked_of(p);
    return k->inner->ops->missing_limits(k->inner, spec);
}

static void end_waiting(void *arg)
{
    struct atoll_checked_call *c = arg;
    atoll_checked_give_up(c, &c->last);
}

/* Ends a call that waits for its next try. It ends on the next turn of the loop, because the
 * caller of cancel() may not expect a callback. */
static void cancel(struct atoll_provider *p, const struct atoll_spec *spec)
{
    struct atoll_checked *k = atoll_checked_of(p);

    ATOLL_LIST_FOREACH (&k->callee.calls, node) {
        struct atoll_checked_call *c = atoll_checked_call_of(node);

        if (c->call.op != ATOLL_OP_CREATE || strcmp(c->call.spec.id, spec->id) != 0)
            continue;
        c->cancelled = true;
        if (c->again.loop)
            atoll_timer_set(&c->again, k->loop, 0, end_waiting, c);
        else if (k->inner->ops->cancel)
            k->inner->ops->cancel(k->inner, spec);
        return;
    }
}

static void reserve(struct atoll_provider *p, const struct atoll_spec *spec)
{
    struct atoll_checked *k = atoll_checked_of(p);

    if (k->inner->ops->reserve)
        k->inner->ops->reserve(k->inner, spec);
}

static void cancel_build(struct atoll_provider *p, const char *image)
{
    struct atoll_provider *inner = atoll_checked_of(p)->inner;

    if (inner->ops->cancel_build)
        inner->ops->cancel_build(inner, image);
}

static bool public_host(struct atoll_provider *p, const struct atoll_spec *spec, char *out,
                        size_t cap)
{
    struct atoll_provider *inner = atoll_checked_of(p)->inner;
    return inner->ops->public_host && inner->ops->public_host(inner, spec, out, cap);
}

static int keeper(struct atoll_provider *p)
{
    struct atoll_provider *inner = atoll_checked_of(p)->inner;
    return inner->ops->keeper ? inner->ops->keeper(inner) : -ENOSYS;
}

static bool is_busy(struct atoll_provider *p)
{
    return !atoll_list_empty(&atoll_checked_of(p)->callee.calls);
}

static void shutdown_inner(struct atoll_provider *p)
{
    struct atoll_checked *k = atoll_checked_of(p);

    if (k->inner->ops->shutdown)
        k->inner->ops->shutdown(k->inner);
}

/* Frees without calling `done` of calls in progress: the inner provider calls nothing after its
 * free() either. */
static struct atoll_provider *checked_free(struct atoll_provider *p)
{
    struct atoll_checked *k = p ? atoll_checked_of(p) : NULL;

    if (!k)
        return NULL;
    for (size_t i = 0; i < k->group->count; i++)
        if (k->group->members[i] == p)
            k->group->members[i] = k->group->members[--k->group->count];
    k->closing = true;
    (void)k->inner->ops->free(k->inner);
    ATOLL_LIST_FOREACH (&k->callee.calls, node)
        atoll_checked_call_free(atoll_checked_call_of(node));
    free(k);
    return NULL;
}

static void on_exited(void *arg, const char *id, const struct atoll_provider_exit *exit)
{
    const struct atoll_provider *p = arg;
    p->events->exited(p->events_arg, id, exit);
}

static void on_lost(void *arg, const char *why)
{
    const struct atoll_provider *p = arg;
    p->events->lost(p->events_arg, why);
}

static void on_progress(void *arg, const char *id, const char *text)
{
    const struct atoll_provider *p = arg;

    if (p->events->progress)
        p->events->progress(p->events_arg, id, text);
}

static const struct atoll_provider_events events = {on_exited, on_lost, on_progress};

int atoll_checked_wrap(struct atoll_loop *loop, struct atoll_checked_group *group, const char *name,
                       struct atoll_provider *p, struct atoll_provider **ret,
                       struct atoll_error *err)
{
    struct atoll_checked *k = group->count < ATOLL_CHECKED_MEMBERS ? calloc(1, sizeof(*k)) : NULL;
    struct atoll_provider_ops *ops;

    if (!k) {
        (void)p->ops->free(p);
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOBUFS, "there are %zu providers",
                          group->count);
    }
    k->loop = loop;
    k->group = group;
    k->inner = p;
    p->events = &events;
    p->events_arg = &k->callee.base;
    atoll_callee_init(&k->callee, atoll_metric_keep(name ? name : p->ops->name),
                      sizeof(struct atoll_checked_call), atoll_checked_begin);
    ops = &k->callee.ops;
    ops->caps = caps;
    ops->missing_limits = missing_limits;
    ops->cancel = cancel;
    ops->reserve = reserve;
    ops->cancel_build = cancel_build;
    ops->public_host = public_host;
    ops->keeper = keeper;
    ops->is_busy = is_busy;
    ops->shutdown = shutdown_inner;
    ops->free = checked_free;
    group->members[group->count++] = *ret = &k->callee.base;
    return 0;
}

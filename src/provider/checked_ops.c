#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/metrics.h"
#include "provider/checked_internal.h"

/*
 * The provider the engine sees: every operation becomes a call that checked.c carries out.
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

static void create(struct atoll_provider *p, struct atoll_spec *spec,
                   atoll_provider_created_fn *done, void *arg)
{
    struct atoll_checked_call *c = atoll_checked_call_new(p, ATOLL_OP_CREATE, spec, arg);

    c->ret_spec = spec;
    c->done.created = done;
    atoll_checked_begin(c);
}

static void end_waiting(void *arg)
{
    struct atoll_checked_call *c = arg;
    atoll_checked_give_up(c, &c->last);
}

/* One that waits for its next try ends, but not in here: whoever cancels may be in the middle of
 * something. */
static void cancel(struct atoll_provider *p, const struct atoll_spec *spec)
{
    struct atoll_checked *k = atoll_checked_of(p);

    ATOLL_LIST_FOREACH (&k->calls, node) {
        struct atoll_checked_call *c = ATOLL_CONTAINER_OF(node, struct atoll_checked_call, node);

        if (c->op != ATOLL_OP_CREATE || strcmp(c->spec.id, spec->id) != 0)
            continue;
        c->cancelled = true;
        if (c->again.loop)
            atoll_timer_set(&c->again, k->loop, 0, end_waiting, c);
        else if (k->inner->ops->cancel)
            k->inner->ops->cancel(k->inner, spec);
        return;
    }
}

static void adopt(struct atoll_provider *p, const struct atoll_spec *spec,
                  atoll_provider_created_fn *done, void *arg)
{
    struct atoll_checked_call *c = atoll_checked_call_new(p, ATOLL_OP_ADOPT, spec, arg);

    c->done.created = done;
    atoll_checked_begin(c);
}

static void dial(struct atoll_provider *p, const struct atoll_spec *spec,
                 atoll_provider_dialed_fn *done, void *arg)
{
    struct atoll_checked_call *c = atoll_checked_call_new(p, ATOLL_OP_DIAL, spec, arg);

    c->done.dialed = done;
    atoll_checked_begin(c);
}

static void look(struct atoll_provider *p, const struct atoll_spec *spec,
                 atoll_provider_looked_fn *done, void *arg)
{
    struct atoll_checked_call *c = atoll_checked_call_new(p, ATOLL_OP_LOOK, spec, arg);

    c->done.looked = done;
    atoll_checked_begin(c);
}

static void list(struct atoll_provider *p, atoll_provider_each_fn *each,
                 atoll_provider_done_fn *done, void *arg)
{
    struct atoll_checked_call *c = atoll_checked_call_new(p, ATOLL_OP_LIST, NULL, arg);

    c->each = each;
    c->done.plain = done;
    atoll_checked_begin(c);
}

static void reserve(struct atoll_provider *p, const struct atoll_spec *spec)
{
    struct atoll_checked *k = atoll_checked_of(p);

    if (k->inner->ops->reserve)
        k->inner->ops->reserve(k->inner, spec);
}

static void plain(struct atoll_provider *p, enum atoll_checked_op op, const struct atoll_spec *spec,
                  atoll_provider_done_fn *done, void *arg)
{
    struct atoll_checked_call *c = atoll_checked_call_new(p, op, spec, arg);

    c->done.plain = done;
    atoll_checked_begin(c);
}

static void destroy(struct atoll_provider *p, const struct atoll_spec *spec,
                    atoll_provider_done_fn *done, void *arg)
{
    plain(p, ATOLL_OP_DESTROY, spec, done, arg);
}

static void stop(struct atoll_provider *p, const struct atoll_spec *spec,
                 atoll_provider_done_fn *done, void *arg)
{
    plain(p, ATOLL_OP_STOP, spec, done, arg);
}

static void pause_it(struct atoll_provider *p, const struct atoll_spec *spec,
                     atoll_provider_done_fn *done, void *arg)
{
    plain(p, ATOLL_OP_PAUSE, spec, done, arg);
}

static void resume(struct atoll_provider *p, const struct atoll_spec *spec,
                   atoll_provider_done_fn *done, void *arg)
{
    plain(p, ATOLL_OP_RESUME, spec, done, arg);
}

static void set_limits(struct atoll_provider *p, const struct atoll_spec *spec,
                       const struct atoll_limits *limits, atoll_provider_done_fn *done, void *arg)
{
    struct atoll_checked_call *c = atoll_checked_call_new(p, ATOLL_OP_SET_LIMITS, spec, arg);

    c->limits = *limits;
    c->done.plain = done;
    atoll_checked_begin(c);
}

static void stats(struct atoll_provider *p, const struct atoll_spec *spec,
                  atoll_provider_stats_fn *done, void *arg)
{
    struct atoll_checked_call *c = atoll_checked_call_new(p, ATOLL_OP_STATS, spec, arg);

    c->done.stats = done;
    atoll_checked_begin(c);
}

static void keep_layer(struct atoll_provider *p, const struct atoll_spec *spec, const char *path,
                       const char *layer, atoll_provider_done_fn *done, void *arg)
{
    struct atoll_checked_call *c = atoll_checked_call_new(p, ATOLL_OP_KEEP_LAYER, spec, arg);

    (void)snprintf(c->path, sizeof(c->path), "%s", path);
    (void)snprintf(c->layer, sizeof(c->layer), "%s", layer);
    c->done.plain = done;
    atoll_checked_begin(c);
}

static void drop_layer(struct atoll_provider *p, const char *layer, atoll_provider_done_fn *done,
                       void *arg)
{
    struct atoll_checked_call *c = atoll_checked_call_new(p, ATOLL_OP_DROP_LAYER, NULL, arg);

    (void)snprintf(c->layer, sizeof(c->layer), "%s", layer);
    c->done.plain = done;
    atoll_checked_begin(c);
}

static void health(struct atoll_provider *p, atoll_provider_health_fn *done, void *arg)
{
    struct atoll_checked_call *c = atoll_checked_call_new(p, ATOLL_OP_HEALTH, NULL, arg);

    c->done.health = done;
    atoll_checked_begin(c);
}

static bool public_host(struct atoll_provider *p, const struct atoll_spec *spec, char *out,
                        size_t cap)
{
    struct atoll_provider *inner = atoll_checked_of(p)->inner;
    return inner->ops->public_host && inner->ops->public_host(inner, spec, out, cap);
}

static bool is_busy(struct atoll_provider *p)
{
    return !atoll_list_empty(&atoll_checked_of(p)->calls);
}

static void shutdown_inner(struct atoll_provider *p)
{
    struct atoll_checked *k = atoll_checked_of(p);

    if (k->inner->ops->shutdown)
        k->inner->ops->shutdown(k->inner);
}

/* Nobody is told how those under way end: the inner one tells nobody either once it is freed. */
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
    ATOLL_LIST_FOREACH (&k->calls, node)
        atoll_checked_call_free(ATOLL_CONTAINER_OF(node, struct atoll_checked_call, node));
    free(k);
    return NULL;
}

static void on_exited(void *arg, const char *id, const struct atoll_provider_exit *exit)
{
    struct atoll_checked *k = arg;
    k->base.events->exited(k->base.events_arg, id, exit);
}

static void on_lost(void *arg, const char *why)
{
    struct atoll_checked *k = arg;
    k->base.events->lost(k->base.events_arg, why);
}

static void on_progress(void *arg, const char *id, const char *text)
{
    struct atoll_checked *k = arg;

    if (k->base.events->progress)
        k->base.events->progress(k->base.events_arg, id, text);
}

static const struct atoll_provider_events events = {on_exited, on_lost, on_progress};

int atoll_checked_wrap(struct atoll_loop *loop, struct atoll_checked_group *group, const char *name,
                       struct atoll_provider *p, struct atoll_provider **ret,
                       struct atoll_error *err)
{
    struct atoll_checked *k = group->count < ATOLL_CHECKED_MEMBERS ? calloc(1, sizeof(*k)) : NULL;

    if (!k) {
        (void)p->ops->free(p);
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOBUFS, "there are %zu providers",
                          group->count);
    }
    k->loop = loop;
    k->group = group;
    k->inner = p;
    p->events = &events;
    p->events_arg = k;
    atoll_list_init(&k->calls);
    k->ops = (struct atoll_provider_ops){
        .name = atoll_metric_keep(name ? name : p->ops->name),
        .caps = caps,
        .missing_limits = missing_limits,
        .create = create,
        .cancel = cancel,
        .dial = dial,
        .look = look,
        .list = list,
        .reserve = reserve,
        .adopt = adopt,
        .destroy = destroy,
        .stop = stop,
        .pause = pause_it,
        .resume = resume,
        .set_limits = set_limits,
        .stats = stats,
        .keep_layer = keep_layer,
        .drop_layer = drop_layer,
        .health = health,
        .public_host = public_host,
        .is_busy = is_busy,
        .shutdown = shutdown_inner,
        .free = checked_free,
    };
    atoll_checked_add_images(&k->ops);
    k->base.ops = &k->ops;
    group->members[group->count++] = &k->base;
    *ret = &k->base;
    return 0;
}

#include "provider/absent.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/metrics.h"

struct absent {
    struct atoll_provider base;
    struct atoll_provider_ops ops;
};

static const struct atoll_error *say(struct atoll_provider *p, struct atoll_error *err)
{
    (void)atoll_fail(err, ATOLL_ERR_UNAVAILABLE, ENODEV,
                     "provider %s is not configured here any more", p->ops->name);
    return err;
}

static const struct atoll_provider_caps *caps(struct atoll_provider *p)
{
    static const struct atoll_provider_caps nothing = {.isolation = "unknown"};

    (void)p;
    return &nothing;
}

static uint32_t missing_limits(struct atoll_provider *p, const struct atoll_spec *spec)
{
    (void)p;
    (void)spec;
    return ATOLL_LIMIT_ALL;
}

static void create(struct atoll_provider *p, struct atoll_spec *spec,
                   atoll_provider_created_fn *done, void *arg)
{
    struct atoll_error err;

    (void)spec;
    done(arg, ATOLL_NO_FD, 0, say(p, &err));
}

static void dial(struct atoll_provider *p, const struct atoll_spec *spec,
                 atoll_provider_dialed_fn *done, void *arg)
{
    struct atoll_error err;

    (void)spec;
    done(arg, ATOLL_NO_FD, say(p, &err));
}

static void look(struct atoll_provider *p, const struct atoll_spec *spec,
                 atoll_provider_looked_fn *done, void *arg)
{
    struct atoll_error err;

    (void)spec;
    done(arg, NULL, say(p, &err));
}

static void list(struct atoll_provider *p, atoll_provider_each_fn *each,
                 atoll_provider_done_fn *done, void *arg)
{
    struct atoll_error err;

    (void)each;
    done(arg, say(p, &err));
}

static void reserve(struct atoll_provider *p, const struct atoll_spec *spec)
{
    (void)p;
    (void)spec;
}

static void adopt(struct atoll_provider *p, const struct atoll_spec *spec,
                  atoll_provider_created_fn *done, void *arg)
{
    struct atoll_error err;

    (void)spec;
    done(arg, ATOLL_NO_FD, 0, say(p, &err));
}

static void plain(struct atoll_provider *p, const struct atoll_spec *spec,
                  atoll_provider_done_fn *done, void *arg)
{
    struct atoll_error err;

    (void)spec;
    done(arg, say(p, &err));
}

static void set_limits(struct atoll_provider *p, const struct atoll_spec *spec,
                       const struct atoll_limits *limits, atoll_provider_done_fn *done, void *arg)
{
    (void)limits;
    plain(p, spec, done, arg);
}

static void stats(struct atoll_provider *p, const struct atoll_spec *spec,
                  atoll_provider_stats_fn *done, void *arg)
{
    struct atoll_error err;

    (void)spec;
    done(arg, NULL, say(p, &err));
}

static void health(struct atoll_provider *p, atoll_provider_health_fn *done, void *arg)
{
    struct atoll_error err;
    done(arg, "", say(p, &err));
}

static void nothing(struct atoll_provider *p)
{
    (void)p;
}

static struct atoll_provider *absent_free(struct atoll_provider *p)
{
    struct absent *a = p ? ATOLL_CONTAINER_OF(p, struct absent, base) : NULL;

    if (!a)
        return NULL;
    free(a);
    return NULL;
}

int atoll_absent_new(const char *name, struct atoll_provider **ret, struct atoll_error *err)
{
    struct absent *a = calloc(1, sizeof(*a));

    if (!a)
        return atoll_fail_errno(err, ENOMEM, "provider");
    a->ops = (struct atoll_provider_ops){
        .name = atoll_metric_keep(name),
        .caps = caps,
        .missing_limits = missing_limits,
        .create = create,
        .dial = dial,
        .look = look,
        .list = list,
        .reserve = reserve,
        .adopt = adopt,
        .destroy = plain,
        .stop = plain,
        .pause = plain,
        .resume = plain,
        .set_limits = set_limits,
        .stats = stats,
        .health = health,
        .shutdown = nothing,
        .free = absent_free,
    };
    a->base.ops = &a->ops;
    *ret = &a->base;
    return 0;
}

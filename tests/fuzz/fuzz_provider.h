#pragma once
#include <errno.h>
#include "provider/provider.h"

/*
 * A provider for the fuzzer of the engine: everything works at once, and every stream to an agent is one
 * that the fuzzer makes.
 */
static int new_stream(void);

static struct atoll_provider_caps caps = {.isolation = "none",
                                          .templates = true,
                                          .pause = true,
                                          .networks = 1};

static const struct atoll_provider_caps *get_caps(struct atoll_provider *p)
{
    (void)p;
    return &caps;
}

static uint32_t missing_limits(struct atoll_provider *p, const struct atoll_spec *spec)
{
    (void)p;
    (void)spec;
    return 0;
}

static void create(struct atoll_provider *p, struct atoll_spec *spec,
                   atoll_provider_created_fn *done, void *arg)
{
    (void)p;
    (void)spec;
    done(arg, new_stream(), 1, NULL);
}

static void adopt(struct atoll_provider *p, const struct atoll_spec *spec,
                  atoll_provider_created_fn *done, void *arg)
{
    (void)p;
    (void)spec;
    done(arg, new_stream(), 1, NULL);
}

static void dial(struct atoll_provider *p, const struct atoll_spec *spec,
                 atoll_provider_dialed_fn *done, void *arg)
{
    (void)p;
    (void)spec;
    done(arg, new_stream(), NULL);
}

static void look(struct atoll_provider *p, const struct atoll_spec *spec,
                 atoll_provider_inspected_fn *done, void *arg)
{
    static const struct atoll_provider_inspection alive = {.state = ATOLL_INSPECT_ALIVE};

    (void)p;
    (void)spec;
    done(arg, &alive, NULL);
}

static void list(struct atoll_provider *p, atoll_provider_each_fn *each,
                 atoll_provider_done_fn *done, void *arg)
{
    (void)p;
    (void)each;
    done(arg, NULL);
}

static void succeed(struct atoll_provider *p, const struct atoll_spec *spec,
                    atoll_provider_done_fn *done, void *arg)
{
    (void)p;
    (void)spec;
    done(arg, NULL);
}

static void reserve(struct atoll_provider *p, const struct atoll_spec *spec)
{
    (void)p;
    (void)spec;
}

static void stats(struct atoll_provider *p, const struct atoll_spec *spec,
                  atoll_provider_stats_fn *done, void *arg)
{
    struct atoll_error err;

    (void)p;
    (void)spec;
    (void)atoll_fail(&err, ATOLL_ERR_UNIMPLEMENTED, ENOSYS, "nobody measures");
    done(arg, NULL, &err);
}

static void health(struct atoll_provider *p, atoll_provider_health_fn *done, void *arg)
{
    (void)p;
    done(arg, "", NULL);
}

static struct atoll_provider *provider_free(struct atoll_provider *p)
{
    (void)p;
    return NULL;
}

static const struct atoll_provider_ops ops = {
    .name = "native",
    .caps = get_caps,
    .missing_limits = missing_limits,
    .create = create,
    .dial = dial,
    .inspect = look,
    .list = list,
    .reserve = reserve,
    .adopt = adopt,
    .destroy = succeed,
    .pause = succeed,
    .resume = succeed,
    .stats = stats,
    .health = health,
    .free = provider_free,
};
static struct atoll_provider provider = {.ops = &ops};

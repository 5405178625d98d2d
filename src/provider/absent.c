#include "provider/absent.h"

#include <errno.h>
#include <stdlib.h>
#include "base/metrics.h"
#include "provider/call.h"

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

/* The answer to every operation. */
static void say(struct atoll_call *call)
{
    struct atoll_error err;

    (void)atoll_fail(&err, ATOLL_ERR_UNAVAILABLE, ENODEV,
                     "provider %s is not configured here any more", call->callee->ops.name);
    atoll_call_tell(call, NULL, &err);
    atoll_call_free(call);
}

static struct atoll_provider *absent_free(struct atoll_provider *p)
{
    if (p)
        free(atoll_callee_of(p));
    return NULL;
}

int atoll_absent_new(const char *name, struct atoll_provider **ret, struct atoll_error *err)
{
    struct atoll_callee *a = calloc(1, sizeof(*a));

    if (!a)
        return atoll_fail_errno(err, ENOMEM, "provider");
    atoll_callee_init(a, atoll_metric_keep(name), sizeof(struct atoll_call), say);
    a->ops.caps = caps;
    a->ops.missing_limits = missing_limits;
    /* It has neither layers nor images: these do not exist, instead of being unavailable. */
    a->ops.keep_layer = NULL;
    a->ops.drop_layer = NULL;
    a->ops.drop_image = NULL;
    a->ops.free = absent_free;
    *ret = &a->base;
    return 0;
}

#include <errno.h>
#include "engine/engine_internal.h"

struct check {
    atoll_done_fn *done;
    void *arg;
};

static void provider_answered(void *arg, const char *detail, const struct atoll_error *error)
{
    struct check *check = arg;

    (void)detail;
    check->done(check->arg, error);
    free(check);
}

void atoll_engine_check(struct atoll_engine *engine, atoll_done_fn *done, void *arg)
{
    struct atoll_provider *provider = engine->home->provider;
    struct check *check = malloc(sizeof(*check));
    struct atoll_error err;
    int r = check ? atoll_store_check(engine->config.store, &err)
                  : atoll_fail_errno(&err, ENOMEM, "check");

    if (r < 0) {
        free(check);
        (void)atoll_wrap(&err, "the store takes no writes");
        done(arg, &err);
        return;
    }
    *check = (struct check){done, arg};
    provider->ops->health(provider, provider_answered, check);
}

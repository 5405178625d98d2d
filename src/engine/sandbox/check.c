#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
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

/* It is sparse: its size is what it may grow to. */
static void view_pool(const struct atoll_engine *engine, struct atoll_disk_view *ret)
{
    struct stat st;

    if (fstatat(engine->state_fd, "pool.img", &st, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    ret->pool_bytes = (uint64_t)st.st_blocks * 512;
    ret->pool_max_bytes = (uint64_t)st.st_size;
}

void atoll_engine_disk(const struct atoll_engine *engine, struct atoll_disk_view *ret)
{
    *ret = (struct atoll_disk_view){.free_bytes = atoll_room_free(engine->state_fd)};
    atoll_journals_view(engine, ret);
    atoll_artifacts_sizes(engine->artifacts, &ret->artifact_bytes, &ret->artifact_max_bytes);
    atoll_ended_sum(engine, ret);
    atoll_ended_output_view(engine, ret);
    view_pool(engine, ret);
    atoll_store_sizes(engine->config.store, &ret->store_bytes, &ret->log_bytes);
}

int atoll_engine_check_store(struct atoll_engine *engine, struct atoll_error *err)
{
    int r = atoll_room_admit(engine, err);

    if (r < 0)
        return r;
    r = atoll_store_check(engine->config.store, err);
    return r < 0 ? atoll_wrap(err, "the store does not accept writes") : 0;
}

int atoll_engine_check_room(const struct atoll_engine *engine, struct atoll_error *err)
{
    if (engine->public_count < engine->config.max_sandboxes)
        return 0;
    return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                      "%zu sandboxes exist, the most this daemon allows (--max-sandboxes); destroy "
                      "some",
                      engine->public_count);
}

void atoll_engine_check(struct atoll_engine *engine, atoll_done_fn *done, void *arg)
{
    struct atoll_provider *provider = engine->builder->provider;
    struct check *check = malloc(sizeof(*check));

    if (!check)
        abort(); /* a small fixed object: the daemon is crash-only */
    *check = (struct check){done, arg};
    provider->ops->health(provider, provider_answered, check);
}

/* Logs of builds (engine/build/build.h) as a source of feeds. */
#include "api/kit/log_feed.h"
#include "engine/build/build.h"

static ssize_t read_log(const struct atoll_api_call *call, const char *id, uint64_t offset,
                        void *buf, size_t n)
{
    struct atoll_error error;

    return atoll_make_log(call->engine, id, offset, buf, n, &error);
}

static bool has_ended(const struct atoll_api_call *call, const char *id)
{
    struct atoll_make_view view;
    struct atoll_error error;

    return atoll_make_find(call->engine, NULL, id, &view, &error) < 0 ||
           view.state >= ATOLL_MAKE_READY;
}

static int watch_log(const struct atoll_api_call *call, const char *id, void (*fn)(void *arg),
                     void *arg, void **ret_watch, struct atoll_error *err)
{
    struct atoll_make_watch *watch = NULL;
    int r = atoll_make_watch(call->engine, id, fn, arg, &watch, err);

    *ret_watch = watch;
    return r;
}

static void unwatch_log(void *watch)
{
    (void)atoll_make_unwatch(watch);
}

const struct atoll_log_source atoll_build_log_source = {read_log, has_ended, watch_log,
                                                        unwatch_log};

/*
 * The state of the facade: a timer that removes snapshots whose time is over, or whose sandbox is gone.
 */
#include "api/api_internal.h"
#include "api/vercel/vercel_internal.h"

#define SWEEP_MS 60000

static void sweep(void *arg)
{
    struct atoll_vercel *vercel = arg;

    atoll_vercel_snapshots_expire(vercel->api->config.engine);
    atoll_timer_set(&vercel->sweep, vercel->api->config.loop, SWEEP_MS, sweep, vercel);
}

void *atoll_vercel_open(struct atoll_api *api, const uint32_t *options ATOLL_UNUSED)
{
    struct atoll_vercel *vercel = atoll_api_alloc(sizeof(*vercel));

    vercel->api = api;
    if (api->config.loop)
        atoll_timer_set(&vercel->sweep, api->config.loop, SWEEP_MS, sweep, vercel);
    return vercel;
}

void atoll_vercel_close(void *state)
{
    struct atoll_vercel *vercel = state;

    atoll_timer_cancel(&vercel->sweep);
    free(vercel);
}

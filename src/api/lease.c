#include "api/lease.h"

#include <stdio.h>
#include "api/api_internal.h"

struct lease {
    struct atoll_list node; /* in api->leases */
    struct atoll_http_close_hook close_hook;
    struct atoll_engine *engine;
    char sandbox_id[33];
};

static void drop(struct lease *lease)
{
    atoll_http_close_hook_cancel(&lease->close_hook);
    atoll_list_remove(&lease->node);
    free(lease);
}

static void closed(void *arg)
{
    struct lease *lease = arg;

    atoll_engine_connection_closed(lease->engine, lease->sandbox_id);
    drop(lease);
}

/* Drops the leases of destroyed sandboxes, about which leases get no event. This keeps the
 * number of leases at or below the number of sandboxes. */
static void sweep(struct atoll_api *api)
{
    ATOLL_LIST_FOREACH (&api->leases, node) {
        struct lease *lease = ATOLL_CONTAINER_OF(node, struct lease, node);
        if (!atoll_engine_find(lease->engine, lease->sandbox_id))
            drop(lease);
    }
}

void atoll_api_lease(struct atoll_api_call *call, const char *sandbox_id)
{
    struct lease *lease = atoll_api_alloc(sizeof(*lease));

    sweep(call->api);
    lease->engine = call->engine;
    (void)snprintf(lease->sandbox_id, sizeof(lease->sandbox_id), "%s", sandbox_id);
    atoll_list_push_back(&call->api->leases, &lease->node);
    atoll_http_on_connection_close(call->req, &lease->close_hook, closed, lease);
}

void atoll_api_drop_leases(struct atoll_api *api)
{
    while (!atoll_list_empty(&api->leases))
        drop(ATOLL_CONTAINER_OF(api->leases.next, struct lease, node));
}

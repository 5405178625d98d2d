/*
 * Sandboxes, sessions and routes in the format of Vercel.
 */
#include <string.h>
#include "api/vercel/vercel_internal.h"

const char *atoll_vercel_status(const struct atoll_sandbox_view *v, const json_t *facts)
{
    switch (v->state) {
    case ATOLL_SANDBOX_CREATING:
        return "pending";
    case ATOLL_SANDBOX_RUNNING:
        return "running";
    case ATOLL_SANDBOX_STOPPING:
        return atoll_vercel_fact_flag(facts, "snapshotting") ? "snapshotting" : "stopping";
    case ATOLL_SANDBOX_FAILED:
        return "failed";
    case ATOLL_SANDBOX_PAUSED:
    case ATOLL_SANDBOX_STOPPED:
        return "stopped";
    case ATOLL_SANDBOX_UNREACHABLE:
        break;
    }
    return "aborted";
}

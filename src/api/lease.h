#pragma once
#include "api/call.h"

/*
 * Leases bound to a connection: the sandbox is destroyed when the connection that created it
 * closes.
 */

/* Call for a sandbox created with connection_lease, before the call is answered, while call->req
 * is valid. */
void atoll_api_lease(struct atoll_api_call *call, const char *sandbox_id);
/* Drops all leases; their sandboxes continue to run. */
void atoll_api_drop_leases(struct atoll_api *api);

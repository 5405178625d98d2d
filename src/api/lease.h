#pragma once
#include "api/call.h"

/*
 * Leases bound to a connection: a sandbox that lives no longer than the connection it was asked for
 * on.
 */

/* Of a sandbox made with connection_lease, before the call is answered; call->req is there. */
void atoll_api_lease(struct atoll_api_call *call, const char *sandbox_id);
/* Forgets them; sandboxes live on. */
void atoll_api_drop_leases(struct atoll_api *api);

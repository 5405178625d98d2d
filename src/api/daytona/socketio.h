#pragma once
#include "api/daytona/daytona_internal.h"

/*
 * Events for SDKs, over Socket.IO: the changes of the sandboxes of the tenant whose key the client has
 * shown. An SDK that does not get them polls, and keeps its process alive while it tries to connect.
 */

#define ATOLL_DAYTONA_SOCKETS_MAX 4096
#define ATOLL_DAYTONA_TENANT_SOCKETS_MAX 256
#define ATOLL_DAYTONA_KEYLESS_SOCKETS_MAX 256 /* whose client has not shown a key yet */

/* Tells all clients of the owner that the sandbox is now in this state. */
void atoll_daytona_tell(struct atoll_daytona *daytona, const char *owner, const char *sandbox_id,
                        const char *old_state, const char *new_state);
/* The same for a sandbox that was created. */
void atoll_daytona_tell_created(struct atoll_daytona *daytona, const char *owner,
                                const char *sandbox_id);

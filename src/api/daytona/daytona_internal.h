#pragma once
#include "api/daytona/daytona.h"
#include "api/fields.h"

/*
 * Shared by the files of the control plane. Field names, statuses and some texts are Daytona's, since
 * its clients depend on them.
 */

/* errors.c: fail() of both protocols. */
void atoll_daytona_fail(struct atoll_api_call *call, int status, const struct atoll_error *error);

/* account.c */
ATOLL_DAYTONA_HANDLER(health);

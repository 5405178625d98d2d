#pragma once
#include "api/call.h"
#include "base/metrics.h"

/* Counts a finished call. */
void atoll_api_measure(const struct atoll_api_call *call, int status);
/* The status as static text, for a label. */
const char *atoll_api_status_text(int status);

/* Access check for monitoring endpoints: true if the client is on this host or has a key of
 * scope read. False: the call has been answered. For endpoints that monitors may read without a
 * key. */
bool atoll_api_allow_near(struct atoll_api_call *call);

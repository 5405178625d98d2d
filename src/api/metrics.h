#pragma once
#include "api/call.h"
#include "base/metrics.h"

/* A call is over. */
void atoll_api_measure(const struct atoll_api_call *call, int status);
/* "200" for 200: a label that lives for ever. */
const char *atoll_api_status_text(int status);

/* Whether the caller sits on this host, or has a key to read with; false has answered the call. For
 * what monitors ask without one. */
bool atoll_api_allow_near(struct atoll_api_call *call);

#pragma once
#include "api/vercel/vercel_internal.h"

/* control_stop.c: ends the current run of the sandbox in params.id, keeps its files as a snapshot if it
 * is persistent, and answers with session, sandbox and snapshot. */
void atoll_vercel_stop(struct atoll_api_call *call, int64_t number);
/* The same with a snapshot whatever it is, for requests that ask for one. expires_unix_ms: 0 for never. */
void atoll_vercel_stop_with_snapshot(struct atoll_api_call *call, int64_t number,
                                     int64_t expires_unix_ms);

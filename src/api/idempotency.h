#pragma once
#include "api/call.h"

/*
 * Idempotency-Key: a client that does not know whether its request succeeded sends it again with
 * the same key. The daemon then returns the first response and does not repeat the work.
 * access/answers.h stores the responses, also across restarts. Only successes are stored: after a
 * failure the same key tries again. Keys are separate by tenant, method and route.
 */

/* Call before the handler acts. True: the call has been answered. False: continue; if the
 * request has a key, call->idempotency is set, and the handler should complete its work even if the
 * client disconnects. */
bool atoll_idempotency_check(struct atoll_api_call *call, const uint8_t *body,
                             size_t n) ATOLL_MUST_CHECK;

/* Stores the response of a call; for call.c. */
void atoll_idempotency_answered(struct atoll_api_call *call, int status, const void *bytes,
                                size_t n);
/* Releases the key of a call that ends without a response. */
void atoll_idempotency_forget(struct atoll_api_call *call);

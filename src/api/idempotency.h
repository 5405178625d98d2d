#pragma once
#include "api/call.h"

/*
 * Idempotency-Key: a request that is sent again, because nobody knows whether the first one got
 * through, gets the first one's answer and does nothing. access/answers.h keeps the answers, after a
 * restart too; only successes are: after a failure the same key tries again.
 * Keys of one tenant, method and route are apart from all others.
 */

/* Before a handler acts. True: the call has been answered. False: go on; if the request has a key,
 * call->idempotency is set, and the handler should see its work through though the client goes. */
bool atoll_idempotency_check(struct atoll_api_call *call, const uint8_t *body,
                             size_t n) ATOLL_MUST_CHECK;

/* The call is being answered; for call.c. */
void atoll_idempotency_answered(struct atoll_api_call *call, int status, const void *bytes,
                                size_t n);
/* It ends without an answer. */
void atoll_idempotency_forget(struct atoll_api_call *call);

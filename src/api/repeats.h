#pragma once
#include "api/call.h"

/*
 * Requests that a client repeats because it got no answer, in protocols that know no Idempotency-Key. The
 * second has the tenant, method, target and body of the first, and it comes when the client of the first
 * has disconnected:
 *   - while the first is under way, the second gets its answer;
 *   - an answer that could not be sent is kept for ATOLL_REPEAT_MS and given to one such request.
 * Two equal requests whose clients are connected are two requests. A daemon that ends forgets all of it,
 * and an answer that was sent counts as received.
 * Thread: the loop's.
 */
#define ATOLL_REPEAT_MS 5000

struct atoll_repeat; /* one request, from its check on */

/* Call before the handler acts. True: the call has been answered, or the first one answers it. False:
 * continue. ret_left: what the handler of the first left, malloced; or NULL. */
bool atoll_repeat_check(struct atoll_api_call *call, const uint8_t *body, size_t n,
                        char **ret_left) ATOLL_MUST_CHECK;

/* For a handler that can make the answer again: leaves a text for the repeated request, since the client has
 * disconnected. End the call then. */
void atoll_repeat_leave(struct atoll_api_call *call, const char *text);

/* For call.c. */
void atoll_repeat_answered(struct atoll_api_call *call, int status, const void *bytes, size_t n);
void atoll_repeat_ended(struct atoll_api_call *call);
void atoll_repeats_drop(struct atoll_api *api);

#pragma once
#include "api/call.h"
#include "interpreter/contexts.h"

/*
 * The lines of an execution as the answer to a call, each as soon as it is there, with a sign of life
 * ({"type":"keepalive"}) after five seconds of silence and {"type":"end_of_execution"} at the end.
 * What goes wrong before the first line is an ordinary error. A client that goes away interrupts the
 * code; one that is slow holds it back. When the sandbox ends the connection is cut, so that nobody
 * takes what there is for the whole.
 */

/* Takes the call over. */
void atoll_context_stream(struct atoll_api_call *call, const char *sandbox_id,
                          const char *context_id, const struct atoll_context_run *run,
                          const char *content_type);

/* The contexts of the daemon. UNIMPLEMENTED when it has none. */
int atoll_api_contexts(const struct atoll_api_call *call, struct atoll_contexts **ret,
                       struct atoll_error *err) ATOLL_MUST_CHECK;

#pragma once
#include "api/call.h"
#include "interpreter/contexts.h"

/*
 * Streams the lines of an execution as the response to a call, each as soon as it is produced.
 * After five seconds of silence it sends {"type":"keepalive"}, and at the end
 * {"type":"end_of_execution"}. A failure before the first line is an ordinary error response. If
 * the client disconnects, the code is interrupted; if the client is slow, the code is held back. If
 * the sandbox ends, the connection is cut, so that the client does not take a partial stream for a
 * complete one.
 */

/* Takes ownership of the call. */
void atoll_context_stream(struct atoll_api_call *call, const char *sandbox_id,
                          const char *context_id, const struct atoll_context_run *run,
                          const char *content_type);

/* The daemon's contexts; NULL: interpreters are disabled, and the call has failed. */
struct atoll_contexts *atoll_api_contexts(struct atoll_api_call *call);

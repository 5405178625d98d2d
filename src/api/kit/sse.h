#pragma once
#include "api/call.h"

/* Server-Sent Events (WHATWG HTML section 9.2) as the response to a request. */

/* A comment line, as a keep-alive; clients ignore it. */
#define ATOLL_SSE_BEAT ":\n\n"

/* Whether the client prefers an event stream, by its Accept header. */
bool atoll_sse_wanted(const struct atoll_http_request *req);
/* Begins the response. */
void atoll_sse_begin(struct atoll_api_call *call);
/* One event; data is JSON, which has no line breaks. id may be NULL. Errors of atoll_http_write(). */
int atoll_sse_write(struct atoll_http_request *req, const char *event, const char *id,
                    const struct atoll_buf *data) ATOLL_MUST_CHECK;

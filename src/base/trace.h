#pragma once
#include "base/defs.h"

/*
 * W3C Trace Context: the trace of a client's traceparent, with a span of our own. Pure, except for the
 * ids of spans, which are random.
 */
#define ATOLL_TRACE_TEXT_MAX 56

struct atoll_trace {
    char id[33]; /* "": no trace */
    char span[17];
    char flags[3];
};

/* A traceparent that is NULL or malformed makes an empty trace. */
void atoll_trace_init(struct atoll_trace *trace, const char *traceparent);
/* Begins a new span in the same trace. No effect on an empty trace. */
void atoll_trace_begin_span(struct atoll_trace *trace);
/* "00-<trace>-<span>-<flags>", for traceparent of outgoing requests and for traceresponse. */
const char *atoll_trace_format(const struct atoll_trace *trace, char *out);

/*
 * The request that the loop is currently working on, for logs and for requests made on its behalf.
 * Code that continues after a wait saves the origin with its state and enters it again.
 * Thread: the loop's.
 */
struct atoll_origin {
    char request_id[65]; /* "": no request */
    struct atoll_trace trace;
};
const struct atoll_origin *atoll_origin_get(void);
/* Sets the current origin (NULL: no request) and returns the previous one, which the caller must enter
 * again before it returns to the loop. */
struct atoll_origin atoll_origin_enter(const struct atoll_origin *origin);

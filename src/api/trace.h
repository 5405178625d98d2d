#pragma once
#include "base/defs.h"

/*
 * W3C Trace Context: a caller's traceparent, with a span of our own below it. Pure, but for the
 * numbers of the spans, which only have to differ.
 */
#define ATOLL_TRACE_TEXT_MAX 56

struct atoll_trace {
    char id[33]; /* "": the caller traces nothing */
    char span[17];
    char flags[3];
};

/* traceparent: NULL or malformed is none. */
void atoll_trace_init(struct atoll_trace *trace, const char *traceparent);
/* "00-<trace>-<span>-<flags>", for traceparent on its way out and for traceresponse. */
const char *atoll_trace_format(const struct atoll_trace *trace, char *out);

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
/* The same trace with another span of ours. Nothing for one that is none. */
void atoll_trace_begin_span(struct atoll_trace *trace);
/* "00-<trace>-<span>-<flags>", for traceparent on its way out and for traceresponse. */
const char *atoll_trace_format(const struct atoll_trace *trace, char *out);

/*
 * Whose request the loop is working on, for logs and for those who are asked on its behalf. Whoever
 * goes on after a wait remembers it with what it waits for and enters it again.
 * Thread: the loop's.
 */
struct atoll_origin {
    char request_id[65]; /* "": nobody's */
    struct atoll_trace trace;
};
const struct atoll_origin *atoll_origin_get(void);
/* Returns the one before, which is to be entered again before control goes back to the loop. NULL:
 * nobody's. */
struct atoll_origin atoll_origin_enter(const struct atoll_origin *origin);

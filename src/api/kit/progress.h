#pragma once
#include "api/api_internal.h"

/*
 * An answer that reports progress: one line of JSON per report, {"progress": TEXT}, and a last line with the
 * result or {"error": …}. If it fails before there is progress, the answer is an ordinary error.
 *
 * Ownership: the caller's storage; _end() and _drop() release what it has.
 */
struct atoll_progress {
    struct atoll_api_call *call;
    struct atoll_buf line;
    bool begun; /* the response */
};

void atoll_progress_init(struct atoll_progress *p, struct atoll_api_call *call);
/* Reports a text, unless the client is slow. */
void atoll_progress_say(struct atoll_progress *p, const char *text);
/* The last line: an open JSON object, to which the caller adds members before _end(). */
struct atoll_json_out atoll_progress_line(struct atoll_progress *p);
/* Sends the last line, or with an error that (out is ignored), and ends the call. */
void atoll_progress_end(struct atoll_progress *p, struct atoll_json_out *out,
                        const struct atoll_error *error);
/* The client is gone. */
void atoll_progress_drop(struct atoll_progress *p);

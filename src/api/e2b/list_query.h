#pragma once
#include "base/buf.h"
#include "base/error.h"

/*
 * Parsing of the query of GET /v2/sandboxes. Pure.
 */

/* Metadata "k=v&k=v": each key and value is percent-encoded, and then the whole text once more.
 * `text` is the result of the query's own decoding. Appends "key\0value\0" for each pair. -EINVAL,
 * -ENOBUFS, -ENOMEM. */
int atoll_e2b_metadata_decode(struct atoll_buf *out, const char *text) ATOLL_MUST_CHECK;

/* The last sandbox of a page, as an opaque token for the next request: base64url of "TIME__ID"
 * or "TIME__ID__asc". */
struct atoll_e2b_cursor {
    int64_t unix_ms;
    char id[33];
    bool ascending;
};
#define ATOLL_E2B_CURSOR_MAX 128
void atoll_e2b_cursor_format(const struct atoll_e2b_cursor *cursor, char *out);
/* -EINVAL if the text is not a cursor. */
int atoll_e2b_cursor_parse(const char *text, struct atoll_e2b_cursor *ret) ATOLL_MUST_CHECK;

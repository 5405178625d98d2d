#pragma once
#include "base/buf.h"

/*
 * Targets of HTTP requests: percent-encoding (RFC 3986), paths, queries, and "HOST:PORT".
 */

/* Decodes a path in place, except encoded slashes, which become ATOLL_URL_SLASH. Returns 1 if there are
 * any, else 0. -EINVAL for a bad escape, a control byte, or a segment "." or ".." (encoded or not,
 * between plain or encoded slashes): later layers need not check for these. */
#define ATOLL_URL_SLASH "%2F"
int atoll_url_decode_path(char *path) ATOLL_MUST_CHECK;

/* Appends "name\0value\0" for each parameter of a query, decoded ('+' is a space).
 * -EINVAL for a bad escape or a NUL byte, -ENOBUFS, -ENOMEM. */
int atoll_url_decode_query(struct atoll_buf *out, const char *query, size_t n) ATOLL_MUST_CHECK;

/* Value of the first pair of that name among the n bytes of "name\0value\0" pairs, or NULL. */
const char *atoll_url_pair(const char *pairs, size_t n, const char *name);

/* Appends text; escapes everything but unreserved characters, and '/' if keep_slash is set.
 * -ENOBUFS, -ENOMEM. */
int atoll_url_encode(struct atoll_buf *out, const char *text, bool keep_slash) ATOLL_MUST_CHECK;

/* Splits "host:port" or "[v6]:port". -EINVAL, -ENAMETOOLONG. */
int atoll_url_split_host(const char *host_port, char *host, size_t cap,
                         uint16_t *ret_port) ATOLL_MUST_CHECK;

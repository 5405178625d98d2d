#pragma once
#include "base/buf.h"

/*
 * Parsing and quoting of small texts: numbers, sizes, names.
 */

/* Parses a string that is a decimal number within [min, max]; -EINVAL, -ERANGE. */
int atoll_text_u64(const char *text, uint64_t min, uint64_t max,
                   uint64_t *ret_value) ATOLL_MUST_CHECK;
int atoll_text_double(const char *text, double min, double max, double *ret_value) ATOLL_MUST_CHECK;
/* "1048576", "512K", "256M", "1.5G" (also KiB/KB forms), in powers of 1024. -EINVAL, -ERANGE. */
int atoll_text_size(const char *text, uint64_t *ret_bytes) ATOLL_MUST_CHECK;
/* "1.5G", "512M", "17": the shortest human form; out holds 16 bytes. */
const char *atoll_text_format_size(uint64_t bytes, char *out);

/* 1..32 characters of a-z0-9: safe as a path, cgroup and host name. */
bool atoll_text_is_id(const char *text);
/* [A-Za-z0-9][A-Za-z0-9._-]{0,63}: user-chosen names of templates and the like. */
bool atoll_text_is_name(const char *text);

/* Appends a JSON string with quotes; invalid UTF-8 becomes U+FFFD. -ENOBUFS. */
int atoll_text_json_quote(struct atoll_buf *out, const char *bytes, size_t n) ATOLL_MUST_CHECK;
/* Length of the UTF-8 sequence at p (1..4), 0 if it is not valid. */
size_t atoll_text_utf8_len(const uint8_t *p, size_t n);

/* Whether `path` is `top` or below it. Both are absolute, without "." and "..". */
bool atoll_text_is_below(const char *path, const char *top);
/* Copies into a fixed buffer; -ENAMETOOLONG if it does not fit. */
int atoll_text_copy(char *out, size_t cap, const char *text) ATOLL_MUST_CHECK;

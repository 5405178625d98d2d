#pragma once
#include <sys/types.h>
#include "base/buf.h"

/* Base64 with padding (RFC 4648 section 4), for bytes in JSON. */

/* Appends the encoded form. -ENOBUFS, -ENOMEM. */
int atoll_base64_encode(struct atoll_buf *out, const void *bytes, size_t n) ATOLL_MUST_CHECK;
/* Appends the decoded bytes. -EINVAL when the text is not canonical, -ENOBUFS, -ENOMEM. */
int atoll_base64_decode(struct atoll_buf *out, const char *text, size_t n) ATOLL_MUST_CHECK;

/* The same without a buffer: out holds (n + 2) / 3 * 4 + 1 characters. */
void atoll_base64_text(char *out, const void *bytes, size_t n);
/* Decodes into out; returns the number of bytes. -EINVAL, -ENOBUFS if there are more than cap. */
ssize_t atoll_base64_bytes(void *out, size_t cap, const char *text, size_t n) ATOLL_MUST_CHECK;

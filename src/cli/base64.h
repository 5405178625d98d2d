#pragma once
#include "base/buf.h"

/* Base64 with padding (RFC 4648 section 4), for bytes that have to travel in JSON. */

/* Appends the encoded form. -ENOBUFS, -ENOMEM. */
int atoll_cli_base64_encode(struct atoll_buf *out, const void *bytes, size_t n) ATOLL_MUST_CHECK;
/* Appends the decoded bytes. -EINVAL when the text is not canonical, -ENOBUFS, -ENOMEM. */
int atoll_cli_base64_decode(struct atoll_buf *out, const char *text, size_t n) ATOLL_MUST_CHECK;

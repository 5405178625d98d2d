#pragma once
#include "base/defs.h"

/* RFC 3339: "2026-01-31T12:00:00.123456Z" or with an offset. -EINVAL. */
int atoll_rfc3339_parse(const char *text, int64_t *ret_unix_us) ATOLL_MUST_CHECK;

#pragma once
#include "base/buf.h"

/*
 * The form that git has for changes of binary files: the whole new content and the whole old one, in base 85. The
 * data is in blocks of zlib's format that are stored, not compressed: this program has no zlib.
 */
/* "literal …" with its empty line. -ENOBUFS, -ENOMEM. */
int atoll_git_literal(struct atoll_buf *out, const uint8_t *bytes, size_t n) ATOLL_MUST_CHECK;

/* The name that git gives to a file of this content; NULL bytes: zeros, for a file that does not exist. */
#define ATOLL_GIT_NAME_LEN 40
int atoll_git_name(const uint8_t *bytes, size_t n,
                   char ret[static ATOLL_GIT_NAME_LEN + 1]) ATOLL_MUST_CHECK;

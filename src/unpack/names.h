#pragma once
#include "base/buf.h"

/*
 * Names of entries of archives. Pure.
 */

/* Appends the path without "." components, repeated, leading and trailing slashes; "" is the root. -EINVAL:
 * it has a ".." component; -ENAMETOOLONG: a component of more than 255 bytes, or beyond the buffer. */
int atoll_names_clean(struct atoll_buf *out, const char *path) ATOLL_MUST_CHECK;

enum atoll_names_kind {
    ATOLL_NAMES_PLAIN,
    ATOLL_NAMES_WHITEOUT, /* .wh.X: X of lower layers is hidden */
    ATOLL_NAMES_OPAQUE,   /* .wh..wh..opq: all of lower layers in this directory is hidden */
    ATOLL_NAMES_INTERNAL, /* .wh..wh.*: administration of aufs, ignored */
    ATOLL_NAMES_BAD,      /* .wh. of nothing, or in the middle of a path */
};

/* What a clean path of a layer stands for. *ret_name is X of a whiteout, else the last component. */
enum atoll_names_kind atoll_names_kind(const char *path, const char **ret_name);

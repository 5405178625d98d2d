#pragma once
#include "base/buf.h"

/*
 * A line of the manifest of a tree (atoll-unpack --manifest), without its newline:
 *   TYPE MODE UID GID SIZE SHA256 PATH TARGET
 * separated by single spaces. TYPE is one of f d l p w: file, directory, symbolic link, FIFO, whiteout.
 * MODE is octal. SHA256 is in hex, of a file's content; "-" for others. PATH has no leading "/"; the root
 * is ".". TARGET is that of a link; "-" for others. In PATH and TARGET bytes up to " ", "\", DEL and a
 * single "-" are written as \ooo (octal). So lines sort and compare as text. Pure.
 */
enum atoll_tree_type {
    ATOLL_TREE_FILE = 'f',
    ATOLL_TREE_DIRECTORY = 'd',
    ATOLL_TREE_LINK = 'l',
    ATOLL_TREE_FIFO = 'p',
    ATOLL_TREE_WHITEOUT = 'w',
};

struct atoll_tree_line {
    enum atoll_tree_type type;
    uint32_t mode, uid, gid;
    uint64_t size;
    char sha256[65];    /* "" for others than files */
    const char *path;   /* "" is the root */
    const char *target; /* "" for others than links */
};

/* Appends the line and a newline. -ENOBUFS, -ENOMEM. */
int atoll_tree_line_write(struct atoll_buf *out,
                          const struct atoll_tree_line *line) ATOLL_MUST_CHECK;
/* Reads a line without its newline. The text is changed: path and target of *ret point into it. -EINVAL. */
int atoll_tree_line_read(char *text, struct atoll_tree_line *ret) ATOLL_MUST_CHECK;

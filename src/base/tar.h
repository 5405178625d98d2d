#pragma once
#include "base/buf.h"

/*
 * Tar archives (POSIX pax format) as a stream: this writes the head of each entry; the caller
 * writes the bytes of a file and its padding, and two blocks of zeros at the end. Pure.
 */
#define ATOLL_TAR_BLOCK 512

enum atoll_tar_type {
    ATOLL_TAR_FILE = '0',
    ATOLL_TAR_HARD_LINK = '1',
    ATOLL_TAR_SYMLINK = '2',
    ATOLL_TAR_DIRECTORY = '5',
    ATOLL_TAR_FIFO = '6',
};

struct atoll_tar_attribute {
    const char *name; /* "user.x" */
    const void *value;
    size_t len;
};

struct atoll_tar_entry {
    enum atoll_tar_type type;
    const char *name;          /* in the archive */
    const char *target;        /* of a link; else ignored */
    const char *owner, *group; /* names; NULL: none */
    uint32_t mode, uid, gid;
    uint64_t size; /* of a file; else ignored */
    int64_t mtime_s;
    /* Records of pax for a time or owner that the head cannot express; else it has the nearest value. */
    bool exact;
    uint32_t mtime_ns; /* with exact */
    const struct atoll_tar_attribute *attributes;
    size_t attribute_count;
};

/* Appends the head of an entry. -ENOBUFS, -ENOMEM. */
int atoll_tar_head(struct atoll_buf *out, const struct atoll_tar_entry *entry) ATOLL_MUST_CHECK;
/* The number of zero bytes that follow a file of that size. */
size_t atoll_tar_padding(uint64_t size);

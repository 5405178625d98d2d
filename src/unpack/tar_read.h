#pragma once
#include "base/error.h"

/*
 * Reads tar archives: ustar, pax, GNU with long names and sparse files (old format, and 0.0, 0.1 and 1.0 of
 * pax). Names are bytes and are not converted, unlike in libarchive, which normalizes those of pax. Records
 * of global heads are ignored, as by Docker.
 *
 * Ownership: borrows its source. An item and its texts are valid until the next one is read.
 */
struct atoll_tar_source {
    /* The next bytes without consuming them: 1, or 0 at the end. A piece that is not the last has a
     * multiple of 512 bytes from where the last multiple of 512 ended. */
    int (*peek)(void *arg, const uint8_t **ret_bytes, size_t *ret_n, struct atoll_error *err);
    void (*skip)(void *arg, size_t n);
    void *arg;
};

enum atoll_tar_kind {
    ATOLL_TAR_IS_FILE,
    ATOLL_TAR_IS_HARD_LINK,
    ATOLL_TAR_IS_SYMLINK,
    ATOLL_TAR_IS_DIRECTORY,
    ATOLL_TAR_IS_FIFO,
    ATOLL_TAR_IS_DEVICE,
    ATOLL_TAR_IS_OTHER,
};

struct atoll_tar_xattr {
    const char *name;
    const uint8_t *value;
    size_t len;
};

struct atoll_tar_item {
    enum atoll_tar_kind kind;
    const char *path;   /* as the archive has it, not empty */
    const char *target; /* of links; else "" */
    uint32_t mode;      /* at most 07777 */
    uint64_t uid, gid;
    uint64_t size; /* of a file with its holes; else 0 */
    int64_t mtime_s;
    uint32_t mtime_ns;
    bool sparse; /* data() may skip offsets */
    const struct atoll_tar_xattr *xattrs;
    size_t xattr_count;
};

struct atoll_tar_reader;

struct atoll_tar_reader *atoll_tar_reader_new(const struct atoll_tar_source *source);
struct atoll_tar_reader *atoll_tar_reader_free(struct atoll_tar_reader *r);

/* The next entry: 1, or 0 at the end of the archive. INVALID_ARGUMENT, RESOURCE_EXHAUSTED (heads beyond 1 MiB,
 * too many holes), errors of the source. */
int atoll_tar_reader_next(struct atoll_tar_reader *r, struct atoll_tar_item *ret,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* The next bytes of the entry's file, and their offset in it: 1, or 0 after the last. Valid until the next
 * call. INVALID_ARGUMENT: the archive ends early; errors of the source. */
int atoll_tar_reader_data(struct atoll_tar_reader *r, const uint8_t **ret_bytes, size_t *ret_n,
                          uint64_t *ret_offset, struct atoll_error *err) ATOLL_MUST_CHECK;

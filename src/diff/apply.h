#pragma once
#include <sys/types.h>
#include "base/error.h"

/*
 * What a merge writes, as a stream from atoll-diff in a builder sandbox to atoll-diff in the sandbox that is merged
 * into. A record is this struct, the path and the bytes. The same program writes and reads it, on one machine.
 */
enum atoll_diff_op {
    ATOLL_DIFF_END,    /* the stream is whole */
    ATOLL_DIFF_REMOVE, /* what is not a directory */
    ATOLL_DIFF_RMDIR,  /* if it is empty then */
    ATOLL_DIFF_PUT,    /* a directory, file, link or fifo */
};
/* What the sandbox had at the path when the merge looked at it. */
struct atoll_diff_was {
    uint32_t mode; /* 0: nothing */
    uint32_t uid, gid;
    uint32_t mtime_ns;
    int64_t mtime_s;
    uint64_t size;
};
struct atoll_diff_record {
    uint32_t op;
    uint32_t mode, uid, gid;
    uint32_t path_len;
    uint32_t
        replaces; /* 1: a removal and a PUT of the same path, one after the other: its kind changes */
    uint64_t size; /* of the content of a file, or of the target of a link */
    struct atoll_diff_was was;
};
/* -errno */
int atoll_diff_record_write(int fd, const struct atoll_diff_record *record, const char *path,
                            const void *bytes) ATOLL_MUST_CHECK;

/* Reads the whole stream first, so that one that ends early changes nothing; then carries it out below root_fd: removals,
 * directories, then files, each by a rename. What is no longer as `was` says is left as it is and printed to out_fd as
 * {"conflict", "ours", "theirs"}. INVALID_ARGUMENT: not a whole stream. */
int atoll_diff_apply(int root_fd, int in_fd, int out_fd, struct atoll_error *err) ATOLL_MUST_CHECK;

#pragma once
#include "base/defs.h"
#include "spawn/walk.h"

/*
 * Copies the writable directory of an overlay to a layer: owners (moved to another range of ids), modes,
 * times, attributes, holes, hard links and whiteouts. The mark of an opaque directory becomes
 * user.overlay.opaque. Sockets are left out. The content may be hostile: links are not followed, other
 * file systems are not entered.
 *
 * A pass while processes write to the source copies most of it; a last pass, while nothing writes, copies
 * what has changed since and removes what is gone. Whether a file has changed shows in its inode and its
 * time of change. That is reliable only if nothing had the file open for writing when it was copied
 * (stores to mapped memory do not always set the time) and its time was over then. All other files are
 * copied again.
 * Blocking.
 */
struct atoll_upper_options {
    int from, to;                /* directories; `to` is empty; borrowed */
    uint32_t from_base, to_base; /* first ids of the ranges; the same: owners stay as they are */
    bool userxattr;          /* the overlay has user.overlay.* attributes, not trusted.overlay.* */
    const char *const *skip; /* paths below `from` that are left out, NULL-terminated */
    size_t table_bytes;      /* memory for each of its two tables; 0: ATOLL_UPPER_TABLE */
};

/* One table has what a pass has copied. The next pass copies again what is not in it. The other has a
 * name of each file with several names; a source that needs more of it cannot be copied. */
#define ATOLL_UPPER_TABLE ((size_t)64 << 20)

/* Number of ids in a range. */
#define ATOLL_UPPER_IDS 65536u

struct atoll_upper;

struct atoll_upper *atoll_upper_new(const struct atoll_upper_options *options);
/* One pass; `last`: nothing writes to the source. A pass that is not the last one leaves out what changes
 * while it is copied, and ends early if the source seems to have no end.
 * -ENAMETOOLONG: a path is too long. -EOPNOTSUPP: the source refers to layers in a way that a layer
 * cannot have. -EMLINK: too many files have several names. -errno */
int atoll_upper_pass(struct atoll_upper *copy, bool last) ATOLL_MUST_CHECK;
/* Of the last pass: what the copy has below its top. */
struct atoll_walk_sum atoll_upper_sum(const struct atoll_upper *copy);
/* How many files and directories the last pass had to copy. */
uint64_t atoll_upper_again(const struct atoll_upper *copy);
struct atoll_upper *atoll_upper_free(struct atoll_upper *copy);

/* upper_file.c */
struct stat;
/* Content of a file from one descriptor to another: shared blocks if the file system can, else the data
 * without the holes. At most as many bytes as `st` says, which is of `from`. */
int atoll_upper_content(int from, int to, const struct stat *st) ATOLL_MUST_CHECK;
/* Owner, attributes, mode and times. Both are files or directories. */
int atoll_upper_attributes(const struct atoll_upper_options *options, int from, int to,
                           const struct stat *st) ATOLL_MUST_CHECK;
/* Removes the attributes of an entry of the copy. */
int atoll_upper_clear(int to) ATOLL_MUST_CHECK;
uint32_t atoll_upper_owner(const struct atoll_upper_options *options, uint32_t id);

#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What `atoll sync` has to do: a pure function of three lists, each sorted by path. `base` is what both sides were when
 * they were last in step. A path that changed on both sides is a conflict and is left alone.
 */
enum atoll_sync_kind { ATOLL_SYNC_FILE = 'f', ATOLL_SYNC_DIRECTORY = 'd', ATOLL_SYNC_LINK = 'l' };

struct atoll_sync_entry {
    const char *path; /* relative, without "." and ".." */
    enum atoll_sync_kind kind;
    uint64_t size;
    int64_t mtime_ms;
    int64_t ctime_ms; /* of the folder's side; else 0 */
    uint32_t mode;
    const char *target; /* of a link; else "" */
};

struct atoll_sync_list {
    struct atoll_sync_entry *entries;
    size_t count;
};

/* Both sides of one path; a side whose path is NULL did not exist. */
struct atoll_sync_pair {
    struct atoll_sync_entry local, remote;
};
struct atoll_sync_base {
    struct atoll_sync_pair *pairs; /* sorted by the path of local */
    size_t count;
};

enum atoll_sync_act {
    ATOLL_SYNC_KEEP, /* in step */
    ATOLL_SYNC_PUSH,
    ATOLL_SYNC_PULL,
    ATOLL_SYNC_REMOVE_REMOTE,
    ATOLL_SYNC_REMOVE_LOCAL,
    ATOLL_SYNC_CONFLICT,
    ATOLL_SYNC_IGNORE, /* only in the sandbox, and not two-way */
};

struct atoll_sync_step {
    enum atoll_sync_act act;
    const struct atoll_sync_entry *local, *remote; /* NULL: does not exist */
    const struct atoll_sync_pair *base;            /* NULL: never in step */
};

/* Entries of the two sides, as far as both can express them: times in seconds, no modes. */
bool atoll_sync_same(const struct atoll_sync_entry *a, const struct atoll_sync_entry *b);
/* Fills steps, which has room for the sum of the three counts, in the order of paths; returns their number. */
size_t atoll_sync_plan(const struct atoll_sync_list *local, const struct atoll_sync_list *remote,
                       const struct atoll_sync_base *base, bool two_way,
                       struct atoll_sync_step *steps);
const char *atoll_sync_step_path(const struct atoll_sync_step *step);

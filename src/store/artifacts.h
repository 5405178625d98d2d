#pragma once
#include "base/error.h"

/*
 * Artifacts: files copied from a sandbox before it is destroyed. A destroyed sandbox has one set,
 * with a row for each file. A live sandbox has a request: the patterns of the files to copy. Rows
 * borrow their strings for the call.
 * Blocking: tens of microseconds; to put or to walk a set takes that much for each of its files.
 * Thread: the loop's.
 */
struct atoll_store;

struct atoll_store_artifacts {
    const char *sandbox_id, *session_id, *owner; /* session_id "": no session */
    const char *reason;                          /* why the set is not complete, or "" */
    bool complete;
    uint32_t count;
    uint64_t size_bytes; /* sum over all files of the set */
    int64_t created_unix_ms;
};

struct atoll_store_artifact {
    const char *path; /* relative to the working directory */
    uint32_t number;  /* name of the copy on disk */
    uint64_t size_bytes;
    int64_t mtime_ms;
};

/* The files to copy when this sandbox is destroyed. */
struct atoll_store_artifact_request {
    const char *sandbox_id, *session_id; /* session_id "": no session */
    const char *patterns;                /* one per line; "": no patterns yet */
};

/* Adds the row, or replaces the one of the same sandbox. */
int atoll_store_put_artifact_request(struct atoll_store *store,
                                     const struct atoll_store_artifact_request *row,
                                     struct atoll_error *err) ATOLL_MUST_CHECK;
/* Drops the requests of sandboxes that have no row. A request is stored before its sandbox, so
 * that a crash in between leaves it behind. */
int atoll_store_sweep_artifact_requests(struct atoll_store *store,
                                        struct atoll_error *err) ATOLL_MUST_CHECK;
/* Calls fn for every row. A negative result of fn stops the walk and is returned. fn must not
 * write to the store. */
int atoll_store_each_artifact_request(struct atoll_store *store,
                                      int (*fn)(void *arg,
                                                const struct atoll_store_artifact_request *row,
                                                struct atoll_error *err),
                                      void *arg, struct atoll_error *err) ATOLL_MUST_CHECK;

/* Adds the set with its `count` files, or replaces the set of the same sandbox. */
int atoll_store_put_artifacts(struct atoll_store *store, const struct atoll_store_artifacts *set,
                              const struct atoll_store_artifact *files,
                              struct atoll_error *err) ATOLL_MUST_CHECK;
/* Drops the set and the rows of its files. Success also if there is no such set. */
int atoll_store_drop_artifacts(struct atoll_store *store, const char *sandbox_id,
                               struct atoll_error *err) ATOLL_MUST_CHECK;

/* Calls fn for every set, oldest first. A negative result of fn stops the walk and is returned.
 * fn must not write to the store. */
int atoll_store_each_artifacts(struct atoll_store *store,
                               int (*fn)(void *arg, const struct atoll_store_artifacts *set,
                                         struct atoll_error *err),
                               void *arg, struct atoll_error *err) ATOLL_MUST_CHECK;
/* The same for the files of one set in the order of their paths; path NULL: all files, else only
 * that one. */
int atoll_store_each_artifact(struct atoll_store *store, const char *sandbox_id, const char *path,
                              int (*fn)(void *arg, const struct atoll_store_artifact *file,
                                        struct atoll_error *err),
                              void *arg, struct atoll_error *err) ATOLL_MUST_CHECK;

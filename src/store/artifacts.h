#pragma once
#include "base/error.h"

/*
 * What is kept of sandboxes that are gone: a set for each, and a row for each of its files; and
 * what is to be kept of those that live. Rows borrow their strings for the call.
 * Blocking: tens of microseconds; to put or to walk a set takes some for each of its files. Thread:
 * the loop's.
 */
struct atoll_store;

struct atoll_store_artifacts {
    const char *sandbox_id, *session_id, *owner; /* session_id "": none */
    const char *reason;                          /* why it is not complete, or "" */
    bool complete;
    uint32_t count;
    uint64_t size_bytes; /* of all its files */
    int64_t created_unix_ms;
};

struct atoll_store_artifact {
    const char *path; /* below the working directory */
    uint32_t number;  /* the name of the copy */
    uint64_t size_bytes;
    int64_t mtime_ms;
};

/* What is to be kept of a sandbox that lives. */
struct atoll_store_artifact_request {
    const char *sandbox_id, *session_id; /* session_id "": none */
    const char *patterns;                /* one a line; "": none yet */
};

/* Adds the row, or replaces the one of the same sandbox. */
int atoll_store_put_artifact_request(struct atoll_store *store,
                                     const struct atoll_store_artifact_request *row,
                                     struct atoll_error *err) ATOLL_MUST_CHECK;
/* Drops those of sandboxes that have no row: they go with it, but are there before it. */
int atoll_store_sweep_artifact_requestes(struct atoll_store *store,
                                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* Every row; fn returns < 0 to stop, which is returned. fn must not write. */
int atoll_store_each_artifact_request(struct atoll_store *store,
                                      int (*fn)(void *arg,
                                                const struct atoll_store_artifact_request *row,
                                                struct atoll_error *err),
                                      void *arg, struct atoll_error *err) ATOLL_MUST_CHECK;

/* Adds the set with its `count` files, or replaces that of the same sandbox. */
int atoll_store_put_artifacts(struct atoll_store *store, const struct atoll_store_artifacts *set,
                              const struct atoll_store_artifact *files,
                              struct atoll_error *err) ATOLL_MUST_CHECK;
/* Its files go with it. Absent is success. */
int atoll_store_drop_artifacts(struct atoll_store *store, const char *sandbox_id,
                               struct atoll_error *err) ATOLL_MUST_CHECK;

/* Every set, oldest first; fn returns < 0 to stop, which is returned. fn must not write. */
int atoll_store_each_artifacts(struct atoll_store *store,
                               int (*fn)(void *arg, const struct atoll_store_artifacts *set,
                                         struct atoll_error *err),
                               void *arg, struct atoll_error *err) ATOLL_MUST_CHECK;
/* The files of a set by path, or only the one of that path (NULL: all); likewise. */
int atoll_store_each_artifact(struct atoll_store *store, const char *sandbox_id, const char *path,
                              int (*fn)(void *arg, const struct atoll_store_artifact *file,
                                        struct atoll_error *err),
                              void *arg, struct atoll_error *err) ATOLL_MUST_CHECK;

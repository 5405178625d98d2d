#pragma once
#include "base/buf.h"
#include "base/error.h"

/*
 * Secrets: named values of a tenant, sealed (store/seal.h). A row never has the value: it is read by
 * itself, where it is needed.
 *
 * Blocking: some tens of microseconds a call. Thread: the loop's.
 */
struct atoll_store;

#define ATOLL_SECRET_ID_LEN 24

struct atoll_store_secret {
    char tenant[65], name[65];
    char id[ATOLL_SECRET_ID_LEN + 1]; /* random */
    uint32_t version;                 /* 1, and one more with each new value */
    uint32_t size_bytes;              /* of the value */
    const char *metadata;             /* JSON of the client, or NULL; borrowed */
    int64_t created_unix_ms, updated_unix_ms;
};

/* Adds the secret, or replaces the one of the same tenant and name. value has size_bytes bytes. */
int atoll_store_put_secret(struct atoll_store *store, const struct atoll_store_secret *row,
                           const void *value, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Success also if there is no such secret. */
int atoll_store_drop_secret(struct atoll_store *store, const char *tenant, const char *name,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* Calls fn for every secret, by tenant and name. A negative result of fn stops the walk and is
 * returned. */
int atoll_store_each_secret(struct atoll_store *store,
                            int (*fn)(void *arg, const struct atoll_store_secret *row,
                                      struct atoll_error *err),
                            void *arg, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Appends the value; the caller erases it with atoll_buf_wipe(). NOT_FOUND; DATA_LOSS: it cannot be
 * opened. */
int atoll_store_secret_value(struct atoll_store *store, const char *tenant, const char *name,
                             struct atoll_buf *out, struct atoll_error *err) ATOLL_MUST_CHECK;

#pragma once
#include "base/error.h"

/*
 * Tokens that open one sandbox. As for API keys, only the SHA-256 of a token is stored.
 *
 * Blocking: some tens of microseconds a call. Thread: the loop's.
 */
struct atoll_store;

struct atoll_store_sandbox_token {
    char id[13]; /* random, not derived from the token */
    char sandbox_id[33];
    uint8_t sha256[32];
    int64_t created_unix_ms, expires_unix_ms;
};

/* Calls fn for every row. A negative result of fn stops the walk and is returned. fn must not write
 * to the store. DATA_LOSS: a row is malformed. */
int atoll_store_each_sandbox_token(struct atoll_store *store,
                                   int (*fn)(void *arg, const struct atoll_store_sandbox_token *row,
                                             struct atoll_error *err),
                                   void *arg, struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_store_add_sandbox_token(struct atoll_store *store,
                                  const struct atoll_store_sandbox_token *row,
                                  struct atoll_error *err) ATOLL_MUST_CHECK;
/* Success also if there is no such row. */
int atoll_store_drop_sandbox_token(struct atoll_store *store, const char *id,
                                   struct atoll_error *err) ATOLL_MUST_CHECK;
/* Drops all tokens of the sandbox. */
int atoll_store_drop_sandbox_tokens(struct atoll_store *store, const char *sandbox_id,
                                    struct atoll_error *err) ATOLL_MUST_CHECK;

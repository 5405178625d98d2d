#pragma once
#include "base/error.h"

/*
 * API keys as they are kept: never the key itself, only its SHA-256. A key has more than 200 random
 * bits, so that a plain hash of it tells nothing; there is no password here to be slowed down for.
 *
 * Blocking: some tens of microseconds a call. Thread: the loop's.
 */
struct atoll_store;

#define ATOLL_KEY_ID_LEN 12

struct atoll_key_row {
    char id[ATOLL_KEY_ID_LEN + 1]; /* says nothing about the key */
    char tenant[65];
    uint8_t scope; /* enum atoll_scope */
    uint8_t sha256[32];
    int64_t created_unix_ms;
};

/* Calls each() for all of them, the oldest first; what it returns below 0 ends the walk. INTERNAL. */
int atoll_keys_load(struct atoll_store *store,
                    int (*each)(void *arg, const struct atoll_key_row *row), void *arg,
                    struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_keys_add(struct atoll_store *store, const struct atoll_key_row *row,
                   struct atoll_error *err) ATOLL_MUST_CHECK;
/* It is gone when this returns 0, also when it was never there. */
int atoll_keys_remove(struct atoll_store *store, const char *id,
                      struct atoll_error *err) ATOLL_MUST_CHECK;

#pragma once
#include "base/error.h"

/*
 * API keys. Only the SHA-256 of a key is stored. A key has more than 200 random bits, so a plain
 * hash is enough: a slow password hash would add nothing.
 *
 * Blocking: some tens of microseconds a call. Thread: the loop's.
 */
struct atoll_store;

#define ATOLL_KEY_ID_LEN 12

struct atoll_key_row {
    char id[ATOLL_KEY_ID_LEN + 1]; /* random, not derived from the key */
    char tenant[65];
    uint8_t scope; /* a number of access/access.c */
    uint8_t sha256[32];
    int64_t created_unix_ms;
};

/* Calls each() for all keys, oldest first; a negative result stops the walk and is returned.
 * INTERNAL: the database cannot be read. DATA_LOSS: a row is malformed. */
int atoll_keys_load(struct atoll_store *store,
                    int (*each)(void *arg, const struct atoll_key_row *row), void *arg,
                    struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_keys_add(struct atoll_store *store, const struct atoll_key_row *row,
                   struct atoll_error *err) ATOLL_MUST_CHECK;
/* Success also if there is no such key. */
int atoll_keys_remove(struct atoll_store *store, const char *id,
                      struct atoll_error *err) ATOLL_MUST_CHECK;

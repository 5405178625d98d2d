#pragma once
#include "base/defs.h"

/*
 * Hash map from a string to a pointer, open addressing. Keys are borrowed: they usually live in
 * the value. Owns neither keys nor values. The hash has a random key, so the order of an iteration differs
 * from process to process.
 */
struct atoll_map {
    struct atoll_map_slot *slots; /* owned */
    size_t cap;                   /* power of two, or 0 */
    size_t used;                  /* live entries */
    size_t filled;                /* live entries and tombstones */
};

void atoll_map_init(struct atoll_map *m);
void atoll_map_done(struct atoll_map *m);

/* -EEXIST if the map already has the key, -ENOMEM. */
int atoll_map_put(struct atoll_map *m, const char *key, void *value) ATOLL_MUST_CHECK;
void *atoll_map_get(const struct atoll_map *m, const char *key);
/* Returns the removed value, or NULL. */
void *atoll_map_remove(struct atoll_map *m, const char *key);

/* Iterates over all entries: start with *pos = 0; returns NULL at the end. The map must not grow during
 * the iteration; the entry just returned may be removed. */
void *atoll_map_next(const struct atoll_map *m, size_t *pos);

#pragma once
#include "base/defs.h"

/*
 * Hash map from a string to a pointer, open addressing. Keys are borrowed: they usually live in
 * the value. Owns neither keys nor values.
 */
struct atoll_map {
    struct atoll_map_slot *slots; /* owned */
    size_t cap;                   /* power of two, or 0 */
    size_t used;                  /* live entries */
    size_t filled;                /* live entries and tombstones */
};

void atoll_map_init(struct atoll_map *m);
void atoll_map_done(struct atoll_map *m);

/* -EEXIST when the key is there already, -ENOMEM. */
int atoll_map_put(struct atoll_map *m, const char *key, void *value) ATOLL_MUST_CHECK;
void *atoll_map_get(const struct atoll_map *m, const char *key);
/* Returns what was there, or NULL. */
void *atoll_map_remove(struct atoll_map *m, const char *key);

/* Walks all entries: start with *pos = 0, ends with NULL. The map may not grow meanwhile; removing
 * the entry just returned is fine. */
void *atoll_map_next(const struct atoll_map *m, size_t *pos);

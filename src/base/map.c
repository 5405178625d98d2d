#include "base/map.h"

#include <errno.h>
#include <string.h>
#include "base/rand.h"
#include "base/siphash.h"
#include "base/switches.h"

struct atoll_map_slot {
    const char *key; /* NULL: never used, or a tombstone if value is the marker */
    void *value;
};

static char tombstone_marker;
#define TOMBSTONE ((void *)&tombstone_marker)

/* Of this process and of those that it forks; set before main(), so threads need no lock. */
static uint64_t secret[2];

__attribute__((constructor)) static void make_secret(void)
{
    atoll_rand_bytes(secret, sizeof(secret));
}

/* Tenants choose keys, such as paths and names: without the secret they cannot choose collisions. */
static size_t hash(const char *key)
{
    return (size_t)atoll_siphash(secret, key, strlen(key));
}

void atoll_map_init(struct atoll_map *m)
{
    *m = (struct atoll_map){0};
}

void atoll_map_done(struct atoll_map *m)
{
    free(m->slots);
    *m = (struct atoll_map){0};
}

static struct atoll_map_slot *find(const struct atoll_map *m, const char *key)
{
    if (m->cap == 0)
        return NULL;
    for (size_t i = hash(key);; i++) {
        struct atoll_map_slot *s = &m->slots[i & (m->cap - 1)];
        if (s->key && strcmp(s->key, key) == 0)
            return s;
        if (!s->key && s->value != TOMBSTONE)
            return NULL;
    }
}

static void place(struct atoll_map *m, const char *key, void *value)
{
    size_t i = hash(key);
    while (m->slots[i & (m->cap - 1)].key)
        i++;
    struct atoll_map_slot *s = &m->slots[i & (m->cap - 1)];
    if (s->value != TOMBSTONE)
        m->filled++;
    *s = (struct atoll_map_slot){key, value};
    m->used++;
}

static int grow(struct atoll_map *m)
{
    struct atoll_map old = *m;
    size_t cap = 16;

    while (cap < old.used * 4)
        cap *= 2;
    m->slots = atoll_fault("base.map_grow") ? NULL : calloc(cap, sizeof(*m->slots));
    if (!m->slots) {
        *m = old;
        return -ENOMEM;
    }
    m->cap = cap;
    m->used = m->filled = 0;
    for (size_t i = 0; i < old.cap; i++)
        if (old.slots[i].key)
            place(m, old.slots[i].key, old.slots[i].value);
    free(old.slots);
    return 0;
}

int atoll_map_put(struct atoll_map *m, const char *key, void *value)
{
    if (find(m, key))
        return -EEXIST;
    /* At most half full, so that a probe soon finds a free slot. */
    if ((m->filled + 1) * 2 > m->cap) {
        int r = grow(m);
        if (r < 0)
            return r;
    }
    place(m, key, value);
    return 0;
}

void *atoll_map_get(const struct atoll_map *m, const char *key)
{
    struct atoll_map_slot *s = find(m, key);
    return s ? s->value : NULL;
}

void *atoll_map_remove(struct atoll_map *m, const char *key)
{
    struct atoll_map_slot *s = find(m, key);
    void *value;

    if (!s)
        return NULL;
    value = s->value;
    *s = (struct atoll_map_slot){NULL, TOMBSTONE};
    m->used--;
    return value;
}

void *atoll_map_next(const struct atoll_map *m, size_t *pos)
{
    while (*pos < m->cap) {
        struct atoll_map_slot *s = &m->slots[(*pos)++];
        if (s->key)
            return s->value;
    }
    return NULL;
}

#include "egress/names_kept.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define ID_MAX 64
#define NAME_TEXT_MAX 254

struct record {
    atomic_bool whole;
    int64_t expires_ms;
    struct in6_addr address;
    char id[ID_MAX], name[NAME_TEXT_MAX];
};

struct atoll_names_kept {
    uint64_t added; /* records since the beginning; the last ATOLL_NAMES_KEPT of them are there */
    uint64_t inherited;  /* those before this number are of earlier workers */
    int64_t last_use_ms; /* when the last of those has expired */
    struct record records[ATOLL_NAMES_KEPT];
};

struct atoll_names_kept *atoll_names_kept_new(void)
{
    void *kept = mmap(NULL, sizeof(struct atoll_names_kept), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    return kept == MAP_FAILED ? NULL : kept;
}

static const struct record *record_at(const struct atoll_names_kept *kept, uint64_t number)
{
    return &kept->records[number % ATOLL_NAMES_KEPT];
}

static uint64_t oldest(const struct atoll_names_kept *kept)
{
    return kept->added > ATOLL_NAMES_KEPT ? kept->added - ATOLL_NAMES_KEPT : 0;
}

void atoll_names_kept_begin(struct atoll_names_kept *kept, int64_t now_ms)
{
    if (!kept)
        return;
    kept->inherited = kept->added;
    kept->last_use_ms = now_ms;
    for (uint64_t i = oldest(kept); i < kept->inherited; i++)
        kept->last_use_ms = ATOLL_MAX(kept->last_use_ms, record_at(kept, i)->expires_ms);
}

void atoll_names_kept_add(struct atoll_names_kept *kept, const char *id, const char *name,
                          const struct in6_addr *address, int64_t expires_ms)
{
    struct record *record;

    if (!kept)
        return;
    record = &kept->records[kept->added % ATOLL_NAMES_KEPT];
    atomic_store(&record->whole, false);
    kept->added++;
    record->expires_ms = expires_ms;
    record->address = *address;
    (void)snprintf(record->id, sizeof(record->id), "%s", id);
    (void)snprintf(record->name, sizeof(record->name), "%s", name);
    atomic_store(&record->whole, true);
}

void atoll_names_kept_each(const struct atoll_names_kept *kept, const char *id, int64_t now_ms,
                           void (*fn)(void *arg, const char *name, const struct in6_addr *address),
                           void *arg)
{
    if (!kept || now_ms >= kept->last_use_ms)
        return;
    for (uint64_t i = oldest(kept); i < kept->inherited; i++) {
        const struct record *record = record_at(kept, i);
        if (atomic_load(&record->whole) && record->expires_ms > now_ms &&
            strcmp(record->id, id) == 0)
            fn(arg, record->name, &record->address);
    }
}

#include "provider/remote/leases.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/map.h"
#include "base/text.h"

#define UNCONFIRMED_MAX 256
#define AGAIN_MS 10000
#define NEVER_MS INT64_C(3600000)

struct entry {
    char handle[ATOLL_REMOTE_HANDLE_MAX + 1]; /* key of the map */
    bool paused;
    int64_t due_ms;
    bool asking; /* a request to extend its time is in progress */
    bool silent;
    max_align_t record[]; /* record_size bytes of the provider */
};

struct atoll_remote_leases {
    const struct atoll_remote_service *service;
    size_t record_size;
    pthread_mutex_t lock;
    struct atoll_map map; /* struct entry by handle; owned */
    uint32_t lease_s;
    char unconfirmed[UNCONFIRMED_MAX][33];
    size_t next_unconfirmed;
};

struct atoll_remote_leases *atoll_remote_leases_new(const struct atoll_remote_service *service,
                                                    uint32_t lease_s, size_t record_size)
{
    struct atoll_remote_leases *r = calloc(1, sizeof(*r));

    if (!r)
        return NULL;
    r->service = service;
    r->record_size = record_size;
    (void)pthread_mutex_init(&r->lock, NULL);
    atoll_map_init(&r->map);
    r->lease_s = ATOLL_MAX(lease_s ? lease_s : ATOLL_REMOTE_LEASE_S, ATOLL_REMOTE_LEASE_MIN_S);
    return r;
}

/* A record can have keys and tokens. Accepts NULL. */
static void drop(const struct atoll_remote_leases *r, struct entry *e)
{
    if (e)
        explicit_bzero(e->record, r->record_size);
    free(e);
}

struct atoll_remote_leases *atoll_remote_leases_free(struct atoll_remote_leases *r)
{
    struct entry *e;
    size_t pos = 0;

    if (!r)
        return NULL;
    while ((e = atoll_map_next(&r->map, &pos)))
        drop(r, e);
    atoll_map_done(&r->map);
    (void)pthread_mutex_destroy(&r->lock);
    free(r);
    return NULL;
}

uint32_t atoll_remote_leases_lease_s(struct atoll_remote_leases *r)
{
    uint32_t lease_s;

    (void)pthread_mutex_lock(&r->lock);
    lease_s = r->lease_s;
    (void)pthread_mutex_unlock(&r->lock);
    return lease_s;
}

void atoll_remote_leases_set_lease_s(struct atoll_remote_leases *r, uint32_t lease_s)
{
    (void)pthread_mutex_lock(&r->lock);
    r->lease_s = ATOLL_MAX(lease_s, ATOLL_REMOTE_LEASE_MIN_S);
    (void)pthread_mutex_unlock(&r->lock);
}

/* A third of the lease, so that two tries may fail. Locked. */
static int64_t next_due_ms(const struct atoll_remote_leases *r)
{
    return atoll_clock_ms() + (int64_t)r->lease_s * 1000 / 3;
}

static struct entry *add(struct atoll_remote_leases *r, const char *handle, struct atoll_error *err)
{
    struct entry *e;
    int ret;

    if (r->map.used >= ATOLL_REMOTE_SANDBOXES_MAX) {
        (void)atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                         "%d sandboxes exist at %s, which is the maximum",
                         ATOLL_REMOTE_SANDBOXES_MAX, r->service->name);
        return NULL;
    }
    e = calloc(1, sizeof(*e) + r->record_size);
    ret = e ? atoll_text_copy(e->handle, sizeof(e->handle), handle) : -ENOMEM;
    if (ret == 0)
        ret = atoll_map_put(&r->map, e->handle, e);
    if (ret == 0)
        return e;
    (void)atoll_fail_errno(err, -ret, "sandbox");
    free(e);
    return NULL;
}

int atoll_remote_leases_put(struct atoll_remote_leases *r, const char *handle, const void *record,
                            bool paused, bool fresh, struct atoll_error *err)
{
    struct entry *e;

    (void)pthread_mutex_lock(&r->lock);
    e = atoll_map_get(&r->map, handle);
    if (!e)
        e = add(r, handle, err);
    if (e) {
        memcpy(e->record, record, r->record_size);
        e->paused = paused;
    }
    if (e && fresh) {
        e->due_ms = next_due_ms(r);
        e->silent = false;
    }
    (void)pthread_mutex_unlock(&r->lock);
    return e ? 0 : -err->errnum;
}

bool atoll_remote_leases_get(struct atoll_remote_leases *r, const char *handle, void *ret_record)
{
    const struct entry *e;

    (void)pthread_mutex_lock(&r->lock);
    e = atoll_map_get(&r->map, handle);
    if (e)
        memcpy(ret_record, e->record, r->record_size);
    (void)pthread_mutex_unlock(&r->lock);
    return e != NULL;
}

void atoll_remote_leases_forget(struct atoll_remote_leases *r, const char *handle)
{
    (void)pthread_mutex_lock(&r->lock);
    drop(r, atoll_map_remove(&r->map, handle));
    (void)pthread_mutex_unlock(&r->lock);
}

void atoll_remote_leases_set_paused(struct atoll_remote_leases *r, const char *handle, bool paused)
{
    struct entry *e;

    (void)pthread_mutex_lock(&r->lock);
    e = atoll_map_get(&r->map, handle);
    if (e) {
        e->paused = paused;
        e->due_ms = next_due_ms(r); /* both restart or stop its time to live */
    }
    (void)pthread_mutex_unlock(&r->lock);
}

void atoll_remote_leases_set_silent(struct atoll_remote_leases *r, const char *handle, bool silent)
{
    struct entry *e;

    (void)pthread_mutex_lock(&r->lock);
    e = atoll_map_get(&r->map, handle);
    if (e)
        e->silent = silent;
    (void)pthread_mutex_unlock(&r->lock);
}

bool atoll_remote_leases_is_silent(struct atoll_remote_leases *r, const char *handle)
{
    const struct entry *e;
    bool silent;

    (void)pthread_mutex_lock(&r->lock);
    e = atoll_map_get(&r->map, handle);
    silent = e && e->silent;
    (void)pthread_mutex_unlock(&r->lock);
    return silent;
}

bool atoll_remote_leases_due(struct atoll_remote_leases *r, int64_t now_ms, char *ret_handle,
                             int64_t *ret_wait_ms)
{
    struct entry *e, *found = NULL;
    size_t pos = 0;

    *ret_wait_ms = NEVER_MS;
    (void)pthread_mutex_lock(&r->lock);
    while (!found && (e = atoll_map_next(&r->map, &pos))) {
        if (e->asking || e->paused)
            continue;
        if (e->due_ms <= now_ms)
            found = e;
        else
            *ret_wait_ms = ATOLL_MIN(*ret_wait_ms, e->due_ms - now_ms);
    }
    if (found) {
        found->asking = true;
        (void)memcpy(ret_handle, found->handle, sizeof(found->handle));
    }
    (void)pthread_mutex_unlock(&r->lock);
    return found != NULL;
}

void atoll_remote_leases_extended(struct atoll_remote_leases *r, const char *handle, bool moved)
{
    struct entry *e;

    (void)pthread_mutex_lock(&r->lock);
    e = atoll_map_get(&r->map, handle);
    if (e) {
        e->asking = false;
        e->due_ms = moved ? next_due_ms(r) : atoll_clock_ms() + AGAIN_MS;
    }
    (void)pthread_mutex_unlock(&r->lock);
}

/* Unconfirmed ids: few, and rarely any. */

static char *find_unconfirmed(struct atoll_remote_leases *r, const char *id)
{
    for (size_t i = 0; i < UNCONFIRMED_MAX; i++)
        if (r->unconfirmed[i][0] && strcmp(r->unconfirmed[i], id) == 0)
            return r->unconfirmed[i];
    return NULL;
}

void atoll_remote_leases_set_unconfirmed(struct atoll_remote_leases *r, const char *id)
{
    (void)pthread_mutex_lock(&r->lock);
    if (!find_unconfirmed(r, id)) {
        (void)snprintf(r->unconfirmed[r->next_unconfirmed], sizeof(r->unconfirmed[0]), "%s", id);
        r->next_unconfirmed = (r->next_unconfirmed + 1) % UNCONFIRMED_MAX;
    }
    (void)pthread_mutex_unlock(&r->lock);
}

bool atoll_remote_leases_is_unconfirmed(struct atoll_remote_leases *r, const char *id)
{
    bool unconfirmed;

    (void)pthread_mutex_lock(&r->lock);
    unconfirmed = find_unconfirmed(r, id) != NULL;
    (void)pthread_mutex_unlock(&r->lock);
    return unconfirmed;
}

void atoll_remote_leases_set_confirmed(struct atoll_remote_leases *r, const char *id)
{
    char *entry;

    (void)pthread_mutex_lock(&r->lock);
    entry = find_unconfirmed(r, id);
    if (entry)
        entry[0] = '\0';
    (void)pthread_mutex_unlock(&r->lock);
}

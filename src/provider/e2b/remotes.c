#include "provider/e2b/remotes.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/map.h"

#define UNCONFIRMED_MAX 256
#define AGAIN_MS 10000
#define NEVER_MS INT64_C(3600000)

struct entry {
    struct atoll_e2b_remote remote;
    int64_t due_ms;
    bool asking; /* a request to extend its time is in progress */
    bool silent;
};

struct atoll_e2b_remotes {
    pthread_mutex_t lock;
    struct atoll_map map; /* struct entry by handle; owned */
    uint32_t lease_s;
    char unconfirmed[UNCONFIRMED_MAX][33];
    size_t next_unconfirmed;
};

struct atoll_e2b_remotes *atoll_e2b_remotes_new(uint32_t lease_s)
{
    struct atoll_e2b_remotes *r = calloc(1, sizeof(*r));

    if (!r)
        return NULL;
    (void)pthread_mutex_init(&r->lock, NULL);
    atoll_map_init(&r->map);
    r->lease_s = ATOLL_MAX(lease_s ? lease_s : ATOLL_E2B_LEASE_S, ATOLL_E2B_LEASE_MIN_S);
    return r;
}

struct atoll_e2b_remotes *atoll_e2b_remotes_free(struct atoll_e2b_remotes *r)
{
    struct entry *e;
    size_t pos = 0;

    if (!r)
        return NULL;
    while ((e = atoll_map_next(&r->map, &pos)))
        free(e);
    atoll_map_done(&r->map);
    (void)pthread_mutex_destroy(&r->lock);
    free(r);
    return NULL;
}

uint32_t atoll_e2b_remotes_lease_s(struct atoll_e2b_remotes *r)
{
    uint32_t lease_s;

    (void)pthread_mutex_lock(&r->lock);
    lease_s = r->lease_s;
    (void)pthread_mutex_unlock(&r->lock);
    return lease_s;
}

void atoll_e2b_remotes_set_lease_s(struct atoll_e2b_remotes *r, uint32_t lease_s)
{
    (void)pthread_mutex_lock(&r->lock);
    r->lease_s = ATOLL_MAX(lease_s, ATOLL_E2B_LEASE_MIN_S);
    (void)pthread_mutex_unlock(&r->lock);
}

/* A third of the lease, so that two tries may fail. Locked. */
static int64_t next_due_ms(const struct atoll_e2b_remotes *r)
{
    return atoll_clock_ms() + (int64_t)r->lease_s * 1000 / 3;
}

static int put(struct atoll_e2b_remotes *r, const struct atoll_e2b_remote *remote, bool fresh,
               struct atoll_error *err)
{
    struct entry *e = atoll_map_get(&r->map, remote->handle);
    int ret;

    if (e) {
        /* The key of the map is part of it, and does not change. */
        e->remote = *remote;
    } else {
        if (r->map.used >= ATOLL_E2B_REMOTES_MAX)
            return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                              "%d sandboxes exist at the E2B service, which is the maximum",
                              ATOLL_E2B_REMOTES_MAX);
        e = calloc(1, sizeof(*e));
        if (!e)
            return atoll_fail_errno(err, ENOMEM, "sandbox");
        e->remote = *remote;
        ret = atoll_map_put(&r->map, e->remote.handle, e);
        if (ret < 0) {
            free(e);
            return atoll_fail_errno(err, -ret, "sandbox");
        }
    }
    if (fresh) {
        e->due_ms = next_due_ms(r);
        e->silent = false;
    }
    return 0;
}

int atoll_e2b_remotes_put(struct atoll_e2b_remotes *r, const struct atoll_e2b_remote *remote,
                          bool fresh, struct atoll_error *err)
{
    int ret;

    (void)pthread_mutex_lock(&r->lock);
    ret = put(r, remote, fresh, err);
    (void)pthread_mutex_unlock(&r->lock);
    return ret;
}

bool atoll_e2b_remotes_get(struct atoll_e2b_remotes *r, const char *handle,
                           struct atoll_e2b_remote *ret)
{
    const struct entry *e;

    (void)pthread_mutex_lock(&r->lock);
    e = atoll_map_get(&r->map, handle);
    if (e)
        *ret = e->remote;
    (void)pthread_mutex_unlock(&r->lock);
    return e != NULL;
}

void atoll_e2b_remotes_forget(struct atoll_e2b_remotes *r, const char *handle)
{
    (void)pthread_mutex_lock(&r->lock);
    free(atoll_map_remove(&r->map, handle));
    (void)pthread_mutex_unlock(&r->lock);
}

void atoll_e2b_remotes_set_paused(struct atoll_e2b_remotes *r, const char *handle, bool paused)
{
    struct entry *e;

    (void)pthread_mutex_lock(&r->lock);
    e = atoll_map_get(&r->map, handle);
    if (e) {
        e->remote.paused = paused;
        e->due_ms = next_due_ms(r); /* both restart or stop its time to live */
    }
    (void)pthread_mutex_unlock(&r->lock);
}

void atoll_e2b_remotes_set_silent(struct atoll_e2b_remotes *r, const char *handle, bool silent)
{
    struct entry *e;

    (void)pthread_mutex_lock(&r->lock);
    e = atoll_map_get(&r->map, handle);
    if (e)
        e->silent = silent;
    (void)pthread_mutex_unlock(&r->lock);
}

bool atoll_e2b_remotes_is_silent(struct atoll_e2b_remotes *r, const char *handle)
{
    const struct entry *e;
    bool silent;

    (void)pthread_mutex_lock(&r->lock);
    e = atoll_map_get(&r->map, handle);
    silent = e && e->silent;
    (void)pthread_mutex_unlock(&r->lock);
    return silent;
}

bool atoll_e2b_remotes_due(struct atoll_e2b_remotes *r, int64_t now_ms, char *ret_handle,
                           int64_t *ret_wait_ms)
{
    struct entry *e, *found = NULL;
    size_t pos = 0;

    *ret_wait_ms = NEVER_MS;
    (void)pthread_mutex_lock(&r->lock);
    while (!found && (e = atoll_map_next(&r->map, &pos))) {
        if (e->asking || e->remote.paused)
            continue;
        if (e->due_ms <= now_ms)
            found = e;
        else
            *ret_wait_ms = ATOLL_MIN(*ret_wait_ms, e->due_ms - now_ms);
    }
    if (found) {
        found->asking = true;
        (void)memcpy(ret_handle, found->remote.handle, sizeof(found->remote.handle));
    }
    (void)pthread_mutex_unlock(&r->lock);
    return found != NULL;
}

void atoll_e2b_remotes_extended(struct atoll_e2b_remotes *r, const char *handle, bool moved)
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

static char *find_unconfirmed(struct atoll_e2b_remotes *r, const char *id)
{
    for (size_t i = 0; i < UNCONFIRMED_MAX; i++)
        if (r->unconfirmed[i][0] && strcmp(r->unconfirmed[i], id) == 0)
            return r->unconfirmed[i];
    return NULL;
}

void atoll_e2b_remotes_set_unconfirmed(struct atoll_e2b_remotes *r, const char *id)
{
    (void)pthread_mutex_lock(&r->lock);
    if (!find_unconfirmed(r, id)) {
        (void)snprintf(r->unconfirmed[r->next_unconfirmed], sizeof(r->unconfirmed[0]), "%s", id);
        r->next_unconfirmed = (r->next_unconfirmed + 1) % UNCONFIRMED_MAX;
    }
    (void)pthread_mutex_unlock(&r->lock);
}

bool atoll_e2b_remotes_is_unconfirmed(struct atoll_e2b_remotes *r, const char *id)
{
    bool unconfirmed;

    (void)pthread_mutex_lock(&r->lock);
    unconfirmed = find_unconfirmed(r, id) != NULL;
    (void)pthread_mutex_unlock(&r->lock);
    return unconfirmed;
}

void atoll_e2b_remotes_set_confirmed(struct atoll_e2b_remotes *r, const char *id)
{
    char *entry;

    (void)pthread_mutex_lock(&r->lock);
    entry = find_unconfirmed(r, id);
    if (entry)
        entry[0] = '\0';
    (void)pthread_mutex_unlock(&r->lock);
}

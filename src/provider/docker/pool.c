/*
 * A pool of started containers of the default image. Taking one is a rename, new limits and a
 * connection, much cheaper than a start.
 *
 * What cannot be changed later (disk, open files, sudo) is the shape of the pool. The pool learns
 * it from requests: the shape changes after two requests in a row that it could not serve.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include "base/clock.h"
#include "base/rand.h"
#include "provider/docker/docker_internal.h"
#include "sys/thread.h"

#define START_MS 120000
#define REMOVE_MS 20000
#define AGAIN_MS 5000
/* To remove all remaining containers at the end; the next daemon removes the rest. */
#define END_MS 5000

struct waiting {
    char name[64];
    char handle[129];
    char warning[ATOLL_WARNING_MAX]; /* for the client that gets it */
};

struct atoll_docker_pool {
    struct atoll_docker *docker; /* borrowed */
    unsigned size;
    int ending_fd; /* readable when the pool is being freed; owned */
    pthread_t thread;
    pthread_mutex_t lock; /* guards the members below */
    pthread_cond_t changed;
    bool ending;
    struct atoll_spec shape, missed;
    unsigned epoch; /* incremented when the shape changes */
    struct waiting waiting[ATOLL_DOCKER_POOL_MAX];
    unsigned count;
    struct waiting stale[ATOLL_DOCKER_POOL_MAX]; /* containers of an earlier shape, to be removed */
    unsigned stale_count;
    char making[64]; /* name of the container being made, or "" */
    unsigned taking; /* containers taken but perhaps not renamed yet */
};

static bool same_shape(const struct atoll_spec *a, const struct atoll_spec *b)
{
    return a->limits.disk_bytes == b->limits.disk_bytes && a->limits.inodes == b->limits.inodes &&
           a->limits.open_files == b->limits.open_files && a->waived == b->waived &&
           a->allow_sudo == b->allow_sudo;
}

static bool same_limits(const struct atoll_limits *a, const struct atoll_limits *b)
{
    return a->memory_bytes == b->memory_bytes && a->cpu_millis == b->cpu_millis &&
           a->pids == b->pids;
}

/* Whether a container of the default image without a network fits the request. */
static bool eligible(const struct atoll_docker_pool *pool, const struct atoll_spec *spec)
{
    if (spec->network != ATOLL_NETWORK_NONE || spec->builder || spec->persistent ||
        spec->mount_count > 0 || spec->read_only)
        return false;
    return *spec->image ? strcmp(spec->image, pool->docker->config.default_image) == 0
                        : spec->template_kind == ATOLL_TEMPLATE_HOST;
}

/* --- filling --- */

static struct atoll_sync_call call_for(int ms)
{
    return (struct atoll_sync_call){.deadline_ms = atoll_clock_ms() + ms, .cancel_fd = ATOLL_NO_FD};
}

static void remove_waiting(struct atoll_docker *d, const struct atoll_sync_call *call,
                           const struct waiting *w)
{
    struct atoll_error unused;

    (void)!atoll_docker_container_remove(d, call, w->handle, w->name, &unused);
}

/* Adds one container; false on failure. Called locked; unlocks while it works. */
static bool add_one(struct atoll_docker_pool *pool)
{
    struct atoll_spec spec = pool->shape;
    unsigned epoch = pool->epoch;
    struct atoll_sync_call call = call_for(START_MS);
    struct waiting w = {0};
    struct atoll_error unused;
    int r;

    atoll_rand_id(spec.id, ATOLL_ID_LEN);
    (void)snprintf(w.name, sizeof(w.name), ATOLL_DOCKER_POOL "%s", spec.id);
    memcpy(pool->making, w.name, sizeof(pool->making));
    (void)pthread_mutex_unlock(&pool->lock);
    call.cancel_fd = pool->ending_fd;
    r = atoll_docker_container_start(pool->docker, &call, w.name, &spec, w.handle, sizeof(w.handle),
                                     w.warning, &unused);
    (void)pthread_mutex_lock(&pool->lock);
    pool->making[0] = '\0';
    if (r < 0)
        return false;
    if (epoch == pool->epoch)
        pool->waiting[pool->count++] = w;
    else
        pool->stale[pool->stale_count++] = w;
    return true;
}

/* ms: deadline for each removal, which ending the pool interrupts; 0: END_MS for all of them. */
static void remove_stale(struct atoll_docker_pool *pool, int ms)
{
    struct atoll_sync_call call = call_for(END_MS);

    while (pool->stale_count > 0) {
        struct waiting w = pool->stale[--pool->stale_count];
        (void)pthread_mutex_unlock(&pool->lock);
        if (ms > 0) {
            call = call_for(ms);
            call.cancel_fd = pool->ending_fd;
        }
        remove_waiting(pool->docker, &call, &w);
        (void)pthread_mutex_lock(&pool->lock);
    }
}

static void rest(struct atoll_docker_pool *pool, int ms)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    (void)pthread_cond_timedwait(&pool->changed, &pool->lock, &until);
}

static void *keep_full(void *arg)
{
    struct atoll_docker_pool *pool = arg;

    atoll_thread_enter();
    (void)pthread_mutex_lock(&pool->lock);
    while (!pool->ending) {
        remove_stale(pool, REMOVE_MS);
        if (pool->ending)
            break;
        if (pool->count >= pool->size)
            (void)pthread_cond_wait(&pool->changed, &pool->lock);
        else if (!add_one(pool) && !pool->ending)
            rest(pool, AGAIN_MS);
    }
    while (pool->count > 0)
        pool->stale[pool->stale_count++] = pool->waiting[--pool->count];
    remove_stale(pool, 0);
    (void)pthread_mutex_unlock(&pool->lock);
    return NULL;
}

int atoll_docker_pool_new(struct atoll_docker *d, unsigned size, struct atoll_docker_pool **ret,
                          struct atoll_error *err)
{
    struct atoll_docker_pool *pool = calloc(1, sizeof(*pool));
    pthread_condattr_t monotonic;
    sigset_t all, old;
    int r;

    if (!pool)
        return atoll_fail_errno(err, ENOMEM, "pool");
    pool->ending_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (pool->ending_fd < 0) {
        r = errno;
        free(pool);
        return atoll_fail_errno(err, r, "pool");
    }
    pool->docker = d;
    /* Leaves room for containers that a change of the shape makes stale while one is being made. */
    pool->size = ATOLL_MIN(size, ATOLL_DOCKER_POOL_MAX / 2 - 1);
    pool->shape.limits = (struct atoll_limits){.memory_bytes = 512 << 20,
                                               .cpu_millis = 1000,
                                               .pids = 256,
                                               .disk_bytes = 256 << 20,
                                               .open_files = 4096};
    pool->shape.allow_sudo = true;
    (void)pthread_mutex_init(&pool->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&pool->changed, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &old);
    r = pthread_create(&pool->thread, NULL, keep_full, pool);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (r != 0) {
        (void)close(pool->ending_fd);
        free(pool);
        return atoll_fail_errno(err, r, "pool");
    }
    *ret = pool;
    return 0;
}

struct atoll_docker_pool *atoll_docker_pool_free(struct atoll_docker_pool *pool)
{
    if (!pool)
        return NULL;
    (void)pthread_mutex_lock(&pool->lock);
    pool->ending = true;
    (void)eventfd_write(pool->ending_fd, 1);
    (void)pthread_cond_signal(&pool->changed);
    (void)pthread_mutex_unlock(&pool->lock);
    (void)pthread_join(pool->thread, NULL);
    (void)close(pool->ending_fd);
    (void)pthread_mutex_destroy(&pool->lock);
    (void)pthread_cond_destroy(&pool->changed);
    free(pool);
    return NULL;
}

/* --- taking --- */

/* The second request in a row for another shape changes that of the pool. Locked. */
static void learn(struct atoll_docker_pool *pool, const struct atoll_spec *spec)
{
    bool again = same_shape(&pool->missed, spec);

    pool->missed = (struct atoll_spec){
        .limits = spec->limits, .waived = spec->waived, .allow_sudo = spec->allow_sudo};
    if (!again || pool->stale_count > 0)
        return;
    pool->shape = (struct atoll_spec){
        .limits = spec->limits, .waived = spec->waived, .allow_sudo = spec->allow_sudo};
    pool->epoch++;
    while (pool->count > 0)
        pool->stale[pool->stale_count++] = pool->waiting[--pool->count];
    (void)pthread_cond_signal(&pool->changed);
}

static bool pop(struct atoll_docker_pool *pool, const struct atoll_spec *spec, struct waiting *ret,
                struct atoll_limits *ret_limits)
{
    bool got = false;

    (void)pthread_mutex_lock(&pool->lock);
    if (!same_shape(&pool->shape, spec)) {
        learn(pool, spec);
    } else if (pool->count > 0) {
        *ret = pool->waiting[--pool->count];
        *ret_limits = pool->shape.limits;
        got = true;
        pool->taking++;
        (void)pthread_cond_signal(&pool->changed);
    }
    (void)pthread_mutex_unlock(&pool->lock);
    return got;
}

static void end_taking(struct atoll_docker_pool *pool)
{
    (void)pthread_mutex_lock(&pool->lock);
    pool->taking--;
    (void)pthread_mutex_unlock(&pool->lock);
}

static int become(struct atoll_docker *d, const struct atoll_sync_call *call,
                  const struct waiting *w, const struct atoll_limits *had, struct atoll_spec *spec,
                  struct atoll_error *err)
{
    ATOLL_AUTOFREE char *from = NULL;
    ATOLL_AUTOFREE char *to = NULL;
    int r;

    if (asprintf(&from, "%s/%s", d->state_dir, w->name) < 0 ||
        asprintf(&to, "%s/" ATOLL_DOCKER_NAME "%s", d->state_dir, spec->id) < 0)
        return atoll_fail_errno(err, ENOMEM, "pool");
    r = atoll_docker_http_askf(d->http, call, NULL, err, "POST",
                               "/containers/%s/rename?name=" ATOLL_DOCKER_NAME "%s", w->handle,
                               spec->id);
    if (r < 0)
        return r;
    memcpy(spec->handle, w->handle, sizeof(spec->handle));
    if (rename(from, to) < 0 && errno != ENOENT)
        return atoll_fail_errno(err, errno, "pool");
    return same_limits(had, &spec->limits)
               ? 0
               : d->sync.ops->set_limits(&d->sync, call, spec, &spec->limits, err);
}

bool atoll_docker_pool_take(struct atoll_docker_pool *pool, const struct atoll_sync_call *call,
                            struct atoll_spec *spec, int *ret_fd)
{
    struct atoll_docker *d = pool->docker;
    struct atoll_sync_call after;
    struct atoll_limits had;
    struct atoll_error err;
    struct waiting w;
    char name[64];

    (void)snprintf(name, sizeof(name), ATOLL_DOCKER_NAME "%s", spec->id);
    /* A container that died in the pool is dropped and the next one tried. No container is taken
     * for a request that is not eligible. */
    while (!atoll_sync_cancelled(call) && atoll_sync_left_ms(call) > 0 && eligible(pool, spec) &&
           pop(pool, spec, &w, &had)) {
        if (become(d, call, &w, &had, spec, &err) >= 0 &&
            atoll_docker_container_dial(d, call, w.handle, name, ret_fd, &err) >= 0) {
            end_taking(pool);
            memcpy(spec->warning, w.warning, sizeof(spec->warning));
            return true;
        }
        after = atoll_docker_after();
        remove_waiting(d, &after, &w);
        (void)snprintf(w.name, sizeof(w.name), "%s", name);
        remove_waiting(d, &after, &w);
        end_taking(pool);
        spec->handle[0] = '\0';
    }
    return false;
}

static bool has_name(const struct waiting *list, unsigned count, const char *name)
{
    for (unsigned i = 0; i < count; i++)
        if (strcmp(list[i].name, name) == 0)
            return true;
    return false;
}

bool atoll_docker_pool_may_have(struct atoll_docker_pool *pool, const char *name)
{
    bool may;

    if (!pool)
        return false;
    (void)pthread_mutex_lock(&pool->lock);
    may = pool->taking > 0 || strcmp(pool->making, name) == 0 ||
          has_name(pool->waiting, pool->count, name) ||
          has_name(pool->stale, pool->stale_count, name);
    (void)pthread_mutex_unlock(&pool->lock);
    return may;
}

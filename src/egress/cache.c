#include "egress/cache_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define THREADS 4
#define QUEUE_MAX 4096

/* Counters. */

void atoll_cache_changed(struct atoll_egress_cache *cache)
{
    if (cache->counted || !cache->on_count)
        return;
    cache->counted = true;
    cache->on_count(cache->arg);
}

void atoll_cache_on_count(struct atoll_egress_cache *cache, void (*fn)(void *arg), void *arg)
{
    cache->on_count = fn;
    cache->arg = arg;
    cache->counted = false;
}

void atoll_cache_take_counts(struct atoll_egress_cache *cache, struct atoll_cache_counts *ret)
{
    *ret = cache->counts;
    ret->bytes = cache->bytes;
    ret->files = cache->files.used;
    memset(&cache->counts, 0, sizeof(cache->counts));
    cache->counted = false;
}

void atoll_cache_count_miss(struct atoll_egress_cache *cache)
{
    cache->counts.misses++;
    atoll_cache_changed(cache);
}

void atoll_cache_count_bytes(struct atoll_egress_cache *cache, uint64_t bytes)
{
    cache->counts.miss_bytes += bytes;
    atoll_cache_changed(cache);
}

/* Files. */

void atoll_cache_name(const char *url, char out[CACHE_NAME_LEN + 1])
{
    uint8_t digest[EVP_MAX_MD_SIZE];

    if (EVP_Digest(url, strlen(url), digest, NULL, EVP_sha256(), NULL) != 1)
        abort();
    for (size_t i = 0; i < CACHE_NAME_LEN / 2; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", digest[i]);
}

struct atoll_cache_file *atoll_cache_get(const struct atoll_egress_cache *cache, const char *name)
{
    return atoll_map_get(&cache->files, name);
}

static void forget(struct atoll_egress_cache *cache, struct atoll_cache_file *file)
{
    cache->bytes -= file->bytes;
    atoll_list_remove(&file->node);
    (void)atoll_map_remove(&cache->files, file->name);
    free(file);
}

/* A thread removes the file: of a large one that takes some milliseconds. */
struct removal {
    struct atoll_job job;
    int fd;
    char name[CACHE_NAME_LEN + 1];
};

static void remove_file(struct atoll_job *job)
{
    struct removal *r = ATOLL_CONTAINER_OF(job, struct removal, job);

    (void)unlinkat(r->fd, r->name, 0);
}

static void removal_done(struct atoll_job *job)
{
    free(ATOLL_CONTAINER_OF(job, struct removal, job));
}

void atoll_cache_drop(struct atoll_egress_cache *cache, struct atoll_cache_file *file)
{
    struct removal *r = calloc(1, sizeof(*r));
    struct atoll_error err;

    if (!r)
        abort(); /* a small fixed object: the worker is crash-only */
    *r = (struct removal){.job = {.run = remove_file, .done = removal_done}, .fd = cache->fd};
    memcpy(r->name, file->name, sizeof(r->name));
    r->job.lane = r->name;
    forget(cache, file);
    if (atoll_workers_submit(cache->workers, &r->job, &err) < 0) {
        remove_file(&r->job);
        free(r);
    }
}

void atoll_cache_add(struct atoll_egress_cache *cache, const char *name, uint64_t bytes)
{
    struct atoll_cache_file *file = atoll_cache_get(cache, name);

    if (file)
        forget(cache, file); /* the new one has its name already */
    file = calloc(1, sizeof(*file));
    if (!file)
        abort(); /* a small fixed object: the worker is crash-only */
    memcpy(file->name, name, sizeof(file->name));
    file->bytes = bytes;
    if (atoll_map_put(&cache->files, file->name, file) < 0)
        abort();
    atoll_list_push_back(&cache->by_use, &file->node);
    cache->bytes += bytes;
}

bool atoll_cache_make_room(struct atoll_egress_cache *cache, uint64_t bytes)
{
    if (bytes > cache->max_bytes)
        return false;
    while (cache->bytes > cache->max_bytes - bytes && !atoll_list_empty(&cache->by_use)) {
        atoll_cache_drop(cache,
                         ATOLL_CONTAINER_OF(cache->by_use.next, struct atoll_cache_file, node));
        cache->counts.evictions++;
        atoll_cache_changed(cache);
    }
    return cache->bytes <= cache->max_bytes - bytes;
}

/* What an earlier worker has left. */

struct found {
    char name[CACHE_NAME_LEN + 1];
    struct timespec used;
    uint64_t bytes;
};

static bool is_name(const char *name)
{
    return strlen(name) == CACHE_NAME_LEN && strspn(name, "0123456789abcdef") == CACHE_NAME_LEN;
}

static int by_time(const void *a, const void *b)
{
    const struct timespec *x = &((const struct found *)a)->used,
                          *y = &((const struct found *)b)->used;

    if (x->tv_sec != y->tv_sec)
        return x->tv_sec < y->tv_sec ? -1 : 1;
    return x->tv_nsec < y->tv_nsec ? -1 : x->tv_nsec > y->tv_nsec;
}

static int read_directory(const struct atoll_egress_cache *cache, struct found **ret,
                          size_t *ret_count)
{
    int fd = openat(cache->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct found *list = NULL, *more;
    size_t count = 0, cap = 0;
    struct dirent *entry;
    struct stat st;

    if (!dir)
        return -errno;
    while ((entry = readdir(dir))) {
        if (entry->d_name[0] == '.')
            continue;
        if (!is_name(entry->d_name) ||
            fstatat(cache->fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            !S_ISREG(st.st_mode)) {
            (void)unlinkat(cache->fd, entry->d_name, 0); /* half-made */
            continue;
        }
        if (count == cap) {
            cap = cap ? 2 * cap : 64;
            more = reallocarray(list, cap, sizeof(*list));
            if (!more)
                abort();
            list = more;
        }
        memcpy(list[count].name, entry->d_name, sizeof(list[count].name));
        list[count].used = st.st_mtim;
        list[count++].bytes = (uint64_t)st.st_size;
    }
    (void)closedir(dir);
    *ret = list;
    *ret_count = count;
    return 0;
}

static int find_files(struct atoll_egress_cache *cache)
{
    struct found *list = NULL;
    size_t count = 0;
    int r = read_directory(cache, &list, &count);

    if (count > 0)
        qsort(list, count, sizeof(*list), by_time);
    for (size_t i = 0; i < count; i++)
        atoll_cache_add(cache, list[i].name, list[i].bytes);
    free(list);
    return r;
}

/* Life. */

int atoll_cache_open(struct atoll_loop *loop, int directory_fd, struct atoll_egress_cache **ret,
                     struct atoll_error *err)
{
    struct atoll_egress_cache *cache = calloc(1, sizeof(*cache));
    int r;

    if (!cache)
        abort(); /* a small fixed object */
    cache->loop = loop;
    cache->fd = directory_fd;
    atoll_map_init(&cache->files);
    atoll_list_init(&cache->by_use);
    r = find_files(cache);
    if (r < 0)
        r = atoll_fail_errno(err, -r, "read the directory of the cache");
    else
        r = atoll_workers_new(loop, THREADS, QUEUE_MAX, &cache->workers, err);
    if (r < 0)
        (void)atoll_cache_close(cache);
    else
        *ret = cache;
    return r;
}

struct atoll_egress_cache *atoll_cache_close(struct atoll_egress_cache *cache)
{
    if (!cache)
        return NULL;
    cache->on_count = NULL;
    cache->ending = true;
    if (cache->workers)
        cache->workers = atoll_workers_free(cache->workers);
    ATOLL_LIST_FOREACH (&cache->by_use, node)
        forget(cache, ATOLL_CONTAINER_OF(node, struct atoll_cache_file, node));
    atoll_map_done(&cache->files);
    (void)atoll_cache_table_free(cache->table);
    (void)close(cache->fd);
    free(cache);
    return NULL;
}

void atoll_cache_set(struct atoll_egress_cache *cache, struct atoll_cache_table *table,
                     uint64_t max_bytes)
{
    (void)atoll_cache_table_free(cache->table);
    cache->table = table;
    cache->max_bytes = max_bytes;
    if (table)
        (void)atoll_cache_make_room(cache, 0);
    atoll_cache_changed(cache);
}

const struct atoll_cache_table *atoll_cache_table_of(const struct atoll_egress_cache *cache)
{
    return cache ? cache->table : NULL;
}

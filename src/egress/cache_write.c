/*
 * A file of the cache is written while its content passes to the client. Bytes are collected, and a thread
 * writes and hashes them; at the end it checks the digest, writes the head, flushes the file and gives it
 * its name. What fails is dropped: the client does not notice.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/fd.h"
#include "base/shares.h"
#include "base/text.h"
#include "egress/cache_internal.h"

#define WRITES_MAX 128
/* Bytes that are collected before a thread is asked to write them. */
#define BATCH ((size_t)256 * 1024)
#define HELD_MAX ((size_t)16 * 1024 * 1024)
/* A file may have this part of the whole cache. */
#define PART_OF_ALL 4

struct atoll_cache_write {
    struct atoll_job job;
    struct atoll_egress_cache *cache;
    void (*drained)(void *arg);
    void *arg;
    bool busy;     /* a thread has it */
    bool ended;    /* no more bytes come */
    bool complete; /* and all came */
    bool over;     /* drained is to be called */
    bool failed;   /* nothing more is written */
    char owner[ATOLL_SHARE_NAME_MAX];
    char name[CACHE_NAME_LEN + 1];
    char part[40];
    struct atoll_buf held; /* not yet given to a thread */
    uint64_t room;         /* bytes of the cache that are reserved for it */

    /* The thread's while it runs. */
    int fd;
    bool bad, mismatch, named;
    bool last;    /* it is to be completed */
    bool discard; /* what was written is to be removed */
    struct atoll_buf batch;
    char *url; /* owned */
    struct atoll_buf fields;
    uint64_t size, at;
    struct atoll_cache_expected expected;
    EVP_MD_CTX *hash;
    struct atoll_blake2b blake;
};

static void write_free(struct atoll_cache_write *w)
{
    w->cache->bytes -= w->room;
    w->cache->writes--;
    if (w->fd >= 0)
        (void)close(w->fd);
    atoll_buf_done(&w->held);
    atoll_buf_done(&w->batch);
    atoll_buf_done(&w->fields);
    EVP_MD_CTX_free(w->hash);
    free(w->url);
    free(w);
}

/* On a thread. */

static int write_batch(struct atoll_cache_write *w)
{
    const uint8_t *bytes = atoll_buf_head(&w->batch);
    size_t n = atoll_buf_size(&w->batch);
    int r = 0;

    if (w->fd < 0) {
        w->fd = openat(w->cache->fd, w->part, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0660);
        if (w->fd < 0)
            return -errno;
        w->hash = EVP_MD_CTX_new();
        if (!w->hash || EVP_DigestInit_ex(w->hash, EVP_sha256(), NULL) != 1)
            return -ENOMEM;
        atoll_blake2b_init(&w->blake);
        if (lseek(w->fd, (off_t)CACHE_HEAD_BYTES, SEEK_SET) < 0)
            return -errno;
    }
    if (n > 0) {
        r = atoll_fd_write_all(w->fd, bytes, n);
        if (EVP_DigestUpdate(w->hash, bytes, n) != 1)
            return -ENOMEM;
        if (w->expected.kind == ATOLL_CACHE_BLAKE2B)
            atoll_blake2b_update(&w->blake, bytes, n);
    }
    w->at += n;
    atoll_buf_clear(&w->batch);
    return r;
}

static bool is_expected(struct atoll_cache_write *w, const uint8_t *sha256)
{
    uint8_t blake[ATOLL_BLAKE2B_BYTES];

    if (w->at != w->size)
        return false;
    if (w->expected.kind == ATOLL_CACHE_SHA256)
        return memcmp(sha256, w->expected.bytes, ATOLL_CACHE_DIGEST_BYTES) == 0;
    if (w->expected.kind != ATOLL_CACHE_BLAKE2B)
        return true;
    atoll_blake2b_final(&w->blake, blake);
    return memcmp(blake, w->expected.bytes, sizeof(blake)) == 0;
}

static int complete(struct atoll_cache_write *w)
{
    uint8_t digest[EVP_MAX_MD_SIZE];
    char head[CACHE_HEAD_BYTES];

    if (EVP_DigestFinal_ex(w->hash, digest, NULL) != 1)
        return -ENOMEM;
    if (!is_expected(w, digest)) {
        w->mismatch = true;
        return -EBADMSG;
    }
    if (!atoll_cache_head_print(w->url, &w->fields, w->size, digest, head))
        return -ENOSPC;
    if (pwrite(w->fd, head, sizeof(head), 0) != (ssize_t)sizeof(head) || fdatasync(w->fd) < 0 ||
        renameat(w->cache->fd, w->part, w->cache->fd, w->name) < 0)
        return -errno;
    w->named = true;
    return 0;
}

static void run(struct atoll_job *job)
{
    struct atoll_cache_write *w = ATOLL_CONTAINER_OF(job, struct atoll_cache_write, job);
    int r = w->discard ? -ECANCELED : write_batch(w);

    if (r == 0 && w->last)
        r = complete(w);
    w->bad = r < 0;
    if (w->bad && w->fd >= 0) {
        (void)close(ATOLL_TAKE_FD(w->fd));
        (void)unlinkat(w->cache->fd, w->part, 0);
    }
}

/* On the loop. */

static void finish(struct atoll_cache_write *w)
{
    struct atoll_egress_cache *cache = w->cache;
    char name[CACHE_NAME_LEN + 1];
    uint64_t bytes = CACHE_HEAD_BYTES + w->size;
    bool named = w->named;

    memcpy(name, w->name, sizeof(name));
    if (w->mismatch)
        cache->counts.mismatches++;
    else if (w->failed && w->complete)
        cache->counts.failures++;
    write_free(w);
    if (named && !cache->ending)
        atoll_cache_add(cache, name, bytes);
    atoll_cache_changed(cache);
}

static void submit(struct atoll_cache_write *w)
{
    struct atoll_error err;

    w->busy = true;
    if (atoll_workers_submit(w->cache->workers, &w->job, &err) == 0)
        return;
    w->busy = false;
    w->failed = true; /* a file that is left is removed at the next start */
    if (w->ended)
        finish(w);
}

/* The response has ended. */
static void end(struct atoll_cache_write *w)
{
    struct atoll_buf empty = w->batch;

    w->last = true;
    if (w->complete && !w->failed) {
        w->batch = w->held;
        w->held = empty;
        submit(w);
    } else if (w->fd >= 0) {
        w->discard = true;
        submit(w);
    } else {
        finish(w);
    }
}

/* Lets a thread write what was collected. */
static void advance(struct atoll_cache_write *w)
{
    struct atoll_buf empty = w->batch;

    if (w->failed) {
        atoll_buf_clear(&w->held);
    } else if (atoll_buf_size(&w->held) >= BATCH) {
        w->batch = w->held;
        w->held = empty;
        submit(w);
    }
}

static void done(struct atoll_job *job)
{
    struct atoll_cache_write *w = ATOLL_CONTAINER_OF(job, struct atoll_cache_write, job);

    w->busy = false;
    w->failed = w->failed || w->bad;
    if (w->last || w->cache->ending) {
        finish(w);
        return;
    }
    if (w->ended) {
        end(w);
        return;
    }
    advance(w);
    if (w->over && atoll_cache_write_pending(w) < ATOLL_CACHE_PENDING) {
        w->over = false;
        w->drained(w->arg);
    }
}

struct atoll_cache_write *atoll_cache_begin(struct atoll_egress_cache *cache, const char *tenant,
                                            const struct atoll_cache_head *head,
                                            const struct atoll_cache_expected *expected,
                                            void (*drained)(void *arg), void *arg)
{
    uint64_t room = CACHE_HEAD_BYTES + head->size;
    struct atoll_cache_write *w;

    if (cache->writes >= WRITES_MAX || head->size == 0 || head->size > INT64_MAX / 2 ||
        room > cache->max_bytes / PART_OF_ALL || !atoll_cache_make_room(cache, room))
        return NULL;
    w = calloc(1, sizeof(*w));
    if (!w || !(w->url = strdup(head->url)))
        abort(); /* a small fixed object: the worker is crash-only */
    w->job = (struct atoll_job){.run = run, .done = done, .owner = w->owner, .lane = w->name};
    w->cache = cache;
    (void)!atoll_text_copy(w->owner, sizeof(w->owner), tenant);
    w->drained = drained;
    w->arg = arg;
    w->fd = ATOLL_NO_FD;
    w->size = head->size;
    w->expected = *expected;
    w->room = room;
    cache->bytes += room;
    cache->writes++;
    atoll_buf_init(&w->held, HELD_MAX);
    atoll_buf_init(&w->batch, HELD_MAX);
    atoll_buf_init(&w->fields, CACHE_HEAD_BYTES);
    atoll_cache_name(head->url, w->name);
    (void)snprintf(w->part, sizeof(w->part), "%" PRIu64 CACHE_PART, ++cache->serial);
    if (atoll_buf_append(&w->fields, atoll_buf_head(head->fields), atoll_buf_size(head->fields)) <
        0) {
        write_free(w);
        return NULL;
    }
    return w;
}

void atoll_cache_write(struct atoll_cache_write *w, const uint8_t *bytes, size_t n)
{
    if (!w->failed && atoll_buf_append(&w->held, bytes, n) < 0)
        w->failed = true;
    if (!w->busy)
        advance(w);
    w->over = w->over || atoll_cache_write_pending(w) >= ATOLL_CACHE_PENDING;
}

size_t atoll_cache_write_pending(const struct atoll_cache_write *w)
{
    return w->busy && !w->failed ? atoll_buf_size(&w->held) : 0;
}

void atoll_cache_end(struct atoll_cache_write *w, bool complete)
{
    w->ended = true;
    w->complete = complete;
    if (!w->busy)
        end(w);
}

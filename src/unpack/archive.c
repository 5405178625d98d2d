#include "unpack/archive.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "unpack/inflate.h"

#define BLOCKS 8
#define RATIO_FREE_BYTES (UINT64_C(16) << 20)

struct block {
    uint8_t *bytes; /* owned, ATOLL_ARCHIVE_BLOCK */
    size_t len;
};

/* Blocks are a ring. The three counters only grow: block number i is blocks[i % BLOCKS], and it is free when
 * both readers have passed it. */
struct atoll_archive {
    struct atoll_inflate *inflate; /* owned; only the reading thread uses it while it runs */
    int stop_fd;                   /* owned; ends a read of the input */
    uint64_t max_ratio;
    struct block blocks[BLOCKS];
    pthread_t reading, hashing;
    bool reading_started, hashing_started;
    struct atoll_digest digest; /* hashing thread */
    size_t at;                  /* caller: in its block */
    bool holds;                 /* caller: block number `taken` was peeked */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* Under the lock. */
    uint64_t made, hashed, taken;
    uint64_t tar_bytes;
    bool ended;               /* no further blocks */
    bool closing;             /* the caller is gone */
    struct atoll_error error; /* kind NONE: no error */
};

static bool is_full(const struct atoll_archive *s)
{
    return s->made - s->hashed >= BLOCKS || s->made - s->taken >= BLOCKS;
}

/* Waits for a free block; NULL when the stream is being closed. */
static struct block *next_free(struct atoll_archive *s)
{
    struct block *b;

    (void)pthread_mutex_lock(&s->lock);
    while (is_full(s) && !s->closing)
        (void)pthread_cond_wait(&s->changed, &s->lock);
    b = s->closing ? NULL : &s->blocks[s->made % BLOCKS];
    (void)pthread_mutex_unlock(&s->lock);
    return b;
}

static int check_ratio(const struct atoll_archive *s, uint64_t out, struct atoll_error *err)
{
    uint64_t in = atoll_inflate_input_bytes(s->inflate);

    if (s->max_ratio == 0 || out <= RATIO_FREE_BYTES || out / s->max_ratio <= in)
        return 0;
    return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EFBIG,
                      "the archive expands more than %llu times: refused as a decompression bomb",
                      (unsigned long long)s->max_ratio);
}

static void publish(struct atoll_archive *s, size_t n, bool ended, const struct atoll_error *error)
{
    (void)pthread_mutex_lock(&s->lock);
    s->tar_bytes += n;
    s->made += n > 0;
    s->ended = ended;
    if (error)
        s->error = *error;
    (void)pthread_cond_broadcast(&s->changed);
    (void)pthread_mutex_unlock(&s->lock);
}

static void *read_all(void *arg)
{
    struct atoll_archive *s = arg;
    struct atoll_error err = {0};
    uint64_t total = 0;
    struct block *b;

    while ((b = next_free(s))) {
        int r = atoll_inflate_read(s->inflate, b->bytes, ATOLL_ARCHIVE_BLOCK, &b->len, &err);

        if (r == 0)
            r = check_ratio(s, total += b->len, &err);
        if (r == 0 && b->len < ATOLL_ARCHIVE_BLOCK)
            r = atoll_inflate_drain(s->inflate, &err);
        if (r < 0) {
            publish(s, 0, true, &err);
            return NULL;
        }
        if (b->len < ATOLL_ARCHIVE_BLOCK) {
            publish(s, b->len, true, NULL);
            return NULL;
        }
        publish(s, b->len, false, NULL);
    }
    return NULL;
}

/* Waits until block number n exists; false at the end. The lock is held. */
static bool await(struct atoll_archive *s, uint64_t n)
{
    while (s->made <= n && !s->ended && !s->closing)
        (void)pthread_cond_wait(&s->changed, &s->lock);
    return s->made > n && !s->closing;
}

static void *hash_all(void *arg)
{
    struct atoll_archive *s = arg;

    (void)pthread_mutex_lock(&s->lock);
    while (await(s, s->hashed)) {
        const struct block *b = &s->blocks[s->hashed % BLOCKS];

        (void)pthread_mutex_unlock(&s->lock);
        atoll_digest_add(&s->digest, b->bytes, b->len);
        (void)pthread_mutex_lock(&s->lock);
        s->hashed++;
        (void)pthread_cond_broadcast(&s->changed);
    }
    (void)pthread_mutex_unlock(&s->lock);
    return NULL;
}

static int start(struct atoll_archive *s, struct atoll_error *err)
{
    int e = 0;

    for (size_t i = 0; e == 0 && i < BLOCKS; i++) {
        s->blocks[i].bytes = malloc(ATOLL_ARCHIVE_BLOCK);
        e = s->blocks[i].bytes ? 0 : ENOMEM;
    }
    if (e == 0)
        e = pthread_create(&s->reading, NULL, read_all, s);
    s->reading_started = e == 0;
    if (e == 0)
        e = pthread_create(&s->hashing, NULL, hash_all, s);
    s->hashing_started = e == 0;
    return e ? atoll_fail_errno(err, e, "start the threads of the archive") : 0;
}

int atoll_archive_open(int fd, uint64_t max_ratio, struct atoll_archive **ret,
                       struct atoll_error *err)
{
    struct atoll_archive *s = calloc(1, sizeof(*s));
    int r;

    if (!s)
        return atoll_fail_errno(err, ENOMEM, "archive");
    s->max_ratio = max_ratio;
    (void)pthread_mutex_init(&s->lock, NULL);
    (void)pthread_cond_init(&s->changed, NULL);
    atoll_digest_init(&s->digest);
    s->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    r = s->stop_fd < 0 ? atoll_fail_errno(err, errno, "eventfd")
                       : atoll_inflate_open(fd, s->stop_fd, &s->inflate, err);
    if (r == 0)
        r = start(s, err);
    if (r < 0) {
        atoll_archive_close(s);
        return r;
    }
    *ret = s;
    return 0;
}

static void join(struct atoll_archive *s)
{
    if (s->reading_started)
        (void)pthread_join(s->reading, NULL);
    if (s->hashing_started)
        (void)pthread_join(s->hashing, NULL);
    s->reading_started = s->hashing_started = false;
}

struct atoll_archive *atoll_archive_close(struct atoll_archive *s)
{
    if (!s)
        return NULL;
    (void)pthread_mutex_lock(&s->lock);
    s->closing = true;
    (void)pthread_cond_broadcast(&s->changed);
    (void)pthread_mutex_unlock(&s->lock);
    if (s->stop_fd >= 0)
        (void)eventfd_write(s->stop_fd, 1);
    join(s);
    atoll_inflate_close(s->inflate);
    if (s->stop_fd >= 0)
        (void)close(s->stop_fd);
    for (size_t i = 0; i < BLOCKS; i++)
        free(s->blocks[i].bytes);
    atoll_digest_done(&s->digest);
    (void)pthread_cond_destroy(&s->changed);
    (void)pthread_mutex_destroy(&s->lock);
    free(s);
    return NULL;
}

int atoll_archive_peek(struct atoll_archive *s, const uint8_t **ret_bytes, size_t *ret_n,
                       struct atoll_error *err)
{
    const struct block *b;

    if (!s->holds) {
        (void)pthread_mutex_lock(&s->lock);
        s->holds = await(s, s->taken);
        if (!s->holds && s->error.kind != ATOLL_ERR_NONE) {
            *err = s->error;
            (void)pthread_mutex_unlock(&s->lock);
            return -(err->errnum ? err->errnum : EIO);
        }
        (void)pthread_mutex_unlock(&s->lock);
        if (!s->holds)
            return 0;
        s->at = 0;
    }
    b = &s->blocks[s->taken % BLOCKS];
    *ret_bytes = b->bytes + s->at;
    *ret_n = b->len - s->at;
    return 1;
}

void atoll_archive_skip(struct atoll_archive *s, size_t n)
{
    s->at += n;
    if (s->at < s->blocks[s->taken % BLOCKS].len)
        return;
    (void)pthread_mutex_lock(&s->lock);
    s->taken++;
    s->holds = false;
    (void)pthread_cond_broadcast(&s->changed);
    (void)pthread_mutex_unlock(&s->lock);
}

int atoll_archive_finish(struct atoll_archive *s, struct atoll_archive_facts *ret,
                         struct atoll_error *err)
{
    const uint8_t *bytes;
    size_t n;
    int r;

    while ((r = atoll_archive_peek(s, &bytes, &n, err)) > 0)
        atoll_archive_skip(s, n);
    if (r < 0)
        return r;
    join(s);
    atoll_digest_end(&s->digest, ret->diff_id);
    if (!atoll_inflate_digest(s->inflate, ret->digest))
        memcpy(ret->digest, ret->diff_id, sizeof(ret->digest));
    ret->tar_bytes = s->tar_bytes;
    ret->input_bytes = atoll_inflate_input_bytes(s->inflate);
    return 0;
}

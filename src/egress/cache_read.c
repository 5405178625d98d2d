/*
 * A file of the cache is read. A thread opens it, reads its head and then one piece after the other, and
 * hashes what it reads: content that was damaged on the disk is never given completely.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include "base/shares.h"
#include "base/text.h"
#include "egress/cache_internal.h"

#define PIECE ((size_t)256 * 1024)

struct atoll_cache_read {
    struct atoll_job job;
    struct atoll_egress_cache *cache;
    const struct atoll_cache_reader *reader; /* NULL: cancelled */
    void *arg;
    bool busy;   /* a thread has it, or a callback runs */
    bool wanted; /* the next piece was asked for */
    bool headed; /* the head was given */
    char owner[ATOLL_SHARE_NAME_MAX];
    char name[CACHE_NAME_LEN + 1];
    char *url; /* owned */

    /* The thread's while it runs. */
    int fd;
    bool bad;      /* it cannot be read, or is not what it was */
    bool mismatch; /* by its digest */
    struct atoll_cache_stored stored;
    EVP_MD_CTX *hash;
    uint64_t at; /* bytes of the content that were read */
    uint8_t *piece;
    size_t held;
};

static void read_free(struct atoll_cache_read *r)
{
    if (r->fd >= 0)
        (void)close(r->fd);
    json_decref(r->stored.json);
    EVP_MD_CTX_free(r->hash);
    free(r->piece);
    free(r->url);
    free(r);
}

/* On a thread. */

static bool read_exactly(int fd, void *bytes, size_t n, uint64_t at)
{
    for (size_t done = 0; done < n;) {
        ssize_t part = pread(fd, (char *)bytes + done, n - done, (off_t)(at + done));

        if (part < 0 && errno == EINTR)
            continue;
        if (part <= 0)
            return false;
        done += (size_t)part;
    }
    return true;
}

static bool open_file(struct atoll_cache_read *r)
{
    char head[CACHE_HEAD_BYTES];
    struct stat st;

    r->fd = openat(r->cache->fd, r->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (r->fd < 0 || fstat(r->fd, &st) < 0 || !read_exactly(r->fd, head, sizeof(head), 0) ||
        !atoll_cache_head_parse(head, &r->stored) || strcmp(r->stored.url, r->url) != 0 ||
        (uint64_t)st.st_size != CACHE_HEAD_BYTES + r->stored.size)
        return false;
    (void)futimens(r->fd, NULL); /* the order of use survives a restart */
    r->hash = EVP_MD_CTX_new();
    r->piece = malloc(PIECE);
    return r->hash && r->piece && EVP_DigestInit_ex(r->hash, EVP_sha256(), NULL) == 1;
}

static bool has_digest(struct atoll_cache_read *r)
{
    uint8_t digest[EVP_MAX_MD_SIZE];

    return EVP_DigestFinal_ex(r->hash, digest, NULL) == 1 &&
           memcmp(digest, r->stored.sha256, sizeof(r->stored.sha256)) == 0;
}

static void run(struct atoll_job *job)
{
    struct atoll_cache_read *r = ATOLL_CONTAINER_OF(job, struct atoll_cache_read, job);

    if (r->fd < 0 && !open_file(r)) {
        r->bad = true;
        return;
    }
    r->held = (size_t)ATOLL_MIN((uint64_t)PIECE, r->stored.size - r->at);
    if (!read_exactly(r->fd, r->piece, r->held, CACHE_HEAD_BYTES + r->at) ||
        EVP_DigestUpdate(r->hash, r->piece, r->held) != 1) {
        r->bad = true;
        return;
    }
    r->at += r->held;
    if (r->at == r->stored.size && !has_digest(r))
        r->bad = r->mismatch = true;
}

/* On the loop. */

static void finish(struct atoll_cache_read *r, void (*fn)(void *arg))
{
    void *arg = r->arg;

    read_free(r);
    fn(arg);
}

/* It cannot be read, or there is no room for the job. */
static void drop_bad(struct atoll_cache_read *r)
{
    struct atoll_cache_file *file = atoll_cache_get(r->cache, r->name);

    if (r->mismatch)
        r->cache->counts.mismatches++;
    else
        r->cache->counts.failures++;
    if (file && r->bad)
        atoll_cache_drop(r->cache, file);
    atoll_cache_changed(r->cache);
    finish(r, r->headed ? r->reader->failed : r->reader->absent);
}

static bool put_field(struct atoll_buf *out, const json_t *pair)
{
    const char *name = json_string_value(json_array_get(pair, 0));
    const char *value = json_string_value(json_array_get(pair, 1));

    return name && value && atoll_buf_append(out, name, strlen(name) + 1) == 0 &&
           atoll_buf_append(out, value, strlen(value) + 1) == 0;
}

static void give_head(struct atoll_cache_read *r)
{
    const json_t *list = json_object_get(r->stored.json, "fields");
    struct atoll_cache_head head = {.url = r->url, .size = r->stored.size};
    struct atoll_buf fields;

    atoll_buf_init(&fields, CACHE_HEAD_BYTES);
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!put_field(&fields, json_array_get(list, i)))
            break;
    head.fields = &fields;
    r->headed = true;
    r->cache->counts.hits++;
    r->reader->head(r->arg, &head);
    atoll_buf_done(&fields);
}

static void submit(struct atoll_cache_read *r)
{
    struct atoll_error err;

    r->busy = true;
    if (atoll_workers_submit(r->cache->workers, &r->job, &err) == 0)
        return;
    r->busy = false;
    drop_bad(r);
}

/* Gives what the thread has read. False: it was cancelled. */
static bool give(struct atoll_cache_read *r)
{
    if (!r->headed)
        give_head(r);
    r->cache->counts.hit_bytes += r->held;
    atoll_cache_changed(r->cache);
    if (r->reader)
        r->wanted = r->reader->piece(r->arg, r->piece, r->held);
    return r->reader;
}

static void done(struct atoll_job *job)
{
    struct atoll_cache_read *r = ATOLL_CONTAINER_OF(job, struct atoll_cache_read, job);
    bool is_cancelled = !r->reader || r->cache->ending;

    /* While it is busy, a cancellation by a callback leaves the memory to us. */
    if (!is_cancelled && !r->bad)
        is_cancelled = !give(r);
    r->busy = false;
    if (is_cancelled)
        read_free(r);
    else if (r->bad)
        drop_bad(r);
    else if (r->at == r->stored.size)
        finish(r, r->reader->end);
    else if (r->wanted)
        submit(r);
}

void atoll_cache_read_more(struct atoll_cache_read *r)
{
    if (!r->busy && !r->wanted)
        submit(r);
    r->wanted = true;
}

void atoll_cache_read_cancel(struct atoll_cache_read *r)
{
    r->reader = NULL;
    if (!r->busy)
        read_free(r);
}

struct atoll_cache_read *atoll_cache_find(struct atoll_egress_cache *cache, const char *url,
                                          const char *tenant,
                                          const struct atoll_cache_reader *reader, void *arg)
{
    char name[CACHE_NAME_LEN + 1];
    struct atoll_cache_file *file;
    struct atoll_cache_read *r;
    struct atoll_error err;

    atoll_cache_name(url, name);
    file = atoll_cache_get(cache, name);
    if (!file)
        return NULL;
    r = calloc(1, sizeof(*r));
    if (!r || !(r->url = strdup(url)))
        abort(); /* a small fixed object: the worker is crash-only */
    r->job = (struct atoll_job){.run = run, .done = done, .owner = r->owner};
    r->cache = cache;
    (void)!atoll_text_copy(r->owner, sizeof(r->owner), tenant);
    r->reader = reader;
    r->arg = arg;
    r->fd = ATOLL_NO_FD;
    r->busy = true;
    memcpy(r->name, name, sizeof(name));
    if (atoll_workers_submit(cache->workers, &r->job, &err) < 0) {
        read_free(r);
        return NULL;
    }
    atoll_list_remove(&file->node);
    atoll_list_push_back(&cache->by_use, &file->node);
    return r;
}

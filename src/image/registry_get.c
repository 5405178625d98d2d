/*
 * Blobs from registries to files. The file "sha256-HEX.part" holds the first bytes of a blob; its lock
 * says that a call is writing it.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include "base/clock.h"
#include "base/text.h"
#include "image/registry_internal.h"

#define LOCK_MS 100
#define HEX_OFFSET 7 /* of "sha256:" */

struct download {
    const struct atoll_image_descriptor *blob;
    const struct atoll_image_call *call;
    int blobs_fd;
    char name[ATOLL_IMAGE_DIGEST_MAX], part[ATOLL_IMAGE_DIGEST_MAX + 8];
    int fd;          /* of the part */
    EVP_MD_CTX *sum; /* of the bytes before `at` */
    uint64_t at;
    bool resumed; /* bytes before `at` are of an earlier call */
    int64_t reported_ms;
    const struct atoll_image_head *head; /* of the answer that arrives */
    bool begun;                          /* its first bytes were taken */
    int failed;                          /* errno of a write, or EMSGSIZE: too long */
};

const char *atoll_image_blob_name(const char *digest, char *out)
{
    (void)snprintf(out, ATOLL_IMAGE_DIGEST_MAX, "sha256-%s", digest + HEX_OFFSET);
    return out;
}

static void report(struct download *d, bool end)
{
    int64_t now_ms = atoll_clock_ms();

    if (d->call->progress && (end || now_ms - d->reported_ms >= ATOLL_IMAGE_REPORT_MS)) {
        d->reported_ms = now_ms;
        d->call->progress(d->call->progress_arg, d->blob, d->at);
    }
}

/* A blob under its name was checked before it got it. */
static bool is_there(const struct download *d)
{
    struct stat st;

    return fstatat(d->blobs_fd, d->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
           (uint64_t)st.st_size == d->blob->size;
}

static int no_disk(int errnum, struct atoll_error *err)
{
    if (atoll_errno_is_full(errnum))
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, errnum,
                          "there is no space left for the image's layers");
    return atoll_fail_errno(err, errnum, "write a blob");
}

static void begin_sum(struct download *d)
{
    d->at = 0;
    d->resumed = false;
    if (EVP_DigestInit_ex(d->sum, EVP_sha256(), NULL) != 1)
        abort();
}

static void restart(struct download *d)
{
    begin_sum(d);
    if (ftruncate(d->fd, 0) < 0)
        d->failed = errno;
}

/* Whether d->fd is still the file of that name: another call may have renamed or removed it. */
static bool is_current(const struct download *d)
{
    struct stat own, named;

    return fstat(d->fd, &own) == 0 &&
           fstatat(d->blobs_fd, d->part, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           own.st_ino == named.st_ino;
}

static int wait_turn(const struct download *d, struct atoll_error *err)
{
    struct pollfd cancel = {.fd = d->call->cancel_fd, .events = POLLIN};

    while (flock(d->fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return atoll_fail_errno(err, errno, "lock a blob");
        if (poll(&cancel, 1, LOCK_MS) > 0)
            return atoll_fail(err, ATOLL_ERR_ABORTED, ECANCELED, "the download was cancelled");
        if (atoll_clock_ms() >= d->call->deadline_ms)
            return atoll_fail(err, ATOLL_ERR_DEADLINE_EXCEEDED, ETIMEDOUT,
                              "another download of the same layer did not end in time");
    }
    return 0;
}

/* Opens and locks the part. 1: meanwhile the blob is there. */
static int open_part(struct download *d, struct atoll_error *err)
{
    int r;

    for (;;) {
        d->fd = openat(d->blobs_fd, d->part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (d->fd < 0)
            return no_disk(errno, err);
        r = wait_turn(d, err);
        if (r < 0)
            return r;
        if (is_there(d))
            return 1;
        if (is_current(d))
            return 0;
        (void)close(ATOLL_TAKE_FD(d->fd));
    }
}

/* Reads what an earlier call got. */
static void resume(struct download *d)
{
    static const size_t size = 256 * 1024;
    ATOLL_AUTOFREE char *bytes = malloc(size);
    struct stat st;
    ssize_t n = -1;

    begin_sum(d);
    if (!bytes || fstat(d->fd, &st) < 0 || (uint64_t)st.st_size > d->blob->size) {
        restart(d);
        return;
    }
    while ((n = pread(d->fd, bytes, size, (off_t)d->at)) > 0) {
        if (EVP_DigestUpdate(d->sum, bytes, (size_t)n) != 1)
            abort();
        d->at += (uint64_t)n;
    }
    d->resumed = d->at > 0;
    if (n < 0 || d->at > d->blob->size)
        restart(d);
}

/* Whether the bytes of this answer begin where ours end; else the whole blob comes. */
static bool continues(const struct download *d)
{
    uint64_t first;
    char text[24] = "";

    if (d->head->status != 206 || sscanf(d->head->content_range, "bytes %23[0-9]-", text) != 1)
        return false;
    return atoll_text_u64(text, 0, UINT64_MAX, &first) == 0 && first == d->at;
}

static int take(void *arg, const void *bytes, size_t n)
{
    struct download *d = arg;
    const char *p = bytes;

    if (!d->begun && d->at > 0 && !continues(d))
        restart(d);
    d->begun = true;
    if (d->failed == 0 && n > d->blob->size - d->at)
        d->failed = EMSGSIZE;
    for (size_t done = 0; d->failed == 0 && done < n;) {
        ssize_t some = pwrite(d->fd, p + done, n - done, (off_t)(d->at + done));
        if (some < 0 && errno != EINTR)
            d->failed = errno;
        done += some > 0 ? (size_t)some : 0;
    }
    if (d->failed != 0)
        return -1;
    if (EVP_DigestUpdate(d->sum, bytes, n) != 1)
        abort();
    d->at += n;
    report(d, false);
    return 0;
}

static int bad_content(const struct atoll_image_ask *ask, const struct download *d,
                       const char *what, struct atoll_error *err)
{
    (void)unlinkat(d->blobs_fd, d->part, 0);
    return atoll_fail(err, ATOLL_ERR_DATA_LOSS, EBADMSG,
                      "%.200s: the registry %.100s sent a layer %s (%s)", ask->ref->path,
                      ask->place->host, what, d->blob->digest);
}

/* One request for what is missing. */
static int get_rest(struct atoll_image_registry *r, struct atoll_image_ask *ask, struct download *d,
                    struct atoll_error *err)
{
    char url[sizeof(ask->place->origin) + sizeof(ask->place->repository) + 256];
    struct atoll_buf body = {0};
    int e;

    (void)snprintf(url, sizeof(url), "%s/v2/%s/blobs/%s", ask->place->origin,
                   ask->place->repository, d->blob->digest);
    ask->method = "GET";
    ask->url = url;
    ask->once = true;
    ask->sink = take;
    ask->sink_arg = d;
    ask->extra[0] = '\0';
    if (d->at > 0)
        (void)snprintf(ask->extra, sizeof(ask->extra), "Range: bytes=%" PRIu64 "-", d->at);
    d->begun = false;
    d->head = ask->head;
    e = atoll_image_ask(r, ask, &body, err);
    atoll_buf_done(&body);
    if (ask->head->status == 416)
        restart(d);
    if (d->failed == EMSGSIZE)
        return bad_content(ask, d, "that is longer than it should be", err);
    if (d->failed != 0) {
        (void)unlinkat(d->blobs_fd, d->part, 0);
        return no_disk(d->failed, err);
    }
    if (e == 0 && d->at < d->blob->size)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EAGAIN,
                          "%.200s: the registry %.100s ended a layer early", ask->ref->path,
                          ask->place->host);
    return e;
}

/* Requests until nothing is missing. Those that bring bytes are not counted. */
static int get_all(struct atoll_image_registry *r, struct atoll_image_ask *ask, struct download *d,
                   struct atoll_error *err)
{
    unsigned tries = 0;

    while (d->at < d->blob->size) {
        uint64_t before = d->at;
        struct atoll_error one = {0};
        int e = get_rest(r, ask, d, &one);
        if (e == 0)
            return 0;
        tries = d->at > before ? 1 : tries + 1;
        *err = one;
        if (ask->head->status == 416 && tries < ATOLL_IMAGE_TRIES)
            continue;
        if (tries >= ATOLL_IMAGE_TRIES || !atoll_image_is_passing(d->call, &one) ||
            !atoll_image_wait(d->call, tries, (uint32_t)one.retry_ms / 1000))
            return e;
    }
    return 0;
}

static bool matches(struct download *d)
{
    char found[ATOLL_IMAGE_DIGEST_MAX] = "sha256:";
    uint8_t raw[EVP_MAX_MD_SIZE];
    unsigned n = 0;

    if (EVP_DigestFinal_ex(d->sum, raw, &n) != 1)
        abort();
    for (unsigned i = 0; i < n && i < 32; i++)
        (void)snprintf(found + HEX_OFFSET + 2 * (size_t)i, 3, "%02x", raw[i]);
    return strcmp(found, d->blob->digest) == 0;
}

static int keep(struct download *d, struct atoll_error *err)
{
    if (fsync(d->fd) < 0 || renameat(d->blobs_fd, d->part, d->blobs_fd, d->name) < 0 ||
        fsync(d->blobs_fd) < 0)
        return no_disk(errno, err);
    report(d, true);
    return 0;
}

static int get_at(struct atoll_image_registry *r, struct atoll_image_ask *ask, void *arg,
                  struct atoll_error *err)
{
    struct download *d = arg;
    int e;

    for (;;) {
        bool resumed = d->resumed;
        e = get_all(r, ask, d, err);
        if (e < 0)
            return e;
        resumed = resumed && d->resumed;
        if (matches(d))
            return keep(d, err);
        /* The first bytes may be wrong, of a crash or of another registry: once more without them. */
        restart(d);
        if (!resumed)
            return bad_content(ask, d, "whose content does not match its digest", err);
    }
}

static void download_done(struct download *d)
{
    EVP_MD_CTX_free(d->sum);
    if (d->fd >= 0)
        (void)close(d->fd);
}

int atoll_image_registry_get_blob(struct atoll_image_registry *r,
                                  const struct atoll_image_reference *ref,
                                  const struct atoll_image_descriptor *blob, int blobs_fd,
                                  const struct atoll_image_call *call, struct atoll_error *err)
{
    ATOLL_CLEANUP(download_done)
    struct download d = {.blob = blob, .call = call, .blobs_fd = blobs_fd, .fd = ATOLL_NO_FD};
    int e;

    (void)atoll_image_blob_name(blob->digest, d.name);
    (void)snprintf(d.part, sizeof(d.part), "%s.part", d.name);
    e = is_there(&d) ? 1 : open_part(&d, err);
    if (e < 0)
        return e;
    if (e > 0) {
        d.at = blob->size;
        report(&d, true);
        return 0;
    }
    d.sum = EVP_MD_CTX_new();
    if (!d.sum)
        abort();
    resume(&d);
    return atoll_image_each_place(r, ref, call, false, get_at, &d, err);
}

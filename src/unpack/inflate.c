#include "unpack/inflate.h"

#include <archive.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#define INPUT_BYTES ((size_t)256 * 1024)

enum method { PLAIN, GZIP, BY_LIBARCHIVE };

static const struct {
    uint8_t magic[6];
    size_t len;
    enum method method;
} methods[] = {
    {{0x1f, 0x8b}, 2, GZIP},
    {{0x28, 0xb5, 0x2f, 0xfd}, 4, BY_LIBARCHIVE},
    {{0xfd, '7', 'z', 'X', 'Z', 0}, 6, BY_LIBARCHIVE},
    {{'B', 'Z', 'h'}, 3, BY_LIBARCHIVE},
};

struct atoll_inflate {
    int fd, stop_fd;
    enum method method;
    struct atoll_digest digest;
    uint64_t input_bytes;
    uint8_t input[INPUT_BYTES];
    size_t at, len; /* of the input that is not yet consumed */
    bool input_ended, ended;
    int read_errno; /* of the input, for libarchive's callback */
    z_stream zlib;
    bool in_member;          /* zlib is within a gzip member */
    struct archive *archive; /* owned */
    const uint8_t *block;    /* libarchive's, not yet passed on */
    size_t block_len;
};

/* read(2) that a readable stop_fd ends. */
static ssize_t read_some(const struct atoll_inflate *f, uint8_t *out, size_t cap)
{
    struct pollfd p[] = {{.fd = f->fd, .events = POLLIN}, {.fd = f->stop_fd, .events = POLLIN}};
    ssize_t n;

    do
        n = poll(p, ATOLL_ARRAY_LEN(p), -1);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    if (p[1].revents)
        return -ECANCELED;
    do
        n = read(f->fd, out, cap);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

/* Reads more input if none is left. Returns 1, or 0 at its end. */
static int fill(struct atoll_inflate *f)
{
    ssize_t n;

    if (f->at < f->len)
        return 1;
    if (f->input_ended)
        return 0;
    n = read_some(f, f->input, sizeof(f->input));
    if (n < 0)
        return (int)n;
    f->input_ended = n == 0;
    atoll_digest_add(&f->digest, f->input, (size_t)n);
    f->input_bytes += (uint64_t)n;
    f->at = 0;
    f->len = (size_t)n;
    return n > 0;
}

static int input_failed(int r, struct atoll_error *err)
{
    if (r == -ECANCELED)
        return atoll_fail(err, ATOLL_ERR_CANCELED, ECANCELED, "the archive is closed");
    return atoll_fail_errno(err, -r, "read the archive");
}

/* The first bytes, which may come in small pieces. */
static int fill_magic(struct atoll_inflate *f)
{
    size_t have = 0;

    while (have < sizeof(methods[0].magic)) {
        ssize_t n = read_some(f, f->input + have, sizeof(f->input) - have);

        if (n < 0)
            return (int)n;
        f->input_ended = n == 0;
        if (n == 0)
            break;
        have += (size_t)n;
    }
    f->input_bytes = have;
    f->len = have;
    return 0;
}

static la_ssize_t give_input(struct archive *a, void *arg, const void **ret)
{
    struct atoll_inflate *f = arg;
    size_t n;
    int r = fill(f);

    if (r < 0) {
        f->read_errno = -r;
        archive_set_error(a, -r, "read: %s", strerror(-r));
        return -1;
    }
    n = f->len - f->at;
    *ret = f->input + f->at;
    f->at = f->len;
    return (la_ssize_t)n;
}

static int archive_failed(struct atoll_inflate *f, struct atoll_error *err)
{
    const char *why = archive_error_string(f->archive);

    if (f->read_errno)
        return input_failed(-f->read_errno, err);
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "the archive is damaged: %s",
                      why ? why : "its compression is malformed");
}

static int open_libarchive(struct atoll_inflate *f, struct atoll_error *err)
{
    struct archive_entry *entry;

    f->archive = archive_read_new();
    if (!f->archive || archive_read_support_filter_zstd(f->archive) != ARCHIVE_OK ||
        archive_read_support_filter_xz(f->archive) != ARCHIVE_OK ||
        archive_read_support_filter_bzip2(f->archive) != ARCHIVE_OK ||
        archive_read_support_format_raw(f->archive) != ARCHIVE_OK)
        return atoll_fail_errno(err, ENOMEM, "libarchive");
    if (archive_read_open(f->archive, f, NULL, give_input, NULL) != ARCHIVE_OK ||
        archive_read_next_header(f->archive, &entry) != ARCHIVE_OK)
        return archive_failed(f, err);
    return 0;
}

int atoll_inflate_open(int fd, int stop_fd, struct atoll_inflate **ret, struct atoll_error *err)
{
    struct atoll_inflate *f = calloc(1, sizeof(*f));
    int r;

    if (!f)
        return atoll_fail_errno(err, ENOMEM, "input");
    f->fd = fd;
    f->stop_fd = stop_fd;
    atoll_digest_init(&f->digest);
    r = fill_magic(f);
    if (r < 0)
        r = input_failed(r, err);
    for (size_t i = 0; r == 0 && i < ATOLL_ARRAY_LEN(methods); i++)
        if (f->len >= methods[i].len && memcmp(f->input, methods[i].magic, methods[i].len) == 0)
            f->method = methods[i].method;
    if (f->method != PLAIN)
        atoll_digest_add(&f->digest, f->input, f->len);
    if (r == 0 && f->method == GZIP && inflateInit2(&f->zlib, 15 + 16) != Z_OK)
        r = atoll_fail_errno(err, ENOMEM, "zlib");
    if (r == 0 && f->method == BY_LIBARCHIVE)
        r = open_libarchive(f, err);
    f->in_member = f->method == GZIP;
    if (r < 0) {
        atoll_inflate_close(f);
        return r;
    }
    *ret = f;
    return 0;
}

struct atoll_inflate *atoll_inflate_close(struct atoll_inflate *f)
{
    if (!f)
        return NULL;
    if (f->method == GZIP)
        (void)inflateEnd(&f->zlib);
    if (f->archive)
        (void)archive_read_free(f->archive);
    atoll_digest_done(&f->digest);
    free(f);
    return NULL;
}

/* Straight to the caller, but for the first bytes. */
static int read_plain(struct atoll_inflate *f, uint8_t *out, size_t cap, size_t *ret_n,
                      struct atoll_error *err)
{
    ssize_t n;

    if (f->at < f->len) {
        *ret_n = ATOLL_MIN(cap, f->len - f->at);
        memcpy(out, f->input + f->at, *ret_n);
        f->at += *ret_n;
        return 0;
    }
    n = f->input_ended ? 0 : read_some(f, out, cap);
    if (n < 0)
        return input_failed((int)n, err);
    f->ended = n == 0;
    f->input_bytes += (uint64_t)n;
    *ret_n = (size_t)n;
    return 0;
}

/* After a member: the next one, or the end. Bytes that are no member are ignored, as gzip does with a
 * warning. */
static int next_member(struct atoll_inflate *f, struct atoll_error *err)
{
    int r = fill(f);

    if (r < 0)
        return input_failed(r, err);
    f->ended = r == 0 || f->input[f->at] != 0x1f;
    f->in_member = !f->ended;
    return f->ended || inflateReset(&f->zlib) == Z_OK ? 0 : atoll_fail_errno(err, EINVAL, "zlib");
}

static int read_gzip(struct atoll_inflate *f, uint8_t *out, size_t cap, size_t *ret_n,
                     struct atoll_error *err)
{
    int r = f->in_member ? fill(f) : next_member(f, err);
    int z;

    *ret_n = 0;
    if (!f->in_member)
        return r;
    if (r < 0)
        return input_failed(r, err);
    if (r == 0 && f->input_ended)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "the archive is incomplete: its compressed data ends early");
    f->zlib.next_in = f->input + f->at;
    f->zlib.avail_in = (uInt)(f->len - f->at);
    f->zlib.next_out = out;
    f->zlib.avail_out = (uInt)ATOLL_MIN(cap, (size_t)1 << 30);
    z = inflate(&f->zlib, Z_NO_FLUSH);
    f->at = f->len - f->zlib.avail_in;
    *ret_n = (size_t)(f->zlib.next_out - out);
    f->in_member = z != Z_STREAM_END;
    if (z != Z_OK && z != Z_STREAM_END && z != Z_BUF_ERROR)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "the archive is damaged: %s",
                          f->zlib.msg ? f->zlib.msg : "its compression is malformed");
    return 0;
}

static int read_libarchive(struct atoll_inflate *f, uint8_t *out, size_t cap, size_t *ret_n,
                           struct atoll_error *err)
{
    if (f->block_len == 0) {
        la_int64_t offset;
        const void *block = NULL;
        int r = archive_read_data_block(f->archive, &block, &f->block_len, &offset);

        f->ended = r == ARCHIVE_EOF;
        if (r != ARCHIVE_OK && r != ARCHIVE_EOF)
            return archive_failed(f, err);
        if (f->ended)
            f->block_len = 0;
        f->block = block;
    }
    *ret_n = ATOLL_MIN(cap, f->block_len);
    if (*ret_n == 0)
        return 0;
    memcpy(out, f->block, *ret_n);
    f->block += *ret_n;
    f->block_len -= *ret_n;
    return 0;
}

int atoll_inflate_read(struct atoll_inflate *f, uint8_t *out, size_t cap, size_t *ret_n,
                       struct atoll_error *err)
{
    size_t have = 0;

    while (have < cap && !f->ended) {
        size_t n = 0;
        int r = f->method == GZIP    ? read_gzip(f, out + have, cap - have, &n, err)
                : f->method == PLAIN ? read_plain(f, out + have, cap - have, &n, err)
                                     : read_libarchive(f, out + have, cap - have, &n, err);
        if (r < 0)
            return r;
        have += n;
    }
    *ret_n = have;
    return 0;
}

int atoll_inflate_drain(struct atoll_inflate *f, struct atoll_error *err)
{
    int r;

    if (f->method == PLAIN)
        return 0;
    do {
        f->at = f->len;
        r = fill(f);
    } while (r > 0);
    return r < 0 ? input_failed(r, err) : 0;
}

uint64_t atoll_inflate_input_bytes(const struct atoll_inflate *f)
{
    return f->input_bytes;
}

bool atoll_inflate_digest(struct atoll_inflate *f, char out[ATOLL_DIGEST_HEX])
{
    if (f->method == PLAIN)
        return false;
    atoll_digest_end(&f->digest, out);
    return true;
}

#include "unpack/deflate.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/fd.h"
#include "base/memory.h"
#include "unpack/digest.h"

struct atoll_deflate {
    int fd;
    struct archive *archive; /* owned; NULL: no compression */
    struct atoll_digest before, after;
    uint64_t bytes_before, bytes_after;
    int write_errno; /* of the output, for libarchive's callback */
};

static int put(struct atoll_deflate *d, const void *bytes, size_t n)
{
    int r = atoll_fd_write_all(d->fd, bytes, n);

    if (r < 0)
        return r;
    atoll_digest_add(&d->after, bytes, n);
    d->bytes_after += n;
    return 0;
}

static la_ssize_t take_output(struct archive *a, void *arg, const void *bytes, size_t n)
{
    struct atoll_deflate *d = arg;
    int r = put(d, bytes, n);

    if (r < 0) {
        d->write_errno = -r;
        archive_set_error(a, -r, "write: %s", strerror(-r));
        return -1;
    }
    return (la_ssize_t)n;
}

static int failed(const struct atoll_deflate *d, struct atoll_error *err)
{
    int errnum = d->write_errno ? d->write_errno : EIO;

    if (atoll_errno_is_full(errnum))
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, errnum,
                          "no room on the disk for the archive");
    return atoll_fail_errno(err, errnum, "write the archive");
}

static int set_filter(struct archive *a, enum atoll_pack_compression compression, int level)
{
    const char *name = compression == ATOLL_PACK_GZIP ? "gzip" : "zstd";
    char number[12];
    int r = compression == ATOLL_PACK_GZIP ? archive_write_add_filter_gzip(a)
                                           : archive_write_add_filter_zstd(a);

    (void)snprintf(number, sizeof(number), "%d", level);
    if (r == ARCHIVE_OK && level > 0)
        r = archive_write_set_filter_option(a, name, "compression-level", number);
    /* The head of gzip has a time otherwise. */
    if (r == ARCHIVE_OK && compression == ATOLL_PACK_GZIP)
        r = archive_write_set_filter_option(a, name, "timestamp", NULL);
    return r;
}

static int open_archive(struct atoll_deflate *d, enum atoll_pack_compression compression, int level,
                        struct atoll_error *err)
{
    struct archive_entry *entry = archive_entry_new();
    int r = ARCHIVE_FATAL;

    d->archive = archive_write_new();
    if (d->archive && entry) {
        archive_entry_set_filetype(entry, AE_IFREG);
        r = archive_write_set_format_raw(d->archive);
        if (r == ARCHIVE_OK)
            r = set_filter(d->archive, compression, level);
        if (r == ARCHIVE_OK)
            r = archive_write_set_bytes_per_block(d->archive, 0);
        if (r == ARCHIVE_OK)
            r = archive_write_open(d->archive, d, NULL, take_output, NULL);
        if (r == ARCHIVE_OK)
            r = archive_write_header(d->archive, entry);
    }
    archive_entry_free(entry);
    return r == ARCHIVE_OK ? 0
                           : atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                                        "the compression cannot be set: %s",
                                        d->archive ? archive_error_string(d->archive) : "memory");
}

int atoll_deflate_open(int fd, enum atoll_pack_compression compression, int level,
                       struct atoll_deflate **ret, struct atoll_error *err)
{
    struct atoll_deflate *d = atoll_alloc(sizeof(*d));
    int r = 0;

    d->fd = fd;
    atoll_digest_init(&d->before);
    atoll_digest_init(&d->after);
    if (compression != ATOLL_PACK_NONE)
        r = open_archive(d, compression, level, err);
    if (r < 0) {
        atoll_deflate_close(d);
        return r;
    }
    *ret = d;
    return 0;
}

struct atoll_deflate *atoll_deflate_close(struct atoll_deflate *d)
{
    if (!d)
        return NULL;
    if (d->archive)
        (void)archive_write_free(d->archive);
    atoll_digest_done(&d->before);
    atoll_digest_done(&d->after);
    free(d);
    return NULL;
}

int atoll_deflate_write(struct atoll_deflate *d, const void *bytes, size_t n,
                        struct atoll_error *err)
{
    atoll_digest_add(&d->before, bytes, n);
    d->bytes_before += n;
    if (d->archive)
        return archive_write_data(d->archive, bytes, n) < 0 ? failed(d, err) : 0;
    d->write_errno = -put(d, bytes, n);
    return d->write_errno ? failed(d, err) : 0;
}

int atoll_deflate_finish(struct atoll_deflate *d, struct atoll_pack_result *ret,
                         struct atoll_error *err)
{
    if (d->archive && archive_write_close(d->archive) != ARCHIVE_OK)
        return failed(d, err);
    atoll_digest_end(&d->before, ret->diff_id);
    ret->tar_bytes = d->bytes_before;
    ret->bytes = d->bytes_after;
    atoll_digest_end(&d->after, ret->digest);
    return 0;
}

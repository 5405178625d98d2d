#include "unpack/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/fd.h"
#include "unpack/archive.h"
#include "unpack/digest.h"
#include "unpack/listing.h"
#include "unpack/names.h"
#include "unpack/tree_write.h"

#define PATH_BUFFER_MAX ((size_t)64 * 1024)

struct run {
    const struct atoll_unpack_options *options;
    struct atoll_unpack_result *result;
    struct atoll_notes notes;
    struct atoll_archive *archive;   /* owned */
    struct atoll_tar_reader *reader; /* owned */
    struct atoll_tree_writer *tree;  /* owned */
    struct atoll_listing *listing;   /* owned; NULL: not asked for */
    struct atoll_digest digest;      /* of the file being written, for the listing */
    struct atoll_buf path, target;   /* clean */
};

static int peek_archive(void *arg, const uint8_t **ret_bytes, size_t *ret_n,
                        struct atoll_error *err)
{
    return atoll_archive_peek(arg, ret_bytes, ret_n, err);
}

static void skip_archive(void *arg, size_t n)
{
    atoll_archive_skip(arg, n);
}

static int out_of_memory(struct atoll_error *err)
{
    return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM, "out of memory");
}

/* Cleans a path of the archive. */
static int clean(const struct run *u, struct atoll_buf *out, const char *path,
                 struct atoll_error *err)
{
    int r = strlen(path) > u->options->max_path ? -ENAMETOOLONG : 0;

    atoll_buf_clear(out);
    if (r == 0)
        r = atoll_names_clean(out, path);
    if (r == -EINVAL)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "the archive has a name that leads out of it: %.200s", path);
    if (r < 0)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENAMETOOLONG,
                          "the archive has a name that is too long: %.200s…", path);
    return 0;
}

static int count(struct run *u, const struct atoll_tar_item *item, struct atoll_error *err)
{
    struct atoll_unpack_result *result = u->result;

    if (result->files + result->skipped >= u->options->max_files)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, E2BIG,
                          "the archive has more than %llu entries",
                          (unsigned long long)u->options->max_files);
    if (item->size > u->options->max_bytes - result->bytes)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EFBIG,
                          "the files of the archive have more than %llu bytes",
                          (unsigned long long)u->options->max_bytes);
    result->bytes += item->size;
    return 0;
}

/* Adds a line to the manifest, if there is one. */
static int list(struct run *u, const char *path, enum atoll_tree_type type,
                const struct atoll_tar_item *item, const char *sha256, struct atoll_error *err)
{
    struct atoll_tree_line line = {
        .type = type,
        .mode = item ? item->mode : 0,
        .uid = item ? (uint32_t)ATOLL_MIN(item->uid, UINT32_MAX) : 0,
        .gid = item ? (uint32_t)ATOLL_MIN(item->gid, UINT32_MAX) : 0,
        .size = item ? item->size : 0,
        .path = path,
        .target = type == ATOLL_TREE_LINK ? item->target : "",
    };

    if (!u->listing)
        return 0;
    if (sha256)
        memcpy(line.sha256, sha256, sizeof(line.sha256));
    return atoll_listing_add(u->listing, &line) < 0 ? out_of_memory(err) : 0;
}

/* Zeros of a hole count for the digest of a file. */
static void hash_hole(struct run *u, uint64_t n)
{
    static const uint8_t zeros[16 * 1024];

    while (n > 0) {
        size_t some = (size_t)ATOLL_MIN(n, (uint64_t)sizeof(zeros));
        atoll_digest_add(&u->digest, zeros, some);
        n -= some;
    }
}

static int write_at(int fd, const uint8_t *bytes, size_t n, uint64_t offset)
{
    while (n > 0) {
        ssize_t wrote = pwrite(fd, bytes, n, (off_t)offset);

        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return -errno;
        bytes += wrote;
        n -= (size_t)wrote;
        offset += (uint64_t)wrote;
    }
    return 0;
}

/* The content of a file, from the archive. */
static int write_content(struct run *u, const char *path, const struct atoll_tar_item *item, int fd,
                         struct atoll_error *err)
{
    uint64_t at = 0, offset;
    const uint8_t *bytes;
    size_t n;
    int r;

    while ((r = atoll_tar_reader_data(u->reader, &bytes, &n, &offset, err)) > 0) {
        r = item->sparse ? write_at(fd, bytes, n, offset) : atoll_fd_write_all(fd, bytes, n);
        if (r < 0)
            return atoll_tree_failed(err, -r, path, "write");
        if (u->listing) {
            hash_hole(u, offset - at);
            atoll_digest_add(&u->digest, bytes, n);
        }
        at = offset + n;
    }
    if (r < 0)
        return r;
    if (u->listing)
        hash_hole(u, item->size - at);
    if (item->size > at && ftruncate(fd, (off_t)item->size) < 0)
        return atoll_tree_failed(err, errno, path, "write");
    return 0;
}

static int make_file(struct run *u, const char *path, const struct atoll_tar_item *item,
                     struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    char sha256[ATOLL_DIGEST_HEX] = "";
    int r = atoll_tree_file(u->tree, path, item, &fd, err);

    if (r == 0)
        r = write_content(u, path, item, fd, err);
    if (r == 0)
        r = atoll_tree_file_done(u->tree, path, item, fd, err);
    if (r == 0 && u->listing) {
        atoll_digest_end(&u->digest, sha256);
        r = list(u, path, ATOLL_TREE_FILE, item, sha256, err);
    }
    return r;
}

static int make_hard_link(struct run *u, const char *path, const struct atoll_tar_item *item,
                          struct atoll_error *err)
{
    const char *target;
    int r = clean(u, &u->target, item->target, err);

    if (r < 0)
        return r;
    target = atoll_buf_str(&u->target);
    r = atoll_tree_hard_link(u->tree, path, target, err);
    if (r == 0 && u->listing && atoll_listing_link(u->listing, path, target) < 0)
        return out_of_memory(err);
    return r;
}

static int skip_item(struct run *u, const char *path, const char *kind, const char *text)
{
    u->result->skipped++;
    atoll_notes_add(&u->notes, kind, path, text);
    return 0;
}

static int make(struct run *u, const char *path, const struct atoll_tar_item *item,
                struct atoll_error *err)
{
    int r;

    switch (item->kind) {
    case ATOLL_TAR_IS_FILE:
        r = make_file(u, path, item, err);
        break;
    case ATOLL_TAR_IS_HARD_LINK:
        r = make_hard_link(u, path, item, err);
        break;
    case ATOLL_TAR_IS_SYMLINK:
        r = atoll_tree_symlink(u->tree, path, item, err);
        if (r == 0)
            r = list(u, path, ATOLL_TREE_LINK, item, NULL, err);
        break;
    case ATOLL_TAR_IS_DIRECTORY:
        r = atoll_tree_directory(u->tree, path, item, err);
        if (r == 0)
            r = list(u, path, ATOLL_TREE_DIRECTORY, item, NULL, err);
        break;
    case ATOLL_TAR_IS_FIFO:
        r = atoll_tree_fifo(u->tree, path, item, err);
        if (r == 0)
            r = list(u, path, ATOLL_TREE_FIFO, item, NULL, err);
        break;
    case ATOLL_TAR_IS_DEVICE:
        return skip_item(u, path, "device", "device nodes are left out");
    default:
        return skip_item(u, path, "type", "an entry of unknown type is left out");
    }
    u->result->files += r == 0;
    return r;
}

/* Cuts the last component off a path; "" is the root. */
static void cut(char *path)
{
    char *slash = strrchr(path, '/');
    *(slash ? slash : path) = '\0';
}

static int hide(struct run *u, char *path, const char *name, struct atoll_error *err)
{
    char *at = path + (name - path) - strlen(".wh.");
    int r;

    (void)memmove(at, name, strlen(name) + 1);
    r = atoll_tree_whiteout(u->tree, path, err);
    if (r == 0)
        r = list(u, path, ATOLL_TREE_WHITEOUT, NULL, NULL, err);
    u->result->files += r == 0;
    return r;
}

/* An entry of a layer, whose name may be a mark. */
static int make_of_layer(struct run *u, char *path, const struct atoll_tar_item *item,
                         struct atoll_error *err)
{
    const char *name;

    switch (atoll_names_kind(path, &name)) {
    case ATOLL_NAMES_PLAIN:
        return make(u, path, item, err);
    case ATOLL_NAMES_WHITEOUT:
        return hide(u, path, name, err);
    case ATOLL_NAMES_OPAQUE:
        cut(path);
        return atoll_tree_opaque(u->tree, path, err);
    case ATOLL_NAMES_INTERNAL:
        return skip_item(u, path, "type", "administration of aufs is left out");
    default:
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "the archive has a malformed whiteout: %.200s", path);
    }
}

static int unpack_all(struct run *u, struct atoll_error *err)
{
    struct atoll_tar_item item;
    int r;

    while ((r = atoll_tar_reader_next(u->reader, &item, err)) > 0) {
        char *path;

        r = count(u, &item, err);
        if (r == 0)
            r = clean(u, &u->path, item.path, err);
        if (r < 0)
            return r;
        path = (char *)(uintptr_t)atoll_buf_str(&u->path);
        r = u->options->plain ? make(u, path, &item, err) : make_of_layer(u, path, &item, err);
        if (r < 0)
            return r;
    }
    return r;
}

static int write_manifest(struct run *u, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    int r;

    if (!u->listing)
        return 0;
    fd = open(u->options->manifest, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    r = fd < 0 ? -errno : atoll_listing_write(u->listing, fd);
    return r < 0 ? atoll_tree_failed(err, -r, u->options->manifest, "write the manifest") : 0;
}

static int finish(struct run *u, struct atoll_error *err)
{
    struct atoll_archive_facts facts;
    int r = atoll_archive_finish(u->archive, &facts, err);

    if (r == 0 && facts.input_bytes == 0)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "the archive is empty");
    if (r == 0)
        r = atoll_tree_finish(u->tree, err);
    if (r == 0)
        r = write_manifest(u, err);
    if (r < 0)
        return r;
    memcpy(u->result->diff_id, facts.diff_id, sizeof(facts.diff_id));
    memcpy(u->result->digest, facts.digest, sizeof(facts.digest));
    u->result->input_bytes = facts.input_bytes;
    u->result->tar_bytes = facts.tar_bytes;
    u->result->notes = u->notes.count;
    u->result->implied = atoll_tree_implied(u->tree);
    return 0;
}

static void done(struct run *u)
{
    atoll_tar_reader_free(u->reader);
    atoll_archive_close(u->archive);
    atoll_tree_writer_free(u->tree);
    atoll_listing_free(u->listing);
    atoll_digest_done(&u->digest);
    atoll_buf_done(&u->path);
    atoll_buf_done(&u->target);
}

int atoll_unpack(int in, int dir, int notes_fd, const struct atoll_unpack_options *options,
                 struct atoll_unpack_result *ret, struct atoll_error *err)
{
    struct run u = {.options = options, .result = ret, .notes = {.fd = notes_fd}};
    struct atoll_tar_source source = {.peek = peek_archive, .skip = skip_archive};
    int r;

    *ret = (struct atoll_unpack_result){0};
    atoll_digest_init(&u.digest);
    atoll_buf_init(&u.path, PATH_BUFFER_MAX);
    atoll_buf_init(&u.target, PATH_BUFFER_MAX);
    if (options->manifest)
        u.listing = atoll_listing_new();
    r = atoll_archive_open(in, options->max_ratio, &u.archive, err);
    if (r == 0) {
        source.arg = u.archive;
        u.reader = atoll_tar_reader_new(&source);
        u.tree = atoll_tree_writer_new(dir, &u.notes, !options->plain);
        r = unpack_all(&u, err);
    }
    if (r == 0)
        r = finish(&u, err);
    done(&u);
    return r;
}

#include "unpack/tar_read.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "unpack/tar_head.h"

#define HEAD_BYTES 512
#define EXTENDED_MAX ((size_t)1 << 20) /* bytes of a long name, or of pax records */
#define NAME_MAX_BYTES 257             /* prefix, "/", name, NUL */

struct atoll_tar_reader {
    struct atoll_tar_source source;
    uint64_t stored;  /* bytes of the entry's data that are still in the source */
    uint64_t padding; /* zeros that follow them */
    uint64_t offset;  /* in the file, of the next byte */
    size_t held;      /* bytes of the source that the caller still uses */
    bool ended;
    struct atoll_buf path, target, records; /* of extended heads */
    bool has_path, has_target;
    struct atoll_tar_pax pax;
    char name[NAME_MAX_BYTES], link[101];
    /* Map of a sparse file. */
    struct atoll_tar_extent *extents; /* owned */
    size_t extent_count, extent_room, extent;
};

static int malformed(struct atoll_error *err, const char *what)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "the archive is malformed: %s",
                      what);
}

static int parse_failed(struct atoll_error *err, int r, const char *what)
{
    if (r == -EINVAL)
        return malformed(err, what);
    if (r == -ENOMEM)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM, "out of memory");
    return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, -r,
                      "the archive is refused: %s is too large", what);
}

struct atoll_tar_reader *atoll_tar_reader_new(const struct atoll_tar_source *source)
{
    struct atoll_tar_reader *r = calloc(1, sizeof(*r));

    if (!r)
        abort();
    r->source = *source;
    atoll_buf_init(&r->path, EXTENDED_MAX);
    atoll_buf_init(&r->target, EXTENDED_MAX);
    atoll_buf_init(&r->records, EXTENDED_MAX);
    return r;
}

struct atoll_tar_reader *atoll_tar_reader_free(struct atoll_tar_reader *r)
{
    if (!r)
        return NULL;
    atoll_buf_done(&r->path);
    atoll_buf_done(&r->target);
    atoll_buf_done(&r->records);
    atoll_tar_pax_done(&r->pax);
    free(r->extents);
    free(r);
    return NULL;
}

/* At most n bytes of the source: 1, or an error if it has ended. */
static int peek(struct atoll_tar_reader *r, uint64_t n, const uint8_t **ret_bytes, size_t *ret_n,
                struct atoll_error *err)
{
    int got = r->source.peek(r->source.arg, ret_bytes, ret_n, err);

    if (got == 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "the archive is incomplete: it ends within an entry");
    if (got > 0 && *ret_n > n)
        *ret_n = (size_t)n;
    return got;
}

static int skip(struct atoll_tar_reader *r, uint64_t n, struct atoll_error *err)
{
    while (n > 0) {
        const uint8_t *bytes;
        size_t have;
        int got = peek(r, n, &bytes, &have, err);

        if (got < 0)
            return got;
        r->source.skip(r->source.arg, have);
        n -= have;
    }
    return 0;
}

static uint64_t padding_of(uint64_t size)
{
    return (HEAD_BYTES - size % HEAD_BYTES) % HEAD_BYTES;
}

/* Copies a whole block: a head, or an extension of the map of a sparse file. */
static int take_block(struct atoll_tar_reader *r, uint8_t *out, struct atoll_error *err)
{
    const uint8_t *bytes;
    size_t n;
    int got = peek(r, HEAD_BYTES, &bytes, &n, err);

    if (got < 0)
        return got;
    if (n < HEAD_BYTES)
        return malformed(err, "its length is not a multiple of 512");
    memcpy(out, bytes, HEAD_BYTES);
    r->source.skip(r->source.arg, HEAD_BYTES);
    return 0;
}

/* The data of an extended head, and the zeros after it. */
static int take_extended(struct atoll_tar_reader *r, uint64_t size, struct atoll_buf *out,
                         struct atoll_error *err)
{
    atoll_buf_clear(out);
    if (size > EXTENDED_MAX - 1)
        return parse_failed(err, -E2BIG, "an extended head");
    for (uint64_t left = size; left > 0;) {
        const uint8_t *bytes;
        size_t n;
        int got = peek(r, left, &bytes, &n, err);

        if (got < 0)
            return got;
        got = atoll_buf_append(out, bytes, n);
        if (got < 0)
            return parse_failed(err, got, "an extended head");
        r->source.skip(r->source.arg, n);
        left -= n;
    }
    return skip(r, padding_of(size), err);
}

static bool is_zero(const uint8_t *head)
{
    return head[0] == 0 && memcmp(head, head + 1, HEAD_BYTES - 1) == 0;
}

static void copy_field(char *out, const uint8_t *field, size_t width)
{
    size_t n = strnlen((const char *)field, width);

    memcpy(out, field, n);
    out[n] = '\0';
}

/* POSIX has a prefix; GNU uses the same bytes for other things; star has a shorter one. */
static void take_name(struct atoll_tar_reader *r, const uint8_t *head)
{
    bool posix = memcmp(head + 257, "ustar\0", 6) == 0;
    size_t width = memcmp(head + 508, "tar\0", 4) == 0 ? 131 : 155;
    size_t n = 0;

    if (posix && head[345]) {
        copy_field(r->name, head + 345, width);
        n = strlen(r->name);
        r->name[n++] = '/';
    }
    copy_field(r->name + n, head, 100);
    copy_field(r->link, head + 157, 100);
}

static int add_extent(struct atoll_tar_reader *r, uint64_t offset, uint64_t len)
{
    if (r->extent_count >= ATOLL_TAR_EXTENTS_MAX)
        return -E2BIG;
    if (r->extent_count == r->extent_room) {
        size_t room = r->extent_room ? r->extent_room * 2 : 64;
        void *grown = reallocarray(r->extents, room, sizeof(*r->extents));

        if (!grown)
            return -ENOMEM;
        r->extents = grown;
        r->extent_room = room;
    }
    r->extents[r->extent_count++] = (struct atoll_tar_extent){offset, len};
    return 0;
}

/* Pairs of numbers in a head of GNU's old format, up to an empty one. */
static int take_pairs(struct atoll_tar_reader *r, const uint8_t *pairs, size_t count)
{
    for (size_t i = 0; i < count && pairs[i * 24]; i++) {
        int64_t offset, len;
        int got = atoll_tar_number(pairs + i * 24, 12, &offset);

        if (got == 0)
            got = atoll_tar_number(pairs + i * 24 + 12, 12, &len);
        if (got == 0 && (offset < 0 || len < 0))
            got = -EINVAL;
        if (got == 0)
            got = add_extent(r, (uint64_t)offset, (uint64_t)len);
        if (got < 0)
            return got;
    }
    return 0;
}

static int take_old_map(struct atoll_tar_reader *r, const uint8_t *head, uint64_t *ret_size,
                        struct atoll_error *err)
{
    uint8_t block[HEAD_BYTES];
    int64_t size;
    bool more = head[482] != 0;
    int got = take_pairs(r, head + 386, 4);

    if (got == 0 && (atoll_tar_number(head + 483, 12, &size) < 0 || size < 0))
        got = -EINVAL;
    while (got == 0 && more) {
        got = take_block(r, block, err);
        if (got < 0)
            return got;
        got = take_pairs(r, block, 21);
        more = block[504] != 0;
    }
    if (got < 0)
        return parse_failed(err, got, "the map of a sparse file");
    *ret_size = (uint64_t)size;
    return 0;
}

/* "OFFSET,LENGTH,OFFSET,LENGTH…" of format 0.1. */
static int parse_map(struct atoll_tar_reader *r, const char *text)
{
    int got = 0;

    while (got == 0 && *text) {
        uint64_t offset, len;

        got = atoll_tar_decimal(&text, ',', &offset);
        if (got == 0)
            got = atoll_tar_decimal(&text, strchr(text, ',') ? ',' : '\0', &len);
        if (got == 0)
            got = add_extent(r, offset, len);
    }
    return got;
}

struct line_source {
    struct atoll_tar_reader *r;
    uint64_t taken;
    size_t at; /* in block; HEAD_BYTES: the next one is needed */
    uint8_t block[HEAD_BYTES];
};

/* A number on a line of its own, of the map of format 1.0. */
static int map_line(struct line_source *in, uint64_t *ret, struct atoll_error *err)
{
    char text[24] = "";
    const char *p = text;

    for (size_t n = 0; n < sizeof(text) - 1; n++) {
        if (in->at == HEAD_BYTES) {
            int got;

            if (in->taken >= in->r->stored)
                break;
            got = take_block(in->r, in->block, err);
            if (got < 0)
                return got;
            in->at = 0;
            in->taken += HEAD_BYTES;
        }
        text[n] = (char)in->block[in->at++];
        if (text[n] == '\n')
            return atoll_tar_decimal(&p, '\n', ret) < 0 ? malformed(err, "the map of a sparse file")
                                                        : 0;
    }
    return malformed(err, "the map of a sparse file");
}

/* Format 1.0: the map precedes the data, padded to whole blocks. */
static int take_data_map(struct atoll_tar_reader *r, struct atoll_error *err)
{
    struct line_source in = {.r = r, .at = HEAD_BYTES};
    uint64_t count;
    int got = map_line(&in, &count, err);

    for (uint64_t i = 0; got == 0 && i < count; i++) {
        uint64_t offset, len;

        got = map_line(&in, &offset, err);
        if (got == 0)
            got = map_line(&in, &len, err);
        if (got < 0)
            return got;
        got = add_extent(r, offset, len);
        if (got < 0)
            return parse_failed(err, got, "the map of a sparse file");
    }
    if (got == 0 && in.taken > r->stored)
        return malformed(err, "the map of a sparse file");
    r->stored -= got == 0 ? in.taken : 0;
    return got;
}

/* Fills the map of a sparse file; *size becomes its size with holes. */
static int take_map(struct atoll_tar_reader *r, const uint8_t *head, bool old, uint64_t *size,
                    struct atoll_error *err)
{
    const struct atoll_tar_pax *pax = &r->pax;
    int got = 0;

    r->extent_count = 0;
    if (old) {
        got = take_old_map(r, head, size, err);
    } else {
        *size = pax->sparse_size;
        if (pax->sparse_major == 1) {
            got = take_data_map(r, err);
        } else if (pax->sparse_map) {
            got = parse_map(r, pax->sparse_map);
        } else {
            for (size_t i = 0; got == 0 && i < pax->extent_count; i++)
                got = add_extent(r, pax->extents[i].offset, pax->extents[i].len);
        }
        if (got < 0 && pax->sparse_major != 1)
            return parse_failed(err, got, "the map of a sparse file");
    }
    if (got < 0)
        return got;
    if (!atoll_tar_extents_are_right(r->extents, r->extent_count, *size, r->stored))
        return malformed(err, "the map of a sparse file");
    return 0;
}

static enum atoll_tar_kind kind_of(uint8_t type, bool slash)
{
    switch (type) {
    case '\0':
        return slash ? ATOLL_TAR_IS_DIRECTORY : ATOLL_TAR_IS_FILE;
    case '0':
    case '7':
    case 'S':
        return ATOLL_TAR_IS_FILE;
    case '1':
        return ATOLL_TAR_IS_HARD_LINK;
    case '2':
        return ATOLL_TAR_IS_SYMLINK;
    case '3':
    case '4':
        return ATOLL_TAR_IS_DEVICE;
    case '5':
        return ATOLL_TAR_IS_DIRECTORY;
    case '6':
        return ATOLL_TAR_IS_FIFO;
    default:
        return ATOLL_TAR_IS_OTHER;
    }
}

struct numbers {
    int64_t mode, uid, gid, size, mtime;
};

static int take_numbers(const uint8_t *head, struct numbers *n)
{
    static const struct {
        size_t at, width, member;
    } fields[] = {
        {100, 8, offsetof(struct numbers, mode)},   {108, 8, offsetof(struct numbers, uid)},
        {116, 8, offsetof(struct numbers, gid)},    {124, 12, offsetof(struct numbers, size)},
        {136, 12, offsetof(struct numbers, mtime)},
    };

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(fields); i++)
        if (atoll_tar_number(head + fields[i].at, fields[i].width,
                             (int64_t *)(void *)((char *)n + fields[i].member)) < 0)
            return -EINVAL;
    return n->size < 0 || n->uid < 0 || n->gid < 0 ? -EINVAL : 0;
}

static const char *path_of(struct atoll_tar_reader *r)
{
    return r->pax.sparse_name ? r->pax.sparse_name
           : r->pax.path      ? r->pax.path
           : r->has_path      ? atoll_buf_str(&r->path)
                              : r->name;
}

static const char *target_of(struct atoll_tar_reader *r)
{
    return r->pax.linkpath ? r->pax.linkpath : r->has_target ? atoll_buf_str(&r->target) : r->link;
}

/* The entry of a head that is not an extension of the next. */
static int take_item(struct atoll_tar_reader *r, const uint8_t *head, const struct numbers *n,
                     struct atoll_tar_item *ret, struct atoll_error *err)
{
    const struct atoll_tar_pax *pax = &r->pax;
    bool link, file, old_sparse = head[156] == 'S';
    int got = 0;

    take_name(r, head);
    *ret = (struct atoll_tar_item){
        .path = path_of(r),
        .target = "",
        .mode = (uint32_t)n->mode & 07777,
        .uid = pax->has_uid ? pax->uid : (uint64_t)n->uid,
        .gid = pax->has_gid ? pax->gid : (uint64_t)n->gid,
        .mtime_s = pax->has_mtime ? pax->mtime_s : n->mtime,
        .mtime_ns = pax->has_mtime ? pax->mtime_ns : 0,
        .xattrs = pax->xattrs,
        .xattr_count = pax->xattr_count,
    };
    if (!*ret->path)
        return malformed(err, "an entry has no name");
    ret->kind = kind_of(head[156], ret->path[strlen(ret->path) - 1] == '/');
    file = ret->kind == ATOLL_TAR_IS_FILE;
    link = ret->kind == ATOLL_TAR_IS_HARD_LINK || ret->kind == ATOLL_TAR_IS_SYMLINK;
    if (link)
        ret->target = target_of(r);
    if (link && !*ret->target)
        return malformed(err, "a link has no target");
    r->offset = 0;
    r->extent = 0;
    /* Other kinds have no data, whatever their head says, as for Go's reader, which wrote most images. */
    r->stored =
        file || ret->kind == ATOLL_TAR_IS_OTHER ? pax->has_size ? pax->size : (uint64_t)n->size : 0;
    r->padding = padding_of(r->stored);
    ret->size = file ? r->stored : 0;
    ret->sparse = file && (old_sparse || pax->sparse);
    if (ret->sparse)
        got = take_map(r, head, old_sparse, &ret->size, err);
    else
        r->extent_count = 0;
    return got < 0 ? got : 1;
}

/* An extended head for the next entry: 1 if it was one. */
static int take_extension(struct atoll_tar_reader *r, uint8_t type, uint64_t size,
                          struct atoll_error *err)
{
    int got;

    switch (type) {
    case 'L':
        r->has_path = true;
        got = take_extended(r, size, &r->path, err);
        break;
    case 'K':
        r->has_target = true;
        got = take_extended(r, size, &r->target, err);
        break;
    case 'x':
    case 'X':
        atoll_tar_pax_done(&r->pax);
        got = take_extended(r, size, &r->records, err);
        if (got == 0) {
            got = atoll_tar_pax_parse(r->records.data + r->records.off, atoll_buf_size(&r->records),
                                      &r->pax);
            if (got < 0)
                got = parse_failed(err, got, "a pax record");
        }
        break;
    case 'g':
    case 'V':
        got = skip(r, size + padding_of(size), err);
        break;
    default:
        return 0;
    }
    return got < 0 ? got : 1;
}

/* The caller has done with the last piece of data. */
static void release(struct atoll_tar_reader *r)
{
    if (r->held > 0)
        r->source.skip(r->source.arg, r->held);
    r->held = 0;
}

/* Passes over what is left of the data of the last entry. */
static int leave_item(struct atoll_tar_reader *r, struct atoll_error *err)
{
    int got;

    release(r);
    got = skip(r, r->stored + r->padding, err);
    r->stored = r->padding = 0;
    r->has_path = r->has_target = false;
    atoll_tar_pax_done(&r->pax);
    r->pax = (struct atoll_tar_pax){0};
    return got;
}

/* The next head: 1, or 0 at the end of the archive. */
static int next_head(struct atoll_tar_reader *r, uint8_t *head, struct atoll_error *err)
{
    const uint8_t *bytes;
    size_t n;
    int got = r->ended ? 0 : r->source.peek(r->source.arg, &bytes, &n, err);

    if (got > 0)
        got = take_block(r, head, err) < 0 ? -EINVAL : 1;
    if (got > 0 && is_zero(head))
        got = 0;
    if (got == 0)
        r->ended = true;
    if (got > 0 && !atoll_tar_sum_is_right(head))
        return malformed(err, "a head has a wrong checksum (is it a tar archive?)");
    return got;
}

int atoll_tar_reader_next(struct atoll_tar_reader *r, struct atoll_tar_item *ret,
                          struct atoll_error *err)
{
    uint8_t head[HEAD_BYTES];
    int got = leave_item(r, err);

    if (got < 0)
        return got;
    while ((got = next_head(r, head, err)) > 0) {
        struct numbers n;

        if (take_numbers(head, &n) < 0)
            return malformed(err, "a number of a head");
        got = take_extension(r, head[156], (uint64_t)n.size, err);
        if (got < 0)
            return got;
        if (got == 0)
            return take_item(r, head, &n, ret, err);
    }
    return got;
}

int atoll_tar_reader_data(struct atoll_tar_reader *r, const uint8_t **ret_bytes, size_t *ret_n,
                          uint64_t *ret_offset, struct atoll_error *err)
{
    uint64_t most = r->stored;
    int got;

    release(r);
    if (r->stored == 0)
        return 0;
    if (r->extent_count > 0) {
        /* stored is the sum of the lengths, so there is an extent with bytes left. */
        while (r->offset >= r->extents[r->extent].offset + r->extents[r->extent].len)
            r->extent++;
        if (r->offset < r->extents[r->extent].offset)
            r->offset = r->extents[r->extent].offset;
        most = r->extents[r->extent].offset + r->extents[r->extent].len - r->offset;
    }
    got = peek(r, most, ret_bytes, ret_n, err);
    if (got < 0)
        return got;
    r->held = *ret_n;
    *ret_offset = r->offset;
    r->offset += *ret_n;
    r->stored -= *ret_n;
    return 1;
}

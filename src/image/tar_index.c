#include "image/tar_index.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/map.h"
#include "base/tar.h"
#include "base/text.h"

#define BLOCK ATOLL_TAR_BLOCK
#define EXTENSION_MAX ((size_t)64 * 1024) /* a pax or GNU header */
#define LINKS_MAX 8
#define SIZE_MAX_BYTES ((uint64_t)1 << 60)

struct member {
    struct member *next; /* all of them, for freeing */
    uint64_t offset, size;
    char *link;    /* owned; target of a link, NULL for a file */
    bool symbolic; /* the target is from the place of the link, not from the root */
    char name[];
};

struct atoll_image_tar {
    int fd;
    uint64_t end; /* of the file */
    struct atoll_map by_name;
    struct member *all;
    size_t count;
};

/* What extension headers say of the member that follows them. */
struct extension {
    char path[ATOLL_IMAGE_TAR_NAME_MAX], link[ATOLL_IMAGE_TAR_NAME_MAX];
    bool has_size;
    uint64_t size;
};

struct head { /* POSIX.1-1988, as ustar extends it */
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100];
    char magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[155], rest[12];
};
_Static_assert(sizeof(struct head) == BLOCK, "a head is a block");

static int bad(struct atoll_error *err, const char *why)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "the archive is %s", why);
}

/* Octal digits, or base 256 with the highest bit set (GNU). */
static bool number(const char *field, size_t n, uint64_t *ret)
{
    uint64_t value = 0;
    size_t i = 0;

    if ((uint8_t)field[0] & 0x80) {
        for (i = 1; i < n; i++) {
            if (value >> 54)
                return false;
            value = value << 8 | (uint8_t)field[i];
        }
        *ret = value;
        return (uint8_t)field[0] == 0x80;
    }
    while (i < n && field[i] == ' ')
        i++;
    for (; i < n && field[i] >= '0' && field[i] <= '7'; i++)
        value = value << 3 | (uint64_t)(field[i] - '0');
    *ret = value;
    return i == n || field[i] == '\0' || field[i] == ' ';
}

static bool sum_is_right(const struct head *h)
{
    const uint8_t *bytes = (const uint8_t *)h;
    uint64_t said, sum = 0;

    for (size_t i = 0; i < BLOCK; i++)
        sum += i >= offsetof(struct head, sum) && i < offsetof(struct head, type) ? ' ' : bytes[i];
    return number(h->sum, sizeof(h->sum), &said) && said == sum;
}

/* "x" of "./x" and "x/". */
static void trim(char *name)
{
    char *from = name;
    size_t n;

    while (strncmp(from, "./", 2) == 0 || *from == '/')
        from += *from == '/' ? 1 : 2;
    n = strlen(from);
    while (n > 0 && from[n - 1] == '/')
        n--;
    (void)memmove(name, from, n);
    name[n] = '\0';
}

static int pread_all(const struct atoll_image_tar *tar, uint64_t at, void *out, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t some = pread(tar->fd, (char *)out + done, n - done, (off_t)(at + done));
        if (some == 0)
            return -ENODATA;
        if (some < 0 && errno != EINTR)
            return -errno;
        done += some > 0 ? (size_t)some : 0;
    }
    return 0;
}

/* One record "LENGTH KEY=VALUE\n" of a pax header; returns its length, 0 if it is malformed. */
static size_t pax_record(const char *bytes, size_t n, struct extension *x)
{
    const char *space = memchr(bytes, ' ', n), *equals;
    size_t length = 0, value;
    char text[24];

    for (const char *p = bytes; space && p < space && length < n; p++)
        length = *p >= '0' && *p <= '9' ? length * 10 + (size_t)(*p - '0') : n + 1;
    if (!space || length > n || (size_t)(space + 1 - bytes) >= length || bytes[length - 1] != '\n')
        return 0;
    equals = memchr(space, '=', length - (size_t)(space - bytes));
    if (!equals)
        return 0;
    value = length - 1 - (size_t)(equals + 1 - bytes);
    space++;
    if (strncmp(space, "path=", 5) == 0 && value < sizeof(x->path))
        (void)snprintf(x->path, sizeof(x->path), "%.*s", (int)value, equals + 1);
    else if (strncmp(space, "linkpath=", 9) == 0 && value < sizeof(x->link))
        (void)snprintf(x->link, sizeof(x->link), "%.*s", (int)value, equals + 1);
    else if (strncmp(space, "size=", 5) == 0 && value < sizeof(text)) {
        (void)snprintf(text, sizeof(text), "%.*s", (int)value, equals + 1);
        if (atoll_text_u64(text, 0, SIZE_MAX_BYTES, &x->size) < 0)
            return 0;
        x->has_size = true;
    }
    return length;
}

/* Reads a header that is about the next member: 'x' (pax), 'L' and 'K' (GNU: long name and link). */
static int read_extension(const struct atoll_image_tar *tar, char type, uint64_t at, uint64_t size,
                          struct extension *x, struct atoll_error *err)
{
    ATOLL_AUTOFREE char *bytes = size <= EXTENSION_MAX ? calloc(1, (size_t)size + 1) : NULL;
    size_t n = (size_t)size;
    int r;

    if (!bytes)
        return bad(err, "malformed: a header is too long");
    r = pread_all(tar, at, bytes, n);
    if (r < 0)
        return bad(err, "cut off");
    if (type == 'L')
        (void)snprintf(x->path, sizeof(x->path), "%.*s", (int)sizeof(x->path) - 1, bytes);
    if (type == 'K')
        (void)snprintf(x->link, sizeof(x->link), "%.*s", (int)sizeof(x->link) - 1, bytes);
    for (size_t done = 0, one; type == 'x' && done < n; done += one) {
        one = pax_record(bytes + done, n - done, x);
        if (one == 0)
            return bad(err, "malformed: a pax header");
    }
    return 0;
}

static void name_of(const struct head *h, const struct extension *x,
                    char out[ATOLL_IMAGE_TAR_NAME_MAX])
{
    if (*x->path)
        (void)snprintf(out, ATOLL_IMAGE_TAR_NAME_MAX, "%s", x->path);
    else if (memcmp(h->magic, "ustar", 6) == 0 && *h->prefix)
        (void)snprintf(out, ATOLL_IMAGE_TAR_NAME_MAX, "%.155s/%.100s", h->prefix, h->name);
    else
        (void)snprintf(out, ATOLL_IMAGE_TAR_NAME_MAX, "%.100s", h->name);
    trim(out);
}

static int add(struct atoll_image_tar *tar, const char *name, const char *link,
               const struct member *facts, struct atoll_error *err)
{
    struct member *m = calloc(1, sizeof(*m) + strlen(name) + 1);

    if (tar->count++ >= ATOLL_IMAGE_TAR_MEMBERS_MAX) {
        free(m);
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, E2BIG,
                          "the archive has more than %d files", ATOLL_IMAGE_TAR_MEMBERS_MAX);
    }
    if (!m || (link && !(m->link = strdup(link)))) {
        free(m);
        return atoll_fail_errno(err, ENOMEM, "index of an archive");
    }
    memcpy(m->name, name, strlen(name) + 1);
    m->offset = facts->offset;
    m->size = facts->size;
    m->symbolic = facts->symbolic;
    m->next = tar->all;
    tar->all = m;
    (void)atoll_map_remove(&tar->by_name, m->name);
    return atoll_map_put(&tar->by_name, m->name, m) < 0
               ? atoll_fail_errno(err, ENOMEM, "index of an archive")
               : 0;
}

/* A link's target from the root of the archive; false if it leaves it. */
static bool resolve(const struct member *m, char out[2 * ATOLL_IMAGE_TAR_NAME_MAX])
{
    const char *slash = strrchr(m->name, '/'), *target = m->link;
    size_t n = m->symbolic && slash ? (size_t)(slash - m->name) : 0;

    if (*target == '/')
        return false;
    memcpy(out, m->name, n);
    for (size_t len; *target; target += len + (target[len] == '/')) {
        len = strcspn(target, "/");
        if (len == 0 || (len == 1 && target[0] == '.'))
            continue;
        if (len == 2 && memcmp(target, "..", 2) == 0) {
            if (n == 0)
                return false;
            while (n > 0 && out[n - 1] != '/')
                n--;
            n -= n > 0;
            continue;
        }
        if (n + len + 2 > 2 * ATOLL_IMAGE_TAR_NAME_MAX)
            return false;
        if (n > 0)
            out[n++] = '/';
        memcpy(out + n, target, len);
        n += len;
    }
    out[n] = '\0';
    return n > 0;
}

/* Takes one member; *at is moved to the next head. */
static int take(struct atoll_image_tar *tar, const struct head *h, struct extension *x,
                uint64_t *at, struct atoll_error *err)
{
    char name[ATOLL_IMAGE_TAR_NAME_MAX], link[ATOLL_IMAGE_TAR_NAME_MAX];
    uint64_t size, content = *at + BLOCK;
    bool is_link = h->type == '1' || h->type == '2';
    int r = 0;

    if (!number(h->size, sizeof(h->size), &size) || size > SIZE_MAX_BYTES)
        return bad(err, "malformed: a size");
    if (strchr("xLK", h->type) && h->type) {
        r = read_extension(tar, h->type, content, size, x, err);
    } else {
        size = x->has_size ? x->size : size;
        size = is_link || h->type == '5' ? 0 : size;
        name_of(h, x, name);
        (void)snprintf(link, sizeof(link), "%.*s", *x->link ? (int)sizeof(link) - 1 : 100,
                       *x->link ? x->link : h->link);
        if (h->type == '1') /* from the root of the archive; a symbolic link from its place */
            trim(link);
        if (size > tar->end - ATOLL_MIN(content, tar->end))
            return bad(err, "cut off");
        if (*name && (is_link || h->type == '0' || h->type == '\0' || h->type == '7'))
            r = add(tar, name, is_link ? link : NULL,
                    &(struct member){.offset = content, .size = size, .symbolic = h->type == '2'},
                    err);
        *x = (struct extension){0};
    }
    *at = content + size + atoll_tar_padding(size);
    return r;
}

/* What is commonly given in place of a tar. */
static const char *packed_as(const uint8_t *bytes)
{
    static const struct {
        const char *name;
        uint8_t magic[6];
        size_t n;
    } kinds[] = {
        {"gzip", {0x1f, 0x8b}, 2},
        {"zstd", {0x28, 0xb5, 0x2f, 0xfd}, 4},
        {"xz", {0xfd, '7', 'z', 'X', 'Z', 0}, 6},
        {"bzip2", {'B', 'Z', 'h'}, 3},
    };

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(kinds); i++)
        if (memcmp(bytes, kinds[i].magic, kinds[i].n) == 0)
            return kinds[i].name;
    return NULL;
}

static int read_heads(struct atoll_image_tar *tar, struct atoll_error *err)
{
    static const struct head zeros;
    struct extension x = {0};
    struct head h;
    uint64_t at = 0;
    int r = 0;

    while (r == 0 && at + BLOCK <= tar->end) {
        r = pread_all(tar, at, &h, sizeof(h));
        if (r < 0)
            return atoll_fail_errno(err, -r, "read an archive");
        if (memcmp(&h, &zeros, sizeof(h)) == 0)
            return 0;
        if (at == 0 && packed_as((const uint8_t *)&h))
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "the archive is compressed with %s; decompress it first",
                              packed_as((const uint8_t *)&h));
        if (!sum_is_right(&h))
            return bad(err, at == 0 ? "not a tar archive" : "malformed: the checksum of a header");
        r = take(tar, &h, &x, &at, err);
    }
    return r < 0 || at > 0 ? r : bad(err, "empty");
}

int atoll_image_tar_read(int fd, struct atoll_image_tar **ret, struct atoll_error *err)
{
    struct atoll_image_tar *tar = calloc(1, sizeof(*tar));
    struct stat st;
    int r;

    if (!tar)
        return atoll_fail_errno(err, ENOMEM, "index of an archive");
    atoll_map_init(&tar->by_name);
    tar->fd = fd;
    if (fstat(fd, &st) < 0)
        r = atoll_fail_errno(err, errno, "archive");
    else if (!S_ISREG(st.st_mode))
        r = bad(err, "not a file");
    else {
        tar->end = (uint64_t)st.st_size;
        r = read_heads(tar, err);
    }
    if (r == 0)
        *ret = tar;
    else
        (void)atoll_image_tar_free(tar);
    return r;
}

struct atoll_image_tar *atoll_image_tar_free(struct atoll_image_tar *tar)
{
    struct member *next;

    if (!tar)
        return NULL;
    for (struct member *m = tar->all; m; m = next) {
        next = m->next;
        free(m->link);
        free(m);
    }
    atoll_map_done(&tar->by_name);
    free(tar);
    return NULL;
}

bool atoll_image_tar_find(const struct atoll_image_tar *tar, const char *name, uint64_t *ret_offset,
                          uint64_t *ret_size)
{
    char target[2 * ATOLL_IMAGE_TAR_NAME_MAX];
    const struct member *m = atoll_map_get(&tar->by_name, name);

    for (int links = 0; m && m->link; links++) {
        if (links == LINKS_MAX || !resolve(m, target))
            return false;
        m = atoll_map_get(&tar->by_name, target);
    }
    if (!m)
        return false;
    *ret_offset = m->offset;
    *ret_size = m->size;
    return true;
}

int atoll_image_tar_load(const struct atoll_image_tar *tar, const char *name, size_t max,
                         char **ret, size_t *ret_len, struct atoll_error *err)
{
    ATOLL_AUTOFREE char *bytes = NULL;
    uint64_t offset, size;

    if (!atoll_image_tar_find(tar, name, &offset, &size))
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "the archive has no file %.200s", name);
    if (size > max)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EFBIG,
                          "%.200s in the archive is longer than %zu bytes", name, max);
    bytes = malloc((size_t)size + 1);
    if (!bytes)
        return atoll_fail_errno(err, ENOMEM, "read an archive");
    if (pread_all(tar, offset, bytes, (size_t)size) < 0)
        return bad(err, "cut off");
    bytes[size] = '\0';
    *ret = ATOLL_TAKE_PTR(bytes);
    *ret_len = (size_t)size;
    return 0;
}

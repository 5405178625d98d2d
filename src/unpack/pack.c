#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>
#include "base/map.h"
#include "base/memory.h"
#include "base/tar.h"
#include "unpack/deflate.h"
#include "unpack/tree_write.h"
#include "unpack/unpack.h"

/*
 * The archive of a tree: each directory before what is in it, names in order of their bytes.
 */
#define DEPTH_MAX 2000
#define BUFFER_BYTES ((size_t)512 * 1024)
#define NAMES_MAX ((size_t)64 * 1024)
#define VALUE_MAX ((size_t)64 * 1024)
#define ATTRIBUTES_MAX 64
#define HEAD_MAX ((size_t)2 * 1024 * 1024)
#define OPAQUE_NAME "user.overlay.opaque"

/* A file with several names: the first one that was packed. */
struct linked {
    char key[48]; /* device and inode */
    char path[];
};

struct pack {
    const struct atoll_pack_options *options;
    struct atoll_pack_result *result;
    struct atoll_deflate *out; /* owned */
    struct atoll_map linked;   /* of struct linked, owned */
    struct atoll_buf head;
    char path[PATH_MAX]; /* of the current entry, in the tree */
    uint8_t *buffer;     /* owned, BUFFER_BYTES */
    char *names;         /* owned, NAMES_MAX */
    uint8_t *values;     /* owned, VALUE_MAX for each attribute */
    struct atoll_tar_attribute attributes[ATTRIBUTES_MAX];
    size_t attribute_count;
    unsigned depth;
};

static int read_failed(const struct pack *p, int errnum, struct atoll_error *err)
{
    return atoll_fail_errno(err, errnum, "read %.200s", p->path);
}

static int by_name(const void *a, const void *b)
{
    const struct atoll_tar_attribute *x = a, *y = b;
    return strcmp(x->name, y->name);
}

/* Fills p->attributes; an entry without a descriptor has no attributes. */
static void read_attributes(struct pack *p, int fd)
{
    ssize_t n = fd < 0 ? 0 : flistxattr(fd, p->names, NAMES_MAX);

    p->attribute_count = 0;
    for (ssize_t i = 0; i < n; i += (ssize_t)strlen(p->names + i) + 1) {
        uint8_t *value = p->values + p->attribute_count * VALUE_MAX;
        ssize_t len = p->attribute_count < ATTRIBUTES_MAX && atoll_tree_is_kept_xattr(p->names + i)
                          ? fgetxattr(fd, p->names + i, value, VALUE_MAX)
                          : -1;
        if (len >= 0)
            p->attributes[p->attribute_count++] =
                (struct atoll_tar_attribute){p->names + i, value, (size_t)len};
    }
    qsort(p->attributes, p->attribute_count, sizeof(*p->attributes), by_name);
}

static int put_head(struct pack *p, const struct atoll_tar_entry *entry, struct atoll_error *err)
{
    int r;

    atoll_buf_clear(&p->head);
    r = atoll_tar_head(&p->head, entry);
    if (r < 0)
        return atoll_fail_errno(err, -r, "the head of %.200s", p->path);
    p->result->files++;
    return atoll_deflate_write(p->out, atoll_buf_head(&p->head), atoll_buf_size(&p->head), err);
}

static struct atoll_tar_entry entry_of(const struct pack *p, const struct stat *st,
                                       enum atoll_tar_type type, const char *name)
{
    return (struct atoll_tar_entry){.type = type,
                                    .name = name,
                                    .target = "",
                                    .mode = st->st_mode & 07777,
                                    .uid = st->st_uid,
                                    .gid = st->st_gid,
                                    .size = type == ATOLL_TAR_FILE ? (uint64_t)st->st_size : 0,
                                    .mtime_s = st->st_mtim.tv_sec,
                                    .exact = true,
                                    .mtime_ns = (uint32_t)st->st_mtim.tv_nsec,
                                    .attributes = p->attributes,
                                    .attribute_count = p->attribute_count};
}

static int put_content(struct pack *p, int fd, uint64_t size, struct atoll_error *err)
{
    static const uint8_t zeros[ATOLL_TAR_BLOCK];
    uint64_t left = size;
    int r = 0;

    while (r == 0 && left > 0) {
        ssize_t n = read(fd, p->buffer, (size_t)ATOLL_MIN(left, (uint64_t)BUFFER_BYTES));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return read_failed(p, n < 0 ? errno : EIO, err);
        r = atoll_deflate_write(p->out, p->buffer, (size_t)n, err);
        left -= (uint64_t)n;
    }
    if (r == 0 && atoll_tar_padding(size) > 0)
        r = atoll_deflate_write(p->out, zeros, atoll_tar_padding(size), err);
    return r;
}

/* The path under which a file with several names was packed before; NULL: this one is the first. */
static const char *earlier_name(struct pack *p, const struct stat *st)
{
    size_t n = strlen(p->path) + 1;
    struct linked *found, *l;
    char key[sizeof(l->key)];

    if (st->st_nlink < 2)
        return NULL;
    (void)snprintf(key, sizeof(key), "%llx:%llx", (unsigned long long)st->st_dev,
                   (unsigned long long)st->st_ino);
    found = atoll_map_get(&p->linked, key);
    if (found)
        return found->path;
    l = malloc(sizeof(*l) + n);
    if (!l)
        abort();
    memcpy(l->key, key, sizeof(key));
    memcpy(l->path, p->path, n);
    if (atoll_map_put(&p->linked, l->key, l) < 0)
        abort();
    return NULL;
}

static int put_file(struct pack *p, int dir, const char *name, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct atoll_tar_entry entry;
    const char *earlier;
    struct stat st;
    int r;

    if (fd < 0 || fstat(fd, &st) < 0)
        return read_failed(p, errno, err);
    earlier = earlier_name(p, &st);
    read_attributes(p, earlier ? -1 : fd);
    entry = entry_of(p, &st, earlier ? ATOLL_TAR_HARD_LINK : ATOLL_TAR_FILE, p->path);
    if (earlier)
        entry.target = earlier;
    r = put_head(p, &entry, err);
    return r < 0 || earlier ? r : put_content(p, fd, (uint64_t)st.st_size, err);
}

static int put_special(struct pack *p, int dir, const char *name, const struct stat *st,
                       struct atoll_error *err)
{
    const char *earlier = earlier_name(p, st);
    char target[PATH_MAX] = "";
    struct atoll_tar_entry entry;

    if (S_ISLNK(st->st_mode) && readlinkat(dir, name, target, sizeof(target) - 1) < 0)
        return read_failed(p, errno, err);
    read_attributes(p, -1);
    entry = entry_of(p, st,
                     earlier                ? ATOLL_TAR_HARD_LINK
                     : S_ISLNK(st->st_mode) ? ATOLL_TAR_SYMLINK
                                            : ATOLL_TAR_FIFO,
                     p->path);
    entry.target = earlier ? earlier : target;
    return put_head(p, &entry, err);
}

/* An empty file whose name is a mark: prefix and the last component, in the directory of p->path. */
static int put_mark(struct pack *p, size_t dir_len, const char *mark, const char *name,
                    struct atoll_error *err)
{
    char path[PATH_MAX + 16];
    struct atoll_tar_entry entry = {.type = ATOLL_TAR_FILE, .name = path, .target = ""};

    (void)snprintf(path, sizeof(path), "%.*s%s%s%s", (int)dir_len, p->path, dir_len ? "/" : "",
                   mark, name);
    return put_head(p, &entry, err);
}

static int put_tree(struct pack *p, int fd, struct atoll_error *err);

static bool is_opaque(int fd)
{
    char value[2];
    return fgetxattr(fd, OPAQUE_NAME, value, sizeof(value)) == 1 && value[0] == 'y';
}

/* A directory and what is in it; its descriptor is taken. The root has an entry if it is not like any
 * other: owned by root, 0755. */
static int put_directory(struct pack *p, int taken_fd, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int fd = taken_fd;
    char path[PATH_MAX + 2];
    struct atoll_tar_entry entry;
    struct stat st;
    int r = 0;

    if (fd < 0 || fstat(fd, &st) < 0)
        return read_failed(p, errno, err);
    read_attributes(p, fd);
    if (*p->path || (st.st_mode & 07777) != 0755 || st.st_uid != 0 || st.st_gid != 0 ||
        p->attribute_count > 0) {
        (void)snprintf(path, sizeof(path), "%s/", *p->path ? p->path : ".");
        entry = entry_of(p, &st, ATOLL_TAR_DIRECTORY, path);
        r = put_head(p, &entry, err);
    }
    if (r == 0 && !p->options->plain && is_opaque(fd))
        r = put_mark(p, strlen(p->path), ".wh..wh..opq", "", err);
    return r < 0 ? r : put_tree(p, ATOLL_TAKE_FD(fd), err);
}

static int put_entry(struct pack *p, int dir, size_t dir_len, const char *name,
                     struct atoll_error *err)
{
    struct stat st;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return read_failed(p, errno, err);
    if (!p->options->plain && strncmp(name, ".wh.", 4) == 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "%.200s cannot be part of an image: names that begin with .wh. have a "
                          "meaning there",
                          p->path);
    if (S_ISREG(st.st_mode))
        return put_file(p, dir, name, err);
    if (S_ISDIR(st.st_mode))
        return put_directory(p, openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
                             err);
    if (S_ISLNK(st.st_mode) || S_ISFIFO(st.st_mode))
        return put_special(p, dir, name, &st, err);
    if (!p->options->plain && S_ISCHR(st.st_mode) && st.st_rdev == makedev(0, 0))
        return put_mark(p, dir_len, ".wh.", name, err);
    return 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

struct names {
    char **items; /* owned, each too */
    size_t count, room;
};

static void names_done(struct names *n)
{
    for (size_t i = 0; i < n->count; i++)
        free(n->items[i]);
    free(n->items);
}

static int read_names(DIR *dir, struct names *n)
{
    const struct dirent *entry;

    while ((errno = 0, entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (n->count == n->room) {
            size_t room = n->room ? n->room * 2 : 32;
            char **grown = reallocarray(n->items, room, sizeof(*grown));

            if (!grown)
                return -ENOMEM;
            n->items = grown;
            n->room = room;
        }
        n->items[n->count] = strdup(entry->d_name);
        if (!n->items[n->count])
            return -ENOMEM;
        n->count++;
    }
    if (errno)
        return -errno;
    if (n->count > 1)
        qsort(n->items, n->count, sizeof(*n->items), compare_names);
    return 0;
}

/* The content of a directory, whose descriptor is taken. */
static int put_tree(struct pack *p, int fd, struct atoll_error *err)
{
    ATOLL_CLEANUP(names_done) struct names names = {0};
    size_t len = strlen(p->path);
    DIR *dir = p->depth < DEPTH_MAX ? fdopendir(fd) : NULL;
    int r;

    if (!dir) {
        r = read_failed(p, p->depth < DEPTH_MAX ? errno : ENAMETOOLONG, err);
        (void)close(fd);
        return r;
    }
    p->depth++;
    r = read_names(dir, &names);
    if (r < 0)
        r = read_failed(p, -r, err);
    for (size_t i = 0; r == 0 && i < names.count; i++) {
        if (len + strlen(names.items[i]) + 2 > sizeof(p->path)) {
            r = read_failed(p, ENAMETOOLONG, err);
            break;
        }
        (void)snprintf(p->path + len, sizeof(p->path) - len, "%s%s", len ? "/" : "",
                       names.items[i]);
        r = put_entry(p, fd, len, names.items[i], err);
        p->path[len] = '\0';
    }
    p->depth--;
    (void)closedir(dir);
    return r;
}

static void done(struct pack *p)
{
    struct linked *l;
    size_t pos = 0;

    while ((l = atoll_map_next(&p->linked, &pos)))
        free(l);
    atoll_map_done(&p->linked);
    atoll_deflate_close(p->out);
    atoll_buf_done(&p->head);
    free(p->buffer);
    free(p->names);
    free(p->values);
}

int atoll_pack(int dir, int out, const struct atoll_pack_options *options,
               struct atoll_pack_result *ret, struct atoll_error *err)
{
    static const uint8_t end[2 * ATOLL_TAR_BLOCK];
    struct pack p = {.options = options,
                     .result = ret,
                     .buffer = atoll_alloc(BUFFER_BYTES),
                     .names = atoll_alloc(NAMES_MAX),
                     .values = atoll_alloc(VALUE_MAX * ATTRIBUTES_MAX)};
    int r;

    *ret = (struct atoll_pack_result){0};
    atoll_map_init(&p.linked);
    atoll_buf_init(&p.head, HEAD_MAX);
    r = atoll_deflate_open(out, options->compression, options->level, &p.out, err);
    if (r == 0)
        r = put_directory(&p, openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), err);
    if (r == 0)
        r = atoll_deflate_write(p.out, end, sizeof(end), err);
    if (r == 0)
        r = atoll_deflate_finish(p.out, ret, err);
    done(&p);
    return r;
}

#include "unpack/squash.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>
#include "base/fd.h"
#include "base/map.h"
#include "unpack/attributes.h"

#define OPAQUE_NAME "user.overlay.opaque"
#define LAYERS_MAX 128
#define CHUNK ((size_t)256 * 1024)
#define DIRECTORY (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* A directory of the result. */
struct place {
    bool from[LAYERS_MAX]; /* the layers that it is made of */
    bool alone;            /* nothing of the layers below the result shows in it */
    char path[];           /* below the top; "" is the top */
};

/* The first name of a file that has several. */
struct linked {
    char key[48]; /* layer and inode */
    char path[];
};

struct squash {
    int layers[LAYERS_MAX]; /* owned; bottom first */
    size_t count;
    int out;               /* borrowed */
    struct place **places; /* owned, each too; parents first */
    size_t place_count, place_room;
    struct atoll_map linked; /* of struct linked, owned */
    struct atoll_squash_options limits;
    struct atoll_squash_result made;
};

/* The directory that is being made, opened. */
struct here {
    struct squash *s;
    const struct place *place;
    int from[LAYERS_MAX]; /* -EBADF: the layer is no part of it */
    int to;
};

static int open_below(int top, const char *path)
{
    struct open_how how = {.flags = DIRECTORY, .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    long fd = syscall(SYS_openat2, top, *path ? path : ".", &how, sizeof(how));

    return fd < 0 ? -errno : (int)fd;
}

/* -ENAMETOOLONG. */
static int join(char ret[static PATH_MAX], const char *dir, const char *name)
{
    int n = snprintf(ret, PATH_MAX, "%s%s%s", dir, *dir ? "/" : "", name);

    return n >= PATH_MAX ? -ENAMETOOLONG : 0;
}

static int add_place(struct squash *s, const struct place *like, const char *path)
{
    size_t n = strlen(path) + 1;
    struct place *made;

    if (s->place_count == s->place_room) {
        size_t room = s->place_room ? s->place_room * 2 : 64;
        struct place **grown = reallocarray(s->places, room, sizeof(struct place *));

        if (!grown)
            return -ENOMEM;
        s->places = grown;
        s->place_room = room;
    }
    made = malloc(sizeof(*made) + n);
    if (!made)
        return -ENOMEM;
    *made = *like;
    memcpy(made->path, path, n);
    s->places[s->place_count++] = made;
    return 0;
}

/* 0, 1 or -errno. */
static int is_opaque(int dir, const char *name)
{
    ATOLL_AUTOCLOSE int fd = openat(dir, name, DIRECTORY);
    char value[2];

    if (fd < 0)
        return -errno;
    return fgetxattr(fd, OPAQUE_NAME, value, sizeof(value)) == 1 && value[0] == 'y';
}

static int count_bytes(struct squash *s, const struct stat *st)
{
    s->made.bytes += ATOLL_MIN((uint64_t)st->st_size, (uint64_t)st->st_blocks * 512);
    return s->made.bytes > s->limits.max_bytes ? -E2BIG : 0;
}

/* Content. */

static int copy_by_hand(int from, int to, off_t at, off_t end)
{
    static char chunk[CHUNK]; /* one thread */

    while (at < end) {
        ssize_t n = pread(from, chunk, ATOLL_MIN(sizeof(chunk), (size_t)(end - at)), at);

        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        for (ssize_t done = 0, w; done < n; done += w) {
            w = pwrite(to, chunk + done, (size_t)(n - done), at + done);
            if (w < 0)
                return -errno;
        }
        at += n;
    }
    return 0;
}

/* By the kernel where it can, which shares blocks if the file system can. */
static int copy_range(int from, int to, off_t at, off_t end)
{
    while (at < end) {
        loff_t in = at, out = at;
        ssize_t n = copy_file_range(from, &in, to, &out, (size_t)(end - at), 0);

        if (n <= 0)
            return n < 0 && atoll_errno_is_full(errno) ? -errno : copy_by_hand(from, to, at, end);
        at += n;
    }
    return 0;
}

/* The holes stay. */
static int copy_content(int from, int to, off_t end)
{
    off_t at = 0, copied = 0;

    while (at < end) {
        off_t data = lseek(from, at, SEEK_DATA), hole;
        int r;

        if (data < 0 && errno == ENXIO)
            break;
        data = data < 0 ? at : data;
        hole = lseek(from, data, SEEK_HOLE);
        hole = hole < 0 || hole > end ? end : hole;
        r = data < hole ? copy_range(from, to, data, hole) : 0;
        if (r < 0)
            return r;
        at = copied = hole;
    }
    return copied < end && ftruncate(to, end) < 0 ? -errno : 0;
}

/* Entries. */

static int set_owner_and_time(const struct here *h, const char *name, const struct stat *st)
{
    const struct timespec times[] = {st->st_mtim, st->st_mtim};

    return fchownat(h->to, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0 ||
                   utimensat(h->to, name, times, AT_SYMLINK_NOFOLLOW) < 0
               ? -errno
               : 0;
}

static int copy_symlink(const struct here *h, size_t layer, const char *name, const struct stat *st)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(h->from[layer], name, target, sizeof(target) - 1);

    if (n < 0)
        return -errno;
    target[n] = '\0';
    return symlinkat(target, h->to, name) < 0 ? -errno : set_owner_and_time(h, name, st);
}

static int copy_fifo(const struct here *h, const char *name, const struct stat *st)
{
    int r = mknodat(h->to, name, S_IFIFO | 0600, 0) < 0 ? -errno : set_owner_and_time(h, name, st);

    /* After the owner: a change of it clears the bits of set-user-id and set-group-id. */
    return r == 0 && fchmodat(h->to, name, st->st_mode & 07777, 0) < 0 ? -errno : r;
}

static int copy_new_file(const struct here *h, size_t layer, const char *name)
{
    ATOLL_AUTOCLOSE int from =
        openat(h->from[layer], name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    ATOLL_AUTOCLOSE int to = ATOLL_NO_FD;
    struct stat st;
    int r;

    if (from < 0 || fstat(from, &st) < 0)
        return -errno;
    r = count_bytes(h->s, &st);
    if (r < 0)
        return r;
    to = openat(h->to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (to < 0)
        return -errno;
    r = copy_content(from, to, st.st_size);
    return r < 0 ? r : atoll_attributes_copy(from, to);
}

static int note_name(struct squash *s, const char *key, const char *path)
{
    size_t n = strlen(path) + 1;
    struct linked *l = malloc(sizeof(*l) + n);
    int r;

    if (!l)
        return -ENOMEM;
    (void)snprintf(l->key, sizeof(l->key), "%s", key);
    memcpy(l->path, path, n);
    r = atoll_map_put(&s->linked, l->key, l);
    if (r < 0)
        free(l);
    return r == -EEXIST ? 0
                        : r; /* it has as many names as are possible: this one is another file */
}

static int copy_file(const struct here *h, size_t layer, const char *name, const struct stat *st)
{
    char key[sizeof(((struct linked *)0)->key)], path[PATH_MAX];
    const struct linked *l;
    int r;

    if (st->st_nlink < 2)
        return copy_new_file(h, layer, name);
    (void)snprintf(key, sizeof(key), "%zu:%llx", layer, (unsigned long long)st->st_ino);
    l = atoll_map_get(&h->s->linked, key);
    if (l && linkat(h->s->out, l->path, h->to, name, 0) == 0)
        return 0;
    if (l && errno != EMLINK)
        return -errno;
    r = join(path, h->place->path, name);
    if (r == 0)
        r = copy_new_file(h, layer, name);
    return r < 0 ? r : note_name(h->s, key, path);
}

/* Which layers a directory is made of, below the uppermost one that has it. 1: what is below the result must not
 * show in it. */
static int find_parts(const struct here *h, size_t layer, const char *name, struct place *ret)
{
    struct stat st;
    int ended = is_opaque(h->from[layer], name);

    ret->from[layer] = true;
    for (size_t i = layer; ended == 0 && i-- > 0;) {
        if (h->from[i] < 0)
            continue;
        if (fstatat(h->from[i], name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            ended = errno == ENOENT ? 0 : -errno;
            continue;
        }
        ret->from[i] = S_ISDIR(st.st_mode);
        ended = S_ISDIR(st.st_mode) ? is_opaque(h->from[i], name) : 1;
    }
    return ended;
}

/* It is filled, and gets its attributes, later. */
static int make_directory(const struct here *h, size_t layer, const char *name)
{
    char path[PATH_MAX];
    struct place place = {0};
    int r = join(path, h->place->path, name),
        ended = r < 0 ? r : find_parts(h, layer, name, &place);
    ATOLL_AUTOCLOSE int made = ATOLL_NO_FD;

    if (ended < 0)
        return ended;
    place.alone = ended || h->place->alone;
    if (mkdirat(h->to, name, 0700) < 0)
        return -errno;
    if (ended && !h->place->alone) {
        made = openat(h->to, name, DIRECTORY);
        if (made < 0 || fsetxattr(made, OPAQUE_NAME, "y", 1, 0) < 0)
            return -errno;
    }
    return add_place(h->s, &place, path);
}

static int add_whiteout(const struct here *h, const char *name)
{
    return mknodat(h->to, name, S_IFCHR, makedev(0, 0)) < 0 ? -errno : 0;
}

static int add_entry(const struct here *h, size_t layer, const char *name)
{
    struct stat st;
    bool kept;

    if (fstatat(h->from[layer], name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    kept =
        S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) || S_ISLNK(st.st_mode) || S_ISFIFO(st.st_mode);
    if (!kept && h->place->alone)
        return 0;
    if (++h->s->made.files > h->s->limits.max_files)
        return -E2BIG;
    return S_ISDIR(st.st_mode)    ? make_directory(h, layer, name)
           : S_ISREG(st.st_mode)  ? copy_file(h, layer, name, &st)
           : S_ISLNK(st.st_mode)  ? copy_symlink(h, layer, name, &st)
           : S_ISFIFO(st.st_mode) ? copy_fifo(h, name, &st)
                                  : add_whiteout(h, name);
}

/* Whether a layer above has the name. 0, 1 or -errno. */
static int is_decided(const struct here *h, size_t layer, const char *name)
{
    struct stat st;

    for (size_t i = layer + 1; i < h->s->count; i++) {
        if (h->from[i] < 0)
            continue;
        if (fstatat(h->from[i], name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            return 1;
        if (errno != ENOENT)
            return -errno;
    }
    return 0;
}

static int add_layer(const struct here *h, size_t layer)
{
    int copy = openat(h->from[layer], ".", DIRECTORY), r = 0;
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    const struct dirent *entry;

    if (!dir) {
        r = -errno;
        if (copy >= 0)
            (void)close(copy);
        return r;
    }
    while (r >= 0 && (errno = 0, entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        r = is_decided(h, layer, entry->d_name);
        if (r == 0)
            r = add_entry(h, layer, entry->d_name);
    }
    if (r >= 0)
        r = -errno;
    (void)closedir(dir);
    return r;
}

static int fill_place(struct squash *s, const struct place *place)
{
    struct here h = {.s = s, .place = place, .to = open_below(s->out, place->path)};
    int r = ATOLL_MIN(h.to, 0);

    for (size_t i = 0; i < s->count; i++) {
        h.from[i] = r == 0 && place->from[i] ? open_below(s->layers[i], place->path) : -EBADF;
        if (r == 0 && place->from[i] && h.from[i] < 0)
            r = h.from[i];
    }
    for (size_t i = s->count; r == 0 && i-- > 0;)
        if (h.from[i] >= 0)
            r = add_layer(&h, i);
    for (size_t i = 0; i < s->count; i++)
        if (h.from[i] >= 0)
            (void)close(h.from[i]);
    if (h.to >= 0)
        (void)close(h.to);
    return r;
}

/* Last, because the times of directories change while they are filled. */
static int finish_place(const struct squash *s, const struct place *place)
{
    size_t top = s->count;
    ATOLL_AUTOCLOSE int from = ATOLL_NO_FD;
    ATOLL_AUTOCLOSE int to = open_below(s->out, place->path);

    while (top-- > 0 && !place->from[top])
        ;
    from = open_below(s->layers[top], place->path);
    return to < 0 ? to : from < 0 ? from : atoll_attributes_copy(from, to);
}

static int fail(struct atoll_error *err, int errnum, const char *path)
{
    if (errnum == E2BIG)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, errnum,
                          "the layers have more than one layer may have");
    if (atoll_errno_is_full(errnum))
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, errnum,
                          "no room on the disk for %.200s", path);
    if (errnum == ENAMETOOLONG)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, errnum,
                          "a path below %.200s is too long", path);
    return atoll_fail_errno(err, errnum, "make the directory %.200s", path);
}

static int open_layers(struct squash *s, char *const *dirs, size_t count, struct atoll_error *err)
{
    if (count == 0 || count > LAYERS_MAX)
        return atoll_fail_errno(err, E2BIG, "stack of layers");
    for (size_t i = 0; i < count; i++) {
        s->layers[i] = open(dirs[i], DIRECTORY);
        if (s->layers[i] < 0)
            return atoll_fail_errno(err, errno, "open %.200s", dirs[i]);
        s->count++;
    }
    return 0;
}

static int squash_all(struct squash *s, struct atoll_error *err)
{
    struct place top = {0};
    int r;

    for (size_t i = 0; i < s->count; i++)
        top.from[i] = true; /* overlayfs does not look for a mark there */
    r = add_place(s, &top, "");
    if (r < 0)
        return fail(err, -r, "");
    for (size_t i = 0; r == 0 && i < s->place_count; i++) {
        r = fill_place(s, s->places[i]);
        if (r < 0)
            return fail(err, -r, s->places[i]->path);
    }
    for (size_t i = 0; r == 0 && i < s->place_count; i++) {
        r = finish_place(s, s->places[i]);
        if (r < 0)
            return fail(err, -r, s->places[i]->path);
    }
    return 0;
}

static void done(struct squash *s)
{
    size_t pos = 0;
    void *item;

    for (size_t i = 0; i < s->count; i++)
        (void)close(s->layers[i]);
    for (size_t i = 0; i < s->place_count; i++)
        free(s->places[i]);
    free(s->places);
    while ((item = atoll_map_next(&s->linked, &pos)) != NULL)
        free(item);
    atoll_map_done(&s->linked);
}

int atoll_squash(char *const *dirs, size_t count, int out,
                 const struct atoll_squash_options *options, struct atoll_squash_result *ret,
                 struct atoll_error *err)
{
    struct squash s = {.out = out, .limits = *options};
    int r;

    atoll_map_init(&s.linked);
    (void)umask(0);
    r = open_layers(&s, dirs, count, err);
    if (r == 0)
        r = squash_all(&s, err);
    *ret = s.made;
    done(&s);
    return r;
}

#include "unpack/settle.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>
#include "base/fd.h"
#include "unpack/attributes.h"
#include "unpack/tree_write.h"

#define OPAQUE_NAME "user.overlay.opaque"
#define NAMES_MAX ((size_t)64 * 1024)
#define DIRECTORY (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

struct settle {
    int layers[128]; /* owned; bottom first */
    size_t count;
    int out;      /* borrowed */
    char **paths; /* owned, each too: directories of `out`, parents first */
    size_t path_count, path_room;
    char names[NAMES_MAX];
};

static bool has_mark(int fd, const char *name)
{
    char value[2];
    return fgetxattr(fd, name, value, sizeof(value)) == 1 && value[0] == 'y';
}

/* Opens a directory of one layer: a descriptor, -ENOENT if the layer does not have it. *ended: what lower
 * layers have at this path is hidden. */
static int open_in(int layer, const char *path, bool *ended, struct atoll_error *err)
{
    char name[NAME_MAX + 1];
    int fd = openat(layer, ".", DIRECTORY);

    while (fd >= 0 && *path) {
        size_t n = strcspn(path, "/");
        int next;

        if (n >= sizeof(name)) {
            (void)close(fd);
            return atoll_fail_errno(err, ENAMETOOLONG, "open %.200s", path);
        }
        memcpy(name, path, n);
        name[n] = '\0';
        *ended = *ended || has_mark(fd, OPAQUE_NAME);
        next = openat(fd, name, DIRECTORY);
        (void)close(fd);
        fd = next < 0 ? -errno : next;
        path += n + (path[n] == '/');
    }
    if (fd == -ENOTDIR || fd == -ELOOP) { /* a file, a link, a whiteout */
        *ended = true;
        return -ENOENT;
    }
    return fd >= 0 || fd == -ENOENT ? fd : atoll_fail_errno(err, -fd, "open %.200s", path);
}

/* Whether a directory differs from an implied one above it, except for its time. */
static bool differs(struct settle *s, int implied, int fd)
{
    struct stat a, b;
    ssize_t n = flistxattr(fd, s->names, sizeof(s->names));

    for (ssize_t i = 0; i < n; i += (ssize_t)strlen(s->names + i) + 1)
        if (atoll_tree_is_kept_xattr(s->names + i))
            return true;
    return fstat(implied, &a) < 0 || fstat(fd, &b) < 0 || a.st_mode != b.st_mode ||
           a.st_uid != b.st_uid || a.st_gid != b.st_gid;
}

/* The directory whose attributes count for path: that of the uppermost layer with an entry for it, or else
 * the uppermost one. *ret_hidden: an implied one is above it and differs. -ENOENT: the stack does not
 * show it. */
static int resolve(struct settle *s, const char *path, bool *ret_hidden, struct atoll_error *err)
{
    int implied = -ENOENT;
    bool ended = false;

    for (size_t i = s->count; i-- > 0 && !ended;) {
        int fd = open_in(s->layers[i], path, &ended, err);

        if (fd == -ENOENT)
            continue;
        if (fd >= 0 && implied < 0 && has_mark(fd, ATOLL_TREE_IMPLIED)) {
            implied = fd;
            continue;
        }
        if (fd >= 0 && has_mark(fd, ATOLL_TREE_IMPLIED)) {
            (void)close(fd);
            continue;
        }
        *ret_hidden = fd >= 0 && implied >= 0 && differs(s, implied, fd);
        if (implied >= 0)
            (void)close(implied);
        return fd;
    }
    *ret_hidden = false;
    return implied;
}

static int keep_path(struct settle *s, const char *path)
{
    if (s->path_count == s->path_room) {
        size_t room = s->path_room ? s->path_room * 2 : 64;
        char **grown = reallocarray(s->paths, room, sizeof(*grown));

        if (!grown)
            return -ENOMEM;
        s->paths = grown;
        s->path_room = room;
    }
    s->paths[s->path_count] = strdup(path);
    return s->paths[s->path_count++] ? 0 : -ENOMEM;
}

/* Makes the directory in the result, after those that lead to it. */
static int make_in_result(struct settle *s, const char *path, struct atoll_error *err)
{
    char part[PATH_MAX];
    int r = 0;

    if (strlen(path) >= sizeof(part))
        return atoll_fail_errno(err, ENAMETOOLONG, "make %.200s", path);
    for (const char *at = path; r == 0 && at; at = strchr(at, '/') ? strchr(at, '/') + 1 : NULL) {
        size_t n = (size_t)(at - path) + strcspn(at, "/");

        memcpy(part, path, n);
        part[n] = '\0';
        if (mkdirat(s->out, part, 0755) == 0)
            r = keep_path(s, part);
        else if (errno != EEXIST)
            r = -errno;
    }
    return r < 0 ? atoll_tree_failed(err, -r, path, "make") : 0;
}

static int settle_one(struct settle *s, const char *path, struct atoll_error *err)
{
    bool hidden;
    int fd = resolve(s, path, &hidden, err);

    if (fd < 0)
        return fd == -ENOENT ? 0 : fd;
    (void)close(fd);
    return hidden ? make_in_result(s, path, err) : 0;
}

/* Looks for implied directories of a layer. */
static int search(struct settle *s, char *dir, struct atoll_error *err)
{
    char *const roots[] = {dir, NULL};
    FTS *fts = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL);
    const size_t skip = strlen(dir) + 1;
    const FTSENT *entry;
    char value[2];
    int r = fts ? 0 : atoll_fail_errno(err, errno, "read %.200s", dir);

    while (r == 0 && (errno = 0, entry = fts_read(fts)) != NULL) {
        if (entry->fts_info == FTS_DNR || entry->fts_info == FTS_ERR)
            r = atoll_fail_errno(err, entry->fts_errno, "read %.200s", entry->fts_path);
        else if (entry->fts_info == FTS_D && entry->fts_level > 0 &&
                 lgetxattr(entry->fts_path, ATOLL_TREE_IMPLIED, value, sizeof(value)) == 1)
            r = settle_one(s, entry->fts_path + skip, err);
    }
    if (r == 0 && errno)
        r = atoll_fail_errno(err, errno, "read %.200s", dir);
    if (fts)
        (void)fts_close(fts);
    return r;
}

/* Gives the directories of the result their attributes: last, because their times change before. */
static int finish(struct settle *s, struct atoll_error *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < s->path_count; i++) {
        bool hidden;
        int from = resolve(s, s->paths[i], &hidden, err);
        ATOLL_AUTOCLOSE int to = openat(s->out, s->paths[i], DIRECTORY);

        if (from < 0)
            return from == -ENOENT ? atoll_fail_errno(err, EIO, "find %.200s", s->paths[i]) : from;
        r = to < 0 ? -errno : atoll_attributes_copy(from, to);
        (void)close(from);
        if (r < 0)
            return atoll_tree_failed(err, -r, s->paths[i], "set the attributes of");
    }
    return r;
}

static void done(struct settle *s)
{
    for (size_t i = 0; i < s->count; i++)
        (void)close(s->layers[i]);
    for (size_t i = 0; i < s->path_count; i++)
        free(s->paths[i]);
    free(s->paths);
    free(s);
}

int atoll_settle(char *const *dirs, size_t count, int out, uint64_t *ret_made,
                 struct atoll_error *err)
{
    struct settle *s = calloc(1, sizeof(*s));
    int r = 0;

    if (!s)
        abort();
    s->out = out;
    (void)umask(0);
    if (count > ATOLL_ARRAY_LEN(s->layers))
        r = atoll_fail_errno(err, E2BIG, "stack of layers");
    for (size_t i = 0; r == 0 && i < count; i++) {
        s->layers[i] = open(dirs[i], DIRECTORY);
        if (s->layers[i] < 0)
            r = atoll_fail_errno(err, errno, "open %.200s", dirs[i]);
        else
            s->count++;
    }
    for (size_t i = 1; r == 0 && i < count; i++) /* below the lowest there is nothing */
        r = search(s, dirs[i], err);
    if (r == 0)
        r = finish(s, err);
    *ret_made = s->path_count;
    done(s);
    return r;
}

#include "spawn/upper.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>
#include "base/map.h"
#include "base/memory.h"
#include "spawn/paths.h"
#include "sys/tree.h"

/* Memory of an entry of a table besides its own bytes: the allocator's, and its part of the map while the
 * map grows. */
#define ENTRY_EXTRA 112
/* Room that a copy leaves on its disk: so many bytes, or this part of a small disk. */
#define LEFT_FREE (UINT64_C(256) << 20)
#define LEFT_FREE_PART 32
/* Bytes between two looks at the room. */
#define LOOK_EVERY (UINT64_C(8) << 20)

/* A map whose entries are owned. */
struct table {
    struct atoll_map map;
    size_t bytes; /* of all entries, with ENTRY_EXTRA each */
};

/* What was copied from a path, if that can be told later. */
struct seen {
    uint64_t inode;
    struct timespec changed; /* tv_nsec -1: copy it again in any case */
    char path[];
};

/* The first name of a file that has several. */
struct linked {
    char inode[20];
    struct timespec changed; /* as in struct seen */
    char path[];
};

struct atoll_upper {
    struct atoll_upper_options o;
    struct atoll_walk walk;
    struct table seen;   /* of struct seen */
    struct table linked; /* of struct linked; of this pass */
    bool last, first;    /* pass */
    bool forgot;         /* `seen` lacks something that a pass has copied */
    uint64_t budget;     /* bytes that a pass may copy which is not the last one */
    uint64_t until_look; /* bytes */
    uid_t self;
    int death_signal; /* 0: none */
    uint64_t again;
    struct atoll_walk_sum sum;
};

/* A directory that is being copied. */
struct place {
    int from, to;
    const char *path;
    bool touched; /* an entry of the copy was made or removed */
};

static const struct timespec unsure = {.tv_nsec = -1};

struct atoll_upper *atoll_upper_new(const struct atoll_upper_options *options)
{
    struct atoll_upper *u = atoll_alloc(sizeof(*u));
    struct statvfs fs;

    *u = (struct atoll_upper){.o = *options, .first = true, .self = geteuid()};
    (void)prctl(PR_GET_PDEATHSIG, &u->death_signal, 0, 0, 0);
    if (u->o.table_bytes == 0)
        u->o.table_bytes = ATOLL_UPPER_TABLE;
    atoll_map_init(&u->seen.map);
    atoll_map_init(&u->linked.map);
    if (fstatvfs(options->from, &fs) == 0)
        u->budget = (uint64_t)fs.f_blocks * fs.f_frsize;
    if (u->budget == 0) /* a file system without a limit */
        u->budget = UINT64_MAX;
    return u;
}

static void empty_table(struct table *table)
{
    void *item;
    size_t pos = 0;

    while ((item = atoll_map_next(&table->map, &pos)) != NULL)
        free(item);
    atoll_map_done(&table->map);
    *table = (struct table){0};
    atoll_map_init(&table->map);
}

static bool has_place(const struct atoll_upper *u, const struct table *table, size_t size)
{
    return table->bytes + ENTRY_EXTRA + size <= u->o.table_bytes;
}

/* Takes the entry, of `size` bytes, or frees it. -EEXIST, -ENOMEM. */
static int put_entry(struct table *table, const char *key, void *entry, size_t size)
{
    int r = atoll_map_put(&table->map, key, entry);

    if (r < 0)
        free(entry);
    else
        table->bytes += ENTRY_EXTRA + size;
    return r;
}

struct atoll_upper *atoll_upper_free(struct atoll_upper *u)
{
    if (!u)
        return NULL;
    atoll_walk_done(&u->walk);
    empty_table(&u->seen);
    empty_table(&u->linked);
    free(u);
    return NULL;
}

struct atoll_walk_sum atoll_upper_sum(const struct atoll_upper *u)
{
    return u->sum;
}

uint64_t atoll_upper_again(const struct atoll_upper *u)
{
    return u->again;
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/* The clock of file systems, which goes in steps. */
static struct timespec fs_now(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return now;
}

/* Whether the time t was over at `now`, so that a later change shows. */
static bool is_over(const struct timespec *t, const struct timespec *now)
{
    return t->tv_sec < now->tv_sec || (t->tv_sec == now->tv_sec && t->tv_nsec < now->tv_nsec);
}

/* What is not remembered is copied again. */
static void remember(struct atoll_upper *u, const char *path, const struct stat *st,
                     struct timespec changed)
{
    size_t size = sizeof(struct seen) + strlen(path) + 1;
    struct seen *s;

    if (u->last)
        return;
    s = has_place(u, &u->seen, size) ? malloc(size) : NULL;
    if (!s) {
        u->forgot = true;
        return;
    }
    *s = (struct seen){.inode = st->st_ino, .changed = changed};
    (void)strcpy(s->path, path);
    if (put_entry(&u->seen, s->path, s, size) < 0)
        u->forgot = true;
}

/* All names of a file must agree, or their copies would be two files: if one may be forgotten, all are
 * copied again. */
static bool is_unchanged(const struct atoll_upper *u, const char *path, const struct stat *st)
{
    bool split = u->forgot && !S_ISDIR(st->st_mode) && st->st_nlink > 1;
    const struct seen *s = u->first || split ? NULL : atoll_map_get(&u->seen.map, path);

    return s && s->inode == st->st_ino && same_time(&s->changed, &st->st_ctim);
}

static bool is_skipped(const struct atoll_upper *u, const char *path)
{
    for (const char *const *skip = u->o.skip; skip && *skip; skip++)
        if (strcmp(*skip, path) == 0)
            return true;
    return false;
}

static bool is_whiteout(const struct stat *st)
{
    return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

static bool is_kept(const struct atoll_upper *u, const char *path, const struct stat *st)
{
    return !is_skipped(u, path) &&
           (S_ISREG(st->st_mode) || S_ISDIR(st->st_mode) || S_ISLNK(st->st_mode) ||
            S_ISFIFO(st->st_mode) || is_whiteout(st));
}

/* The id by which the kernel checks who opens and leases files. A change of it clears the signal of the
 * parent's death. */
static void act_as(const struct atoll_upper *u, uid_t id)
{
    (void)setfsuid(id);
    (void)prctl(PR_SET_PDEATHSIG, u->death_signal, 0, 0, 0);
}

/* Whether nothing has the file open for writing, or mapped: then a read lease is possible. Leases are for
 * the owner. */
static bool is_quiet(const struct atoll_upper *u, int fd, const struct stat *st)
{
    bool quiet;

    if (st->st_uid != u->self)
        act_as(u, st->st_uid);
    quiet = fcntl(fd, F_SETLEASE, F_RDLCK) == 0 && fcntl(fd, F_SETLEASE, F_UNLCK) == 0;
    if (st->st_uid != u->self)
        act_as(u, u->self);
    return quiet;
}

/* The copy of a name, whatever it is. */
static int discard(const struct atoll_upper *u, struct place *at, const char *name)
{
    if (u->first)
        return 0;
    at->touched = true;
    if (unlinkat(at->to, name, 0) == 0 || errno == ENOENT)
        return 0;
    return errno == EISDIR || errno == EPERM ? atoll_tree_remove(at->to, name) : -errno;
}

static int set_owner_and_times(const struct atoll_upper *u, const struct place *at,
                               const char *name, const struct stat *st)
{
    const struct timespec times[] = {st->st_atim, st->st_mtim};

    return fchownat(at->to, name, atoll_upper_owner(&u->o, st->st_uid),
                    atoll_upper_owner(&u->o, st->st_gid), AT_SYMLINK_NOFOLLOW) < 0 ||
                   utimensat(at->to, name, times, AT_SYMLINK_NOFOLLOW) < 0
               ? -errno
               : 0;
}

static int copy_link(const struct atoll_upper *u, struct place *at, const char *name,
                     const struct stat *st)
{
    char target[ATOLL_WALK_PATH];
    ssize_t n = readlinkat(at->from, name, target, sizeof(target) - 1);

    if (n < 0)
        return -errno;
    target[n] = '\0';
    if (symlinkat(target, at->to, name) < 0)
        return -errno;
    return set_owner_and_times(u, at, name, st);
}

/* A pipe or a whiteout. */
static int copy_node(const struct atoll_upper *u, struct place *at, const char *name,
                     const struct stat *st)
{
    int r = mknodat(at->to, name, (st->st_mode & S_IFMT) | 0600, 0) < 0
                ? -errno
                : set_owner_and_times(u, at, name, st);

    /* After the owner: a change of it clears the bits of set-user-id and set-group-id. */
    return r == 0 && fchmodat(at->to, name, st->st_mode & 07777, 0) < 0 ? -errno : r;
}

/* Links another name of a file that this pass has copied. 1: the file has to be copied. */
static int copy_name(struct atoll_upper *u, struct place *at, const char *path, const char *name,
                     const struct stat *st)
{
    char key[20];
    const struct linked *l;

    (void)snprintf(key, sizeof(key), "%llx", (unsigned long long)st->st_ino);
    l = atoll_map_get(&u->linked.map, key);
    if (!l)
        return 1;
    if (linkat(u->o.to, l->path, at->to, name, 0) < 0)
        return errno == EMLINK ? 1 : -errno;
    remember(u, path, st, l->changed);
    return 0;
}

static int note_name(struct atoll_upper *u, const char *path, const struct stat *st,
                     struct timespec changed)
{
    size_t size = sizeof(struct linked) + strlen(path) + 1;
    struct linked *l;
    int r;

    if (!has_place(u, &u->linked, size))
        return -EMLINK;
    l = malloc(size);
    if (!l)
        return -ENOMEM;
    l->changed = changed;
    (void)snprintf(l->inode, sizeof(l->inode), "%llx", (unsigned long long)st->st_ino);
    (void)strcpy(l->path, path);
    r = put_entry(&u->linked, l->inode, l, size);
    return r == -EEXIST ? 0 : r; /* the file system of the copy allows no more names of it */
}

/* -ENOSPC: a file of this size would take what others need. */
static int need_room(struct atoll_upper *u, uint64_t bytes)
{
    struct statvfs fs;
    uint64_t all, left;

    if (bytes < u->until_look) {
        u->until_look -= bytes;
        return 0;
    }
    if (fstatvfs(u->o.to, &fs) < 0)
        return -errno;
    all = (uint64_t)fs.f_blocks * fs.f_frsize;
    left = (uint64_t)fs.f_bavail * fs.f_frsize;
    u->until_look = LOOK_EVERY;
    return left < bytes || left - bytes < ATOLL_MIN(LEFT_FREE, all / LEFT_FREE_PART) ? -ENOSPC : 0;
}

static int copy_opened(struct atoll_upper *u, struct place *at, int from, const char *name,
                       const struct stat *st)
{
    ATOLL_AUTOCLOSE int to =
        openat(at->to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int r = to < 0 ? -errno : u->first ? 0 : atoll_upper_clear(to); /* those of a default ACL */

    if (r == 0)
        r = atoll_upper_content(from, to, st);
    return r < 0 ? r : atoll_upper_attributes(&u->o, from, to, st);
}

static int copy_file(struct atoll_upper *u, struct place *at, const char *path, const char *name,
                     struct stat *st)
{
    ATOLL_AUTOCLOSE int from = ATOLL_NO_FD;
    struct timespec now, changed = unsure;
    int r = st->st_nlink > 1 ? copy_name(u, at, path, name, st) : 1;

    if (r <= 0)
        return r;
    from = openat(at->from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (from < 0)
        return -errno;
    now = fs_now();
    r = u->last || is_quiet(u, from, st);
    if (fstat(from, st) < 0)
        return -errno;
    if (!S_ISREG(st->st_mode) || st->st_nlink == 0)
        return -ESTALE;
    if (r && is_over(&st->st_ctim, &now))
        changed = st->st_ctim;
    r = need_room(u, atoll_walk_bytes(st));
    if (r == 0)
        r = copy_opened(u, at, from, name, st);
    if (r < 0)
        return r;
    u->budget -= ATOLL_MIN(u->budget, atoll_walk_bytes(st));
    if (st->st_nlink > 1)
        r = note_name(u, path, st, changed);
    remember(u, path, st, changed);
    return r;
}

/* The directory is filled, and gets its attributes, when the walk comes to it. */
static int copy_directory(struct atoll_upper *u, struct place *at, const char *path,
                          const char *name)
{
    struct stat st;

    if (mkdirat(at->to, name, 0700) == 0) {
        at->touched = true;
        return atoll_walk_push(&u->walk, path);
    }
    if (errno != EEXIST || fstatat(at->to, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (!S_ISDIR(st.st_mode)) {
        int r = discard(u, at, name);
        if (r < 0 || mkdirat(at->to, name, 0700) < 0)
            return r < 0 ? r : -errno;
    }
    return atoll_walk_push(&u->walk, path);
}

static int copy_other(struct atoll_upper *u, struct place *at, const char *path, const char *name,
                      struct stat *st)
{
    struct timespec now = fs_now();
    int r = discard(u, at, name);

    if (r < 0)
        return r;
    u->again++;
    if (S_ISREG(st->st_mode))
        return copy_file(u, at, path, name, st);
    r = S_ISLNK(st->st_mode) ? copy_link(u, at, name, st) : copy_node(u, at, name, st);
    if (r == 0)
        remember(u, path, st, is_over(&st->st_ctim, &now) ? st->st_ctim : unsure);
    return r;
}

static void add_to_sum(struct atoll_upper *u, const struct stat *st)
{
    u->sum.files++;
    if (S_ISREG(st->st_mode))
        u->sum.bytes += atoll_walk_share(st);
}

static int copy_entry(struct atoll_upper *u, struct place *at, const char *name)
{
    char path[ATOLL_WALK_PATH];
    struct stat st;
    int r = atoll_walk_join(path, at->path, name);

    if (r < 0)
        return r;
    if (fstatat(at->from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (!is_kept(u, path, &st))
        return 0;
    if (S_ISDIR(st.st_mode))
        r = copy_directory(u, at, path, name);
    else
        r = is_unchanged(u, path, &st) ? 0 : copy_other(u, at, path, name, &st);
    if (r == 0)
        add_to_sum(u, &st);
    return r;
}

/* Errors of a source that changes meanwhile. */
static bool is_passing(const struct atoll_upper *u, int r)
{
    return !u->last && (r == -ENOENT || r == -ESTALE || r == -ENOTDIR || r == -ELOOP ||
                        r == -ENXIO || r == -EEXIST || r == -EXDEV);
}

static int each_entry(struct atoll_upper *u, struct place *at, int fd,
                      int (*fn)(struct atoll_upper *u, struct place *at, const char *name))
{
    int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *entry;
    int r = dir ? 0 : -errno;

    if (!dir && copy >= 0)
        (void)close(copy);
    while (r == 0 && dir && (u->last || u->budget > 0) && (entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        r = fn(u, at, entry->d_name);
        r = is_passing(u, r) ? 0 : r;
    }
    if (dir)
        (void)closedir(dir);
    return r;
}

/* Of the copy: removes what the source has no more. */
static int prune_entry(struct atoll_upper *u, struct place *at, const char *name)
{
    char path[ATOLL_WALK_PATH];
    struct stat st;
    int r = atoll_walk_join(path, at->path, name);

    if (r == 0 && is_skipped(u, path)) /* usr, which is another copy's */
        return 0;
    if (r == 0 && fstatat(at->from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? discard(u, at, name) : -errno;
    return r < 0 ? r : is_kept(u, path, &st) ? 0 : discard(u, at, name);
}

static int copy_place(struct atoll_upper *u, struct place *at)
{
    struct timespec now = fs_now();
    bool same;
    struct stat st;
    int r;

    if (fstat(at->from, &st) < 0)
        return -errno;
    same = is_unchanged(u, at->path, &st);
    r = same || u->first ? 0 : each_entry(u, at, at->to, prune_entry);
    if (r == 0)
        r = each_entry(u, at, at->from, copy_entry);
    if (r == 0 && !same && !u->first)
        r = atoll_upper_clear(at->to);
    if (r == 0 && (!same || at->touched))
        r = atoll_upper_attributes(&u->o, at->from, at->to, &st);
    u->again += !same;
    if (r == 0)
        remember(u, at->path, &st, is_over(&st.st_ctim, &now) ? st.st_ctim : unsure);
    return r;
}

static int copy_path(struct atoll_upper *u, const char *path)
{
    const int flags = O_RDONLY | O_DIRECTORY;
    ATOLL_AUTOCLOSE int from = atoll_paths_open(u->o.from, *path ? path : ".", flags);
    ATOLL_AUTOCLOSE int to = from < 0 ? from : atoll_paths_open(u->o.to, *path ? path : ".", flags);
    struct place at = {.from = from, .to = to, .path = path};
    int r = from < 0 ? from : to;

    if (r >= 0)
        r = copy_place(u, &at);
    return is_passing(u, r) ? 0 : r;
}

int atoll_upper_pass(struct atoll_upper *u, bool last)
{
    char path[ATOLL_WALK_PATH];
    int r;

    u->last = last;
    u->sum = (struct atoll_walk_sum){0};
    u->again = 0;
    r = atoll_walk_push(&u->walk, "");
    while (r == 0 && (last || u->budget > 0) && atoll_walk_pop(&u->walk, path))
        r = copy_path(u, path);
    atoll_walk_done(&u->walk);
    empty_table(&u->linked);
    if (!last && u->budget == 0)
        u->forgot = true; /* it has not come to all names */
    u->first = false;
    return r < 0 ? r : 0;
}

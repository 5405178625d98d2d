#include "diff/compare.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/buf.h"

#define NAMES_MAX ((size_t)64 << 20) /* bytes of the names of one directory */
#define WAIT_MAX ((size_t)64 << 20)  /* bytes of directories that wait */
#define CHUNK ((size_t)64 * 1024)

/* What every sandbox has of its own, or as a mount. */
static const char *const private_paths[] = {
    ".atoll", "dev",       "etc/hostname", "etc/hosts", "etc/resolv.conf",
    "proc",   "run/atoll", "sys",          NULL};
/* Directories that every sandbox has, with the same owner and mode, whether its layers have them or not. */
static const char *const given_directories[] = {"etc", "home", "home/user", "run", "tmp", NULL};

/* A directory that is to be compared. */
struct waiting {
    struct waiting *below;
    atoll_diff_view_mask a, b;
    char path[];
};

struct walk {
    const struct atoll_diff_compare *compare;
    struct waiting *top;
    size_t wait_bytes;
    struct atoll_diff_view_dir a, b; /* of the directory in progress */
};

struct names {
    struct atoll_buf bytes;
    const char **sorted; /* owned */
    size_t count;
};

static bool is_among(const char *const *paths, const char *path)
{
    for (; *paths; paths++)
        if (strcmp(path, *paths) == 0)
            return true;
    return false;
}

static int push(struct walk *w, const char *path, atoll_diff_view_mask a, atoll_diff_view_mask b)
{
    size_t n = strlen(path) + 1;
    struct waiting *item = w->wait_bytes + n > WAIT_MAX ? NULL : malloc(sizeof(*item) + n);

    if (!item)
        return -ENOMEM;
    *item = (struct waiting){.below = w->top, .a = a, .b = b};
    memcpy(item->path, path, n);
    w->top = item;
    w->wait_bytes += n;
    return 0;
}

/* Names. */

static int add_names(struct names *names, int fd)
{
    int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    const struct dirent *entry;
    int r = 0;

    if (!dir) {
        r = -errno;
        if (copy >= 0)
            (void)close(copy);
        return r;
    }
    while (r == 0 && (errno = 0, entry = readdir(dir)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            r = atoll_buf_append(&names->bytes, entry->d_name, strlen(entry->d_name) + 1);
            names->count += r == 0;
        }
    if (r == 0 && errno)
        r = -errno;
    (void)closedir(dir);
    return r;
}

/* The base is the same directory in both views: its own names are listed only if one view lacks it. */
static bool is_shared_base(const struct walk *w, const struct atoll_diff_view_dir *dir, size_t i)
{
    const struct atoll_diff_view *a = w->a.view, *b = w->b.view;

    return dir->view->has_base && i + 1 == dir->view->count && a->has_base && b->has_base &&
           w->a.fds[a->count - 1] >= 0 && w->b.fds[b->count - 1] >= 0;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int sort_names(struct names *names)
{
    const char *at = (const char *)atoll_buf_head(&names->bytes);
    size_t kept = 0;

    names->sorted = calloc(names->count + 1, sizeof(*names->sorted));
    if (!names->sorted)
        return -ENOMEM;
    for (size_t i = 0; i < names->count; i++, at += strlen(at) + 1)
        names->sorted[i] = at;
    qsort(names->sorted, names->count, sizeof(*names->sorted), by_text);
    for (size_t i = 0; i < names->count; i++)
        if (kept == 0 || strcmp(names->sorted[kept - 1], names->sorted[i]) != 0)
            names->sorted[kept++] = names->sorted[i];
    names->count = kept;
    return 0;
}

static int list_names(const struct walk *w, struct names *names)
{
    const struct atoll_diff_view_dir *dirs[] = {&w->a, &w->b};
    int r = 0;

    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; r == 0 && i < dirs[k]->view->count; i++)
            if (dirs[k]->fds[i] >= 0 && !is_shared_base(w, dirs[k], i))
                r = add_names(names, dirs[k]->fds[i]);
    return r < 0 ? r : sort_names(names);
}

/* Entries. */

static int open_file(const struct atoll_diff_node *node)
{
    int fd = openat(node->dir_fd, node->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static ssize_t read_full(int fd, uint8_t *out, size_t n)
{
    size_t got = 0;
    ssize_t k;

    while (got < n && (k = read(fd, out + got, n - got)) != 0) {
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return -errno;
        got += (size_t)k;
    }
    return (ssize_t)got;
}

/* 1: the bytes differ. */
static int files_differ(const struct atoll_diff_node *a, const struct atoll_diff_node *b)
{
    static uint8_t one[CHUNK], two[CHUNK];
    ATOLL_AUTOCLOSE int x = -EBADF;
    ATOLL_AUTOCLOSE int y = -EBADF;
    ssize_t n, m;

    if (a->st.st_size != b->st.st_size)
        return 1;
    if (a->st.st_dev == b->st.st_dev && a->st.st_ino == b->st.st_ino)
        return 0;
    x = open_file(a);
    y = x < 0 ? x : open_file(b);
    if (y < 0)
        return y;
    do {
        n = read_full(x, one, sizeof(one));
        m = read_full(y, two, sizeof(two));
        if (n < 0 || m < 0)
            return (int)(n < 0 ? n : m);
        if (n != m || memcmp(one, two, (size_t)n) != 0)
            return 1;
    } while (n > 0);
    return 0;
}

static int links_differ(const struct atoll_diff_node *a, const struct atoll_diff_node *b)
{
    char one[PATH_MAX], two[PATH_MAX];
    ssize_t n = readlinkat(a->dir_fd, a->name, one, sizeof(one));
    ssize_t m = readlinkat(b->dir_fd, b->name, two, sizeof(two));

    if (n < 0 || m < 0)
        return -errno;
    return n != m || memcmp(one, two, (size_t)n) != 0;
}

static bool facts_differ(const struct stat *a, const struct stat *b)
{
    return a->st_mode != b->st_mode || a->st_uid != b->st_uid || a->st_gid != b->st_gid;
}

/* Of two entries of one type. 1: they differ. */
static int entries_differ(struct atoll_diff_change *change)
{
    const struct atoll_diff_node *a = change->a, *b = change->b;
    int r = 0;

    if (a->in_base && b->in_base)
        return 0;
    if (S_ISREG(a->st.st_mode)) {
        r = files_differ(a, b);
        change->content = r == 1;
    } else if (S_ISLNK(a->st.st_mode)) {
        r = links_differ(a, b);
    } else if (!S_ISDIR(a->st.st_mode)) {
        r = a->st.st_rdev != b->st.st_rdev;
    }
    return r != 0 ? r : facts_differ(&a->st, &b->st);
}

static int classify(struct atoll_diff_change *change)
{
    const struct atoll_diff_node *a = change->a, *b = change->b;

    if (!a->exists && !b->exists)
        return 0;
    change->kind = !a->exists   ? ATOLL_DIFF_CHANGE_ADDED
                   : !b->exists ? ATOLL_DIFF_CHANGE_REMOVED
                   : (a->st.st_mode & S_IFMT) != (b->st.st_mode & S_IFMT)
                       ? ATOLL_DIFF_CHANGE_TYPE
                       : ATOLL_DIFF_CHANGE_CHANGED;
    return change->kind == ATOLL_DIFF_CHANGE_CHANGED ? entries_differ(change) : 1;
}

static bool is_directory(const struct atoll_diff_node *node)
{
    return node->exists && S_ISDIR(node->st.st_mode);
}

static bool is_given(const struct atoll_diff_change *change)
{
    return (is_directory(change->a) || !change->a->exists) &&
           (is_directory(change->b) || !change->b->exists) &&
           is_among(given_directories, change->path);
}

static bool is_within(const struct atoll_diff_compare *c, const char *path)
{
    size_t n = strlen(c->below);
    return n == 0 || (strncmp(path, c->below, n) == 0 && (path[n] == '/' || path[n] == '\0'));
}

static int compare_entry(struct walk *w, const char *path, const char *name,
                         struct atoll_error *err)
{
    const struct atoll_diff_compare *c = w->compare;
    struct atoll_diff_node a, b;
    struct atoll_diff_change change = {.path = path, .a = &a, .b = &b};
    int r = atoll_diff_view_find(&w->a, name, &a);

    if (r == 0)
        r = atoll_diff_view_find(&w->b, name, &b);
    if (r == 0)
        r = classify(&change);
    if (r < 0)
        return atoll_fail_errno(err, -r, "compare %.200s", path);
    if (r > 0 && is_within(c, path) && !is_given(&change))
        r = c->fn(c->arg, &change, err);
    if (r < 0)
        return r;
    if ((is_directory(&a) || is_directory(&b)) &&
        push(w, path, is_directory(&a) ? a.mask : 0, is_directory(&b) ? b.mask : 0) < 0)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM, "too many directories");
    return 0;
}

static int compare_names(struct walk *w, const char *path, const struct names *names,
                         struct atoll_error *err)
{
    char below[PATH_MAX];
    int r = 0;

    for (size_t i = 0; r == 0 && i < names->count; i++) {
        int n = snprintf(below, sizeof(below), "%s%s%s", path, *path ? "/" : "", names->sorted[i]);

        if (n >= (int)sizeof(below))
            return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENAMETOOLONG,
                              "a path is longer than %d bytes: %.100s", PATH_MAX - 1, path);
        if (is_among(private_paths, below) ||
            (w->compare->skip_git && strcmp(names->sorted[i], ".git") == 0))
            continue;
        r = compare_entry(w, below, names->sorted[i], err);
    }
    return r;
}

/* Directories above the one that is asked for lead there, others do not. */
static bool is_on_the_way(const struct atoll_diff_compare *c, const char *path)
{
    size_t n = strlen(path);

    return n == 0 || is_within(c, path) || (strncmp(c->below, path, n) == 0 && c->below[n] == '/');
}

static int compare_directory(struct walk *w, const struct waiting *item, struct atoll_error *err)
{
    struct names names = {0};
    int r = atoll_diff_view_dir_open(&w->a, w->compare->a, item->a, item->path);

    if (r == 0) {
        r = atoll_diff_view_dir_open(&w->b, w->compare->b, item->b, item->path);
        atoll_buf_init(&names.bytes, NAMES_MAX);
        if (r == 0) {
            r = list_names(w, &names);
            if (r < 0)
                (void)atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, -r, "list /%.200s", item->path);
            else
                r = compare_names(w, item->path, &names, err);
            atoll_diff_view_dir_close(&w->b);
        } else {
            (void)atoll_fail_errno(err, -r, "open /%.200s", item->path);
        }
        atoll_diff_view_dir_close(&w->a);
        atoll_buf_done(&names.bytes);
        free(names.sorted);
        return r;
    }
    return atoll_fail_errno(err, -r, "open /%.200s", item->path);
}

int atoll_diff_compare(const struct atoll_diff_compare *c, struct atoll_error *err)
{
    struct walk w = {.compare = c};
    int r = push(&w, "", atoll_diff_view_top(c->a), atoll_diff_view_top(c->b));

    if (r < 0)
        return atoll_fail_errno(err, -r, "compare");
    while (w.top) {
        struct waiting *item = w.top;

        w.top = item->below;
        w.wait_bytes -= strlen(item->path) + 1;
        if (r == 0 && is_on_the_way(c, item->path))
            r = compare_directory(&w, item, err);
        free(item);
    }
    return r;
}

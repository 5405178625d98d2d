#include "diff/view.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#define OPAQUE_NAME "user.overlay.opaque"
#define BASE "/"

static int open_below(int top, const char *path)
{
    struct open_how how = {
        .flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    long fd = syscall(SYS_openat2, top, *path ? path : ".", &how, sizeof(how));

    return fd < 0 ? -errno : (int)fd;
}

int atoll_diff_view_open(struct atoll_diff_view *view, const char *text, struct atoll_error *err)
{
    char path[256];

    *view = (struct atoll_diff_view){0};
    while (*text) {
        size_t n = strcspn(text, ":");
        int fd;

        if (n == 0 || n >= sizeof(path) || view->has_base ||
            view->count == ATOLL_DIFF_VIEW_LAYERS_MAX)
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "not a list of layers");
        (void)snprintf(path, sizeof(path), "%.*s", (int)n, text);
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
            return atoll_fail_errno(err, errno, "open %.200s", path);
        view->tops[view->count++] = fd;
        view->has_base = strcmp(path, BASE) == 0;
        text += n + (text[n] == ':');
    }
    return 0;
}

void atoll_diff_view_close(struct atoll_diff_view *view)
{
    for (size_t i = 0; i < view->count; i++)
        (void)close(view->tops[i]);
    view->count = 0;
}

atoll_diff_view_mask atoll_diff_view_top(const struct atoll_diff_view *view)
{
    return (atoll_diff_view_mask)((UINT64_C(1) << view->count) - 1);
}

static bool is_base(const struct atoll_diff_view *view, size_t i)
{
    return view->has_base && i + 1 == view->count;
}

int atoll_diff_view_dir_open(struct atoll_diff_view_dir *dir, const struct atoll_diff_view *view,
                             atoll_diff_view_mask mask, const char *path)
{
    *dir = (struct atoll_diff_view_dir){.view = view};
    for (size_t i = 0; i < view->count; i++)
        dir->fds[i] = -EBADF;
    for (size_t i = 0; i < view->count; i++) {
        int fd = mask & (UINT32_C(1) << i) ? open_below(view->tops[i], path) : -ENOENT;

        if (fd < 0 && fd != -ENOENT && fd != -ENOTDIR && fd != -ELOOP) {
            atoll_diff_view_dir_close(dir);
            return fd;
        }
        dir->fds[i] = fd < 0 ? -EBADF : fd;
    }
    return 0;
}

void atoll_diff_view_dir_close(struct atoll_diff_view_dir *dir)
{
    for (size_t i = 0; dir->view && i < dir->view->count; i++)
        if (dir->fds[i] >= 0)
            (void)close(dir->fds[i]);
    dir->view = NULL;
}

atoll_diff_view_mask atoll_diff_view_dir_mask(const struct atoll_diff_view_dir *dir)
{
    atoll_diff_view_mask mask = 0;

    for (size_t i = 0; i < dir->view->count; i++)
        mask |= dir->fds[i] >= 0 ? UINT32_C(1) << i : 0;
    return mask;
}

static int is_opaque(int dir, const char *name)
{
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    char value[2];
    ssize_t n;

    if (fd < 0)
        return -errno;
    n = fgetxattr(fd, OPAQUE_NAME, value, sizeof(value));
    (void)close(fd);
    return n == 1 && value[0] == 'y';
}

static bool is_whiteout(const struct stat *st)
{
    return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

/* Adds what one layer has. *ret_last: the layers below are hidden. */
static int add_layer(const struct atoll_diff_view_dir *dir, size_t i, const char *name,
                     struct atoll_diff_node *node, bool *ret_last)
{
    bool base = is_base(dir->view, i);
    struct stat st;
    int opaque = 0;

    if (dir->fds[i] < 0)
        return 0;
    if (fstatat(dir->fds[i], name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    *ret_last = true;
    if ((!base && is_whiteout(&st)) || (node->exists && !S_ISDIR(st.st_mode)))
        return 0;
    if (!base && S_ISDIR(st.st_mode))
        opaque = is_opaque(dir->fds[i], name);
    if (opaque < 0)
        return opaque;
    if (!node->exists) {
        node->exists = true;
        node->st = st;
        node->dir_fd = dir->fds[i];
        node->in_base = base;
    }
    *ret_last = !S_ISDIR(st.st_mode) || opaque;
    if (S_ISDIR(st.st_mode))
        node->mask |= UINT32_C(1) << i;
    return 0;
}

int atoll_diff_view_find(const struct atoll_diff_view_dir *dir, const char *name,
                         struct atoll_diff_node *ret)
{
    bool last = false;
    int r = 0;

    *ret = (struct atoll_diff_node){.dir_fd = -EBADF, .name = name};
    for (size_t i = 0; r == 0 && !last && i < dir->view->count; i++)
        r = add_layer(dir, i, name, ret, &last);
    return r;
}

/* The node's name is borrowed from the path. */
int atoll_diff_view_lookup(const struct atoll_diff_view *view, const char *path,
                           struct atoll_diff_view_dir *ret_dir, struct atoll_diff_node *ret)
{
    atoll_diff_view_mask mask = atoll_diff_view_top(view);
    char parent[4096] = "";
    const char *name = path;

    for (;;) {
        const char *slash = strchr(name, '/');
        char component[256];
        int r = atoll_diff_view_dir_open(ret_dir, view, mask, parent);

        if (r < 0)
            return r;
        (void)snprintf(component, sizeof(component), "%.*s",
                       (int)(slash ? (size_t)(slash - name) : strlen(name)), name);
        r = atoll_diff_view_find(ret_dir, slash ? component : name, ret);
        if (r < 0 || !slash) {
            if (r < 0)
                atoll_diff_view_dir_close(ret_dir);
            return r;
        }
        mask = ret->exists && S_ISDIR(ret->st.st_mode) ? ret->mask : 0;
        atoll_diff_view_dir_close(ret_dir);
        (void)snprintf(parent, sizeof(parent), "%.*s", (int)(slash - path), path);
        name = slash + 1;
    }
}

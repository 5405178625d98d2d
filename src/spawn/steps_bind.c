#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/fd.h"
#include "base/text.h"
#include "spawn/disk_pool.h"
#include "spawn/layers.h"
#include "spawn/paths.h"
#include "spawn/plan_run.h"
#include "spawn/volume_image.h"
#include "sys/mnt.h"

/*
 * What a sandbox has in its root beside the layers: volumes, and in a builder parts of its disk, caches of
 * its tenant and trees, each at a mount point that the root may lack. The root is made of what a tenant chose, so its links
 * are resolved here, component by component, and cannot lead out of it. None of the tenant's processes
 * runs yet.
 */

#define LINKS_MAX 40 /* as in the kernel */

/* A path that is being resolved: `known` is canonical and exists, `rest` comes behind it. */
struct walk {
    char known[PATH_MAX], rest[PATH_MAX];
    unsigned links;
};

static void note_point(const char *path)
{
    ATOLL_AUTOCLOSE int fd =
        open(ATOLL_DISK_POINTS, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);

    /* If it is not noted, an empty directory stays in the layer. */
    if (fd >= 0)
        (void)!atoll_fd_write_all(fd, path, strlen(path) + 1);
}

/* Makes the entry `name` of the directory `known`, owned by root inside. */
static int make_point(struct atoll_plan_run *b, const struct walk *w, const char *name,
                      const char *path, bool directory)
{
    uint32_t owner = atoll_plan_run_outside(b, 0);
    ATOLL_AUTOCLOSE int dir =
        atoll_paths_open(b->root_fd, *w->known ? w->known : ".", O_RDONLY | O_DIRECTORY);
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;

    if (dir < 0)
        return dir;
    if (directory && mkdirat(dir, name, 0755) < 0)
        return -errno;
    fd = openat(dir, name,
                directory ? O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC
                          : O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                0644);
    if (fd < 0 || fchown(fd, owner, owner) < 0)
        return -errno;
    if (b->plain_disk)
        note_point(path);
    return 0;
}

/* Puts the target of a link in front of the rest. */
static int follow(struct walk *w, int link_fd)
{
    char target[PATH_MAX], rest[PATH_MAX];
    ssize_t n = readlinkat(link_fd, "", target, sizeof(target) - 1);

    if (n < 0)
        return -errno;
    if (++w->links > LINKS_MAX)
        return -ELOOP;
    target[n] = '\0';
    if (*target == '/')
        *w->known = '\0';
    memcpy(rest, w->rest, sizeof(rest));
    return (size_t)snprintf(w->rest, sizeof(w->rest), "%s/%s", target, rest) < sizeof(w->rest)
               ? 0
               : -ENAMETOOLONG;
}

static void go_up(struct walk *w)
{
    char *slash = strrchr(w->known, '/');
    *(slash ? slash : w->known) = '\0';
}

/* Takes one component from the rest. 1: there was one, 0: the path is resolved. */
static int next_component(struct walk *w, char name[static NAME_MAX + 1])
{
    size_t skip = strspn(w->rest, "/"), n = strcspn(w->rest + skip, "/");

    if (n == 0)
        return 0;
    if (n > NAME_MAX)
        return -ENAMETOOLONG;
    memcpy(name, w->rest + skip, n);
    name[n] = '\0';
    memmove(w->rest, w->rest + skip + n, strlen(w->rest + skip + n) + 1);
    return 1;
}

/* Goes into `name`, makes it if it is missing. */
static int enter(struct atoll_plan_run *b, struct walk *w, const char *name, bool directory)
{
    bool last = strspn(w->rest, "/") == strlen(w->rest);
    char path[PATH_MAX];
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    struct stat st;
    int r;

    if ((size_t)snprintf(path, sizeof(path), "%s%s%s", w->known, *w->known ? "/" : "", name) >=
        sizeof(path))
        return -ENAMETOOLONG;
    fd = atoll_paths_open(b->root_fd, path, O_PATH | O_NOFOLLOW);
    if (fd == -ENOENT) {
        r = make_point(b, w, name, path, directory || !last);
        if (r < 0)
            return r;
    } else if (fd < 0 || fstat(fd, &st) < 0) {
        return fd < 0 ? fd : -errno;
    } else if (S_ISLNK(st.st_mode)) {
        return follow(w, fd);
    }
    memcpy(w->known, path, sizeof(w->known));
    return 0;
}

int atoll_point_open(struct atoll_plan_run *b, const char *path, bool directory,
                     struct atoll_error *err)
{
    struct walk w = {.known = ""};
    char name[NAME_MAX + 1];
    int r = atoll_text_copy(w.rest, sizeof(w.rest), path);

    if (b->root_fd < 0 || !atoll_paths_is_inside(path))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "not a mount point in the root of a sandbox");
    while (r == 0 && (r = next_component(&w, name)) > 0) {
        r = 0;
        if (strcmp(name, "..") == 0)
            go_up(&w);
        else if (strcmp(name, ".") != 0)
            r = enter(b, &w, name, directory);
    }
    if (r == 0)
        r = atoll_paths_open(b->root_fd, *w.known ? w.known : ".",
                             O_PATH | (directory ? O_DIRECTORY : 0));
    return r < 0 ? atoll_fail_errno(err, -r, "make the mount point /%.200s", path) : r;
}

static int own_as(int fd, uint32_t owner, uint32_t mode)
{
    return fchmod(fd, (mode_t)mode & 07777) < 0 || fchown(fd, owner, owner) < 0 ? -errno : 0;
}

static int own(int fd, const struct atoll_plan_run *b, uint32_t mode)
{
    return own_as(fd, atoll_plan_run_outside(b, 0), mode);
}

/* Makes a directory, or opens the one that is there. Returns its descriptor. */
static int open_owned(int dirfd, const char *path, uint32_t owner, uint32_t mode, bool may_exist)
{
    bool made = mkdirat(dirfd, path, 0700) == 0;
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    int r = made || (errno == EEXIST && may_exist) ? 0 : -errno;

    if (r < 0)
        return r;
    fd = openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    r = made ? own_as(fd, owner, mode) : 0;
    return r < 0 ? r : ATOLL_TAKE_FD(fd);
}

static int open_directory(const struct atoll_plan_run *b, const char *path, uint32_t mode)
{
    return open_owned(AT_FDCWD, path, atoll_plan_run_outside(b, 0), mode, false);
}

static int open_file(const struct atoll_plan_run *b, const struct atoll_po_bind *bind,
                     const char *path)
{
    ATOLL_AUTOCLOSE int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int r = fd < 0 ? -errno : atoll_fd_write_all(fd, bind->content.data, bind->content.len);

    if (r == 0)
        r = own(fd, b, bind->mode);
    return r < 0 ? r : ATOLL_TAKE_FD(fd);
}

/* Opens TOP/TENANT; *ret_name is the rest of the name. */
static int open_tenant(const struct atoll_plan_run *b, const struct atoll_po_bind *bind,
                       const char *top, const char **ret_name)
{
    const char *slash = strchr(bind->name, '/');
    char tenant[65], path[80];

    if (!slash || (size_t)(slash - bind->name) >= sizeof(tenant))
        return -EINVAL;
    memcpy(tenant, bind->name, (size_t)(slash - bind->name));
    tenant[slash - bind->name] = '\0';
    if (!atoll_text_is_name(tenant) || !atoll_text_is_name(slash + 1))
        return -EINVAL;
    (void)snprintf(path, sizeof(path), "%s/%s", top, tenant);
    if ((mkdirat(b->state_fd, top, 0700) < 0 && errno != EEXIST) ||
        (mkdirat(b->state_fd, path, 0700) < 0 && errno != EEXIST))
        return -errno;
    *ret_name = slash + 1;
    return atoll_paths_open(b->state_fd, path, O_RDONLY | O_DIRECTORY);
}

/* TOP/TENANT/NAME; only the last directory belongs to the sandbox. */
static int open_kept(const struct atoll_plan_run *b, const struct atoll_po_bind *bind,
                     const char *top, uint32_t owner)
{
    const char *name = NULL;
    ATOLL_AUTOCLOSE int tenant_fd = open_tenant(b, bind, top, &name);

    return tenant_fd < 0 ? tenant_fd : open_owned(tenant_fd, name, owner, bind->mode, true);
}

static bool is_volume(const struct atoll_po_bind *bind)
{
    return bind->kind == ATOLL_BIND_VOLUME || bind->kind == ATOLL_BIND_VOLUME_READ;
}

/* Whether the ids on disk are not those of the sandbox. */
static bool is_mapped(const struct atoll_plan_run *b)
{
    return b->ids.mode == ATOLL_IDS_RANGE && b->ids.layer_base != b->ids.outside;
}

/* Makes the volume if it is missing: an image if the step names a formatted one. 1: it is an image. */
static int make_volume(const struct atoll_plan_run *b, const struct atoll_po_bind *bind,
                       int tenant_fd, const char *name)
{
    ATOLL_AUTOCLOSE int source = ATOLL_NO_FD;
    char path[64];
    struct stat st;
    int r;

    if (fstatat(tenant_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return S_ISREG(st.st_mode);
    if (bind->content.len == 0)
        return 0;
    if (!b->host->root || bind->content.len >= sizeof(path))
        return -EINVAL;
    memcpy(path, bind->content.data, bind->content.len);
    path[bind->content.len] = '\0';
    source = atoll_paths_open(b->state_fd, path, O_RDONLY);
    r = source < 0 ? source : atoll_volume_image_make(tenant_fd, name, source);
    return r < 0 ? r : 1;
}

/* Returns a detached mount. */
static int mount_volume(const struct atoll_plan_run *b, const struct atoll_po_bind *bind)
{
    uint32_t owner = is_mapped(b) ? b->ids.layer_base : atoll_plan_run_outside(b, 0);
    const char *name = NULL;
    ATOLL_AUTOCLOSE int tenant_fd = ATOLL_NO_FD;
    ATOLL_AUTOCLOSE int source = ATOLL_NO_FD;
    int r;

    if (is_mapped(b) && (b->ids.layer_base == 0 || b->layer_userns_fd < 0))
        return -EINVAL;
    tenant_fd = open_tenant(b, bind, ATOLL_VOLUMES, &name);
    r = tenant_fd < 0 ? tenant_fd : make_volume(b, bind, tenant_fd, name);
    if (r > 0)
        return atoll_volume_image_mount(tenant_fd, name, owner, bind->mode);
    if (r < 0)
        return r;
    source = open_owned(tenant_fd, name, owner, bind->mode, true);
    return source < 0 ? source : atoll_mnt_clone(source, "", false);
}

/* A file or directory of a tree. Links lead to the tree's own root. */
static int open_part(const struct atoll_plan_run *b, const struct atoll_po_bind *bind)
{
    const struct open_how how = {.flags = O_PATH | O_CLOEXEC,
                                 .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    ATOLL_AUTOCLOSE int tree = atoll_paths_open(b->root_fd, bind->name, O_PATH | O_DIRECTORY);
    char path[PATH_MAX];
    int fd;

    if (tree < 0)
        return tree;
    if (bind->content.len == 0 || bind->content.len >= sizeof(path))
        return -EINVAL;
    memcpy(path, bind->content.data, bind->content.len);
    path[bind->content.len] = '\0';
    fd = (int)syscall(SYS_openat2, tree, path, &how, sizeof(how));
    return fd < 0 ? -errno : fd;
}

/* The mount of the slot has the id map, and its clone keeps it. */
static int open_layer(const struct atoll_plan_run *b, const char *name)
{
    ATOLL_AUTOCLOSE int slot = ATOLL_NO_FD;
    char subvolume[ATOLL_DISK_POOL_NAME_CAP], path[ATOLL_DISK_POOL_NAME_CAP + 16];
    int fd;

    if (!b->has_stack || !atoll_text_is_name(name))
        return -EINVAL;
    slot = open(ATOLL_SLOT_STACK, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (slot >= 0 && atoll_disk_pool_is_link(slot, name, subvolume)) {
        (void)snprintf(path, sizeof(path), ATOLL_DISK_POOL "/%s/u", subvolume);
        return atoll_paths_open(AT_FDCWD, path, O_PATH | O_DIRECTORY);
    }
    fd = slot < 0 ? -1 : openat(slot, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int open_source(struct atoll_plan_run *b, const struct atoll_po_bind *bind)
{
    char path[24];

    switch (bind->kind) {
    case ATOLL_BIND_IMPORT:
        return open_directory(b, "import", bind->mode);
    case ATOLL_BIND_DIRECTORY:
        (void)snprintf(path, sizeof(path), "b%u", b->binds);
        return open_directory(b, path, bind->mode);
    case ATOLL_BIND_FILE: /* DEV has made the parts */
        (void)snprintf(path, sizeof(path), ATOLL_DISK_PARTS "/b%u", b->binds);
        return open_file(b, bind, path);
    case ATOLL_BIND_CACHE:
        return open_kept(b, bind, "caches", atoll_plan_run_outside(b, 0));
    case ATOLL_BIND_PART:
        return open_part(b, bind);
    case ATOLL_BIND_LAYER:
        return open_layer(b, bind->name);
    default:
        return -EINVAL;
    }
}

/* Returns a detached mount of what the step names. */
static int mount_source(struct atoll_plan_run *b, const struct atoll_po_bind *bind,
                        bool *ret_directory)
{
    ATOLL_AUTOCLOSE int source = ATOLL_NO_FD;
    struct stat st;

    *ret_directory = true;
    if (is_volume(bind))
        return mount_volume(b, bind);
    source = b->plain_disk ? open_source(b, bind) : -EINVAL;
    if (source < 0)
        return source;
    if (fstat(source, &st) < 0)
        return -errno;
    *ret_directory = S_ISDIR(st.st_mode);
    return atoll_mnt_clone(source, "", false);
}

int atoll_step_bind(struct atoll_plan_run *b, const void *step, struct atoll_error *err)
{
    const struct atoll_po_bind *bind = step;
    bool directory = true;
    ATOLL_AUTOCLOSE int tree = mount_source(b, bind, &directory);
    ATOLL_AUTOCLOSE int point = ATOLL_NO_FD;
    uint64_t attrs =
        ATOLL_MNT_NOSUID | ATOLL_MNT_NODEV |
        (bind->kind == ATOLL_BIND_LAYER || bind->kind == ATOLL_BIND_VOLUME_READ ? ATOLL_MNT_RDONLY
                                                                                : 0);
    int r = tree < 0 ? tree : 0;

    b->binds++;
    if (r == 0) {
        point = atoll_point_open(b, bind->target, directory, err);
        if (point < 0)
            return point;
    }
    if (r == 0 && is_volume(bind) && is_mapped(b))
        r = atoll_mnt_idmap(tree, b->layer_userns_fd);
    if (r >= 0)
        r = atoll_mnt_set_attr(tree, attrs, false);
    if (r >= 0)
        r = atoll_mnt_attach(tree, point, "");
    return r < 0 ? atoll_fail_errno(err, -r, "mount /%.200s", bind->target) : 0;
}

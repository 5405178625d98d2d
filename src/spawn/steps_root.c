#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include "base/switches.h"
#include "base/text.h"
#include "spawn/hidden.h"
#include "spawn/paths.h"
#include "spawn/plan_run.h"
#include "sys/mnt.h"
#include "sys/ns.h"

/*
 * The root of a sandbox: read-only layers, id-mapped to the sandbox's ids, below a writable layer.
 */

static int clone_source(const struct atoll_plan_run *b, const char *source)
{
    ATOLL_AUTOCLOSE int dir = ATOLL_NO_FD;

    /* The only host tree that a plan may mount; all other sources are below the state directory. */
    if (strcmp(source, "/usr") == 0)
        return atoll_mnt_clone(AT_FDCWD, "/usr", false);
    dir = strcmp(source, ATOLL_PLAN_HIDDEN) == 0
              ? atoll_hidden_open_layer(b->state_fd)
              : atoll_paths_open(b->state_fd, source, O_PATH | O_DIRECTORY);
    return dir < 0 ? dir : atoll_mnt_clone(dir, "", false);
}

int atoll_step_layer(struct atoll_plan_run *b, const void *step, struct atoll_error *err)
{
    const struct atoll_po_layer *layer = step;
    ATOLL_AUTOCLOSE int tree = ATOLL_NO_FD;
    int r;

    if (!atoll_text_is_id(layer->slot))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "layer slot is not a plain name");
    if (mkdir(layer->slot, 0755) < 0 && !(errno == EEXIST && b->existing_disk))
        return atoll_fail_errno(err, errno, "create the directory of layer %s", layer->slot);
    tree = clone_source(b, layer->source);
    if (tree == -ETIMEDOUT)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, ETIMEDOUT,
                          "the host's /usr is still being scanned for private files; try again, "
                          "and see the log if this persists");
    if (tree < 0)
        return atoll_fail_errno(err, -tree, "open layer %s", layer->slot);
    if (b->ids.mode == ATOLL_IDS_RANGE) {
        int userns = layer->disk_base == 0                   ? b->userns_fd
                     : layer->disk_base == b->ids.layer_base ? b->layer_userns_fd
                                                             : ATOLL_NO_FD;
        r = userns < 0 ? -EINVAL : atoll_mnt_idmap(tree, userns);
        if (r < 0)
            return atoll_fail_errno(err, -r, "id-map layer %s", layer->slot);
    }
    r = atoll_mnt_attach(tree, AT_FDCWD, layer->slot);
    return r < 0 ? atoll_fail_errno(err, -r, "attach layer %s", layer->slot) : 0;
}

/* Creates the upper and work directories of the overlay at `target`: u and w for the root, u.usr
 * and w.usr for usr. The target shows the attributes of the upper directory. */
static int make_upper(struct atoll_plan_run *b, const char *target, char *upper, char *work,
                      size_t cap)
{
    uint32_t owner = b->ids.mode == ATOLL_IDS_RANGE ? b->ids.outside : (uint32_t)-1;
    bool made;

    (void)snprintf(upper, cap, "u%s%s", *target ? "." : "", target);
    (void)snprintf(work, cap, "w%s%s", *target ? "." : "", target);
    if (!*target) /* created with the disk */
        return 0;
    if (strchr(target, '/') || strlen(target) + 3 > cap)
        return -EINVAL;
    made = mkdir(upper, 0755) == 0;
    if (!made && !(errno == EEXIST && b->existing_disk))
        return -errno;
    if (mkdir(work, 0700) < 0 && !(errno == EEXIST && b->existing_disk))
        return -errno;
    return made && chown(upper, owner, owner) < 0 ? -errno : 0;
}

int atoll_step_overlay(struct atoll_plan_run *b, const void *step, struct atoll_error *err)
{
    const struct atoll_po_overlay *overlay = step;
    struct atoll_mnt_option options[6] = {{"lowerdir", overlay->lowers}};
    size_t n = 1;
    uint64_t attrs = atoll_weakened("mount_flags") ? 0 : ATOLL_MNT_NOSUID | ATOLL_MNT_NODEV;
    bool is_root = !*overlay->target;
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    char upper[32], work[32];
    int r;

    if (!is_root && !atoll_paths_is_inside(overlay->target))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "target is not relative");
    if (strchr(overlay->lowers, '/'))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "lower layers are named by slot");
    if (overlay->writable) {
        r = make_upper(b, overlay->target, upper, work, sizeof(upper));
        if (r < 0)
            return atoll_fail_errno(err, -r, "make writable layer");
        options[n++] = (struct atoll_mnt_option){"upperdir", upper};
        options[n++] = (struct atoll_mnt_option){"workdir", work};
    } else {
        attrs |= ATOLL_MNT_RDONLY;
    }
    if (b->ids.mode != ATOLL_IDS_RANGE) /* trusted.* attributes need host privileges */
        options[n++] = (struct atoll_mnt_option){"userxattr", NULL};
    fd = atoll_mnt_new("overlay", options, attrs);
    if (fd < 0)
        return atoll_fail_errno(err, -fd, "mount overlay");
    if (!is_root && b->root_fd < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "there is no root yet");
    r = atoll_mnt_attach(fd, is_root ? AT_FDCWD : b->root_fd, is_root ? "r" : overlay->target);
    if (r < 0)
        return atoll_fail_errno(err, -r, "attach overlay");
    if (is_root)
        b->root_fd = ATOLL_TAKE_FD(fd);
    return 0;
}

/* Mounts a directory of the root over itself, so that it stays writable. */
static int keep_writable(struct atoll_plan_run *b, const char *path)
{
    ATOLL_AUTOCLOSE int tree = atoll_mnt_clone(b->root_fd, path, false);

    if (tree < 0)
        return tree == -ENOENT ? 0 : tree;
    return atoll_mnt_attach(tree, b->root_fd, path);
}

static int make_read_only(struct atoll_plan_run *b, const char *path)
{
    ATOLL_AUTOCLOSE int fd = openat(b->root_fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);

    return fd < 0 ? -errno : atoll_mnt_set_attr(fd, ATOLL_MNT_RDONLY, false);
}

int atoll_step_read_only(struct atoll_plan_run *b, const void *step, struct atoll_error *err)
{
    const struct atoll_po_read_only *want = step;
    int r = b->root_fd < 0 ? -EINVAL : 0;

    for (size_t i = 0; r == 0 && i < want->writable.len; i++)
        r = atoll_paths_is_inside(want->writable.items[i])
                ? keep_writable(b, want->writable.items[i])
                : -EINVAL;
    for (size_t i = 0; r == 0 && i < want->mounts.len; i++)
        r = atoll_paths_is_inside(want->mounts.items[i]) ? make_read_only(b, want->mounts.items[i])
                                                         : -EINVAL;
    if (r == 0)
        r = atoll_mnt_set_attr(b->root_fd, ATOLL_MNT_RDONLY, false);
    return r < 0 ? atoll_fail_errno(err, -r, "make the root read-only") : 0;
}

/* Test switch: exposes the host's /tmp, which a security test must detect. */
static int show_host_files(struct atoll_plan_run *b, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int tree = atoll_mnt_clone(AT_FDCWD, "/tmp", false);
    int r = tree < 0 ? tree : atoll_mnt_attach(tree, b->root_fd, "tmp");

    return r < 0 ? atoll_fail_errno(err, -r, "bind /tmp") : 0;
}

int atoll_step_pivot(struct atoll_plan_run *b, const void *step, struct atoll_error *err)
{
    char cwd[8];
    int r;

    (void)step;
    if (atoll_weakened("host_files") && show_host_files(b, err) < 0)
        return -EIO;
    r = atoll_sys_pivot_root(b->root_fd);
    if (r < 0)
        return atoll_fail_errno(err, -r, "pivot_root");
    /* The current directory must be inside the new root (CVE-2024-21626). */
    if (!getcwd(cwd, sizeof(cwd)) || strcmp(cwd, "/") != 0)
        return atoll_fail(err, ATOLL_ERR_INTERNAL, EINVAL, "current directory is outside the root");
    return 0;
}

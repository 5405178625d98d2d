#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include "base/fd.h"
#include "base/switches.h"
#include "spawn/build.h"
#include "spawn/paths.h"
#include "sys/mnt.h"

/*
 * What the kernel shows inside: a /dev with a handful of nodes, and a /proc of which the parts that
 * tell or change something about the host are covered.
 */

static const struct {
    const char *name;
    unsigned major, minor;
} nodes[] = {{"null", 1, 3},   {"zero", 1, 5},    {"full", 1, 7},
             {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}};

static const struct {
    const char *name, *target;
} links[] = {{"ptmx", "pts/ptmx"},
             {"fd", "/proc/self/fd"},
             {"stdin", "/proc/self/fd/0"},
             {"stdout", "/proc/self/fd/1"},
             {"stderr", "/proc/self/fd/2"}};

static uint32_t root_outside(const struct atoll_build *b)
{
    return b->ids.mode == ATOLL_IDS_RANGE ? b->ids.outside : b->ids.agent_uid;
}

/* With real root a node of our own; otherwise the host's, bound. */
static int make_node(struct atoll_build *b, int dev, size_t i)
{
    char host_path[32];
    int fd, r;

    if (b->ids.mode == ATOLL_IDS_RANGE) {
        if (mknodat(dev, nodes[i].name, S_IFCHR | 0666, makedev(nodes[i].major, nodes[i].minor)) <
                0 ||
            fchmodat(dev, nodes[i].name, 0666, 0) < 0 ||
            fchownat(dev, nodes[i].name, root_outside(b), root_outside(b), 0) < 0)
            return -errno;
        return 0;
    }
    fd = openat(dev, nodes[i].name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return -errno;
    (void)close(fd);
    (void)snprintf(host_path, sizeof(host_path), "/dev/%s", nodes[i].name);
    fd = atoll_mnt_clone(AT_FDCWD, host_path, false);
    if (fd < 0)
        return fd;
    r = atoll_mnt_attach(fd, dev, nodes[i].name);
    (void)close(fd);
    return r;
}

static int attach_new(const char *fstype, const struct atoll_mnt_option *options, uint64_t attrs,
                      int dirfd, const char *path, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int fd = atoll_mnt_new(fstype, options, attrs);
    int r = fd < 0 ? fd : atoll_mnt_attach(fd, dirfd, path);

    return r < 0 ? atoll_fail_errno(err, -r, "mount %s", path) : 0;
}

static int fill_dev(struct atoll_build *b, int dev, struct atoll_error *err)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(nodes); i++) {
        int r = make_node(b, dev, i);
        if (r < 0)
            return atoll_fail_errno(err, -r, "device %s", nodes[i].name);
    }
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(links); i++)
        if (symlinkat(links[i].target, dev, links[i].name) < 0)
            return atoll_fail_errno(err, errno, "link %s", links[i].name);
    if (mkdirat(dev, "pts", 0755) < 0 || mkdirat(dev, "shm", 01777) < 0)
        return atoll_fail_errno(err, errno, "directories of /dev");
    return 0;
}

static int mount_pts_and_shm(const struct atoll_po_dev *want, int dev, struct atoll_error *err)
{
    char ptys[16], size[24], inodes[24];
    const struct atoll_mnt_option pts[] = {
        {"ptmxmode", "0666"}, {"mode", "0620"}, {"max", ptys}, {0}};
    const struct atoll_mnt_option shm[] = {
        {"mode", "1777"}, {"size", size}, {"nr_inodes", inodes}, {0}};
    int r;

    (void)snprintf(ptys, sizeof(ptys), "%u", want->max_ptys);
    (void)snprintf(size, sizeof(size), "%llu", (unsigned long long)want->shm_bytes);
    (void)snprintf(inodes, sizeof(inodes), "%llu", (unsigned long long)want->shm_inodes);
    r = attach_new("devpts", pts, ATOLL_MNT_NOSUID | ATOLL_MNT_NOEXEC, dev, "pts", err);
    if (r < 0)
        return r;
    return attach_new("tmpfs", shm, ATOLL_MNT_NOSUID | ATOLL_MNT_NODEV | ATOLL_MNT_NOEXEC, dev,
                      "shm", err);
}

/* The host's whole /dev, for a test that wants to see it noticed. */
static int bind_dev(struct atoll_build *b, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int tree = atoll_mnt_clone(AT_FDCWD, "/dev", true);
    int r = tree < 0 ? tree : atoll_mnt_attach(tree, b->root_fd, "dev");

    return r < 0 ? atoll_fail_errno(err, -r, "bind /dev") : 0;
}

int atoll_step_dev(struct atoll_build *b, const void *step, struct atoll_error *err)
{
    const struct atoll_mnt_option options[] = {{"size", "64k"}, {"mode", "0755"}, {0}};
    ATOLL_AUTOCLOSE int dev = atoll_mnt_new("tmpfs", options, ATOLL_MNT_NOSUID | ATOLL_MNT_NOEXEC);
    int r;

    if (dev < 0)
        return atoll_fail_errno(err, -dev, "mount /dev");
    if (atoll_weakened("dev"))
        return bind_dev(b, err);
    if (fchown(dev, root_outside(b), root_outside(b)) < 0)
        return atoll_fail_errno(err, errno, "own /dev");
    r = atoll_mnt_attach(dev, b->root_fd, "dev");
    if (r < 0)
        return atoll_fail_errno(err, -r, "attach /dev");
    r = fill_dev(b, dev, err);
    if (r < 0)
        return r;
    r = mount_pts_and_shm(step, dev, err);
    if (r < 0)
        return r;
    r = atoll_mnt_set_attr(dev, ATOLL_MNT_RDONLY, false);
    return r < 0 ? atoll_fail_errno(err, -r, "make /dev read-only") : 0;
}

/* "proc/" and the name, which must be one of a place below it. */
static int proc_path(const char *name, char *out, size_t cap, struct atoll_error *err)
{
    if (!atoll_paths_is_inside(name) || (size_t)snprintf(out, cap, "proc/%s", name) >= cap)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "no part of /proc: %.64s", name);
    return 0;
}

/* Covers one entry of /proc: a file with the sandbox's /dev/null, a directory with nothing. */
static int mask(struct atoll_build *b, const char *name, struct atoll_error *err)
{
    const struct atoll_mnt_option empty[] = {
        {"size", "0"}, {"nr_inodes", "1"}, {"mode", "0555"}, {0}};
    char path[80];

    if (proc_path(name, path, sizeof(path), err) < 0)
        return -EINVAL;
    if (mount("dev/null", path, NULL, MS_BIND, NULL) == 0 || errno == ENOENT)
        return 0;
    if (errno != ENOTDIR)
        return atoll_fail_errno(err, errno, "mask /proc/%s", name);
    return attach_new("tmpfs", empty,
                      ATOLL_MNT_RDONLY | ATOLL_MNT_NOSUID | ATOLL_MNT_NODEV | ATOLL_MNT_NOEXEC,
                      b->root_fd, path, err);
}

static int make_read_only(struct atoll_build *b, const char *name, struct atoll_error *err)
{
    char path[80];
    ATOLL_AUTOCLOSE int tree = ATOLL_NO_FD;
    int r;

    if (proc_path(name, path, sizeof(path), err) < 0)
        return -EINVAL;
    tree = atoll_mnt_clone(b->root_fd, path, false);
    if (tree == -ENOENT)
        return 0;
    r = tree < 0 ? tree : atoll_mnt_set_attr(tree, ATOLL_MNT_RDONLY, false);
    if (r == 0)
        r = atoll_mnt_attach(tree, b->root_fd, path);
    return r < 0 ? atoll_fail_errno(err, -r, "make /proc/%s read-only", name) : 0;
}

int atoll_step_proc(struct atoll_build *b, const void *step, struct atoll_error *err)
{
    const struct atoll_po_proc *want = step;
    /* mount(2) with bare names is one call a mask where the descriptor way takes three. */
    ATOLL_AUTOCLOSE int back = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int r = attach_new("proc", NULL, ATOLL_MNT_NOSUID | ATOLL_MNT_NODEV | ATOLL_MNT_NOEXEC,
                       b->root_fd, "proc", err);

    if (r < 0)
        return r;
    if (back < 0 || fchdir(b->root_fd) < 0)
        return atoll_fail_errno(err, errno, "enter the root");
    for (size_t i = 0; r == 0 && i < want->masked.len; i++)
        r = mask(b, want->masked.items[i], err);
    for (size_t i = 0; r == 0 && i < want->read_only.len; i++)
        r = make_read_only(b, want->read_only.items[i], err);
    if (r == 0 && fchdir(back) < 0)
        r = atoll_fail_errno(err, errno, "leave the root");
    return r;
}

int atoll_step_cover(struct atoll_build *b, const void *step, struct atoll_error *err)
{
    const struct atoll_po_file *want = step;
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    ATOLL_AUTOCLOSE int tree = ATOLL_NO_FD;
    int r;

    if (!atoll_paths_is_inside(want->path))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "path is not relative");
    if (b->existing_disk) /* of a start that did not get further than this */
        (void)unlink("c");
    fd = open("c", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return atoll_fail_errno(err, errno, "make cover");
    r = atoll_fd_write_all(fd, want->content.data, want->content.len);
    if (r == 0 && fchmod(fd, (mode_t)want->mode) < 0)
        r = -errno;
    if (r == 0) {
        tree = atoll_mnt_clone(AT_FDCWD, "c", false);
        r = tree < 0 ? tree : atoll_mnt_set_attr(tree, ATOLL_MNT_RDONLY | ATOLL_MNT_NOEXEC, false);
    }
    if (r == 0)
        r = atoll_mnt_attach(tree, b->root_fd, want->path);
    /* The mount keeps the file alive; its name is free for the next cover. */
    if (r == 0 && unlink("c") < 0)
        r = -errno;
    /* The mount is read-only; this descriptor, from before it, is not. */
    if (r == 0 && strcmp(want->path, "proc/sys/kernel/random/boot_id") == 0 && b->boot_id_fd < 0)
        b->boot_id_fd = ATOLL_TAKE_FD(fd);
    return r < 0 ? atoll_fail_errno(err, -r, "cover %s", want->path) : 0;
}

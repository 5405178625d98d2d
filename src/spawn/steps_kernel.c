#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include "base/fd.h"
#include "base/switches.h"
#include "spawn/paths.h"
#include "spawn/plan_run.h"
#include "sys/mnt.h"

/*
 * /dev with a few nodes, and /proc with files masked that reveal or change the state of the host.
 *
 * /dev, /dev/shm and the empty directory that masks directories of /proc are directories ("parts")
 * of one file system, because each file system adds a cost to every memory cgroup of the host
 * (docs/adr/0020). If the disk is in memory, the parts are on it, so that the disk's limit bounds
 * /dev/shm.
 */
#define PARTS ATOLL_DISK_PARTS
#define PART_DEV PARTS "/dev"
#define PART_SHM PARTS "/shm"
#define PART_EMPTY PART_DEV "/empty" /* a directory; removed once its mounts are made */
/* As the new root shows them. */
#define NULL_DEVICE "dev/null"
#define EMPTY "dev/empty"
/* Size of the parts without the content of /dev/shm. */
#define PARTS_BYTES 65536u
#define PARTS_INODES 64u

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

static uint32_t root_outside(const struct atoll_plan_run *b)
{
    return b->ids.mode == ATOLL_IDS_RANGE ? b->ids.outside : b->ids.agent_uid;
}

/* As root creates the node; rootless bind-mounts the host's. */
static int make_node(struct atoll_plan_run *b, int dev, size_t i)
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

static int fill_dev(struct atoll_plan_run *b, int dev, struct atoll_error *err)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(nodes); i++) {
        int r = make_node(b, dev, i);
        if (r < 0)
            return atoll_fail_errno(err, -r, "device %s", nodes[i].name);
    }
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(links); i++)
        if (symlinkat(links[i].target, dev, links[i].name) < 0)
            return atoll_fail_errno(err, errno, "link %s", links[i].name);
    if (mkdirat(dev, "pts", 0755) < 0 || mkdirat(dev, "shm", 0755) < 0)
        return atoll_fail_errno(err, errno, "directories of /dev");
    return 0;
}

static int mount_pts(const struct atoll_po_dev *want, int dev, struct atoll_error *err)
{
    char ptys[16];
    const struct atoll_mnt_option pts[] = {
        {"ptmxmode", "0666"}, {"mode", "0620"}, {"max", ptys}, {0}};

    (void)snprintf(ptys, sizeof(ptys), "%u", want->max_ptys);
    return attach_new("devpts", pts, ATOLL_MNT_NOSUID | ATOLL_MNT_NOEXEC, dev, "pts", err);
}

/* Mounts the directory `name` of the disk at dirfd/path with changed mount flags. */
static int show_part(const char *name, uint64_t set, uint64_t clear, int dirfd, const char *path)
{
    ATOLL_AUTOCLOSE int tree = atoll_mnt_clone(AT_FDCWD, name, false);
    int r = tree < 0 ? tree : atoll_mnt_change_attr(tree, set, clear);

    if (r == 0)
        r = atoll_mnt_attach(tree, dirfd, path);
    return r < 0 ? r : ATOLL_TAKE_FD(tree);
}

/* A tmpfs for the parts, if the disk is not in memory. */
static int mount_parts(const struct atoll_po_dev *want, struct atoll_error *err)
{
    char size[24], inodes[24];
    const struct atoll_mnt_option options[] = {
        {"mode", "0711"}, {"size", size}, {"nr_inodes", inodes}, {0}};

    (void)snprintf(size, sizeof(size), "%llu", (unsigned long long)want->shm_bytes + PARTS_BYTES);
    (void)snprintf(inodes, sizeof(inodes), "%llu",
                   (unsigned long long)want->shm_inodes + PARTS_INODES);
    return attach_new("tmpfs", options, ATOLL_MNT_NOSUID | ATOLL_MNT_NODEV, AT_FDCWD, PARTS, err);
}

static int make_parts(struct atoll_plan_run *b, const struct atoll_po_dev *want,
                      struct atoll_error *err)
{
    uint32_t root = root_outside(b);

    if (mkdir(PARTS, 0711) < 0 && !(errno == EEXIST && b->existing_disk))
        return atoll_fail_errno(err, errno, "create the directory of /dev");
    if (!b->disk_in_memory && mount_parts(want, err) < 0)
        return -EIO;
    if (mkdir(PART_DEV, 0755) < 0 || chown(PART_DEV, root, root) < 0 || mkdir(PART_SHM, 0) < 0 ||
        chmod(PART_SHM, 01777) < 0 || chown(PART_SHM, root, root) < 0 ||
        mkdir(PART_EMPTY, 0555) < 0)
        return atoll_fail_errno(err, errno, "lay out /dev");
    return 0;
}

/* Test switch: exposes the host's /dev, which a security test must detect. */
static int bind_dev(struct atoll_plan_run *b, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int tree = atoll_mnt_clone(AT_FDCWD, "/dev", true);
    int r = tree < 0 ? tree : atoll_mnt_attach(tree, b->root_fd, "dev");

    return r < 0 ? atoll_fail_errno(err, -r, "bind /dev") : 0;
}

int atoll_step_dev(struct atoll_plan_run *b, const void *step, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int dev = ATOLL_NO_FD;
    ATOLL_AUTOCLOSE int shm = ATOLL_NO_FD;
    int r = make_parts(b, step, err);

    if (r < 0)
        return r;
    if (atoll_weakened("dev"))
        return bind_dev(b, err);
    dev = show_part(PART_DEV, ATOLL_MNT_NOEXEC, ATOLL_MNT_NODEV, b->root_fd, "dev");
    if (dev < 0)
        return atoll_fail_errno(err, -dev, "attach /dev");
    r = fill_dev(b, dev, err);
    if (r == 0)
        r = mount_pts(step, dev, err);
    if (r < 0)
        return r;
    shm = show_part(PART_SHM, ATOLL_MNT_NOEXEC, 0, dev, "shm");
    if (shm < 0)
        return atoll_fail_errno(err, -shm, "attach /dev/shm");
    r = atoll_mnt_set_attr(dev, ATOLL_MNT_RDONLY, false);
    return r < 0 ? atoll_fail_errno(err, -r, "make /dev read-only") : 0;
}

/* Writes "proc/" and the name; refuses a name that leads outside. */
static int proc_path(const char *name, char *out, size_t cap, struct atoll_error *err)
{
    if (!atoll_paths_is_inside(name) || (size_t)snprintf(out, cap, "proc/%s", name) >= cap)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "not a path below /proc: %.64s",
                          name);
    return 0;
}

/* Known directories of /proc. Trying to mask one as a file first costs as much as ten masks. */
static bool is_directory(const char *name)
{
    static const char *const names[] = {"acpi", "asound", "bus",      "fs",
                                        "irq",  "scsi",   "pressure", "driver"};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* The mount of /dev is read-only, and so is a bind mount of anything in it. */
static int mask_with(const char *source, const char *path)
{
    return mount(source, path, NULL, MS_BIND, NULL) < 0 ? -errno : 0;
}

/* Masks one entry of /proc: a file with the sandbox's /dev/null, a directory with an empty one. */
static int mask(const char *name, struct atoll_error *err)
{
    bool directory = is_directory(name);
    char path[80];
    int r;

    if (proc_path(name, path, sizeof(path), err) < 0)
        return -EINVAL;
    r = mask_with(directory ? EMPTY : NULL_DEVICE, path);
    if (r == -ENOTDIR)
        r = mask_with(directory ? NULL_DEVICE : EMPTY, path);
    return r < 0 && r != -ENOENT ? atoll_fail_errno(err, -r, "mask /proc/%s", name) : 0;
}

static int make_read_only(struct atoll_plan_run *b, const char *name, struct atoll_error *err)
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

int atoll_step_proc(struct atoll_plan_run *b, const void *step, struct atoll_error *err)
{
    const struct atoll_po_proc *want = step;
    /* mount(2) with relative names takes one call per mask; the descriptor interface takes
     * three. */
    ATOLL_AUTOCLOSE int disk = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int r = attach_new("proc", NULL, ATOLL_MNT_NOSUID | ATOLL_MNT_NODEV | ATOLL_MNT_NOEXEC,
                       b->root_fd, "proc", err);

    if (r < 0)
        return r;
    if (disk < 0 || fchdir(b->root_fd) < 0)
        return atoll_fail_errno(err, errno, "enter the root");
    /* First, because masks may be below read-only paths. */
    for (size_t i = 0; r == 0 && i < want->read_only.len; i++)
        r = make_read_only(b, want->read_only.items[i], err);
    for (size_t i = 0; r == 0 && i < want->masked.len; i++)
        r = mask(want->masked.items[i], err);
    if (r == 0 && want->views)
        r = atoll_views_make(b, want->cpu, disk, err);
    if (r == 0 && (fchdir(disk) < 0 || rmdir(PART_EMPTY) < 0))
        r = atoll_fail_errno(err, errno, "leave the root");
    return r;
}

int atoll_step_cover(struct atoll_plan_run *b, const void *step, struct atoll_error *err)
{
    const struct atoll_po_file *want = step;
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    ATOLL_AUTOCLOSE int tree = ATOLL_NO_FD;
    int r;

    if (!atoll_paths_is_inside(want->path))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "path is not relative");
    if (b->existing_disk) /* left by a start that failed here */
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
    /* The mount keeps the file; the name is reused by the next cover step. */
    if (r == 0 && unlink("c") < 0)
        r = -errno;
    /* The mount is read-only, but this descriptor was opened before it and can write. */
    if (r == 0 && strcmp(want->path, "proc/sys/kernel/random/boot_id") == 0 && b->boot_id_fd < 0)
        b->boot_id_fd = ATOLL_TAKE_FD(fd);
    return r < 0 ? atoll_fail_errno(err, -r, "cover %s", want->path) : 0;
}

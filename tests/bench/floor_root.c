/*
 * Mounts of the floor: size-limited tmpfs as disk, id-mapped lower layers, overlay root, read-only
 * overlay /usr, proc with masks, private dev, pivot_root. Runs in a mount namespace that dies with
 * the child, so nothing here is ever unmounted one by one.
 */
#include "floor_root.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

/* <sys/mount.h> of older glibc and <linux/mount.h> cannot be included together. */
int mount(const char *source, const char *target, const char *type, unsigned long flags,
          const void *data);
int umount2(const char *target, int flags);
#define MNT_DETACH 2

#define COMMON (MS_NOSUID | MS_NODEV)

static const char *const directories[] = {"skel",     "skel/usr", "skel/proc", "skel/dev",
                                          "skel/tmp", "skel/etc", "usr",       "disk"};

static const struct link {
    const char *path, *target;
} links[] = {{"skel/bin", "usr/bin"}, {"skel/lib", "usr/lib"}, {"skel/lib64", "usr/lib64"}};

struct mount_row {
    const char *type, *target;
    unsigned long flags;
    const char *options;
};

static const struct mount_row overlay_mounts[] = {
    /* below the disk */
    {"overlay", "root", COMMON, "lowerdir=skel,upperdir=upper,workdir=work"},
    {"overlay", "root/usr", COMMON | MS_RDONLY, "lowerdir=usrtop:usr"},
};

static const struct mount_row root_mounts[] = {
    /* below the new root, as are the next */
    {"proc", "proc", COMMON | MS_NOEXEC, NULL},
    {"tmpfs", "dev", MS_NOSUID | MS_NOEXEC, "size=64k,mode=0755"},
};

static const struct mount_row dev_mounts[] = {
    {"devpts", "dev/pts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620,max=64"},
    {"tmpfs", "dev/shm", COMMON | MS_NOEXEC, "size=64m,nr_inodes=4096,mode=1777"},
};

static const struct device {
    const char *path;
    unsigned major, minor;
} devices[] = {
    {"dev/null", 1, 3},   {"dev/zero", 1, 5},    {"dev/full", 1, 7},
    {"dev/random", 1, 8}, {"dev/urandom", 1, 9}, {"dev/tty", 5, 0},
};

/* The files that the product masks (src/sandbox/plan_builder.c). Not every kernel has every one of
 * these; the ones that are missing need no mask. */
static const char *const masked[] = {
    "proc/config.gz",   "proc/cmdline",       "proc/interrupts",  "proc/iomem",
    "proc/ioports",     "proc/kallsyms",      "proc/kcore",       "proc/key-users",
    "proc/keys",        "proc/kmsg",          "proc/kpagecgroup", "proc/kpagecount",
    "proc/kpageflags",  "proc/latency_stats", "proc/modules",     "proc/pagetypeinfo",
    "proc/sched_debug", "proc/slabinfo",      "proc/softirqs",    "proc/sysrq-trigger",
    "proc/timer_list",  "proc/timer_stats",   "proc/vmallocinfo", "proc/zoneinfo",
};

static const char *const read_only[] = {"proc/sys", "proc/bus", "proc/fs", "proc/irq"};

int atoll_floor_root_prepare(const char *template_dir, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int dir = open(template_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return atoll_fail_errno(err, errno, "open %s", template_dir);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(directories); i++) {
        if (mkdirat(dir, directories[i], 0755) < 0)
            return atoll_fail_errno(err, errno, "mkdir %s", directories[i]);
    }
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(links); i++) {
        if (symlinkat(links[i].target, dir, links[i].path) < 0)
            return atoll_fail_errno(err, errno, "symlink %s", links[i].path);
    }
    return 0;
}

int atoll_floor_root_remove(const char *template_dir, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int dir = open(template_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return atoll_fail_errno(err, errno, "open %s", template_dir);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(links); i++) {
        if (unlinkat(dir, links[i].path, 0) < 0 && errno != ENOENT)
            return atoll_fail_errno(err, errno, "unlink %s", links[i].path);
    }
    for (size_t i = ATOLL_ARRAY_LEN(directories); i-- > 0;) {
        if (unlinkat(dir, directories[i], AT_REMOVEDIR) < 0 && errno != ENOENT)
            return atoll_fail_errno(err, errno, "rmdir %s", directories[i]);
    }
    return 0;
}

static int mount_rows(const struct mount_row *rows, size_t count, struct atoll_error *err)
{
    for (size_t i = 0; i < count; i++) {
        if (mount(rows[i].type, rows[i].target, rows[i].type, rows[i].flags, rows[i].options) < 0)
            return atoll_fail_errno(err, errno, "mount %s on %s", rows[i].type, rows[i].target);
    }
    return 0;
}

static int make_disk(const char *template_dir, unsigned id_base, struct atoll_error *err)
{
    static const char *const dirs[] = {"upper", "work", "skel", "usr", "usrtop", "root"};
    char disk[PATH_MAX];
    (void)snprintf(disk, sizeof(disk), "%s/disk", template_dir);
    if (mount("tmpfs", disk, "tmpfs", COMMON, "size=256m,nr_inodes=100000,mode=0755") < 0)
        return atoll_fail_errno(err, errno, "mount the disk");
    if (chdir(disk) < 0)
        return atoll_fail_errno(err, errno, "chdir to the disk");
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(dirs); i++) {
        if (mkdir(dirs[i], 0755) < 0)
            return atoll_fail_errno(err, errno, "mkdir %s", dirs[i]);
    }
    /* The upper layer keeps shifted ids: root inside owns /. */
    if (chown("upper", id_base, id_base) < 0)
        return atoll_fail_errno(err, errno, "chown the upper layer");
    return 0;
}

static int attach_idmapped(const char *source, const char *target, int userns_fd,
                           struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int tree =
        (int)syscall(SYS_open_tree, AT_FDCWD, source, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (tree < 0)
        return atoll_fail_errno(err, errno, "open_tree %s", source);
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)userns_fd};
    if (syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
        return atoll_fail_errno(err, errno, "id-map %s", source);
    if (syscall(SYS_move_mount, tree, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return atoll_fail_errno(err, errno, "attach %s", source);
    return 0;
}

static int attach_lowers(const char *template_dir, int userns_fd, struct atoll_error *err)
{
    char skel[PATH_MAX], usrtop[PATH_MAX];
    (void)snprintf(skel, sizeof(skel), "%s/skel", template_dir);
    (void)snprintf(usrtop, sizeof(usrtop), "%s/usr", template_dir);
    int r = attach_idmapped(skel, "skel", userns_fd, err);
    if (r >= 0)
        r = attach_idmapped("/usr", "usr", userns_fd, err);
    if (r >= 0)
        r = attach_idmapped(usrtop, "usrtop", userns_fd, err);
    return r;
}

static int fill_dev(struct atoll_error *err)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(devices); i++) {
        dev_t number = makedev(devices[i].major, devices[i].minor);
        if (mknod(devices[i].path, S_IFCHR | 0666, number) < 0)
            return atoll_fail_errno(err, errno, "mknod %s", devices[i].path);
    }
    if (mkdir("dev/pts", 0755) < 0 || mkdir("dev/shm", 01777) < 0 ||
        symlink("pts/ptmx", "dev/ptmx") < 0 || symlink("/proc/self/fd", "dev/fd") < 0)
        return atoll_fail_errno(err, errno, "fill dev");
    return mount_rows(dev_mounts, ATOLL_ARRAY_LEN(dev_mounts), err);
}

static int mask_proc(struct atoll_error *err)
{
    const unsigned long remount = MS_BIND | MS_REMOUNT | MS_RDONLY | COMMON | MS_NOEXEC;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(masked); i++) {
        if (mount("dev/null", masked[i], NULL, MS_BIND, NULL) < 0 && errno != ENOENT)
            return atoll_fail_errno(err, errno, "mask %s", masked[i]);
    }
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(read_only); i++) {
        if (mount(read_only[i], read_only[i], NULL, MS_BIND | MS_REC, NULL) < 0) {
            if (errno == ENOENT)
                continue;
            return atoll_fail_errno(err, errno, "bind %s", read_only[i]);
        }
        if (mount(NULL, read_only[i], NULL, remount, NULL) < 0)
            return atoll_fail_errno(err, errno, "make %s read-only", read_only[i]);
    }
    return 0;
}

static int pivot(struct atoll_error *err)
{
    /* Old and new root stacked on one directory: no mount point for the old one is needed. */
    if (syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        return atoll_fail_errno(err, errno, "pivot_root");
    return 0;
}

int atoll_floor_root_enter(const char *template_dir, int userns_fd, unsigned id_base,
                           struct atoll_error *err)
{
    int r = make_disk(template_dir, id_base, err);
    if (r >= 0)
        r = attach_lowers(template_dir, userns_fd, err);
    if (r >= 0)
        r = mount_rows(overlay_mounts, ATOLL_ARRAY_LEN(overlay_mounts), err);
    if (r >= 0 && chdir("root") < 0)
        r = atoll_fail_errno(err, errno, "chdir to the new root");
    if (r >= 0)
        r = mount_rows(root_mounts, ATOLL_ARRAY_LEN(root_mounts), err);
    if (r >= 0)
        r = fill_dev(err);
    if (r >= 0)
        r = mask_proc(err);
    if (r >= 0)
        r = pivot(err);
    return r;
}

int atoll_floor_root_verify(pid_t pid, struct atoll_error *err)
{
    static const char *const wanted[] = {" / / rw,",           " / /usr ro,",     " / /proc rw,",
                                         " / /dev rw,",        " / /dev/pts rw,", " / /dev/shm rw,",
                                         " /sys /proc/sys ro,"};
    char path[64], line[4096];
    unsigned seen = 0, masks = 0;

    (void)snprintf(path, sizeof(path), "/proc/%d/mountinfo", pid);
    FILE *info = fopen(path, "re");
    if (!info)
        return atoll_fail_errno(err, errno, "open %s", path);
    while (fgets(line, sizeof(line), info)) {
        for (size_t i = 0; i < ATOLL_ARRAY_LEN(wanted); i++)
            seen |= strstr(line, wanted[i]) ? 1u << i : 0;
        masks += strstr(line, " /null /proc/") ? 1 : 0;
    }
    (void)fclose(info);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(wanted); i++) {
        if (!(seen & (1u << i)))
            return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ENOENT,
                              "the child has no mount \"%s\"", wanted[i]);
    }
    if (masks == 0)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ENOENT, "nothing in proc is masked");
    return 0;
}

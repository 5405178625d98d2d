/*
 * Tests the features of the host. Each one that needs privilege is tested in a child that is cloned
 * into new namespaces, tries the operation, and reports an errno as its exit status. Such a child
 * only makes system calls.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include "base/fd.h"
#include "sandbox/host_internal.h"
#include "sys/mnt.h"
#include "sys/ns.h"

/* First id of the range mapped in the test, above the ids of ordinary users. */
#define ID_RANGE_BASE 100000
#define ID_RANGE_LEN 65536

#define ALL_NAMESPACES \
    (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS)

struct identity {
    uid_t uid;
    gid_t gid;
};

/* Runs fn in a child with these new namespaces. Returns what fn returned: 0 or -errno. */
static int try_in_child(uint64_t flags, int (*fn)(const struct identity *outside))
{
    const struct identity outside = {geteuid(), getegid()};
    pid_t pid = atoll_sys_clone(flags, -1, NULL);
    int status, r;

    if (pid < 0)
        return (int)pid;
    if (pid == 0) {
        /* Among them is the lock of the state directory, which only the daemon may hold. */
        atoll_sys_leave_descriptors(ATOLL_NO_FD);
        r = fn(&outside);
        _exit(r < 0 && r > -256 ? -r : 0);
    }
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    return WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO;
}

static int do_nothing(const struct identity *outside ATOLL_UNUSED)
{
    return 0;
}

static int map_range(const struct identity *outside ATOLL_UNUSED)
{
    ATOLL_AUTOCLOSE int fd = atoll_sys_make_userns(0, 0, ID_RANGE_BASE, ID_RANGE_LEN, false);
    return fd < 0 ? fd : 0;
}

static int idmap_usr(const struct identity *outside ATOLL_UNUSED)
{
    ATOLL_AUTOCLOSE int userns_fd = atoll_sys_make_userns(0, 0, ID_RANGE_BASE, ID_RANGE_LEN, false);
    ATOLL_AUTOCLOSE int mount_fd = ATOLL_NO_FD;

    if (userns_fd < 0)
        return userns_fd;
    mount_fd = atoll_mnt_clone(AT_FDCWD, "/usr", false);
    return mount_fd < 0 ? mount_fd : atoll_mnt_idmap(mount_fd, userns_fd);
}

/* Mounts a scratch tmpfs over a directory that every system has, visible in this mount namespace
 * only. */
static int enter_scratch(void)
{
    static const char *const places[] = {"/tmp", "/run", "/mnt", "/var"};

    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return -errno;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(places); i++)
        if (mount("tmpfs", places[i], "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=700") == 0)
            return chdir(places[i]) < 0 ? -errno : 0;
    return -errno;
}

static int mount_overlay(const char *options)
{
    static const char *const dirs[] = {"lower", "upper", "work", "merged"};
    int r = enter_scratch();

    for (size_t i = 0; r == 0 && i < ATOLL_ARRAY_LEN(dirs); i++)
        if (mkdir(dirs[i], 0755) < 0)
            r = -errno;
    if (r == 0 && mount("overlay", "merged", "overlay", 0, options) < 0)
        r = -errno;
    /* If the upper layer is not writable, the kernel mounts the overlay read-only without an
     * error. */
    if (r == 0 && mkdir("merged/made", 0755) < 0)
        r = -errno;
    return r;
}

static int overlay_here(const struct identity *outside ATOLL_UNUSED)
{
    return mount_overlay("lowerdir=lower,upperdir=upper,workdir=work");
}

static int overlay_in_userns(const struct identity *outside)
{
    char gids[64], uids[64];
    int r;

    (void)snprintf(gids, sizeof(gids), "0 %u 1\n", outside->gid);
    (void)snprintf(uids, sizeof(uids), "0 %u 1\n", outside->uid);
    r = atoll_fd_write_file(AT_FDCWD, "/proc/self/setgroups", "deny");
    if (r == 0)
        r = atoll_fd_write_file(AT_FDCWD, "/proc/self/gid_map", gids);
    if (r == 0)
        r = atoll_fd_write_file(AT_FDCWD, "/proc/self/uid_map", uids);
    return r < 0 ? r : mount_overlay("lowerdir=lower,upperdir=upper,workdir=work,userxattr");
}

static void find_kernel(struct atoll_host_caps *caps)
{
    uint32_t notify = SECCOMP_RET_USER_NOTIF, kill = SECCOMP_RET_KILL_PROCESS;
    struct utsname name;
    long abi;
    int fd;

    if (uname(&name) == 0 &&
        sscanf(name.release, "%u.%u", &caps->kernel_major, &caps->kernel_minor) != 2)
        caps->kernel_major = caps->kernel_minor = 0;
    caps->seccomp = syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &kill) == 0;
    caps->seccomp_notify = syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &notify) == 0;
    abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    caps->landlock_abi = abi > 0 ? (int)abi : 0;
    fd = atoll_sys_pidfd_open(getpid());
    caps->pidfd = fd >= 0;
    if (fd >= 0)
        (void)close(fd);
}

static bool opens(const char *path)
{
    ATOLL_AUTOCLOSE int fd = open(path, O_RDWR | O_CLOEXEC);
    return fd >= 0;
}

static void find_size(struct atoll_host_caps *caps)
{
    struct sysinfo info;
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        caps->cpus = (unsigned)CPU_COUNT(&set);
    if (sysinfo(&info) == 0)
        caps->memory_bytes = (uint64_t)info.totalram * info.mem_unit;
}

/* Trying it needs an image: its kernel version tells. A module that is not loaded yet is loaded by the
 * first mount. */
static bool has_simple_quotas(const struct atoll_host_caps *caps)
{
    char text[4096];
    char path[128];
    struct utsname host;

    if (caps->kernel_major < 6 || (caps->kernel_major == 6 && caps->kernel_minor < 7))
        return false;
    if (atoll_host_read("/proc/filesystems", text, sizeof(text)) >= 0 && strstr(text, "\tbtrfs\n"))
        return true;
    if (uname(&host) < 0)
        return false;
    (void)snprintf(path, sizeof(path), "/lib/modules/%.60s/kernel/fs/btrfs", host.release);
    return access(path, F_OK) == 0;
}

int atoll_host_caps_probe(struct atoll_host_caps *ret, struct atoll_error *err)
{
    struct atoll_host_caps caps = {0};

    if (access("/proc/self/status", R_OK) < 0)
        return atoll_fail_errno(err, errno, "/proc is not mounted");
    find_kernel(&caps);
    find_size(&caps);
    /* uid 0 in a container may lack the capabilities or the ids, so the operation is tried. */
    caps.root = geteuid() == 0 && try_in_child(CLONE_NEWNS, map_range) == 0;
    caps.userns = try_in_child(ALL_NAMESPACES, do_nothing) == 0;
    caps.overlay = try_in_child(CLONE_NEWNS, overlay_here) == 0;
    caps.overlay_userns = try_in_child(CLONE_NEWUSER | CLONE_NEWNS, overlay_in_userns) == 0;
    caps.idmap = caps.root && try_in_child(CLONE_NEWNS, idmap_usr) == 0;
    caps.loop = caps.root && opens("/dev/loop-control") && atoll_host_has_program("mkfs.ext4");
    caps.cow = caps.loop && atoll_host_has_program("mkfs.btrfs") && has_simple_quotas(&caps);
    atoll_host_find_cgroups(&caps);
    atoll_host_find_subids(&caps);
    *ret = caps;
    return 0;
}

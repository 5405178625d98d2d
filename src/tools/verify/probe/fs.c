/* Rows 1-7 and 11-13: which files can be reached, and what can be made of them. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/verify/probe/probe.h"

#define OVERLAY_MAGIC 0x794c7630
#define TMPFS_MAGIC 0x01021994
#define NOBODY 65534

static const char *scratch(const char *name)
{
    static char path[512];
    const char *dir = probe_arg("tmp");

    snprintf(path, sizeof(path), "%s/probe-%s-%ld", dir ? dir : "/tmp", name, (long)getpid());
    return path;
}

static void look_through_process(long pid)
{
    static const char *const doors[] = {"root", "cwd/../../../../../../.."};
    char path[1024];

    for (size_t i = 0; i < PROBE_COUNT(doors); i++) {
        snprintf(path, sizeof(path), "/proc/%ld/%s%s", pid, doors[i], probe_need("canary"));
        if (access(path, F_OK) == 0)
            probe_found("/proc/%ld/%s", pid, doors[i]);
    }
}

static void host_canary(void)
{
    const char *canary = probe_need("canary");

    if (access(canary, F_OK) == 0)
        probe_found("%s", canary);
    probe_each_process(look_through_process);
    probe_conclude("the canary file is out of reach");
}

static void root_dotdot(void)
{
    const char *canary = probe_need("canary");

    if (chdir("/") != 0)
        probe_skip("chdir: %s", strerror(errno));
    for (int i = 0; i < 64; i++)
        if (chdir("..") != 0)
            probe_skip("chdir: %s", strerror(errno));
    if (access(canary + 1, F_OK) == 0)
        probe_fail("the canary is visible above /");
    probe_pass(".. ends at the root of the sandbox");
}

static void cwd_reachable(void)
{
    char path[4096];
    struct stat here, named;

    if (getcwd(path, sizeof(path)) == NULL)
        probe_fail("getcwd: %s", strerror(errno));
    if (path[0] != '/')
        probe_fail("cwd is %s", path);
    if (stat(".", &here) != 0 || stat(path, &named) != 0)
        probe_fail("%s does not resolve: %s", path, strerror(errno));
    if (here.st_ino != named.st_ino || here.st_dev != named.st_dev)
        probe_fail("%s is not the directory we are in", path);
    probe_pass("%s", path);
}

/* A process that may chroot can leave a chroot (keep a descriptor, chroot deeper, fchdir, ..). */
static void chroot_escape(void)
{
    static const struct probe_call calls[] = {{"chroot", SYS_chroot, {"/"}}};
    probe_all_refused(calls, PROBE_COUNT(calls));
}

/* Inode 2 is the root directory of ext4, even if only a part of that file system is mounted here. */
static void open_by_handle(void)
{
    static const struct {
        unsigned int bytes;
        int type;
        unsigned int inode, generation;
    } handle = {8, 1, 2, 0};
    static const char *const mounts[] = {"/", "/etc/hosts", "/etc/resolv.conf", "/usr"};

    for (size_t i = 0; i < PROBE_COUNT(mounts); i++) {
        int at = open(mounts[i], O_RDONLY | O_CLOEXEC);
        int fd = -1;

        if (at < 0)
            continue;
        fd = (int)syscall(SYS_open_by_handle_at, at, &handle, O_RDONLY);
        if (fd >= 0 || !probe_refused(errno))
            probe_found("%s: %s", mounts[i], fd >= 0 ? "opened" : strerror(errno));
        close(at);
    }
    probe_conclude("refused on every mount");
}

/* Root inside may write to system directories only if they are a private layer. */
static void system_dirs_ro(void)
{
    static const char *const dirs[] = {"/usr", "/usr/bin", "/usr/lib", "/bin", "/sbin",
                                       "/lib", "/etc",     "/boot",    "/var"};
    struct statfs fs;

    for (size_t i = 0; i < PROBE_COUNT(dirs); i++) {
        if (access(dirs[i], W_OK) != 0 || statfs(dirs[i], &fs) != 0)
            continue;
        if (fs.f_type != OVERLAY_MAGIC && fs.f_type != TMPFS_MAGIC)
            probe_found("%s is writable on file system type 0x%lx", dirs[i], (long)fs.f_type);
    }
    probe_conclude("read-only or a private layer");
}

static void try_mknod(mode_t type, dev_t dev)
{
    const char *path = scratch("node");

    if (mknod(path, type | 0600, dev) != 0)
        probe_pass("mknod: %s", strerror(errno));
    unlink(path);
    probe_fail("a device node was made");
}

static void mknod_block(void)
{
    try_mknod(S_IFBLK, makedev(7, 0)); /* loop0 */
}

static void mknod_char(void)
{
    try_mknod(S_IFCHR, makedev(10, 229)); /* fuse */
}

static void copy_self(const char *to)
{
    static char buf[65536];
    int in = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
    ssize_t n;

    if (in < 0 || out < 0)
        probe_skip("copy to %s: %s", to, strerror(errno));
    while ((n = read(in, buf, sizeof(buf))) > 0)
        if (write(out, buf, (size_t)n) != n)
            probe_skip("write %s: %s", to, strerror(errno));
    close(in);
    close(out);
}

static int exec_copy(void *arg)
{
    char *path = arg;

    execl(path, path, "--euid", (char *)NULL);
    return 126;
}

/* Root makes a set-uid copy of this program for another user and checks whether it takes effect. */
static void try_setuid_copy(void)
{
    char path[512];
    int rc;

    snprintf(path, sizeof(path), "%s", scratch("setuid"));
    copy_self(path);
    if (chown(path, NOBODY, (gid_t)-1) != 0 || chmod(path, 04755) != 0) {
        unlink(path);
        return; /* refused: there is nothing to run */
    }
    rc = probe_in_child(exec_copy, path);
    unlink(path);
    if (rc == 1)
        probe_found("a set-uid file changed the effective uid");
    else if (rc != 0)
        probe_skip("running the set-uid copy gave %d", rc);
}

static void setuid_effective(void)
{
    static const char *const files[] = {"/usr/bin/su",     "/usr/bin/sudo",   "/usr/bin/passwd",
                                        "/usr/bin/mount",  "/usr/bin/umount", "/usr/bin/chsh",
                                        "/usr/bin/newgrp", "/usr/bin/gpasswd"};
    bool nnp = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
    struct statvfs fs;
    struct stat st;

    if (geteuid() == 0)
        try_setuid_copy();
    for (size_t i = 0; i < PROBE_COUNT(files) && !nnp; i++)
        if (stat(files[i], &st) == 0 && (st.st_mode & S_ISUID) != 0 &&
            statvfs(files[i], &fs) == 0 && (fs.f_flag & ST_NOSUID) == 0)
            probe_found("%s", files[i]);
    probe_conclude(nnp ? "no_new_privs" : "nosuid everywhere");
}

static void runtime_sockets(void)
{
    static const char *const paths[] = {"/run/docker.sock",
                                        "/var/run/docker.sock",
                                        "/run/containerd/containerd.sock",
                                        "/run/crio/crio.sock",
                                        "/run/podman/podman.sock",
                                        "/run/dbus/system_bus_socket",
                                        "/run/systemd/private",
                                        "/run/systemd/journal/socket",
                                        "/run/snapd.socket",
                                        "/var/run/dbus/system_bus_socket"};
    struct stat st;

    if (stat(probe_need("socket"), &st) == 0)
        probe_found("%s", probe_need("socket"));
    for (size_t i = 0; i < PROBE_COUNT(paths); i++)
        if (stat(paths[i], &st) == 0)
            probe_found("%s", paths[i]);
    probe_conclude("no daemon socket is visible");
}

static void shm_private(void)
{
    char path[512];

    snprintf(path, sizeof(path), "/dev/shm/%s", probe_need("shm"));
    if (access(path, F_OK) == 0)
        probe_fail("%s is visible", path);
    probe_pass("the canary in /dev/shm is not visible");
}

static void sysv_private(void)
{
    if (shmget((key_t)probe_need_long("sysv"), 0, 0) >= 0)
        probe_fail("the shared memory segment of the host is visible");
    probe_pass("shmget: %s", strerror(errno));
}

/* The host holds an exclusive lock on this file; if it is visible, tenants have a covert channel. */
static void flock_channel(void)
{
    const char *path = probe_need("flock");
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        probe_skip("%s: %s", path, strerror(errno));
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        probe_fail("the lock held on %s outside is visible", path);
    probe_pass("the lock held on %s outside is not visible", path);
}

/* An entry of the host's /usr that not all users may read must be hidden. An image may have an entry of
 * the same name: the timestamps tell them apart. */
static void private_hidden(void)
{
    const char *path = probe_need("private");
    struct stat st;
    char changed[64];

    if (lstat(path, &st) != 0)
        probe_pass("%s: %s", path, strerror(errno));
    snprintf(changed, sizeof(changed), "%lld.%09ld", (long long)st.st_mtim.tv_sec,
             st.st_mtim.tv_nsec);
    if (strcmp(changed, probe_need("private_time")) == 0)
        probe_fail("%s of the host is in sight", path);
    probe_pass("%s is another one than the host's", path);
}

static const struct probe_check checks[] = {
    {1, "fs.host_canary", host_canary},
    {1, "fs.root_dotdot", root_dotdot},
    {1, "fs.private_hidden", private_hidden},
    {2, "fs.cwd_reachable", cwd_reachable},
    {3, "fs.chroot_escape", chroot_escape},
    {4, "fs.open_by_handle", open_by_handle},
    {5, "fs.system_dirs_ro", system_dirs_ro},
    {6, "fs.mknod_block", mknod_block},
    {6, "fs.mknod_char", mknod_char},
    {7, "fs.setuid_effective", setuid_effective},
    {11, "fs.runtime_sockets", runtime_sockets},
    {12, "fs.shm_private", shm_private},
    {12, "ipc.sysv", sysv_private},
    {13, "fs.flock_channel", flock_channel},
};

const struct probe_table probe_fs = {checks, PROBE_COUNT(checks)};

/*
 * Features of the kernel: namespaces, filters, and the file systems of a sandbox's root.
 */
#include <stdio.h>
#include <string.h>
#include "sandbox/host_internal.h"

/* The first version with id-mapped mounts (mount_setattr), the newest feature that is required. */
#define KERNEL_MAJOR 5
#define KERNEL_MINOR 12

/* Settings that forbid user namespaces to ordinary users, and the command that allows them. */
static const struct {
    const char *path, *forbids, *fix;
} userns_locks[] = {
    {"/proc/sys/user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=15000"},
    {"/proc/sys/kernel/unprivileged_userns_clone", "0",
     "sysctl -w kernel.unprivileged_userns_clone=1"},
    {"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
     "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for atolld"},
};

static void add_flag(struct atoll_host_report *report, const char *name, bool have, bool essential,
                     const char *yes, const char *no, const char *fix)
{
    atoll_host_add(report, name, have ? ATOLL_HOST_OK : ATOLL_HOST_MISSING, essential,
                   have ? "" : fix, "%s", have ? yes : no);
}

static void check_version(struct atoll_host_report *report)
{
    const struct atoll_host_caps *caps = &report->caps;
    bool enough = caps->kernel_major > KERNEL_MAJOR ||
                  (caps->kernel_major == KERNEL_MAJOR && caps->kernel_minor >= KERNEL_MINOR);

    atoll_host_add(report, "kernel", enough ? ATOLL_HOST_OK : ATOLL_HOST_MISSING, true,
                   enough ? "" : "boot a newer kernel", "Linux %u.%u; %u.%u or newer is needed",
                   caps->kernel_major, caps->kernel_minor, KERNEL_MAJOR, KERNEL_MINOR);
}

static void check_userns(struct atoll_host_report *report)
{
    const char *fix = "enable CONFIG_USER_NS, and allow clone in the container or seccomp profile "
                      "around this shell";
    char value[32];

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(userns_locks); i++)
        if (atoll_host_read(userns_locks[i].path, value, sizeof(value)) >= 0 &&
            strcmp(value, userns_locks[i].forbids) == 0)
            fix = userns_locks[i].fix;
    add_flag(report, "user namespaces", report->caps.userns, true,
             "user, mount, pid, net, ipc and uts namespaces can be created",
             "namespaces cannot be created", fix);
}

static void check_subids(struct atoll_host_report *report)
{
    const struct atoll_host_caps *caps = &report->caps;

    if (caps->root)
        atoll_host_add(report, "sub-ids", ATOLL_HOST_INFO, false, "",
                       "not needed: root maps ids itself");
    else if (caps->subids)
        atoll_host_add(report, "sub-ids", ATOLL_HOST_OK, false, "", "%u ids from %u by newuidmap",
                       caps->subuids, caps->subuid);
    else if (caps->subuids == 0 || caps->subgids == 0)
        atoll_host_add(report, "sub-ids", ATOLL_HOST_MISSING, false,
                       "sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $USER",
                       "no range for this user: sandboxes get one id, without root or sudo inside");
    else
        atoll_host_add(report, "sub-ids", ATOLL_HOST_MISSING, false, "sudo apt install uidmap",
                       "newuidmap and newgidmap are not installed: sandboxes get one id");
}

static void check_filters(struct atoll_host_report *report)
{
    const struct atoll_host_caps *caps = &report->caps;

    add_flag(report, "seccomp", caps->seccomp, true, "system call filters",
             "no system call filters", "enable CONFIG_SECCOMP_FILTER");
    add_flag(report, "seccomp notify", caps->seccomp_notify, false,
             "single system calls can be forwarded to the agent",
             "netlink sockets of a sandbox are not bounded", "boot Linux 5.14 or newer");
    if (caps->landlock_abi > 1)
        atoll_host_add(report, "Landlock", ATOLL_HOST_OK, false, "",
                       "ABI %d: the daemon can change files only in its state directory",
                       caps->landlock_abi);
    else
        atoll_host_add(
            report, "Landlock", ATOLL_HOST_INFO, false,
            "boot Linux 5.19 or newer with lsm=landlock,…",
            "absent, or older than Linux 5.19: an attacker who controls the daemon can write "
            "every file that its user can write");
    add_flag(report, "pidfd", caps->pidfd, true, "processes are referenced by descriptor",
             "processes cannot be referenced by descriptor", "boot Linux 5.3 or newer");
}

void atoll_host_check_kernel(struct atoll_host_report *report)
{
    const struct atoll_host_caps *caps = &report->caps;

    atoll_host_add(report, "privilege", ATOLL_HOST_INFO, false, "", "%s, %u CPUs, %.1f GiB memory",
                   caps->root ? "root" : "rootless", caps->cpus,
                   (double)caps->memory_bytes / (1024.0 * 1024 * 1024));
    check_version(report);
    check_userns(report);
    check_subids(report);
    check_filters(report);
}

void atoll_host_check_files(struct atoll_host_report *report)
{
    const struct atoll_host_caps *caps = &report->caps;

    if (caps->root)
        add_flag(report, "overlayfs", caps->overlay, true, "writable layers over read-only layers",
                 "overlayfs cannot be mounted", "modprobe overlay");
    add_flag(report, "overlayfs in userns", caps->overlay_userns, !caps->root,
             "rootless sandboxes can layer files", "rootless sandboxes cannot layer files",
             "boot Linux 5.11 or newer, and modprobe overlay");
    if (!caps->root)
        return;
    add_flag(report, "id-mapped mounts", caps->idmap, false,
             "one copy of /usr serves every id range",
             "/usr cannot be id-mapped: inside, its files belong to the overflow uid",
             "put /usr on ext4, xfs, btrfs or another file system with FS_ALLOW_IDMAP");
    add_flag(report, "loop devices", caps->loop, false,
             "disk images of a fixed size can be created (mkfs.ext4)",
             "no loop devices or no mkfs.ext4: disks are limited by tmpfs only",
             "modprobe loop; apt install e2fsprogs");
    add_flag(
        report, "copy-on-write disks", caps->cow, false,
        "large and persistent disks are in a pool, if the state directory has 570 MiB for it; df inside shows the pool: a snapshot "
        "stops processes for milliseconds",
        "snapshots copy all that a sandbox has changed: no btrfs with simple quotas, or no mkfs.btrfs",
        "boot Linux 6.7 or newer with btrfs; apt install btrfs-progs");
}

#include "provider/pool_image.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/fd.h"
#include "base/switches.h"
#include "sys/btrfs.h"

#define NAME "pool.img"
#define NEW_NAME "pool.img.new"
#define MIB (UINT64_C(1) << 20)
#define SIZE_MIN (512 * MIB) /* btrfs needs 109 MiB */
#define SIZE_STEP (1024 * MIB)

/* Nine tenths of what is free, or taken by the image now. */
static uint64_t wanted_size(int state, uint64_t taken)
{
    struct statvfs fs;

    if (fstatvfs(state, &fs) < 0)
        return 0;
    return ((uint64_t)fs.f_bavail * fs.f_frsize + taken) / 10 * 9 / MIB * MIB;
}

static int format(int image, struct atoll_error *err)
{
    char path[] = "/proc/self/fd/0";
    /* No second copy of metadata: the file system below looks after that. */
    char *argv[] = {"mkfs.btrfs", "-q", "-f", "-K", "-m", "single", "-d", "single", path, NULL};
    char *envp[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL};
    posix_spawn_file_actions_t actions;
    int status = 0, r;
    pid_t pid;

    if (posix_spawn_file_actions_init(&actions) != 0)
        return atoll_fail_errno(err, ENOMEM, "mkfs.btrfs");
    r = posix_spawn_file_actions_adddup2(&actions, image, 0);
    for (int fd = 1; r == 0 && fd <= 2; fd++)
        r = posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_WRONLY, 0);
    if (r == 0)
        r = posix_spawn(&pid, "/usr/sbin/mkfs.btrfs", &actions, NULL, argv, envp);
    (void)posix_spawn_file_actions_destroy(&actions);
    if (r != 0)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, r,
                          "copy-on-write disks need mkfs.btrfs: install btrfs-progs");
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EIO,
                          "mkfs.btrfs could not format the image of the disk pool");
    return 0;
}

static int make(int state, struct atoll_error *err)
{
    uint64_t size = wanted_size(state, 0);
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    int r = atoll_fault("image.pool");

    if (r != 0)
        return atoll_fail_errno(err, r, "make the disk pool");
    if (size < SIZE_MIN)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ENOSPC,
                          "the disk of the state directory has no space for a disk pool");
    fd = openat(state, NEW_NAME, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
        return atoll_fail_errno(err, errno, "make the image of the disk pool");
    r = format(fd, err);
    if (r == 0 && renameat(state, NEW_NAME, state, NAME) < 0)
        r = atoll_fail_errno(err, errno, "keep the image of the disk pool");
    if (r < 0)
        (void)unlinkat(state, NEW_NAME, 0);
    return r;
}

int atoll_pool_image_make(const char *state_dir, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int state = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    struct stat st;
    uint64_t size;

    if (state < 0)
        return atoll_fail_errno(err, errno, "open the state directory");
    if (atoll_btrfs_is(state) && atoll_btrfs_has_simple_quotas(state))
        return 0;
    fd = openat(state, NAME, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? make(state, err) : atoll_fail_errno(err, errno, "open " NAME);
    if (fstat(fd, &st) < 0)
        return atoll_fail_errno(err, errno, "stat " NAME);
    size = wanted_size(state, (uint64_t)st.st_blocks * 512);
    /* A device that is attached already keeps its size. */
    if (size > (uint64_t)st.st_size + SIZE_STEP && ftruncate(fd, (off_t)size) < 0)
        return atoll_fail_errno(err, errno, "enlarge " NAME);
    return 0;
}

#include "store/sqlite/reserve.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define NAME "reserve"
#define BYTES_MAX ((uint64_t)8 << 20)
#define PART 64 /* at most 1/PART of the file system */

void atoll_reserve_init(struct atoll_reserve *reserve, int dir_fd)
{
    struct stat st;

    reserve->dir_fd = dir_fd;
    /* A file left by an earlier daemon is kept: on a full disk there is no room for a new one. */
    atomic_init(&reserve->held, fstatat(dir_fd, NAME, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                                    S_ISREG(st.st_mode) && st.st_size > 0);
}

/* Returns 0 if the disk has too little free space. */
static uint64_t size_to_take(int dir_fd)
{
    struct statvfs fs;
    uint64_t bytes;

    if (fstatvfs(dir_fd, &fs) < 0)
        return 0;
    bytes = ATOLL_MIN(BYTES_MAX, (uint64_t)fs.f_blocks * fs.f_frsize / PART);
    return (uint64_t)fs.f_bavail * fs.f_frsize >= 3 * bytes ? bytes : 0;
}

void atoll_reserve_take(struct atoll_reserve *reserve)
{
    uint64_t bytes;
    int fd;

    if (atomic_load(&reserve->held))
        return;
    bytes = size_to_take(reserve->dir_fd);
    if (bytes == 0)
        return;
    fd = openat(reserve->dir_fd, NAME, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return;
    if (fallocate(fd, 0, 0, (off_t)bytes) == 0)
        atomic_store(&reserve->held, true);
    else
        (void)unlinkat(reserve->dir_fd, NAME, 0);
    (void)close(fd);
}

bool atoll_reserve_give(struct atoll_reserve *reserve)
{
    return atomic_exchange(&reserve->held, false) && unlinkat(reserve->dir_fd, NAME, 0) == 0;
}

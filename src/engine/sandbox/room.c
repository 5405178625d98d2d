#include <errno.h>
#include <sys/statvfs.h>
#include "engine/engine_internal.h"

/*
 * Free space on the daemon's own disk. New work is refused while there is still room to record the
 * end of the existing work.
 */

#define LEAST_BYTES ((uint64_t)2 << 20)
#define LEAST_PART 64 /* 1/64 of the file system, if that is less */

uint64_t atoll_room_size(int fd)
{
    struct statvfs fs;

    return fstatvfs(fd, &fs) < 0 ? UINT64_MAX : (uint64_t)fs.f_blocks * fs.f_frsize;
}

uint64_t atoll_room_free(int fd)
{
    struct statvfs fs;

    return fstatvfs(fd, &fs) < 0 ? UINT64_MAX : (uint64_t)fs.f_bavail * fs.f_frsize;
}

int atoll_room_admit(const struct atoll_engine *engine, struct atoll_error *err)
{
    const uint64_t least = ATOLL_MIN(LEAST_BYTES, atoll_room_size(engine->state_fd) / LEAST_PART);

    if (atoll_room_free(engine->state_fd) >= least)
        return 0;
    return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, ENOSPC,
                      "the daemon accepts no new work: its own disk is full; free some space "
                      "there and try again");
}

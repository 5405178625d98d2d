#include <errno.h>
#include <sys/statvfs.h>
#include "engine/engine_internal.h"

/*
 * Room on the daemon's own disk. New work is refused while there is still room to record the end of
 * the work there is.
 */

#define LEAST_BYTES ((uint64_t)2 << 20)
#define LEAST_PART 64 /* of the file system, where that is less */

static int look(const struct atoll_engine *engine, uint64_t *ret_size, uint64_t *ret_free)
{
    struct statvfs fs;

    if (fstatvfs(engine->state_fd, &fs) < 0)
        return -errno;
    *ret_size = (uint64_t)fs.f_blocks * fs.f_frsize;
    *ret_free = (uint64_t)fs.f_bavail * fs.f_frsize;
    return 0;
}

uint64_t atoll_room_free(const struct atoll_engine *engine)
{
    uint64_t size = 0, free = 0;

    return look(engine, &size, &free) < 0 ? UINT64_MAX : free;
}

int atoll_room_admit(const struct atoll_engine *engine, struct atoll_error *err)
{
    uint64_t size = 0, free = 0;

    if (look(engine, &size, &free) < 0 || free >= ATOLL_MIN(LEAST_BYTES, size / LEAST_PART))
        return 0;
    return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, ENOSPC,
                      "the daemon takes nothing new: its own disk is full; free some space there "
                      "and try again");
}

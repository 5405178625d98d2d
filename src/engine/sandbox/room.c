#include <errno.h>
#include <sys/statvfs.h>
#include "base/text.h"
#include "engine/engine_internal.h"

/*
 * Free space on the daemon's own disk. New work is refused while there is still room to record the
 * end of the existing work.
 */

#define LEAST_BYTES ((uint64_t)2 << 20)
#define RESERVE_BYTES ((uint64_t)256 << 20)
#define RESERVE_PART 32 /* likewise */
#define LEAST_PART 64   /* 1/64 of the file system, if that is less */

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

uint64_t atoll_room_reserve(const struct atoll_engine *engine)
{
    return ATOLL_MIN(RESERVE_BYTES, atoll_room_size(engine->state_fd) / RESERVE_PART);
}

int atoll_room_check(const struct atoll_engine *engine, struct atoll_error *err)
{
    const uint64_t reserve = atoll_room_reserve(engine), left = atoll_room_free(engine->state_fd);
    char text[16];

    if (left >= reserve)
        return 0;
    return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOSPC,
                      "the daemon's disk has less than %s left, which builds do not use; free some "
                      "space there and try again",
                      atoll_text_format_size(reserve, text));
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

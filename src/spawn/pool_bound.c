#include "spawn/pool_bound.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/fd.h"
#include "base/log.h"
#include "spawn/child.h"
#include "spawn/paths.h"
#include "sys/btrfs.h"

#define PERIOD_MS 1000
#define RESERVE_BYTES (UINT64_C(256) << 20)
#define RESERVE_PART 32 /* of a small disk */
/* With more room there is no limit: a change of it is a transaction of the file system. Far more than
 * what is written in a period. */
#define NEAR_BYTES (UINT64_C(4) << 30)
#define STEP_BYTES (UINT64_C(4) << 20)

static struct {
    struct atoll_loop *loop;
    const struct atoll_spawn_host *host;
    struct atoll_timer timer;
    int group_fd; /* in sysfs; owned */
    int state_fd, pool_fd;
    uint64_t limit, next; /* as it was set last; as it is being set */
    pid_t worker;         /* that sets it, or 0 */
} bound = {.group_fd = ATOLL_NO_FD};

/* UINT64_MAX: no limit. */
static int wanted(uint64_t *ret)
{
    struct statvfs fs;
    uint64_t stored, room, reserve;
    int r =
        fstatvfs(bound.state_fd, &fs) < 0 ? -errno : atoll_btrfs_stored(bound.group_fd, &stored);

    if (r < 0)
        return r;
    reserve = ATOLL_MIN(RESERVE_BYTES, (uint64_t)fs.f_blocks * fs.f_frsize / RESERVE_PART);
    room = (uint64_t)fs.f_bavail * fs.f_frsize;
    room = room > reserve ? room - reserve : 0;
    /* A limit of 0 would be none. */
    *ret = room > NEAR_BYTES ? UINT64_MAX : ATOLL_MAX(stored + room, UINT64_C(1));
    return 0;
}

static bool differs(uint64_t a, uint64_t b)
{
    return (a > b ? a - b : b - a) >= STEP_BYTES;
}

static void log_change(uint64_t limit)
{
    static bool told;

    if ((limit != UINT64_MAX) == told)
        return;
    told = !told;
    if (told)
        atoll_log(ATOLL_LOG_WARN,
                  "the disk of the state directory is almost full: disks in the pool "
                  "can write what is left of it",
                  NULL);
    else
        atoll_log(ATOLL_LOG_INFO, "the disk of the state directory has room again", NULL);
}

static int set_limit(const void *arg)
{
    const uint64_t *limit = arg;

    return atoll_btrfs_limit_all(bound.pool_fd, *limit);
}

/* A change waits for the transaction of the file system, which takes long while sandboxes write much:
 * so a process makes it. */
static int begin(void)
{
    const struct atoll_po_ids own = {.mode = ATOLL_IDS_SINGLE};
    int r = wanted(&bound.next);
    pid_t pid;

    if (r < 0 || !differs(bound.next, bound.limit))
        return r;
    pid = atoll_child_work(bound.host, &own, set_limit, &bound.next, &bound.pool_fd, 1);
    bound.worker = pid < 0 ? 0 : pid;
    return pid < 0 ? pid : 0;
}

/* 1: the process has not ended. */
static int finish(void)
{
    int status = 0;
    pid_t pid;

    if (bound.worker == 0)
        return 0;
    pid = waitpid(bound.worker, &status, WNOHANG);
    if (pid == 0)
        return 1;
    bound.worker = 0;
    if (pid < 0)
        return -errno;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO;
    bound.limit = bound.next;
    log_change(bound.limit);
    return 0;
}

static void on_timer(void *arg)
{
    int r = finish();

    (void)arg;
    if (r == 0)
        r = begin();
    if (r < 0)
        atoll_log(ATOLL_LOG_ERROR, "the disk pool has no bound", "error", strerror(-r), NULL);
    atoll_timer_set(&bound.timer, bound.loop, PERIOD_MS, on_timer, NULL);
}

/* Subvolumes that an earlier version made are in no group. */
static int join_existing(int top)
{
    int fd = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;

    if (!dir) {
        r = -errno;
        if (fd >= 0)
            (void)close(fd);
        return r;
    }
    while (r == 0 && (entry = readdir(dir)) != NULL) {
        ATOLL_AUTOCLOSE int one =
            *entry->d_name == '.' ? ATOLL_NO_FD
                                  : atoll_paths_open(top, entry->d_name, O_RDONLY | O_DIRECTORY);
        if (one >= 0)
            r = atoll_btrfs_join_all(one);
    }
    (void)closedir(dir);
    return r;
}

int atoll_pool_bound_open(struct atoll_spawn_host *host, int top, struct atoll_error *err)
{
    int r = host->pool_groups_fd < 0 ? host->pool_groups_fd : atoll_btrfs_make_all(top);

    if (r == 0)
        r = join_existing(top);
    if (r == 0)
        r = bound.group_fd = atoll_btrfs_open_all(host->pool_groups_fd);
    if (r >= 0) {
        bound.state_fd = host->state_fd;
        bound.pool_fd = top;
        r = wanted(&bound.limit); /* what an earlier run set is unknown */
        if (r == 0)
            r = set_limit(&bound.limit);
        if (r == 0)
            log_change(bound.limit);
    }
    if (r < 0)
        return atoll_fail_errno(err, -r, "bound the pool");
    host->pool_group = ATOLL_BTRFS_ALL;
    return 0;
}

void atoll_pool_bound_start(struct atoll_loop *loop, const struct atoll_spawn_host *host)
{
    bound.loop = loop;
    bound.host = host;
    bound.pool_fd = host->pool_fd;
    if (host->pool_group != ATOLL_BTRFS_NO_GROUP)
        atoll_timer_set(&bound.timer, loop, PERIOD_MS, on_timer, NULL);
}

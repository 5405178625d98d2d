#include "spawn/bandwidth.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include "base/fd.h"
#include "base/log.h"
#include "base/text.h"
#include "spawn/loop_device.h"

#define SUFFIX ".io"
#define LOCK_TRIES 1000
#define LOCK_PAUSE_US 5000

static int take_lock(const struct atoll_spawn_host *host)
{
    ATOLL_AUTOCLOSE int fd =
        openat(host->shared_fd, "bandwidth.lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0)
        return -errno;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return errno == EWOULDBLOCK ? -EAGAIN : -errno;
    return ATOLL_TAKE_FD(fd);
}

int atoll_bandwidth_lock(const struct atoll_spawn_host *host, struct atoll_error *err)
{
    int fd = take_lock(host);

    for (int tries = 0; fd == -EAGAIN && tries < LOCK_TRIES; tries++) {
        (void)usleep(LOCK_PAUSE_US);
        fd = take_lock(host);
    }
    return fd < 0 ? atoll_fail_errno(err, -fd, "lock the bandwidth of devices") : fd;
}

static int record(const struct atoll_plan_run *b, dev_t device)
{
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    char path[64], text[32];

    (void)snprintf(path, sizeof(path), "sandboxes/%s" SUFFIX, b->id);
    (void)snprintf(text, sizeof(text), "%u", minor(device));
    fd = openat(b->state_fd, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return fd < 0 ? -errno : atoll_fd_write_all(fd, text, strlen(text));
}

int atoll_bandwidth_limit(const struct atoll_plan_run *b, int loop_fd, uint64_t bytes,
                          struct atoll_error *err)
{
    const struct atoll_cgroups *cg = &b->host->cgroups;
    struct stat st;
    int r = fstat(loop_fd, &st) < 0 ? -errno : 0;

    if (r == 0 && cg->version == 1)
        r = record(b, st.st_rdev);
    if (r == 0)
        r = atoll_cgroup_limit_device(cg, b->id, st.st_rdev, bytes);
    return r < 0 ? atoll_fail_errno(err, -r, "limit the bandwidth of the disk") : 0;
}

void atoll_bandwidth_unlimit(const struct atoll_spawn_host *host, int loop_fd)
{
    struct stat st;

    if (fstat(loop_fd, &st) == 0)
        (void)!atoll_cgroup_unlimit_device(&host->cgroups, st.st_rdev);
}

/* Whether another sandbox uses the device now. Its start has set or removed the limit. */
static bool is_taken(const char *path, const char *id)
{
    ATOLL_AUTOCLOSE int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct loop_info64 info = {0};
    const char *name = (const char *)info.lo_file_name;

    if (fd < 0 || ioctl(fd, LOOP_GET_STATUS64, &info) < 0)
        return false;
    info.lo_file_name[sizeof(info.lo_file_name) - 1] = '\0';
    return strncmp(name, ATOLL_LOOP_DEVICE_NAME, strlen(ATOLL_LOOP_DEVICE_NAME)) == 0 &&
           strcmp(name + strlen(ATOLL_LOOP_DEVICE_NAME), id) != 0;
}

static int take_back(const struct atoll_spawn_host *host, const char *id, const char *number)
{
    ATOLL_AUTOCLOSE int lock = ATOLL_NO_FD;
    char path[48];
    struct stat st;

    (void)snprintf(path, sizeof(path), "/dev/loop%s", number);
    if (stat(path, &st) < 0)
        return 0; /* the limit went with the device */
    lock = take_lock(host);
    if (lock < 0)
        return lock;
    return is_taken(path, id) ? 0 : atoll_cgroup_unlimit_device(&host->cgroups, st.st_rdev);
}

int atoll_bandwidth_undo(const struct atoll_spawn_host *host, int sandboxes, const char *id)
{
    char name[48], number[32];
    uint64_t value;
    int r;

    (void)snprintf(name, sizeof(name), "%s" SUFFIX, id);
    r = atoll_fd_read_file(sandboxes, name, number, sizeof(number));
    if (r == -ENOENT)
        return 0;
    /* An incomplete record was written by a start that ended before it set the limit. */
    if (r >= 0)
        r = atoll_text_u64(number, 0, UINT32_MAX, &value) == 0 ? take_back(host, id, number) : 0;
    if (r == 0 && unlinkat(sandboxes, name, 0) < 0)
        r = -errno;
    return r;
}

void atoll_bandwidth_undo_all(const struct atoll_spawn_host *host)
{
    int fd = openat(host->state_fd, "sandboxes", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;

    while (dir && (entry = readdir(dir)) != NULL) {
        char *dot = strrchr(entry->d_name, '.');
        int r = -EAGAIN;

        if (!dot || strcmp(dot, SUFFIX) != 0)
            continue;
        *dot = '\0';
        for (int tries = 0; r == -EAGAIN && tries < LOCK_TRIES; tries++) {
            r = atoll_bandwidth_undo(host, fd, entry->d_name);
            if (r == -EAGAIN)
                (void)usleep(LOCK_PAUSE_US);
        }
        if (r < 0)
            atoll_log(ATOLL_LOG_WARN, "cannot remove the limit on a loop device", "sandbox",
                      entry->d_name, NULL);
    }
    if (dir)
        (void)closedir(dir);
    else if (fd >= 0)
        (void)close(fd);
}

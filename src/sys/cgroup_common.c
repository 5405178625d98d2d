/*
 * v1 hierarchies in which all sandboxes of an instance share one group: enum atoll_cgroup_common.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include "base/fd.h"
#include "base/switches.h"
#include "sys/cgroup_internal.h"

static const char *const names[ATOLL_CG_COMMON_COUNT] =
    {[ATOLL_CG_CPUSET] = "cpuset", [ATOLL_CG_BLKIO] = "blkio", [ATOLL_CG_DEVICES] = "devices"};

/* The devices of a sandbox: null, zero, full, random, urandom, tty, and its own devpts. */
static const char *const allowed[] = {"c 1:3 rw", "c 1:5 rw", "c 1:7 rw", "c 1:8 rw",
                                      "c 1:9 rw", "c 5:0 rw", "c 5:2 rw", "c 136:* rw"};

const char *atoll_cgroup_common_name(enum atoll_cgroup_common c)
{
    return names[c];
}

static int set_devices(int dir)
{
    int r = atoll_fd_write_file(dir, "devices.deny", "a");

    for (size_t i = 0; r == 0 && i < ATOLL_ARRAY_LEN(allowed); i++)
        r = atoll_fd_write_file(dir, "devices.allow", allowed[i]);
    return r;
}

/* A process cannot join a cpuset without CPUs and nodes, and a new one has neither: copies the
 * parent's. A set that is not empty is the operator's choice and stays. */
static int set_cpuset(int dir)
{
    static const char *const knobs[][2] = {{"cpuset.cpus", "../cpuset.cpus"},
                                           {"cpuset.mems", "../cpuset.mems"}};
    char own[256], above[4096];
    int r = 0;

    for (size_t i = 0; r >= 0 && i < ATOLL_ARRAY_LEN(knobs); i++) {
        r = atoll_fd_read_file(dir, knobs[i][0], own, sizeof(own));
        if (r >= 0 && own[0] != '\n' && own[0] != '\0')
            continue;
        r = atoll_fd_read_file(dir, knobs[i][1], above, sizeof(above));
        if (r >= 0)
            r = atoll_fd_write_file(dir, knobs[i][0], above);
    }
    return r < 0 ? r : 0;
}

int atoll_cgroup_open_common(const char *mount_point, const char *instance,
                             enum atoll_cgroup_common c)
{
    ATOLL_AUTOCLOSE int dir = ATOLL_NO_FD;
    char path[512];
    int r = 0;

    if ((size_t)snprintf(path, sizeof(path), "%s/atoll-%s", mount_point, instance) >= sizeof(path))
        return -ENAMETOOLONG;
    if (mkdir(path, 0755) < 0 && errno != EEXIST)
        return -errno;
    dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return -errno;
    if (c == ATOLL_CG_DEVICES && !atoll_weakened("devices"))
        r = set_devices(dir);
    if (c == ATOLL_CG_CPUSET)
        r = set_cpuset(dir);
    if (r < 0)
        return r;
    return ATOLL_TAKE_FD(dir);
}

/*
 * Limits on the bandwidth of block devices.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include "base/fd.h"
#include "sys/cgroup_internal.h"

#define KNOB_TEXT_MAX 16384

/* v1, relative to the group that all sandboxes of the instance share. Throttling is not hierarchical
 * there: reads, direct writes and fsync count in the group of the process, writeback by the kernel
 * counts in the root group. */
static const char *const knobs[] = {
    "blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device",
    "../blkio.throttle.read_bps_device", "../blkio.throttle.write_bps_device"};

bool atoll_cgroup_io_is_usable(const char *mount_point)
{
    static const char *const needed[] = {"release_agent", /* only the root group has it */
                                         "blkio.throttle.read_bps_device",
                                         "blkio.throttle.write_bps_device"};
    char path[512];
    bool usable = true;

    for (size_t i = 0; usable && i < ATOLL_ARRAY_LEN(needed); i++)
        usable =
            (size_t)snprintf(path, sizeof(path), "%s/%s", mount_point, needed[i]) < sizeof(path) &&
            faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0;
    return usable;
}

int atoll_cgroup_limit_device(const struct atoll_cgroups *cg, const char *id, dev_t device,
                              uint64_t bytes)
{
    unsigned long long n = bytes;
    char path[64], text[96];
    int r = 0;

    if (!cg->has[ATOLL_CG_IO])
        return -EOPNOTSUPP;
    if (cg->version == 2) {
        (void)snprintf(path, sizeof(path), "%s/io.max", id);
        (void)snprintf(text, sizeof(text), "%u:%u rbps=%llu wbps=%llu", major(device),
                       minor(device), n, n);
        return atoll_fd_write_file(cg->parent_fd[0], path, text);
    }
    (void)snprintf(text, sizeof(text), "%u:%u %llu", major(device), minor(device), n);
    for (size_t i = 0; r == 0 && i < ATOLL_ARRAY_LEN(knobs); i++)
        r = atoll_fd_write_file(cg->common_fd[ATOLL_CG_BLKIO], knobs[i], text);
    return r;
}

/* Whether a line of the list is about the device: "7:3 1048576". */
static bool is_listed(const char *list, const char *device)
{
    size_t n = strlen(device);

    for (const char *line = list; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, device, n) == 0)
            return true;
    }
    return false;
}

int atoll_cgroup_unlimit_device(const struct atoll_cgroups *cg, dev_t device)
{
    char list[KNOB_TEXT_MAX], text[32], none[40];
    int dir = cg->common_fd[ATOLL_CG_BLKIO];
    int first = 0;

    if (cg->version != 1 || !cg->has[ATOLL_CG_IO])
        return 0;
    (void)snprintf(text, sizeof(text), "%u:%u ", major(device), minor(device));
    (void)snprintf(none, sizeof(none), "%s0", text);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(knobs); i++) {
        int r = atoll_fd_read_file(dir, knobs[i], list, sizeof(list));

        if (r >= 0 && !is_listed(list, text))
            continue; /* newer kernels freeze the device for the first write */
        r = atoll_fd_write_file(dir, knobs[i], none);
        first = first < 0 ? first : r;
    }
    return first;
}

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include "base/fd.h"
#include "base/switches.h"
#include "spawn/plan_run.h"

/*
 * Files mounted over /proc that the agent keeps up to date (agent/views.h). Each is an unlinked
 * file in memory: the sandbox has a read-only mount of it, the agent a writable descriptor that was
 * opened before the mount.
 */
#define NAME ATOLL_DISK_PARTS "/dev/view"
#define SHOWN "dev/view"

static void open_sources(struct atoll_plan_run *b)
{
    for (int i = 0; b->has_cgroup && i < ATOLL_CGF_COUNT; i++) {
        int fd = atoll_cgroup_open_file(&b->host->cgroups, b->id, (enum atoll_cgroup_file)i);
        b->views.source[i] = fd < 0 ? ATOLL_NO_FD : fd;
    }
}

/* The file is temporarily in the directory of /dev, whose mount is read-only: a bind mount of it is
 * read-only, too, with one call. Skipped if the kernel lacks the /proc file. */
static int make_view(struct atoll_plan_run *b, enum atoll_view view, struct atoll_bytes text,
                     int disk_fd)
{
    ATOLL_AUTOCLOSE int fd =
        openat(disk_fd, NAME, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0444);
    char path[32];
    int r = fd < 0 ? -errno : 0;

    (void)snprintf(path, sizeof(path), "proc/%s", atoll_view_names[view]);
    if (r == 0 && view == ATOLL_VIEW_CPUINFO)
        r = atoll_fd_write_all(fd, text.data, text.len);
    if (r == 0 && mount(SHOWN, path, NULL, MS_BIND, NULL) < 0)
        r = -errno;
    if (fd >= 0 && unlinkat(disk_fd, NAME, 0) < 0 && r == 0)
        r = -errno;
    if (r == 0)
        b->views.file[view] = ATOLL_TAKE_FD(fd);
    return r;
}

int atoll_views_make(struct atoll_plan_run *b, struct atoll_bytes cpu, int disk_fd,
                     struct atoll_error *err)
{
    if (atoll_weakened("proc_views"))
        return 0;
    open_sources(b);
    for (int view = 0; view < ATOLL_VIEW_COUNT; view++) {
        int r = 0;
        if (atoll_view_is_possible((enum atoll_view)view, b->views.source) &&
            (view != ATOLL_VIEW_CPUINFO || cpu.len > 0))
            r = make_view(b, (enum atoll_view)view, cpu, disk_fd);
        if (r < 0 && r != -ENOENT)
            return atoll_fail_errno(err, -r, "cover /proc/%s", atoll_view_names[view]);
    }
    b->has_views = true;
    return 0;
}

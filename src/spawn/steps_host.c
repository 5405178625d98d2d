#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/switches.h"
#include "spawn/paths.h"
#include "spawn/plan_run.h"
#include "spawn/spare.h"

/*
 * Steps that run in spawn before the new process exists.
 */

/* Lower ids belong to users of the host; a request for them is refused. */
#define LOWEST_OUTSIDE_ID 100000u
#define RANGE_SIZE 65536u

static int make_range(struct atoll_plan_run *b, struct atoll_error *err)
{
    const struct atoll_po_ids *ids = &b->ids;
    struct atoll_spare_set set;
    int r;

    if (!b->host->root)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EPERM, "an own id range needs root");
    if ((ids->outside < LOWEST_OUTSIDE_ID && !atoll_weakened("ids")) || ids->count != RANGE_SIZE ||
        ids->inside != 0 || ids->outside > UINT32_MAX - RANGE_SIZE)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "id range %u+%u is not allowed",
                          ids->outside, ids->count);
    r = atoll_spare_take(b->host->spare, ids->outside, ids->layer_base, &set);
    if (r < 0)
        return atoll_fail_errno(err, -r, "user namespace");
    b->userns_fd = set.userns;
    b->netns_fd = set.netns;
    b->layer_userns_fd = set.layers;
    return 0;
}

int atoll_step_ids(struct atoll_plan_run *b, const void *step, struct atoll_error *err)
{
    b->ids = *(const struct atoll_po_ids *)step;
    switch (b->ids.mode) {
    case ATOLL_IDS_RANGE:
        return make_range(b, err);
    case ATOLL_IDS_SUBIDS:
    case ATOLL_IDS_SINGLE:
        if (b->host->root)
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "root needs an own id range");
        return 0; /* the namespace is created with the process */
    default:
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "id mode %u", b->ids.mode);
    }
}

int atoll_step_cgroup(struct atoll_plan_run *b, const void *step, struct atoll_error *err)
{
    const struct atoll_po_cgroup *want = step;
    const struct atoll_cgroups *cg = &b->host->cgroups;
    struct atoll_cgroup_limits limits = {want->memory_bytes, want->cpu_millis, want->pids};
    int r;

    if (cg->version == 0)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EOPNOTSUPP,
                          "this host has no usable cgroups to limit memory, CPU and processes");
    r = atoll_cgroup_create(cg, b->id, &limits);
    if (r < 0)
        return atoll_fail_errno(err, -r, "make cgroup");
    b->has_cgroup = true;
    if (!cg->has[ATOLL_CG_MEMORY])
        return 0; /* no memory controller: the request waived the limit */
    b->oom_fd = atoll_cgroup_open_oom(cg, b->id);
    b->peak_fd = atoll_cgroup_open_peak(cg, b->id);
    if (b->peak_fd == -ENOENT)
        b->peak_fd = ATOLL_NO_FD; /* v2 before 5.19 lacks it; optional */
    if (b->oom_fd < 0)
        return atoll_fail_errno(err, -b->oom_fd, "open memory events");
    return 0;
}

int atoll_copy_sparse(int from, int to)
{
    struct stat st;
    off_t at = 0;

    if (fstat(from, &st) < 0 || ftruncate(to, st.st_size) < 0)
        return -errno;
    while ((at = lseek(from, at, SEEK_DATA)) >= 0) {
        off_t end = lseek(from, at, SEEK_HOLE);
        while (at < end) {
            off_t out = at;
            ssize_t n = copy_file_range(from, &at, to, &out, (size_t)(end - at), 0);
            if (n <= 0)
                return n < 0 ? -errno : -EIO;
        }
    }
    return errno == ENXIO ? 0 : -errno;
}

static int open_existing(struct atoll_plan_run *b, const char *name, struct atoll_error *err)
{
    b->existing_disk = true;
    b->image_fd = openat(b->host->disks_fd, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (b->image_fd < 0)
        return atoll_fail(err, ATOLL_ERR_DATA_LOSS, errno, "the disk of the sandbox is missing");
    return 0;
}

/* DISK makes the disk in the pool, or finds it there. */
static int mark_kept(struct atoll_plan_run *b, const struct atoll_po_image *image,
                     struct atoll_error *err)
{
    char name[48];
    int fd;

    if (!image->keep)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "a mark of a disk that ends");
    b->existing_disk = image->existing;
    (void)snprintf(name, sizeof(name), "%s.cow", b->id);
    fd = openat(b->host->disks_fd, name,
                O_RDONLY | O_NOFOLLOW | O_CLOEXEC | (image->existing ? 0 : O_CREAT | O_EXCL), 0600);
    if (fd < 0)
        return image->existing ? atoll_fail(err, ATOLL_ERR_DATA_LOSS, errno,
                                            "the disk of the sandbox is missing")
                               : atoll_fail_errno(err, errno, "note the disk");
    (void)close(fd);
    return 0;
}

int atoll_step_image(struct atoll_plan_run *b, const void *step, struct atoll_error *err)
{
    const struct atoll_po_image *image = step;
    int dir = image->keep ? b->host->disks_fd : b->host->sandboxes_fd;
    ATOLL_AUTOCLOSE int source = ATOLL_NO_FD;
    char name[48];
    int r;

    if (!b->host->root)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EPERM, "a disk image needs root");
    b->kept_disk = image->keep;
    if (image->cow)
        return mark_kept(b, image, err);
    (void)snprintf(name, sizeof(name), "%s.img", b->id);
    if (image->keep && image->existing)
        return open_existing(b, name, err);
    source = atoll_paths_open(b->host->state_fd, image->source, O_RDONLY);
    if (source < 0)
        return atoll_fail_errno(err, -source, "open image");
    b->image_fd = openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (b->image_fd < 0)
        return atoll_fail_errno(err, errno, "create disk image");
    r = atoll_copy_sparse(source, b->image_fd);
    return r < 0 ? atoll_fail_errno(err, -r, "copy image") : 0;
}

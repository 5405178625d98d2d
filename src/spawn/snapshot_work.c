#include "spawn/snapshot_work.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/fd.h"
#include "base/switches.h"
#include "spawn/disk_pool.h"
#include "spawn/paths.h"
#include "spawn/upper.h"
#include "sys/tree.h"

/* What plans put into the writable layer of every sandbox. The directories that they make there are
 * kept: a plan on a stack makes them again. */
#define NAMES "etc/hosts", "etc/hostname", "etc/resolv.conf"
#define TOOLS "usr/share/atoll", "usr/lib/atoll"
/* What only plans of gVisor make: see atoll_plan_build_runsc(). */
#define OF_RUNSC "etc/ld.so.preload", "tmp/.X11-unix"
/* The second of each for gVisor. On the host template, /usr is an overlay of its own. */
static const char *const skip_root[2][8] = {{NAMES, TOOLS}, {NAMES, TOOLS, OF_RUNSC}};
static const char *const skip_host_root[2][7] = {{NAMES, "usr"}, {NAMES, "usr", OF_RUNSC}};
static const char *const skip_usr[] = {"share/atoll", "lib/atoll", NULL};

/* Address space of the process. Its tables and the paths of directories to visit take less; a tree with an
 * unforeseen shape ends this copy, not the host's memory. */
#define MEMORY_MAX ((rlim_t)512 << 20)

/* Between looks whether the processes stand still. */
#define CHECK_FIRST_US 20u
#define CHECK_LAST_US 1000u
#define FREEZE_MAX_US 10000000u

/* The layer under construction, and what is copied to it. */
struct job {
    const struct atoll_snapshot_work *w;
    int disk_fd, layer_fd, root_fd, usr_from, usr_to;
    struct atoll_upper *root, *usr; /* usr: NULL if it is part of the root */
};

static struct atoll_upper *make_copy(const struct job *j, int from, int to, const char *const *skip)
{
    return atoll_upper_new(&(struct atoll_upper_options){
        .from = from,
        .to = to,
        .from_base = j->w->outside,
        .to_base = j->w->layer_base,
        .userxattr = j->w->userxattr,
        .skip = skip,
        .table_bytes = ATOLL_UPPER_TABLE / (j->usr_from < 0 ? 1 : 2),
    });
}

static int make_layer(struct job *j)
{
    char name[48];

    (void)snprintf(name, sizeof(name), "%s." ATOLL_SNAPSHOT_SUFFIX, j->w->id);
    if (mkdirat(j->w->host->sandboxes_fd, name, 0700) < 0)
        return -errno;
    j->layer_fd = atoll_paths_open(j->w->host->sandboxes_fd, name, O_RDONLY | O_DIRECTORY);
    return j->layer_fd < 0 ? j->layer_fd : 0;
}

/* Layers on the host template have a directory usr. */
static int open_usr(struct job *j)
{
    if (mkdirat(j->layer_fd, "usr", 0755) < 0)
        return -errno;
    j->usr_to = atoll_paths_open(j->layer_fd, "usr", O_RDONLY | O_DIRECTORY);
    return j->usr_to < 0 ? j->usr_to : 0;
}

static int open_job(struct job *j)
{
    bool below = j->w->host->below;
    int r = make_layer(j);

    j->disk_fd = j->w->disk_fd;
    if (r == 0 && j->disk_fd < 0)
        r = j->disk_fd = atoll_disk_mount_kept(j->w->host, j->w->id);
    if (r >= 0)
        r = j->root_fd = atoll_paths_open(j->disk_fd, "u", O_RDONLY | O_DIRECTORY);
    if (r < 0)
        return r;
    j->usr_from = atoll_paths_open(j->disk_fd, "u.usr", O_RDONLY | O_DIRECTORY);
    if (j->usr_from < 0 && j->usr_from != -ENOENT)
        return j->usr_from;
    j->root = make_copy(j, j->root_fd, j->layer_fd,
                        j->usr_from < 0 ? skip_root[below] : skip_host_root[below]);
    r = j->usr_from < 0 ? 0 : open_usr(j);
    if (r == 0 && j->usr_from >= 0)
        j->usr = make_copy(j, j->usr_from, j->usr_to, skip_usr);
    return r;
}

/* The directory usr comes last: it is an entry of the layer that the copy of the root does not know. */
static int pass(struct job *j, bool last)
{
    int r = atoll_upper_pass(j->root, last);

    return r < 0 || !j->usr ? r : atoll_upper_pass(j->usr, last);
}

int atoll_snapshot_ask(const struct atoll_snapshot_work *w)
{
    return atoll_fd_write_all(w->link_fd, ATOLL_SNAPSHOT_ASK, 1);
}

/* The kernel freezes asynchronously, usually within some tens of microseconds: a process in an
 * uninterruptible wait stops only when that is over. */
static int wait_frozen(const struct atoll_snapshot_work *w)
{
    useconds_t pause_us = CHECK_FIRST_US;
    int r = 0;

    for (useconds_t waited_us = 0; waited_us < FREEZE_MAX_US; waited_us += pause_us) {
        r = atoll_cgroup_is_frozen(&w->host->cgroups, w->id);
        if (r != 0)
            break;
        (void)usleep(pause_us);
        pause_us = ATOLL_MIN(pause_us * 2, CHECK_LAST_US);
    }
    return r > 0 ? 0 : -ETIMEDOUT;
}

int atoll_snapshot_await(const struct atoll_snapshot_work *w)
{
    char byte;
    int r = atoll_fd_read_all(w->link_fd, &byte, 1);

    return r < 0 ? r : byte == *ATOLL_SNAPSHOT_FREEZING ? wait_frozen(w) : 0;
}

static int tell_copied(const struct job *j)
{
    struct atoll_snapshot_copied copied = {.sum = atoll_upper_sum(j->root)};

    if (j->usr) {
        copied.sum.bytes += atoll_upper_sum(j->usr).bytes;
        copied.sum.files += atoll_upper_sum(j->usr).files + 1;
    }
    return atoll_fd_write_all(j->w->link_fd, &copied, sizeof(copied));
}

static int copy(struct job *j)
{
    int r = -atoll_fault("spawn.snapshot_copy");

    if (r == 0 && j->w->moves) {
        r = pass(j, false);
        if (r == 0)
            r = atoll_snapshot_ask(j->w);
        if (r == 0)
            r = atoll_snapshot_await(j->w);
    }
    if (r == 0)
        r = -atoll_fault("spawn.snapshot_still");
    if (r == 0)
        r = pass(j, true);
    if (r == 0)
        r = tell_copied(j);
    return r;
}

/* A rename does not cross mounts. Below another instance, whose layers these are, both directories are part of
 * the mount that shows its state directory. */
static int keep(const struct job *j)
{
    const struct atoll_spawn_host *host = j->w->host;
    ATOLL_AUTOCLOSE int state =
        atoll_paths_open(host->state_fd, host->below ? "above" : ".", O_PATH | O_DIRECTORY);
    char from[80], to[80];
    int r;

    if (state < 0)
        return state;
    atoll_commit_remove_tools(state, j->layer_fd);
    r = -atoll_fault("spawn.snapshot_rename");
    (void)snprintf(from, sizeof(from), "%ssandboxes/%s." ATOLL_SNAPSHOT_SUFFIX,
                   host->below ? ATOLL_BELOW_GVISOR "/" : "", j->w->id);
    (void)snprintf(to, sizeof(to), "layers/%s", j->w->layer);
    if (r == 0 && renameat(state, from, state, to) < 0)
        r = -errno;
    return r;
}

/* The address sanitizer reserves more than any limit. */
static int limit_memory(void)
{
    struct rlimit limit;

    if (ATOLL_IS_SANITIZED)
        return 0;
    if (getrlimit(RLIMIT_AS, &limit) < 0)
        return -errno;
    limit.rlim_max = ATOLL_MIN(limit.rlim_max, MEMORY_MAX);
    limit.rlim_cur = ATOLL_MIN(limit.rlim_cur, MEMORY_MAX);
    return setrlimit(RLIMIT_AS, &limit) < 0 ? -errno : 0;
}

/* Whether the disk of the sandbox is in the pool; ret receives its name there. */
static bool is_in_pool(const struct atoll_snapshot_work *w,
                       char ret[static ATOLL_DISK_POOL_NAME_CAP])
{
    char kind = atoll_disk_pool_has(w->host, ATOLL_DISK_POOL_KEPT, w->id) ? ATOLL_DISK_POOL_KEPT
                                                                          : ATOLL_DISK_POOL_DISK;

    atoll_disk_pool_name(ret, kind, w->id);
    return atoll_disk_pool_has(w->host, kind, w->id);
}

int atoll_snapshot_do(const void *arg)
{
    char disk[ATOLL_DISK_POOL_NAME_CAP];
    struct job j = {.w = arg,
                    .disk_fd = ATOLL_NO_FD,
                    .layer_fd = ATOLL_NO_FD,
                    .usr_from = ATOLL_NO_FD,
                    .usr_to = ATOLL_NO_FD};
    int r;

    (void)signal(SIGIO, SIG_IGN); /* a process opens a file while upper.c looks at it */
    r = limit_memory();
    if (r == 0 && is_in_pool(arg, disk))
        return atoll_snapshot_cow(arg, disk);
    if (r == 0)
        r = open_job(&j);
    if (r == 0)
        r = copy(&j);
    return r < 0 ? r : keep(&j); /* the process ends, and with it what it holds */
}

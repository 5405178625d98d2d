#include "spawn/pool_layers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/switches.h"
#include "spawn/child.h"
#include "spawn/disk_pool.h"
#include "spawn/paths.h"
#include "spawn/snapshot_work.h"
#include "sys/btrfs.h"
#include "sys/tree.h"

/* Work for a process, begun when it was not asked for again for quiet_ms, or after latest_ms. */
struct later {
    int (*work)(const void *host);
    const char *failure;
    int64_t quiet_ms, latest_ms;
    struct atoll_timer timer;
    int64_t first_ms; /* since when it is wanted; 0: it is not */
    pid_t worker;     /* or 0 */
};

static int mark_all(const void *host);
static int free_blocks(const void *host);

/* Each layer that becomes read-only is a commit of the file system, and so is freeing blocks: a snapshot
 * would wait for it. */
static struct later marks = {.work = mark_all,
                             .failure = "layers in the pool cannot be made read-only",
                             .quiet_ms = 500,
                             .latest_ms = 10000};
static struct later frees = {.work = free_blocks,
                             .failure = "blocks of the pool are freed late",
                             .quiet_ms = 100,
                             .latest_ms = 500};

static struct atoll_loop *the_loop;
static const struct atoll_spawn_host *the_host;

/* Calls fn for each entry of a directory except those that begin with a dot, until it returns not 0. */
static int each_entry(int dir_fd, int (*fn)(int dir, const char *name, void *arg), void *arg)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    int r = dir ? 0 : -errno;

    if (!dir && fd >= 0)
        (void)close(fd);
    while (r == 0 && dir && (entry = readdir(dir)) != NULL)
        if (*entry->d_name != '.')
            r = fn(dir_fd, entry->d_name, arg);
    if (dir)
        (void)closedir(dir);
    return r;
}

static int remove_other(int top, const char *name, void *arg ATOLL_UNUSED)
{
    return strcmp(name, "u") != 0 ? atoll_tree_remove(top, name) : 0;
}

/* On the host template, /usr is an overlay of its own, with a writable layer of its own. */
static int join_usr(int top, int upper)
{
    int r;

    if (faccessat(top, "u.usr", F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    r = atoll_tree_remove(upper, "usr");
    return r < 0 ? r : renameat(top, "u.usr", upper, "usr") < 0 ? -errno : 0;
}

/* Parents and names of what plans put into the writable layer: see snapshot_work.c. */
static const char *const written[][2] = {{"etc", "hosts"},
                                         {"etc", "hostname"},
                                         {"etc", "resolv.conf"},
                                         {"usr/share", "atoll"},
                                         {"usr/lib", "atoll"}};

static int remove_written(const struct atoll_spawn_host *host, int upper)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < ATOLL_ARRAY_LEN(written); i++) {
        ATOLL_AUTOCLOSE int dir = atoll_paths_open(upper, written[i][0], O_RDONLY | O_DIRECTORY);

        r = dir < 0 ? 0 : atoll_walk_remove(dir, written[i][1]);
    }
    if (r == 0)
        atoll_commit_remove_tools(host->state_fd, upper);
    return r;
}

int atoll_pool_layer_finish(const struct atoll_spawn_host *host, int top,
                            int (*fn)(const void *arg, const struct atoll_walk_sum *sum),
                            const void *arg)
{
    ATOLL_AUTOCLOSE int upper = atoll_paths_open(top, "u", O_RDONLY | O_DIRECTORY);
    struct atoll_walk_sum sum;
    int r = upper < 0 ? upper : join_usr(top, upper);

    if (r == 0)
        r = remove_written(host, upper);
    if (r == 0)
        r = atoll_walk_remove_sockets(upper, &sum);
    if (r == 0)
        r = fn(arg, &sum);
    return r < 0 ? r : atoll_tree_remove(top, ATOLL_POOL_LAYER_UNFINISHED);
}

/* Opens the subvolume of a layer that has its link. -ENOENT: it is none. */
static int open_layer(const struct atoll_spawn_host *host, const char *name)
{
    char subvolume[ATOLL_DISK_POOL_NAME_CAP];

    if (name[0] != ATOLL_DISK_POOL_LAYER || name[1] != '-' ||
        !atoll_disk_pool_is_link(host->layers_fd, name + 2, subvolume) ||
        strcmp(subvolume, name) != 0)
        return -ENOENT;
    return atoll_paths_open(host->pool_fd, name, O_RDONLY | O_DIRECTORY);
}

/* Repairs. */

static int forget_sum(const void *arg ATOLL_UNUSED, const struct atoll_walk_sum *sum ATOLL_UNUSED)
{
    return 0;
}

/* The limit of an earlier run may leave no room for a rename; the caller sets another. */
static int finish_again(const struct atoll_spawn_host *host, int top)
{
    int r = atoll_pool_layer_finish(host, top, forget_sum, NULL);

    if (r == -EDQUOT && atoll_btrfs_limit_all(host->pool_fd, UINT64_MAX) == 0)
        r = atoll_pool_layer_finish(host, top, forget_sum, NULL);
    return r;
}

static int repair(int pool ATOLL_UNUSED, const char *name, void *arg)
{
    const struct atoll_spawn_host *host = arg;
    ATOLL_AUTOCLOSE int top = open_layer(host, name);
    int r;

    if (top == -ENOENT)
        return 0;
    if (top < 0)
        return top;
    if (faccessat(top, ATOLL_POOL_LAYER_UNFINISHED, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    r = finish_again(host, top);
    if (r == 0)
        return 0;
    atoll_log(ATOLL_LOG_ERROR, "a layer cannot be made whole, and is removed", "layer", name + 2,
              "error", strerror(-r), NULL);
    /* Without a link the subvolume is removed. */
    return unlinkat(host->layers_fd, name + 2, 0) < 0 && errno != ENOENT ? -errno : 0;
}

int atoll_pool_layers_repair(const struct atoll_spawn_host *host)
{
    return each_entry(host->pool_fd, repair, (void *)(uintptr_t)host);
}

/* What can wait. */

static int mark(int pool ATOLL_UNUSED, const char *name, void *arg)
{
    const struct atoll_spawn_host *host = arg;
    ATOLL_AUTOCLOSE int top = open_layer(host, name);
    int r = top < 0 ? top : atoll_btrfs_is_read_only(top);

    if (r == 0)
        r = -atoll_fault("spawn.pool_mark");
    if (r == 0)
        r = each_entry(top, remove_other, NULL);
    if (r == 0)
        r = atoll_btrfs_set_read_only(top);
    return r == -ENOENT || r > 0 ? 0 : r; /* a layer may be removed meanwhile */
}

static int mark_all(const void *arg)
{
    const struct atoll_spawn_host *host = arg;

    return each_entry(host->pool_fd, mark, (void *)(uintptr_t)host);
}

static int free_blocks(const void *arg)
{
    const struct atoll_spawn_host *host = arg;

    return atoll_btrfs_free_soon(host->pool_fd);
}

static int begin(struct later *l)
{
    const struct atoll_po_ids own = {.mode = ATOLL_IDS_SINGLE};
    const int keep[] = {the_host->pool_fd, the_host->layers_fd};
    pid_t pid = atoll_child_work(the_host, &own, l->work, the_host, keep, 2);

    l->first_ms = 0;
    l->worker = pid < 0 ? 0 : pid;
    return pid < 0 ? pid : 0;
}

/* 1: the process has not ended. */
static int finish(struct later *l)
{
    int status = 0;
    pid_t pid = l->worker == 0 ? -1 : waitpid(l->worker, &status, WNOHANG);

    if (l->worker == 0 || pid == 0)
        return l->worker != 0;
    l->worker = 0;
    if (pid < 0)
        return -errno;
    return !WIFEXITED(status) ? -EIO : -WEXITSTATUS(status);
}

static void on_timer(void *arg)
{
    struct later *l = arg;
    int r = finish(l), begun = 0;

    if (l->worker == 0 && l->first_ms != 0)
        begun = begin(l);
    r = r < 0 ? r : begun;
    if (r < 0)
        atoll_log(ATOLL_LOG_ERROR, l->failure, "error", strerror(-r), NULL);
    if (l->worker != 0)
        atoll_timer_set(&l->timer, the_loop, l->quiet_ms, on_timer, l);
}

static void want(struct later *l)
{
    int64_t now = atoll_clock_ms();

    if (!the_loop || the_host->pool_fd < 0)
        return;
    if (l->first_ms == 0)
        l->first_ms = now;
    if (now - l->first_ms < l->latest_ms)
        atoll_timer_set(&l->timer, the_loop, l->quiet_ms, on_timer, l);
}

void atoll_pool_layers_made(void)
{
    want(&marks);
}

void atoll_pool_layers_removed(void)
{
    want(&frees);
}

void atoll_pool_layers_start(struct atoll_loop *loop, const struct atoll_spawn_host *host)
{
    the_loop = loop;
    the_host = host;
    want(&marks);
}

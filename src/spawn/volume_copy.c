#include "spawn/volume_copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "base/fd.h"
#include "base/log.h"
#include "base/switches.h"
#include "base/text.h"
#include "spawn/child.h"
#include "spawn/layers.h"
#include "spawn/paths.h"
#include "spawn/volume_image.h"
#include "sys/ns.h"

#define COPIES_MAX 8

struct copying {
    struct atoll_list node;
    struct atoll_volume_copies *all;
    uint32_t request; /* 0: no request waits */
    char from[65], to[65];
    int dir_fd; /* of the tenant's volumes */
    pid_t pid;
    int pidfd;
    struct atoll_watch watch;
};

void atoll_volume_copies_init(
    struct atoll_volume_copies *all, struct atoll_loop *loop, const struct atoll_spawn_host *host,
    void (*copied)(void *arg, uint32_t request, const struct atoll_error *error), void *arg)
{
    *all = (struct atoll_volume_copies){.loop = loop, .host = host, .copied = copied, .arg = arg};
    atoll_list_init(&all->list);
}

/* The process that copies. */

/* Copies what the file system has, while nothing writes to it. */
static int copy_still(int image_fd, int mount_fd, int copy_fd)
{
    ATOLL_AUTOCLOSE int top = openat(mount_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r;

    if (top < 0 || ioctl(top, FIFREEZE, 0) < 0)
        return -errno;
    atoll_fault_die("spawn.volume_frozen");
    r = -atoll_fault("spawn.volume_copy");
    if (r == 0)
        r = atoll_copy_sparse(image_fd, copy_fd);
    return ioctl(top, FITHAW, 0) < 0 && r == 0 ? -errno : r;
}

/* The file system is mounted also if no sandbox has it: its journal is replayed then. */
static int copy(const void *arg)
{
    const struct copying *c = arg;
    ATOLL_AUTOCLOSE int image = openat(c->dir_fd, c->from, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    ATOLL_AUTOCLOSE int made = openat(c->dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    ATOLL_AUTOCLOSE int mount =
        image < 0 || made < 0 ? -errno : atoll_volume_image_mount(c->dir_fd, c->from, 0, 0);
    char link[32];
    int r = mount < 0 ? mount : copy_still(image, mount, made);

    if (r == 0 && fsync(made) < 0)
        r = -errno;
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", made);
    if (r == 0 && linkat(AT_FDCWD, link, c->dir_fd, c->to, AT_SYMLINK_FOLLOW) < 0)
        r = -errno;
    return -r;
}

/* Thawing. */

/* Of an image that nothing has attached, the lock is free: it is not frozen. */
static bool is_attached(int dir_fd, const char *name)
{
    ATOLL_AUTOCLOSE int image = openat(dir_fd, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);

    return image >= 0 && atoll_volume_image_is_attached(image);
}

static void thaw(int dir_fd, const char *name)
{
    ATOLL_AUTOCLOSE int mount = atoll_volume_image_mount(dir_fd, name, 0, 0);
    ATOLL_AUTOCLOSE int top =
        mount < 0 ? ATOLL_NO_FD : openat(mount, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (top >= 0 && ioctl(top, FITHAW, 0) == 0)
        atoll_log(ATOLL_LOG_WARN, "a volume is thawed whose copy was ended", "volume", name, NULL);
}

static void thaw_tenant(int volumes_fd, const char *tenant)
{
    int fd = openat(volumes_fd, tenant, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    struct stat st;

    if (!dir && fd >= 0)
        (void)close(fd);
    while (dir && (entry = readdir(dir)) != NULL)
        if (atoll_text_is_name(entry->d_name) &&
            fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
            is_attached(fd, entry->d_name))
            thaw(fd, entry->d_name);
    if (dir)
        (void)closedir(dir);
}

void atoll_volume_copies_begin(const struct atoll_volume_copies *all)
{
    int fd = all->host->root
                 ? atoll_paths_open(all->host->state_fd, ATOLL_VOLUMES, O_RDONLY | O_DIRECTORY)
                 : ATOLL_NO_FD;
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;

    if (!dir && fd >= 0)
        (void)close(fd);
    while (dir && (entry = readdir(dir)) != NULL)
        if (atoll_text_is_name(entry->d_name))
            thaw_tenant(fd, entry->d_name);
    if (dir)
        (void)closedir(dir);
}

/* Copies, as spawn sees them. */

static void end(struct copying *c, const struct atoll_error *error)
{
    struct atoll_volume_copies *all = c->all;
    uint32_t request = c->request;

    atoll_watch_close(&c->watch);
    if (c->pidfd >= 0)
        (void)close(c->pidfd);
    if (c->dir_fd >= 0)
        (void)close(c->dir_fd);
    atoll_list_remove(&c->node);
    all->count--;
    free(c);
    if (request)
        all->copied(all->arg, request, error);
}

static void fail_with(struct copying *c, int errnum)
{
    struct atoll_error err;

    if (errnum == EEXIST)
        (void)atoll_fail(&err, ATOLL_ERR_ALREADY_EXISTS, errnum, "volume %s exists", c->to);
    else if (errnum == ENOENT)
        (void)atoll_fail(&err, ATOLL_ERR_NOT_FOUND, errnum, "there is no volume %s", c->from);
    else
        (void)atoll_fail_errno(&err, errnum, "copy the volume");
    end(c, &err);
}

static void copier_gone(void *arg, uint32_t events)
{
    struct copying *c = arg;
    int status = 0;

    (void)events;
    while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (!WIFEXITED(status))
        thaw(c->dir_fd, c->from);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        end(c, NULL);
    else
        fail_with(c, WIFEXITED(status) ? WEXITSTATUS(status) : EIO);
}

static int begin(struct copying *c)
{
    const struct atoll_po_ids ids = {.mode = ATOLL_IDS_SINGLE};
    int r = c->pid = atoll_child_work(c->all->host, &ids, copy, c, &c->dir_fd, 1);

    if (r < 0)
        return r;
    r = c->pidfd = atoll_sys_pidfd_open(c->pid);
    if (r >= 0)
        r = atoll_watch_open(&c->watch, c->all->loop, c->pidfd, EPOLLIN, copier_gone, c);
    if (r >= 0)
        return 0;
    (void)kill(c->pid, SIGKILL);
    while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    thaw(c->dir_fd, c->from);
    return r;
}

int atoll_volume_copy(struct atoll_volume_copies *all, const char *from, const char *to,
                      uint32_t request, struct atoll_error *err)
{
    struct copying *c;
    const char *name;
    char path[ATOLL_VOLUME_PATH_CAP];
    int r;

    if (!all->host->root || !atoll_volume_path(from, path, &name) || !atoll_text_is_name(to))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "not the names of volumes");
    c = all->count == COPIES_MAX ? NULL : calloc(1, sizeof(*c));
    if (all->count == COPIES_MAX)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                          "%d volumes are being copied; try again", COPIES_MAX);
    if (!c)
        return atoll_fail_errno(err, ENOMEM, "copy the volume");
    *c = (struct copying){.all = all, .request = request, .pidfd = ATOLL_NO_FD};
    (void)snprintf(c->from, sizeof(c->from), "%s", name);
    (void)snprintf(c->to, sizeof(c->to), "%.64s", to);
    atoll_list_push_back(&all->list, &c->node);
    all->count++;
    c->dir_fd = atoll_paths_open(all->host->state_fd, path, O_RDONLY | O_DIRECTORY);
    r = c->dir_fd < 0 ? c->dir_fd : begin(c);
    if (r < 0)
        fail_with(c, -r);
    return 0;
}

void atoll_volume_copies_forget_requests(struct atoll_volume_copies *all)
{
    ATOLL_LIST_FOREACH (&all->list, node)
        ATOLL_CONTAINER_OF(node, struct copying, node)->request = 0;
}

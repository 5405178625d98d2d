#include "spawn/layers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include "base/fd.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/text.h"
#include "spawn/child.h"
#include "spawn/disk_pool.h"
#include "spawn/paths.h"
#include "spawn/pool_layers.h"
#include "sys/ns.h"

#define GONE "gone-"
#define QUEUE_MAX 4096

struct dropping {
    struct atoll_list node;
    struct atoll_layers *all;
    uint32_t request;                /* 0: no request waits */
    char name[ATOLL_LAYER_NAME_CAP]; /* its current name */
    struct atoll_po_ids ids;
    bool pooled; /* it is a link to a subvolume of the pool */
    pid_t pid;   /* of the process that removes it */
    int pidfd;
    struct atoll_watch watch;
};

void atoll_layers_init(
    struct atoll_layers *all, struct atoll_loop *loop, const struct atoll_spawn_host *host,
    void (*dropped)(void *arg, uint32_t request, const struct atoll_error *error), void *arg)
{
    *all = (struct atoll_layers){.loop = loop, .host = host, .dropped = dropped, .arg = arg};
    atoll_list_init(&all->queue);
}

static void finish(struct dropping *d, const struct atoll_error *error)
{
    struct atoll_layers *all = d->all;
    uint32_t request = d->request;

    if (error && !request)
        atoll_log(ATOLL_LOG_ERROR, "a dropped layer cannot be removed", "layer", d->name, "error",
                  error->text, NULL);
    atoll_watch_close(&d->watch);
    if (d->pidfd >= 0)
        (void)close(d->pidfd);
    atoll_list_remove(&d->node);
    all->count--;
    free(d);
    if (request)
        all->dropped(all->arg, request, error);
}

static void go_on(struct atoll_layers *all);

static void sweeper_gone(void *arg, uint32_t events)
{
    struct dropping *d = arg;
    struct atoll_layers *all = d->all;
    struct atoll_error err;
    int status = 0;

    (void)events;
    while (waitpid(d->pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (d->pooled)
        atoll_pool_layers_removed();
    (void)atoll_fail_errno(&err, EACCES, "remove layer");
    finish(d, WIFEXITED(status) && WEXITSTATUS(status) == 0 ? NULL : &err);
    go_on(all);
}

static int begin(struct dropping *d, struct atoll_error *err)
{
    const struct atoll_spawn_host *host = d->all->host;
    char subvolume[ATOLL_DISK_POOL_NAME_CAP];
    int r;

    d->pooled = atoll_disk_pool_is_link(host->layers_fd, d->name, subvolume);
    r = d->pid = d->pooled ? atoll_disk_pool_sweep(host, d->name)
                           : atoll_child_sweep(host, &d->ids, host->layers_fd, d->name);

    if (r < 0)
        return atoll_fail_errno(err, -r, "remove layer");
    r = d->pidfd = atoll_sys_pidfd_open(d->pid);
    if (r >= 0)
        r = atoll_watch_open(&d->watch, d->all->loop, d->pidfd, EPOLLIN, sweeper_gone, d);
    if (r >= 0)
        return 0;
    (void)kill(d->pid, SIGKILL);
    while (waitpid(d->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return atoll_fail_errno(err, -r, "watch the process that removes the layer");
}

static void go_on(struct atoll_layers *all)
{
    while (!atoll_list_empty(&all->queue)) {
        struct dropping *d = ATOLL_CONTAINER_OF(all->queue.next, struct dropping, node);
        struct atoll_error err;

        if (d->pid > 0 || begin(d, &err) == 0)
            return;
        finish(d, &err);
    }
}

static bool is_aside(const char *name)
{
    return strncmp(name, GONE, strlen(GONE)) == 0;
}

void atoll_layer_aside_name(char ret[static ATOLL_LAYER_NAME_CAP])
{
    char id[ATOLL_ID_LEN + 1];

    atoll_rand_id(id, ATOLL_ID_LEN);
    (void)snprintf(ret, ATOLL_LAYER_NAME_CAP, GONE "%s", id);
}

int atoll_layer_put_aside(const struct atoll_spawn_host *host, int dir, const char *name,
                          char ret[static ATOLL_LAYER_NAME_CAP])
{
    atoll_layer_aside_name(ret);
    return renameat(dir, name, host->layers_fd, ret) < 0 ? -errno : 0;
}

/* Takes d, which is put aside already. */
static void enqueue(struct dropping *d)
{
    atoll_list_push_back(&d->all->queue, &d->node);
    d->all->count++;
    go_on(d->all);
}

static struct dropping *dropping_new(struct atoll_layers *all, const struct atoll_po_ids *ids,
                                     uint32_t request, struct atoll_error *err)
{
    struct dropping *d = all->count == QUEUE_MAX ? NULL : calloc(1, sizeof(*d));

    if (all->count == QUEUE_MAX)
        (void)atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                         "too many layers are being removed; try again");
    else if (!d)
        (void)atoll_fail_errno(err, ENOMEM, "layer");
    else
        *d = (struct dropping){.all = all, .request = request, .ids = *ids, .pidfd = ATOLL_NO_FD};
    return d;
}

int atoll_layers_drop(struct atoll_layers *all, const char *name, const struct atoll_po_ids *ids,
                      uint32_t request, struct atoll_error *err)
{
    struct dropping *d;
    int r;

    if (!atoll_text_is_name(name))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "not the name of a layer");
    d = dropping_new(all, ids, request, err);
    if (!d)
        return -EAGAIN;
    if (is_aside(name))
        r = atoll_text_copy(d->name, sizeof(d->name), name);
    else
        r = atoll_layer_put_aside(all->host, all->host->layers_fd, name, d->name);
    if (r < 0) {
        free(d);
        if (r != -ENOENT)
            return atoll_fail_errno(err, -r, "remove layer");
        all->dropped(all->arg, request, NULL);
        return 0;
    }
    enqueue(d);
    return 0;
}

bool atoll_volume_path(const char *volume, char ret_dir[static ATOLL_VOLUME_PATH_CAP],
                       const char **ret_name)
{
    const char *slash = strchr(volume, '/');

    *ret_name = slash ? slash + 1 : "";
    return slash && slash - volume <= 64 && atoll_text_is_name(slash + 1) &&
           (size_t)snprintf(ret_dir, ATOLL_VOLUME_PATH_CAP, ATOLL_VOLUMES "/%.*s",
                            (int)(slash - volume), volume) < ATOLL_VOLUME_PATH_CAP &&
           atoll_text_is_name(ret_dir + sizeof(ATOLL_VOLUMES));
}

int atoll_volumes_drop(struct atoll_layers *all, const char *name, const struct atoll_po_ids *ids,
                       uint32_t request, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int dir = ATOLL_NO_FD;
    struct dropping *d;
    const char *base;
    char path[ATOLL_VOLUME_PATH_CAP];
    int r;

    if (!atoll_volume_path(name, path, &base))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "not the name of a volume");
    d = dropping_new(all, ids, request, err);
    if (!d)
        return -EAGAIN;
    dir = atoll_paths_open(all->host->state_fd, path, O_RDONLY | O_DIRECTORY);
    r = dir < 0 ? dir : atoll_layer_put_aside(all->host, dir, base, d->name);
    if (r == 0) {
        enqueue(d);
        return 0;
    }
    free(d);
    return r == -ENOENT
               ? atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no volume %.64s", base)
               : atoll_fail_errno(err, -r, "remove volume");
}

void atoll_layers_sweep(struct atoll_layers *all)
{
    const struct atoll_po_ids own = {.mode = ATOLL_IDS_SINGLE};
    int fd = openat(all->host->layers_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    struct atoll_error err;

    while (dir && (entry = readdir(dir)) != NULL)
        if (is_aside(entry->d_name))
            (void)!atoll_layers_drop(all, entry->d_name, &own, 0, &err);
    if (dir)
        (void)closedir(dir);
    else if (fd >= 0)
        (void)close(fd);
}

void atoll_layers_forget_requests(struct atoll_layers *all)
{
    ATOLL_LIST_FOREACH (&all->queue, node)
        ATOLL_CONTAINER_OF(node, struct dropping, node)->request = 0;
}

#include "spawn/layers.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include "base/rand.h"
#include "base/text.h"
#include "spawn/child.h"
#include "sys/ns.h"

#define GONE "gone-"
#define QUEUE_MAX 4096

struct dropping {
    struct atoll_list node;
    struct atoll_layers *all;
    uint32_t request; /* 0: nobody waits */
    char name[72];    /* that it has now */
    struct atoll_po_ids ids;
    pid_t pid; /* of who removes it */
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
    (void)atoll_fail_errno(&err, EACCES, "remove layer");
    finish(d, WIFEXITED(status) && WEXITSTATUS(status) == 0 ? NULL : &err);
    go_on(all);
}

static int begin(struct dropping *d, struct atoll_error *err)
{
    const struct atoll_spawn_host *host = d->all->host;
    int r = d->pid = atoll_child_sweep(host, &d->ids, host->layers_fd, d->name);

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
    return atoll_fail_errno(err, -r, "watch who removes the layer");
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

/* 1: it is there under the new name. */
static int put_aside(int layers_fd, const char *name, char *ret, size_t cap)
{
    char id[ATOLL_ID_LEN + 1];

    if (strncmp(name, GONE, strlen(GONE)) == 0) {
        (void)snprintf(ret, cap, "%s", name);
        return 1;
    }
    atoll_rand_id(id, ATOLL_ID_LEN);
    (void)snprintf(ret, cap, GONE "%s", id);
    if (renameat(layers_fd, name, layers_fd, ret) < 0)
        return errno == ENOENT ? 0 : -errno;
    return 1;
}

int atoll_layers_drop(struct atoll_layers *all, const char *name, const struct atoll_po_ids *ids,
                      uint32_t request, struct atoll_error *err)
{
    struct dropping *d;
    int r;

    if (!atoll_text_is_name(name))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "not the name of a layer");
    if (all->count == QUEUE_MAX)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                          "too many layers are being removed; try again");
    d = calloc(1, sizeof(*d));
    if (!d)
        return atoll_fail_errno(err, ENOMEM, "layer");
    *d = (struct dropping){.all = all, .request = request, .ids = *ids, .pidfd = ATOLL_NO_FD};
    r = put_aside(all->host->layers_fd, name, d->name, sizeof(d->name));
    if (r <= 0) {
        free(d);
        if (r < 0)
            return atoll_fail_errno(err, -r, "remove layer");
        all->dropped(all->arg, request, NULL);
        return 0;
    }
    atoll_list_push_back(&all->queue, &d->node);
    all->count++;
    go_on(all);
    return 0;
}

void atoll_layers_forget_requests(struct atoll_layers *all)
{
    ATOLL_LIST_FOREACH (&all->queue, node)
        ATOLL_CONTAINER_OF(node, struct dropping, node)->request = 0;
}

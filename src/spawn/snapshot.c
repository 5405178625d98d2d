#include "spawn/snapshot_work.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/switches.h"
#include "base/text.h"
#include "spawn/child.h"
#include "spawn/disk_pool.h"
#include "spawn/layers.h"
#include "spawn/pool_layers.h"
#include "spawn/sandbox_internal.h"
#include "sys/ns.h"

/*
 * Snapshots: a separate process copies the writable layer of a sandbox (snapshot_work.c), first while the
 * processes of the sandbox run, then what has changed since, while they are frozen. The copy is renamed
 * to its place among the layers when it is whole. Disks in the pool are copied by the file system
 * (snapshot_cow.c). Whatever ends the copying, the processes are thawed,
 * unless a client has paused them, and an incomplete copy is removed.
 */

#define SNAPSHOTS_MAX 64

struct snapshot {
    struct atoll_list node;
    struct atoll_sandboxes *all;
    char id[33], layer[65];
    uint32_t request;
    struct atoll_po_ids ids; /* of the files of the copy */
    pid_t pid;
    int pidfd, link_fd;
    struct atoll_watch pid_watch, link_watch;
    bool frozen; /* by us */
    int64_t begun_us, frozen_at_us;
    struct atoll_sm_layer made;
};

static struct snapshot *find(const struct atoll_sandboxes *all, const char *id)
{
    ATOLL_LIST_FOREACH (&all->snapshots, node) {
        struct snapshot *s = ATOLL_CONTAINER_OF(node, struct snapshot, node);
        if (strcmp(s->id, id) == 0)
            return s;
    }
    return NULL;
}

bool atoll_snapshot_is_made(const struct atoll_sandboxes *all, const char *id)
{
    return find(all, id) != NULL;
}

static void thaw(struct snapshot *s)
{
    if (!s->frozen)
        return;
    s->frozen = false;
    (void)!atoll_cgroup_freeze(&s->all->host->cgroups, s->id, false);
    s->made.frozen_us = (uint64_t)(atoll_clock_us() - s->frozen_at_us);
}

/* The same for a subvolume that has not become a layer. */
static void leave_subvolume(const struct snapshot *s)
{
    const struct atoll_spawn_host *host = s->all->host;
    char name[ATOLL_DISK_POOL_NAME_CAP], linked[ATOLL_DISK_POOL_NAME_CAP],
        aside[ATOLL_LAYER_NAME_CAP];

    if (!atoll_disk_pool_has(host, ATOLL_DISK_POOL_LAYER, s->layer) ||
        atoll_disk_pool_is_link(host->layers_fd, s->layer, linked))
        return;
    atoll_disk_pool_name(name, ATOLL_DISK_POOL_LAYER, s->layer);
    atoll_layer_aside_name(aside);
    if (atoll_disk_pool_link(host, aside, name) == 0)
        s->all->events->left(s->all->arg, aside, &s->ids);
}

/* Gives an incomplete copy to the server, which removes it. */
static void leave_copy(const struct snapshot *s)
{
    const struct atoll_spawn_host *host = s->all->host;
    char name[48], aside[ATOLL_LAYER_NAME_CAP];
    int r;

    (void)snprintf(name, sizeof(name), "%s." ATOLL_SNAPSHOT_SUFFIX, s->id);
    r = atoll_layer_put_aside(host, host->sandboxes_fd, name, aside);
    if (r == 0)
        s->all->events->left(s->all->arg, aside, &s->ids);
    else if (r != -ENOENT)
        atoll_log(ATOLL_LOG_ERROR, "an incomplete snapshot cannot be removed", "sandbox", s->id,
                  "error", strerror(-r), NULL);
}

static void finish(struct snapshot *s, const struct atoll_error *error)
{
    struct atoll_sandboxes *all = s->all;

    thaw(s);
    leave_copy(s);
    leave_subvolume(s);
    atoll_watch_close(&s->pid_watch);
    atoll_watch_close(&s->link_watch);
    if (s->pidfd >= 0)
        (void)close(s->pidfd);
    if (s->link_fd >= 0)
        (void)close(s->link_fd);
    atoll_list_remove(&s->node);
    all->snapshot_count--;
    if (s->request)
        all->events->committed(all->arg, s->request, error ? NULL : &s->made, error);
    free(s);
}

static void kill_worker(struct snapshot *s)
{
    if (s->pid <= 0)
        return;
    (void)kill(s->pid, SIGKILL);
    while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    s->pid = 0;
}

/* What a worker's errno means. */
static const struct {
    int errnum;
    enum atoll_error_kind kind;
    const char *text;
} meanings[] = {
    {EOPNOTSUPP, ATOLL_ERR_FAILED_PRECONDITION,
     "the disk has parts that only its own overlay can read"},
    {ENAMETOOLONG, ATOLL_ERR_FAILED_PRECONDITION,
     "a path in the sandbox is longer than 4095 bytes"},
    {EMLINK, ATOLL_ERR_RESOURCE_EXHAUSTED,
     "too many hard links: the sandbox has too many files with several names to copy"},
    {ENOMEM, ATOLL_ERR_RESOURCE_EXHAUSTED,
     "not enough memory to copy the files: the sandbox has too many directories, or the host is "
     "short of memory"},
    {ETIMEDOUT, ATOLL_ERR_UNAVAILABLE, "some processes of the sandbox cannot be frozen; try again"},
    {EBUSY, ATOLL_ERR_UNAVAILABLE, "the disk is still in use by an earlier run; try again"},
    {ENOENT, ATOLL_ERR_NOT_FOUND, "the sandbox does not run and has no disk"},
    {EEXIST, ATOLL_ERR_ALREADY_EXISTS, "there is a layer of that name"},
    {ENOTEMPTY, ATOLL_ERR_ALREADY_EXISTS, "there is a layer of that name"},
};

static void fail_with(struct snapshot *s, int errnum)
{
    struct atoll_error err;

    (void)atoll_fail_errno(&err, errnum, "make a snapshot");
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(meanings); i++)
        if (meanings[i].errnum == errnum)
            (void)atoll_fail(&err, meanings[i].kind, errnum, "%s", meanings[i].text);
    finish(s, &err);
}

static void note_copied(struct snapshot *s, const struct atoll_snapshot_copied *copied)
{
    s->made.bytes = copied->sum.bytes;
    s->made.files = copied->sum.files;
    thaw(s);
}

static void worker_gone(void *arg, uint32_t events)
{
    struct snapshot *s = arg;
    struct atoll_snapshot_copied copied;
    int status = 0;

    (void)events;
    while (waitpid(s->pid, &status, 0) < 0 && errno == EINTR)
        ;
    s->pid = 0;
    if (recv(s->link_fd, &copied, sizeof(copied), MSG_DONTWAIT) == (ssize_t)sizeof(copied))
        note_copied(s, &copied); /* its last message, not read yet */
    atoll_fault_die("spawn.snapshotted");
    if (WIFSIGNALED(status))
        atoll_log(ATOLL_LOG_ERROR, "the process that makes a snapshot was killed", "signal",
                  strsignal(WTERMSIG(status)), NULL);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        atoll_pool_layers_made();
        finish(s, NULL);
    } else
        fail_with(s, WIFEXITED(status) ? WEXITSTATUS(status) : EIO);
}

static void go_on(struct snapshot *s, const char *answer)
{
    if (atoll_fd_write_all(s->link_fd, answer, 1) < 0)
        (void)kill(s->pid, SIGKILL); /* worker_gone() follows */
}

/* The worker has copied while the processes ran, or there is little to copy. It waits until they stand
 * still. */
static void freeze(struct snapshot *s)
{
    const struct sandbox *box = atoll_map_get(&s->all->by_id, s->id);
    struct atoll_error err;
    int r;

    if (!box || box->state != SANDBOX_RUNNING) { /* no process is left */
        go_on(s, ATOLL_SNAPSHOT_EMPTY);
        return;
    }
    r = -atoll_fault("spawn.snapshot_freeze");
    s->frozen = true;
    s->frozen_at_us = atoll_clock_us();
    if (r == 0)
        r = atoll_cgroup_freeze(&s->all->host->cgroups, s->id, true);
    if (r == 0) {
        go_on(s, ATOLL_SNAPSHOT_FREEZING);
        return;
    }
    if (r == -EOPNOTSUPP)
        (void)atoll_fail(&err, ATOLL_ERR_UNIMPLEMENTED, -r,
                         "this host has no cgroup freezer, so a running sandbox cannot be copied");
    else
        (void)atoll_fail_errno(&err, -r, "freeze the sandbox");
    kill_worker(s);
    finish(s, &err);
}

static void worker_says(void *arg, uint32_t events)
{
    struct snapshot *s = arg;
    struct atoll_snapshot_copied copied;
    ssize_t n = recv(s->link_fd, &copied, sizeof(copied), MSG_DONTWAIT);

    (void)events;
    if (n == 1) {
        s->made.flush_us = (uint64_t)(atoll_clock_us() - s->begun_us);
        freeze(s);
        return;
    }
    if (n == (ssize_t)sizeof(copied))
        note_copied(s, &copied);
    if (n == 0 || (n < 0 && errno != EAGAIN))
        atoll_watch_close(&s->link_watch); /* worker_gone() follows */
}

void atoll_snapshot_abort(struct atoll_sandboxes *all, const char *id)
{
    struct snapshot *s = find(all, id);
    struct atoll_error err;

    if (!s)
        return;
    (void)atoll_fail(&err, ATOLL_ERR_ABORTED, ECANCELED, "the sandbox is being removed");
    kill_worker(s);
    finish(s, &err);
}

void atoll_snapshots_abort(struct atoll_sandboxes *all)
{
    while (!atoll_list_empty(&all->snapshots)) {
        struct snapshot *s = ATOLL_CONTAINER_OF(all->snapshots.next, struct snapshot, node);

        s->request = 0;
        atoll_snapshot_abort(all, s->id);
    }
}

/* Starts the worker. peer: its end of the socket. */
static int start(struct snapshot *s, const struct sandbox *box,
                 const struct atoll_sm_snapshot *want, int peer)
{
    const struct atoll_spawn_host *host = s->all->host;
    bool moves = box && box->state == SANDBOX_RUNNING && !box->frozen && !box->saved;
    bool has_range = box && box->ids.mode == ATOLL_IDS_RANGE;
    const struct atoll_snapshot_work work = {
        .host = host,
        .disk_fd = box ? box->disk_fd : ATOLL_NO_FD,
        .link_fd = peer,
        .moves = moves,
        .small = moves && atoll_disk_pool_has_little(host, s->id),
        .userxattr = want->userxattr,
        .outside = has_range    ? box->ids.outside
                   : host->root ? want->outside
                                : 0,
        .layer_base = host->root ? want->layer_base : 0,
        .id = s->id,
        .layer = s->layer,
    };
    const int keep[] = {host->state_fd,  host->sandboxes_fd,
                        host->layers_fd, host->disks_fd,
                        work.disk_fd,    peer,
                        host->pool_fd,   atoll_cgroups_freezer(&host->cgroups)};
    int r = -atoll_fault("spawn.snapshot");

    if (r == 0)
        r = s->pid =
            atoll_child_work(host, &s->ids, atoll_snapshot_do, &work, keep, ATOLL_ARRAY_LEN(keep));
    if (r > 0)
        r = s->pidfd = atoll_sys_pidfd_open(s->pid);
    if (r >= 0)
        r = atoll_watch_open(&s->link_watch, s->all->loop, s->link_fd, EPOLLIN, worker_says, s);
    if (r >= 0)
        r = atoll_watch_open(&s->pid_watch, s->all->loop, s->pidfd, EPOLLIN, worker_gone, s);
    if (r >= 0 && work.small)
        freeze(s); /* the last: it can end the snapshot */
    return r;
}

static int check(const struct atoll_sandboxes *all, const struct sandbox *box,
                 const struct atoll_sm_snapshot *want, struct atoll_error *err)
{
    if (!atoll_text_is_id(want->id) || !atoll_text_is_name(want->layer) ||
        strlen(want->layer) >= sizeof(((struct snapshot *)0)->layer))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "bad name in snapshot");
    if (find(all, want->id))
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EBUSY,
                          "another snapshot of sandbox %s is being made", want->id);
    if (box && (box->state != SANDBOX_RUNNING || box->freeze_request || box->save_request))
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EAGAIN,
                          "sandbox %s is not running; try again", want->id);
    if (box && box->disk_fd < 0)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EOPNOTSUPP,
                          "sandbox %s has no disk that can be copied", want->id);
    if (all->snapshot_count == SNAPSHOTS_MAX)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                          "%d snapshots are being made; try again", SNAPSHOTS_MAX);
    return 0;
}

int atoll_sandboxes_snapshot(struct atoll_sandboxes *all, uint32_t request,
                             const struct atoll_sm_snapshot *want, struct atoll_error *err)
{
    const struct sandbox *box =
        atoll_text_is_id(want->id) ? atoll_map_get(&all->by_id, want->id) : NULL;
    struct snapshot *s;
    int ends[2];
    int r = check(all, box, want, err);

    if (r < 0)
        return r;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return atoll_fail_errno(err, errno, "make a snapshot");
    s = calloc(1, sizeof(*s));
    if (!s) {
        (void)close(ends[0]);
        (void)close(ends[1]);
        return atoll_fail_errno(err, ENOMEM, "make a snapshot");
    }
    *s = (struct snapshot){.all = all,
                           .request = request,
                           .pidfd = ATOLL_NO_FD,
                           .link_fd = ends[0],
                           .begun_us = atoll_clock_us()};
    (void)snprintf(s->id, sizeof(s->id), "%s", want->id);
    (void)snprintf(s->layer, sizeof(s->layer), "%s", want->layer);
    if (box)
        s->ids = box->ids;
    atoll_list_push_back(&all->snapshots, &s->node);
    all->snapshot_count++;
    r = start(s, box, want, ends[1]);
    (void)close(ends[1]);
    if (r >= 0)
        return 0;
    kill_worker(s);
    fail_with(s, -r);
    return 0;
}

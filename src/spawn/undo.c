#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include "base/log.h"
#include "base/switches.h"
#include "spawn/bandwidth.h"
#include "spawn/child.h"
#include "spawn/disk_pool.h"
#include "spawn/sandbox_internal.h"
#include "sys/ns.h"

/*
 * Removes a sandbox: first its processes (killing the first kills all), then its cgroup, then its
 * files. Each step is retried by a timer until it succeeds, so the loop never blocks.
 */

#define RETRY_MS 2
#define TRIES_MAX 2500 /* five seconds, then the removal fails */
#define FLUSHES_MAX 5

static void try_again(struct sandbox *s, int problem);

/* Most sandboxes have a socket and maybe an image; under gVisor there may be a log. */
static void remove_plain_files(const struct sandbox *s)
{
    static const char *const suffixes[] = {"sock", "img", "log", ("run/" ATOLL_AGENT_SOCKET_NAME),
                                           "saved/checkpoint.img"};
    char name[64];

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(suffixes); i++) {
        (void)snprintf(name, sizeof(name), "%s.%s", s->id, suffixes[i]);
        (void)unlinkat(s->all->host->sandboxes_fd, name, 0);
    }
    (void)snprintf(name, sizeof(name), "%s.run", s->id);
    (void)unlinkat(s->all->host->sandboxes_fd, name, AT_REMOVEDIR);
    (void)snprintf(name, sizeof(name), "%s.saved", s->id);
    (void)unlinkat(s->all->host->sandboxes_fd, name, AT_REMOVEDIR);
}

/* Keeps or deletes a disk that can outlive the sandbox. If the start failed, an existing disk is kept. */
static bool keeps_disk(const struct sandbox *s)
{
    return s->state == SANDBOX_FAILED ? s->existing_disk : s->keep_disk;
}

static int reap_sweeper(struct sandbox *s)
{
    int status = 0;

    atoll_watch_close(&s->sweeper_watch);
    if (s->sweeper_fd >= 0)
        (void)close(ATOLL_TAKE_FD(s->sweeper_fd));
    while (waitpid(s->sweeper, &status, 0) < 0 && errno == EINTR)
        ;
    s->sweeper = 0;
    return status;
}

/* A disk that cannot be written now stays in the kernel's memory until the kernel writes it. */
static void note_flush(struct sandbox *s, bool succeeded)
{
    s->flushing = false;
    s->flushed = succeeded || ++s->flushes == FLUSHES_MAX;
    if (s->flushed && !succeeded)
        atoll_log(ATOLL_LOG_ERROR, "the disk of a stopped sandbox could not be written at once",
                  "sandbox", s->id, NULL);
}

static void sweeper_gone(void *arg, uint32_t events)
{
    struct sandbox *s = arg;
    int status = reap_sweeper(s);
    bool succeeded = WIFEXITED(status) && WEXITSTATUS(status) == 0;

    (void)events;
    if (s->flushing)
        note_flush(s, succeeded);
    if (succeeded)
        atoll_sandbox_undo(s);
    else
        try_again(s, -EAGAIN);
}

/* pid: of the process that was started, or -errno. The removal goes on when it has ended. */
static int await_sweeper(struct sandbox *s, pid_t pid)
{
    int r;

    if (pid < 0)
        return pid;
    s->sweeper = pid;
    r = s->sweeper_fd = atoll_sys_pidfd_open(pid);
    if (r >= 0)
        r = atoll_watch_open(&s->sweeper_watch, s->all->loop, s->sweeper_fd, EPOLLIN, sweeper_gone,
                             s);
    if (r >= 0)
        return -EINPROGRESS;
    (void)kill(pid, SIGKILL);
    (void)reap_sweeper(s);
    return r;
}

/* Starts the removal of its disk in the pool, or writes the data of one that is kept. 0: it has none there, or
 * that is done. */
static int remove_subvolume(struct sandbox *s)
{
    const struct atoll_spawn_host *host = s->all->host;
    bool kept = atoll_disk_pool_has(host, ATOLL_DISK_POOL_KEPT, s->id);
    char name[ATOLL_DISK_POOL_NAME_CAP];

    if (kept && keeps_disk(s) && !s->unwritten && !s->flushed) {
        s->flushing = true;
        return await_sweeper(s, atoll_disk_pool_flush(host, s->id));
    }
    if (!atoll_disk_pool_has(host, ATOLL_DISK_POOL_DISK, s->id) && (!kept || keeps_disk(s)))
        return 0;
    atoll_disk_pool_name(name, kept ? ATOLL_DISK_POOL_KEPT : ATOLL_DISK_POOL_DISK, s->id);
    return await_sweeper(s, atoll_disk_pool_remove(host, name));
}

/* Starts the removal of a directory that is still there. 0: none is. */
static int remove_trees(struct sandbox *s)
{
    /* A layer under construction; and of gVisor: a sandbox can write to the directory of its socket, and other
     * versions save to more files. */
    static const char *const suffixes[] = {"disk", "run", "saved"};
    int dir = s->all->host->sandboxes_fd;
    char name[48];

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(suffixes); i++) {
        (void)snprintf(name, sizeof(name), "%s.%s", s->id, suffixes[i]);
        if (faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
            return await_sweeper(s, atoll_child_sweep(s->all->host, &s->ids, dir, name));
        if (errno != ENOENT)
            return -errno;
    }
    return 0;
}

/* A tree can be large, so a separate process removes it. -EINPROGRESS: it has been started. */
static int remove_files(struct sandbox *s)
{
    int r;

    remove_plain_files(s);
    r = remove_subvolume(s);
    return r < 0 ? r : remove_trees(s);
}

void atoll_sandbox_drop_disk(const struct atoll_spawn_host *host, const char *id)
{
    char name[48];

    (void)snprintf(name, sizeof(name), "%s.img", id);
    (void)unlinkat(host->disks_fd, name, 0);
    (void)snprintf(name, sizeof(name), "%s.cow", id);
    (void)unlinkat(host->disks_fd, name, 0);
}

/* -EAGAIN while a loop device uses it: a stopped sandbox's disk must not be mounted. */
static int leave_disk(struct sandbox *s)
{
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    char name[48];

    if (!s->kept_disk)
        return 0;
    if (!keeps_disk(s)) {
        atoll_sandbox_drop_disk(s->all->host, s->id);
        return 0;
    }
    (void)snprintf(name, sizeof(name), "%s.img", s->id);
    fd = openat(s->all->host->disks_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    /* See lock_image() in steps_disk.c. */
    return flock(fd, LOCK_SH | LOCK_NB) == 0 ? 0 : -EAGAIN;
}

static void finish(struct sandbox *s, const struct atoll_error *error)
{
    struct atoll_sandboxes *all = s->all;

    atoll_fault_die("spawn.undone");
    atoll_sandbox_close_network(s); /* before the answer: then nothing of it is left */
    if (s->state == SANDBOX_FAILED)
        all->events->started(all->arg, s->id, s->request, 0, 0, &s->error, s->step);
    else
        all->events->removed(all->arg, s->id, s->request, &s->exit, error);
    for (unsigned i = 0; i < s->joined_count; i++)
        all->events->removed(all->arg, s->id, s->joined[i], &s->exit, error);
    atoll_sandbox_free(s);
}

static void retry(void *arg)
{
    atoll_sandbox_undo(arg);
}

/* problem: -errno. */
static void try_again(struct sandbox *s, int problem)
{
    struct atoll_error error;

    if (s->tries++ < TRIES_MAX) {
        atoll_timer_set(&s->retry, s->all->loop, RETRY_MS, retry, s);
        return;
    }
    (void)atoll_fail_errno(&error, -problem, "remove sandbox %s", s->id);
    finish(s, &error);
}

void atoll_sandbox_undo(struct sandbox *s)
{
    const struct atoll_cgroups *cgroups = &s->all->host->cgroups;
    int r;

    if (s->sweeper > 0)
        return; /* sweeper_gone() calls this again */
    if (s->pid > 0) {
        /* process_gone() calls this again when the first process, and so all others, are reaped. */
        (void)!atoll_sys_pidfd_kill(s->pidfd, SIGKILL);
        if (s->pid_watch.loop)
            return;
        while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
            ;
        s->pid = 0;
    }
    atoll_sandbox_close_disk(s);
    r = -atoll_fault("spawn.undo_cgroup");
    if (r == 0)
        r = atoll_cgroup_remove(cgroups, s->id);
    if (r == -EBUSY)
        (void)!atoll_cgroup_kill(cgroups, s->id);
    if (r == 0)
        r = atoll_bandwidth_undo(s->all->host, s->all->host->sandboxes_fd, s->id);
    if (r == 0)
        r = -atoll_fault("spawn.undo_files");
    if (r == 0)
        r = remove_files(s);
    if (r == 0)
        r = -atoll_fault("spawn.undo_disk");
    if (r == 0)
        r = leave_disk(s);
    if (r == 0)
        finish(s, NULL);
    else if (r != -EINPROGRESS) /* removing a large tree has no time limit */
        try_again(s, r);
}

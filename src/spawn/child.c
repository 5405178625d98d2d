#include "spawn/child.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include "base/fd.h"
#include "base/switches.h"
#include "sys/ns.h"
#include "sys/tree.h"

static void fail(struct atoll_plan_run *b, uint32_t index, enum atoll_plan_op op,
                 const struct atoll_error *error) __attribute__((noreturn));

static void fail(struct atoll_plan_run *b, uint32_t index, enum atoll_plan_op op,
                 const struct atoll_error *error)
{
    struct atoll_plan_run_status status = {index, op, *error};

    (void)!atoll_fd_write_all(b->status_fd, &status, sizeof(status));
    _exit(1);
}

static int by_value(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* Closes all of spawn's descriptors except those that this run of the plan needs. */
static int keep_own_fds(struct atoll_plan_run *b)
{
    int keep[9 + ATOLL_CG_COUNT + ATOLL_CG_COMMON_COUNT] = {
        b->listen_fd, b->userns_fd, b->layer_userns_fd, b->image_fd,       b->oom_fd,
        b->peak_fd,   b->status_fd, b->go_fd,           b->host->shared_fd};
    size_t n = 9;

    for (size_t i = 0; i < ATOLL_CG_COUNT; i++)
        keep[n++] = b->host->cgroups.parent_fd[i];
    for (size_t i = 0; i < ATOLL_CG_COMMON_COUNT; i++)
        keep[n++] = b->host->cgroups.common_fd[i];
    qsort(keep, n, sizeof(keep[0]), by_value);
    return atoll_sys_close_except(3, keep, n);
}

/* Descriptors opened before the clone refer to spawn's mount namespace, where this process cannot
 * attach mounts. Only the current directory was moved to the new namespace by the kernel, so the
 * directories are opened again from there. */
static int reopen_directories(struct atoll_plan_run *b)
{
    b->state_fd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    b->mount_fd = open("mnt", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return b->state_fd < 0 || b->mount_fd < 0 ? -errno : 0;
}

static int begin(struct atoll_plan_run *b, struct atoll_error *err)
{
    sigset_t none;
    int r = -atoll_fault("spawn.begin");

    if (r == 0 && b->new_network && b->netns_fd >= 0 && setns(b->netns_fd, CLONE_NEWNET) < 0)
        return atoll_fail_errno(err, errno, "enter the network namespace");
    if (r == 0)
        r = keep_own_fds(b);
    if (r < 0)
        return atoll_fail_errno(err, -r, "close descriptors");
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (b->go_fd >= 0) {
        char byte;
        r = atoll_fd_read_all(b->go_fd, &byte, 1);
        if (r < 0)
            return atoll_fail_errno(err, -r, "wait for id maps");
        /* As root, spawn's mounts are private already. Rootless, they are copies of the host's. */
        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
            return atoll_fail_errno(err, errno, "make mounts private");
    }
    r = reopen_directories(b);
    if (r < 0)
        return atoll_fail_errno(err, -r, "open directories");
    if (!atoll_weakened("session") && setsid() < 0)
        return atoll_fail_errno(err, errno, "setsid");
    r = atoll_weakened("keyring") ? 0 : atoll_sys_new_session_keyring();
    if (r < 0)
        return atoll_fail_errno(err, -r, "session keyring");
    if (b->has_cgroup && b->host->cgroups.version == 1)
        r = atoll_cgroup_enter_v1(&b->host->cgroups, b->id);
    return r < 0 ? atoll_fail_errno(err, -r, "enter cgroup") : 0;
}

void atoll_child_run(struct atoll_plan_run *b, const uint8_t *plan, size_t len, uint32_t index)
{
    struct atoll_plan_step step = {.op = ATOLL_PLAN_START};
    struct atoll_error err;
    int r = begin(b, &err);

    if (r < 0)
        fail(b, index - 1, step.op, &err);
    while ((r = atoll_plan_next(&plan, &len, &step)) > 0) {
        r = atoll_plan_run_step(b, &step, &err); /* AGENT does not return */
        if (r < 0)
            fail(b, index, step.op, &err);
        index++;
    }
    (void)atoll_fail(&err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "the plan ends without an agent");
    fail(b, index, step.op, &err);
}

/* newuidmap and newgidmap are the host's set-uid programs that map sub-ids. */
static int run_mapper(const char *program, pid_t child, uint32_t own, uint32_t outside,
                      uint32_t count)
{
    char pid[16], self[16], start[16], size[16];
    /* Root inside is the user outside, who owns the layers' files; other ids map to sub-ids. */
    char *argv[] = {(char *)(uintptr_t)program, pid, "0", self, "1", "1", start, size, NULL};
    char *envp[] = {NULL};
    pid_t mapper;
    int status, r;

    (void)snprintf(pid, sizeof(pid), "%d", (int)child);
    (void)snprintf(self, sizeof(self), "%u", own);
    (void)snprintf(start, sizeof(start), "%u", outside);
    (void)snprintf(size, sizeof(size), "%u", count);
    r = posix_spawn(&mapper, program, NULL, NULL, argv, envp);
    if (r != 0)
        return -r;
    while (waitpid(mapper, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EPERM;
}

int atoll_child_map_ids(const struct atoll_plan_run *b, pid_t child, int go_fd,
                        struct atoll_error *err)
{
    const struct atoll_po_ids *ids = &b->ids;
    int r;

    if (ids->mode == ATOLL_IDS_SUBIDS) {
        r = run_mapper("/usr/bin/newuidmap", child, b->host->uid, ids->outside, ids->count);
        if (r == 0)
            r = run_mapper("/usr/bin/newgidmap", child, b->host->gid, ids->outside_gid, ids->count);
        if (r < 0)
            return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, -r,
                              "newuidmap refused the sub-ids; see /etc/subuid and /etc/subgid");
    } else {
        /* One id each: the user's own. */
        r = atoll_sys_write_id_map(child, ids->inside, b->host->uid, b->host->gid, 1, true);
        if (r < 0)
            return atoll_fail_errno(err, -r, "map the user's id");
    }
    r = atoll_fd_write_all(go_fd, "g", 1);
    return r < 0 ? atoll_fail_errno(err, -r, "release the new process") : 0;
}

/* Dies with spawn (the next spawn removes the rest) and keeps none of its descriptors open, such as
 * the lock on the state directory and the daemon's connection. */
static _Noreturn void run_work(int (*work)(const void *arg), const void *arg, const int *keep,
                               size_t keep_count, pid_t spawn, int go_fd)
{
    int fds[9] = {go_fd};
    char byte;
    int r;

    memcpy(&fds[1], keep, keep_count * sizeof(keep[0]));
    qsort(fds, keep_count + 1, sizeof(fds[0]), by_value);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != spawn ||
        atoll_sys_close_except(3, fds, keep_count + 1) < 0 ||
        (go_fd >= 0 && atoll_fd_read_all(go_fd, &byte, 1) < 0))
        _exit(EIO);
    r = work(arg);
    _exit(r < 0 ? ATOLL_MIN(-r, 255) : 0);
}

pid_t atoll_child_work(const struct atoll_spawn_host *host, const struct atoll_po_ids *ids,
                       int (*work)(const void *arg), const void *arg, const int *keep,
                       size_t keep_count)
{
    struct atoll_plan_run b = {.host = host, .ids = *ids};
    bool mapped = !host->root;
    int go[2] = {ATOLL_NO_FD, ATOLL_NO_FD};
    pid_t spawn = getpid(), pid;
    struct atoll_error err;

    if (keep_count > 8)
        return -EINVAL;
    if (mapped && pipe2(go, O_CLOEXEC) < 0)
        return -errno;
    pid = atoll_sys_clone(mapped ? CLONE_NEWUSER : 0, -1, NULL);
    if (pid == 0)
        run_work(work, arg, keep, keep_count, spawn, go[0]);
    /* Without id maps the child exits at once and does nothing. */
    if (pid > 0 && mapped)
        (void)!atoll_child_map_ids(&b, pid, go[1], &err);
    for (int i = 0; i < 2; i++)
        if (go[i] >= 0)
            (void)close(go[i]);
    return pid;
}

struct sweep {
    int dir;
    const char *name;
};

static int sweep_tree(const void *arg)
{
    const struct sweep *sweep = arg;
    return atoll_tree_remove(sweep->dir, sweep->name);
}

pid_t atoll_child_sweep(const struct atoll_spawn_host *host, const struct atoll_po_ids *ids,
                        int dir, const char *name)
{
    const struct sweep sweep = {dir, name};
    return atoll_child_work(host, ids, sweep_tree, &sweep, &dir, 1);
}

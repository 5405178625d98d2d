#include "spawn/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include "base/clock.h"
#include "base/fd.h"
#include "base/map.h"
#include "base/switches.h"
#include "base/text.h"
#include "spawn/child.h"
#include "spawn/disk_pool.h"
#include "spawn/sandbox_internal.h"
#include "spawn/spare.h"
#include "sys/ns.h"

static uint64_t now_us(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000u + (uint64_t)ts.tv_nsec / 1000u;
}

int atoll_sandboxes_new(struct atoll_loop *loop, const struct atoll_spawn_host *host,
                        const struct atoll_sandboxes_events *events, void *arg,
                        struct atoll_sandboxes **ret, struct atoll_error *err)
{
    struct atoll_sandboxes *all = calloc(1, sizeof(*all));

    if (!all)
        return atoll_fail_errno(err, ENOMEM, "sandboxes");
    all->loop = loop;
    all->host = host;
    all->events = events;
    all->arg = arg;
    atoll_map_init(&all->by_id);
    atoll_list_init(&all->snapshots);
    *ret = all;
    return 0;
}

static struct sandbox *sandbox_new(struct atoll_sandboxes *all, const char *id)
{
    struct sandbox *s = calloc(1, sizeof(*s));

    if (!s)
        return NULL;
    (void)snprintf(s->id, sizeof(s->id), "%s", id);
    s->all = all;
    s->pidfd = s->status_fd = s->space.tcp = s->space.udp = s->commit.pidfd = s->commit.sum_fd =
        s->disk_fd = s->keep_fd = s->sweeper_fd = ATOLL_NO_FD;
    s->exit.code = -1;
    if (atoll_map_put(&all->by_id, s->id, s) < 0) {
        free(s);
        return NULL;
    }
    return s;
}

static void drop_fd(int *fd)
{
    if (*fd >= 0)
        (void)close(ATOLL_TAKE_FD(*fd));
}

void atoll_sandbox_close_network(struct sandbox *s)
{
    drop_fd(&s->space.tcp);
    drop_fd(&s->space.udp);
}

void atoll_sandbox_close_disk(struct sandbox *s)
{
    drop_fd(&s->disk_fd);
    /* The descriptor may be in a message that was not read. */
    if (s->state == SANDBOX_FAILED || s->state == SANDBOX_REMOVING) {
        atoll_watch_close(&s->status_watch);
        drop_fd(&s->status_fd);
    }
}

void atoll_sandbox_free(struct sandbox *s)
{
    atoll_sandbox_end_reclaim(s);
    atoll_sandbox_unkeep(s);
    atoll_watch_close(&s->status_watch);
    atoll_watch_close(&s->pid_watch);
    atoll_timer_cancel(&s->retry);
    atoll_timer_cancel(&s->freezing);
    atoll_watch_close(&s->sweeper_watch);
    drop_fd(&s->sweeper_fd);
    drop_fd(&s->status_fd);
    drop_fd(&s->pidfd);
    atoll_sandbox_close_network(s);
    atoll_sandbox_close_disk(s);
    (void)atoll_map_remove(&s->all->by_id, s->id);
    free(s);
}

/* Creates the agent's listening socket, state/sandboxes/<id>.sock. */
static int make_socket(struct atoll_plan_run *b, struct atoll_error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    int r = atoll_fault("spawn.socket");

    if (r != 0)
        return atoll_fail_errno(err, r, "fault");
    b->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (b->listen_fd < 0)
        return atoll_fail_errno(err, errno, "socket");
    /* Relative to the current directory (the state directory), whose path may exceed sun_path. */
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "sandboxes/%s.sock", b->id);
    if (bind(b->listen_fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        listen(b->listen_fd, 8) < 0)
        return atoll_fail_errno(err, errno, "listen");
    return 0;
}

/* Runs the steps before START; *plan and *len then start after START. */
static int run_host_steps(struct atoll_plan_run *b, const uint8_t **plan, size_t *len,
                          uint32_t *index, struct atoll_plan_step *step, struct atoll_error *err)
{
    int r = make_socket(b, err);

    step->op = 0;
    while (r == 0 && (r = atoll_plan_next(plan, len, step)) > 0) {
        if (step->op == ATOLL_PLAN_START)
            return 0;
        r = atoll_plan_run_step(b, step, err);
        ++*index;
    }
    if (r == 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "the plan has no start step");
    return r == -EBADMSG ? atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EBADMSG, "malformed plan")
                         : r;
}

static uint64_t clone_flags(const struct atoll_plan_run *b)
{
    uint64_t flags = CLONE_NEWNS;

    flags |= atoll_weakened("pid_namespace") ? 0 : CLONE_NEWPID;
    flags |= atoll_weakened("ipc_namespace") ? 0 : CLONE_NEWIPC;
    flags |= atoll_weakened("uts_namespace") ? 0 : CLONE_NEWUTS;
    /* With root the user namespace is entered last (IDENTITY), so that the other namespaces belong
     * to the host's user namespace and the sandbox has no capabilities over them. */
    if (b->ids.mode != ATOLL_IDS_RANGE)
        flags |= CLONE_NEWUSER;
    if (b->new_network && b->netns_fd < 0)
        flags |= CLONE_NEWNET;
    return flags;
}

/* Creates the process of START. Does not return in the child. */
static int start_process(struct sandbox *s, struct atoll_plan_run *b,
                         const struct atoll_plan_step *step, const uint8_t *rest, size_t len,
                         uint32_t index, struct atoll_error *err)
{
    int status[2], go[2] = {ATOLL_NO_FD, ATOLL_NO_FD};
    struct atoll_po_start start;
    int cgroup_fd = ATOLL_NO_FD;
    int r = atoll_msg_decode(&atoll_po_start_desc, step->payload, step->len, &start, err);

    if (r == 0 && (r = atoll_fault("spawn.start")) != 0)
        r = atoll_fail_errno(err, r, "fault");
    if (r < 0)
        return r;
    b->new_network = start.new_network;
    b->own_clock = start.own_clock;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, status) < 0)
        return atoll_fail_errno(err, errno, "socketpair");
    b->status_fd = status[1];
    s->status_fd = status[0];
    if (!b->host->root && pipe2(go, O_CLOEXEC) < 0)
        return atoll_fail_errno(err, errno, "pipe");
    b->go_fd = go[0];
    if (b->has_cgroup && b->host->cgroups.version == 2)
        r = cgroup_fd = atoll_cgroup_open_v2(&b->host->cgroups, b->id);
    /* The process starts inside its cgroup, so it never runs without limits. */
    s->pid =
        r < 0 ? r
              : atoll_sys_clone_for(atoll_plan_run_owner(b), clone_flags(b), cgroup_fd, &s->pidfd);
    r = 0;
    if (s->pid == 0)
        atoll_child_run(b, rest, len, index + 1);
    if (cgroup_fd >= 0)
        (void)close(cgroup_fd);
    if (s->pid < 0)
        r = atoll_fail_errno(err, -s->pid, "clone");
    else if (!b->host->root)
        r = atoll_child_map_ids(b, s->pid, go[1], err);
    if (go[1] >= 0)
        (void)close(go[1]);
    return r;
}

static void report_start(struct sandbox *s, const struct atoll_error *error, const char *step)
{
    s->all->events->started(s->all->arg, s->id, s->request, s->pid, now_us() - s->begun_us, error,
                            step);
}

/* A start failed: stores the error, undoes the start, then reports. */
static void fail_start(struct sandbox *s, uint32_t index, enum atoll_plan_op op,
                       const struct atoll_error *error)
{
    s->state = SANDBOX_FAILED;
    s->error = *error;
    (void)snprintf(s->step, sizeof(s->step), "%s", atoll_plan_run_step_name(op));
    if (error->kind != ATOLL_ERR_OUT_OF_RANGE) /* that text is for the client */
        (void)atoll_wrap(&s->error, "step %u (%s)", index, s->step);
    atoll_sandbox_undo(s);
}

/* Runs shortly after a start: prepares the user namespace of the next one. */
static void make_spare(void *arg)
{
    struct atoll_sandboxes *all = arg;
    atoll_spare_make(all->host->spare);
}

/* Takes the sockets of NETWORK, or the disk of PIVOT. False: the message has none, it is the status. */
static bool take_descriptors(struct sandbox *s, const int *fds, size_t nfds)
{
    if (nfds == 2 && s->space.tcp < 0) {
        s->space = (struct atoll_netspace){fds[0], fds[1]};
        return true;
    }
    if (nfds == 1 && s->disk_fd < 0) {
        s->disk_fd = fds[0];
        return true;
    }
    while (nfds > 0)
        (void)close(fds[--nfds]);
    return false;
}

static void status_ready(void *arg, uint32_t events)
{
    struct sandbox *s = arg;
    struct atoll_plan_run_status status = {0};
    int fds[ATOLL_FD_RECV_MAX];
    size_t nfds = 0;
    ssize_t n;

    (void)events;
    while ((n = atoll_fd_recv(s->status_fd, &status, sizeof(status), fds, &nfds)) > 0 &&
           take_descriptors(s, fds, nfds))
        if (s->pid > 0) /* the status is another event; a dead process has sent all */
            return;
    atoll_watch_close(&s->status_watch);
    if (n == (ssize_t)sizeof(status) && status.error.kind == ATOLL_ERR_NONE &&
        status.op == ATOLL_PLAN_RUNSC && status.step)
        atoll_sandbox_keep(s, ATOLL_TAKE_FD(s->status_fd));
    else
        (void)close(ATOLL_TAKE_FD(s->status_fd));
    if (s->state != SANDBOX_STARTING)
        return;
    if (n == (ssize_t)sizeof(status) && status.error.kind == ATOLL_ERR_NONE && s->request == 0) {
        struct atoll_error unwanted;
        (void)atoll_fail(&unwanted, ATOLL_ERR_ABORTED, ECANCELED,
                         "the daemon that requested it disconnected");
        fail_start(s, 0, ATOLL_PLAN_START, &unwanted);
        return;
    }
    if (n == (ssize_t)sizeof(status) && status.error.kind == ATOLL_ERR_NONE) {
        s->state = SANDBOX_RUNNING;
        atoll_fault_die("spawn.running");
        report_start(s, NULL, NULL);
        if (s->all->host->root)
            atoll_timer_set(&s->all->spare_timer, s->all->loop, 0, make_spare, s->all);
        return;
    }
    if (n != (ssize_t)sizeof(status)) {
        struct atoll_error gone;
        (void)atoll_fail(&gone, ATOLL_ERR_INTERNAL, ECHILD,
                         "the new process died without an error report");
        fail_start(s, 0, ATOLL_PLAN_START, &gone);
        return;
    }
    status.error.text[sizeof(status.error.text) - 1] = '\0';
    fail_start(s, status.step, status.op, &status.error);
}

static void note_exit(struct sandbox *s)
{
    siginfo_t info = {0};

    while (waitid(P_PIDFD, (id_t)s->pidfd, &info, WEXITED) < 0 && errno == EINTR)
        ;
    s->exit.code = info.si_code == CLD_EXITED ? info.si_status : -1;
    s->exit.signal = info.si_code == CLD_EXITED ? 0 : info.si_status;
    s->pid = 0;
    atoll_sandbox_close_disk(s); /* it would stay mounted */
}

static void process_gone(void *arg, uint32_t events)
{
    struct sandbox *s = arg;

    (void)events;
    atoll_watch_close(&s->pid_watch);
    note_exit(s);
    switch (s->state) {
    case SANDBOX_STARTING:
        /* The socket still holds the status that the process wrote before it died, if any. */
        status_ready(s, 0);
        break;
    case SANDBOX_RUNNING:
        s->state = SANDBOX_EXITED;
        /* An unrequested exit: the resource usage may explain it. */
        (void)!atoll_cgroup_read_stats(&s->all->host->cgroups, s->id, &s->exit.stats);
        s->all->events->exited(s->all->arg, s->id, &s->exit);
        break;
    case SANDBOX_COMMITTING:
        atoll_sandbox_commit(s);
        break;
    case SANDBOX_FAILED:
    case SANDBOX_REMOVING:
        atoll_sandbox_undo(s);
        break;
    case SANDBOX_EXITED:
        break;
    }
}

int atoll_sandboxes_start(struct atoll_sandboxes *all, const char *id, uint32_t request,
                          const uint8_t *plan, size_t plan_len, struct atoll_error *err)
{
    struct atoll_plan_step step = {0};
    struct atoll_plan_run run;
    struct sandbox *s;
    uint32_t index = 0;
    int r;

    if (!atoll_text_is_id(id))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "not a sandbox id");
    if (atoll_map_get(&all->by_id, id))
        return atoll_fail(err, ATOLL_ERR_ALREADY_EXISTS, EEXIST, "sandbox %s exists", id);
    s = sandbox_new(all, id);
    if (!s)
        return atoll_fail_errno(err, ENOMEM, "sandbox");
    s->request = request;
    s->begun_us = now_us();
    s->state = SANDBOX_STARTING;
    atoll_plan_run_init(&run, all->host, s->id);
    r = run_host_steps(&run, &plan, &plan_len, &index, &step, err);
    s->ids = run.ids;
    s->kept_disk = run.kept_disk;
    s->existing_disk = run.existing_disk;
    if (r == 0)
        r = start_process(s, &run, &step, plan, plan_len, index, err);
    atoll_plan_run_done(&run);
    if (r == 0)
        r = atoll_watch_open(&s->status_watch, all->loop, s->status_fd, EPOLLIN, status_ready, s);
    if (r == 0)
        r = atoll_watch_open(&s->pid_watch, all->loop, s->pidfd, EPOLLIN, process_gone, s);
    else if (s->pidfd >= 0)
        (void)!atoll_watch_open(&s->pid_watch, all->loop, s->pidfd, EPOLLIN, process_gone, s);
    if (r < 0)
        fail_start(s, index, step.op, err);
    return 0;
}

/* Adds a request to the removal under way. The disk is kept only if every request keeps it. */
static void join_removal(struct sandbox *s, uint32_t request, const struct atoll_sm_remove *want)
{
    if (s->joined_count == SANDBOX_JOINED_MAX) {
        const struct atoll_sandbox_exit nothing = {.code = -1};
        struct atoll_error busy;
        (void)atoll_fail(&busy, ATOLL_ERR_ABORTED, EBUSY, "sandbox %s is being removed already",
                         s->id);
        s->all->events->removed(s->all->arg, s->id, request, &nothing, &busy);
        return;
    }
    s->joined[s->joined_count++] = request;
    if (!want->keep_disk)
        s->keep_disk = s->existing_disk = false;
    if (!want->unwritten)
        s->unwritten = false;
}

static void begin_removal(struct sandbox *s, uint32_t request, const struct atoll_sm_remove *want)
{
    s->state = SANDBOX_REMOVING;
    s->request = request;
    s->keep_disk = want->keep_disk;
    s->unwritten = want->unwritten;
    atoll_sandbox_undo(s);
}

/* The disk of a sandbox that does not run. */
static void remove_stopped(struct atoll_sandboxes *all, uint32_t request,
                           const struct atoll_sm_remove *want)
{
    const struct atoll_sandbox_exit nothing = {.code = -1};
    bool is_id = atoll_text_is_id(want->id);
    struct sandbox *s = NULL;

    atoll_snapshot_abort(all, want->id);
    /* Removing a disk in the pool takes a process, and so does writing it. */
    if (is_id && !(want->keep_disk && want->unwritten) &&
        atoll_disk_pool_has(all->host, ATOLL_DISK_POOL_KEPT, want->id))
        s = sandbox_new(all, want->id);
    if (s) {
        s->kept_disk = true;
        begin_removal(s, request, want);
        return;
    }
    if (is_id && !want->keep_disk)
        atoll_sandbox_drop_disk(all->host, want->id);
    all->events->removed(all->arg, want->id, request, &nothing, NULL);
}

void atoll_sandboxes_remove(struct atoll_sandboxes *all, uint32_t request,
                            const struct atoll_sm_remove *want)
{
    struct sandbox *s = atoll_text_is_id(want->id) ? atoll_map_get(&all->by_id, want->id) : NULL;

    if (!s) {
        remove_stopped(all, request, want);
        return;
    }
    if (s->state == SANDBOX_REMOVING || s->state == SANDBOX_FAILED) {
        join_removal(s, request, want);
        return;
    }
    if (s->state == SANDBOX_STARTING) { /* the start request is answered, too */
        struct atoll_error unwanted;
        (void)atoll_fail(&unwanted, ATOLL_ERR_ABORTED, ECANCELED, "the sandbox is being removed");
        join_removal(s, request, want);
        fail_start(s, 0, ATOLL_PLAN_START, &unwanted);
        return;
    }
    if (s->state == SANDBOX_COMMITTING)
        atoll_sandbox_abort_commit(s);
    atoll_snapshot_abort(all, want->id);
    atoll_sandbox_thaw(s);
    begin_removal(s, request, want);
}

void atoll_sandboxes_forget_requests(struct atoll_sandboxes *all)
{
    struct sandbox *s;
    size_t pos = 0;

    atoll_snapshots_abort(all);
    while ((s = atoll_map_next(&all->by_id, &pos)) != NULL) {
        s->request = s->freeze_request = s->commit.request = 0;
        atoll_sandbox_forget_reclaim(s);
        s->save_request = 0;
        s->joined_count = 0;
    }
}

bool atoll_sandboxes_use_ids(const struct atoll_sandboxes *all, uint32_t first, uint32_t count)
{
    const struct sandbox *s;

    for (size_t pos = 0; (s = atoll_map_next(&all->by_id, &pos)) != NULL;)
        if (s->ids.outside >= first && s->ids.outside - first < count)
            return true;
    return false;
}

const struct atoll_netspace *atoll_sandboxes_network(const struct atoll_sandboxes *all,
                                                     const char *id)
{
    const struct sandbox *s = atoll_text_is_id(id) ? atoll_map_get(&all->by_id, id) : NULL;

    return s && s->state == SANDBOX_RUNNING && s->space.tcp >= 0 ? &s->space : NULL;
}

size_t atoll_sandboxes_count(const struct atoll_sandboxes *all)
{
    return all->by_id.used;
}

const char *atoll_sandboxes_next(const struct atoll_sandboxes *all, size_t *pos, pid_t *ret_pid)
{
    struct sandbox *s;

    while ((s = atoll_map_next(&all->by_id, pos)) != NULL)
        if (s->state == SANDBOX_RUNNING || s->state == SANDBOX_EXITED ||
            s->state == SANDBOX_COMMITTING) {
            *ret_pid = s->pid;
            return s->id;
        }
    return NULL;
}

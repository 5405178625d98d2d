/*
 * The agent's main part: set-up, the loop, and the socket to which the daemon connects.
 *
 * Each round of the loop handles ready descriptors, runs one step of every job, and then sends:
 * output and answers of one round are sent with one write.
 */
#include "agent/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include "agent/agent_internal.h"
#include "base/clock.h"
#include "base/fd.h"

#define ACCEPT_AGAIN_MS 100

_Alignas(16) uint8_t atoll_agent_scratch[ATOLL_AGENT_SCRATCH];

static void accept_again(void *arg)
{
    struct atoll_agent *a = arg;
    (void)!atoll_watch_set(&a->listen_watch, EPOLLIN);
}

static void accept_ready(void *arg, uint32_t events)
{
    struct atoll_agent *a = arg;
    int fd = accept4(a->config.listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    (void)events;
    if (fd >= 0) {
        atoll_agent_accepted_open(a, fd);
        return;
    }
    if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
        return;
    /* Out of descriptors or memory: the connection stays in the backlog. Stops watching, or the
     * loop would spin. */
    (void)!atoll_watch_set(&a->listen_watch, 0);
    atoll_timer_set(&a->accept_again, a->loop, ACCEPT_AGAIN_MS, accept_again, a);
}

static void child_ended(void *arg, int signo)
{
    (void)signo;
    atoll_agent_reap(arg);
}

/* Sets default dispositions once; children inherit them and need not reset them. */
static int setup_signals(struct atoll_agent *a, struct atoll_error *err)
{
    const unsigned long dfl[4] = {0}; /* the kernel's struct: handler, flags, restorer, mask */
    sigset_t set;

    /* The raw call, because libc refuses signals 32 and 33, which may be inherited as ignored. */
    for (int signo = 1; signo <= 64; signo++)
        (void)syscall(SYS_rt_sigaction, signo, dfl, NULL, 8);
    /* Blocked, not ignored: an ignored signal would stay ignored in the children. */
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGPIPE);
    if (sigprocmask(SIG_SETMASK, &set, NULL) < 0)
        return atoll_fail_errno(err, errno, "sigprocmask");
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGCHLD);
    return atoll_signals_open(&a->signals, a->loop, &set, child_ended, a, err);
}

/* Descriptors 0..2 must be in use, or a new pipe could get such a number and be overwritten in a
 * child. */
static int setup_fds(struct atoll_agent *a, struct atoll_error *err)
{
    struct rlimit raised;
    const int given[] = {a->config.listen_fd, a->config.conn_fd, a->config.oom_fd,
                         a->config.peak_fd, a->config.boot_id_fd};
    int fd;

    do {
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (fd < 0)
            return atoll_fail_errno(err, errno, "open /dev/null");
    } while (fd <= 2);
    a->null_fd = fd;
    a->proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (a->proc_fd < 0)
        return atoll_fail_errno(err, errno, "open /proc");
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(given); i++)
        if (given[i] >= 0 && fcntl(given[i], F_SETFD, FD_CLOEXEC) < 0)
            return atoll_fail_errno(err, errno, "mark descriptor %d close-on-exec", given[i]);
    if (getrlimit(RLIMIT_NOFILE, &a->files) < 0)
        return atoll_fail_errno(err, errno, "getrlimit");
    raised = (struct rlimit){a->files.rlim_max, a->files.rlim_max};
    (void)setrlimit(RLIMIT_NOFILE, &raised);
    return 0;
}

int atoll_agent_listen(struct atoll_agent *a, struct atoll_error *err)
{
    int r = atoll_fd_set_nonblock(a->config.listen_fd, true);

    if (r == 0)
        r = atoll_watch_open(&a->listen_watch, a->loop, a->config.listen_fd, EPOLLIN, accept_ready,
                             a);
    return r < 0 ? atoll_fail_errno(err, -r, "listen for the daemon") : 0;
}

static int setup_transport(struct atoll_agent *a, struct atoll_error *err)
{
    int r = a->config.listen_fd >= 0 ? atoll_agent_listen(a, err) : 0;

    if (r < 0)
        return r;
    if (a->config.conn_fd >= 0)
        atoll_agent_conn_open(a, ATOLL_TAKE_FD(a->config.conn_fd));
    return 0;
}

static int setup(struct atoll_agent *a, struct atoll_error *err)
{
    int r = atoll_loop_new(&a->loop, err);

    a->pid = getpid();
    a->started_unix_ms = atoll_clock_unix_ms();
    if (r == 0)
        r = setup_fds(a, err);
    if (r == 0)
        r = setup_signals(a, err);
    if (r == 0)
        r = atoll_agent_identity_init(a, err);
    if (r < 0)
        return r;
    /* PID 1 inherits orphans anyway; with another pid the agent becomes a subreaper. */
    if (a->pid != 1 && prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
        return atoll_fail_errno(err, errno, "become the reaper of orphans");
    if (a->config.views)
        atoll_agent_views_open(a, a->config.views);
    if (a->config.allow_sudo)
        atoll_agent_sudo_open(a);
    atoll_agent_netlink_open(a);
    return setup_transport(a, err);
}

static void done(struct atoll_agent *a)
{
    const int fds[] = {a->null_fd,       a->proc_fd,        a->config.listen_fd, a->config.conn_fd,
                       a->config.oom_fd, a->config.peak_fd, a->config.boot_id_fd};

    atoll_agent_accepted_drop_all(a);
    atoll_agent_tunnels_drop(a);
    atoll_agent_conn_close(a);
    atoll_agent_execs_drop(a);
    atoll_agent_drains_drop(a);
    atoll_agent_sudo_close(a);
    atoll_agent_views_close(a);
    atoll_agent_netlink_close(a);
    atoll_agent_users_done(a);
    atoll_buf_done(&a->note);
    atoll_timer_cancel(&a->accept_again);
    atoll_timer_cancel(&a->leave);
    atoll_timer_cancel(&a->unscored_timer);
    atoll_watch_close(&a->listen_watch);
    atoll_signals_close(&a->signals);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(fds); i++)
        if (fds[i] >= 0)
            (void)close(fds[i]);
    a->loop = atoll_loop_free(a->loop);
}

static int run(struct atoll_agent *a, struct atoll_error *err)
{
    for (;;) {
        bool more = a->zombies_left || atoll_agent_jobs_waiting(a);
        int r = atoll_loop_step(a->loop, more ? 0 : -1, err);
        if (r < 0)
            return r;
        if (a->zombies_left)
            atoll_agent_reap(a);
        atoll_agent_jobs_run(a);
        atoll_agent_conn_flush(a);
        if (a->unscored_count > 0)
            atoll_agent_oom_scores_write(a);
        if (!a->conn.open && a->config.listen_fd < 0 && !a->config.listen)
            return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EPIPE, "the daemon closed the stream");
    }
}

int atoll_agent_run(const struct atoll_agent_config *config, struct atoll_error *err)
{
    struct atoll_agent a = {.config = *config,
                            .null_fd = ATOLL_NO_FD,
                            .proc_fd = ATOLL_NO_FD,
                            .signals.fd = ATOLL_NO_FD};
    int r;

    if (a.config.max_execs == 0)
        a.config.max_execs = ATOLL_AGENT_EXECS_DEFAULT;
    atoll_list_init(&a.execs);
    atoll_list_init(&a.ready);
    atoll_list_init(&a.drains);
    atoll_list_init(&a.jobs);
    atoll_list_init(&a.accepted);
    atoll_list_init(&a.tunnels);
    r = setup(&a, err);
    if (r == 0)
        r = run(&a, err);
    done(&a);
    return r;
}

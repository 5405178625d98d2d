/*
 * atoll-egress: the way out of sandboxes that have a network (docs/network.md). A supervisor holds the
 * control socket; the worker does everything and is started again when it dies. Sandboxes that a dead
 * worker served are put again by the daemon, which finds its connection closed.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include "base/clock.h"
#include "base/log.h"
#include "egress/names_kept.h"
#include "egress/worker.h"
#include "proto/egress_proto.h"
#include "sandbox/self.h"
#include "sys/landlock.h"
#include "sys/ns.h"

#define LOCK_FILE "egress.lock"
#define OWN_DIR "egress" /* below the state directory: all that the worker may write to */
#define BACKLOG 4
/* Pause before the next start, for each death in a row that came soon after the start. */
#define QUICK_MS 1000
#define RETRY_MS 100
#define SLOWDOWN_MAX 20

static volatile sig_atomic_t worker_pid, ending;

/* Held by the supervisor and by its workers, until the last of them has ended. */
static int take_lock(int state_fd, struct atoll_error *err)
{
    int fd = openat(state_fd, LOCK_FILE, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return atoll_fail_errno(err, errno, "open " LOCK_FILE);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return atoll_fail(err, ATOLL_ERR_ALREADY_EXISTS, errno,
                          "another atoll-egress serves this state directory");
    return fd;
}

static int listen_for_daemon(int state_fd, struct atoll_error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    ATOLL_AUTOCLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    (void)snprintf(address.sun_path, sizeof(address.sun_path),
                   "/proc/self/fd/%d/" ATOLL_EGRESS_SOCKET, state_fd);
    (void)unlinkat(state_fd, ATOLL_EGRESS_SOCKET, 0); /* stale: we hold the lock */
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        fchmodat(state_fd, ATOLL_EGRESS_SOCKET, 0600, 0) < 0 || listen(fd, BACKLOG) < 0)
        return atoll_fail_errno(err, errno, "listen on " ATOLL_EGRESS_SOCKET);
    return ATOLL_TAKE_FD(fd);
}

static int prepare_landlock(const char *state, int state_fd, struct atoll_error *err)
{
    char path[4200];
    int r;

    if (mkdirat(state_fd, OWN_DIR, 0700) < 0 && errno != EEXIST)
        return atoll_fail_errno(err, errno, "make the directory " OWN_DIR);
    (void)snprintf(path, sizeof(path), "%.4096s/" OWN_DIR, state);
    r = atoll_landlock_prepare(path);
    return r < 0 ? atoll_fail_errno(err, -r, "Landlock") : 0;
}

static void on_end(int signo)
{
    ending = 1;
    if (worker_pid > 0)
        (void)kill((pid_t)worker_pid, signo);
}

static void set_end_handler(void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler};

    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGINT, &action, NULL);
}

static int run_worker(int listen_fd, int state_fd, int starter_fd, struct atoll_names_kept *names)
{
    struct atoll_error err;

    set_end_handler(SIG_DFL);
    if (atoll_worker_run(listen_fd, state_fd, starter_fd, names, &err) == 0)
        return 0;
    atoll_log(ATOLL_LOG_ERROR, "atoll-egress cannot work", "error", err.text, NULL);
    return 1;
}

/* Starts a worker and waits for its end. Returns its wait status. */
static int start_worker(int listen_fd, int state_fd, int starter_fd, struct atoll_names_kept *names)
{
    pid_t pid = fork();
    int status = 1;

    if (pid == 0)
        exit(run_worker(listen_fd, state_fd, starter_fd,
                        names)); /* the leak checker works at exit */
    worker_pid = pid;
    if (pid < 0)
        return status;
    if (ending)
        (void)kill(pid, SIGTERM);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    worker_pid = 0;
    return status;
}

static void supervise(int listen_fd, int state_fd, int starter_fd)
{
    struct atoll_names_kept *names = atoll_names_kept_new();
    int quick = 0;

    set_end_handler(on_end);
    while (!ending) {
        int64_t begun_ms = atoll_clock_ms();
        int status = start_worker(listen_fd, state_fd, starter_fd, names);

        starter_fd = ATOLL_NO_FD; /* later workers wait for a daemon that connects again */
        if (ending || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
            return;
        quick = atoll_clock_ms() - begun_ms < QUICK_MS ? quick + 1 : 0;
        atoll_log(ATOLL_LOG_ERROR, "atoll-egress died; starting it again", NULL);
        if (quick > 1)
            (void)poll(NULL, 0, RETRY_MS * ATOLL_MIN(quick, SLOWDOWN_MAX));
    }
}

static int serve(const char *state, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int state_fd = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ATOLL_AUTOCLOSE int lock_fd = ATOLL_NO_FD, listen_fd = ATOLL_NO_FD;
    ATOLL_AUTOCLOSE int starter_fd = atoll_sys_pidfd_open(getppid());
    int r;

    if (state_fd < 0)
        return atoll_fail_errno(err, errno, "open the state directory");
    lock_fd = take_lock(state_fd, err);
    if (lock_fd < 0)
        return lock_fd;
    r = prepare_landlock(state, state_fd, err);
    if (r < 0)
        return r;
    listen_fd = listen_for_daemon(state_fd, err);
    if (listen_fd < 0)
        return listen_fd;
    (void)setsid();
    atoll_self_raise_files();
    (void)prctl(PR_SET_NAME, "egress-keeper", 0, 0, 0);
    supervise(listen_fd, state_fd, starter_fd);
    return 0;
}

int main(int argc, char **argv)
{
    struct atoll_error err;
    int r;

    if (argc != 2)
        r = atoll_fail(&err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "usage: atoll-egress STATE_DIR");
    else
        r = serve(argv[1], &err);
    if (r < 0)
        atoll_log(ATOLL_LOG_ERROR, "atoll-egress cannot start", "error", err.text, NULL);
    return r < 0 ? 1 : 0;
}

#include "guard/program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/fd.h"

struct running {
    pid_t pid;
    int fd; /* its standard input and output */
};

static int start(const char *program, struct running *ret, struct atoll_error *err)
{
    char *argv[] = {(char *)program, NULL};
    char *envp[] = {(char *)"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                    NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, pipes;
    int pair[2], r;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return atoll_fail_errno(err, errno, "socket of the interceptor");
    /* The program's end blocks, as a program expects. */
    (void)fcntl(pair[1], F_SETFL, 0);
    (void)sigemptyset(&none);
    (void)sigemptyset(&pipes);
    (void)sigaddset(&pipes, SIGPIPE);
    (void)posix_spawnattr_init(&attributes);
    (void)posix_spawnattr_setsigmask(&attributes, &none);
    (void)posix_spawnattr_setsigdefault(&attributes, &pipes);
    (void)posix_spawnattr_setpgroup(&attributes, 0);
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                                    POSIX_SPAWN_SETSIGDEF);
    (void)posix_spawn_file_actions_init(&actions);
    r = posix_spawn_file_actions_adddup2(&actions, pair[1], STDIN_FILENO);
    if (r == 0)
        r = posix_spawn_file_actions_adddup2(&actions, pair[1], STDOUT_FILENO);
    if (r == 0)
        r = posix_spawn(&ret->pid, program, &actions, &attributes, argv, envp);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)posix_spawnattr_destroy(&attributes);
    (void)close(pair[1]);
    ret->fd = pair[0];
    if (r == 0)
        return 0;
    (void)close(pair[0]);
    return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, r, "the interceptor cannot be started: %s",
                      strerror(r));
}

/* Sends what the socket takes; after everything its end. */
static int feed(int fd, const char *input, size_t n, size_t *sent)
{
    ssize_t done = send(fd, input + *sent, n - *sent, MSG_NOSIGNAL);

    if (done > 0)
        *sent += (size_t)done;
    else if (errno == EPIPE || errno == ECONNRESET)
        *sent = n; /* it does not want to know more */
    else if (errno != EAGAIN && errno != EINTR)
        return -errno;
    if (*sent == n)
        (void)shutdown(fd, SHUT_WR);
    return 0;
}

/* 1: the end. */
static int drain(int fd, struct atoll_buf *out)
{
    char bytes[16384];
    ssize_t n = recv(fd, bytes, sizeof(bytes), 0);

    if (n > 0)
        return atoll_buf_append(out, bytes, (size_t)n);
    return n == 0 || errno == ECONNRESET ? 1 : errno == EAGAIN || errno == EINTR ? 0 : -errno;
}

static int talk(const struct running *p, const char *input, size_t n, int64_t until_ms,
                struct atoll_buf *out, struct atoll_error *err)
{
    size_t sent = 0;
    int r = 0;

    if (n == 0)
        (void)shutdown(p->fd, SHUT_WR);
    while (r == 0) {
        struct pollfd pfd = {.fd = p->fd, .events = POLLIN};
        int64_t left = until_ms - atoll_clock_ms();

        if (left <= 0)
            return atoll_fail(err, ATOLL_ERR_DEADLINE_EXCEEDED, ETIMEDOUT,
                              "the interceptor did not answer in time");
        pfd.events |= sent < n ? POLLOUT : 0;
        if (poll(&pfd, 1, (int)left) < 0 && errno != EINTR)
            return atoll_fail_errno(err, errno, "wait for the interceptor");
        if (pfd.revents & POLLOUT)
            r = feed(p->fd, input, n, &sent);
        if (r == 0 && pfd.revents & (POLLIN | POLLHUP | POLLERR))
            r = drain(p->fd, out);
    }
    if (r == -ENOBUFS)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, E2BIG,
                          "the answer of the interceptor is too long");
    return r < 0 ? atoll_fail_errno(err, -r, "talk to the interceptor") : 0;
}

/* Waits for the end of the program, which has closed its output; after the deadline it is killed. Its group is killed
 * before it is reaped: afterwards another group could have its number. */
static int reap(pid_t pid, int64_t until_ms, bool at_once)
{
    siginfo_t info = {0};
    int status = 0;

    while (!at_once && info.si_pid == 0 && atoll_clock_ms() < until_ms) {
        if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 && errno != EINTR)
            break;
        if (info.si_pid == 0)
            (void)poll(NULL, 0, 1);
    }
    (void)kill(-pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

int atoll_guard_program_run(const char *program, const void *input, size_t n, int timeout_ms,
                            struct atoll_buf *out, struct atoll_error *err)
{
    int64_t until_ms = atoll_clock_ms() + timeout_ms;
    struct running p;
    int status, r = start(program, &p, err);

    if (r < 0)
        return r;
    r = talk(&p, input, n, until_ms, out, err);
    (void)close(p.fd);
    status = reap(p.pid, until_ms, r < 0);
    if (r < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
        return r;
    if (WIFEXITED(status))
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EIO, "the interceptor exited with status %d",
                          WEXITSTATUS(status));
    return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EIO, "the interceptor was killed by signal %d",
                      WTERMSIG(status));
}

#include "cli/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

extern char **environ;

/* Process group of the child. It is not ours: when mmdebstrap cannot write its output it sends SIGHUP to
 * its whole group, which must not include us and the script that called us. */
static volatile sig_atomic_t group;

static void pass_on(int signo)
{
    if (group > 0)
        (void)kill((pid_t)-group, signo);
    (void)raise(signo); /* the default action happens when this handler returns */
}

static void pass_signals_on(pid_t pid)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    const struct sigaction action = {.sa_handler = pass_on, .sa_flags = (int)SA_RESETHAND};
    struct sigaction old;

    group = pid;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(signals); i++)
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            (void)sigaction(signals[i], &action, NULL);
}

int atoll_cli_spawn(char *const *argv, int out_fd, bool detached, pid_t *ret_pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t reset;
    int r;

    (void)sigemptyset(&reset);
    (void)sigaddset(&reset, SIGPIPE);
    r = posix_spawn_file_actions_init(&actions);
    if (r != 0)
        return -r;
    r = posix_spawnattr_init(&attr);
    if (r != 0) {
        (void)posix_spawn_file_actions_destroy(&actions);
        return -r;
    }
    (void)posix_spawnattr_setsigdefault(&attr, &reset);
    (void)posix_spawnattr_setflags(
        &attr, POSIX_SPAWN_SETSIGDEF | (detached ? POSIX_SPAWN_SETSID : POSIX_SPAWN_SETPGROUP));
    r = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (r == 0)
        r = posix_spawn_file_actions_adddup2(&actions, out_fd, STDOUT_FILENO);
    if (r == 0 && detached)
        r = posix_spawn_file_actions_adddup2(&actions, out_fd, STDERR_FILENO);
    if (r == 0)
        r = posix_spawnp(ret_pid, argv[0], &actions, &attr, argv, environ);
    (void)posix_spawnattr_destroy(&attr);
    (void)posix_spawn_file_actions_destroy(&actions);
    return -r;
}

int atoll_cli_child_start(struct atoll_cli_child *ret, char *const *argv, struct atoll_error *err)
{
    int pipe_fds[2], r;
    pid_t pid;

    (void)fflush(NULL);
    if (pipe2(pipe_fds, O_CLOEXEC) < 0)
        return atoll_fail_errno(err, errno, "pipe");
    r = atoll_cli_spawn(argv, pipe_fds[1], false, &pid);
    (void)close(pipe_fds[1]);
    if (r < 0) {
        (void)close(pipe_fds[0]);
        if (r == -ENOENT)
            return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "%s is not installed", argv[0]);
        return atoll_fail_errno(err, -r, "starting %s", argv[0]);
    }
    *ret = (struct atoll_cli_child){.name = argv[0], .pid = pid, .out_fd = pipe_fds[0]};
    pass_signals_on(pid);
    return 0;
}

void atoll_cli_child_await_output(const struct atoll_cli_child *child)
{
    struct pollfd ready = {.fd = child->out_fd, .events = POLLIN};

    while (poll(&ready, 1, -1) < 0 && errno == EINTR)
        continue;
}

static void wait_for(struct atoll_cli_child *child)
{
    while (child->pid > 0 && waitpid(child->pid, &child->status, 0) < 0)
        if (errno != EINTR) {
            child->status = 1 << 8; /* unknown, so count it as failure: exit status 1 */
            break;
        }
    child->pid = 0;
    group = 0;
}

ssize_t atoll_cli_child_read(struct atoll_cli_child *child, void *buf, size_t n)
{
    ssize_t r;

    do
        r = read(child->out_fd, buf, n);
    while (r < 0 && errno == EINTR);
    if (r != 0)
        return r < 0 ? -errno : r;
    wait_for(child);
    return child->status == 0 ? 0 : -ECHILD;
}

int atoll_cli_child_finish(struct atoll_cli_child *child, struct atoll_error *err)
{
    bool was_running = child->pid > 0;

    (void)close(child->out_fd);
    child->out_fd = ATOLL_NO_FD;
    if (was_running) {
        /* The caller stopped reading the output and reports the reason itself. */
        (void)kill(-child->pid, SIGTERM);
        wait_for(child);
        return 0;
    }
    if (WIFEXITED(child->status) && WEXITSTATUS(child->status) != 0)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ECHILD, "%s failed with status %d",
                          child->name, WEXITSTATUS(child->status));
    if (WIFSIGNALED(child->status))
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ECHILD, "%s was killed by signal %d",
                          child->name, WTERMSIG(child->status));
    return 0;
}

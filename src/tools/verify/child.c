#include "tools/verify/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include "base/buf.h"
#include "base/clock.h"

#define END_MS 2000

extern char **environ;

static void become(const struct atoll_child_options *options, int out) __attribute__((noreturn));

static void become(const struct atoll_child_options *options, int out)
{
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
        (options->cwd && chdir(options->cwd) < 0) ||
        (options->prepare && options->prepare(options->arg) != 0))
        _exit(126);
    (void)execve(options->argv[0], options->argv, options->envp ? options->envp : environ);
    _exit(127);
}

int atoll_child_start(struct atoll_child *ret, const struct atoll_child_options *options,
                      struct atoll_error *err)
{
    int out[2];

    if (pipe2(out, O_CLOEXEC) < 0)
        return atoll_fail_errno(err, errno, "pipe");
    (void)fflush(NULL); /* else buffered output would be written twice if prepare() prints */
    ret->pid = fork();
    if (ret->pid == 0)
        become(options, out[1]);
    (void)close(out[1]);
    ret->out_fd = out[0];
    if (ret->pid < 0) {
        (void)close(out[0]);
        return atoll_fail_errno(err, errno, "fork");
    }
    return 0;
}

/* Reads available output: 1, or 0 at its end. -ETIMEDOUT, -errno. */
static int take(int fd, struct atoll_buf *buf, int64_t until_ms)
{
    int64_t left = until_ms - atoll_clock_ms();
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char chunk[4096];
    ssize_t n;
    int r = poll(&p, 1, (int)ATOLL_MAX(left, 0));

    if (r == 0)
        return -ETIMEDOUT;
    n = r < 0 ? -1 : read(fd, chunk, sizeof(chunk));
    if (n < 0)
        return errno == EINTR ? 1 : -errno;
    r = n > 0 ? atoll_buf_append(buf, chunk, (size_t)n) : 0;
    return r < 0 ? r : n > 0;
}

int atoll_child_expect(struct atoll_child *child, const char *text, int timeout_ms,
                       struct atoll_error *err)
{
    int64_t until = atoll_clock_ms() + timeout_ms;
    struct atoll_buf buf;
    int r = 1;

    atoll_buf_init(&buf, 65536);
    while (r > 0 && !strstr(atoll_buf_str(&buf), text))
        r = take(child->out_fd, &buf, until);
    atoll_buf_done(&buf);
    if (r == -ETIMEDOUT)
        return atoll_fail(err, ATOLL_ERR_DEADLINE_EXCEEDED, ETIMEDOUT,
                          "a program of ours does not say \"%s\"", text);
    if (r == 0)
        return atoll_fail(err, ATOLL_ERR_INTERNAL, ECHILD, "a program of ours ended at once");
    return r < 0 ? atoll_fail_errno(err, -r, "read from a program of ours") : 0;
}

static int status_of(pid_t pid)
{
    int status;

    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return 255;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int atoll_child_collect(struct atoll_child *child, size_t max, int timeout_ms, char **ret_output,
                        struct atoll_error *err)
{
    int64_t until = atoll_clock_ms() + timeout_ms;
    struct atoll_buf buf;
    int r = 1, status;

    atoll_buf_init(&buf, max);
    while (r > 0)
        r = take(child->out_fd, &buf, until);
    if (r < 0)
        (void)kill(child->pid, SIGKILL);
    status = status_of(child->pid);
    child->pid = 0;
    (void)close(child->out_fd);
    *ret_output = strdup(atoll_buf_str(&buf));
    atoll_buf_done(&buf);
    if (r == -ETIMEDOUT)
        r = 0; /* the exit status reports the failure */
    if (r == 0 && !*ret_output)
        r = -ENOMEM;
    return r < 0 ? atoll_fail_errno(err, -r, "output of a program of ours") : status;
}

void atoll_child_end(struct atoll_child *child)
{
    int64_t until = atoll_clock_ms() + END_MS;

    if (child->pid <= 0)
        return;
    (void)kill(child->pid, SIGTERM);
    while (waitpid(child->pid, NULL, WNOHANG) == 0) {
        if (atoll_clock_ms() > until)
            (void)kill(child->pid, SIGKILL);
        (void)poll(NULL, 0, 5);
    }
    (void)close(child->out_fd);
    child->pid = 0;
}

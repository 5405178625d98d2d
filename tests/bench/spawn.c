/*
 * Times whole commands: posix_spawn, wait, nothing else. `spawn -- CMD ARGS` is the bare baseline
 * when CMD is /usr/bin/true, and the stopwatch for bwrap, runc, docker and the atoll command line.
 * glibc's posix_spawn shares memory with the child until exec, so the size of this process does not
 * matter. Output of the command goes to /dev/null; its stderr is kept to explain a failure.
 */
#include "rounds.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

extern char **environ;

struct command {
    char **argv;
    int stderr_fd; /* memfd, emptied before each round */
    posix_spawn_file_actions_t actions;
};

/* The last words of the command on one line, for the error message. */
static void read_stderr(int fd, char *text, size_t size)
{
    off_t end = lseek(fd, 0, SEEK_END);
    off_t from = end > (off_t)size - 1 ? end - ((off_t)size - 1) : 0;
    ssize_t n = pread(fd, text, size - 1, from);
    text[n > 0 ? n : 0] = '\0';
    for (char *c = text; *c; c++) {
        if (*c == '\n')
            *c = ' ';
    }
}

static int run_once(void *ctx, double *ret_ms, struct atoll_error *err)
{
    struct command *cmd = ctx;
    pid_t pid;
    int status;

    if (ftruncate(cmd->stderr_fd, 0) < 0 || lseek(cmd->stderr_fd, 0, SEEK_SET) < 0)
        return atoll_fail_errno(err, errno, "empty the stderr of the last round");
    double start = atoll_rounds_now_ms();
    int r = posix_spawnp(&pid, cmd->argv[0], &cmd->actions, NULL, cmd->argv, environ);
    if (r != 0)
        return atoll_fail_errno(err, r, "spawn %s", cmd->argv[0]);
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            return atoll_fail_errno(err, errno, "wait for %s", cmd->argv[0]);
    }
    *ret_ms = atoll_rounds_now_ms() - start;

    if (status != 0) {
        char text[256];
        read_stderr(cmd->stderr_fd, text, sizeof(text));
        return atoll_fail(err, ATOLL_ERR_INTERNAL, EPROTO, "%s ended with %s %d: %s", cmd->argv[0],
                          WIFEXITED(status) ? "status" : "signal",
                          WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status), text);
    }
    return 0;
}

static int prepare(struct command *cmd, struct atoll_error *err)
{
    cmd->stderr_fd = memfd_create("stderr", MFD_CLOEXEC);
    if (cmd->stderr_fd < 0)
        return atoll_fail_errno(err, errno, "memfd_create");
    int r = posix_spawn_file_actions_init(&cmd->actions);
    if (r == 0)
        r = posix_spawn_file_actions_addopen(&cmd->actions, 0, "/dev/null", O_RDONLY, 0);
    if (r == 0)
        r = posix_spawn_file_actions_addopen(&cmd->actions, 1, "/dev/null", O_WRONLY, 0);
    if (r == 0)
        r = posix_spawn_file_actions_adddup2(&cmd->actions, cmd->stderr_fd, 2);
    return r == 0 ? 0 : atoll_fail_errno(err, r, "prepare the spawn");
}

int main(int argc, char **argv)
{
    struct atoll_error err = {0};
    struct command cmd = {.argv = argv + 2};

    if (argc < 3 || strcmp(argv[1], "--") != 0) {
        fprintf(stderr, "usage: spawn -- COMMAND [ARGUMENT]...\n");
        return 2;
    }
    if (prepare(&cmd, &err) < 0)
        return atoll_rounds_report(&err);
    atoll_rounds_catch_signals();
    int r = atoll_rounds_serve("", run_once, &cmd);
    (void)posix_spawn_file_actions_destroy(&cmd.actions);
    (void)close(cmd.stderr_fd);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

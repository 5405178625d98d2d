#pragma once
#include <sys/types.h>
#include "base/error.h"

/*
 * A child process whose output is sent to the daemon: tar, mmdebstrap. It inherits our standard error;
 * its standard input is empty.
 */
struct atoll_cli_child {
    const char *name; /* borrowed */
    pid_t pid;        /* 0 once it has been waited for */
    int out_fd;       /* owned */
    int status;       /* as from waitpid, when pid is 0 */
};

/* Starts argv[0] from PATH with empty standard input and its output to out_fd. Detached: in a session of
 * its own, with standard error to out_fd too. -ENOENT if there is no such program, or another -errno. */
int atoll_cli_spawn(char *const *argv, int out_fd, bool detached, pid_t *ret_pid) ATOLL_MUST_CHECK;

/* Starts argv[0] from PATH. NOT_FOUND when there is no such program, INTERNAL. */
int atoll_cli_child_start(struct atoll_cli_child *ret, char *const *argv,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* Blocks until the first output or the end of the child. Call it before the request is sent: mmdebstrap
 * needs minutes for its first output, and the daemon closes a request that is silent for one minute. */
void atoll_cli_child_await_output(const struct atoll_cli_child *child);
/* Like read(2), but returns 0 (end of file) only if the program exited with status 0, else -ECHILD: a
 * partial output is never taken for a complete one. */
ssize_t atoll_cli_child_read(struct atoll_cli_child *child, void *buf, size_t n);
/* Kills the program if it still runs (returns 0 then). Fills *err if it ended with a failure. */
int atoll_cli_child_finish(struct atoll_cli_child *child, struct atoll_error *err) ATOLL_MUST_CHECK;

#pragma once
#include <sys/types.h>
#include "base/error.h"

/*
 * A program whose output is sent to the daemon: tar, mmdebstrap. Its standard error is ours, its
 * standard input is empty.
 */
struct atoll_cli_child {
    const char *name; /* borrowed */
    pid_t pid;        /* 0 once it has been waited for */
    int out_fd;       /* owned */
    int status;       /* as from waitpid, when pid is 0 */
};

/* Starts argv[0] from PATH, with nothing to read. Detached: in a session of its own, with its standard
 * error where its output goes. -ENOENT when there is no such program, or another -errno. */
int atoll_cli_spawn(char *const *argv, int out_fd, bool detached, pid_t *ret_pid) ATOLL_MUST_CHECK;

/* Starts argv[0] from PATH. NOT_FOUND when there is no such program, INTERNAL. */
int atoll_cli_child_start(struct atoll_cli_child *ret, char *const *argv,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* Waits for its first output, or its end: mmdebstrap takes minutes until then, and the daemon gives a
 * request up in which nothing comes for one. */
void atoll_cli_child_await_output(const struct atoll_cli_child *child);
/* Like read(2), but the end is only 0 when the program has succeeded; otherwise -ECHILD, so that
 * half of its output never passes for all of it. */
ssize_t atoll_cli_child_read(struct atoll_cli_child *child, void *buf, size_t n);
/* Ends it if it is still there, and fills *err when it has failed. */
int atoll_cli_child_finish(struct atoll_cli_child *child, struct atoll_error *err) ATOLL_MUST_CHECK;

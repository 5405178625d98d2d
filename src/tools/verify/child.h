#pragma once
#include <sys/types.h>
#include "base/error.h"

/*
 * Programs run on the host, for canaries and controls: with the environment and directory they are
 * given, standard output read by us, standard error ours.
 */
struct atoll_child {
    pid_t pid; /* 0 once it has been waited for */
    int out_fd;
};

struct atoll_child_options {
    char *const *argv; /* argv[0] is the path of the program */
    char *const *envp; /* NULL: ours */
    const char *cwd;   /* NULL: ours */
    /* Called in the new process right before the program, with `arg`; nonzero gives up. It may do
     * what it likes: the process is single-threaded and its own. */
    int (*prepare)(void *arg);
    void *arg;
};

/* It is killed when we end. INTERNAL. */
int atoll_child_start(struct atoll_child *ret, const struct atoll_child_options *options,
                      struct atoll_error *err) ATOLL_MUST_CHECK;
/* Reads until the text is in the output, and keeps the output going. DEADLINE_EXCEEDED, INTERNAL. */
int atoll_child_expect(struct atoll_child *child, const char *text, int timeout_ms,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
/* Reads its whole output, a string of at most `max` bytes that is the caller's, and waits for its
 * end; after the timeout it is killed. Returns its exit status, or 128 + signal. */
int atoll_child_collect(struct atoll_child *child, size_t max, int timeout_ms, char **ret_output,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
/* SIGTERM, then SIGKILL. Does nothing when it has been waited for. */
void atoll_child_end(struct atoll_child *child);

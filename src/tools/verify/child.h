#pragma once
#include <sys/types.h>
#include "base/error.h"

/*
 * Child processes on the host, for canaries and controls. We read their standard output; they inherit
 * our standard error.
 */
struct atoll_child {
    pid_t pid; /* 0 once it has been waited for */
    int out_fd;
};

struct atoll_child_options {
    char *const *argv; /* argv[0] is the path of the program */
    char *const *envp; /* NULL: our environment */
    const char *cwd;   /* NULL: our directory */
    /* Called in the new process directly before exec, with `arg`; nonzero aborts. It may call any
     * function: the process is single-threaded. */
    int (*prepare)(void *arg);
    void *arg;
};

/* The child is killed when this process ends. INTERNAL. */
int atoll_child_start(struct atoll_child *ret, const struct atoll_child_options *options,
                      struct atoll_error *err) ATOLL_MUST_CHECK;
/* Reads the output until it contains the text. DEADLINE_EXCEEDED, INTERNAL. */
int atoll_child_expect(struct atoll_child *child, const char *text, int timeout_ms,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
/* Reads the whole output, a string of at most `max` bytes that the caller owns, and waits for the child;
 * kills it after the timeout. Returns its exit status, or 128 + signal. */
int atoll_child_collect(struct atoll_child *child, size_t max, int timeout_ms, char **ret_output,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
/* Sends SIGTERM, then SIGKILL, and waits. No effect if the child has been waited for. */
void atoll_child_end(struct atoll_child *child);

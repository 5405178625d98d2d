#pragma once
#include "base/defs.h"

/*
 * Pipes for splice(2), kept for reuse. A relay holds a pipe only while bytes are in it.
 */
struct atoll_pipes;

struct atoll_pipe {
    int read_fd, write_fd; /* owned; ATOLL_NO_FD: no pipe */
};

#define ATOLL_NO_PIPE ((struct atoll_pipe){ATOLL_NO_FD, ATOLL_NO_FD})

struct atoll_pipes *atoll_pipes_new(void);
struct atoll_pipes *atoll_pipes_free(struct atoll_pipes *pipes);

/* -errno of pipe2(2). */
int atoll_pipes_get(struct atoll_pipes *pipes, struct atoll_pipe *ret) ATOLL_MUST_CHECK;
/* Takes an empty pipe back. */
void atoll_pipes_put(struct atoll_pipes *pipes, struct atoll_pipe *pipe);
/* Closes a pipe that is not empty. Allowed on ATOLL_NO_PIPE. */
void atoll_pipe_close(struct atoll_pipe *pipe);

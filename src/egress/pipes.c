#include "egress/pipes.h"

#include <errno.h>
#include <fcntl.h>

#define KEPT_MAX 64
/* Larger than the default of 64 KB: fewer wakeups at high rates. The kernel refuses it beyond
 * pipe-user-pages-soft; then the pipe is as large as it is. */
#define PIPE_BYTES (256 * 1024)

struct atoll_pipes {
    struct atoll_pipe kept[KEPT_MAX];
    size_t count;
};

struct atoll_pipes *atoll_pipes_new(void)
{
    struct atoll_pipes *pipes = calloc(1, sizeof(*pipes));

    if (!pipes)
        abort();
    return pipes;
}

struct atoll_pipes *atoll_pipes_free(struct atoll_pipes *pipes)
{
    for (size_t i = 0; pipes && i < pipes->count; i++)
        atoll_pipe_close(&pipes->kept[i]);
    free(pipes);
    return NULL;
}

int atoll_pipes_get(struct atoll_pipes *pipes, struct atoll_pipe *ret)
{
    int fds[2];

    if (pipes->count > 0) {
        *ret = pipes->kept[--pipes->count];
        return 0;
    }
    if (pipe2(fds, O_NONBLOCK | O_CLOEXEC) < 0)
        return -errno;
    (void)fcntl(fds[1], F_SETPIPE_SZ, PIPE_BYTES);
    *ret = (struct atoll_pipe){fds[0], fds[1]};
    return 0;
}

void atoll_pipes_put(struct atoll_pipes *pipes, struct atoll_pipe *pipe)
{
    if (pipes->count == KEPT_MAX) {
        atoll_pipe_close(pipe);
        return;
    }
    pipes->kept[pipes->count++] = *pipe;
    *pipe = ATOLL_NO_PIPE;
}

void atoll_pipe_close(struct atoll_pipe *pipe)
{
    if (pipe->read_fd >= 0)
        (void)close(pipe->read_fd);
    if (pipe->write_fd >= 0)
        (void)close(pipe->write_fd);
    *pipe = ATOLL_NO_PIPE;
}

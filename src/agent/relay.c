/*
 * Two processes, one for each direction: a direction that has to wait holds nobody up, and nothing
 * has to be made non-blocking that others share with us.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include "agent/transport.h"
#include "base/fd.h"

static uint8_t piece[64 * 1024];

/* One piece. < 0: one of the two has ended, 0 of *ret_got tells which. */
static int copy_piece(int from, int to, ssize_t *ret_got)
{
    do {
        *ret_got = read(from, piece, sizeof(piece));
    } while (*ret_got < 0 && errno == EINTR);
    return *ret_got <= 0 ? -EPIPE : atoll_fd_write_all(to, piece, (size_t)*ret_got);
}

/* Standard input to the socket. */
static _Noreturn void carry_in(int fd)
{
    ssize_t got;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    (void)close(1);
    while (copy_piece(0, fd, &got) == 0)
        ;
    /* The end of the input is the end of that half; of a socket that takes no more, of both. */
    (void)shutdown(fd, got > 0 ? SHUT_RDWR : SHUT_WR);
    _exit(0);
}

/* The socket to standard output, until nothing comes any more (0) or somebody is gone (< 0). */
static int carry_out(int fd)
{
    struct pollfd fds[2] = {{.fd = fd, .events = POLLIN}, {.fd = 1}};
    ssize_t got = 1;

    for (;;) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return -errno;
        if (fds[1].revents & (POLLERR | POLLHUP | POLLNVAL))
            return -EPIPE;
        if (fds[0].revents && copy_piece(fd, 1, &got) < 0)
            return got == 0 ? 0 : -EPIPE;
    }
}

void atoll_agent_relay(int fd)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct pollfd other = {.fd = fd};
    pid_t pid;

    (void)sigaction(SIGPIPE, &ignore, NULL);
    pid = fork();
    if (pid < 0)
        _exit(1);
    if (pid == 0)
        carry_in(fd);
    (void)close(0);
    if (carry_out(fd) == 0) {
        /* Half of it is over. The other goes on until both are: that hangs up the socket. */
        (void)close(1);
        while (!(other.revents & (POLLHUP | POLLERR)) &&
               (poll(&other, 1, -1) >= 0 || errno == EINTR))
            ;
    }
    (void)kill(pid, SIGKILL);
    _exit(0);
}

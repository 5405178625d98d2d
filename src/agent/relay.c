/*
 * Copies between standard streams and a socket, with one process per direction: neither direction
 * delays the other, and descriptors shared with other processes need not be made non-blocking.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include "agent/transport.h"
#include "base/fd.h"

static uint8_t piece[64 * 1024];

/* Copies one piece. < 0: one side ended; *ret_got is 0 if that was the input. */
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
    /* End of input closes the writing half; a failed write closes both. */
    (void)shutdown(fd, got > 0 ? SHUT_RDWR : SHUT_WR);
    _exit(0);
}

/* Copies the socket to standard output until the end of input (0) or an error (< 0). */
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
        /* This direction is done. Waits until the other one is, too: then the socket hangs up. */
        (void)close(1);
        while (!(other.revents & (POLLHUP | POLLERR)) &&
               (poll(&other, 1, -1) >= 0 || errno == EINTR))
            ;
    }
    (void)kill(pid, SIGKILL);
    _exit(0);
}

#include "agent/sudo/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include "base/fd.h"
#include "sys/pty.h"

/* Time limit for reading the last output of an ended command, which is already in the kernel. */
#define DRAIN_MS 50

static int open_pair(struct atoll_sudo_terminal *t)
{
    int unlock = 0;

    t->master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (t->master < 0 || ioctl(t->master, TIOCSPTLCK, &unlock) < 0)
        return -errno;
    t->slave = atoll_pty_peer(t->master);
    return ATOLL_MIN(t->slave, 0);
}

/* Makes our terminal raw: the command's terminal interprets control characters. */
static void make_raw(struct atoll_sudo_terminal *t)
{
    struct termios raw;

    if (tcgetattr(t->tty, &t->saved) < 0)
        return;
    (void)tcsetattr(t->slave, TCSANOW, &t->saved);
    /* A background process must neither read the terminal nor change its modes. */
    if (!t->is_ours[0] || tcgetpgrp(t->tty) != getpgrp())
        return;
    raw = t->saved;
    cfmakeraw(&raw);
    if (tcsetattr(t->tty, TCSADRAIN, &raw) == 0) {
        t->raw = true;
        t->tty_in = 0;
    }
}

int atoll_sudo_terminal_open(struct atoll_sudo_terminal *t)
{
    int r;

    *t = (struct atoll_sudo_terminal){
        .master = -1, .slave = -1, .tty = -1, .tty_in = -1, .first = -1};
    for (int i = 2; i >= 0; i--)
        if (isatty(i)) {
            t->is_ours[i] = true;
            t->first = t->tty = i;
        }
    if (t->first < 0)
        return 0;
    r = open_pair(t);
    if (r < 0)
        return r;
    atoll_sudo_terminal_resize(t);
    make_raw(t);
    return 0;
}

void atoll_sudo_terminal_close(struct atoll_sudo_terminal *t)
{
    if (t->raw)
        (void)tcsetattr(t->tty, TCSADRAIN, &t->saved);
    t->raw = false;
    if (t->slave >= 0)
        (void)close(t->slave);
    if (t->master >= 0)
        (void)close(t->master);
    t->slave = t->master = -1;
}

void atoll_sudo_terminal_handed_over(struct atoll_sudo_terminal *t)
{
    if (t->slave >= 0)
        (void)close(t->slave);
    t->slave = -1;
}

void atoll_sudo_terminal_output(struct atoll_sudo_terminal *t)
{
    char buf[4096];
    ssize_t n = read(t->master, buf, sizeof(buf));

    if (n > 0)
        (void)!atoll_fd_write_all(t->tty, buf, (size_t)n);
    else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
        (void)close(t->master);
        t->master = -1;
    }
}

void atoll_sudo_terminal_input(struct atoll_sudo_terminal *t)
{
    char buf[4096];
    ssize_t n = read(t->tty_in, buf, sizeof(buf));

    if (n > 0 && t->master >= 0)
        (void)!atoll_fd_write_all(t->master, buf, (size_t)n);
    else if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
        t->tty_in = -1;
}

void atoll_sudo_terminal_drain(struct atoll_sudo_terminal *t)
{
    struct pollfd p = {.fd = t->master, .events = POLLIN};

    while (t->master >= 0 && poll(&p, 1, DRAIN_MS) > 0 && (p.revents & POLLIN)) {
        atoll_sudo_terminal_output(t);
        p.fd = t->master;
    }
}

void atoll_sudo_terminal_resize(struct atoll_sudo_terminal *t)
{
    struct winsize size;

    if (t->master >= 0 && ioctl(t->tty, TIOCGWINSZ, &size) == 0)
        (void)ioctl(t->master, TIOCSWINSZ, &size);
}

#include "sys/pty.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>

/* Fallback for gVisor, which has no TIOCGPTPEER. */
static int open_by_number(int master)
{
    char path[32];
    unsigned number;
    int fd;

    if (ioctl(master, TIOCGPTN, &number) < 0)
        return -errno;
    (void)snprintf(path, sizeof(path), "/dev/pts/%u", number);
    fd = open(path, O_RDWR | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int atoll_pty_peer(int master)
{
    int fd = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);

    if (fd < 0 && (errno == ENOTTY || errno == EINVAL))
        return open_by_number(master);
    return fd < 0 ? -errno : fd;
}

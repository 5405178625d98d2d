#include "sys/unix_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include "base/fd.h"
#include "sys/ns.h"

/* Newer than the headers of Debian 12. */
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

int atoll_unix_connect(const char *dir, const char *name)
{
    ATOLL_AUTOCLOSE int dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    ATOLL_AUTOCLOSE int path_fd = ATOLL_NO_FD;
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int r;

    if (dir_fd < 0)
        return -errno;
    /* connect() would follow a link, and refuse a path of more than 107 bytes: so it gets a descriptor. */
    path_fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (path_fd < 0)
        return -errno;
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d", path_fd);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        return -errno;
    r = atoll_fd_set_nonblock(fd, false);
    return r < 0 ? r : ATOLL_TAKE_FD(fd);
}

int atoll_unix_peer_pidfd(int fd)
{
    int pidfd;
    struct ucred peer;
    socklen_t size = sizeof(pidfd);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) == 0)
        return pidfd;
    if (errno != ENOPROTOOPT)
        return -errno;
    size = sizeof(peer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
        return -errno;
    return atoll_sys_pidfd_open(peer.pid);
}

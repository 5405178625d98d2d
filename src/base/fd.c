#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

int atoll_fd_write_all(int fd, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;

    while (n > 0) {
        ssize_t w = write(fd, p, n);
        if (w < 0) {
            if (errno == EINTR)
                continue;
            return -errno;
        }
        p += w;
        n -= (size_t)w;
    }
    return 0;
}

int atoll_fd_read_all(int fd, void *bytes, size_t n)
{
    uint8_t *p = bytes;

    while (n > 0) {
        ssize_t r = read(fd, p, n);
        if (r < 0) {
            if (errno == EINTR)
                continue;
            return -errno;
        }
        if (r == 0)
            return -EPIPE;
        p += r;
        n -= (size_t)r;
    }
    return 0;
}

int atoll_fd_read_file(int dirfd, const char *path, char *buf, size_t cap)
{
    ATOLL_AUTOCLOSE int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);
    size_t len = 0;

    if (fd < 0)
        return -errno;
    for (;;) {
        ssize_t r = read(fd, buf + len, cap - len);
        if (r < 0) {
            if (errno == EINTR)
                continue;
            return -errno;
        }
        if (r == 0)
            break;
        len += (size_t)r;
        if (len == cap)
            return -EFBIG;
    }
    buf[len] = '\0';
    return (int)len;
}

int atoll_fd_write_file(int dirfd, const char *path, const char *text)
{
    ATOLL_AUTOCLOSE int fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC);
    size_t len = strlen(text);
    ssize_t w;

    if (fd < 0)
        return -errno;
    do
        w = write(fd, text, len);
    while (w < 0 && errno == EINTR);
    if (w < 0)
        return -errno;
    return (size_t)w == len ? 0 : -EIO;
}

int atoll_fd_replace_file(int dirfd, const char *path, const void *bytes, size_t n)
{
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    char temp[256];
    int r;

    if ((size_t)snprintf(temp, sizeof(temp), "%s.new", path) >= sizeof(temp))
        return -ENAMETOOLONG;
    (void)unlinkat(dirfd, temp, 0);
    fd = openat(dirfd, temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    r = atoll_fd_write_all(fd, bytes, n);
    if (r == 0 && (fchmod(fd, 0600) < 0 || fsync(fd) < 0 || renameat(dirfd, temp, dirfd, path) < 0))
        r = -errno;
    if (r < 0)
        (void)unlinkat(dirfd, temp, 0);
    return r;
}

void atoll_fd_raise_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int atoll_fd_set_nonblock(int fd, bool on)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0)
        return -errno;
    flags = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
    return fcntl(fd, F_SETFL, flags) < 0 ? -errno : 0;
}

union control {
    char buf[CMSG_SPACE(ATOLL_FD_RECV_MAX * sizeof(int))];
    struct cmsghdr align;
};

ssize_t atoll_fd_send(int sock, const void *bytes, size_t n, const int *fds, size_t nfds)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = n};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    union control control;
    ssize_t sent;

    if (nfds > ATOLL_FD_PASS_MAX)
        return -EINVAL;
    if (nfds > 0) {
        struct cmsghdr *c;
        memset(&control, 0, CMSG_SPACE(nfds * sizeof(int)));
        msg.msg_control = control.buf;
        msg.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
        c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(nfds * sizeof(int));
        memcpy(CMSG_DATA(c), fds, nfds * sizeof(int));
    }
    do
        sent = sendmsg(sock, &msg, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : sent;
}

ssize_t atoll_fd_recv(int sock, void *bytes, size_t n, int *fds, size_t *ret_nfds)
{
    struct iovec iov = {.iov_base = bytes, .iov_len = n};
    union control control;
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.buf,
                         .msg_controllen = sizeof(control.buf)};
    ssize_t got;

    *ret_nfds = 0;
    do
        got = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return -errno;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
        size_t count;
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(fds + *ret_nfds, CMSG_DATA(c), count * sizeof(int));
        *ret_nfds += count;
    }
    return got;
}

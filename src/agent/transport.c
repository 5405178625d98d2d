#include "agent/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <termios.h>
#include "base/fd.h"
#include "base/text.h"

#define BACKLOG 64

static int unix_socket(const char *path, struct sockaddr_un *at, struct atoll_error *err)
{
    int fd;

    *at = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (atoll_text_copy(at->sun_path, sizeof(at->sun_path), path) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG, "%s is too long", path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return fd < 0 ? atoll_fail_errno(err, errno, "socket") : fd;
}

int atoll_agent_transport_connect(const char *path, struct atoll_error *err)
{
    struct sockaddr_un at;
    int fd = unix_socket(path, &at, err);

    if (fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0) {
        int errnum = errno;
        (void)close(fd);
        return atoll_fail_errno(err, errnum, "%s", path);
    }
    return fd;
}

/* Creates only the last directory of the path; its parents must exist. */
static void make_directory_of(const char *path)
{
    char dir[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
    const char *slash = strrchr(path, '/');

    if (!slash || slash == path || (size_t)(slash - path) >= sizeof(dir))
        return;
    (void)snprintf(dir, sizeof(dir), "%.*s", (int)(slash - path), path);
    (void)mkdir(dir, 0755);
}

/* Removes a stale socket. Refuses one with a listener: the commands of that agent would become
 * unreachable. */
static int clear_the_way(const char *path, struct atoll_error *err)
{
    struct atoll_error ignored;
    int fd = atoll_agent_transport_connect(path, &ignored);

    if (fd >= 0) {
        (void)close(fd);
        return atoll_fail(err, ATOLL_ERR_ALREADY_EXISTS, EADDRINUSE,
                          "another process already listens at %s", path);
    }
    (void)unlink(path);
    return 0;
}

int atoll_agent_transport_listen(const char *path, uint32_t mode, struct atoll_error *err)
{
    struct sockaddr_un at;
    mode_t before;
    int fd, r;

    make_directory_of(path);
    r = clear_the_way(path, err);
    if (r < 0)
        return r;
    fd = unix_socket(path, &at, err);
    if (fd < 0)
        return fd;
    before = umask(~mode & 0777); /* the socket is created with its final permissions */
    r = bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(fd, BACKLOG) < 0 ? -errno : 0;
    (void)umask(before);
    if (r < 0) {
        (void)close(fd);
        return atoll_fail_errno(err, -r, "%s", path);
    }
    return fd;
}

/* Opens a serial line in raw mode. */
int atoll_agent_transport_serial(const char *path, struct atoll_error *err)
{
    int fd = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
    struct termios t;

    if (fd < 0)
        return atoll_fail_errno(err, errno, "%s", path);
    if (tcgetattr(fd, &t) == 0) {
        cfmakeraw(&t);
        (void)tcsetattr(fd, TCSANOW, &t);
    }
    return fd;
}

static int leave_stdio(int last, struct atoll_error *err)
{
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    for (int fd = 0; null_fd >= 0 && fd <= last; fd++)
        if (dup2(null_fd, fd) < 0)
            return atoll_fail_errno(err, errno, "/dev/null");
    if (null_fd < 0)
        return atoll_fail_errno(err, errno, "/dev/null");
    if (null_fd > last)
        (void)close(null_fd);
    return 0;
}

/* The agent needs one descriptor for both directions, so a child process relays. */
int atoll_agent_transport_stdio(struct atoll_error *err)
{
    int pair[2], r;
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return atoll_fail_errno(err, errno, "socketpair");
    pid = fork();
    if (pid < 0)
        return atoll_fail_errno(err, errno, "fork");
    if (pid == 0) {
        /* The tenant's processes must not trace the relay and access the stream. */
        (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
        (void)close(pair[0]);
        atoll_agent_relay(pair[1]);
    }
    (void)close(pair[1]);
    r = leave_stdio(1, err);
    return r < 0 ? r : pair[0];
}

static int write_pid(const char *path, struct atoll_error *err)
{
    char text[32];
    int n = snprintf(text, sizeof(text), "%d\n", getpid());
    ATOLL_AUTOCLOSE int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    int r = fd < 0 ? -errno : atoll_fd_write_all(fd, text, (size_t)n);

    return r < 0 ? atoll_fail_errno(err, -r, "%s", path) : 0;
}

int atoll_agent_detach(const char *pid_file, struct atoll_error *err)
{
    pid_t pid = fork();
    int r = 0;

    if (pid < 0)
        return atoll_fail_errno(err, errno, "fork");
    if (pid > 0)
        _exit(0);
    if (setsid() < 0 || chdir("/") < 0)
        return atoll_fail_errno(err, errno, "leave the session");
    if (pid_file)
        r = write_pid(pid_file, err);
    return r < 0 ? r : leave_stdio(2, err);
}

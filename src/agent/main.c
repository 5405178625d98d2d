/*
 * The stand-alone agent, for sandboxes that somebody else starts: a container, gVisor, a virtual
 * machine. In a native sandbox the agent is a forked child of the launcher instead.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <termios.h>
#include "agent/agent.h"
#include "agent/container.h"
#include "base/fd.h"
#include "base/text.h"

static const char usage[] = "usage: atoll-agent TRANSPORT [OPTION...]\n"
                            "  --listen PATH       wait for the daemon on a unix socket\n"
                            "  --connect PATH      connect to the daemon's unix socket\n"
                            "  --serial DEVICE     speak over a serial line or virtio port\n"
                            "  --stdio             speak over standard input and output\n"
                            "  --user NAME --uid N --gid N --home DIR   the default user (root)\n"
                            "  --in-container USER  user (\"\": the image's), environment and cgroup as found\n"
                            "  --sudo              let that user use sudo\n"
                            "  --one-id            only one user id exists here\n"
                            "  --memory-limit N    bytes, for reports of out-of-memory kills\n";

enum {
    OPT_LISTEN = 256,
    OPT_CONNECT,
    OPT_SERIAL,
    OPT_STDIO,
    OPT_USER,
    OPT_UID,
    OPT_GID,
    OPT_HOME,
    OPT_IN_CONTAINER,
    OPT_SUDO,
    OPT_ONE_ID,
    OPT_MEMORY
};

static const struct option options[] = {
    {"listen", required_argument, NULL, OPT_LISTEN},
    {"connect", required_argument, NULL, OPT_CONNECT},
    {"serial", required_argument, NULL, OPT_SERIAL},
    {"stdio", no_argument, NULL, OPT_STDIO},
    {"user", required_argument, NULL, OPT_USER},
    {"uid", required_argument, NULL, OPT_UID},
    {"gid", required_argument, NULL, OPT_GID},
    {"home", required_argument, NULL, OPT_HOME},
    {"in-container", required_argument, NULL, OPT_IN_CONTAINER},
    {"sudo", no_argument, NULL, OPT_SUDO},
    {"one-id", no_argument, NULL, OPT_ONE_ID},
    {"memory-limit", required_argument, NULL, OPT_MEMORY},
    {NULL, 0, NULL, 0},
};

static int open_unix(const char *path, bool listening, struct atoll_error *err)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd;

    if (atoll_text_copy(at.sun_path, sizeof(at.sun_path), path) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG, "%s is too long", path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return atoll_fail_errno(err, errno, "socket");
    if (listening)
        (void)unlink(path);
    if (listening ? bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(fd, 4) < 0
                  : connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0) {
        int errnum = errno;
        (void)close(fd);
        return atoll_fail_errno(err, errnum, "%s", path);
    }
    return fd;
}

/* A serial line must not touch the bytes. */
static int open_serial(const char *path, struct atoll_error *err)
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

/* Copies what is there from one side to the other; < 0 at the end of either. */
static int copy_once(int from, int to)
{
    static char buf[64 * 1024];
    ssize_t n = read(from, buf, sizeof(buf));

    if (n < 0 && errno == EINTR)
        return 0;
    return n <= 0 ? -EPIPE : atoll_fd_write_all(to, buf, (size_t)n);
}

/* Joins the two one-way streams of stdio with one socket; ends with either of them. */
static void relay_stdio(int sock)
{
    struct pollfd fds[2] = {{.fd = 0, .events = POLLIN}, {.fd = sock, .events = POLLIN}};

    for (;;) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            _exit(1);
        if ((fds[0].revents && copy_once(0, sock) < 0) ||
            (fds[1].revents && copy_once(sock, 1) < 0))
            _exit(0);
    }
}

/* The agent wants one descriptor for both directions, so a child stands between. */
static int open_stdio(struct atoll_error *err)
{
    int pair[2];
    int null_fd;
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return atoll_fail_errno(err, errno, "socketpair");
    pid = fork();
    if (pid < 0)
        return atoll_fail_errno(err, errno, "fork");
    if (pid == 0) {
        /* The tenant's processes must not reach into the stream. */
        (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
        (void)close(pair[0]);
        relay_stdio(pair[1]);
    }
    (void)close(pair[1]);
    null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null_fd < 0 || dup2(null_fd, 0) < 0 || dup2(null_fd, 1) < 0)
        return atoll_fail_errno(err, errno, "/dev/null");
    (void)close(null_fd);
    return pair[0];
}

static int set_number(const char *text, uint64_t max, uint64_t *value, struct atoll_error *err)
{
    if (atoll_text_u64(text, 0, max, value) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s is not a number", text);
    return 0;
}

static int apply(struct atoll_agent_config *c, int option, const char *arg, struct atoll_error *err)
{
    uint64_t number = 0;
    int r = 0;

    switch (option) {
    case OPT_LISTEN:
        c->fds = true;
        r = c->listen_fd = open_unix(arg, true, err);
        break;
    case OPT_CONNECT:
        c->fds = true;
        r = c->conn_fd = open_unix(arg, false, err);
        break;
    case OPT_SERIAL:
        r = c->conn_fd = open_serial(arg, err);
        break;
    case OPT_STDIO:
        r = c->conn_fd = open_stdio(err);
        break;
    case OPT_USER:
        c->default_user = arg;
        break;
    case OPT_UID:
        r = set_number(arg, UINT32_MAX - 1, &number, err);
        c->default_uid = (uint32_t)number;
        break;
    case OPT_GID:
        r = set_number(arg, UINT32_MAX - 1, &number, err);
        c->default_gid = (uint32_t)number;
        break;
    case OPT_HOME:
        c->default_home = arg;
        break;
    case OPT_IN_CONTAINER:
        atoll_agent_container_cgroup(c);
        r = atoll_agent_container_user(c, arg, err);
        if (r == 0)
            r = atoll_agent_container_env(c, err);
        break;
    case OPT_SUDO:
        c->allow_sudo = true;
        break;
    case OPT_ONE_ID:
        c->many_ids = false;
        break;
    case OPT_MEMORY:
        r = set_number(arg, UINT64_MAX, &c->memory_limit_bytes, err);
        break;
    default:
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s", usage);
    }
    return r;
}

int main(int argc, char **argv)
{
    struct atoll_agent_config config = {.listen_fd = ATOLL_NO_FD,
                                        .conn_fd = ATOLL_NO_FD,
                                        .oom_fd = ATOLL_NO_FD,
                                        .peak_fd = ATOLL_NO_FD,
                                        .boot_id_fd = ATOLL_NO_FD,
                                        .many_ids = true,
                                        .default_user = "root",
                                        .default_home = "/root"};
    struct atoll_error err = {0};
    int option, r = 0;

    while (r >= 0 && (option = getopt_long(argc, argv, "", options, NULL)) >= 0)
        r = apply(&config, option, optarg, &err);
    if (r >= 0 && (optind < argc || (config.listen_fd < 0 && config.conn_fd < 0)))
        r = atoll_fail(&err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s", usage);
    if (r >= 0)
        r = atoll_agent_run(&config, &err);
    (void)fprintf(stderr, "atoll-agent: %s\n", err.text);
    return r < 0 ? 1 : 0;
}

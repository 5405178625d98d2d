/*
 * Connects to a port of the sandbox's loopback or to a unix socket inside, for CONNECT and for
 * tunnels. Never blocks: the loop continues an attempt that takes time.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include "agent/agent_internal.h"

#define TIME_LIMIT_MS 5000

/* Loopback addresses in the order they are tried. */
static const int families[] = {AF_INET, AF_INET6};

void atoll_agent_dial_cancel(struct atoll_agent_dial *d)
{
    if (!d->agent)
        return;
    atoll_timer_cancel(&d->timer);
    atoll_watch_close(&d->watch);
    if (d->fd >= 0)
        (void)close(ATOLL_TAKE_FD(d->fd));
    d->agent = NULL;
}

/* The callback may free *d. */
static void end(struct atoll_agent_dial *d, int fd, const struct atoll_error *error)
{
    atoll_agent_dial_cancel(d);
    d->done(d->arg, fd, error);
}

static void refuse(struct atoll_agent_dial *d, int errnum)
{
    struct atoll_error err;

    if (errnum == ETIMEDOUT)
        (void)atoll_fail(&err, ATOLL_ERR_UNAVAILABLE, errnum,
                         "port %u did not answer within %d seconds", d->port, TIME_LIMIT_MS / 1000);
    else if (errnum == EMFILE || errnum == ENFILE || errnum == ENOMEM)
        (void)atoll_fail(&err, ATOLL_ERR_RESOURCE_EXHAUSTED, errnum, "too many files are open");
    else
        (void)atoll_fail(&err, ATOLL_ERR_UNAVAILABLE, errnum, "nothing listens on port %u",
                         d->port);
    end(d, ATOLL_NO_FD, &err);
}

static socklen_t loopback(int family, uint32_t port, struct sockaddr_storage *out)
{
    memset(out, 0, sizeof(*out));
    if (family == AF_INET6) {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)out;
        in6->sin6_family = AF_INET6;
        in6->sin6_addr = in6addr_loopback;
        in6->sin6_port = htons((uint16_t)port);
        return sizeof(*in6);
    }
    struct sockaddr_in *in = (struct sockaddr_in *)out;
    in->sin_family = AF_INET;
    in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    in->sin_port = htons((uint16_t)port);
    return sizeof(*in);
}

static void socket_ready(void *arg, uint32_t events);

/* Tries the families from d->family on. Ends the attempt if none of them can be started. */
static void try_next(struct atoll_agent_dial *d, int errnum)
{
    for (; d->family < ATOLL_ARRAY_LEN(families); d->family++) {
        struct sockaddr_storage to;
        socklen_t len = loopback(families[d->family], d->port, &to);

        atoll_watch_close(&d->watch);
        if (d->fd >= 0)
            (void)close(ATOLL_TAKE_FD(d->fd));
        d->fd = socket(families[d->family], SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (d->fd >= 0 && connect(d->fd, (struct sockaddr *)&to, len) == 0) {
            end(d, ATOLL_TAKE_FD(d->fd), NULL);
            return;
        }
        if (d->fd >= 0 && errno == EINPROGRESS &&
            atoll_watch_open(&d->watch, d->agent->loop, d->fd, EPOLLOUT, socket_ready, d) == 0)
            return;
        /* Reports the error of the first address: the second family may not exist here. */
        if (errnum == 0)
            errnum = errno;
    }
    refuse(d, errnum);
}

static void socket_ready(void *arg, uint32_t events)
{
    struct atoll_agent_dial *d = arg;
    int errnum = 0;
    socklen_t len = sizeof(errnum);

    (void)events;
    if (getsockopt(d->fd, SOL_SOCKET, SO_ERROR, &errnum, &len) < 0)
        errnum = errno;
    if (errnum == 0) {
        atoll_watch_close(&d->watch);
        end(d, ATOLL_TAKE_FD(d->fd), NULL);
        return;
    }
    d->family++;
    try_next(d, errnum);
}

static void time_is_up(void *arg)
{
    refuse(arg, ETIMEDOUT);
}

static int explain_unix(struct atoll_error *err, int errnum, const char *path)
{
    if (errnum == ECONNREFUSED || errnum == EAGAIN)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, errnum,
                          "nothing accepts connections at %.300s", path);
    if (errnum == EPROTOTYPE || errnum == ENOTSOCK)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, errnum, "%.300s is not a stream socket",
                          path);
    return atoll_agent_path_fail(err, errnum, path);
}

/* Connects as the user: a server that checks its peer's credentials must see that user. */
static int connect_unix(struct atoll_agent *a, const struct atoll_am_connect *msg,
                        struct atoll_error *err)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    struct atoll_agent_user user;
    char path[ATOLL_AGENT_PATH_MAX];
    int r = atoll_agent_user_find(a, msg->user, &user, err);

    if (r == 0)
        r = atoll_agent_path_absolute(&user, msg->path, path, err);
    if (r < 0)
        return r;
    if (strlen(path) >= sizeof(to.sun_path))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG,
                          "the path of a unix socket has at most %zu bytes",
                          sizeof(to.sun_path) - 1);
    memcpy(to.sun_path, path, strlen(path) + 1);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return atoll_fail_errno(err, errno, "open a socket");
    r = atoll_agent_become_effective(a, &user, err);
    if (r < 0)
        return r;
    r = connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0 ? -errno : 0;
    atoll_agent_unbecome_effective(a);
    if (r < 0)
        return explain_unix(err, -r, path);
    return ATOLL_TAKE_FD(fd);
}

void atoll_agent_dial_start(struct atoll_agent_dial *d, struct atoll_agent *a,
                            const struct atoll_am_connect *msg, atoll_agent_dialed_fn *done,
                            void *arg)
{
    struct atoll_error err;
    int fd;

    *d = (struct atoll_agent_dial){
        .agent = a, .port = msg->port, .fd = ATOLL_NO_FD, .done = done, .arg = arg};
    if (*msg->path) {
        fd = connect_unix(a, msg, &err);
        end(d, fd < 0 ? ATOLL_NO_FD : fd, fd < 0 ? &err : NULL);
        return;
    }
    if (msg->port < 1 || msg->port > 65535) {
        (void)atoll_fail(&err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                         "a port is a number from 1 to 65535");
        end(d, ATOLL_NO_FD, &err);
        return;
    }
    atoll_timer_set(&d->timer, a->loop, TIME_LIMIT_MS, time_is_up, d);
    try_next(d, 0);
}

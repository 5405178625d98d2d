/*
 * CONNECT: a socket connected to a port or unix socket inside the sandbox, handed out as a
 * descriptor. That is how previews work without any network between host and sandbox.
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

struct attempt {
    struct atoll_agent *agent;
    uint32_t request; /* 0: free */
    uint32_t port;
    size_t family; /* index of the one being tried */
    int fd;        /* owned */
    struct atoll_watch watch;
    struct atoll_timer timer;
};

struct atoll_agent_connects {
    struct attempt items[ATOLL_AGENT_CONNECTS_MAX];
};

static void attempt_end(struct attempt *t)
{
    atoll_timer_cancel(&t->timer);
    atoll_watch_close(&t->watch);
    if (t->fd >= 0)
        (void)close(ATOLL_TAKE_FD(t->fd));
    t->request = 0;
}

void atoll_agent_connects_drop(struct atoll_agent *a)
{
    if (!a->connects)
        return;
    for (size_t i = 0; i < ATOLL_AGENT_CONNECTS_MAX; i++)
        if (a->connects->items[i].request != 0)
            attempt_end(&a->connects->items[i]);
    free(ATOLL_TAKE_PTR(a->connects));
}

static void refuse(struct attempt *t, int errnum)
{
    struct atoll_error err;

    if (errnum == ETIMEDOUT)
        (void)atoll_fail(&err, ATOLL_ERR_UNAVAILABLE, errnum,
                         "port %u did not answer within %d seconds", t->port, TIME_LIMIT_MS / 1000);
    else if (errnum == EMFILE || errnum == ENFILE || errnum == ENOMEM)
        (void)atoll_fail(&err, ATOLL_ERR_RESOURCE_EXHAUSTED, errnum, "too many files are open");
    else
        (void)atoll_fail(&err, ATOLL_ERR_UNAVAILABLE, errnum, "nothing listens on port %u",
                         t->port);
    atoll_agent_error(t->agent, t->request, &err);
    attempt_end(t);
}

static void accepted(struct attempt *t)
{
    atoll_agent_reply_fd(t->agent, t->request, NULL, NULL, t->fd);
    attempt_end(t);
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

/* Starts with the family at t->family or one behind it. The attempt ends if none can be started. */
static void try_next(struct attempt *t, int errnum)
{
    for (; t->family < ATOLL_ARRAY_LEN(families); t->family++) {
        struct sockaddr_storage to;
        socklen_t len = loopback(families[t->family], t->port, &to);

        atoll_watch_close(&t->watch);
        if (t->fd >= 0)
            (void)close(ATOLL_TAKE_FD(t->fd));
        t->fd = socket(families[t->family], SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (t->fd >= 0 && connect(t->fd, (struct sockaddr *)&to, len) == 0) {
            accepted(t);
            return;
        }
        if (t->fd >= 0 && errno == EINPROGRESS &&
            atoll_watch_open(&t->watch, t->agent->loop, t->fd, EPOLLOUT, socket_ready, t) == 0)
            return;
        /* What the first address said counts: the second may just not exist here. */
        if (errnum == 0)
            errnum = errno;
    }
    refuse(t, errnum);
}

static void socket_ready(void *arg, uint32_t events)
{
    struct attempt *t = arg;
    int errnum = 0;
    socklen_t len = sizeof(errnum);

    (void)events;
    if (getsockopt(t->fd, SOL_SOCKET, SO_ERROR, &errnum, &len) < 0)
        errnum = errno;
    if (errnum == 0) {
        accepted(t);
        return;
    }
    t->family++;
    try_next(t, errnum);
}

static void time_is_up(void *arg)
{
    refuse(arg, ETIMEDOUT);
}

static int connect_port(struct atoll_agent *a, uint32_t request, uint32_t port,
                        struct atoll_error *err)
{
    if (!a->connects)
        a->connects = calloc(1, sizeof(*a->connects));
    if (!a->connects)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM, "no memory to connect");
    for (size_t i = 0; i < ATOLL_AGENT_CONNECTS_MAX; i++) {
        struct attempt *t = &a->connects->items[i];
        if (t->request != 0)
            continue;
        *t = (struct attempt){.agent = a, .request = request, .port = port, .fd = ATOLL_NO_FD};
        atoll_timer_set(&t->timer, a->loop, TIME_LIMIT_MS, time_is_up, t);
        try_next(t, 0);
        return ATOLL_AGENT_ANSWERED;
    }
    return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EBUSY,
                      "%d connections are being made already", ATOLL_AGENT_CONNECTS_MAX);
}

static int explain_unix(struct atoll_error *err, int errnum, const char *path)
{
    if (errnum == ECONNREFUSED || errnum == EAGAIN)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, errnum,
                          "nothing accepts connections at %.300s", path);
    if (errnum == EPROTOTYPE || errnum == ENOTSOCK)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, errnum, "%.300s is no stream socket",
                          path);
    return atoll_agent_path_fail(err, errnum, path);
}

/* The user connects, not the agent: a server that looks at its peer's ids must see that user. */
static int connect_unix(struct atoll_agent *a, uint32_t request, const struct atoll_am_connect *msg,
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
    atoll_agent_reply_fd(a, request, NULL, NULL, fd);
    return ATOLL_AGENT_ANSWERED;
}

int atoll_agent_on_connect(struct atoll_agent *a, uint32_t request, const void *message,
                           struct atoll_error *err)
{
    const struct atoll_am_connect *msg = message;

    if (!a->config.fds)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EOPNOTSUPP,
                          "connections can not be handed out of this kind of sandbox");
    if (*msg->path)
        return connect_unix(a, request, msg, err);
    if (msg->port < 1 || msg->port > 65535)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "a port is a number of 1 to 65535");
    return connect_port(a, request, msg->port, err);
}

/*
 * Opening: mode and options are set before clients can find the socket, as far as the kernel allows.
 * Accepting: a bounded number of connections per event, so that other work of the loop is not delayed.
 */
#include "net/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include "net/address.h"

#define BACKLOG 512
#define ACCEPT_BURST 64
#define REST_MS 100 /* pause of accepting when descriptors run out */

struct atoll_listener {
    struct atoll_loop *loop;
    struct atoll_watch watch;
    struct atoll_timer rest;
    int fd;
    int reserve_fd; /* closed to accept and drop one client when no descriptor is left */
    bool is_unix;
    bool in_burst, closed; /* closed by its own callback: freed after the burst */
    atoll_listener_accept_fn *on_accept;
    void *arg;
};

static int open_reserve(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return fd < 0 ? ATOLL_NO_FD : fd;
}

static void rest_over(void *arg)
{
    struct atoll_listener *l = arg;

    if (l->reserve_fd < 0)
        l->reserve_fd = open_reserve();
    if (atoll_watch_set(&l->watch, EPOLLIN) < 0)
        atoll_timer_set(&l->rest, l->loop, REST_MS, rest_over, l);
}

/* Accepts and drops one client, so that it does not hang, then pauses accepting. */
static void out_of_descriptors(struct atoll_listener *l)
{
    if (l->reserve_fd >= 0) {
        int fd;
        (void)close(ATOLL_TAKE_FD(l->reserve_fd));
        fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0)
            (void)close(fd);
        l->reserve_fd = open_reserve();
    }
    if (atoll_watch_set(&l->watch, 0) == 0)
        atoll_timer_set(&l->rest, l->loop, REST_MS, rest_over, l);
}

static void release(struct atoll_listener *l)
{
    if (l->fd >= 0)
        (void)close(l->fd);
    if (l->reserve_fd >= 0)
        (void)close(l->reserve_fd);
    free(l);
}

static void ready(void *arg, uint32_t events)
{
    struct atoll_listener *l = arg;

    (void)events;
    l->in_burst = true;
    for (int i = 0; i < ACCEPT_BURST && !l->closed; i++) {
        int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            l->on_accept(l->arg, fd, l->is_unix);
            continue;
        }
        if (errno == ECONNABORTED || errno == EINTR)
            continue;
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            out_of_descriptors(l);
        /* EAGAIN, or an error of one client that has already disconnected (accept(2)). */
        break;
    }
    l->in_burst = false;
    if (l->closed)
        release(l);
}

struct atoll_listener *atoll_listener_close(struct atoll_listener *l)
{
    if (l) {
        atoll_watch_close(&l->watch);
        atoll_timer_cancel(&l->rest);
        l->closed = true;
        if (!l->in_burst)
            release(l);
    }
    return NULL;
}

/* Takes ownership of fd, even on failure. */
static int listener_new(struct atoll_loop *loop, int fd, bool is_unix,
                        atoll_listener_accept_fn *on_accept, void *arg,
                        struct atoll_listener **ret_listener, struct atoll_error *err)
{
    struct atoll_listener *l = calloc(1, sizeof(*l));
    int r;

    if (!l) {
        (void)close(fd);
        return atoll_fail_errno(err, ENOMEM, "listener");
    }
    *l = (struct atoll_listener){
        .loop = loop,
        .fd = fd,
        .reserve_fd = open_reserve(),
        .is_unix = is_unix,
        .on_accept = on_accept,
        .arg = arg,
    };
    r = listen(fd, BACKLOG) < 0 ? -errno : 0;
    if (r == 0)
        r = atoll_watch_open(&l->watch, loop, fd, EPOLLIN, ready, l);
    if (r < 0) {
        (void)atoll_listener_close(l);
        return atoll_fail_errno(err, -r, "listen");
    }
    *ret_listener = l;
    return 0;
}

/* Removes a socket file on which no process listens. */
static int clear_stale(const struct atoll_address_unix *a, const char *path,
                       struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    struct stat st;

    if (lstat(a->addr.sun_path, &st) < 0)
        return errno == ENOENT ? 0 : atoll_fail_errno(err, errno, "stat %s", path);
    if (!S_ISSOCK(st.st_mode))
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ENOTSOCK,
                          "%s exists and is not a socket; remove it or choose another path", path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return atoll_fail_errno(err, errno, "socket");
    /* EAGAIN: a process listens, but its backlog is full. */
    if (connect(fd, (const struct sockaddr *)&a->addr, a->len) == 0 || errno == EAGAIN)
        return atoll_fail(err, ATOLL_ERR_ALREADY_EXISTS, EADDRINUSE,
                          "another process already listens on %s; stop it or choose another path",
                          path);
    if (errno != ECONNREFUSED)
        return atoll_fail_errno(err, errno, "probe %s", path);
    if (unlink(a->addr.sun_path) < 0 && errno != ENOENT)
        return atoll_fail_errno(err, errno, "remove stale %s", path);
    return 0;
}

static int bind_unix(const struct atoll_address_unix *a, const char *path, mode_t mode,
                     struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return atoll_fail_errno(err, errno, "socket");
    /* bind() creates the file with this mode minus the umask; the chmod after it adds the masked bits.
     * So the file never has more permissions than `mode`. */
    if (fchmod(fd, mode) < 0)
        return atoll_fail_errno(err, errno, "fchmod socket");
    if (bind(fd, (const struct sockaddr *)&a->addr, a->len) < 0)
        return atoll_fail(err, atoll_error_kind_of_path_errno(errno), errno, "bind %s: %s", path,
                          strerror(errno));
    if (chmod(a->addr.sun_path, mode) < 0)
        return atoll_fail_errno(err, errno, "chmod %s", path);
    return ATOLL_TAKE_FD(fd);
}

int atoll_listener_open_unix(struct atoll_loop *loop, const char *path, mode_t mode,
                             atoll_listener_accept_fn *on_accept, void *arg,
                             struct atoll_listener **ret_listener, struct atoll_error *err)
{
    struct atoll_address_unix a;
    int r = atoll_address_unix_open(&a, path);

    if (r == -ENAMETOOLONG)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG,
                          "the file name of %s is too long for a socket; choose a shorter one",
                          path);
    if (r < 0)
        return atoll_fail(err, atoll_error_kind_of_path_errno(-r), -r, "%s: %s", path,
                          strerror(-r));
    r = clear_stale(&a, path, err);
    if (r == 0)
        r = bind_unix(&a, path, mode, err);
    atoll_address_unix_close(&a);
    if (r < 0)
        return r;
    return listener_new(loop, r, true, on_accept, arg, ret_listener, err);
}

/* On Linux accepted sockets inherit these options, so they need no calls of their own. */
static int set_tcp_options(int fd)
{
    static const struct {
        int level, name, value;
    } options[] = {
        {SOL_SOCKET, SO_REUSEADDR, 1},   {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, 60}, {IPPROTO_TCP, TCP_KEEPINTVL, 15},
        {IPPROTO_TCP, TCP_KEEPCNT, 4},   {IPPROTO_TCP, TCP_NODELAY, 1},
    };

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(options); i++)
        if (setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(int)) < 0)
            return -errno;
    return 0;
}

static int bind_tcp(const struct addrinfo *ai)
{
    ATOLL_AUTOCLOSE int fd =
        socket(ai->ai_family, ai->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, ai->ai_protocol);
    int r;

    if (fd < 0)
        return -errno;
    r = set_tcp_options(fd);
    if (r < 0)
        return r;
    if (bind(fd, ai->ai_addr, ai->ai_addrlen) < 0)
        return -errno;
    return ATOLL_TAKE_FD(fd);
}

/* Whether this host lacks the address, so that the next one is tried. Not for a port in use: using
 * the other address family would hide that. */
static bool is_absent(int fd)
{
    return fd == -EADDRNOTAVAIL || fd == -EAFNOSUPPORT;
}

static int fail_bind(struct atoll_error *err, const char *host_port, int errnum)
{
    enum atoll_error_kind kind = errnum == EADDRINUSE      ? ATOLL_ERR_ALREADY_EXISTS
                                 : errnum == EACCES        ? ATOLL_ERR_PERMISSION_DENIED
                                 : errnum == EADDRNOTAVAIL ? ATOLL_ERR_INVALID_ARGUMENT
                                                           : ATOLL_ERR_INTERNAL;
    return atoll_fail(err, kind, errnum, "cannot listen on %.100s: %s", host_port,
                      strerror(errnum));
}

static uint16_t bound_port(int fd)
{
    struct sockaddr_storage addr;
    socklen_t len = sizeof(addr);

    if (getsockname(fd, (struct sockaddr *)&addr, &len) < 0)
        return 0;
    return ntohs(addr.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&addr)->sin6_port
                                            : ((struct sockaddr_in *)&addr)->sin_port);
}

int atoll_listener_bind_tcp(const char *host_port, uint16_t *ret_port, struct atoll_error *err)
{
    struct addrinfo *list;
    int fd = -EADDRNOTAVAIL;
    int r = atoll_address_resolve(host_port, true, &list, err);

    if (r < 0)
        return r;
    /* A name may resolve to both families. IPv4 first: clients of localhost try both families, but
     * clients of 127.0.0.1 do not. */
    for (int pass = 0; pass < 2; pass++)
        for (const struct addrinfo *ai = list; ai && is_absent(fd); ai = ai->ai_next)
            if ((ai->ai_family == AF_INET) == (pass == 0))
                fd = bind_tcp(ai);
    freeaddrinfo(list);
    if (fd < 0)
        return fail_bind(err, host_port, -fd);
    if (ret_port)
        *ret_port = bound_port(fd);
    return fd;
}

int atoll_listener_open_tcp(struct atoll_loop *loop, const char *host_port,
                            atoll_listener_accept_fn *on_accept, void *arg, uint16_t *ret_port,
                            struct atoll_listener **ret_listener, struct atoll_error *err)
{
    uint16_t port;
    int fd = atoll_listener_bind_tcp(host_port, &port, err), r;

    if (fd < 0)
        return fd;
    /* Two sockets can be bound to an address though only one can listen: EADDRINUSE may come here. */
    r = listener_new(loop, fd, false, on_accept, arg, ret_listener, err);
    if (r == -EADDRINUSE)
        return fail_bind(err, host_port, EADDRINUSE);
    if (r == 0 && ret_port)
        *ret_port = port;
    return r;
}

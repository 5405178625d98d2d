/* Streams and listeners, below HTTP. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/buf.h"
#include "net/address.h"
#include "net/listener.h"
#include "net/stream.h"

struct end {
    struct atoll_loop *loop;
    struct atoll_stream *s;
    int peer; /* the other end, raw */
    struct atoll_buf got;
    size_t take; /* at most so many bytes per call, then pause; 0: all */
    size_t drains, eofs, closes;
    int error;
    bool free_on_input;
};

static size_t on_input(void *arg, const uint8_t *bytes, size_t n)
{
    struct end *e = arg;
    size_t take = e->take ? ATOLL_MIN(e->take, n) : n;

    assert_int_equal(atoll_buf_append(&e->got, bytes, take), 0);
    if (take < n)
        atoll_stream_pause(e->s);
    if (e->free_on_input)
        e->s = atoll_stream_free(e->s);
    return take;
}

static void on_drain(void *arg)
{
    ((struct end *)arg)->drains++;
}

static void on_eof(void *arg)
{
    ((struct end *)arg)->eofs++;
}

static void on_close(void *arg, int error)
{
    struct end *e = arg;

    e->closes++;
    e->error = error;
}

static const struct atoll_stream_callbacks callbacks = {.on_input = on_input,
                                                        .on_drain = on_drain,
                                                        .on_eof = on_eof,
                                                        .on_close = on_close};

static void end_open(struct end *e, size_t queue)
{
    struct atoll_stream_limits limits = {queue, queue / 4};
    int pair[2];

    *e = (struct end){0};
    atoll_buf_init(&e->got, 64 * 1024 * 1024);
    assert_int_equal(atoll_loop_new(&e->loop, NULL), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(atoll_stream_new(e->loop, pair[0], &atoll_stream_socket_ops, NULL, &limits,
                                      &callbacks, e, &e->s, NULL),
                     0);
    e->peer = pair[1];
}

static void end_close(struct end *e)
{
    e->s = atoll_stream_free(e->s);
    if (e->peer >= 0)
        close(e->peer);
    atoll_buf_done(&e->got);
    e->loop = atoll_loop_free(e->loop);
}

static void turn(struct end *e, int times)
{
    for (int i = 0; i < times; i++)
        assert_int_equal(atoll_loop_step(e->loop, 1, NULL), 0);
}

static size_t read_peer(struct end *e)
{
    static uint8_t buf[256 * 1024];
    size_t total = 0;
    ssize_t n;

    while ((n = recv(e->peer, buf, sizeof(buf), 0)) > 0)
        total += (size_t)n;
    return total;
}

static void test_taking_part_of_the_input(void **state)
{
    struct end e;

    (void)state;
    end_open(&e, 4096);
    e.take = 3;
    assert_int_equal(send(e.peer, "abcdefgh", 8, 0), 8);
    turn(&e, 3);
    assert_string_equal(atoll_buf_str(&e.got), "abc");
    assert_int_equal(send(e.peer, "ij", 2, 0), 2);
    turn(&e, 3);
    assert_string_equal(atoll_buf_str(&e.got), "abc");
    atoll_stream_resume(e.s);
    assert_string_equal(atoll_buf_str(&e.got), "abc"); /* never from inside the call */
    turn(&e, 3);
    assert_string_equal(atoll_buf_str(&e.got), "abcdef");
    e.take = 0;
    atoll_stream_resume(e.s);
    turn(&e, 3);
    assert_string_equal(atoll_buf_str(&e.got), "abcdefghij");
    end_close(&e);
}

static void test_queue_and_drain(void **state)
{
    static const uint8_t block[16 * 1024];
    struct end e;
    int r = 0;
    size_t accepted = 0;

    (void)state;
    end_open(&e, 1024 * 1024);
    while (r == 0) {
        r = atoll_stream_write(e.s, block, sizeof(block));
        accepted += r == 0 ? sizeof(block) : 0;
    }
    assert_int_equal(r, -ENOBUFS);
    assert_true(atoll_stream_pending(e.s) > 1000 * 1024);
    turn(&e, 3);
    assert_int_equal(e.drains, 0);
    while (atoll_stream_pending(e.s) > 0) {
        accepted -= read_peer(&e);
        turn(&e, 1);
    }
    accepted -= read_peer(&e);
    assert_int_equal(accepted, 0);
    assert_int_equal(e.drains, 1);
    assert_int_equal(e.closes, 0);
    end_close(&e);
}

static void test_cork(void **state)
{
    struct end e;

    (void)state;
    end_open(&e, 4096);
    atoll_stream_cork(e.s);
    atoll_stream_cork(e.s);
    assert_int_equal(atoll_stream_write(e.s, "a", 1), 0);
    atoll_stream_uncork(e.s);
    assert_int_equal(atoll_stream_write(e.s, "b", 1), 0);
    turn(&e, 2);
    assert_int_equal(read_peer(&e), 0);
    atoll_stream_uncork(e.s);
    assert_int_equal(read_peer(&e), 2);
    end_close(&e);
}

static void test_half_close(void **state)
{
    static const uint8_t big[512 * 1024];
    struct end e;
    size_t got = 0;
    char c;

    (void)state;
    end_open(&e, 1024 * 1024);
    assert_int_equal(atoll_stream_write(e.s, big, sizeof(big)), 0);
    atoll_stream_shutdown(e.s);
    assert_int_equal(atoll_stream_write(e.s, "x", 1), -EPIPE);
    while (got < sizeof(big)) {
        got += read_peer(&e);
        turn(&e, 1);
    }
    assert_int_equal(recv(e.peer, &c, 1, 0), 0); /* the end, after the last byte */
    /* The other direction still works. */
    assert_int_equal(send(e.peer, "in", 2, 0), 2);
    turn(&e, 2);
    assert_string_equal(atoll_buf_str(&e.got), "in");
    shutdown(e.peer, SHUT_WR);
    turn(&e, 3);
    assert_int_equal(e.eofs, 1);
    assert_int_equal(e.closes, 1); /* both directions are over */
    assert_int_equal(e.error, 0);
    end_close(&e);
}

static void test_peer_ends(void **state)
{
    struct end e;

    (void)state;
    end_open(&e, 4096);
    assert_int_equal(send(e.peer, "last", 4, 0), 4);
    shutdown(e.peer, SHUT_WR);
    turn(&e, 3);
    assert_string_equal(atoll_buf_str(&e.got), "last");
    assert_int_equal(e.eofs, 1);
    assert_int_equal(e.closes, 0);
    assert_int_equal(atoll_stream_write(e.s, "answer", 6), 0);
    assert_int_equal(read_peer(&e), 6);
    close(e.peer);
    e.peer = -1;
    turn(&e, 3);
    assert_int_equal(e.eofs, 1);
    assert_int_equal(e.closes, 1);
    end_close(&e);

    /* Noticed while paused, too. */
    end_open(&e, 4096);
    atoll_stream_pause(e.s);
    assert_int_equal(send(e.peer, "unread", 6, 0), 6);
    turn(&e, 2);
    close(e.peer);
    e.peer = -1;
    turn(&e, 3);
    assert_int_equal(e.closes + e.eofs, 1);
    end_close(&e);
}

static void test_write_to_the_dead(void **state)
{
    struct end e;

    (void)state;
    end_open(&e, 4096);
    close(e.peer);
    e.peer = -1;
    assert_int_equal(atoll_stream_write(e.s, "x", 1), -EPIPE);
    assert_int_equal(e.closes, 0); /* from the loop, not from inside the write */
    turn(&e, 2);
    assert_int_equal(e.closes, 1);
    assert_int_equal(e.error, -EPIPE);
    assert_int_equal(atoll_stream_write(e.s, "x", 1), -EPIPE);
    end_close(&e);
}

static void test_free_inside_callback(void **state)
{
    struct end e;

    (void)state;
    end_open(&e, 4096);
    e.free_on_input = true;
    assert_int_equal(send(e.peer, "x", 1, 0), 1);
    turn(&e, 2);
    assert_null(e.s);
    assert_int_equal(e.closes, 0);
    end_close(&e);
}

/* The last answer reaches a peer that is still sending: no reset destroys it on its way. */
static void test_close_after_flush(void **state)
{
    struct end e;
    char buf[16];

    (void)state;
    end_open(&e, 4096);
    assert_int_equal(atoll_stream_write(e.s, "last", 4), 0);
    assert_int_equal(send(e.peer, "still sending", 13, 0), 13);
    atoll_stream_close_after_flush(e.s);
    turn(&e, 3);
    assert_int_equal(send(e.peer, "more", 4, MSG_NOSIGNAL), 4);
    turn(&e, 2);
    assert_int_equal(recv(e.peer, buf, sizeof(buf), 0), 4);
    assert_int_equal(recv(e.peer, buf, sizeof(buf), 0), 0);
    assert_int_equal(atoll_buf_size(&e.got), 0);
    assert_int_equal(e.closes, 0);
    close(e.peer);
    e.peer = -1;
    turn(&e, 3);
    assert_int_equal(e.closes, 1);
    end_close(&e);
}

/* Nor one that sends without end and reads late: it is no longer read, and not cut off either. */
static void test_close_on_who_only_sends(void **state)
{
    static const char block[64 * 1024];
    struct end e;
    char buf[16];
    ssize_t n = 0;
    size_t sent = 0;

    (void)state;
    end_open(&e, 4096);
    assert_int_equal(atoll_stream_write(e.s, "last", 4), 0);
    atoll_stream_close_after_flush(e.s);
    while (n >= 0 && sent < (size_t)64 * 1024 * 1024) {
        n = send(e.peer, block, sizeof(block), MSG_DONTWAIT | MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
        turn(&e, 2);
    }
    assert_int_equal(n, -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(e.closes, 0);
    assert_int_equal(recv(e.peer, buf, sizeof(buf), 0), 4);
    close(e.peer);
    e.peer = -1;
    turn(&e, 3);
    assert_int_equal(e.closes, 1);
    end_close(&e);
}

/* Listeners. */

struct door {
    struct atoll_loop *loop;
    struct atoll_listener *l;
    int accepted, last_fd;
    bool close_it;
};

static void accepted(void *arg, int fd, bool is_unix)
{
    struct door *d = arg;

    (void)is_unix;
    d->accepted++;
    if (d->last_fd > 0)
        close(d->last_fd);
    d->last_fd = fd;
    if (d->close_it)
        d->l = atoll_listener_close(d->l);
}

static void make_dir(char path[64])
{
    snprintf(path, 64, "/tmp/atoll-test-XXXXXX");
    assert_non_null(mkdtemp(path));
}

static int connect_path(const char *path)
{
    struct atoll_address_unix a;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(atoll_address_unix_open(&a, path), 0);
    if (connect(fd, (struct sockaddr *)&a.addr, a.len) < 0) {
        int e = errno;
        close(fd);
        fd = -e;
    }
    atoll_address_unix_close(&a);
    return fd;
}

static void test_listen_unix(void **state)
{
    struct door d = {0};
    struct atoll_listener *second;
    struct atoll_error err;
    struct stat st;
    char dir[64], path[512];
    mode_t mask = umask(0077);
    int fd;

    (void)state;
    make_dir(dir);
    snprintf(path, sizeof(path), "%s/sock", dir);
    assert_int_equal(atoll_loop_new(&d.loop, NULL), 0);
    assert_int_equal(atoll_listener_open_unix(d.loop, path, 0660, accepted, &d, &d.l, &err), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0660);
    fd = connect_path(path);
    assert_true(fd >= 0);
    assert_int_equal(atoll_loop_step(d.loop, 10, NULL), 0);
    assert_int_equal(d.accepted, 1);
    close(fd);
    /* In use: refused. Stale: replaced. Not a socket: left alone. */
    assert_int_equal(atoll_listener_open_unix(d.loop, path, 0660, accepted, &d, &second, &err),
                     -EADDRINUSE);
    assert_int_equal(err.kind, ATOLL_ERR_ALREADY_EXISTS);
    d.l = atoll_listener_close(d.l);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(atoll_listener_open_unix(d.loop, path, 0600, accepted, &d, &d.l, &err), 0);
    d.close_it = true; /* from inside its own callback */
    fd = connect_path(path);
    assert_int_equal(atoll_loop_step(d.loop, 10, NULL), 0);
    assert_null(d.l);
    close(fd);
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(atoll_listener_open_unix(d.loop, path, 0600, accepted, &d, &d.l, &err),
                     -ENOTSOCK);
    assert_int_equal(err.kind, ATOLL_ERR_FAILED_PRECONDITION);
    rmdir(path);
    rmdir(dir);
    close(d.last_fd);
    umask(mask);
    d.loop = atoll_loop_free(d.loop);
}

static void test_listen_on_long_path(void **state)
{
    struct door d = {0};
    struct atoll_listener *l;
    struct atoll_error err;
    char dir[64], deep[300], path[512];
    int fd;

    (void)state;
    make_dir(dir);
    snprintf(deep, sizeof(deep), "%s/%0150d", dir, 7);
    assert_int_equal(mkdir(deep, 0700), 0);
    snprintf(path, sizeof(path), "%s/sock", deep);
    assert_true(strlen(path) > 108);
    assert_int_equal(atoll_loop_new(&d.loop, NULL), 0);
    assert_int_equal(atoll_listener_open_unix(d.loop, path, 0600, accepted, &d, &d.l, &err), 0);
    fd = connect_path(path);
    assert_true(fd >= 0);
    assert_int_equal(atoll_loop_step(d.loop, 10, NULL), 0);
    assert_int_equal(d.accepted, 1);
    close(fd);
    close(d.last_fd);
    d.l = atoll_listener_close(d.l);
    assert_int_equal(connect_path(path), -ECONNREFUSED);
    unlink(path);
    snprintf(path, sizeof(path), "%s/%0120d", dir, 7);
    assert_int_equal(atoll_listener_open_unix(d.loop, path, 0600, accepted, &d, &l, &err),
                     -ENAMETOOLONG);
    assert_int_equal(err.kind, ATOLL_ERR_INVALID_ARGUMENT);
    rmdir(deep);
    rmdir(dir);
    d.loop = atoll_loop_free(d.loop);
}

static int connect_port(uint16_t port)
{
    struct sockaddr_in in = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(connect(fd, (struct sockaddr *)&in, sizeof(in)), 0);
    return fd;
}

static void test_listen_tcp(void **state)
{
    struct door d = {0};
    struct atoll_listener *second;
    struct atoll_error err;
    uint16_t port = 0;
    char name[32];
    int fd, on = 0;
    socklen_t len = sizeof(on);

    (void)state;
    assert_int_equal(atoll_loop_new(&d.loop, NULL), 0);
    assert_int_equal(
        atoll_listener_open_tcp(d.loop, "127.0.0.1:0", accepted, &d, &port, &d.l, &err), 0);
    assert_true(port > 0);
    fd = connect_port(port);
    assert_int_equal(atoll_loop_step(d.loop, 10, NULL), 0);
    assert_int_equal(d.accepted, 1);
    assert_int_equal(getsockopt(d.last_fd, IPPROTO_TCP, TCP_NODELAY, &on, &len), 0);
    assert_int_equal(on, 1);
    assert_int_equal(getsockopt(d.last_fd, SOL_SOCKET, SO_KEEPALIVE, &on, &len), 0);
    assert_int_equal(on, 1);
    close(fd);
    close(d.last_fd);
    snprintf(name, sizeof(name), "127.0.0.1:%u", port);
    assert_int_equal(atoll_listener_open_tcp(d.loop, name, accepted, &d, NULL, &second, &err),
                     -EADDRINUSE);
    assert_int_equal(err.kind, ATOLL_ERR_ALREADY_EXISTS);
    assert_int_equal(atoll_listener_open_tcp(d.loop, "8000", accepted, &d, NULL, &second, &err),
                     -EINVAL);
    assert_int_equal(err.kind, ATOLL_ERR_INVALID_ARGUMENT);
    d.l = atoll_listener_close(d.l);
    d.loop = atoll_loop_free(d.loop);
}

/* Out of descriptors: callers are dropped instead of hanging, and later ones are served. */
static void test_out_of_descriptors(void **state)
{
    struct door d = {0};
    struct rlimit old, low;
    uint16_t port = 0;
    int clients[2], spare;
    char c;

    (void)state;
    assert_int_equal(atoll_loop_new(&d.loop, NULL), 0);
    assert_int_equal(
        atoll_listener_open_tcp(d.loop, "127.0.0.1:0", accepted, &d, &port, &d.l, NULL), 0);
    clients[0] = connect_port(port);
    clients[1] = connect_port(port);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    low = old;
    spare = dup(0);
    low.rlim_cur = (rlim_t)spare; /* the lowest one free: none is left below */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    assert_int_equal(atoll_loop_step(d.loop, 10, NULL), 0);
    assert_int_equal(d.accepted, 0);
    assert_int_equal(recv(clients[0], &c, 1, 0), 0); /* dropped, not hanging */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    for (int i = 0; i < 40 && d.accepted == 0; i++)
        assert_int_equal(atoll_loop_step(d.loop, 10, NULL), 0);
    assert_int_equal(d.accepted, 1);
    close(spare);
    close(d.last_fd);
    close(clients[0]);
    close(clients[1]);
    d.l = atoll_listener_close(d.l);
    d.loop = atoll_loop_free(d.loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_taking_part_of_the_input),
        cmocka_unit_test(test_queue_and_drain),
        cmocka_unit_test(test_cork),
        cmocka_unit_test(test_half_close),
        cmocka_unit_test(test_peer_ends),
        cmocka_unit_test(test_write_to_the_dead),
        cmocka_unit_test(test_free_inside_callback),
        cmocka_unit_test(test_close_after_flush),
        cmocka_unit_test(test_close_on_who_only_sends),
        cmocka_unit_test(test_listen_unix),
        cmocka_unit_test(test_listen_on_long_path),
        cmocka_unit_test(test_listen_tcp),
        cmocka_unit_test(test_out_of_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The network of a sandbox from inside, in a network namespace of this test. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/defs.h"
#include "base/fd.h"
#include "sys/netspace.h"
#include "sys/ns.h"
#include "test.h"

#define OWN4 ATOLL_NETSPACE_ADDRESS4
#define OWN6 ATOLL_NETSPACE_ADDRESS6

static struct atoll_netspace space = {ATOLL_NO_FD, ATOLL_NO_FD};

static int setup(void **state)
{
    (void)state;
    if (unshare(geteuid() == 0 ? CLONE_NEWNET : CLONE_NEWUSER | CLONE_NEWNET) < 0 ||
        atoll_sys_network_up() < 0)
        return -1;
    return atoll_netspace_open(&space);
}

static int teardown(void **state)
{
    (void)state;
    (void)close(space.tcp);
    (void)close(space.udp);
    return 0;
}

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static socklen_t address_of(const char *text, uint16_t port, union address *ret)
{
    *ret = (union address){0};
    if (inet_pton(AF_INET, text, &ret->v4.sin_addr) == 1) {
        ret->v4.sin_family = AF_INET;
        ret->v4.sin_port = htons(port);
        return sizeof(ret->v4);
    }
    assert_int_equal(inet_pton(AF_INET6, text, &ret->v6.sin6_addr), 1);
    ret->v6.sin6_family = AF_INET6;
    ret->v6.sin6_port = htons(port);
    return sizeof(ret->v6);
}

/* "ADDRESS PORT"; IPv4 in IPv6 as IPv4. */
static const char *print(const union address *a, char *out, size_t cap)
{
    char text[INET6_ADDRSTRLEN];
    bool v4 = a->any.sa_family == AF_INET;

    (void)inet_ntop(a->any.sa_family, v4 ? (const void *)&a->v4.sin_addr : &a->v6.sin6_addr, text,
                    sizeof(text));
    (void)snprintf(out, cap, "%s %u", strncmp(text, "::ffff:", 7) == 0 ? text + 7 : text,
                   ntohs(v4 ? a->v4.sin_port : a->v6.sin6_port));
    return out;
}

static int open_to(int type, const char *text, uint16_t port)
{
    union address to;
    socklen_t len = address_of(text, port, &to);
    int fd = socket(to.any.sa_family, type | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    if (connect(fd, &to.any, len) < 0) {
        int e = errno;
        (void)close(fd);
        return -e;
    }
    return fd;
}

static bool readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 5000) == 1;
}

static void every_foreign_connection_is_accepted(void **state)
{
    static const struct {
        const char *to;
        uint16_t port;
        const char *from;
    } cases[] = {
        {"192.0.2.7", 80, OWN4},        {"192.0.2.7", 65530, OWN4}, {"10.0.0.1", 22, OWN4},
        {"169.254.169.254", 80, OWN4},  {"198.51.100.1", 53, OWN4}, {OWN4, 53, OWN4},
        {"2001:db8::5", 443, OWN6},     {"fd00::1", 5432, OWN6},    {OWN6, 53, OWN6},
        {"::ffff:192.0.2.7", 80, OWN4},
    };

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(cases); i++) {
        int client = open_to(SOCK_STREAM, cases[i].to, cases[i].port), server;
        char wanted[80], got[80];
        union address own, peer;
        socklen_t len = sizeof(own), peer_len = sizeof(peer);
        char bytes[4] = "";

        assert_true(client >= 0);
        server = accept4(space.tcp, &peer.any, &peer_len, SOCK_CLOEXEC);
        assert_true(server >= 0);
        assert_int_equal(getsockname(server, &own.any, &len), 0);
        (void)address_of(cases[i].to, cases[i].port, &peer);
        assert_string_equal(print(&own, got, sizeof(got)), print(&peer, wanted, sizeof(wanted)));
        len = sizeof(own);
        assert_int_equal(getsockname(client, &own.any, &len), 0);
        assert_memory_equal(print(&own, got, sizeof(got)), cases[i].from, strlen(cases[i].from));
        assert_int_equal(write(client, "ask", 3), 3);
        assert_true(readable(server));
        assert_int_equal(read(server, bytes, sizeof(bytes)), 3);
        assert_int_equal(write(server, "told", 4), 4);
        assert_true(readable(client));
        assert_int_equal(read(client, bytes, sizeof(bytes)), 4);
        assert_memory_equal(bytes, "told", 4);
        (void)close(client);
        (void)close(server);
    }
}

/* The sandbox's own servers are reached on its own addresses, and only there. */
static void own_servers_are_not_taken_over(void **state)
{
    static const char *const own[] = {"127.0.0.1", "127.1.2.3", "::1", OWN4, OWN6};
    union address any;
    socklen_t len = address_of("::", 8001, &any);
    int listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), client, server;

    (void)state;
    assert_int_equal(bind(listener, &any.any, len), 0);
    assert_int_equal(listen(listener, 8), 0);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(own); i++) {
        client = open_to(SOCK_STREAM, own[i], 8001);
        assert_true(client >= 0);
        server = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        assert_true(server >= 0);
        (void)close(client);
        (void)close(server);
        assert_int_equal(open_to(SOCK_STREAM, own[i], 8002), -ECONNREFUSED);
    }
    client = open_to(SOCK_STREAM, "192.0.2.7", 8001);
    assert_true(client >= 0);
    assert_int_equal(accept4(listener, NULL, NULL, SOCK_CLOEXEC), -1);
    server = accept4(space.tcp, NULL, NULL, SOCK_CLOEXEC);
    assert_true(server >= 0);
    (void)close(client);
    (void)close(server);
    (void)close(listener);
}

/* Receives one question and sends it back; `asked` gets the address that was asked. */
static void answer(char *asked, size_t cap)
{
    char text[16], control[CMSG_SPACE(sizeof(struct in6_pktinfo))];
    struct sockaddr_in6 from;
    struct iovec part = {text, sizeof(text)};
    struct msghdr m = {.msg_name = &from,
                       .msg_namelen = sizeof(from),
                       .msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = control,
                       .msg_controllen = sizeof(control)};
    struct in6_pktinfo info;
    ssize_t n;

    assert_true(readable(space.udp));
    n = recvmsg(space.udp, &m, 0);
    assert_true(n > 0);
    assert_int_equal(CMSG_FIRSTHDR(&m)->cmsg_type, IPV6_PKTINFO);
    memcpy(&info, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(info));
    (void)inet_ntop(AF_INET6, &info.ipi6_addr, asked, (socklen_t)cap);
    part.iov_len = (size_t)n;
    assert_int_equal(sendmsg(space.udp, &m, 0), n);
}

static void questions_are_answered_from_where_they_were_asked(void **state)
{
    static const char *const servers[] = {"198.51.100.9", OWN4, "2001:db8::9", OWN6};

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(servers); i++) {
        union address to, from;
        socklen_t len = address_of(servers[i], 53, &to), from_len = sizeof(from);
        int connected = open_to(SOCK_DGRAM, servers[i], 53);
        int other = socket(to.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        char asked[64], wanted[80], got[80];

        assert_int_equal(write(connected, "q", 1), 1);
        answer(asked, sizeof(asked));
        assert_non_null(strstr(asked, servers[i]));
        assert_true(readable(connected)); /* the kernel compares address and port */
        assert_int_equal(sendto(other, "q", 1, 0, &to.any, len), 1);
        answer(asked, sizeof(asked));
        assert_true(readable(other));
        assert_int_equal(recvfrom(other, asked, 1, 0, &from.any, &from_len), 1);
        assert_string_equal(print(&from, got, sizeof(got)), print(&to, wanted, sizeof(wanted)));
        (void)close(connected);
        (void)close(other);
    }
}

static int ask(const char *address, uint16_t port)
{
    int fd = open_to(SOCK_DGRAM, address, port), r;

    assert_int_equal(write(fd, "q", 1), 1);
    assert_true(readable(fd));
    r = recv(fd, &r, 1, MSG_DONTWAIT) < 0 ? -errno : 0;
    (void)close(fd);
    return r;
}

/* Also if a server of the sandbox has that port. */
static void other_datagrams_are_refused_at_once(void **state)
{
    union address any;
    socklen_t len = address_of("::", 443, &any);
    int server = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0), client;

    (void)state;
    assert_int_equal(ask("192.0.2.7", 443), -ECONNREFUSED);
    assert_int_equal(bind(server, &any.any, len), 0);
    assert_int_equal(ask("192.0.2.7", 443), -ECONNREFUSED);
    assert_int_equal(ask("2001:db8::5", 443), -ECONNREFUSED);
    assert_int_equal(ask("192.0.2.7", 123), -ECONNREFUSED);
    assert_int_equal(ask(OWN4, 444), -ECONNREFUSED);
    client = open_to(SOCK_DGRAM, OWN4, 443);
    assert_int_equal(write(client, "q", 1), 1);
    assert_true(readable(server));
    (void)close(client);
    (void)close(server);
}

static void the_port_cannot_be_shared(void **state)
{
    static const char *const hosts[] = {"0.0.0.0", "127.0.0.1", "192.0.2.7", "::", "::1", OWN6};
    static const int types[] = {SOCK_STREAM, SOCK_DGRAM};
    const int on = 1;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(hosts) * 2; i++) {
        union address at;
        socklen_t len = address_of(hosts[i / 2], ATOLL_NETSPACE_PORT, &at);
        int fd = socket(at.any.sa_family, types[i % 2] | SOCK_CLOEXEC, 0);
        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)), 0);
        assert_int_equal(bind(fd, &at.any, len), -1);
        assert_int_equal(errno, EADDRINUSE);
        (void)close(fd);
    }
}

/* Programs outside cannot lack the memory for it: no packet makes an entry of connection tracking. */
static void connections_are_not_tracked(void **state)
{
    int fd = open("/proc/thread-self/net/stat/nf_conntrack", O_RDONLY | O_CLOEXEC);
    char text[512] = "";
    unsigned entries = 0;

    (void)state;
    if (fd < 0)
        skip(); /* this kernel has no connection tracking */
    assert_true(read(fd, text, sizeof(text) - 1) > 0);
    (void)close(fd);
    assert_int_equal(sscanf(strchr(text, '\n'), "%x", &entries), 1);
    assert_int_equal(entries, 0);
}

static void a_second_time_is_an_error(void **state)
{
    struct atoll_netspace again = {ATOLL_NO_FD, ATOLL_NO_FD};

    (void)state;
    assert_int_equal(atoll_netspace_open(&again), -EADDRINUSE);
    assert_int_equal(again.tcp, ATOLL_NO_FD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_foreign_connection_is_accepted),
        cmocka_unit_test(own_servers_are_not_taken_over),
        cmocka_unit_test(questions_are_answered_from_where_they_were_asked),
        cmocka_unit_test(other_datagrams_are_refused_at_once),
        cmocka_unit_test(the_port_cannot_be_shared),
        cmocka_unit_test(connections_are_not_tracked),
        cmocka_unit_test(a_second_time_is_an_error),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

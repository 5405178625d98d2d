/*
 * The program atoll-egress as the daemon uses it. This test plays the daemon, the sandbox (a network
 * namespace with its two sockets) and the internet (another network namespace, in which whole ranges of
 * addresses are local and a thread serves them).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "base/clock.h"
#include "base/fd.h"
#include "proto/egress_proto.h"
#include "sys/netlink.h"
#include "sys/netspace.h"
#include "sys/ns.h"
#include "sys/unix_socket.h"
#include "test.h"

#define WAIT_MS 10000
#define ECHO 7000   /* sends back what it gets */
#define BANNER 7001 /* speaks first, then as ECHO */
#define SOCKS 7002  /* a proxy with user "u" and password "p" that answers itself, as ECHO */
#define CLOSED 7003

static const char hosts[] = "127.0.0.1 localhost\n"
                            "203.0.113.10 good.example evil.example\n"
                            "203.0.113.11 other.example\n"
                            "203.0.113.12 www.example.org\n"
                            "203.0.113.20 proxy.example\n";

static char state_dir[] = "/tmp/atoll-egress-XXXXXX";
static int outside_ns;
/* Two sandboxes; the functions below are about the current one. */
static struct inside {
    int ns;
    struct atoll_netspace space;
} insides[2], *current = &insides[0];
static pid_t program;
static uint32_t worker;
static struct atoll_channel daemon_end;
static uint32_t last_id;

/* The internet */

static void serve_socks(int fd)
{
    char bytes[512];

    (void)!recv(fd, bytes, 4, MSG_WAITALL);
    (void)!send(fd, "\x05\x02", 2, MSG_NOSIGNAL);
    (void)!recv(fd, bytes, 5, MSG_WAITALL);
    (void)!send(fd, memcmp(bytes, "\x01\x01u\x01p", 5) == 0 ? "\x01\x00" : "\x01\x01", 2,
                MSG_NOSIGNAL);
    (void)!recv(fd, bytes, 5, MSG_WAITALL); /* to the length of a name, or one byte of an address */
    (void)!recv(fd, bytes + 5, bytes[3] == 3 ? (size_t)bytes[4] + 2 : 5, MSG_WAITALL);
    (void)!send(fd, "\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00", 10, MSG_NOSIGNAL);
    if (bytes[3] == 3)
        (void)!send(fd, bytes + 5, (size_t)bytes[4], MSG_NOSIGNAL);
}

static void *serve_one(void *arg)
{
    struct sockaddr_in6 own;
    socklen_t size = sizeof(own);
    int fd = (int)(intptr_t)arg;
    char bytes[65536];
    ssize_t n;

    (void)getsockname(fd, (struct sockaddr *)&own, &size);
    if (ntohs(own.sin6_port) == BANNER)
        (void)!send(fd, "220 hello\n", 10, MSG_NOSIGNAL);
    if (ntohs(own.sin6_port) == SOCKS)
        serve_socks(fd);
    while ((n = recv(fd, bytes, sizeof(bytes), 0)) > 0)
        if (send(fd, bytes, (size_t)n, MSG_NOSIGNAL) < 0)
            break;
    (void)close(fd);
    return NULL;
}

static void *serve(void *arg)
{
    int listener = (int)(intptr_t)arg, fd;
    pthread_t thread;

    while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
        if (pthread_create(&thread, NULL, serve_one, (void *)(intptr_t)fd) == 0)
            (void)pthread_detach(thread);
    return NULL;
}

static void listen_at(uint16_t port)
{
    struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pthread_t thread;

    assert_int_equal(bind(fd, (struct sockaddr *)&any, sizeof(any)), 0);
    assert_int_equal(listen(fd, 64), 0);
    assert_int_equal(pthread_create(&thread, NULL, serve, (void *)(intptr_t)fd), 0);
    (void)pthread_detach(thread);
}

/* Makes a range of addresses local without giving them to the host. */
static void add_range(const char *prefix, uint8_t bits)
{
    struct rtmsg h = {.rtm_dst_len = bits,
                      .rtm_table = RT_TABLE_LOCAL,
                      .rtm_protocol = RTPROT_STATIC,
                      .rtm_scope = RT_SCOPE_HOST,
                      .rtm_type = RTN_LOCAL};
    const uint32_t lo = 1;
    struct atoll_netlink nl;
    uint8_t address[16];

    h.rtm_family = strchr(prefix, ':') ? AF_INET6 : AF_INET;
    assert_int_equal(inet_pton(h.rtm_family, prefix, address), 1);
    atoll_netlink_init(&nl);
    atoll_netlink_begin(&nl, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_ACK, &h, sizeof(h));
    atoll_netlink_put(&nl, RTA_DST, address, h.rtm_family == AF_INET ? 4 : 16);
    atoll_netlink_put(&nl, RTA_OIF, &lo, sizeof(lo));
    assert_int_equal(atoll_netlink_send(&nl, NETLINK_ROUTE, nl.sequence), 0);
}

static void add_address(const char *text)
{
    struct ifaddrmsg h = {.ifa_family = AF_INET, .ifa_prefixlen = 32, .ifa_index = 1};
    struct atoll_netlink nl;
    struct in_addr address;

    assert_int_equal(inet_pton(AF_INET, text, &address), 1);
    atoll_netlink_init(&nl);
    atoll_netlink_begin(&nl, RTM_NEWADDR, NLM_F_CREATE | NLM_F_ACK, &h, sizeof(h));
    atoll_netlink_put(&nl, IFA_LOCAL, &address, sizeof(address));
    assert_int_equal(atoll_netlink_send(&nl, NETLINK_ROUTE, nl.sequence), 0);
}

/* Only for this process and its children. */
static void replace_hosts(void)
{
    char path[64];
    int fd;

    assert_int_equal(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    (void)snprintf(path, sizeof(path), "%s/hosts", state_dir);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_int_equal(atoll_fd_write_all(fd, hosts, sizeof(hosts) - 1), 0);
    (void)close(fd);
    assert_int_equal(mount(path, "/etc/hosts", NULL, MS_BIND, NULL), 0);
}

static int own_namespace(void)
{
    return open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
}

static void make_networks(void)
{
    bool root = geteuid() == 0;

    assert_int_equal(unshare((root ? 0 : CLONE_NEWUSER) | CLONE_NEWNET | CLONE_NEWNS), 0);
    replace_hosts();
    assert_int_equal(atoll_sys_network_up(), 0);
    add_range("203.0.113.0", 24);
    add_range("10.0.0.0", 8);
    add_range("2001:db8::", 32);
    add_address("203.0.113.200");
    listen_at(ECHO);
    listen_at(BANNER);
    listen_at(SOCKS);
    outside_ns = own_namespace();
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(insides); i++) {
        assert_int_equal(unshare(CLONE_NEWNET), 0);
        assert_int_equal(atoll_sys_network_up(), 0);
        assert_int_equal(atoll_netspace_open(&insides[i].space), 0);
        insides[i].ns = own_namespace();
    }
    assert_int_equal(setns(outside_ns, CLONE_NEWNET), 0);
}

/* The daemon */

struct answer {
    uint16_t type;
    uint32_t id;
    uint8_t payload[4096];
    size_t len;
};

static struct {
    struct atoll_em_connection message;
    uint8_t payload[4096];
} events[256];
static size_t event_count;
static struct answer answer;
static struct atoll_em_dial asked; /* the last one; id is not kept */

static int on_frame(void *arg, struct atoll_frame *frame)
{
    struct atoll_error err;

    (void)arg;
    assert_true(frame->len <= sizeof(answer.payload));
    if (frame->type == ATOLL_EGRESS_CONNECTION) {
        assert_true(event_count < ATOLL_ARRAY_LEN(events));
        memcpy(events[event_count].payload, frame->payload, frame->len);
        assert_int_equal(atoll_msg_decode(&atoll_em_connection_desc, events[event_count].payload,
                                          frame->len, &events[event_count].message, &err),
                         0);
        event_count++;
        return 0;
    }
    if (frame->type == ATOLL_EGRESS_DIAL) {
        assert_int_equal(
            atoll_msg_decode(&atoll_em_dial_desc, frame->payload, frame->len, &asked, &err), 0);
        asked.id = NULL;
        return 0;
    }
    answer = (struct answer){.type = frame->type, .id = frame->id, .len = frame->len};
    memcpy(answer.payload, frame->payload, frame->len);
    return 0;
}

/* false: nothing came in time. */
static bool receive(int timeout_ms)
{
    struct pollfd p = {.fd = daemon_end.fd, .events = POLLIN};

    if (poll(&p, 1, timeout_ms) < 1)
        return false;
    assert_int_equal(atoll_channel_receive(&daemon_end, on_frame, NULL), 0);
    return true;
}

static uint16_t request(uint16_t type, const struct atoll_msg_desc *desc, const void *msg,
                        const int *fds, size_t nfds)
{
    uint32_t id = ++last_id;

    answer.id = 0;
    assert_int_equal(atoll_channel_send(&daemon_end, type, id, desc, msg, fds, nfds), 0);
    assert_int_equal(atoll_channel_flush(&daemon_end), 1);
    while (answer.id != id)
        assert_true(receive(WAIT_MS));
    return answer.type;
}

static void hello(uint64_t total_max)
{
    struct atoll_em_hello msg = {ATOLL_EGRESS_VERSION, (uint32_t)getpid(), total_max};
    struct atoll_error err;

    assert_int_equal(request(ATOLL_EGRESS_HELLO, &atoll_em_hello_desc, &msg, NULL, 0),
                     ATOLL_EGRESS_REPLY);
    assert_int_equal(atoll_msg_decode(&atoll_em_hello_desc, answer.payload, answer.len, &msg, &err),
                     0);
    worker = msg.pid;
}

static void connect_control(void)
{
    int fd = -1;

    for (int64_t until = atoll_clock_ms() + WAIT_MS; fd < 0 && atoll_clock_ms() < until;) {
        fd = atoll_unix_connect(state_dir, ATOLL_EGRESS_SOCKET);
        if (fd < 0)
            (void)poll(NULL, 0, 10);
    }
    assert_true(fd >= 0);
    assert_int_equal(atoll_channel_init(&daemon_end, fd, 1 << 20), 0);
    hello(0);
}

static struct atoll_bytes bytes_of(const char *text)
{
    return (struct atoll_bytes){(const uint8_t *)text, strlen(text)};
}

static void put(const char *id, const char *tenant, const char *policy, const char *bound)
{
    const struct atoll_em_put msg = {id, tenant, "", bytes_of(policy), bytes_of(bound)};
    const int fds[] = {current->space.tcp, current->space.udp};

    event_count = 0;
    if (request(ATOLL_EGRESS_PUT, &atoll_em_put_desc, &msg, fds, 2) != ATOLL_EGRESS_REPLY)
        fail_msg("%s", (const char *)answer.payload + 12);
}

static void set_policy(const char *id, const char *policy, const char *bound)
{
    const struct atoll_em_put msg = {id, "t", "", bytes_of(policy), bytes_of(bound)};

    assert_int_equal(request(ATOLL_EGRESS_POLICY, &atoll_em_put_desc, &msg, NULL, 0),
                     ATOLL_EGRESS_REPLY);
}

static struct atoll_em_stats ask_stats(uint16_t type, const char *id)
{
    const struct atoll_em_ref ref = {id};
    struct atoll_em_stats stats;
    struct atoll_error err;

    assert_int_equal(request(type, &atoll_em_ref_desc, &ref, NULL, 0), ATOLL_EGRESS_REPLY);
    assert_int_equal(
        atoll_msg_decode(&atoll_em_stats_desc, answer.payload, answer.len, &stats, &err), 0);
    return stats;
}

static void drop(const char *id)
{
    (void)ask_stats(ATOLL_EGRESS_DROP, id);
}

/* Waits for an event with this end; DNS questions are skipped. */
static const struct atoll_em_connection *expect_event(enum atoll_egress_end end)
{
    for (size_t i = 0;; i++) {
        while (i == event_count)
            if (!receive(WAIT_MS))
                fail_msg("no event %d came", (int)end);
        if (!events[i].message.dns && events[i].message.end == end)
            return &events[i].message;
    }
}

static void start_program(void)
{
    const char *build = getenv("ATOLL_BUILD_DIR");
    char path[4096];

    (void)snprintf(path, sizeof(path), "%s/atoll-egress", build ? build : ".");
    program = fork();
    if (program == 0) {
        (void)execl(path, "atoll-egress", state_dir, (char *)NULL);
        _exit(127);
    }
    assert_true(program > 0);
}

static int setup(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(state_dir));
    make_networks();
    start_program();
    connect_control();
    return 0;
}

static int teardown(void **state)
{
    char command[64];
    int status;

    (void)state;
    assert_int_equal(atoll_channel_send(&daemon_end, ATOLL_EGRESS_END, 0, NULL, NULL, NULL, 0), 0);
    assert_int_equal(atoll_channel_flush(&daemon_end), 1);
    assert_int_equal(waitpid(program, &status, 0), program);
    atoll_channel_done(&daemon_end);
    assert_int_equal(status, 0);
    (void)snprintf(command, sizeof(command), "rm -rf %s", state_dir);
    (void)!umount2("/etc/hosts", MNT_DETACH);
    return system(command) == 0 ? 0 : -1;
}

/* The sandbox */

static int open_inside(int family)
{
    const struct timeval limit = {.tv_sec = WAIT_MS / 1000};
    int fd;

    assert_int_equal(setns(current->ns, CLONE_NEWNET), 0);
    fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(setns(outside_ns, CLONE_NEWNET), 0);
    assert_true(fd >= 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    return fd;
}

/* A reset may come before connect() returns, which then reports it; recv() does not once more. */
static bool connect_was_reset;

static int dial(const char *address, uint16_t port)
{
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    bool is_v6 = strchr(address, ':') != NULL;
    int fd = open_inside(is_v6 ? AF_INET6 : AF_INET), r;

    assert_int_equal(inet_pton(is_v6 ? AF_INET6 : AF_INET, address,
                               is_v6 ? (void *)&v6.sin6_addr : (void *)&v4.sin_addr),
                     1);
    r = is_v6 ? connect(fd, (struct sockaddr *)&v6, sizeof(v6))
              : connect(fd, (struct sockaddr *)&v4, sizeof(v4));
    connect_was_reset = r < 0 && errno == ECONNRESET;
    assert_true(r == 0 || connect_was_reset);
    return fd;
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

static void expect_text(int fd, const char *text)
{
    char got[1024] = "";
    ssize_t n = recv(fd, got, strlen(text), MSG_WAITALL);

    if (n != (ssize_t)strlen(text) || memcmp(got, text, (size_t)n) != 0)
        fail_msg("expected \"%s\", got %zd bytes \"%s\" (%s)", text, n, got, strerror(errno));
}

static void expect_reset(int fd)
{
    char byte;

    if (!connect_was_reset) {
        assert_int_equal(recv(fd, &byte, 1, 0), -1);
        assert_int_equal(errno, ECONNRESET);
    }
    (void)close(fd);
}

/* Whether a request with this host gets its own text back. */
static bool answers(const char *address, const char *host)
{
    char request_text[256], got[256] = "";
    int fd = dial(address, ECHO);
    ssize_t n;

    (void)snprintf(request_text, sizeof(request_text), "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", host);
    say(fd, request_text);
    n = recv(fd, got, strlen(request_text), MSG_WAITALL);
    (void)close(fd);
    return n == (ssize_t)strlen(request_text) && strcmp(got, request_text) == 0;
}

#define ALL "{\"default\":\"allow\"}"
#define ONLY_GOOD "{\"default\":\"deny\",\"rules\":[{\"allow\":\"good.example\"}]}"
#define NO_BOUND "{}"

static void check_echo(const char *address)
{
    int fd = dial(address, ECHO);
    char byte;

    say(fd, "ping");
    expect_text(fd, "ping");
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    assert_int_equal(recv(fd, &byte, 1, 0), 0);
    (void)close(fd);
}

static void connections_are_carried_and_told(void **state)
{
    const struct atoll_em_connection *event;
    struct atoll_em_stats stats;

    (void)state;
    put("a", "t", ALL, NO_BOUND);
    check_echo("203.0.113.10");
    event = expect_event(ATOLL_EGRESS_OPENED);
    assert_string_equal(event->id, "a");
    assert_string_equal(event->address, "203.0.113.10");
    assert_string_equal(event->rule, "default");
    assert_int_equal(event->port, ECHO);
    event = expect_event(ATOLL_EGRESS_CLOSED);
    assert_int_equal(event->rx_bytes, 4);
    assert_int_equal(event->tx_bytes, 4);
    assert_true(event->ended_unix_ms >= event->started_unix_ms);
    check_echo("2001:db8::5");
    stats = ask_stats(ATOLL_EGRESS_STATS, "a");
    assert_int_equal(stats.connections, 2);
    assert_int_equal(stats.rx_bytes, 8);
    assert_int_equal(stats.denied, 0);
    drop("a");
}

static void internal_addresses_are_denied(void **state)
{
    static const char *const addresses[] = {"10.0.0.5", "203.0.113.200", "169.254.169.254",
                                            "fd00::1", "::ffff:10.0.0.5"};

    (void)state;
    put("a", "t", ALL, NO_BOUND);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(addresses); i++) {
        expect_reset(dial(addresses[i], ECHO));
        assert_string_equal(expect_event(ATOLL_EGRESS_DENIED)->rule, "internal address");
        event_count = 0;
    }
    /* The control: these addresses answer as soon as the operator allows them. */
    put("a", "t", ALL, "{\"internal\":[\"10.0.0.0/8\",\"203.0.113.200\"]}");
    check_echo("10.0.0.5");
    check_echo("203.0.113.200");
    drop("a");
}

static void unreachable_is_a_reset(void **state)
{
    const struct atoll_em_connection *event;

    (void)state;
    put("a", "t", ALL, NO_BOUND);
    expect_reset(dial("203.0.113.10", CLOSED));
    event = expect_event(ATOLL_EGRESS_UNREACHABLE);
    assert_int_equal(event->errnum, ECONNREFUSED);
    drop("a");
}

static void names_decide(void **state)
{
    const struct atoll_em_connection *event;

    (void)state;
    put("a", "t", ONLY_GOOD, NO_BOUND);
    assert_true(answers("203.0.113.10", "good.example"));
    event = expect_event(ATOLL_EGRESS_OPENED);
    assert_string_equal(event->name, "good.example");
    assert_string_equal(event->rule, "allow good.example");
    /* Another name of the same address. */
    assert_false(answers("203.0.113.10", "evil.example"));
    event = expect_event(ATOLL_EGRESS_DENIED);
    assert_string_equal(event->name, "evil.example");
    assert_string_equal(event->rule, "default");
    assert_string_equal(event->hint, "evil.example:7000");
    event_count = 0;
    /* The right name at another address. */
    assert_false(answers("203.0.113.11", "good.example"));
    assert_string_equal(expect_event(ATOLL_EGRESS_DENIED)->rule, "name does not belong to address");
    event_count = 0;
    /* No name at all, and none was asked for by DNS. */
    {
        int fd = dial("203.0.113.10", ECHO);

        say(fd, "\x01\x02");
        expect_reset(fd);
    }
    assert_string_equal(expect_event(ATOLL_EGRESS_DENIED)->hint, "203.0.113.10:7000");
    /* The control: without the policy everything answers. */
    put("a", "t", ALL, NO_BOUND);
    assert_true(answers("203.0.113.10", "evil.example"));
    assert_true(answers("203.0.113.11", "good.example"));
    drop("a");
}

/* A ClientHello for www.example.org, which a TLS library wrote. */
static size_t load_hello(char *out, size_t cap)
{
    const char *source = getenv("ATOLL_SOURCE_DIR");
    char path[4096];
    ssize_t n;
    int fd;

    (void)snprintf(path, sizeof(path), "%s/tests/fuzz/corpus/sniff/tls", source ? source : "..");
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = read(fd, out, cap);
    assert_true(n > 0);
    (void)close(fd);
    return (size_t)n;
}

static void names_of_tls_decide(void **state)
{
    char bytes[4096], got[4096];
    size_t n = load_hello(bytes, sizeof(bytes));
    int fd;

    (void)state;
    put("a", "t", "{\"default\":\"deny\",\"rules\":[{\"allow\":\"*.example.org\"}]}", NO_BOUND);
    fd = dial("203.0.113.12", ECHO);
    assert_int_equal(send(fd, bytes, n, 0), n);
    assert_int_equal(recv(fd, got, n, MSG_WAITALL), n);
    assert_memory_equal(got, bytes, n);
    (void)close(fd);
    assert_string_equal(expect_event(ATOLL_EGRESS_OPENED)->name, "www.example.org");
    /* The same hello for a server that has not this name. */
    fd = dial("203.0.113.10", ECHO);
    assert_int_equal(send(fd, bytes, n, 0), n);
    expect_reset(fd);
    assert_string_equal(expect_event(ATOLL_EGRESS_DENIED)->rule, "name does not belong to address");
    drop("a");
}

static void denied_requests_are_told_why(void **state)
{
    static const char wanted[] = "HTTP/1.1 403 Forbidden\r\n";
    int fd;

    (void)state;
    put("a", "t", ONLY_GOOD, NO_BOUND);
    fd = dial("203.0.113.10", ECHO);
    say(fd, "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    expect_text(fd, wanted);
    (void)close(fd);
    drop("a");
}

/* The first bytes come in pieces, and count only together. */
static void names_in_pieces(void **state)
{
    int fd;

    (void)state;
    put("a", "t", ONLY_GOOD, NO_BOUND);
    fd = dial("203.0.113.10", ECHO);
    say(fd, "GET / HTTP/1.1\r\nHo");
    (void)poll(NULL, 0, 150);
    say(fd, "st: good.exa");
    (void)poll(NULL, 0, 150);
    say(fd, "mple\r\n\r\nbody");
    expect_text(fd, "GET / HTTP/1.1\r\nHost: good.example\r\n\r\nbody");
    (void)close(fd);
    drop("a");
}

/* A question for good.example over TCP, so that its address is remembered. */
static void ask_for_good(void)
{
    static const char question[] = "\x00\x1e\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"
                                   "\x04good\x07"
                                   "example\x00\x00\x01\x00\x01";
    int fd = dial("100.64.0.1", 53);
    uint8_t head[6];

    assert_int_equal(send(fd, question, sizeof(question) - 1, 0), sizeof(question) - 1);
    assert_int_equal(recv(fd, head, sizeof(head), MSG_WAITALL), sizeof(head));
    assert_int_equal(head[5] & 15, 0);
    (void)close(fd);
}

static void servers_that_speak_first(void **state)
{
    int fd;

    (void)state;
    put("a", "t", ONLY_GOOD, NO_BOUND);
    ask_for_good();
    fd = dial("203.0.113.10", BANNER);
    expect_text(fd, "220 hello\n");
    say(fd, "\x01\x02");
    expect_text(fd, "\x01\x02");
    (void)close(fd);
    /* The first bytes are looked at even then. */
    fd = dial("203.0.113.10", BANNER);
    expect_text(fd, "220 hello\n");
    event_count = 0;
    say(fd, "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    expect_reset(fd);
    assert_string_equal(expect_event(ATOLL_EGRESS_DENIED)->name, "evil.example");
    /* The address of another name is not remembered. */
    expect_reset(dial("203.0.113.11", BANNER));
    drop("a");
}

static void a_new_policy_ends_connections(void **state)
{
    const struct atoll_em_connection *event;
    int kept, ended;

    (void)state;
    put("a", "t", ALL, NO_BOUND);
    kept = dial("203.0.113.10", ECHO);
    ended = dial("203.0.113.11", ECHO);
    say(kept, "x");
    say(ended, "x");
    expect_text(kept, "x");
    expect_text(ended, "x");
    set_policy("a", "{\"default\":\"allow\",\"rules\":[{\"deny\":\"203.0.113.11\"}]}", NO_BOUND);
    /* The event was sent before the answer. */
    event = &events[event_count - 1].message;
    assert_int_equal(event->end, ATOLL_EGRESS_REVOKED);
    assert_string_equal(event->rule, "deny 203.0.113.11");
    expect_reset(ended);
    expect_reset(dial("203.0.113.11", ECHO));
    say(kept, "y");
    expect_text(kept, "y");
    (void)close(kept);
    drop("a");
}

static void a_proxy_is_used(void **state)
{
    int fd;

    (void)state;
    put("a", "t",
        "{\"default\":\"allow\",\"rules\":[{\"deny\":\"evil.example\"}],"
        "\"proxy\":{\"address\":\"proxy.example:7002\",\"username\":\"u\",\"password\":\"p\"}}",
        NO_BOUND);
    fd = dial("203.0.113.99", 80);
    say(fd, "GET / HTTP/1.1\r\nHost: other.example\r\n\r\n");
    expect_text(fd, "other.exampleGET / HTTP/1.1\r\n"); /* the proxy names what it was asked for */
    (void)close(fd);
    /* A proxy inside the host's network is refused. */
    put("a", "t", "{\"default\":\"allow\",\"proxy\":{\"address\":\"10.0.0.5:7002\"}}", NO_BOUND);
    expect_reset(dial("203.0.113.99", 80));
    assert_string_equal(expect_event(ATOLL_EGRESS_DENIED)->rule, "internal address");
    drop("a");
}

/* Opens connections until one is refused; returns how many there are. */
static size_t open_all(int *fds, size_t cap)
{
    char byte = 'x';

    for (size_t i = 0; i < cap; i++) {
        fds[i] = dial("203.0.113.10", ECHO);
        (void)!send(fds[i], &byte, 1, MSG_NOSIGNAL);
        if (recv(fds[i], &byte, 1, 0) != 1) {
            (void)close(fds[i]);
            return i;
        }
    }
    return cap;
}

/* A tenant that uses all connections there are does not keep another from its share. */
static void tenants_share_connections(void **state)
{
    int first[8], second[8];
    size_t count, others;

    (void)state;
    hello(4);
    put("a", "t", ALL, NO_BOUND);
    count = open_all(first, 8);
    assert_int_equal(count, 4);
    (void)expect_event(ATOLL_EGRESS_LIMITED);
    current = &insides[1];
    put("b", "u", ALL, NO_BOUND);
    others = open_all(second, 8);
    assert_int_equal(others, 2);
    current = &insides[0];
    assert_int_equal(open_all(first + count, 1), 0); /* the first is beyond its share now */
    while (count > 0)
        (void)close(first[--count]);
    while (others > 0)
        (void)close(second[--others]);
    drop("a");
    drop("b");
    hello(0);
}

/* The address that DNS gives for b.internal, in text. */
static const char *ask_for_b(char *out)
{
    static const char question[] = "\x00\x1c\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"
                                   "\x01"
                                   "b\x08"
                                   "internal\x00\x00\x01\x00\x01";
    int fd = dial("100.64.0.1", 53);
    uint8_t head[2], reply[512];
    ssize_t n;

    assert_int_equal(send(fd, question, sizeof(question) - 1, 0), sizeof(question) - 1);
    assert_int_equal(recv(fd, head, sizeof(head), MSG_WAITALL), sizeof(head));
    n = recv(fd, reply, (size_t)head[0] << 8 | head[1], MSG_WAITALL);
    assert_true(n > 30 && (reply[3] & 15) == 0 && reply[7] == 1); /* one answer, which is last */
    assert_non_null(inet_ntop(AF_INET, reply + n - 4, out, INET_ADDRSTRLEN));
    (void)close(fd);
    return out;
}

/* The other process that has the peer's socket makes it block, and reads nothing. */
static void a_peer_cannot_stop_the_worker(void **state)
{
    static const char network[] = "{\"default\":\"deny\",\"network\":\"n\"}";
    static char block[65536];
    char address[INET_ADDRSTRLEN];
    struct atoll_em_dialed dialed = {0};
    int pair[2], fd;

    (void)state;
    current = &insides[1];
    put("b", "t", network, NO_BOUND);
    current = &insides[0];
    put("a", "t", network, NO_BOUND);
    asked.number = 0;
    fd = dial(ask_for_b(address), 80);
    while (asked.number == 0)
        assert_true(receive(WAIT_MS));
    assert_int_equal(asked.port, 80);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    dialed.number = asked.number;
    assert_int_equal(request(ATOLL_EGRESS_DIALED, &atoll_em_dialed_desc, &dialed, &pair[0], 1),
                     ATOLL_EGRESS_REPLY);
    say(fd, "x");
    expect_text(pair[1], "x");
    assert_int_equal(fcntl(pair[0], F_SETFL, 0), 0);
    for (int i = 0; i < 200; i++) {
        (void)!send(fd, block, sizeof(block), MSG_NOSIGNAL | MSG_DONTWAIT);
        (void)poll(NULL, 0, 1);
    }
    assert_int_equal(request(ATOLL_EGRESS_PING, NULL, NULL, NULL, 0), ATOLL_EGRESS_REPLY);
    (void)close(fd);
    (void)close(pair[0]);
    (void)close(pair[1]);
    drop("a");
    drop("b");
}

static void sandboxes_that_are_not_named_again_are_forgotten(void **state)
{
    const struct atoll_em_ref ref = {"a"};
    int fd;

    (void)state;
    /* One that is new counts as named: the daemon makes it before it is done with the others. */
    hello(0);
    put("a", "t", ALL, NO_BOUND);
    assert_int_equal(request(ATOLL_EGRESS_SYNCED, NULL, NULL, NULL, 0), ATOLL_EGRESS_REPLY);
    fd = dial("203.0.113.10", ECHO);
    say(fd, "x");
    expect_text(fd, "x");
    /* A new daemon: connections of a sandbox that is put again stay open. */
    atoll_channel_done(&daemon_end);
    connect_control();
    put("a", "t", ALL, NO_BOUND);
    assert_int_equal(request(ATOLL_EGRESS_SYNCED, NULL, NULL, NULL, 0), ATOLL_EGRESS_REPLY);
    say(fd, "y");
    expect_text(fd, "y");
    hello(0);
    assert_int_equal(request(ATOLL_EGRESS_SYNCED, NULL, NULL, NULL, 0), ATOLL_EGRESS_REPLY);
    expect_reset(fd);
    assert_int_equal(request(ATOLL_EGRESS_STATS, &atoll_em_ref_desc, &ref, NULL, 0),
                     ATOLL_EGRESS_ERROR);
}

static void a_killed_worker_is_replaced(void **state)
{
    uint32_t before = worker;

    (void)state;
    put("a", "t", ALL, NO_BOUND);
    check_echo("203.0.113.10");
    assert_int_equal(kill((pid_t)worker, SIGKILL), 0);
    while (atoll_channel_receive(&daemon_end, on_frame, NULL) >= 0)
        (void)poll(NULL, 0, 10);
    atoll_channel_done(&daemon_end);
    connect_control();
    assert_int_not_equal(worker, before);
    put("a", "t", ALL, NO_BOUND);
    check_echo("203.0.113.10");
    drop("a");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connections_are_carried_and_told),
        cmocka_unit_test(internal_addresses_are_denied),
        cmocka_unit_test(unreachable_is_a_reset),
        cmocka_unit_test(names_decide),
        cmocka_unit_test(names_of_tls_decide),
        cmocka_unit_test(denied_requests_are_told_why),
        cmocka_unit_test(names_in_pieces),
        cmocka_unit_test(servers_that_speak_first),
        cmocka_unit_test(a_new_policy_ends_connections),
        cmocka_unit_test(a_proxy_is_used),
        cmocka_unit_test(tenants_share_connections),
        cmocka_unit_test(a_peer_cannot_stop_the_worker),
        cmocka_unit_test(sandboxes_that_are_not_named_again_are_forgotten),
        cmocka_unit_test(a_killed_worker_is_replaced),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

/*
 * Watching directories, connecting to ports, processes and usage.
 */
#include "agent_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>

static uint32_t watch(struct agent_client *c, const char *path, bool recursive)
{
    struct atoll_am_watch msg = {.path = path, .recursive = recursive};
    struct atoll_am_handle handle;

    client_call(c, ATOLL_AGENT_WATCH_START, &atoll_am_watch_desc, &msg, &atoll_am_handle_desc,
                &handle, NULL);
    return handle.handle;
}

/* Waits until this event has come; others are skipped. */
static void wait_event(struct agent_client *c, uint32_t handle, uint8_t kind, const char *name)
{
    for (;;) {
        struct kept_frame k = client_wait(c, 0, ATOLL_AGENT_WATCH_EVENT);
        struct atoll_am_watch_event ev;
        bool found;

        assert_int_equal(atoll_msg_decode(&atoll_am_watch_event_desc, k.payload, k.len, &ev, NULL),
                         0);
        found = ev.handle == handle && ev.kind == kind && strcmp(ev.name, name) == 0;
        kept_done(&k);
        if (found)
            return;
    }
}

/* What must not have come until now. */
static void no_event(struct agent_client *c)
{
    struct kept_frame k;

    while (client_receive(c, 200))
        ;
    assert_false(client_take(c, 0, ATOLL_AGENT_WATCH_EVENT, &k));
}

static void every_kind_of_change_is_told(void **state)
{
    struct agent_client *c = *state;
    uint32_t w;

    client_expect(c, "mkdir d", "");
    w = watch(c, "d", false);
    client_expect(c, "touch d/f", "");
    wait_event(c, w, ATOLL_WATCH_CREATE, "f");
    client_expect(c, "echo x > d/f", "");
    wait_event(c, w, ATOLL_WATCH_WRITE, "f");
    client_expect(c, "chmod 600 d/f", "");
    wait_event(c, w, ATOLL_WATCH_CHMOD, "f");
    client_expect(c, "mv d/f d/g", "");
    wait_event(c, w, ATOLL_WATCH_RENAME, "f");
    wait_event(c, w, ATOLL_WATCH_CREATE, "g");
    client_expect(c, "rm d/g", "");
    wait_event(c, w, ATOLL_WATCH_REMOVE, "g");
    client_expect(c, "mkdir d/sub", "");
    wait_event(c, w, ATOLL_WATCH_CREATE, "sub");
    client_expect(c, "touch d/sub/x", ""); /* not recursive */
    no_event(c);
    client_expect(c, "rm -r d", "");
    wait_event(c, w, ATOLL_WATCH_REMOVE, "");
}

static void recursive_watches_follow_new_directories(void **state)
{
    struct agent_client *c = *state;
    uint32_t w;

    client_expect(c, "mkdir -p r/old/er", "");
    w = watch(c, "r", true);
    client_expect(c, "touch r/old/er/f", "");
    wait_event(c, w, ATOLL_WATCH_CREATE, "old/er/f");
    /* Made faster than anybody can add a watch: told nevertheless. */
    client_expect(c, "mkdir -p r/n/e/w; echo 1 > r/n/e/w/file", "");
    wait_event(c, w, ATOLL_WATCH_CREATE, "n");
    wait_event(c, w, ATOLL_WATCH_CREATE, "n/e");
    wait_event(c, w, ATOLL_WATCH_CREATE, "n/e/w");
    wait_event(c, w, ATOLL_WATCH_CREATE, "n/e/w/file");
    client_expect(c, "sleep 0.1; echo 2 > r/n/e/w/file", "");
    wait_event(c, w, ATOLL_WATCH_WRITE, "n/e/w/file");
    client_expect(c, "rm -r r/n", "");
    wait_event(c, w, ATOLL_WATCH_REMOVE, "n/e/w/file");
    wait_event(c, w, ATOLL_WATCH_REMOVE, "n");
}

static void renamed_directories_have_their_new_name(void **state)
{
    struct agent_client *c = *state;
    uint32_t w;

    client_expect(c, "mkdir -p r/a/x outside", "");
    w = watch(c, "r", true);
    client_expect(c, "mv r/a r/b; sleep 0.1; touch r/b/x/f", "");
    wait_event(c, w, ATOLL_WATCH_RENAME, "a");
    wait_event(c, w, ATOLL_WATCH_CREATE, "b");
    wait_event(c, w, ATOLL_WATCH_CREATE, "b/x/f");
    /* Outside the tree it is none of our business. */
    client_expect(c, "mv r/b outside/b", "");
    wait_event(c, w, ATOLL_WATCH_RENAME, "b");
    client_expect(c, "touch outside/b/x/g outside/b/h", "");
    no_event(c);
    client_expect(c, "mv outside/b r/back; sleep 0.1; touch r/back/x/again", "");
    wait_event(c, w, ATOLL_WATCH_CREATE, "back");
    wait_event(c, w, ATOLL_WATCH_CREATE, "back/x/again");
}

static void a_stopped_watch_is_silent(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_handle handle = {watch(c, "~", true)};

    client_call(c, ATOLL_AGENT_WATCH_STOP, &atoll_am_handle_desc, &handle, NULL, NULL, NULL);
    client_expect(c, "touch silent", "");
    no_event(c);
    client_call_fails(c, ATOLL_AGENT_WATCH_STOP, &atoll_am_handle_desc, &handle,
                      ATOLL_ERR_NOT_FOUND, "no watch");
}

static void watches_are_bounded_and_explained(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_watch missing = {.path = "missing"}, file = {.path = "file"},
                          big = {.path = "big"};

    client_expect(c, "touch file; mkdir big; cd big; seq 9000 | xargs mkdir", "");
    client_call_fails(c, ATOLL_AGENT_WATCH_START, &atoll_am_watch_desc, &missing,
                      ATOLL_ERR_NOT_FOUND, "/missing does not exist");
    client_call_fails(c, ATOLL_AGENT_WATCH_START, &atoll_am_watch_desc, &file,
                      ATOLL_ERR_INVALID_ARGUMENT, "not a directory");
    big.recursive = 1;
    client_call_fails(c, ATOLL_AGENT_WATCH_START, &atoll_am_watch_desc, &big,
                      ATOLL_ERR_RESOURCE_EXHAUSTED, "more directories than can be watched");
    for (int i = 0; i < 32; i++)
        (void)watch(c, "big", false);
    client_call_fails(c, ATOLL_AGENT_WATCH_START, &atoll_am_watch_desc, &big,
                      ATOLL_ERR_RESOURCE_EXHAUSTED, "32 watches");
    client_connect(c); /* they go with the connection */
    (void)watch(c, "big", false);
}

static void events_that_nobody_reads_overflow(void **state)
{
    struct agent_client *c = *state;
    uint32_t w;
    struct atoll_am_exec_start msg = client_command(
        5, CLIENT_SH("cd o && perl -e 'for (1..60000) { open F, \">a-long-name-to-fill-the-queue-"
                     "sooner-$_\" or die; }'; touch ../done"));
    char done[96];

    client_expect(c, "mkdir o", "");
    w = watch(c, "o", false);
    (void)client_exec(c, &msg);
    (void)snprintf(done, sizeof(done), "%s/done", c->dir);
    for (int i = 0; i < 1000 && access(done, F_OK) < 0; i++)
        (void)usleep(10 * 1000);
    wait_event(c, w, ATOLL_WATCH_OVERFLOW, "");
}

static int listen_on(int family, uint16_t *port)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    union {
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
        struct sockaddr any;
    } at = {0};
    socklen_t len = family == AF_INET ? sizeof(at.in) : sizeof(at.in6);

    at.any.sa_family = (sa_family_t)family;
    if (family == AF_INET)
        at.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else
        at.in6.sin6_addr = in6addr_loopback;
    if (fd < 0 || bind(fd, &at.any, len) < 0 || listen(fd, 4) < 0) {
        (void)close(fd);
        return -1;
    }
    assert_int_equal(getsockname(fd, &at.any, &len), 0);
    *port = ntohs(family == AF_INET ? at.in.sin_port : at.in6.sin6_port);
    return fd;
}

/* Connects through the agent and sends a word both ways. */
static void check_connection(struct agent_client *c, const struct atoll_am_connect *msg, int server)
{
    struct kept_frame k;
    char got[8] = "";
    int peer;

    client_call(c, ATOLL_AGENT_CONNECT, &atoll_am_connect_desc, msg, NULL, NULL, &k);
    assert_true(k.fd >= 0);
    peer = accept(server, NULL, NULL);
    assert_true(peer >= 0);
    assert_int_equal(write(k.fd, "ping", 4), 4);
    assert_int_equal(read(peer, got, sizeof(got)), 4);
    assert_string_equal(got, "ping");
    (void)close(peer);
    kept_done(&k);
}

static void ports_are_reached_on_both_loopbacks(void **state)
{
    struct agent_client *c = *state;
    const int families[] = {AF_INET, AF_INET6};

    for (size_t i = 0; i < 2; i++) {
        uint16_t port = 0;
        int server = listen_on(families[i], &port);
        if (server < 0)
            continue; /* no IPv6 here */
        struct atoll_am_connect msg = {.port = port};
        check_connection(c, &msg, server);
        (void)close(server);
        client_call_fails(c, ATOLL_AGENT_CONNECT, &atoll_am_connect_desc, &msg,
                          ATOLL_ERR_UNAVAILABLE, "nothing listens on port");
    }
    struct atoll_am_connect bad = {.port = 70000};
    client_call_fails(c, ATOLL_AGENT_CONNECT, &atoll_am_connect_desc, &bad,
                      ATOLL_ERR_INVALID_ARGUMENT, "1 to 65535");
}

static void unix_sockets_see_the_user(void **state)
{
    struct agent_client *c = *state;
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct atoll_am_connect msg = {.path = "server"};
    struct ucred peer;
    socklen_t len = sizeof(peer);
    struct kept_frame k;
    int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int fd;

    (void)snprintf(at.sun_path, sizeof(at.sun_path), "%s/server", c->dir);
    assert_int_equal(bind(server, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(chmod(at.sun_path, 0777), 0);
    client_call_fails(c, ATOLL_AGENT_CONNECT, &atoll_am_connect_desc, &msg, ATOLL_ERR_UNAVAILABLE,
                      "nothing accepts connections");
    assert_int_equal(listen(server, 4), 0);
    client_call(c, ATOLL_AGENT_CONNECT, &atoll_am_connect_desc, &msg, NULL, NULL, &k);
    fd = accept(server, NULL, NULL);
    assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len), 0);
    assert_int_equal(peer.uid, is_root() ? 65534 : geteuid());
    (void)close(fd);
    kept_done(&k);
    if (is_root()) {
        assert_int_equal(chmod(at.sun_path, 0700), 0);
        client_call_fails(c, ATOLL_AGENT_CONNECT, &atoll_am_connect_desc, &msg,
                          ATOLL_ERR_PERMISSION_DENIED, "permission denied");
    }
    (void)close(server);
    client_expect(c, "echo fine", "fine\n");
}

static void many_descriptors_at_once_arrive(void **state)
{
    struct agent_client *c = *state;
    uint16_t port = 0;
    int server = listen_on(AF_INET, &port);
    struct atoll_am_path open_msg = {.path = "/etc/passwd"};
    uint32_t first = c->last_id + 1;

    /* All requests are sent before one answer is read. */
    for (int i = 0; i < 60; i++)
        assert_int_equal(atoll_channel_send(&c->ch, ATOLL_AGENT_FILE_OPEN, ++c->last_id,
                                            &atoll_am_path_desc, &open_msg, NULL, 0),
                         0);
    client_flush(c);
    for (uint32_t id = first; id <= c->last_id; id++) {
        struct kept_frame k = client_wait(c, id, 0);
        assert_int_equal(k.type, ATOLL_AGENT_REPLY);
        assert_true(k.fd >= 0);
        kept_done(&k);
    }
    (void)close(server);
}

static void processes_are_listed(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_exec_start msg = client_command(1, CLIENT_ARGV("sleep", "987.5"));
    uint32_t pid = client_exec(c, &msg);
    bool found = false;
    uint32_t id;

    (void)usleep(100 * 1000); /* the kernel shows arguments when exec is all done */
    id = client_send(c, ATOLL_AGENT_PROCESS_LIST, NULL, NULL);
    for (;;) {
        struct kept_frame k = client_wait(c, id, 0);
        struct atoll_am_process p;
        bool last = k.type == ATOLL_AGENT_REPLY;
        if (!last) {
            assert_int_equal(atoll_msg_decode(&atoll_am_process_desc, k.payload, k.len, &p, NULL),
                             0);
            assert_true(p.pid != (uint32_t)c->pid);
            if (p.pid == pid) {
                found = true;
                assert_string_equal(p.command, "sleep 987.5");
                assert_int_equal(p.parent, c->pid);
                assert_int_equal(p.uid, is_root() ? 65534 : geteuid());
                assert_true(p.rss_bytes > 0);
            }
        }
        kept_done(&k);
        if (last)
            break;
    }
    assert_true(found);
}

static void usage_is_plausible(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_usage u;

    client_expect(c, "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done", "");
    client_call(c, ATOLL_AGENT_USAGE, NULL, NULL, &atoll_am_usage_desc, &u, NULL);
    assert_true(u.processes > 0);
    assert_true(u.disk_total_bytes > u.disk_used_bytes);
    assert_true(u.rss_bytes > 0);
    assert_true(u.cpu_us >= 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, client_setup, client_teardown)
        TEST(every_kind_of_change_is_told),
        TEST(recursive_watches_follow_new_directories),
        TEST(renamed_directories_have_their_new_name),
        TEST(a_stopped_watch_is_silent),
        TEST(watches_are_bounded_and_explained),
        TEST(events_that_nobody_reads_overflow),
        TEST(ports_are_reached_on_both_loopbacks),
        TEST(unix_sockets_see_the_user),
        TEST(many_descriptors_at_once_arrive),
        TEST(processes_are_listed),
        TEST(usage_is_plausible),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

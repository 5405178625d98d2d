/*
 * Tunnels, and connections that have not said yet what they are.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include "agent_client.h"

/* Something that listens inside: here, in the test's own process. */
static int serve(uint32_t *ret_port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(fd, 512), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    *ret_port = ntohs(at.sin_port);
    return fd;
}

static void wait_for(int fd, short events)
{
    struct pollfd p = {.fd = fd, .events = events};
    assert_int_equal(poll(&p, 1, CLIENT_WAIT_MS), 1);
}

static int take(int server)
{
    int fd;

    wait_for(server, POLLIN);
    fd = accept4(server, NULL, NULL, SOCK_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

/* Everything until the end, which must be `text`. */
static void expect_all(int fd, const char *text)
{
    char got[256];
    size_t len = 0;

    for (;;) {
        ssize_t n;
        wait_for(fd, POLLIN);
        n = read(fd, got + len, sizeof(got) - 1 - len);
        assert_true(n >= 0);
        if (n == 0)
            break;
        len += (size_t)n;
    }
    got[len] = '\0';
    assert_string_equal(got, text);
}

static void expect(int fd, const char *text)
{
    char got[256] = "";
    size_t len = 0;

    while (len < strlen(text)) {
        ssize_t n;
        wait_for(fd, POLLIN);
        n = read(fd, got + len, strlen(text) - len);
        assert_true(n > 0);
        len += (size_t)n;
    }
    assert_string_equal(got, text);
}

static void send_text(int fd, const char *text)
{
    assert_int_equal(atoll_fd_write_all(fd, text, strlen(text)), 0);
}

/* A connection with the request sent, and `behind` right behind it. */
static int ask_tunnel(const struct agent_client *c, const struct atoll_am_connect *msg,
                      const char *behind)
{
    struct agent_client other = {0};
    int fd;

    memcpy(other.path, c->path, sizeof(other.path));
    client_connect_raw(&other);
    assert_int_equal(
        atoll_channel_send(&other.ch, ATOLL_AGENT_TUNNEL, 7, &atoll_am_connect_desc, msg, NULL, 0),
        0);
    assert_int_equal(atoll_buf_appends(&other.ch.out, behind), 0);
    client_flush(&other);
    fd = ATOLL_TAKE_FD(other.ch.fd);
    atoll_channel_done(&other.ch);
    assert_int_equal(atoll_fd_set_nonblock(fd, false), 0);
    return fd;
}

/* Reads one frame and nothing behind it. */
static uint16_t read_answer(int fd, struct atoll_am_error *ret_error, uint8_t *payload, size_t cap)
{
    uint8_t head[ATOLL_FRAME_HEADER];
    uint32_t len;

    wait_for(fd, POLLIN);
    assert_int_equal(atoll_fd_read_all(fd, head, sizeof(head)), 0);
    len = (uint32_t)head[0] | (uint32_t)head[1] << 8;
    assert_true(len <= cap);
    assert_int_equal(head[8], 7);
    assert_int_equal(atoll_fd_read_all(fd, payload, len), 0);
    if (head[4] == ATOLL_AGENT_ERROR)
        assert_int_equal(atoll_msg_decode(&atoll_am_error_desc, payload, len, ret_error, NULL), 0);
    return head[4];
}

static void expect_refusal(int fd, enum atoll_error_kind kind, const char *text)
{
    struct atoll_am_error e;
    uint8_t payload[1024];

    assert_int_equal(read_answer(fd, &e, payload, sizeof(payload)), ATOLL_AGENT_ERROR);
    assert_int_equal(e.kind, kind);
    assert_non_null(strstr(e.text, text));
    expect_all(fd, "");
    (void)close(fd);
}

static int open_tunnel(const struct agent_client *c, const struct atoll_am_connect *msg)
{
    int fd = ask_tunnel(c, msg, "");

    assert_int_equal(read_answer(fd, NULL, NULL, 0), ATOLL_AGENT_REPLY);
    return fd;
}

static void bytes_and_ends_pass_both_ways(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_connect to = {0};
    int server = serve(&to.port);
    int fd = open_tunnel(c, &to), inside = take(server);

    send_text(fd, "question");
    expect(inside, "question");
    send_text(fd, " and its end");
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    expect_all(inside, " and its end");
    send_text(inside, "answer after that");
    (void)close(inside);
    expect_all(fd, "answer after that");
    (void)close(fd);

    /* The other one ends its half first. */
    fd = open_tunnel(c, &to);
    inside = take(server);
    send_text(inside, "all I have to say");
    assert_int_equal(shutdown(inside, SHUT_WR), 0);
    expect_all(fd, "all I have to say");
    send_text(fd, "still talking");
    (void)close(fd);
    expect_all(inside, "still talking");
    (void)close(inside);
    (void)close(server);
}

static void what_comes_behind_the_request_is_for_the_port(void **state)
{
    struct atoll_am_connect to = {0};
    int server = serve(&to.port);
    int fd = ask_tunnel(*state, &to, "early"), inside = take(server);

    expect(inside, "early");
    assert_int_equal(read_answer(fd, NULL, NULL, 0), ATOLL_AGENT_REPLY);
    send_text(inside, "late");
    expect(fd, "late");
    (void)close(fd);
    expect_all(inside, ""); /* nobody is there any more */
    (void)close(inside);
    (void)close(server);
}

static void a_unix_socket_is_a_port_too(void **state)
{
    struct agent_client *c = *state;
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct atoll_am_connect to = {.path = "~/inside.sock"};
    int fd, inside, server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)snprintf(at.sun_path, sizeof(at.sun_path), "%s/inside.sock", c->dir);
    expect_refusal(ask_tunnel(c, &to, ""), ATOLL_ERR_NOT_FOUND, "does not exist");
    assert_int_equal(bind(server, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(chmod(at.sun_path, 0777), 0);
    assert_int_equal(listen(server, 4), 0);
    fd = open_tunnel(c, &to);
    inside = take(server);
    send_text(inside, "hello");
    (void)close(inside);
    expect_all(fd, "hello");
    (void)close(fd);
    (void)close(server);
}

static void refusals_say_why(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_connect to = {0};
    int server = serve(&to.port);

    (void)close(server);
    expect_refusal(ask_tunnel(c, &to, "unread"), ATOLL_ERR_UNAVAILABLE, "nothing listens on port");
    to.port = 70000;
    expect_refusal(ask_tunnel(c, &to, ""), ATOLL_ERR_INVALID_ARGUMENT, "1 to 65535");
}

static void the_daemons_connection_is_not_touched(void **state)
{
    struct agent_client *c = *state;
    struct agent_client silent = {0};
    struct atoll_am_connect to = {0};
    int server = serve(&to.port);
    int fd = open_tunnel(c, &to), inside = take(server);

    memcpy(silent.path, c->path, sizeof(silent.path));
    client_connect_raw(&silent);
    client_expect(c, "echo as before", "as before\n");
    (void)client_connect(c); /* another daemon */
    send_text(fd, "still open");
    expect(inside, "still open");
    atoll_channel_done(&silent.ch);
    (void)close(fd);
    (void)close(inside);
    (void)close(server);
}

/* Writes until nothing is taken any more; how much that was. */
static size_t fill(int fd)
{
    static const char block[65536];
    size_t total = 0;
    struct pollfd p = {.fd = fd, .events = POLLOUT};

    assert_int_equal(atoll_fd_set_nonblock(fd, true), 0);
    while (poll(&p, 1, 200) == 1) {
        ssize_t n = write(fd, block, sizeof(block));
        assert_true(n > 0);
        total += (size_t)n;
        assert_true(total < (size_t)64 * 1024 * 1024);
    }
    return total;
}

static size_t drain(int fd, size_t want)
{
    static char block[65536];
    size_t total = 0;

    while (total < want) {
        ssize_t n;
        wait_for(fd, POLLIN);
        n = read(fd, block, sizeof(block));
        assert_true(n > 0);
        total += (size_t)n;
    }
    return total;
}

static void who_does_not_read_is_not_written_to(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_connect to = {0};
    int server = serve(&to.port);
    int fd = open_tunnel(c, &to), inside = take(server);
    size_t out = fill(fd), in = fill(inside);

    client_expect(c, "echo meanwhile", "meanwhile\n");
    assert_int_equal(drain(inside, out), out);
    assert_int_equal(drain(fd, in), in);
    /* What was written before the end arrives after it. */
    out = fill(fd);
    (void)close(fd);
    assert_int_equal(drain(inside, out), out);
    expect_all(inside, "");
    (void)close(inside);
    (void)close(server);
}

static void there_is_a_limit(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_connect to = {0};
    int server = serve(&to.port), fds[256], inside[256];

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(fds); i++) {
        fds[i] = open_tunnel(c, &to);
        inside[i] = take(server);
    }
    expect_refusal(ask_tunnel(c, &to, ""), ATOLL_ERR_RESOURCE_EXHAUSTED, "too many tunnels");
    (void)close(fds[0]);
    expect_all(inside[0], ""); /* closed on the same occasion */
    (void)close(inside[0]);
    fds[0] = open_tunnel(c, &to);
    inside[0] = take(server);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(fds); i++) {
        (void)close(inside[i]);
        expect_all(fds[i], "");
        (void)close(fds[i]);
    }
    (void)close(server);
}

static void descriptors_pass_only_if_both_ends_say_so(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_hello hello = {.version = ATOLL_AGENT_VERSION};
    struct atoll_am_path path = {.path = "/etc/passwd"};
    struct atoll_am_connect to = {.port = 80};
    struct atoll_am_hello reply;
    struct kept_frame k;

    client_call(c, ATOLL_AGENT_FILE_OPEN, &atoll_am_path_desc, &path, NULL, NULL, &k);
    assert_true(k.fd >= 0);
    kept_done(&k);
    client_connect_raw(c);
    client_call(c, ATOLL_AGENT_HELLO, &atoll_am_hello_desc, &hello, &atoll_am_hello_desc, &reply,
                NULL);
    assert_false(reply.features & ATOLL_AGENT_FEATURE_FDS);
    client_call(c, ATOLL_AGENT_FILE_OPEN, &atoll_am_path_desc, &path, NULL, NULL, &k);
    assert_true(k.fd < 0);
    kept_done(&k);
    client_call_fails(c, ATOLL_AGENT_CONNECT, &atoll_am_connect_desc, &to,
                      ATOLL_ERR_FAILED_PRECONDITION, "cannot pass connections");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, client_setup, client_teardown)
        TEST(bytes_and_ends_pass_both_ways),
        TEST(what_comes_behind_the_request_is_for_the_port),
        TEST(a_unix_socket_is_a_port_too),
        TEST(refusals_say_why),
        TEST(the_daemons_connection_is_not_touched),
        TEST(who_does_not_read_is_not_written_to),
        TEST(there_is_a_limit),
        TEST(descriptors_pass_only_if_both_ends_say_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

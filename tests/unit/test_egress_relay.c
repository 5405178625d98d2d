/* Moving bytes: both directions, half-close, resets, backpressure, bandwidth; and the dialogue with a SOCKS5
 * proxy. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include "test.h"

#include "base/clock.h"
#include "egress/pipes.h"
#include "egress/relay.h"
#include "egress/socks.h"

static struct atoll_egress egress;
static struct atoll_box box;
static int ended; /* 0: not yet; 1: in order; -errno */
static int held_inputs;
static bool copying; /* another process has the server's socket, and cleared O_NONBLOCK */

static void on_end(void *arg, int error)
{
    (void)arg;
    ended = error == 0 ? 1 : error;
}

static void on_held_input(void *arg)
{
    (void)arg;
    held_inputs++;
}

/* A connected pair over loopback: [0] is outside of the relay. */
static void tcp_pair(int fds[2])
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(sa);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(listener, (struct sockaddr *)&sa, size), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&sa, &size), 0);
    fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fds[0], (struct sockaddr *)&sa, size), 0);
    fds[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    assert_true(fds[1] >= 0);
    assert_int_equal(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
    (void)close(listener);
}

struct fixture {
    int client, server; /* the far ends */
    struct atoll_relay *relay;
};

static void begin(struct fixture *f, uint64_t bytes_per_second, bool hold)
{
    struct atoll_relay_config config = {.box = &box,
                                        .hold = hold,
                                        .copy = copying,
                                        .on_held_input = on_held_input,
                                        .on_end = on_end};
    struct atoll_error err;
    int inner[2], outer[2];

    memset(&box, 0, sizeof(box));
    ended = held_inputs = 0;
    assert_int_equal(atoll_loop_new(&egress.loop, &err), 0);
    egress.pipes = atoll_pipes_new();
    box.egress = &egress;
    atoll_bucket_init(&box.up, bytes_per_second, atoll_clock_us());
    atoll_bucket_init(&box.down, bytes_per_second, atoll_clock_us());
    tcp_pair(inner);
    tcp_pair(outer);
    f->client = inner[0];
    f->server = outer[0];
    config.client_fd = inner[1];
    config.server_fd = outer[1];
    if (copying)
        assert_int_equal(fcntl(outer[1], F_SETFL, 0), 0);
    assert_int_equal(atoll_relay_new(&config, &f->relay), 0);
}

static void finish(struct fixture *f)
{
    f->relay = atoll_relay_free(f->relay, ended != 1);
    egress.pipes = atoll_pipes_free(egress.pipes);
    egress.loop = atoll_loop_free(egress.loop);
    if (f->client >= 0)
        (void)close(f->client);
    if (f->server >= 0)
        (void)close(f->server);
}

static void step(int times)
{
    struct atoll_error err;

    while (times-- > 0)
        assert_int_equal(atoll_loop_step(egress.loop, 5, &err), 0);
}

static void expect_text(int fd, const char *text)
{
    char got[64];
    ssize_t n = -1;

    for (int i = 0; i < 100 && n < 0; i++) {
        step(1);
        n = recv(fd, got, sizeof(got), 0);
    }
    assert_int_equal(n, strlen(text));
    assert_memory_equal(got, text, (size_t)n);
}

static void test_both_ways(void **state)
{
    struct fixture f;
    uint64_t rx, tx;
    char byte;

    (void)state;
    begin(&f, 0, false);
    assert_int_equal(send(f.client, "request", 7, 0), 7);
    expect_text(f.server, "request");
    /* The end of one direction leaves the other open. */
    assert_int_equal(shutdown(f.client, SHUT_WR), 0);
    step(3);
    assert_int_equal(recv(f.server, &byte, 1, 0), 0);
    assert_int_equal(ended, 0);
    assert_int_equal(send(f.server, "answer", 6, 0), 6);
    expect_text(f.client, "answer");
    assert_int_equal(shutdown(f.server, SHUT_WR), 0);
    for (int i = 0; i < 100 && !ended; i++)
        step(1);
    assert_int_equal(ended, 1);
    assert_int_equal(recv(f.client, &byte, 1, 0), 0);
    atoll_relay_bytes(f.relay, &rx, &tx);
    assert_int_equal(rx, 6);
    assert_int_equal(tx, 7);
    assert_int_equal(box.stats.rx_bytes, 6);
    assert_int_equal(box.stats.tx_bytes, 7);
    finish(&f);
}

/* What was sent before an abort arrives, then the abort does. */
static void test_reset(void **state)
{
    struct fixture f;
    char byte;

    (void)state;
    begin(&f, 0, false);
    assert_int_equal(send(f.server, "last", 4, 0), 4);
    expect_text(f.client, "last");
    atoll_abort_socket(ATOLL_TAKE_FD(f.server));
    for (int i = 0; i < 100 && !ended; i++)
        step(1);
    assert_int_equal(ended, -ECONNRESET);
    f.relay = atoll_relay_free(f.relay, true);
    assert_int_equal(recv(f.client, &byte, 1, 0), -1);
    assert_int_equal(errno, ECONNRESET);
    finish(&f);
}

static size_t send_much(int fd, size_t want)
{
    static char block[65536];
    size_t sent = 0;

    while (sent < want) {
        ssize_t n = send(fd, block, ATOLL_MIN(sizeof(block), want - sent), MSG_NOSIGNAL);

        if (n < 0)
            break;
        sent += (size_t)n;
    }
    return sent;
}

static size_t receive_all(int fd)
{
    static char block[65536];
    size_t got = 0;
    ssize_t n;

    while ((n = recv(fd, block, sizeof(block), 0)) > 0)
        got += (size_t)n;
    return got;
}

/* A server that does not read stops the client; nothing is lost. */
static void test_backpressure(void **state)
{
    const size_t all = (size_t)64 << 20;
    size_t sent = 0, got = 0, stuck;
    struct fixture f;

    (void)state;
    begin(&f, 0, false);
    for (int i = 0; i < 200; i++) {
        sent += send_much(f.client, all - sent);
        step(1);
    }
    assert_true(sent < all);
    stuck = sent;
    step(20);
    assert_int_equal(send_much(f.client, 1), 0);
    for (int i = 0; i < 100000 && got < all; i++) {
        got += receive_all(f.server);
        sent += send_much(f.client, all - sent);
        step(1);
    }
    assert_true(stuck < all);
    assert_int_equal(got, all);
    assert_int_equal(box.stats.tx_bytes, all);
    finish(&f);
}

static void test_bandwidth(void **state)
{
    const uint64_t rate = 4000000;
    int64_t begun, took;
    struct fixture f;
    size_t got = 0;

    (void)state;
    begin(&f, rate, false);
    begun = atoll_clock_ms();
    while ((took = atoll_clock_ms() - begun) < 1000) {
        (void)send_much(f.server, 1 << 20);
        step(1);
        got += receive_all(f.client);
    }
    /* Never above; far below only if the machine is busy. */
    assert_true(got <= rate * (uint64_t)took / 1000 * 105 / 100);
    assert_true(got >= rate * (uint64_t)took / 1000 / 2);
    finish(&f);
}

/* Nothing of the client is read before the release; the server's bytes pass. */
static void test_hold(void **state)
{
    struct fixture f;
    char byte;

    (void)state;
    begin(&f, 0, true);
    assert_int_equal(send(f.client, "secret", 6, 0), 6);
    assert_int_equal(send(f.server, "hello", 5, 0), 5);
    expect_text(f.client, "hello");
    step(10);
    assert_int_equal(held_inputs, 1);
    assert_int_equal(recv(f.server, &byte, 1, 0), -1);
    atoll_relay_release(f.relay);
    expect_text(f.server, "secret");
    finish(&f);
}

/* The same with a socket on which splice(2) would wait. */
static void test_copied(void **state)
{
    copying = true;
    (void)alarm(60); /* a call that blocks ends the test */
    test_both_ways(state);
    test_reset(state);
    test_backpressure(state);
    test_bandwidth(state);
    test_hold(state);
    (void)alarm(0);
    copying = false;
}

static void test_bucket(void **state)
{
    struct atoll_bucket b;
    uint64_t moved = 0;

    (void)state;
    atoll_bucket_init(&b, 0, 0);
    assert_int_equal(atoll_bucket_take(&b, 12345, 0), 12345);
    atoll_bucket_init(&b, 125000, 0);
    assert_int_equal(atoll_bucket_take(&b, 65536, 0), 0);
    for (int64_t us = 0; us < 10000000; us += 1000)
        moved += atoll_bucket_take(&b, 65536, us);
    assert_in_range(moved, 1250000 * 95 / 100, 1250000 * 105 / 100);
    /* A long pause gives one burst, not more. */
    assert_in_range(atoll_bucket_take(&b, 10000000, INT64_C(3600) * 1000000), 1, 12500);
}

/* The whole dialogue with user and password, in pieces of one byte. */
static void test_socks(void **state)
{
    static const char answers[] = "\x05\x02\x01\x00\x05\x00\x00\x01\xcb\x00\x71\x07\x01\xbb"
                                  "rest";
    static const char sent[] = "\x05\x02\x00\x02\x01\x04user\x04pass\x05\x01\x00\x03\x09"
                               "a.example\x01\xbb";
    struct atoll_socks s = {.user = "user", .password = "pass", .name = "a.example", .port = 443};
    struct atoll_buf in, out;
    int r;

    (void)state;
    atoll_buf_init(&in, 1024);
    atoll_buf_init(&out, 1024);
    assert_int_equal(atoll_socks_begin(&s, &out), 0);
    r = 0;
    for (size_t i = 0; i < sizeof(answers) - 1 && r == 0; i++) {
        assert_int_equal(atoll_buf_append(&in, &answers[i], 1), 0);
        r = atoll_socks_feed(&s, &in, &out);
    }
    assert_int_equal(r, 1);
    assert_int_equal(atoll_buf_size(&in), 0);
    assert_int_equal(atoll_buf_size(&out), sizeof(sent) - 1);
    assert_memory_equal(atoll_buf_head(&out), sent, sizeof(sent) - 1);
    atoll_buf_done(&in);
    atoll_buf_done(&out);
}

static void test_socks_refusals(void **state)
{
    static const struct {
        const char *bytes;
        size_t n;
        int error;
    } rows[] = {{"\x05\xff", 2, -EACCES},
                {"\x04\x00", 2, -EPROTO},
                {"\x05\x02\x01\x01", 4, -EACCES},
                {"\x05\x00\x05\x05\x00\x01\x00", 7, -ECONNREFUSED},
                {"\x05\x00\x05\x00\x00\x09\x00", 7, -EPROTO},
                {"\x05\x00\x05\x63\x00\x01\x00", 7, -EPROTO}};

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        struct in6_addr address = IN6ADDR_LOOPBACK_INIT;
        struct atoll_socks s = {.user = "u", .password = "p", .address = &address, .port = 1};
        struct atoll_buf in, out;

        atoll_buf_init(&in, 1024);
        atoll_buf_init(&out, 1024);
        assert_int_equal(atoll_socks_begin(&s, &out), 0);
        assert_int_equal(atoll_buf_append(&in, rows[i].bytes, rows[i].n), 0);
        assert_int_equal(atoll_socks_feed(&s, &in, &out), rows[i].error);
        atoll_buf_done(&in);
        atoll_buf_done(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_ways),      cmocka_unit_test(test_reset),
        cmocka_unit_test(test_backpressure),   cmocka_unit_test(test_bandwidth),
        cmocka_unit_test(test_hold),           cmocka_unit_test(test_copied),
        cmocka_unit_test(test_bucket),         cmocka_unit_test(test_socks),
        cmocka_unit_test(test_socks_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* WebSockets: the handshake, and frames made by hand as a hostile client would. */
#include "net/websocket.h"
#include "net/ws_codec.h"
#include "test_http_util.h"

struct seen {
    struct atoll_ws *ws;
    size_t messages, closes, drains;
    uint16_t code;
    bool pause_each, free_on_message, close_on_message, mute;
    size_t max;
    struct atoll_buf last;
    int accept_result;
};

static void on_message(void *arg, struct atoll_ws *ws, bool binary, const uint8_t *bytes, size_t n)
{
    struct seen *s = arg;

    s->messages++;
    atoll_buf_clear(&s->last);
    assert_int_equal(atoll_buf_append(&s->last, bytes, n), 0);
    if (s->free_on_message) {
        s->ws = atoll_ws_free(ws);
        return;
    }
    if (!s->mute)
        assert_int_equal(atoll_ws_send(ws, binary, bytes, n), 0);
    if (s->pause_each)
        atoll_ws_pause(ws);
    if (s->close_on_message)
        atoll_ws_close(ws, ATOLL_WS_NORMAL, "bye");
}

static void on_drain(void *arg, struct atoll_ws *ws)
{
    struct seen *s = arg;

    (void)ws;
    s->drains++;
}

static void on_close(void *arg, struct atoll_ws *ws, uint16_t code)
{
    struct seen *s = arg;

    s->closes++;
    s->code = code;
    assert_int_equal(atoll_ws_send(ws, true, "x", 1), -EPIPE);
    s->ws = atoll_ws_free(ws);
}

static const struct atoll_ws_callbacks callbacks = {on_message, on_drain, on_close};

static void upgrade(void *arg, struct atoll_http_request *req)
{
    struct seen *s = arg;
    struct atoll_error err;

    if (atoll_http_header(req, "sec-websocket-protocol"))
        assert_int_equal(atoll_http_set_header(req, "Sec-WebSocket-Protocol", "v1"), 0);
    s->accept_result = atoll_ws_accept(req, &callbacks, s, s->max, &s->ws, &err);
    if (s->accept_result < 0)
        atoll_http_respond_error(req, 400, atoll_error_kind_name(err.kind), err.text, NULL);
}

#define UPGRADE                                                                                \
    "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n" \
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

static void ws_open(struct rig *r, struct seen *s)
{
    const char *got;

    s->max = s->max ? s->max : 1000;
    atoll_buf_init(&s->last, 64 * 1024 * 1024);
    rig_open(r, NULL, upgrade, s);
    got = rig_ask(r, UPGRADE "\r\n");
    assert_starts(got, "HTTP/1.1 101 Switching Protocols\r\n");
    /* The example of RFC 6455 section 1.3. */
    assert_contains(got, "\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n");
    assert_non_null(s->ws);
    assert_int_equal(atoll_http_server_connections(r->server), 1);
    atoll_buf_clear(&r->got);
}

static void ws_done(struct rig *r, struct seen *s)
{
    s->ws = atoll_ws_free(s->ws);
    atoll_buf_done(&s->last);
    assert_int_equal(atoll_http_server_connections(r->server), 0);
    rig_close(r);
}

/* A client's frame with any bits; mask key 1 2 3 4. */
static void frame(struct rig *r, int first, const void *payload, size_t n)
{
    const uint8_t *p = payload;
    uint8_t out[70000];
    size_t len = 0;

    assert_true(n < 65536);
    out[len++] = (uint8_t)first;
    out[len++] = (uint8_t)(0x80 | (n < 126 ? n : 126));
    if (n >= 126) {
        out[len++] = (uint8_t)(n >> 8);
        out[len++] = (uint8_t)n;
    }
    for (uint8_t i = 1; i <= 4; i++)
        out[len++] = i;
    for (size_t i = 0; i < n; i++)
        out[len++] = p[i] ^ (uint8_t)(1 + i % 4);
    rig_send(r, out, len);
}

static void expect(struct rig *r, const void *bytes, size_t n)
{
    rig_turn(r);
    assert_int_equal(atoll_buf_size(&r->got), n);
    assert_memory_equal(atoll_buf_head(&r->got), bytes, n);
    atoll_buf_clear(&r->got);
}

#define EXPECT(r, literal) expect((r), literal, sizeof(literal) - 1)

static void test_handshake_refusals(void **state)
{
    static const char *const bad[] = {
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 8\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: c2hvcnQ=\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        UPGRADE "Content-Length: 2\r\n\r\nab",
    };

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bad); i++) {
        struct seen s = {.max = 10};
        struct rig r;
        const char *got;
        rig_open(&r, NULL, upgrade, &s);
        got = rig_ask(&r, bad[i]);
        assert_starts(got, "HTTP/1.1 400 ");
        assert_contains(got, "Sec-WebSocket-Version: 13\r\n");
        assert_int_equal(s.accept_result, -EINVAL);
        rig_close(&r);
    }
}

static void test_echo_of_all_lengths(void **state)
{
    static const size_t lengths[] = {0, 1, 125, 126, 127, 4096, 65535};
    struct seen s = {.max = 70000};
    struct rig r;
    uint8_t data[65536];

    (void)state;
    ws_open(&r, &s);
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(i * 31);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(lengths); i++) {
        size_t n = lengths[i], header = n < 126 ? 2 : 4;
        frame(&r, 0x82, data, n);
        rig_turn(&r);
        assert_int_equal(atoll_buf_size(&r.got), header + n);
        assert_int_equal(atoll_buf_head(&r.got)[0], 0x82);
        assert_memory_equal(atoll_buf_head(&r.got) + header, data, n);
        atoll_buf_clear(&r.got);
    }
    /* Several in one packet. */
    rig_send(&r, "\x81\x82\1\2\3\4i`\x81\x81\1\2\3\4i", 15);
    EXPECT(&r, "\x81\x02hb\x81\x01h");
    ws_done(&r, &s);
}

/* A client may send its first frame together with the upgrade. */
static void test_frame_behind_the_upgrade(void **state)
{
    struct seen s = {.max = 10};
    struct rig r;
    const char *got;

    (void)state;
    atoll_buf_init(&s.last, 100);
    rig_open(&r, NULL, upgrade, &s);
    got = rig_ask(&r, UPGRADE "Sec-WebSocket-Protocol: v0, v1\r\n\r\n\x81\x81\1\2\3\4i");
    assert_contains(got, "\r\nSec-WebSocket-Protocol: v1\r\n");
    assert_contains(got, "\r\n\r\n\x81\x01h");
    ws_done(&r, &s);
}

static void test_fragments_and_pings(void **state)
{
    struct seen s = {0};
    struct rig r;

    (void)state;
    ws_open(&r, &s);
    frame(&r, 0x01, "ab", 2);
    frame(&r, 0x89, "ping", 4);
    EXPECT(&r, "\x8a\x04ping");
    frame(&r, 0x00, "", 0);
    frame(&r, 0x8a, "unasked", 7);
    frame(&r, 0x00, "c", 1);
    assert_int_equal(s.messages, 0);
    frame(&r, 0x80, "d", 1);
    EXPECT(&r, "\x81\x04"
               "abcd");
    /* One byte at a time. */
    for (const char *p = "\x82\x83\1\2\3\4`a`"; *p; p++) {
        rig_send(&r, p, 1);
        rig_turn(&r);
    }
    EXPECT(&r, "\x82\x03"
               "acc");
    /* UTF-8 may be cut between fragments. */
    frame(&r, 0x01, "\xc3", 1);
    frame(&r, 0x80, "\xa4", 1);
    EXPECT(&r, "\x81\x02\xc3\xa4");
    ws_done(&r, &s);
}

/* frames, how many bytes of payload, and the code they are answered with. */
static const struct {
    const char *bytes;
    size_t n;
    uint16_t code;
} broken[] = {
    {"\x81\x01h", 3, 1002},                           /* not masked */
    {"\xc1\x81\1\2\3\4i", 7, 1002},                   /* reserved bit */
    {"\x83\x81\1\2\3\4i", 7, 1002},                   /* reserved opcode */
    {"\x8b\x81\1\2\3\4i", 7, 1002},                   /* reserved control opcode */
    {"\x80\x81\1\2\3\4i", 7, 1002},                   /* nothing to continue */
    {"\x01\x81\1\2\3\4i\x81\x81\1\2\3\4i", 14, 1002}, /* new message inside another */
    {"\x09\x81\1\2\3\4i", 7, 1002},                   /* fragmented ping */
    {"\x89\xfe\x00\x7e\1\2\3\4", 8, 1002},            /* long ping */
    {"\x82\xfe\x00\x05\1\2\3\4", 8, 1002},            /* length not minimal */
    {"\x82\xff\x80\0\0\0\0\0\0\0\1\2\3\4", 14, 1002}, /* negative length */
    {"\x82\xff\0\0\0\0\0\0\0\5\1\2\3\4", 14, 1002},   /* length not minimal */
    {"\x88\x81\1\2\3\4i", 7, 1002},                   /* half a close code */
    {"\x88\x82\1\2\3\4\x02\xef", 8, 1002},            /* code 1005 must not be sent */
    {"\x88\x82\1\2\3\4\x01\x02", 8, 1002},            /* code 0 */
    {"\x88\x83\1\2\3\4\x02\xea\xfc", 9, 1007},        /* reason is no UTF-8 */
    {"\x81\x82\1\2\3\4\xfe\xfd", 8, 1007},            /* text is no UTF-8 */
    {"\x81\x83\1\2\3\4\xec\xa2\x83", 9, 1007},        /* a surrogate */
    {"\x82\xfe\x03\xe9\1\2\3\4i", 9, 1009},           /* 1001 bytes of 1000 */
    {"\x82\xff\0\0\0\1\0\0\0\0\1\2\3\4i", 15, 1009},  /* 4 GiB */
};

static void test_broken_frames(void **state)
{
    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(broken); i++) {
        struct seen s = {0};
        struct rig r;
        const uint8_t *got;
        ws_open(&r, &s);
        rig_send(&r, broken[i].bytes, broken[i].n);
        rig_turn(&r);
        got = atoll_buf_head(&r.got);
        if (atoll_buf_size(&r.got) != 4 || got[0] != 0x88 || got[1] != 2 || !r.ended ||
            (got[2] << 8 | got[3]) != broken[i].code)
            fail_msg("case %zu: %zu bytes, ended %d", i, atoll_buf_size(&r.got), r.ended);
        assert_int_equal(s.messages, 0);
        close(r.fd);
        r.fd = -1;
        for (int k = 0; k < 5; k++)
            assert_int_equal(atoll_loop_step(r.loop, 1, NULL), 0);
        assert_int_equal(s.closes, 1);
        assert_int_equal(s.code, broken[i].code);
        ws_done(&r, &s);
    }
}

/* A message too big only in sum, in the smallest fragments there are. */
static void test_oversize_in_fragments(void **state)
{
    struct seen s = {.mute = true};
    struct rig r;

    (void)state;
    ws_open(&r, &s);
    frame(&r, 0x02, "x", 1);
    for (int i = 0; i < 999; i++)
        frame(&r, 0x00, "x", 1);
    rig_turn(&r);
    assert_int_equal(s.closes, 0);
    frame(&r, 0x80, "x", 1);
    EXPECT(&r, "\x88\x02\x03\xf1");
    assert_int_equal(s.messages, 0);
    ws_done(&r, &s);
}

static void test_peer_closes(void **state)
{
    struct seen s = {0};
    struct rig r;

    (void)state;
    ws_open(&r, &s);
    frame(&r, 0x88, "\x0f\xa0why", 5);
    EXPECT(&r, "\x88\x02\x0f\xa0");
    assert_true(r.ended);
    close(r.fd);
    r.fd = -1;
    for (int i = 0; i < 5; i++)
        assert_int_equal(atoll_loop_step(r.loop, 1, NULL), 0);
    assert_int_equal(s.closes, 1);
    assert_int_equal(s.code, 4000);
    ws_done(&r, &s);
    /* Without a code, and without any handshake. */
    s = (struct seen){0};
    ws_open(&r, &s);
    frame(&r, 0x88, "", 0);
    EXPECT(&r, "\x88\x00");
    ws_done(&r, &s);
    s = (struct seen){0};
    ws_open(&r, &s);
    close(r.fd);
    r.fd = -1;
    for (int i = 0; i < 5; i++)
        assert_int_equal(atoll_loop_step(r.loop, 1, NULL), 0);
    assert_int_equal(s.closes, 1);
    assert_int_equal(s.code, ATOLL_WS_LOST);
    ws_done(&r, &s);
}

static void test_we_close(void **state)
{
    struct seen s = {.close_on_message = true};
    struct rig r;

    (void)state;
    ws_open(&r, &s);
    frame(&r, 0x81, "a", 1);
    frame(&r, 0x81, "ignored", 7);
    EXPECT(&r, "\x81\x01"
               "a\x88\x05\x03\xe8"
               "bye");
    assert_int_equal(s.messages, 1);
    assert_int_equal(s.closes, 0);
    assert_int_equal(atoll_ws_send(s.ws, true, "x", 1), -EPIPE);
    frame(&r, 0x88, "\x03\xe8", 2);
    rig_turn(&r);
    assert_true(r.ended);
    close(r.fd);
    r.fd = -1;
    for (int i = 0; i < 5; i++)
        assert_int_equal(atoll_loop_step(r.loop, 1, NULL), 0);
    assert_int_equal(s.code, ATOLL_WS_NORMAL);
    ws_done(&r, &s);
}

/* One that reads slowly gets all that was said before the close, and then has its time to answer. */
static void test_we_close_on_a_slow_reader(void **state)
{
    static uint8_t data[1024 * 1024];
    struct rig r;
    struct seen s = {0};
    int64_t until = atoll_clock_ms() + 6000;

    (void)state;
    ws_open(&r, &s);
    assert_int_equal(atoll_ws_send(s.ws, true, data, sizeof(data)), 0);
    atoll_ws_close(s.ws, ATOLL_WS_NORMAL, NULL);
    while (atoll_clock_ms() < until)
        assert_int_equal(atoll_loop_step(r.loop, 50, NULL), 0);
    assert_int_equal(s.closes, 0);
    rig_turn(&r);
    assert_int_equal(atoll_buf_size(&r.got), 10 + sizeof(data) + 4);
    assert_memory_equal(atoll_buf_head(&r.got) + 10 + sizeof(data), "\x88\x02\x03\xe8", 4);
    frame(&r, 0x88, "\x03\xe8", 2);
    rig_turn_ms(&r, 1500);
    assert_int_equal(s.closes, 1);
    assert_int_equal(s.code, ATOLL_WS_NORMAL);
    ws_done(&r, &s);
}

static void test_pause(void **state)
{
    struct seen s = {.pause_each = true};
    struct rig r;

    (void)state;
    ws_open(&r, &s);
    for (int i = 0; i < 5; i++)
        frame(&r, 0x81, "m", 1);
    for (size_t i = 1; i <= 5; i++) {
        rig_turn(&r);
        assert_int_equal(s.messages, i);
        atoll_ws_resume(s.ws);
    }
    ws_done(&r, &s);
}

static void test_free_inside_on_message(void **state)
{
    struct seen s = {.free_on_message = true};
    struct rig r;

    (void)state;
    ws_open(&r, &s);
    frame(&r, 0x81, "a", 1);
    frame(&r, 0x81, "b", 1);
    rig_turn(&r);
    assert_int_equal(s.messages, 1);
    assert_true(r.ended);
    ws_done(&r, &s);
}

/* A peer that reads nothing: sending is bounded, pings do not pile up, drain tells when it goes on. */
static void test_send_back_pressure(void **state)
{
    static const uint8_t block[1024 * 1024];
    struct seen s = {0};
    struct rig r;
    int e = 0;

    (void)state;
    ws_open(&r, &s);
    assert_int_equal(atoll_ws_send(s.ws, false, "\xff", 1), -EINVAL);
    for (int i = 0; i < 100 && e == 0; i++)
        e = atoll_ws_send(s.ws, true, block, sizeof(block));
    assert_int_equal(e, -ENOBUFS);
    assert_true(atoll_ws_pending(s.ws) <= 16 * 1024 * 1024);
    frame(&r, 0x89, "late", 4);
    for (int i = 0; i < 5; i++)
        assert_int_equal(atoll_loop_step(r.loop, 1, NULL), 0);
    assert_int_equal(s.drains, 0);
    rig_turn(&r);
    rig_turn(&r);
    assert_int_equal(s.drains, 1);
    assert_int_equal(atoll_ws_pending(s.ws), 0);
    assert_memory_equal(r.got.data + r.got.len - 6, "\x8a\x04late", 6);
    ws_done(&r, &s);
}

static void test_server_goes_first(void **state)
{
    struct seen s = {0};
    struct rig r;

    (void)state;
    ws_open(&r, &s);
    r.server = atoll_http_server_free(r.server);
    frame(&r, 0x81, "a", 1);
    EXPECT(&r, "\x81\x01"
               "a");
    s.ws = atoll_ws_free(s.ws);
    atoll_buf_done(&s.last);
    rig_close(&r);
}

static void test_close_payload(void **state)
{
    uint8_t out[125];
    char reason[200];

    (void)state;
    memset(reason, 'x', 122);
    memcpy(reason + 122, "\xc3\xa4", 3);
    assert_int_equal(atoll_ws_close_payload(1000, reason, out), 124); /* no half character */
    assert_int_equal(atoll_ws_close_payload(1005, "x", out), 0);
    assert_int_equal(atoll_ws_close_payload(1000, NULL, out), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_handshake_refusals),
        cmocka_unit_test(test_echo_of_all_lengths),
        cmocka_unit_test(test_frame_behind_the_upgrade),
        cmocka_unit_test(test_fragments_and_pings),
        cmocka_unit_test(test_broken_frames),
        cmocka_unit_test(test_oversize_in_fragments),
        cmocka_unit_test(test_peer_closes),
        cmocka_unit_test(test_we_close),
        cmocka_unit_test(test_we_close_on_a_slow_reader),
        cmocka_unit_test(test_pause),
        cmocka_unit_test(test_free_inside_on_message),
        cmocka_unit_test(test_send_back_pressure),
        cmocka_unit_test(test_server_goes_first),
        cmocka_unit_test(test_close_payload),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

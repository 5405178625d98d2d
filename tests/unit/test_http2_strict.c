/* What HTTP/2 clients must not do: nothing of it reaches a handler, and all of it is bounded. */
#include "test_http2_util.h"

static struct h2 c; /* too large for a stack */

static void count(void *arg, struct atoll_http_request *req)
{
    size_t *requests = arg;

    ++*requests;
    atoll_http_respond(req, 200, NULL, "ok", 2);
}

static void keep(void *arg, struct atoll_http_request *req)
{
    size_t *requests = arg;

    (void)req;
    ++*requests;
}

#define GET ":method", "GET", ":scheme", "https", ":path", "/", ":authority", "a"
#define POST ":method", "POST", ":scheme", "https", ":path", "/", ":authority", "a"

static void test_smuggling(void **state)
{
    static const char *const heads[][24] = {
        /* Of a connection of HTTP/1. */
        {POST, "transfer-encoding", "chunked"},
        {GET, "connection", "close"},
        {GET, "upgrade", "websocket"},
        {GET, "keep-alive", "timeout=5"},
        {GET, "proxy-connection", "keep-alive"},
        {GET, "te", "gzip"},
        /* Two readings of the length. */
        {POST, "content-length", "5", "content-length", "6"},
        {POST, "content-length", "5, 5"},
        {POST, "content-length", "+5"},
        {GET, "content-length", "5"}, /* though it has ended */
        /* Two readings of who it is for. */
        {GET, "host", "b"},
        {GET, "host", "a", "host", "b"},
        {":method", "GET", ":scheme", "https", ":path", "/"},
        {":method", "GET", ":scheme", "https", ":path", "/", ":authority", "a@b"},
        {":method", "GET", ":scheme", "https", ":path", "/", ":authority", "a/b"},
        {GET, ":authority", "b"},
        /* Another request inside this one. */
        {":method", "GET", ":scheme", "https", ":path", "/ HTTP/1.1\r\nHost: b\r\n\r\n",
         ":authority", "a"},
        {":method", "GET", ":scheme", "https", ":path", "/a b", ":authority", "a"},
        {":method", "GET", ":scheme", "https", ":path", "/a\tb", ":authority", "a"},
        {":method", "GET", ":scheme", "https", ":path", "/\xc3\xa9", ":authority", "a"},
        {":method", "GET /x HTTP/1.1\r\n", ":scheme", "https", ":path", "/", ":authority", "a"},
        {GET, "x-a", "b\r\nx-c: d"},
        {GET, "x-a", "b\nx-c: d"},
        {GET, "x-a: b\r\nx-c", "d"},
        {GET, "x a", "b"},
        {GET, "X-A", "b"},
        {GET, "", "b"},
        /* Pseudo headers that are not. */
        {":method", "GET", ":scheme", "https", ":authority", "a"},
        {":method", "GET", ":path", "/", ":authority", "a"},
        {":scheme", "https", ":path", "/", ":authority", "a"},
        {":method", "GET", ":scheme", "https", ":path", "", ":authority", "a"},
        {":method", "GET", ":scheme", "https", ":path", "a", ":authority", "a"},
        {":method", "GET", ":scheme", "https", ":path", "https://b/", ":authority", "a"},
        {":method", "GET", ":scheme", "ftp", ":path", "/", ":authority", "a"},
        {":method", "GET", ":scheme", "https", ":path", "/", "x", "y", ":authority", "a"},
        {GET, ":path", "/b"},
        {GET, ":status", "200"},
        {GET, ":protocol", "websocket"},
        {":method", "CONNECT", ":authority", "a:80"},
        {":method", "TRACE", ":scheme", "https", ":path", "/", ":authority", "a"},
        /* As in HTTP/1. */
        {":method", "GET", ":scheme", "https", ":path", "/a/../b", ":authority", "a"},
        {":method", "GET", ":scheme", "https", ":path", "/a%2f../b", ":authority", "a"},
        {":method", "GET", ":scheme", "https", ":path", "/a#b", ":authority", "a"},
        {GET, "expect", "200-ok"},
    };
    uint8_t block[512];
    size_t requests = 0;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(heads); i++) {
        bool post = strcmp(heads[i][1], "POST") == 0;
        h2_open(&c, NULL, count, &requests);
        h2_turn(&c);
        h2_raw(&c, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | (post ? 0 : NGHTTP2_FLAG_END_STREAM),
               1, block, h2_block(heads[i], block));
        rig_turn(&c.rig);
        if (requests != 0)
            fail_msg("the handler has seen case %zu (%s: %s)", i, heads[i][8], heads[i][9]);
        assert_true(atoll_buf_size(&c.rig.got) > 0); /* an answer or a reset */
        h2_close(&c);
    }
}

/* The body has to be what Content-Length says; else the handler learns that it has lost it. */
static void lost(void *arg, struct atoll_http_request *req)
{
    size_t *closes = arg;

    (void)req;
    ++*closes;
}

static void collected(void *arg, struct atoll_http_request *req, const uint8_t *bytes, size_t n)
{
    (void)arg;
    (void)bytes;
    (void)n;
    (void)req;
    fail_msg("a body that is no body");
}

static void collect(void *arg, struct atoll_http_request *req)
{
    atoll_http_on_close(req, lost, arg);
    atoll_http_body_collect(req, 1000, collected, NULL, arg);
}

static void test_wrong_length(void **state)
{
    static const char *const fields[] = {POST, "content-length", "5", NULL};
    static const char *const bodies[] = {"1234", "123456"};
    uint8_t block[512];
    size_t closes = 0;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        h2_open(&c, NULL, collect, &closes);
        h2_turn(&c);
        h2_raw(&c, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, block, h2_block(fields, block));
        h2_raw(&c, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, bodies[i], strlen(bodies[i]));
        rig_turn(&c.rig);
        assert_int_equal(closes, i + 1);
        h2_close(&c);
    }
}

static void test_large_heads(void **state)
{
    static char value[3000];
    const char *const large[] = {GET, "a", value, "b", value, "c", value, NULL};
    const char *many[220];
    const char *const long_path[] = {":method", "GET",        ":scheme", "https", ":path",
                                     value,     ":authority", "a",       NULL};
    const struct atoll_http_limits limits = {.header_bytes = 4096, .target_bytes = 1024};
    size_t requests = 0;
    int32_t a, b, d, fine;

    (void)state;
    memset(value, 'v', sizeof(value) - 1);
    value[0] = '/';
    memcpy(many, large, 8 * sizeof(*many));
    for (size_t i = 8; i < 216; i += 2) {
        many[i] = "x";
        many[i + 1] = "y";
    }
    many[216] = NULL;
    h2_open(&c, &limits, count, &requests);
    a = h2_submit(&c, large, NULL, 0, false);
    b = h2_submit(&c, many, NULL, 0, false);
    d = h2_submit(&c, long_path, NULL, 0, false);
    fine = h2_ask(&c, "GET", "/");
    h2_turn(&c);
    assert_int_equal(h2_reply(&c, a)->status, 431);
    assert_int_equal(h2_reply(&c, b)->status, 431);
    assert_int_equal(h2_reply(&c, d)->status, 414);
    assert_int_equal(h2_reply(&c, fine)->status, 200);
    assert_int_equal(requests, 1);
    h2_close(&c);
}

/* Floods. Each must end the connection, by GOAWAY where one could still be said. */

static void expect_calm(void)
{
    for (int i = 0; i < 50 && !c.went_away; i++) {
        assert_int_equal(atoll_loop_step(c.rig.loop, 10, NULL), 0);
        (void)h2_receive(&c);
    }
    assert_true(c.went_away);
    assert_int_equal(c.goaway_code, NGHTTP2_ENHANCE_YOUR_CALM);
}

static void test_rapid_reset(void **state)
{
    static const char *const fields[] = {GET, NULL};
    const uint8_t cancel[4] = {0, 0, 0, NGHTTP2_CANCEL};
    uint8_t block[256];
    size_t n = h2_block(fields, block), requests = 0;

    (void)state;
    h2_open(&c, NULL, keep, &requests);
    h2_turn(&c);
    for (uint32_t i = 0; i < 5000; i++) {
        h2_raw(&c, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, 1 + 2 * i,
               block, n);
        h2_raw(&c, NGHTTP2_RST_STREAM, 0, 1 + 2 * i, cancel, 4);
    }
    expect_calm();
    assert_true(requests < 2500); /* one input may hold that many; not five thousand */
    h2_close(&c);
}

/* The same trick by making us reset the stream: a window that is opened by nothing. */
static void test_made_you_reset(void **state)
{
    static const char *const fields[] = {GET, NULL};
    const uint8_t zero[4] = {0};
    uint8_t block[256];
    size_t n = h2_block(fields, block), requests = 0;

    (void)state;
    h2_open(&c, NULL, keep, &requests);
    h2_turn(&c);
    for (uint32_t i = 0; i < 2000; i++) {
        h2_raw(&c, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, 1 + 2 * i,
               block, n);
        h2_raw(&c, NGHTTP2_WINDOW_UPDATE, 0, 1 + 2 * i, zero, 4);
        if (i % 50 == 0)
            rig_turn(&c.rig);
    }
    rig_turn(&c.rig);
    assert_true(c.rig.ended);
    assert_true(requests < 1000);
    h2_close(&c);
}

static void test_continuation_flood(void **state)
{
    static const uint8_t field[] = {0x10, 1, 'x', 1, 'y'};
    uint8_t block[256];
    static const char *const fields[] = {GET, NULL};
    size_t requests = 0;

    (void)state;
    for (int empty = 0; empty < 2; empty++) {
        h2_open(&c, NULL, count, &requests);
        h2_turn(&c);
        h2_raw(&c, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM, 1, block, h2_block(fields, block));
        for (int i = 0; i < 50000 && !c.rig.ended; i++)
            h2_raw(&c, NGHTTP2_CONTINUATION, 0, 1, field, empty ? 0 : sizeof(field));
        rig_turn(&c.rig);
        assert_true(c.rig.ended);
        assert_int_equal(requests, 0);
        h2_close(&c);
    }
}

static void test_control_floods(void **state)
{
    static const struct {
        uint8_t type;
        uint8_t n;
    } floods[] = {{NGHTTP2_PING, 8}, {NGHTTP2_SETTINGS, 0}, {NGHTTP2_PRIORITY, 5}};
    static const uint8_t bytes[8] = {0, 0, 0, 0, 16};
    size_t requests = 0;

    (void)state;
    for (size_t f = 0; f < ATOLL_ARRAY_LEN(floods); f++) {
        h2_open(&c, NULL, count, &requests);
        h2_turn(&c);
        for (int i = 0; i < 3000; i++)
            h2_raw(&c, floods[f].type, 0, floods[f].type == NGHTTP2_PRIORITY ? 3 : 0, bytes,
                   floods[f].n);
        if (floods[f].type == NGHTTP2_SETTINGS) {
            /* Our client knows nothing of these settings, and stops at the first answer. */
            rig_turn(&c.rig);
            assert_true(c.rig.ended);
        } else {
            expect_calm();
        }
        h2_close(&c);
    }
}

static void test_not_http2(void **state)
{
    static const struct {
        uint8_t type, flags;
        uint32_t id;
        uint8_t n;
    } frames[] = {
        {NGHTTP2_DATA, 0, 0, 4},          {NGHTTP2_HEADERS, 4, 2, 1},
        {NGHTTP2_PING, 0, 0, 7},          {NGHTTP2_SETTINGS, 0, 1, 0},
        {NGHTTP2_WINDOW_UPDATE, 0, 0, 4}, {NGHTTP2_CONTINUATION, 4, 1, 1},
        {NGHTTP2_PUSH_PROMISE, 4, 1, 5},  {NGHTTP2_RST_STREAM, 0, 9, 4},
    };
    static const uint8_t zeros[8];
    size_t requests = 0;

    (void)state;
    h2_open(&c, NULL, count, &requests);
    (void)rig_ask(&c.rig, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_true(c.rig.ended);
    h2_close(&c);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(frames); i++) {
        h2_open(&c, NULL, count, &requests);
        h2_turn(&c);
        h2_raw(&c, frames[i].type, frames[i].flags, frames[i].id, zeros, frames[i].n);
        rig_turn(&c.rig);
        assert_true(c.rig.ended);
        h2_close(&c);
    }
    assert_int_equal(requests, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_smuggling),      cmocka_unit_test(test_wrong_length),
        cmocka_unit_test(test_large_heads),    cmocka_unit_test(test_rapid_reset),
        cmocka_unit_test(test_made_you_reset), cmocka_unit_test(test_continuation_flood),
        cmocka_unit_test(test_control_floods), cmocka_unit_test(test_not_http2),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

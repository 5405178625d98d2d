/* What is refused: everything two parsers could read differently, and everything without bounds. */
#include "net/url.h"
#include "test_http_util.h"

struct seen {
    size_t requests, closes;
};

static void echoed(void *arg, struct atoll_http_request *req, const uint8_t *bytes, size_t n)
{
    (void)arg;
    atoll_http_respond(req, 200, NULL, bytes, n);
}

static void on_close(void *arg, struct atoll_http_request *req)
{
    struct seen *s = arg;

    (void)req;
    s->closes++;
}

static void echo(void *arg, struct atoll_http_request *req)
{
    struct seen *s = arg;

    s->requests++;
    atoll_http_on_close(req, on_close, s);
    atoll_http_body_collect(req, 1000, echoed, NULL, s);
}

#define HEAD(fields) "POST /x HTTP/1.1\r\nHost: a\r\n" fields "\r\n"
#define CHUNKED HEAD("Transfer-Encoding: chunked\r\n")
#define NEXT "GET /next HTTP/1.1\r\nHost: a\r\n\r\n"
#define TEXT(literal) literal, sizeof(literal) - 1

/* One answer 4xx or 5xx, then the end, and nothing behind it is ever seen as a request. */
static const struct {
    const char *bytes;
    size_t n;
    const char *status;
    bool reaches_handler; /* the head is fine, the body is not */
} refused[] = {
    {TEXT(HEAD("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n") "0\r\n\r\n" NEXT), "400", 0},
    {TEXT(HEAD("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n") "0\r\n\r\n" NEXT), "400", 0},
    {TEXT(HEAD("Content-Length: 3\r\nContent-Length: 3\r\n") "abc" NEXT), "400", 0},
    {TEXT(HEAD("Content-Length: 3\r\nContent-Length: 4\r\n") "abc" NEXT), "400", 0},
    {TEXT(HEAD("Content-Length: 3, 3\r\n") "abc" NEXT), "400", 0},
    {TEXT(HEAD("Content-Length: +3\r\n") "abc" NEXT), "400", 0},
    {TEXT(HEAD("Content-Length: -3\r\n") "abc" NEXT), "400", 0},
    {TEXT(HEAD("Content-Length: 0x3\r\n") "abc" NEXT), "400", 0},
    {TEXT(HEAD("Content-Length:\r\n") NEXT), "400", 0},
    {TEXT(HEAD("Content-Length: 3 3\r\n") "abc" NEXT), "400", 0},
    {TEXT(HEAD("Content-Length: 99999999999999999999\r\n") "abc" NEXT), "400", 0},
    {TEXT(HEAD("Content-Length: 18446744073709551615\r\n") "abc" NEXT), "400", 0},
    {TEXT(HEAD("Content-Length : 3\r\n") "abc" NEXT), "400", 0},
    {TEXT(HEAD("Transfer-Encoding: xchunked\r\n") NEXT), "400", 0},
    {TEXT(HEAD("Transfer-Encoding: chunked, identity\r\n") NEXT), "400", 0},
    {TEXT(HEAD("Transfer-Encoding: gzip, chunked\r\n") "0\r\n\r\n" NEXT), "400", 0},
    {TEXT(HEAD("Transfer-Encoding: identity\r\n") NEXT), "400", 0},
    {TEXT(HEAD("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n") "0\r\n\r\n"), "400",
     0},
    {TEXT(HEAD("Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n") "0\r\n\r\n"), "400", 0},
    {TEXT(HEAD("Transfer-Encoding:\x0b chunked\r\n") "0\r\n\r\n" NEXT), "400", 0},
    {TEXT(HEAD("Transfer-Encoding : chunked\r\n") "0\r\n\r\n" NEXT), "400", 0},
    {TEXT(HEAD(" Transfer-Encoding: chunked\r\n") "0\r\n\r\n" NEXT), "400", 0},
    {TEXT(HEAD("X: a\r\n folded\r\n") NEXT), "400", 0},
    {TEXT(HEAD("X: a\r\n\tfolded\r\n") NEXT), "400", 0},
    {TEXT(HEAD("X: a\rY: b\r\n") NEXT), "400", 0},
    {TEXT(HEAD("X: a\nY: b\r\n") NEXT), "400", 0},
    {TEXT(HEAD("X: a\0b\r\n") NEXT), "400", 0},
    {TEXT(HEAD("X\0: ab\r\n") NEXT), "400", 0},
    {TEXT(HEAD("X: a\x01\r\n") NEXT), "400", 0},
    {TEXT(HEAD("X: a\x7f\r\n") NEXT), "400", 0},
    {TEXT(HEAD(": no name\r\n") NEXT), "400", 0},
    {TEXT(HEAD("no colon\r\n") NEXT), "400", 0},
    {TEXT(HEAD("b@d: x\r\n") NEXT), "400", 0},
    {TEXT(HEAD("b d: x\r\n") NEXT), "400", 0},
    {TEXT(HEAD("b\x80: x\r\n") NEXT), "400", 0},
    {TEXT("GET / HTTP/1.1\nHost: a\n\n" NEXT), "400", 0},
    {TEXT("GET / HTTP/1.1\r\nHost: a\n\r\n" NEXT), "400", 0},
    {TEXT("GET / HTTP/1.1\r\nHost: a\r\n\n" NEXT), "400", 0},
    {TEXT("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"), "400", 0},
    {TEXT(" GET / HTTP/1.1\r\nHost: a\r\n\r\n"), "400", 0},
    {TEXT("GET  / HTTP/1.1\r\nHost: a\r\n\r\n"), "400", 0},
    {TEXT("GET /  HTTP/1.1\r\nHost: a\r\n\r\n"), "400", 0},
    {TEXT("GET / HTTP/1.1 \r\nHost: a\r\n\r\n"), "400", 0},
    {TEXT("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"), "400", 0},
    {TEXT("GET\t/\tHTTP/1.1\r\nHost: a\r\n\r\n"), "400", 0},
    {TEXT("GET /\r\n\r\n"), "400", 0},
    {TEXT("GET / HTTP/0.9\r\nHost: a\r\n\r\n"), "505", 0},
    {TEXT("GET / HTTP/2.0\r\nHost: a\r\n\r\n"), "505", 0},
    {TEXT("GET / HTTP/1.2\r\nHost: a\r\n\r\n"), "400", 0},
    {TEXT("GET / HTTP/11\r\nHost: a\r\n\r\n"), "400", 0},
    {TEXT("GET / http/1.1\r\nHost: a\r\n\r\n"), "400", 0},
    {TEXT("GET / RTSP/1.0\r\nHost: a\r\n\r\n"), "400", 0},
    {TEXT("get / HTTP/1.1\r\nHost: a\r\n\r\n"), "400", 0},
    {TEXT("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), "400", 0},
    {TEXT("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), "400", 0},
    {TEXT("CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n"), "501", 0},
    {TEXT("GET / HTTP/1.1\r\n\r\n" NEXT), "400", 0},
    {TEXT("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n" NEXT), "400", 0},
    {TEXT("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n" NEXT), "400", 0},
    {TEXT("GET / HTTP/1.1\r\nHost: a b\r\n\r\n" NEXT), "400", 0},
    {TEXT("GET / HTTP/1.1\r\nHost: u@a\r\n\r\n" NEXT), "400", 0},
    {TEXT("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), "400", 0},
    {TEXT("GET /a/../b HTTP/1.1\r\nHost: a\r\n\r\n"), "400", 0},
    {TEXT("GET /a/%2e%2E HTTP/1.1\r\nHost: a\r\n\r\n"), "400", 0},
    {TEXT("GET /./a HTTP/1.1\r\nHost: a\r\n\r\n"), "400", 0},
    {TEXT("GET /a/..%2fb HTTP/1.1\r\nHost: a\r\n\r\n"), "400", 0},
    {TEXT("GET /a%00b HTTP/1.1\r\nHost: a\r\n\r\n"), "400", 0},
    {TEXT("GET /a%0ab HTTP/1.1\r\nHost: a\r\n\r\n"), "400", 0},
    {TEXT("GET /a%4 HTTP/1.1\r\nHost: a\r\n\r\n"), "400", 0},
    {TEXT("GET /a%zz HTTP/1.1\r\nHost: a\r\n\r\n"), "400", 0},
    {TEXT("GET /?a=%0 HTTP/1.1\r\nHost: a\r\n\r\n"), "400", 0},
    {TEXT("GET /?a=%00 HTTP/1.1\r\nHost: a\r\n\r\n"), "400", 0},
    {TEXT("GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n"), "400", 0},
    {TEXT("GET * HTTP/1.1\r\nHost: a\r\n\r\n"), "400", 0},
    {TEXT("GET a HTTP/1.1\r\nHost: a\r\n\r\n"), "400", 0},
    {TEXT("GET /\x80 HTTP/1.1\r\nHost: a\r\n\r\n"), "400", 0},
    {TEXT(CHUNKED "3\nabc\r\n0\r\n\r\n" NEXT), "400", true},
    {TEXT(CHUNKED "3\r\nabc\n0\r\n\r\n" NEXT), "400", true},
    {TEXT(CHUNKED "3\r\nabcd\r\n0\r\n\r\n" NEXT), "400", true},
    {TEXT(CHUNKED "3\r\nabcxx0\r\n\r\n" NEXT), "400", true},
    {TEXT(CHUNKED "3\r\nabc\r\n0\r\n\n" NEXT), "400", true},
    {TEXT(CHUNKED "3\r\nabc\r\n0\n\r\n" NEXT), "400", true},
    {TEXT(CHUNKED "3 \r\nabc\r\n0\r\n\r\n" NEXT), "400", true},
    {TEXT(CHUNKED "0x3\r\nabc\r\n0\r\n\r\n" NEXT), "400", true},
    {TEXT(CHUNKED "+3\r\nabc\r\n0\r\n\r\n" NEXT), "400", true},
    {TEXT(CHUNKED "\r\nabc\r\n0\r\n\r\n" NEXT), "400", true},
    {TEXT(CHUNKED "ffffffffffffffff1\r\nabc\r\n" NEXT), "400", true},
    {TEXT(CHUNKED "3;x\n\r\nabc\r\n0\r\n\r\n" NEXT), "400", true},
    {TEXT(CHUNKED "3\r\nabc\r\n0\r\nT: a\nU: b\r\n\r\n" NEXT), "400", true},
    {TEXT(CHUNKED "3\r\nabc\r\n0\r\nT: a\r\n fold\r\n\r\n" NEXT), "400", true},
};

static void check_refused(size_t i, bool bytewise)
{
    struct seen s = {0};
    struct rig r;
    const char *got;
    char start[32];

    rig_open(&r, NULL, echo, &s);
    for (size_t at = 0; at < refused[i].n; at += bytewise ? 1 : refused[i].n) {
        rig_send(&r, refused[i].bytes + at, bytewise ? 1 : refused[i].n);
        if (bytewise)
            assert_int_equal(atoll_loop_step(r.loop, 0, NULL), 0);
    }
    rig_turn(&r);
    got = rig_text(&r);
    snprintf(start, sizeof(start), "HTTP/1.1 %s ", refused[i].status);
    if (strncmp(got, start, strlen(start)) != 0 || count_of(got, "\r\nDate: ") != 1 || !r.ended)
        fail_msg("case %zu (bytewise %d): %s\n-> %s", i, bytewise, refused[i].bytes, got);
    assert_contains(got, "Connection: close\r\n");
    assert_contains(got, "{\"error\":{\"code\":\"");
    assert_int_equal(s.requests, refused[i].reaches_handler);
    assert_int_equal(s.closes, refused[i].reaches_handler);
    rig_close(&r);
}

static void test_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(refused); i++)
        check_refused(i, false);
}

static void test_refused_byte_by_byte(void **state)
{
    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(refused); i++)
        check_refused(i, true);
}

/* Unusual but unambiguous, whole and byte by byte. */
static void test_accepted(void **state)
{
    static const char *const accepted[] = {
        "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nhOsT:a\r\nX:\r\nY: \t b \t \r\n\r\n",
        "GET / HTTP/1.1\r\nHost:\r\n\r\n",
        "GET /a/...//.b/c. HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
        "GET http://h?a=b HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /?&&=&a&a=%ff+ HTTP/1.1\r\nHost: a\r\n\r\n",
        CHUNKED "00003\r\nabc\r\nA;q=\"x y\"\r\n0123456789\r\n000\r\nT: u\r\n\r\n",
        HEAD("Content-Length: 0003\r\n") "abc",
        HEAD("Connection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 3\r\n") "abc",
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, upgrade\r\nUpgrade: h2c\r\n\r\n",
    };
    struct seen s = {0};
    struct rig r;

    (void)state;
    rig_open(&r, NULL, echo, &s);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(accepted); i++) {
        assert_starts(rig_ask(&r, accepted[i]), "HTTP/1.1 200 OK\r\n");
        atoll_buf_clear(&r.got);
        for (const char *p = accepted[i]; *p; p++) {
            rig_send(&r, p, 1);
            assert_int_equal(atoll_loop_step(r.loop, 0, NULL), 0);
        }
        rig_turn(&r);
        assert_starts(rig_text(&r), "HTTP/1.1 200 OK\r\n");
    }
    assert_int_equal(s.requests, 2 * ATOLL_ARRAY_LEN(accepted));
    rig_close(&r);
}

static void ask_long(const struct atoll_http_limits *limits, const char *before, const char *unit,
                     size_t times, const char *after, const char *status)
{
    struct seen s = {0};
    struct rig r;

    rig_open(&r, limits, echo, &s);
    rig_send(&r, before, strlen(before));
    for (size_t i = 0; i < times; i++)
        rig_send(&r, unit, strlen(unit));
    rig_send(&r, after, strlen(after));
    rig_turn(&r);
    assert_starts(rig_text(&r), status);
    rig_close(&r);
}

static void test_limits(void **state)
{
    const struct atoll_http_limits small = {
        .header_bytes = 1000, .header_count = 10, .target_bytes = 100};

    (void)state;
    ask_long(&small, "GET /", "x", 99, " HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 ");
    ask_long(&small, "GET /", "x", 100, " HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 414 ");
    ask_long(&small, "GET / HTTP/1.1\r\nHost: a\r\n", "X: y\r\n", 9, "\r\n", "HTTP/1.1 200 ");
    ask_long(&small, "GET / HTTP/1.1\r\nHost: a\r\n", "X: y\r\n", 10, "\r\n", "HTTP/1.1 431 ");
    ask_long(&small, "GET / HTTP/1.1\r\nHost: a\r\nX: ", "y", 968, "\r\n\r\n", "HTTP/1.1 200 ");
    ask_long(&small, "GET / HTTP/1.1\r\nHost: a\r\nX: ", "y", 969, "\r\n\r\n", "HTTP/1.1 431 ");
    ask_long(&small, "", "\r\n", 1000, "", "HTTP/1.1 431 ");
    ask_long(&small, CHUNKED "1;", "e", 1100, "\r\nx\r\n0\r\n\r\n", "HTTP/1.1 431 ");
    ask_long(&small, CHUNKED "0\r\n", "T: u\r\n", 200, "\r\n", "HTTP/1.1 431 ");
    ask_long(NULL, "GET / HTTP/1.1\r\nHost: a\r\nX: ", "0123456789abcdef", 1024, "\r\n\r\n",
             "HTTP/1.1 431 ");
    /* Many small chunks are no flood of framing. */
    ask_long(&small, CHUNKED, "1;e\r\nx\r\n", 900, "0\r\n\r\n", "HTTP/1.1 200 ");
}

static void keep_open(void *arg, struct atoll_http_request *req)
{
    (void)arg;
    (void)req;
}

static void test_timeouts(void **state)
{
    const struct atoll_http_limits quick = {.header_ms = 100, .idle_ms = 500};
    struct seen s = {0};
    struct rig r;

    (void)state;
    rig_open(&r, &quick, echo, &s);
    /* A slow head, though a byte comes now and then. */
    for (int i = 0; i < 8; i++) {
        rig_send(&r, &"GET / HTTP"[i], 1);
        rig_turn_ms(&r, 20);
    }
    assert_starts(rig_text(&r), "HTTP/1.1 408 ");
    rig_turn_ms(&r, 20);
    assert_true(r.ended);
    /* A body that stops. */
    rig_connect(&r);
    rig_ask(&r, HEAD("Content-Length: 5\r\n") "ab");
    rig_turn_ms(&r, 800);
    assert_starts(rig_text(&r), "HTTP/1.1 408 ");
    assert_int_equal(s.closes, 1);
    /* Nothing at all, or nothing more. */
    rig_connect(&r);
    assert_contains(rig_ask(&r, NEXT), "200 OK");
    rig_turn_ms(&r, 100);
    assert_false(r.ended);
    rig_turn_ms(&r, 700);
    assert_true(r.ended);
    assert_int_equal(atoll_http_server_connections(r.server), 0);
    rig_close(&r);
    /* It is the handler who takes long: nobody is cut off. */
    rig_open(&r, &quick, keep_open, NULL);
    rig_ask(&r, NEXT);
    rig_turn_ms(&r, 800);
    assert_false(r.ended);
    rig_close(&r);
}

static void assert_path(const char *text, int result, const char *decoded)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "%s", text);
    assert_int_equal(atoll_url_decode_path(path), result);
    if (decoded)
        assert_string_equal(path, decoded);
}

static void test_url(void **state)
{
    static const char *const bad_paths[] = {
        "/..%2fa", "/a%2F..", "/a%2f%2e%2E%2fb", "/a/.%2F", "/%2f.", "/a%2f%00", "/a%2",
    };
    struct atoll_buf out;
    char host[32];
    uint16_t port = 0;

    (void)state;
    atoll_buf_init(&out, 100);
    assert_int_equal(atoll_url_encode(&out, "a b/c?\xc3\xa4", true), 0);
    assert_string_equal(atoll_buf_str(&out), "a%20b/c%3F%C3%A4");
    atoll_buf_clear(&out);
    assert_int_equal(atoll_url_encode(&out, "/", false), 0);
    assert_string_equal(atoll_buf_str(&out), "%2F");
    atoll_buf_done(&out);
    assert_path("/a%20b/c", 0, "/a b/c");
    assert_path("/a%2fb%2F%63", 1, "/a%2Fb%2Fc");
    assert_path("/a%252Fb", 0, "/a%2Fb");
    assert_path("/.../..a/a..%2f.a", 1, "/.../..a/a..%2F.a");
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bad_paths); i++)
        assert_path(bad_paths[i], -EINVAL, NULL);
    assert_int_equal(atoll_url_split_host("[::1]:80", host, sizeof(host), &port), 0);
    assert_string_equal(host, "::1");
    assert_int_equal(port, 80);
    assert_int_equal(atoll_url_split_host("h:0", host, sizeof(host), &port), 0);
    assert_int_equal(atoll_url_split_host("::1:80", host, sizeof(host), &port), -EINVAL);
    assert_int_equal(atoll_url_split_host(":80", host, sizeof(host), &port), -EINVAL);
    assert_int_equal(atoll_url_split_host("h", host, sizeof(host), &port), -EINVAL);
    assert_int_equal(atoll_url_split_host("h:65536", host, sizeof(host), &port), -EINVAL);
    assert_int_equal(atoll_url_split_host("h:", host, sizeof(host), &port), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),  cmocka_unit_test(test_refused_byte_by_byte),
        cmocka_unit_test(test_accepted), cmocka_unit_test(test_limits),
        cmocka_unit_test(test_timeouts), cmocka_unit_test(test_url),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

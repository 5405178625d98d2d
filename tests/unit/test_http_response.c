/* Responses in pieces: framing, back-pressure, and cuts that no client can take for an end. */
#include "test_http_util.h"

struct seen {
    struct atoll_http_request *req;
    size_t closes, drains;
    size_t written, total;
    int failed;
};

static void on_close(void *arg, struct atoll_http_request *req)
{
    struct seen *s = arg;

    (void)req;
    s->closes++;
    s->req = NULL;
}

static void keep(void *arg, struct atoll_http_request *req)
{
    struct seen *s = arg;

    s->req = req;
    atoll_http_on_close(req, on_close, s);
}

static void in_pieces(void *arg, struct atoll_http_request *req)
{
    const char *length = atoll_http_query(req, "length");

    (void)arg;
    atoll_http_begin(req, 200, "text/plain", length ? 6 : -1);
    assert_true(atoll_http_begun(req));
    assert_int_equal(atoll_http_write(req, "abc", 3), 0);
    assert_int_equal(atoll_http_write(req, "", 0), 0);
    assert_int_equal(atoll_http_write(req, "def", 3), 0);
    if (length)
        assert_int_equal(atoll_http_write(req, "g", 1), -EOVERFLOW);
    atoll_http_end(req);
}

static void with_reason(void *arg, struct atoll_http_request *req)
{
    const char *reason = atoll_http_query(req, "reason");

    (void)arg;
    if (reason)
        atoll_http_set_reason(req, reason);
    atoll_http_respond(req, 500, NULL, NULL, 0);
}

static void test_reason(void **state)
{
    char ask[400];
    struct rig r;

    (void)state;
    rig_open(&r, NULL, with_reason, NULL);
    assert_contains(rig_ask(&r, "GET /?reason=a%0d%0aX-B:%20%c3%a4%7f HTTP/1.1\r\nHost: a\r\n\r\n"),
                    "HTTP/1.1 500 a  X-B: ?? \r\nDate: ");
    assert_contains(rig_ask(&r, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
                    "HTTP/1.1 500 Internal Server Error\r\nDate: ");
    (void)snprintf(ask, sizeof(ask), "GET /?reason=%0*d HTTP/1.1\r\nHost: a\r\n\r\n",
                   ATOLL_HTTP_REASON_MAX + 9, 0);
    assert_contains(rig_ask(&r, ask), "0\r\nDate: ");
    rig_close(&r);
}

static void test_framing(void **state)
{
    struct rig r;
    const char *got;

    (void)state;
    rig_open(&r, NULL, in_pieces, NULL);
    got = rig_ask(&r, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_contains(got, "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n");
    got = rig_ask(&r, "GET /?length HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_contains(got, "Content-Length: 6\r\n\r\nabcdef");
    got = rig_ask(&r, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_contains(got, "Transfer-Encoding: chunked\r\n\r\n");
    assert_null(strstr(got, "abc"));
    /* HTTP/1.0 knows no chunks: the end of the connection ends the body. */
    got = rig_ask(&r, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_contains(got, "Connection: close\r\n\r\nabcdef");
    assert_true(r.ended);
    rig_close(&r);
}

/* A proxy's answer: hints before it, the server's date, trailers after it. */
static void passed_on(void *arg, struct atoll_http_request *req)
{
    int64_t length = strcmp(atoll_http_target(req), "/known?%zz") == 0 ? 3 : -1;

    (void)arg;
    assert_int_equal(atoll_http_set_header(req, "Link", "</a>"), 0);
    atoll_http_inform(req, 103);
    atoll_http_set_date(req, "Sat, 31 Jan 2026 12:00:00 GMT");
    assert_int_equal(atoll_http_set_header(req, "X-Head", "1"), 0);
    atoll_http_begin(req, 200, NULL, length);
    assert_int_equal(atoll_http_write(req, "abc", 3), 0);
    assert_int_equal(atoll_http_set_header(req, "X-Last", "2"), 0);
    atoll_http_end(req);
}

static void test_passed_on(void **state)
{
    const struct atoll_http_limits limits = {.any_target = true};
    struct rig r;
    const char *got;

    (void)state;
    rig_open(&r, &limits, passed_on, NULL);
    got = rig_ask(&r, "GET /../%zz HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_starts(got, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\n"
                       "Date: Sat, 31 Jan 2026 12:00:00 GMT\r\n");
    assert_contains(got, "X-Head: 1\r\n\r\n3\r\nabc\r\n0\r\nX-Last: 2\r\n\r\n");
    assert_int_equal(count_of(got, "</a>"), 1);
    got = rig_ask(&r, "GET /known?%zz HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_contains(got, "X-Head: 1\r\n\r\nabc");
    assert_null(strstr(got, "X-Last"));
    got = rig_ask(&r, "GET / HTTP/1.0\r\n\r\n");
    assert_starts(got, "HTTP/1.1 200 OK\r\n");
    assert_null(strstr(got, "X-Last"));
    rig_close(&r);
}

static void no_content(void *arg, struct atoll_http_request *req)
{
    (void)arg;
    atoll_http_respond(req, 204, NULL, NULL, 0);
}

static void test_no_content(void **state)
{
    struct rig r;
    const char *got;

    (void)state;
    rig_open(&r, NULL, no_content, NULL);
    got = rig_ask(&r, "DELETE /x HTTP/1.1\r\nHost: a\r\n\r\nDELETE /y HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_int_equal(count_of(got, "HTTP/1.1 204 No Content\r\n"), 2);
    assert_null(strstr(got, "Content-Length"));
    rig_close(&r);
}

/* The head of a stream that has nothing to say yet must not wait for its first byte. */
static void test_head_leaves_alone(void **state)
{
    struct seen s = {0};
    struct rig r;

    (void)state;
    rig_open(&r, NULL, keep, &s);
    rig_ask(&r, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    atoll_http_begin(s.req, 200, "text/plain", -1);
    rig_turn(&r);
    assert_contains(rig_text(&r), "\r\n\r\n");
    assert_int_equal(atoll_http_write(s.req, "now", 3), 0);
    assert_int_equal(atoll_http_write(s.req, "then", 4), 0);
    rig_read(&r);
    assert_null(strstr(rig_text(&r), "now")); /* small pieces of one round leave together */
    rig_turn(&r);
    assert_contains(rig_text(&r), "3\r\nnow\r\n4\r\nthen\r\n");
    atoll_http_end(s.req);
    rig_turn(&r);
    assert_contains(rig_text(&r), "0\r\n\r\n");
    rig_close(&r);
}

static void pour(void *arg, struct atoll_http_request *req)
{
    static const char block[16 * 1024];
    struct seen *s = arg;

    while (s->written < s->total && atoll_http_pending(req) <= ATOLL_HTTP_HIGH_WATER) {
        assert_int_equal(atoll_http_write(req, block, sizeof(block)), 0);
        s->written += sizeof(block);
    }
    if (s->written == s->total) {
        s->req = NULL;
        atoll_http_end(req);
    }
}

static void drained(void *arg, struct atoll_http_request *req)
{
    struct seen *s = arg;

    assert_true(atoll_http_pending(req) < ATOLL_HTTP_HIGH_WATER);
    s->drains++;
    pour(arg, req);
}

static void download(void *arg, struct atoll_http_request *req)
{
    struct seen *s = arg;

    keep(arg, req);
    s->written = 0;
    atoll_http_on_drain(req, drained, arg);
    atoll_http_begin(req, 200, NULL, (int64_t)s->total);
    pour(arg, req);
}

static void test_download_back_pressure(void **state)
{
    struct seen s = {.total = 8 * 1024 * 1024};
    struct rig r;

    (void)state;
    rig_open(&r, NULL, download, &s);
    rig_send(&r, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 27);
    for (int i = 0; i < 20; i++)
        assert_int_equal(atoll_loop_step(r.loop, 1, NULL), 0);
    /* The client reads nothing: what waits here is bounded. */
    assert_true(s.written < 2 * 1024 * 1024);
    assert_true(atoll_http_pending(s.req) <= ATOLL_HTTP_HIGH_WATER + 32 * 1024);
    assert_int_equal(s.drains, 0);
    rig_turn(&r);
    assert_true(s.drains > 10);
    assert_int_equal(s.written, s.total);
    assert_true(atoll_buf_size(&r.got) > s.total);
    assert_int_equal(s.closes, 0);
    /* And the connection serves the next one. */
    rig_ask(&r, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    rig_turn(&r);
    assert_true(atoll_buf_size(&r.got) > s.total);
    rig_close(&r);
}

static void test_pending_is_bounded(void **state)
{
    static const char block[64 * 1024];
    struct atoll_http_limits limits = {.pending_bytes = 1024 * 1024};
    struct seen s = {0};
    struct rig r;
    int e = 0;

    (void)state;
    rig_open(&r, &limits, keep, &s);
    rig_ask(&r, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    atoll_http_begin(s.req, 200, NULL, -1);
    for (int i = 0; i < 100 && e == 0; i++)
        e = atoll_http_write(s.req, block, sizeof(block));
    assert_int_equal(e, -ENOBUFS);
    assert_true(atoll_http_pending(s.req) <= 1024 * 1024);
    rig_turn(&r);
    assert_int_equal(atoll_http_write(s.req, block, sizeof(block)), 0);
    rig_close(&r);
    assert_int_equal(s.closes, 1);
}

/* A whole response larger than the bound is what the handler held already: it goes out. */
static void large(void *arg, struct atoll_http_request *req)
{
    struct seen *s = arg;
    ATOLL_AUTOFREE char *bytes = calloc(1, s->total);

    atoll_http_respond(req, 200, NULL, bytes, s->total);
}

static void test_large_response(void **state)
{
    struct atoll_http_limits limits = {.pending_bytes = 1024 * 1024};
    struct seen s = {.total = 4 * 1024 * 1024};
    struct rig r;

    (void)state;
    rig_open(&r, &limits, large, &s);
    rig_ask(&r, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_true(atoll_buf_size(&r.got) > s.total);
    rig_close(&r);
}

static void test_abort_and_short_body(void **state)
{
    struct seen s = {0};
    struct rig r;

    (void)state;
    rig_open(&r, NULL, keep, &s);
    rig_ask(&r, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    atoll_http_begin(s.req, 200, NULL, -1);
    assert_int_equal(atoll_http_write(s.req, "half", 4), 0);
    rig_turn(&r);
    atoll_http_abort(s.req);
    rig_turn(&r);
    assert_true(r.ended);
    assert_null(strstr(rig_text(&r), "0\r\n\r\n"));
    assert_int_equal(s.closes, 0); /* the handler did it itself */
    assert_int_equal(atoll_http_server_connections(r.server), 0);

    rig_connect(&r);
    rig_ask(&r, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    atoll_http_begin(s.req, 200, NULL, 10);
    assert_int_equal(atoll_http_write(s.req, "half", 4), 0);
    atoll_http_end(s.req);
    rig_turn(&r);
    assert_true(r.ended);

    /* Another answer behind a begun one would be read as part of it. */
    rig_connect(&r);
    rig_ask(&r, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    atoll_http_begin(s.req, 200, NULL, -1);
    rig_turn(&r);
    atoll_http_respond_error(s.req, 500, "internal", "too late", NULL);
    rig_turn(&r);
    assert_true(r.ended);
    assert_null(strstr(rig_text(&r), "500"));
    rig_close(&r);
}

static void abort_at_once(void *arg, struct atoll_http_request *req)
{
    (void)arg;
    atoll_http_abort(req);
}

static void test_abort_inside_on_request(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, NULL, abort_at_once, NULL);
    assert_string_equal(rig_ask(&r, "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\n"), "");
    assert_true(r.ended);
    rig_close(&r);
}

/* The client is gone in the middle: the write says so, on_close comes from the loop, once. */
static void test_client_leaves_a_download(void **state)
{
    static const char block[64 * 1024];
    struct seen s = {0};
    struct rig r;
    int e = 0;

    (void)state;
    rig_open(&r, NULL, keep, &s);
    rig_ask(&r, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    atoll_http_begin(s.req, 200, NULL, -1);
    rig_turn(&r);
    close(r.fd);
    r.fd = -1;
    for (int i = 0; i < 4 && e == 0; i++)
        e = atoll_http_write(s.req, block, sizeof(block));
    assert_int_equal(e, -EPIPE);
    assert_int_equal(s.closes, 0);
    for (int i = 0; i < 5; i++)
        assert_int_equal(atoll_loop_step(r.loop, 1, NULL), 0);
    assert_int_equal(s.closes, 1);
    rig_close(&r);
    assert_int_equal(s.closes, 1);
}

static void refuse(void *arg, struct atoll_http_request *req)
{
    (void)arg;
    atoll_http_respond_error(req, 404, "not_found", "no \"x\"\n", NULL);
}

static void test_error_shape(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, NULL, refuse, NULL);
    assert_contains(
        rig_ask(&r, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        "\r\n\r\n{\"error\":{\"code\":\"not_found\",\"message\":\"no \\\"x\\\"\\n\"}}\n");
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reason),
        cmocka_unit_test(test_framing),
        cmocka_unit_test(test_passed_on),
        cmocka_unit_test(test_no_content),
        cmocka_unit_test(test_head_leaves_alone),
        cmocka_unit_test(test_download_back_pressure),
        cmocka_unit_test(test_pending_is_bounded),
        cmocka_unit_test(test_large_response),
        cmocka_unit_test(test_abort_and_short_body),
        cmocka_unit_test(test_abort_inside_on_request),
        cmocka_unit_test(test_client_leaves_a_download),
        cmocka_unit_test(test_error_shape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

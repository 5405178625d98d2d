/* HTTP/2 from a client's point of view: the same promises to handlers as in HTTP/1. */
#include "test_http2_util.h"

struct seen {
    size_t requests, ends, closes, drains;
    uint64_t bytes;
    struct atoll_http_request *req[H2_STREAMS]; /* kept by asynchronous handlers */
    char text[4096];
};

static void on_close(void *arg, struct atoll_http_request *req)
{
    struct seen *s = arg;

    s->closes++;
    for (size_t i = 0; i < H2_STREAMS; i++)
        if (s->req[i] == req)
            s->req[i] = NULL;
}

static void keep(void *arg, struct atoll_http_request *req)
{
    struct seen *s = arg;

    atoll_http_on_close(req, on_close, s);
    s->req[s->requests++] = req;
}

static void describe(void *arg, struct atoll_http_request *req)
{
    struct seen *s = arg;
    const char *host = atoll_http_header(req, "Host"), *cookie = atoll_http_header(req, "cookie");
    const char *q = atoll_http_query(req, "q");

    s->requests++;
    snprintf(s->text, sizeof(s->text), "%s %s q=%s host=%s cookie=%s target=%s",
             atoll_http_method_name(atoll_http_method(req)), atoll_http_path(req), q ? q : "-",
             host ? host : "-", cookie ? cookie : "-", atoll_http_target(req));
    assert_int_equal(atoll_http_set_header(req, "X-Some-Thing", "Value"), 0);
    assert_int_equal(atoll_http_set_header(req, "Keep-Alive", "timeout=5"), 0);
    atoll_http_respond(req, 200, "text/plain", s->text, strlen(s->text));
}

static void collected(void *arg, struct atoll_http_request *req, const uint8_t *bytes, size_t n)
{
    (void)arg;
    atoll_http_respond(req, 200, "text/plain", bytes, n);
}

/* Echoes bodies of up to 100 bytes. */
static void echo(void *arg, struct atoll_http_request *req)
{
    struct seen *s = arg;

    s->requests++;
    atoll_http_on_close(req, on_close, s);
    atoll_http_body_collect(req, 100, collected, NULL, s);
}

static struct h2 c; /* too large for a stack */

static const char *body_of(int32_t id)
{
    return atoll_buf_str(&h2_reply(&c, id)->body);
}

static void test_request_and_answer(void **state)
{
    struct seen s = {0};
    const char *const fields[] = {":method", "GET",        ":path",    "/a%20b?q=1+2", ":scheme",
                                  "https",   ":authority", "x.test:8", "cookie",       "a=1",
                                  "cookie",  "b=2",        "te",       "trailers",     NULL};
    int32_t id, head, none, bad_head;

    (void)state;
    h2_open(&c, NULL, describe, &s);
    id = h2_submit(&c, fields, NULL, 0, false);
    head = h2_ask(&c, "HEAD", "/");
    none = h2_ask(&c, "GET", "/../etc");
    bad_head = h2_ask(&c, "HEAD", "/../etc");
    h2_turn(&c);
    assert_int_equal(h2_reply(&c, bad_head)->status, 400);
    assert_int_equal(atoll_buf_size(&h2_reply(&c, bad_head)->body), 0);
    assert_int_equal(h2_reply(&c, id)->status, 200);
    assert_string_equal(body_of(id), "GET /a b q=1 2 host=x.test:8 cookie=a=1; b=2 "
                                     "target=/a%20b?q=1+2");
    assert_contains(h2_reply(&c, id)->fields, "x-some-thing: Value\n");
    assert_contains(h2_reply(&c, id)->fields, "content-type: text/plain\n");
    assert_contains(h2_reply(&c, id)->fields, "\ndate: ");
    assert_null(strstr(h2_reply(&c, id)->fields, "keep-alive"));
    assert_true(h2_reply(&c, id)->closed);
    assert_int_equal(h2_reply(&c, id)->code, NGHTTP2_NO_ERROR);
    assert_int_equal(h2_reply(&c, head)->status, 200);
    assert_int_equal(atoll_buf_size(&h2_reply(&c, head)->body), 0);
    assert_true(h2_reply(&c, head)->closed);
    assert_int_equal(h2_reply(&c, none)->status, 400);
    assert_contains(body_of(none), "\"code\":\"invalid_argument\"");
    assert_int_equal(s.requests, 2);
    assert_int_equal(atoll_http_server_connections(c.rig.server), 1);
    h2_close(&c);
}

/* A proxy's answer: hints before it, the server's date, trailers after it. */
static void passed_on(void *arg, struct atoll_http_request *req)
{
    (void)arg;
    assert_int_equal(atoll_http_set_header(req, "Link", "</a>"), 0);
    atoll_http_inform(req, 103);
    atoll_http_set_date(req, "Sat, 31 Jan 2026 12:00:00 GMT");
    assert_int_equal(atoll_http_set_header(req, "X-Head", "1"), 0);
    atoll_http_begin(req, 200, NULL, -1);
    assert_int_equal(atoll_http_write(req, "abc", 3), 0);
    assert_int_equal(atoll_http_set_header(req, "X-Last", "2"), 0);
    atoll_http_end(req);
}

static void test_passed_on(void **state)
{
    const struct atoll_http_limits limits = {.any_target = true};
    int32_t id;

    (void)state;
    h2_open(&c, &limits, passed_on, NULL);
    id = h2_ask(&c, "GET", "/../%zz");
    h2_turn(&c);
    assert_string_equal(h2_reply(&c, id)->fields,
                        ":status: 103\nlink: </a>\n"
                        ":status: 200\ndate: Sat, 31 Jan 2026 12:00:00 GMT\nx-head: 1\n"
                        "x-last: 2\n");
    assert_string_equal(body_of(id), "abc");
    assert_true(h2_reply(&c, id)->closed);
    assert_int_equal(h2_reply(&c, id)->code, NGHTTP2_NO_ERROR);
    h2_close(&c);
}

static void test_bodies_collected(void **state)
{
    static const char big[300] = "big";
    struct seen s = {0};
    const char *const known[] = {":method",    "POST", ":path",          "/",   ":scheme", "https",
                                 ":authority", "a",    "content-length", "300", NULL};
    const char *const expects[] = {":method", "POST",         ":path",      "/",
                                   ":scheme", "https",        ":authority", "a",
                                   "expect",  "100-continue", NULL};
    int32_t a, b, d, e, f;

    (void)state;
    h2_open(&c, NULL, echo, &s);
    a = h2_post(&c, "/", "hello", 5);
    b = h2_post(&c, "/", NULL, 0);
    d = h2_post(&c, "/", big, sizeof(big));
    e = h2_submit(&c, known, big, sizeof(big), true);
    f = h2_submit(&c, expects, "yes", 3, true);
    h2_turn(&c);
    assert_string_equal(body_of(a), "hello");
    assert_int_equal(h2_reply(&c, b)->status, 200);
    assert_int_equal(h2_reply(&c, d)->status, 413);
    assert_int_equal(h2_reply(&c, e)->status, 413);
    assert_contains(h2_reply(&c, f)->fields, ":status: 100\n:status: 200\n");
    assert_string_equal(body_of(f), "yes");
    assert_int_equal(s.closes, 2);
    h2_close(&c);
}

static void test_hundred_streams(void **state)
{
    struct seen s = {0};
    int32_t ids[130];
    char text[16];

    (void)state;
    h2_open(&c, NULL, keep, &s);
    h2_turn(&c);
    for (int i = 0; i < 128; i++)
        ids[i] = h2_ask(&c, "GET", "/");
    h2_turn(&c);
    assert_int_equal(s.requests, 128);
    for (int i = 127; i >= 0; i--) {
        snprintf(text, sizeof(text), "%d", i);
        atoll_http_respond(s.req[i], 200, NULL, text, strlen(text));
    }
    h2_turn(&c);
    for (int i = 0; i < 128; i++) {
        snprintf(text, sizeof(text), "%d", i);
        assert_string_equal(body_of(ids[i]), text);
    }
    assert_int_equal(s.closes, 0);
    h2_close(&c);
}

/* The client ignores what we said we would take at once: refused, and the others go on. */
static void test_too_many_streams(void **state)
{
    static const char *const fields[] = {":method", "GET",        ":path", "/", ":scheme",
                                         "https",   ":authority", "a",     NULL};
    struct seen s = {0};
    uint8_t block[256];
    size_t n = h2_block(fields, block);

    (void)state;
    h2_open(&c, NULL, keep, &s);
    h2_turn(&c);
    for (uint32_t i = 0; i < 140; i++)
        h2_raw(&c, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, 1 + 2 * i,
               block, n);
    rig_turn(&c.rig);
    assert_int_equal(s.requests, 128);
    h2_close(&c);
    assert_int_equal(s.closes, 128);
}

/* Streams in and out. */

static void on_data(void *arg, struct atoll_http_request *req, const uint8_t *bytes, size_t n)
{
    struct seen *s = arg;

    (void)bytes;
    s->bytes += n;
    if (s->bytes == n) /* the first piece */
        atoll_http_body_pause(req);
}

static void on_end(void *arg, struct atoll_http_request *req)
{
    struct seen *s = arg;

    s->ends++;
    atoll_http_respond(req, 200, NULL, "ok", 2);
}

static void upload(void *arg, struct atoll_http_request *req)
{
    if (strcmp(atoll_http_path(req), "/up") != 0) {
        atoll_http_respond(req, 200, NULL, "other", 5);
        return;
    }
    keep(arg, req);
    atoll_http_body_stream(req, on_data, on_end, arg);
}

static void test_upload_waits_for_the_handler(void **state)
{
    const size_t size = 8 * 1024 * 1024;
    uint8_t *body = calloc(1, size);
    struct seen s = {0};
    int32_t id, other;

    (void)state;
    h2_open(&c, NULL, upload, &s);
    id = h2_post(&c, "/up", body, size);
    h2_turn(&c);
    assert_true(s.bytes > 0 && s.bytes <= 64 * 1024);
    /* What is on its way is bounded by the window; the connection still serves others. */
    assert_true(c.sent <= 1024 * 1024 + 128 * 1024);
    other = h2_ask(&c, "GET", "/other");
    h2_turn(&c);
    assert_string_equal(body_of(other), "other");
    assert_int_equal(s.ends, 0);
    atoll_http_body_resume(s.req[0]);
    h2_turn(&c);
    assert_int_equal(s.bytes, size);
    assert_int_equal(s.ends, 1);
    assert_string_equal(body_of(id), "ok");
    free(body);
    h2_close(&c);
}

/* Many paused uploads of one client: what we hold for it is bounded. */
static void test_paused_uploads_are_bounded(void **state)
{
    const size_t size = 2 * 1024 * 1024, count = 20;
    uint8_t *body = calloc(1, size);
    struct seen s = {0};

    (void)state;
    h2_open(&c, NULL, keep, &s);
    for (size_t i = 0; i < count; i++)
        h2_post(&c, "/", body, size);
    h2_turn(&c);
    assert_int_equal(s.requests, count);
    assert_true(c.sent <= count * 64 * 1024); /* nobody asked for them yet */
    for (size_t i = 0; i < count; i++) {
        atoll_http_body_stream(s.req[i], on_data, on_end, &s);
        atoll_http_body_pause(s.req[i]);
    }
    h2_turn(&c);
    assert_true(c.sent <= 6 * 1024 * 1024);
    s.bytes = 1; /* on_data is not to pause */
    for (size_t i = 0; i < count; i++)
        atoll_http_body_resume(s.req[i]);
    h2_turn(&c);
    assert_int_equal(s.bytes, 1 + count * size);
    assert_int_equal(s.ends, count);
    free(body);
    h2_close(&c);
}

#define PIECE (32 * 1024)
#define TOTAL (4 * 1024 * 1024)

static void fill(struct seen *s, struct atoll_http_request *req)
{
    static const uint8_t piece[PIECE];

    while (s->bytes < TOTAL && atoll_http_pending(req) <= ATOLL_HTTP_HIGH_WATER) {
        assert_int_equal(atoll_http_write(req, piece, sizeof(piece)), 0);
        s->bytes += sizeof(piece);
    }
    if (s->bytes == TOTAL)
        atoll_http_end(req);
}

static void on_drain(void *arg, struct atoll_http_request *req)
{
    struct seen *s = arg;

    s->drains++;
    fill(s, req);
}

static void download(void *arg, struct atoll_http_request *req)
{
    struct seen *s = arg;

    keep(s, req);
    atoll_http_on_drain(req, on_drain, s);
    atoll_http_begin(req, 200, "application/octet-stream", TOTAL);
    fill(s, req);
}

static void test_download_waits_for_the_client(void **state)
{
    struct seen s = {0};
    int32_t id;

    (void)state;
    h2_open(&c, NULL, download, &s);
    c.hold = true;
    id = h2_ask(&c, "GET", "/");
    h2_turn(&c);
    assert_int_equal(atoll_buf_size(&h2_reply(&c, id)->body), 65535);
    assert_true(s.bytes < 300 * 1024);
    assert_int_equal(nghttp2_session_consume(c.lib, id, 65535), 0);
    c.hold = false;
    h2_turn(&c);
    assert_int_equal(atoll_buf_size(&h2_reply(&c, id)->body), TOTAL);
    assert_true(h2_reply(&c, id)->closed);
    assert_int_equal(h2_reply(&c, id)->code, NGHTTP2_NO_ERROR);
    assert_true(s.drains > 2);
    assert_int_equal(s.closes, 0);
    h2_close(&c);
}

static void test_endings(void **state)
{
    static const uint8_t body[1024 * 1024];
    struct seen s = {0};
    int32_t aborted, short_one, reset, early, head;

    (void)state;
    h2_open(&c, NULL, keep, &s);
    aborted = h2_ask(&c, "GET", "/");
    short_one = h2_ask(&c, "GET", "/");
    reset = h2_ask(&c, "GET", "/");
    early = h2_post(&c, "/", body, sizeof(body)); /* more than anybody takes unasked */
    head = h2_ask(&c, "HEAD", "/");
    h2_turn(&c);
    assert_int_equal(s.requests, 5);
    atoll_http_begin(s.req[0], 200, NULL, -1);
    assert_int_equal(atoll_http_write(s.req[0], "part", 4), 0);
    atoll_http_abort(s.req[0]);
    atoll_http_begin(s.req[1], 200, NULL, 10);
    assert_int_equal(atoll_http_write(s.req[1], "12345678901", 11), -EOVERFLOW);
    assert_int_equal(atoll_http_write(s.req[1], "12345", 5), 0);
    atoll_http_end(s.req[1]);
    assert_int_equal(nghttp2_submit_rst_stream(c.lib, 0, reset, NGHTTP2_CANCEL), 0);
    atoll_http_respond(s.req[3], 403, NULL, "no", 2);
    atoll_http_begin(s.req[4], 200, NULL, -1);
    assert_int_equal(atoll_http_write(s.req[4], "unseen", 6), 0);
    h2_turn(&c);
    assert_int_equal(h2_reply(&c, aborted)->code, NGHTTP2_INTERNAL_ERROR);
    assert_int_equal(h2_reply(&c, short_one)->code, NGHTTP2_INTERNAL_ERROR);
    assert_int_equal(s.closes, 1);
    assert_null(s.req[2]);
    assert_int_equal(h2_reply(&c, early)->status, 403);
    assert_string_equal(body_of(early), "no");
    assert_false(h2_reply(&c, early)->closed); /* some clients would not look at the answer */
    assert_false(h2_reply(&c, head)->closed);
    atoll_http_end(s.req[4]);
    h2_turn(&c);
    assert_true(h2_reply(&c, head)->closed);
    assert_int_equal(atoll_buf_size(&h2_reply(&c, head)->body), 0);
    for (int i = 0; i < 1000 && !h2_reply(&c, early)->closed; i++) {
        assert_int_equal(atoll_loop_step(c.rig.loop, 2, NULL), 0);
        (void)h2_receive(&c);
    }
    assert_true(h2_reply(&c, early)->closed);
    assert_int_equal(h2_reply(&c, early)->code, NGHTTP2_NO_ERROR);
    assert_true(c.sent <= 64 * 1024); /* nobody made it go on */
    assert_false(c.went_away);
    h2_close(&c);
}

static void test_client_goes_away(void **state)
{
    struct seen s = {0};

    (void)state;
    h2_open(&c, NULL, keep, &s);
    for (int i = 0; i < 10; i++)
        h2_ask(&c, "GET", "/");
    h2_turn(&c);
    close(c.rig.fd);
    c.rig.fd = -1;
    for (int i = 0; i < 5; i++)
        assert_int_equal(atoll_loop_step(c.rig.loop, 1, NULL), 0);
    assert_int_equal(s.closes, 10);
    assert_int_equal(atoll_http_server_connections(c.rig.server), 0);
    h2_close(&c);
}

static void test_timeouts(void **state)
{
    const struct atoll_http_limits limits = {.header_ms = 100, .idle_ms = 200};
    static const uint8_t block[] = {0x82};
    static const char *const fields[] = {":method", "POST",       ":path", "/", ":scheme",
                                         "https",   ":authority", "a",     NULL};
    static const char *const refused[] = {":method",    "GET",   ":path",      "/",
                                          ":scheme",    "https", ":authority", "a",
                                          "connection", "close", NULL};
    struct seen s = {0};
    uint8_t raw[256];

    (void)state;
    /* A body that does not come. */
    h2_open(&c, &limits, echo, &s);
    (void)h2_send(&c);
    h2_raw(&c, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, raw, h2_block(fields, raw));
    rig_turn_ms(&c.rig, 600);
    assert_int_equal(s.closes, 1);
    h2_close(&c);

    /* A header block that does not end. */
    h2_open(&c, &limits, echo, &s);
    (void)h2_send(&c);
    h2_raw(&c, NGHTTP2_HEADERS, 0, 1, block, sizeof(block));
    rig_turn_ms(&c.rig, 400);
    assert_true(c.rig.ended);
    h2_close(&c);

    /* A header block that was refused is none to wait for. */
    h2_open(&c, &limits, keep, &s);
    h2_turn(&c);
    (void)h2_ask(&c, "GET", "/");
    h2_turn(&c);
    h2_raw(&c, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, 3, raw,
           h2_block(refused, raw));
    rig_turn_ms(&c.rig, 400);
    assert_false(c.rig.ended);
    h2_close(&c);

    /* Nothing at all, before and after the preface. */
    h2_open(&c, &limits, echo, &s);
    rig_turn_ms(&c.rig, 400);
    assert_true(c.rig.ended);
    h2_close(&c);
    h2_open(&c, &limits, echo, &s);
    h2_turn(&c);
    for (int i = 0; i < 300 && !c.went_away; i++) {
        assert_int_equal(atoll_loop_step(c.rig.loop, 2, NULL), 0);
        (void)h2_receive(&c);
    }
    assert_true(c.went_away);
    assert_int_equal(c.goaway_code, NGHTTP2_NO_ERROR);
    h2_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_request_and_answer),
        cmocka_unit_test(test_passed_on),
        cmocka_unit_test(test_bodies_collected),
        cmocka_unit_test(test_hundred_streams),
        cmocka_unit_test(test_too_many_streams),
        cmocka_unit_test(test_upload_waits_for_the_handler),
        cmocka_unit_test(test_paused_uploads_are_bounded),
        cmocka_unit_test(test_download_waits_for_the_client),
        cmocka_unit_test(test_endings),
        cmocka_unit_test(test_client_goes_away),
        cmocka_unit_test(test_timeouts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

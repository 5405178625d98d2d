/* The HTTP server from a client's point of view, and the promises made to handlers. */
#include <arpa/inet.h>
#include "test_http_util.h"

/* What the handler of a test saw and did. */
struct seen {
    size_t requests, bodies, ends, closes, drains;
    struct atoll_buf body;
    struct atoll_http_request *req; /* kept by asynchronous handlers */
    size_t written;
};

static void seen_init(struct seen *s)
{
    *s = (struct seen){0};
    atoll_buf_init(&s->body, 64 * 1024 * 1024);
}

static void on_close(void *arg, struct atoll_http_request *req)
{
    struct seen *s = arg;

    (void)req;
    s->closes++;
    s->req = NULL;
}

static void hello(void *arg, struct atoll_http_request *req)
{
    struct seen *s = arg;

    s->requests++;
    atoll_http_respond(req, 200, "text/plain", "hello", 5);
}

static void collected(void *arg, struct atoll_http_request *req, const uint8_t *bytes, size_t n)
{
    struct seen *s = arg;

    s->bodies++;
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

static void later(void *arg, struct atoll_http_request *req)
{
    struct seen *s = arg;

    s->requests++;
    s->req = req;
    atoll_http_on_close(req, on_close, s);
}

static void test_keep_alive_and_pipelining(void **state)
{
    struct seen s;
    struct rig r;
    const char *got;

    (void)state;
    seen_init(&s);
    rig_open(&r, NULL, hello, &s);
    for (int i = 0; i < 3; i++) {
        got = rig_ask(&r, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_starts(got, "HTTP/1.1 200 OK\r\nDate: ");
        assert_contains(got, "\r\nContent-Length: 5\r\n\r\nhello");
    }
    got = rig_ask(&r, "GET /1 HTTP/1.1\r\nHost: a\r\n\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n"
                      "GET /3 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET /4");
    assert_int_equal(count_of(got, "hello"), 3);
    assert_int_equal(count_of(got, "Connection: close"), 1);
    assert_int_equal(s.requests, 6);
    assert_true(r.ended);
    rig_close(&r);
}

static void test_pipelined_requests_wait_for_the_answer(void **state)
{
    struct seen s;
    struct rig r;

    (void)state;
    seen_init(&s);
    rig_open(&r, NULL, later, &s);
    assert_string_equal(rig_ask(&r, "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: "
                                    "a\r\n\r\n"),
                        "");
    assert_int_equal(s.requests, 1);
    assert_string_equal(atoll_http_path(s.req), "/1");
    atoll_http_respond(s.req, 200, NULL, "one", 3);
    rig_turn(&r);
    assert_int_equal(s.requests, 2);
    assert_string_equal(atoll_http_path(s.req), "/2");
    atoll_http_respond(s.req, 200, NULL, "two", 3);
    rig_turn(&r);
    assert_contains(rig_text(&r), "one");
    assert_contains(strstr(rig_text(&r), "one"), "two");
    assert_int_equal(s.closes, 0);
    rig_close(&r);
    assert_int_equal(s.closes, 0);
}

static void describe(void *arg, struct atoll_http_request *req)
{
    const char *name, *value;
    const struct atoll_http_peer *peer = atoll_http_peer(req);

    (void)arg;
    assert_int_equal(atoll_http_method(req), ATOLL_PATCH);
    assert_string_equal(atoll_http_method_name(ATOLL_PATCH), "PATCH");
    assert_string_equal(atoll_http_path(req), "/a b/\xc3\xa4");
    assert_string_equal(atoll_http_target(req), "/a%20b/%C3%a4?x=1+2%263&flag&x=9&e=");
    assert_string_equal(atoll_http_query(req, "x"), "1 2&3");
    assert_string_equal(atoll_http_query(req, "flag"), "");
    assert_string_equal(atoll_http_query(req, "e"), "");
    assert_null(atoll_http_query(req, "y"));
    assert_string_equal(atoll_http_header(req, "x-ONE"), "uno due");
    assert_string_equal(atoll_http_header(req, "empty"), "");
    assert_null(atoll_http_header(req, "none"));
    assert_true(atoll_http_header_at(req, 2, &name, &value));
    assert_string_equal(name, "Empty");
    assert_false(atoll_http_header_at(req, 3, &name, &value));
    assert_int_equal(atoll_http_content_length(req), 0);
    assert_true(peer->is_unix);
    assert_int_equal(peer->uid, getuid());
    assert_int_equal(peer->pid, getpid());
    assert_string_equal(peer->address, "unix");
    atoll_http_set_user(req, (void *)peer);
    assert_ptr_equal(atoll_http_user(req), peer);
    assert_int_equal(atoll_http_set_header(req, "X-Bad", "a\r\nb"), -EINVAL);
    assert_int_equal(atoll_http_set_header(req, "X Bad", "a"), -EINVAL);
    assert_int_equal(atoll_http_set_header(req, "Content-Length", "1"), -EINVAL);
    assert_int_equal(atoll_http_set_header(req, "X-Good", "yes"), 0);
    atoll_http_respond(req, 201, "application/json", "{}", 2);
}

static void test_accessors(void **state)
{
    struct rig r;
    const char *got;

    (void)state;
    rig_open(&r, NULL, describe, NULL);
    got = rig_ask(&r, "PATCH /a%20b/%C3%a4?x=1+2%263&flag&x=9&e= HTTP/1.1\r\nHost: a\r\n"
                      "X-One:   uno due \t\r\nEmpty:\r\n\r\n");
    assert_starts(got, "HTTP/1.1 201 Created\r\n");
    assert_contains(got, "\r\nContent-Type: application/json\r\n");
    assert_contains(got, "\r\nX-Good: yes\r\n");
    rig_close(&r);
}

static void test_collected_bodies(void **state)
{
    struct seen s;
    struct rig r;

    (void)state;
    seen_init(&s);
    rig_open(&r, NULL, echo, &s);
    assert_contains(rig_ask(&r, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody"),
                    "\r\n\r\nbody");
    assert_contains(rig_ask(&r, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"), "Content-Length: 0\r\n");
    rig_ask(&r, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\nin ");
    assert_contains(rig_ask(&r, "parts"), "\r\n\r\nin parts");
    assert_contains(rig_ask(&r, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                                "2\r\nab\r\n3;ext=1\r\ncde\r\n0\r\nTrailer: x\r\n\r\n"),
                    "\r\n\r\nabcde");
    assert_int_equal(s.bodies, 4);
    assert_int_equal(s.closes, 0);
    rig_close(&r);
}

static void test_too_large_bodies(void **state)
{
    static const char *const asks[] = {
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 101\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 101\r\n\r\n",
    };

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(asks); i++) {
        struct seen s;
        struct rig r;
        const char *got;
        seen_init(&s);
        rig_open(&r, NULL, echo, &s);
        got = rig_ask(&r, asks[i]);
        assert_starts(got, "HTTP/1.1 413 ");
        assert_contains(got, "{\"error\":{\"code\":\"resource_exhausted\",\"message\":\"");
        assert_contains(got, "\"hint\":\"");
        assert_true(r.ended);
        assert_int_equal(s.bodies, 0);
        assert_int_equal(s.closes, 1);
        rig_close(&r);
    }
}

static void test_too_large_chunked_body(void **state)
{
    struct seen s;
    struct rig r;

    (void)state;
    seen_init(&s);
    rig_open(&r, NULL, echo, &s);
    rig_ask(&r, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 10; i++)
        assert_string_equal(rig_ask(&r, "a\r\n0123456789\r\n"), "");
    assert_starts(rig_ask(&r, "1\r\nx\r\n"), "HTTP/1.1 413 ");
    assert_int_equal(s.closes, 1);
    rig_close(&r);
}

static void too_large(void *arg, struct atoll_http_request *req)
{
    struct seen *s = arg;

    s->closes += 10; /* once: nothing else comes for this request */
    atoll_http_respond(req, 429, "text/plain", "less", 4);
}

static void echo_or_say(void *arg, struct atoll_http_request *req)
{
    atoll_http_on_close(req, on_close, arg);
    atoll_http_body_collect(req, 10, collected, too_large, arg);
}

/* The handler's own answer instead; what is left of a short body is read past. */
static void test_too_large_for_the_handler(void **state)
{
    struct seen s;
    struct rig r;

    (void)state;
    seen_init(&s);
    rig_open(&r, NULL, echo_or_say, &s);
    assert_starts(rig_ask(&r, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\n\r\n0123"),
                  "HTTP/1.1 429 ");
    assert_starts(rig_ask(&r, "456789ab"
                              "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"),
                  "HTTP/1.1 200 ");
    assert_starts(rig_ask(&r, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                              "8\r\n01234567\r\n3\r\nabc\r\n"),
                  "HTTP/1.1 429 ");
    rig_connect(&r); /* how much of a chunked body follows is not known: the connection has ended */
    assert_starts(rig_ask(&r, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\na"),
                  "HTTP/1.1 200 ");
    assert_int_equal(s.closes, 20);
    assert_int_equal(s.bodies, 2);
    rig_close(&r);
}

static void test_continue(void **state)
{
    struct seen s;
    struct rig r;

    (void)state;
    seen_init(&s);
    rig_open(&r, NULL, echo, &s);
    assert_string_equal(rig_ask(&r, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n"
                                    "Expect: 100-continue\r\n\r\n"),
                        "HTTP/1.1 100 Continue\r\n\r\n");
    assert_contains(rig_ask(&r, "ok"), "\r\n\r\nok");
    assert_starts(rig_ask(&r, "GET / HTTP/1.1\r\nHost: a\r\nExpect: tea\r\n\r\n"), "HTTP/1.1 417 ");
    rig_close(&r);

    /* Answered without asking for the body: whether it comes is unknown, so the end. */
    rig_open(&r, NULL, hello, &s);
    assert_contains(rig_ask(&r, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n"
                                "Expect: 100-continue\r\n\r\n"),
                    "Connection: close");
    assert_true(r.ended);
    rig_close(&r);
}

static void test_unwanted_bodies(void **state)
{
    static char big[300 * 1024];
    struct seen s;
    struct rig r;

    (void)state;
    seen_init(&s);
    memset(big, 'x', sizeof(big));
    rig_open(&r, NULL, hello, &s);
    /* Small: dropped, the connection lives. */
    rig_ask(&r, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n");
    rig_send(&r, big, 60000);
    assert_contains(rig_ask(&r, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"), "hello");
    assert_int_equal(s.requests, 2);
    /* Each body has its own allowance. */
    for (int i = 0; i < 3; i++) {
        rig_ask(&r, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 40000\r\n\r\n");
        rig_send(&r, big, 40000);
        rig_turn(&r);
        assert_false(r.ended);
    }
    /* Large and announced: the answer says that the connection ends, and it arrives. */
    assert_contains(rig_ask(&r, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n"),
                    "Connection: close");
    rig_send(&r, big, sizeof(big));
    rig_turn(&r);
    assert_true(r.ended);
    /* Chunked, so that its size is not known: likewise. */
    rig_connect(&r);
    assert_contains(
        rig_ask(&r, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n40000\r\n"),
        "Connection: close");
    rig_send(&r, big, 0x10000);
    rig_turn(&r);
    assert_true(r.ended);
    rig_close(&r);
}

static void on_data(void *arg, struct atoll_http_request *req, const uint8_t *bytes, size_t n)
{
    struct seen *s = arg;

    s->bodies++;
    assert_int_equal(atoll_buf_append(&s->body, bytes, n), 0);
    atoll_http_body_pause(req);
}

static void on_end(void *arg, struct atoll_http_request *req)
{
    struct seen *s = arg;

    s->ends++;
    atoll_http_respond(req, 200, NULL, "done", 4);
    s->req = NULL;
}

static void upload(void *arg, struct atoll_http_request *req)
{
    struct seen *s = arg;

    s->req = req;
    atoll_http_on_close(req, on_close, s);
    atoll_http_body_stream(req, on_data, on_end, s);
}

static void test_upload_back_pressure(void **state)
{
    enum { TOTAL = 8 * 1024 * 1024 };
    ATOLL_AUTOFREE uint8_t *data = malloc(TOTAL);
    struct seen s;
    struct rig r;
    size_t sent = 0, stalled_at = 0;

    (void)state;
    seen_init(&s);
    for (size_t i = 0; i < TOTAL; i++)
        data[i] = (uint8_t)(i * 7 + i / 251);
    rig_open(&r, NULL, upload, &s);
    rig_ask(&r, "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 8388608\r\n\r\n");
    while (sent < TOTAL) {
        ssize_t n = send(r.fd, data + sent, TOTAL - sent, MSG_NOSIGNAL);
        if (n > 0) {
            sent += (size_t)n;
            continue;
        }
        /* The socket is full and the handler paused: nothing moves until it resumes. */
        rig_turn(&r);
        if (stalled_at == 0) {
            stalled_at = atoll_buf_size(&s.body);
            assert_true(stalled_at <= 64 * 1024);
            rig_turn(&r);
            assert_int_equal(atoll_buf_size(&s.body), stalled_at);
        }
        atoll_http_body_resume(s.req);
        assert_int_equal(atoll_loop_step(r.loop, 1, NULL), 0);
    }
    while (s.ends == 0) {
        atoll_http_body_resume(s.req);
        assert_int_equal(atoll_loop_step(r.loop, 1, NULL), 0);
    }
    rig_turn(&r);
    assert_contains(rig_text(&r), "done");
    assert_int_equal(atoll_buf_size(&s.body), TOTAL);
    assert_memory_equal(atoll_buf_head(&s.body), data, TOTAL);
    assert_int_equal(s.ends, 1);
    assert_int_equal(s.closes, 0);
    atoll_buf_done(&s.body);
    rig_close(&r);
}

static void test_cut_upload(void **state)
{
    struct seen s;
    struct rig r;

    (void)state;
    seen_init(&s);
    rig_open(&r, NULL, upload, &s);
    rig_ask(&r, "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc");
    assert_int_equal(atoll_buf_size(&s.body), 3);
    shutdown(r.fd, SHUT_WR);
    rig_turn(&r);
    assert_int_equal(s.closes, 1);
    assert_int_equal(s.ends, 0);
    assert_string_equal(rig_text(&r), "");
    rig_connect(&r);
    /* A malformed chunk in the middle: answered here, and the handler is told. */
    s.closes = 0;
    rig_ask(&r, "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc");
    atoll_http_body_resume(s.req);
    assert_starts(rig_ask(&r, "x\r\n"), "HTTP/1.1 400 ");
    assert_int_equal(s.closes, 1);
    atoll_buf_done(&s.body);
    rig_close(&r);
}

static void block(void *arg, struct atoll_http_request *req)
{
    static const char bytes[32 * 1024];
    struct seen *s = arg;

    s->requests++;
    atoll_http_respond(req, 200, NULL, bytes, sizeof(bytes));
}

/* A client that asks and asks but reads no answer: answers do not pile up here. */
static void test_pipelining_back_pressure(void **state)
{
    enum { ASKED = 500, SIZE = 27 };
    static char asks[ASKED * SIZE];
    struct seen s;
    struct rig r;

    (void)state;
    seen_init(&s);
    rig_open(&r, NULL, block, &s);
    for (size_t i = 0; i < ASKED; i++)
        memcpy(asks + i * SIZE, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", SIZE);
    assert_int_equal(send(r.fd, asks, sizeof(asks), 0), sizeof(asks));
    for (int i = 0; i < 20; i++)
        assert_int_equal(atoll_loop_step(r.loop, 1, NULL), 0);
    assert_true(s.requests < 50);
    rig_turn(&r);
    assert_int_equal(s.requests, ASKED);
    assert_true(atoll_buf_size(&r.got) > (size_t)ASKED * 32 * 1024);
    rig_close(&r);
}

static void test_method_and_version_rules(void **state)
{
    struct seen s;
    struct rig r;
    const char *got;

    (void)state;
    seen_init(&s);
    rig_open(&r, NULL, hello, &s);
    got = rig_ask(&r, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_contains(got, "Content-Length: 5\r\n\r\n");
    assert_null(strstr(got, "hello"));
    assert_contains(rig_ask(&r, "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"), "hello");
    assert_contains(rig_ask(&r, "GET http://b/x HTTP/1.1\r\nHost: a\r\n\r\n"), "hello");
    got = rig_ask(&r, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_contains(got, "Connection: keep-alive\r\n");
    got = rig_ask(&r, "GET / HTTP/1.0\r\n\r\n");
    assert_contains(got, "Connection: close\r\n");
    assert_true(r.ended);
    rig_connect(&r);
    assert_starts(rig_ask(&r, "TRACE / HTTP/1.1\r\nHost: a\r\n\r\n"), "HTTP/1.1 501 ");
    rig_close(&r);
}

/* A connection from that address of this host. */
static int connect_from(const char *address, uint16_t port)
{
    struct sockaddr_in from = {.sin_family = AF_INET};
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(inet_pton(AF_INET, address, &from.sin_addr), 1);
    assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

static void ask_on(struct rig *r, int fd, const char *starts)
{
    struct rig other = {.loop = r->loop, .server = r->server, .fd = fd};

    atoll_buf_init(&other.got, 4096 + 65536);
    rig_send(&other, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 27);
    while (!other.ended && atoll_buf_size(&other.got) == 0)
        rig_turn(&other);
    assert_starts(rig_text(&other), starts);
    atoll_buf_done(&other.got);
}

static void test_one_address_does_not_take_all(void **state)
{
    const struct atoll_http_limits limits = {.connections = 4};
    struct seen s;
    struct rig r;
    uint16_t port;
    int fds[4], other;

    (void)state;
    seen_init(&s);
    rig_open(&r, &limits, hello, &s); /* with one connection, of the unix socket */
    assert_int_equal(atoll_http_server_listen_tcp(r.server, "127.0.0.1:0", &port, NULL), 0);
    for (int i = 0; i < 4; i++) {
        fds[i] = connect_from("127.0.0.2", port);
        ask_on(&r, fds[i], i < 3 ? "HTTP/1.1 200 " : "HTTP/1.1 503 ");
    }
    other = connect_from("127.0.0.3", port);
    ask_on(&r, other, "HTTP/1.1 200 ");
    assert_int_equal(atoll_http_server_connections(r.server), 5);
    for (int i = 0; i < 4; i++)
        close(fds[i]);
    close(other);
    while (atoll_http_server_connections(r.server) > 1)
        rig_turn(&r);
    rig_close(&r);
}

static void test_many_addresses_have_an_end(void **state)
{
    static const char *const addresses[] = {"127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5"};
    const struct atoll_http_limits limits = {.connections = 1};
    struct seen s;
    struct rig r;
    uint16_t port;
    int fds[4];

    (void)state;
    seen_init(&s);
    rig_open(&r, &limits, hello, &s); /* with one connection, of the unix socket */
    assert_int_equal(atoll_http_server_listen_tcp(r.server, "127.0.0.1:0", &port, NULL), 0);
    for (int i = 0; i < 4; i++) {
        fds[i] = connect_from(addresses[i], port);
        ask_on(&r, fds[i], i < 3 ? "HTTP/1.1 200 " : "HTTP/1.1 503 ");
    }
    for (int i = 0; i < 4; i++)
        close(fds[i]);
    rig_close(&r);
}

static void test_client_goes_away(void **state)
{
    struct seen s;
    struct rig r;

    (void)state;
    seen_init(&s);
    rig_open(&r, NULL, later, &s);
    rig_ask(&r, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_non_null(s.req);
    close(r.fd);
    r.fd = -1;
    for (int i = 0; i < 5; i++)
        assert_int_equal(atoll_loop_step(r.loop, 1, NULL), 0);
    assert_int_equal(s.closes, 1);
    assert_int_equal(atoll_http_server_connections(r.server), 0);
    /* A request still open when the server goes is told as well. */
    rig_connect(&r);
    rig_ask(&r, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    rig_close(&r);
    assert_int_equal(s.closes, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keep_alive_and_pipelining),
        cmocka_unit_test(test_pipelined_requests_wait_for_the_answer),
        cmocka_unit_test(test_accessors),
        cmocka_unit_test(test_collected_bodies),
        cmocka_unit_test(test_too_large_bodies),
        cmocka_unit_test(test_too_large_chunked_body),
        cmocka_unit_test(test_too_large_for_the_handler),
        cmocka_unit_test(test_continue),
        cmocka_unit_test(test_unwanted_bodies),
        cmocka_unit_test(test_upload_back_pressure),
        cmocka_unit_test(test_cut_upload),
        cmocka_unit_test(test_pipelining_back_pressure),
        cmocka_unit_test(test_method_and_version_rules),
        cmocka_unit_test(test_one_address_does_not_take_all),
        cmocka_unit_test(test_many_addresses_have_an_end),
        cmocka_unit_test(test_client_goes_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The client against the real server, which runs on a thread of its own. */
#include <pthread.h>
#include <sys/eventfd.h>
#include "base/rand.h"
#include "net/http_client.h"
#include "net/tls.h"
#include "net/websocket.h"
#include "test_http_util.h"

struct site {
    struct atoll_loop *loop;
    struct atoll_http_server *server;
    struct atoll_watch stop;
    int stop_fd;
    pthread_t thread;
    char dir[64], path[100], url[64];
    char tls_url[64], everywhere_url[64], ca_file[100];
    size_t requests, connections_seen; /* server thread; read after a reply */
    struct atoll_ws *ws;
};

static void ws_message(void *arg, struct atoll_ws *ws, bool binary, const uint8_t *bytes, size_t n)
{
    (void)arg;
    if (n == 5 && memcmp(bytes, "close", 5) == 0)
        atoll_ws_close(ws, 4001, "as you wish");
    else if (atoll_ws_send(ws, binary, bytes, n) < 0)
        atoll_ws_close(ws, ATOLL_WS_INTERNAL, NULL);
    /* Back-pressure: an echo that cannot leave stops the reading. */
    if (atoll_ws_pending(ws) > ATOLL_HTTP_HIGH_WATER)
        atoll_ws_pause(ws);
}

static void ws_drain(void *arg, struct atoll_ws *ws)
{
    (void)arg;
    atoll_ws_resume(ws);
}

static void ws_close(void *arg, struct atoll_ws *ws, uint16_t code)
{
    struct site *site = arg;

    (void)code;
    site->ws = atoll_ws_free(ws);
}

static void echoed(void *arg, struct atoll_http_request *req, const uint8_t *bytes, size_t n)
{
    (void)arg;
    assert_int_equal(
        atoll_http_set_header(req, "X-Method", atoll_http_method_name(atoll_http_method(req))), 0);
    atoll_http_respond(req, 200, "text/plain", bytes, n);
}

static void count_piece(void *arg, struct atoll_http_request *req, const uint8_t *bytes, size_t n)
{
    (void)arg;
    for (size_t i = 0; i < n; i++)
        atoll_http_set_user(req, (void *)((uintptr_t)atoll_http_user(req) + bytes[i]));
}

static void counted(void *arg, struct atoll_http_request *req)
{
    char text[32];

    (void)arg;
    snprintf(text, sizeof(text), "%zu", (size_t)(uintptr_t)atoll_http_user(req));
    atoll_http_respond(req, 200, NULL, text, strlen(text));
}

static void pour(void *arg, struct atoll_http_request *req)
{
    static const uint8_t block[10000];
    size_t left = (size_t)atoll_http_user(req);

    while (left > 0 && atoll_http_pending(req) <= ATOLL_HTTP_HIGH_WATER) {
        size_t n = ATOLL_MIN(left, sizeof(block));
        if (atoll_http_write(req, block, n) < 0)
            return;
        left -= n;
    }
    atoll_http_set_user(req, (void *)left);
    if (left == 0) {
        if (atoll_http_query(req, "cut"))
            atoll_http_abort(req);
        else
            atoll_http_end(req);
    }
    (void)arg;
}

static void pour_begin(struct atoll_http_request *req)
{
    atoll_http_set_user(req, (void *)(size_t)3000000);
    atoll_http_on_drain(req, pour, NULL);
    atoll_http_begin(req, 200, NULL, atoll_http_query(req, "length") ? 3000000 : -1);
    pour(NULL, req);
}

static void route(void *arg, struct atoll_http_request *req)
{
    static const struct atoll_ws_callbacks callbacks = {ws_message, ws_drain, ws_close};
    struct site *site = arg;
    const char *path = atoll_http_path(req);

    site->requests++;
    site->connections_seen = atoll_http_server_connections(site->server);
    if (strcmp(path, "/echo") == 0)
        atoll_http_body_collect(req, 1 << 20, echoed, NULL, NULL);
    else if (strcmp(path, "/count") == 0)
        atoll_http_body_stream(req, count_piece, counted, NULL);
    else if (strcmp(path, "/early") == 0)
        atoll_http_respond_error(req, 409, "aborted", "no need for it", NULL);
    else if (strcmp(path, "/pour") == 0)
        pour_begin(req);
    else if (strcmp(path, "/never") == 0)
        ; /* not answered */
    else if (strcmp(path, "/abort") == 0)
        atoll_http_abort(req);
    else if (strcmp(path, "/ws") != 0 ||
             atoll_ws_accept(req, &callbacks, site, 1 << 20, &site->ws, NULL) < 0)
        atoll_http_respond_error(req, 404, "not_found", "nothing here", NULL);
}

static void stop(void *arg, uint32_t events)
{
    (void)events;
    atoll_loop_stop(((struct site *)arg)->loop);
}

static void *serve(void *arg)
{
    assert_int_equal(atoll_loop_run(((struct site *)arg)->loop, NULL), 0);
    return NULL;
}

static void site_open(struct site *site, const struct atoll_http_limits *limits)
{
    struct atoll_tls_config tls = {0};
    uint16_t port;

    *site = (struct site){.stop_fd = eventfd(0, EFD_CLOEXEC)};
    snprintf(site->dir, sizeof(site->dir), "/tmp/atoll-test-XXXXXX");
    assert_non_null(mkdtemp(site->dir));
    snprintf(site->path, sizeof(site->path), "%s/s", site->dir);
    assert_int_equal(atoll_loop_new(&site->loop, NULL), 0);
    assert_int_equal(atoll_watch_open(&site->stop, site->loop, site->stop_fd, EPOLLIN, stop, site),
                     0);
    assert_int_equal(atoll_http_server_new(site->loop, limits, route, site, &site->server, NULL),
                     0);
    assert_int_equal(atoll_http_server_listen_unix(site->server, site->path, 0600, NULL), 0);
    assert_int_equal(atoll_http_server_listen_tcp(site->server, "127.0.0.1:0", &port, NULL), 0);
    snprintf(site->url, sizeof(site->url), "http://127.0.0.1:%u/", port);
    tls.state_fd = open(site->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(atoll_http_server_listen_tls(site->server, "127.0.0.1:0", &tls, &port, NULL),
                     0);
    snprintf(site->tls_url, sizeof(site->tls_url), "https://127.0.0.1:%u", port);
    assert_int_equal(atoll_http_server_listen_tls(site->server, "0.0.0.0:0", &tls, &port, NULL), 0);
    snprintf(site->everywhere_url, sizeof(site->everywhere_url), "https://0.0.0.0:%u", port);
    close(tls.state_fd);
    snprintf(site->ca_file, sizeof(site->ca_file), "%s/tls/cert.pem", site->dir);
    assert_int_equal(pthread_create(&site->thread, NULL, serve, site), 0);
}

static void site_close(struct site *site)
{
    static const char *const files[] = {"cert.pem", "key.pem", "ca.pem", "ca-key.pem"};
    uint64_t one = 1;

    assert_int_equal(write(site->stop_fd, &one, sizeof(one)), sizeof(one));
    pthread_join(site->thread, NULL);
    site->ws = atoll_ws_free(site->ws);
    atoll_watch_close(&site->stop);
    close(site->stop_fd);
    site->server = atoll_http_server_free(site->server);
    site->loop = atoll_loop_free(site->loop);
    unlink(site->path);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(files); i++) {
        snprintf(site->path, sizeof(site->path), "%s/tls/%s", site->dir, files[i]);
        unlink(site->path);
    }
    snprintf(site->path, sizeof(site->path), "%s/tls", site->dir);
    rmdir(site->path);
    assert_int_equal(rmdir(site->dir), 0);
}

static struct atoll_http_client *client_for(const char *where)
{
    struct atoll_http_client *client;
    struct atoll_error err;

    assert_int_equal(atoll_http_client_open(where, &client, &err), 0);
    return client;
}

/* The same site by unix socket, TCP and TLS. */
enum { WAYS = 3, TLS_WAY = 2 };

static struct atoll_http_client *client_by(const struct site *site, int way)
{
    const char *const where[WAYS] = {site->path, site->url, site->tls_url};
    struct atoll_http_client *client = client_for(where[way]);
    struct atoll_error err;

    if (way == TLS_WAY)
        assert_int_equal(atoll_http_client_set_trust(client, site->ca_file, false, &err), 0);
    return client;
}

static void test_requests(void **state)
{
    const struct atoll_http_field headers[] = {{"X-Some", "thing"}, {NULL, NULL}};
    const struct atoll_http_field bad[] = {{"X-Some", "thing\r\nX-Other: y"}, {NULL, NULL}};
    struct site site;
    struct atoll_error err;
    struct atoll_http_reply reply;

    (void)state;
    site_open(&site, NULL);
    for (int i = 0; i < WAYS; i++) {
        struct atoll_http_client *c = client_by(&site, i);
        for (int k = 0; k < 3; k++) {
            assert_int_equal(atoll_http_client_request(c, "POST", "/echo", headers, "hello", 5, 100,
                                                       &reply, &err),
                             0);
            assert_int_equal(reply.status, 200);
            assert_string_equal(atoll_http_reply_header(&reply, "x-method"), "POST");
            assert_null(atoll_http_reply_header(&reply, "x-none"));
            assert_string_equal(atoll_buf_str(&reply.body), "hello");
            atoll_http_reply_done(&reply);
        }
        assert_int_equal(site.connections_seen, 1); /* kept alive */
        assert_int_equal(
            atoll_http_client_request(c, "HEAD", "/echo", NULL, NULL, 0, 100, &reply, &err), 0);
        assert_int_equal(atoll_buf_size(&reply.body), 0);
        atoll_http_reply_done(&reply);
        assert_int_equal(
            atoll_http_client_request(c, "GET", "/nope", NULL, NULL, 0, 200, &reply, &err), 0);
        assert_int_equal(reply.status, 404);
        assert_contains(atoll_buf_str(&reply.body), "\"not_found\"");
        atoll_http_reply_done(&reply);
        assert_true(atoll_http_client_request(c, "GET", "/nope", bad, NULL, 0, 9, &reply, &err) <
                    0);
        assert_int_equal(err.kind, ATOLL_ERR_INVALID_ARGUMENT);
        assert_true(atoll_http_client_request(c, "GET", "/a b", NULL, NULL, 0, 9, &reply, &err) <
                    0);
        assert_int_equal(err.kind, ATOLL_ERR_INVALID_ARGUMENT);
        assert_true(atoll_http_client_request(c, "GET", "/nope", NULL, NULL, 0, 9, &reply, &err) <
                    0);
        assert_int_equal(err.kind, ATOLL_ERR_RESOURCE_EXHAUSTED);
        assert_true(atoll_http_client_request(c, "GET", "/abort", NULL, NULL, 0, 9, &reply, &err) <
                    0);
        assert_int_equal(err.kind, ATOLL_ERR_UNAVAILABLE);
        c = atoll_http_client_close(c);
    }
    site_close(&site);
}

struct source {
    size_t left, expected_sum, got;
    int fail_after;
};

static ssize_t read_source(void *arg, void *buf, size_t n)
{
    struct source *s = arg;

    if (s->fail_after > 0 && --s->fail_after == 0)
        return -EIO;
    n = ATOLL_MIN(ATOLL_MIN(n, s->left), (size_t)7777);
    for (size_t i = 0; i < n; i++)
        s->expected_sum += ((uint8_t *)buf)[i] = (uint8_t)(s->left - i);
    s->left -= n;
    return (ssize_t)n;
}

static int write_sink(void *arg, const void *bytes, size_t n)
{
    struct source *s = arg;

    (void)bytes;
    s->got += n;
    return s->fail_after < 0 ? -ENOSPC : 0;
}

static void try_uploads(int way)
{
    static const int64_t lengths[] = {-1, 3000000};
    struct site site;
    struct atoll_error err;
    struct atoll_http_reply reply;
    struct atoll_http_client *c;

    site_open(&site, NULL);
    c = client_by(&site, way);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(lengths); i++) {
        struct source s = {.left = 3000000};
        struct atoll_http_transfer t = {.read = read_source, .length = lengths[i], .arg = &s};
        char sum[32];
        assert_int_equal(atoll_http_client_stream(c, "PUT", "/count", NULL, &t, 100, &reply, &err),
                         0);
        snprintf(sum, sizeof(sum), "%zu", s.expected_sum);
        assert_string_equal(atoll_buf_str(&reply.body), sum);
        atoll_http_reply_done(&reply);
        /* Answered before the body is through: heard, and not taken for a failure. */
        s = (struct source){.left = 3000000};
        assert_int_equal(atoll_http_client_stream(c, "PUT", "/early", NULL, &t, 200, &reply, &err),
                         0);
        assert_int_equal(reply.status, 409);
        atoll_http_reply_done(&reply);
        s = (struct source){.left = 3000000, .fail_after = 3};
        assert_int_equal(atoll_http_client_stream(c, "PUT", "/count", NULL, &t, 100, &reply, &err),
                         -EIO);
        assert_int_equal(err.kind, ATOLL_ERR_CANCELED);
    }
    c = atoll_http_client_close(c);
    site_close(&site);
}

static void test_uploads(void **state)
{
    (void)state;
    for (int way = 0; way < WAYS; way++)
        try_uploads(way);
}

static void try_downloads(int way)
{
    struct source s = {0};
    struct atoll_http_transfer t = {.write = write_sink, .arg = &s};
    struct site site;
    struct atoll_error err;
    struct atoll_http_reply reply;
    struct atoll_http_client *c;

    site_open(&site, NULL);
    c = client_by(&site, way);
    for (int i = 0; i < 2; i++) {
        const char *whole = i == 0 ? "/pour" : "/pour?length";
        s = (struct source){0};
        assert_int_equal(atoll_http_client_stream(c, "GET", whole, NULL, &t, 0, &reply, &err), 0);
        assert_int_equal(s.got, 3000000);
        assert_int_equal(reply.status, 200);
        atoll_http_reply_done(&reply);
        assert_int_equal(site.connections_seen, 1);
    }
    /* A stream that is cut is a failure, however much of it came. */
    assert_true(atoll_http_client_stream(c, "GET", "/pour?cut", NULL, &t, 0, &reply, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_UNAVAILABLE);
    /* Errors are gathered, not written. */
    s = (struct source){0};
    assert_int_equal(atoll_http_client_stream(c, "GET", "/nope", NULL, &t, 200, &reply, &err), 0);
    assert_int_equal(reply.status, 404);
    assert_int_equal(s.got, 0);
    assert_contains(atoll_buf_str(&reply.body), "not_found");
    atoll_http_reply_done(&reply);
    s.fail_after = -1;
    assert_int_equal(atoll_http_client_stream(c, "GET", "/pour", NULL, &t, 0, &reply, &err),
                     -ENOSPC);
    c = atoll_http_client_close(c);
    site_close(&site);
}

static void test_downloads(void **state)
{
    (void)state;
    for (int way = 0; way < WAYS; way++)
        try_downloads(way);
}

static void test_unreachable(void **state)
{
    struct atoll_error err;
    struct atoll_http_reply reply;
    struct atoll_http_client *c = client_for("/nonexistent/atoll.sock");

    (void)state;
    assert_true(atoll_http_client_request(c, "GET", "/", NULL, NULL, 0, 0, &reply, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_UNAVAILABLE);
    assert_contains(err.text, "cannot reach atolld at /nonexistent/atoll.sock");
    assert_contains(err.text, "start it with `atolld`");
    c = atoll_http_client_close(c);
    c = client_for("http://127.0.0.1:1");
    assert_true(atoll_http_client_request(c, "GET", "/", NULL, NULL, 0, 0, &reply, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_UNAVAILABLE);
    assert_contains(err.text, "start it with `atolld`");
    c = atoll_http_client_close(c);
    assert_true(atoll_http_client_open("ftp://x", &c, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_INVALID_ARGUMENT);
}

static void test_timeout_reconnect_and_full_house(void **state)
{
    const struct atoll_http_limits limits = {.idle_ms = 400, .connections = 2};
    struct site site;
    struct atoll_error err;
    struct atoll_http_reply reply;
    struct atoll_http_client *c[3];

    (void)state;
    site_open(&site, &limits);
    for (int i = 0; i < 3; i++)
        c[i] = client_for(site.path);
    atoll_http_client_set_timeout(c[0], 50);
    assert_int_equal(
        atoll_http_client_request(c[0], "GET", "/never", NULL, NULL, 0, 0, &reply, &err),
        -ETIMEDOUT);
    assert_int_equal(err.kind, ATOLL_ERR_DEADLINE_EXCEEDED);
    /* The server closes idle connections; the client notices and opens another. */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            atoll_http_client_request(c[1], "GET", "/echo", NULL, NULL, 0, 9, &reply, &err), 0);
        atoll_http_reply_done(&reply);
        poll(NULL, 0, 700);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(
            atoll_http_client_request(c[i], "GET", "/echo", NULL, NULL, 0, 200, &reply, &err), 0);
        assert_int_equal(reply.status, i < 2 ? 200 : 503);
        if (i == 2)
            assert_contains(atoll_buf_str(&reply.body), "too many connections");
        atoll_http_reply_done(&reply);
    }
    for (int i = 0; i < 3; i++)
        c[i] = atoll_http_client_close(c[i]);
    site_close(&site);
}

static void try_websocket(int way)
{
    struct site site;
    struct atoll_error err;
    struct atoll_http_reply reply;
    struct atoll_http_client *c;
    struct atoll_wsc *ws = NULL;
    const uint8_t *bytes;
    size_t n;
    bool binary;

    site_open(&site, NULL);
    c = client_by(&site, way);
    assert_true(atoll_http_client_websocket(c, "/echo?", NULL, 100, &reply, &ws, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_FAILED_PRECONDITION);
    assert_int_equal(reply.status, 200);
    atoll_http_reply_done(&reply);
    assert_int_equal(atoll_http_client_websocket(c, "/ws", NULL, 1 << 20, &reply, &ws, &err), 0);
    assert_int_equal(atoll_wsc_recv(ws, 0, &binary, &bytes, &n, &err), 0);
    assert_int_equal(atoll_wsc_recv(ws, 20, &binary, &bytes, &n, &err), 0);
    assert_int_equal(atoll_wsc_send(ws, false, "hello", 5, &err), 0);
    assert_int_equal(atoll_wsc_recv(ws, 5000, &binary, &bytes, &n, &err), 1);
    assert_false(binary);
    assert_int_equal(n, 5);
    assert_memory_equal(bytes, "hello", 5);
    assert_int_equal(atoll_wsc_events(ws), POLLIN);
    assert_true(atoll_wsc_fd(ws) >= 0);
    /* The client may go on with requests of its own. */
    assert_int_equal(atoll_http_client_request(c, "GET", "/echo", NULL, NULL, 0, 9, &reply, &err),
                     0);
    atoll_http_reply_done(&reply);
    assert_int_equal(atoll_wsc_send(ws, true, "close", 5, &err), 0);
    assert_int_equal(atoll_wsc_recv(ws, 5000, &binary, &bytes, &n, &err), -EPIPE);
    assert_int_equal(atoll_wsc_close_code(ws), 4001);
    assert_true(atoll_wsc_send(ws, true, "x", 1, &err) < 0);
    ws = atoll_wsc_free(ws);
    /* Closed by the client. */
    assert_int_equal(atoll_http_client_websocket(c, "/ws", NULL, 1 << 20, &reply, &ws, &err), 0);
    assert_int_equal(atoll_wsc_close(ws, ATOLL_WS_NORMAL, &err), 0);
    assert_int_equal(atoll_wsc_recv(ws, 5000, &binary, &bytes, &n, &err), -EPIPE);
    assert_int_equal(atoll_wsc_close_code(ws), ATOLL_WS_NORMAL);
    ws = atoll_wsc_free(ws);
    c = atoll_http_client_close(c);
    site_close(&site);
}

static void test_websocket(void **state)
{
    (void)state;
    for (int way = 0; way < WAYS; way++)
        try_websocket(way);
}

/* Far more in flight than the sockets hold, both ways at once: nobody waits for the other. */
static void try_websocket_flood(int way)
{
    enum { MESSAGES = 400, SIZE = 50000 };
    static uint8_t data[SIZE];
    struct site site;
    struct atoll_error err;
    struct atoll_http_reply reply;
    struct atoll_http_client *c;
    struct atoll_wsc *ws;
    const uint8_t *bytes;
    size_t n, sent = 0, received = 0;
    bool binary;

    atoll_rand_bytes(data, sizeof(data));
    site_open(&site, NULL);
    c = client_by(&site, way);
    assert_int_equal(atoll_http_client_websocket(c, "/ws", NULL, 1 << 20, &reply, &ws, &err), 0);
    while (received < MESSAGES) {
        while (sent < MESSAGES && atoll_wsc_pending(ws) < 1 << 20) {
            data[0] = (uint8_t)sent++;
            assert_int_equal(atoll_wsc_send(ws, true, data, SIZE, &err), 0);
        }
        assert_int_equal(atoll_wsc_recv(ws, 5000, &binary, &bytes, &n, &err), 1);
        assert_int_equal(n, SIZE);
        assert_int_equal(bytes[0], (uint8_t)received++);
        assert_memory_equal(bytes + 1, data + 1, SIZE - 1);
    }
    assert_int_equal(atoll_wsc_flush(ws, 1000, &err), 0);
    ws = atoll_wsc_free(ws);
    c = atoll_http_client_close(c);
    site_close(&site);
}

static void test_websocket_flood(void **state)
{
    (void)state;
    for (int way = 0; way < WAYS; way++)
        try_websocket_flood(way);
}

static void expect(const char *where, const char *ca_file, bool insecure,
                   enum atoll_error_kind kind, const char *said)
{
    struct atoll_http_client *c = client_for(where);
    struct atoll_http_reply reply;
    struct atoll_error err = {.kind = ATOLL_ERR_NONE};
    int r;

    assert_int_equal(atoll_http_client_set_trust(c, ca_file, insecure, &err), 0);
    r = atoll_http_client_request(c, "GET", "/echo", NULL, NULL, 0, 100, &reply, &err);
    assert_int_equal(r < 0 ? err.kind : ATOLL_ERR_NONE, kind);
    if (r == 0)
        atoll_http_reply_done(&reply);
    else
        assert_contains(err.text, said);
    c = atoll_http_client_close(c);
}

/* Whoever has no certificate that was named, or one for somebody else, gets no request. */
static void test_trust(void **state)
{
    struct site site;
    char other[64];

    (void)state;
    site_open(&site, NULL);
    expect(site.tls_url, site.ca_file, false, ATOLL_ERR_NONE, "");
    expect(site.tls_url, NULL, true, ATOLL_ERR_NONE, "");
    site.requests = 0;
    expect(site.tls_url, NULL, false, ATOLL_ERR_UNAVAILABLE, "not trusted");
    expect(site.tls_url, "/nonexistent", false, ATOLL_ERR_INVALID_ARGUMENT, "no certificate");
    /* Plain HTTP is no TLS. */
    snprintf(other, sizeof(other), "https%s", strchr(site.url, ':'));
    expect(other, site.ca_file, false, ATOLL_ERR_UNAVAILABLE, "does not speak TLS");
    /* 127.0.0.2 leads to the same place, but is not in its certificate. */
    snprintf(other, sizeof(other), "https://127.0.0.2%s", strrchr(site.everywhere_url, ':'));
    expect(other, site.ca_file, false, ATOLL_ERR_UNAVAILABLE, "not trusted");
    assert_int_equal(site.requests, 0);
    site_close(&site);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_uploads),
        cmocka_unit_test(test_downloads),
        cmocka_unit_test(test_unreachable),
        cmocka_unit_test(test_timeout_reconnect_and_full_house),
        cmocka_unit_test(test_websocket),
        cmocka_unit_test(test_websocket_flood),
        cmocka_unit_test(test_trust),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

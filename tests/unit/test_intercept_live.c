/* Header rules over TLS, in both versions of HTTP: curl is the client, our own server is the server. */
#include <openssl/ssl.h>
#include <sys/wait.h>
#include "test_intercept_util.h"

/* The server: says what it was asked. */

static struct {
    struct atoll_http_server *server;
    uint16_t port;
    size_t requests;
    uint64_t bytes;
} far;

static void far_data(void *arg, struct atoll_http_request *req, const uint8_t *bytes, size_t n)
{
    (void)arg;
    far.bytes += n;
    assert_int_equal(atoll_http_write(req, bytes, n), 0);
    if (atoll_http_pending(req) > ATOLL_HTTP_HIGH_WATER)
        atoll_http_body_pause(req);
}

static void far_drain(void *arg, struct atoll_http_request *req)
{
    (void)arg;
    atoll_http_body_resume(req);
}

static void far_end(void *arg, struct atoll_http_request *req)
{
    (void)arg;
    assert_int_equal(atoll_http_set_header(req, "X-Sum", "42"), 0);
    atoll_http_end(req);
}

static void far_request(void *arg, struct atoll_http_request *req)
{
    const char *token = atoll_http_header(req, "authorization");
    const char *host = atoll_http_header(req, "host");
    char text[400];

    (void)arg;
    far.requests++;
    assert_non_null(token);
    assert_string_equal(token, "Bearer s3cr3t");
    if (atoll_http_method(req) == ATOLL_POST) {
        atoll_http_on_drain(req, far_drain, NULL);
        atoll_http_begin(req, 200, NULL, -1);
        atoll_http_body_stream(req, far_data, far_end, NULL);
        return;
    }
    if (strcmp(atoll_http_path(req), "/only-head") == 0) {
        assert_int_equal(atoll_http_set_header(req, "Grpc-Status", "5"), 0);
        atoll_http_respond(req, 200, "application/grpc", NULL, 0);
        return;
    }
    assert_int_equal(atoll_http_set_header(req, "Link", "</a>"), 0);
    atoll_http_inform(req, 103);
    snprintf(text, sizeof(text), "%s %s\n", host, atoll_http_target(req));
    assert_int_equal(atoll_http_set_header(req, "X-Far", "1"), 0);
    atoll_http_respond(req, 200, "text/plain", text, strlen(text));
}

/* The relay that atoll-egress has between a client and an interception. */

struct line {
    struct atoll_stream *streams[2]; /* the client's, the interception's */
    struct atoll_intercept *intercept;
    struct end {
        struct line *line;
        int side;
    } ends[2];
};

static struct icept w;
static int listener;
static struct atoll_watch accepting;
static size_t open_lines, accepted_lines;

static size_t line_input(void *arg, const uint8_t *bytes, size_t n)
{
    struct end *e = arg;
    struct atoll_stream *to = e->line->streams[!e->side];
    struct iovec iov = {(void *)bytes, n};

    (void)!atoll_stream_writev_whole(to, &iov, 1);
    if (atoll_stream_pending(to) > 65536)
        atoll_stream_pause(e->line->streams[e->side]);
    return n;
}

static void line_drain(void *arg)
{
    struct end *e = arg;
    atoll_stream_resume(e->line->streams[!e->side]);
}

static void line_closed(void *arg, int error)
{
    struct line *l = ((struct end *)arg)->line;

    (void)error;
    (void)atoll_stream_free(l->streams[0]);
    (void)atoll_stream_free(l->streams[1]);
    (void)atoll_intercept_close(l->intercept);
    free(l);
    open_lines--;
}

static void line_eof(void *arg)
{
    struct end *e = arg;
    atoll_stream_close_after_flush(e->line->streams[!e->side]);
}

static const struct atoll_stream_callbacks line_callbacks = {line_input, line_drain, line_eof,
                                                             line_closed, true};

static void accepted(void *arg, uint32_t events)
{
    const struct atoll_intercept_site site = {true, "api.example.test", 443};
    const struct atoll_stream_limits limits = {1 << 20, 65536};
    struct line *l = calloc(1, sizeof(*l));
    int fds[2];

    (void)arg;
    (void)events;
    fds[0] = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    assert_true(fds[0] >= 0);
    assert_int_equal(atoll_intercept_new(w.shared, &site, &icept_hooks, &w, &l->intercept, &fds[1]),
                     0);
    for (int i = 0; i < 2; i++) {
        l->ends[i] = (struct end){l, i};
        assert_int_equal(atoll_stream_new(w.loop, fds[i], &atoll_stream_socket_ops, NULL, &limits,
                                          &line_callbacks, &l->ends[i], &l->streams[i], NULL),
                         0);
    }
    open_lines++;
    accepted_lines++;
}

static uint16_t listen_here(void)
{
    struct sockaddr_in addr = {.sin_family = AF_INET};
    socklen_t len = sizeof(addr);

    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&addr, sizeof(addr)), 0);
    assert_int_equal(listen(listener, 64), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&addr, &len), 0);
    assert_int_equal(atoll_watch_open(&accepting, w.loop, listener, EPOLLIN, accepted, NULL), 0);
    return ntohs(addr.sin_port);
}

static uint16_t near_port;

static int set_up(void **state)
{
    struct atoll_tls_config config = {.domain = "example.test"};
    char file[100];

    (void)state;
    icept_open(&w);
    memset(&far, 0, sizeof(far));
    config.state_fd = w.state_fd;
    assert_int_equal(atoll_http_server_new(w.loop, NULL, far_request, NULL, &far.server, NULL), 0);
    assert_int_equal(
        atoll_http_server_listen_tls(far.server, "127.0.0.1:0", &config, &far.port, NULL), 0);
    w.port = far.port;
    snprintf(file, sizeof(file), "%s/tls/ca.pem", w.dir);
    setenv("SSL_CERT_FILE", file, 1);
    assert_int_equal(atoll_interceptor_open(w.loop, w.state_fd, &w.shared, NULL), 0);
    w.shared->plain_secrets = true;
    near_port = listen_here();
    accepted_lines = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < 200 && open_lines > 0; i++)
        assert_int_equal(atoll_loop_step(w.loop, 10, NULL), 0);
    assert_int_equal(open_lines, 0);
    atoll_watch_close(&accepting);
    close(listener);
    far.server = atoll_http_server_free(far.server);
    icept_close(&w);
    return 0;
}

/* Runs a command of the shell; $CURL is curl, set up to reach https://api.example.test through us. Returns
 * its output, with that of stderr. */
static const char *run(const char *script)
{
    static struct atoll_buf out;
    int pipes[2], status;
    char curl[400];
    pid_t pid;

    atoll_buf_done(&out);
    atoll_buf_init(&out, 64 * 1024 * 1024);
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    snprintf(curl, sizeof(curl),
             "curl -sS -m 30 --noproxy * --cacert %s/egress-ca.pem --connect-to ::127.0.0.1:%u",
             w.dir, near_port);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setenv("CURL", curl, 1);
        setenv("DIR", w.dir, 1);
        unsetenv("SSL_CERT_FILE");
        dup2(pipes[1], 1);
        dup2(pipes[1], 2);
        execl("/bin/sh", "sh", "-fc", script, NULL);
        _exit(127);
    }
    close(pipes[1]);
    assert_int_equal(fcntl(pipes[0], F_SETFL, O_NONBLOCK), 0);
    for (;;) {
        uint8_t *tail;
        ssize_t n;
        assert_int_equal(atoll_loop_step(w.loop, 5, NULL), 0);
        assert_int_equal(atoll_buf_reserve(&out, 65536, &tail), 0);
        n = read(pipes[0], tail, 65536);
        if (n == 0)
            break;
        if (n > 0)
            atoll_buf_commit(&out, (size_t)n);
    }
    close(pipes[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    return atoll_buf_str(&out);
}

static void test_both_versions(void **state)
{
    (void)state;
    assert_string_equal(run("$CURL --http2 -w '%{http_version} %{http_code}\\n' "
                            "https://api.example.test/x?y=1"),
                        "api.example.test /x?y=1\n2 200\n");
    assert_string_equal(run("$CURL --http1.1 -w '%{http_version} %{http_code}\\n' "
                            "https://api.example.test/x -H 'Authorization: mine'"),
                        "api.example.test /x\n1.1 200\n");
    assert_int_equal(far.requests, 2);
}

static void test_hints_and_headers(void **state)
{
    const char *got;

    (void)state;
    got = run("$CURL --http2 -i https://api.example.test/x");
    assert_contains(got, "HTTP/2 103 \r\nlink: </a>\r\n\r\nHTTP/2 200 \r\n");
    assert_contains(got, "x-far: 1\r\n");
    got = run("$CURL --http1.1 -i https://api.example.test/x");
    assert_contains(got, "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 200 OK\r\n");
    assert_contains(got, "x-far: 1\r\n");
    got = run("$CURL --http2 -I https://api.example.test/x");
    assert_contains(got, "content-length: 20\r\n");
    got = run("$CURL --http2 -i https://api.example.test/only-head");
    assert_contains(got, "grpc-status: 5\r\n");
}

static void test_many_at_once(void **state)
{
    const char *got;

    (void)state;
    got = run("$CURL --http2 -Z https://api.example.test/[1-60]");
    assert_int_equal(count_of(got, "api.example.test /"), 60);
    assert_int_equal(far.requests, 60);
    assert_true(w.dials <=
                accepted_lines); /* one connection to the server for each of the client */
}

static void echo(const char *version)
{
    char script[400];

    snprintf(script, sizeof(script),
             "cd $DIR && head -c 20000000 /dev/urandom > big && "
             "$CURL %s --data-binary @big -H Expect: -o back https://api.example.test/echo && "
             "cmp big back && echo same; rm -f big back",
             version);
    assert_starts(run(script), "same\n");
    assert_int_equal(far.bytes, 20000000);
    far.bytes = 0;
}

/* 20 MB each way at the same time, with back-pressure in both directions. */
static void test_big_bodies(void **state)
{
    (void)state;
    echo("--http2");
    echo("--http1.1");
    echo("--http1.1 -H Transfer-Encoding:chunked");
}

static void test_trailers_reach_the_client(void **state)
{
    (void)state;
    assert_contains(run("$CURL --http2 -i -d abc https://api.example.test/echo"), "x-sum: 42");
    assert_contains(run("$CURL --http1.1 -i -d abc https://api.example.test/echo"), "x-sum: 42");
}

static void test_a_server_that_is_not_trusted(void **state)
{
    const char *got;

    (void)state;
    /* Nothing but the CA of the interception, which no server has. */
    w.intercept = atoll_intercept_close(w.intercept);
    w.shared = atoll_interceptor_close(w.shared);
    setenv("SSL_CERT_FILE", "/dev/null", 1);
    setenv("SSL_CERT_DIR", "/nonexistent", 1);
    assert_int_equal(atoll_interceptor_open(w.loop, w.state_fd, &w.shared, NULL), 0);
    w.shared->plain_secrets = true;
    got = run("$CURL --http2 -w '%{http_code}' https://api.example.test/");
    assert_contains(got, "the certificate of api.example.test is not trusted");
    assert_contains(got, "502");
    assert_int_equal(far.requests, 0);
    unsetenv("SSL_CERT_DIR");
}

static void test_other_hosts(void **state)
{
    const char *got;

    (void)state;
    got = run("$CURL --http2 -w '%{http_code}' -H 'Host: other.test' https://api.example.test/");
    assert_contains(got, "421");
    assert_contains(got, "this connection is for api.example.test, the request for other.test");
    assert_int_equal(far.requests, 0);
    /* A client that does not trust the CA sees no answer. */
    assert_contains(run("$CURL --cacert /etc/ssl/certs/ca-certificates.crt "
                        "https://api.example.test/ || true"),
                    "certificate");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_both_versions),
        TEST(test_hints_and_headers),
        TEST(test_many_at_once),
        TEST(test_big_bodies),
        TEST(test_trailers_reach_the_client),
        TEST(test_a_server_that_is_not_trusted),
        TEST(test_other_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

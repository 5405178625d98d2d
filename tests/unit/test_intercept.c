/* Header rules on plain HTTP/1.1: what the server is asked, what the client sees, and what neither of them
 * can smuggle. The test plays both. */
#include "test_intercept_util.h"

#define HOST "Host: api.example.test\r\n"

static struct icept w;

static int set_up(void **state)
{
    (void)state;
    icept_open(&w);
    assert_int_equal(atoll_interceptor_open(w.loop, w.state_fd, &w.shared, NULL), 0);
    w.shared->plain_secrets = true;
    icept_again(&w, false, 80);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    icept_close(&w);
    return 0;
}

static void test_headers_are_added_and_replaced(void **state)
{
    const char *got;

    (void)state;
    got = icept_ask(&w, "GET /a/../b?x=%zz HTTP/1.1\r\n" HOST
                        "authorization: mine\r\nX-Own: 1\r\nConnection: keep-alive, X-Hop\r\n"
                        "X-Hop: 1\r\nTE: gzip\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n");
    assert_string_equal(got, "");
    assert_string_equal(icept_asked(&w, 0),
                        "GET /a/../b?x=%zz HTTP/1.1\r\nHost: api.example.test\r\n"
                        "X-Own: 1\r\nX-Forwarded-For: 1.2.3.4\r\n"
                        "Authorization: Bearer s3cr3t\r\n\r\n");
    assert_string_equal(w.dialled_host, "");
    assert_int_equal(w.dialled_port, 80);
    got = icept_answer(&w, 0,
                       "HTTP/1.1 200 Fine\r\nDate: Sat, 31 Jan 2026 12:00:00 GMT\r\n"
                       "Content-Type: text/x\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n"
                       "Connection: X-Secret\r\nX-Secret: 1\r\nContent-Length: 3\r\n\r\nabc");
    assert_string_equal(got, "HTTP/1.1 200 Fine\r\nDate: Sat, 31 Jan 2026 12:00:00 GMT\r\n"
                             "Content-Type: text/x\r\nContent-Length: 3\r\n"
                             "Set-Cookie: a=1\r\nSet-Cookie: b=2\r\n\r\nabc");
    /* The next request uses the same connection. */
    (void)icept_ask(&w, "POST /c HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\nhi");
    assert_string_equal(icept_asked(&w, 0), "POST /c HTTP/1.1\r\nHost: api.example.test\r\n"
                                            "Authorization: Bearer s3cr3t\r\n"
                                            "Content-Length: 2\r\n\r\nhi");
    assert_int_equal(w.dials, 1);
}

static void test_a_policy_without_the_transform(void **state)
{
    (void)state;
    w.no_transform = true;
    (void)icept_ask(&w, "GET / HTTP/1.1\r\n" HOST "Authorization: mine\r\n\r\n");
    assert_contains(icept_asked(&w, 0), "Authorization: mine\r\n");
}

static void test_fixed_answer(void **state)
{
    const char *got;

    (void)state;
    w.transform.status = 451;
    w.transform.body = (char *)"not here\n";
    got = icept_ask(&w, "GET / HTTP/1.1\r\n" HOST "\r\n");
    assert_starts(got, "HTTP/1.1 451 ");
    assert_contains(got, "\r\nContent-Type: text/plain; charset=utf-8\r\n");
    assert_contains(got, "\r\n\r\nnot here\n");
    assert_int_equal(w.dials, 0);
    w.transform.answer_headers[0] =
        (struct atoll_network_header){(char *)"content-type", (char *)"text/x-reason"};
    w.transform.answer_headers[1] =
        (struct atoll_network_header){(char *)"X-Reason", (char *)"${secret.token}"};
    w.transform.answer_header_count = 2;
    got = icept_ask(&w, "GET / HTTP/1.1\r\n" HOST "\r\n");
    assert_contains(got, "\r\nContent-Type: text/x-reason\r\n");
    assert_contains(got, "\r\nX-Reason: ${secret.token}\r\n");
    assert_null(strstr(got, "text/plain"));
    w.transform.answer_header_count = 0;
    w.transform.body = NULL;
    w.transform.status = 204;
    assert_starts(icept_ask(&w, "GET / HTTP/1.1\r\n" HOST "\r\n"), "HTTP/1.1 204 ");
}

static void test_secrets_that_cannot_be_sent(void **state)
{
    const char *got;

    (void)state;
    w.transform.headers[0].value = (char *)"${secret.absent}";
    got = icept_ask(&w, "GET / HTTP/1.1\r\n" HOST "\r\n");
    assert_starts(got, "HTTP/1.1 502 ");
    assert_contains(got, "there is no secret absent, which the header Authorization needs");
    w.transform.headers[0].value = (char *)"${secret.broken}";
    got = icept_ask(&w, "GET / HTTP/1.1\r\n" HOST "\r\n");
    assert_starts(got, "HTTP/1.1 502 ");
    assert_contains(got, "line break");
    assert_null(strstr(got, "Smuggled"));
    w.transform.headers[0].value = (char *)"${secret.}";
    assert_contains(icept_ask(&w, "GET / HTTP/1.1\r\n" HOST "\r\n"), "no valid name");
    w.shared->plain_secrets = false;
    w.transform.headers[0].value = (char *)"${secret.token}";
    got = icept_ask(&w, "GET / HTTP/1.1\r\n" HOST "\r\n");
    assert_starts(got, "HTTP/1.1 403 ");
    assert_contains(got, "the header Authorization has a secret, which is sent over TLS only");
    assert_int_equal(w.dials, 0);
}

static void test_only_the_name_of_the_connection(void **state)
{
    static const char *const wrong[] = {
        "GET / HTTP/1.1\r\nHost: other.test\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: api.example.test:81\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: api.example.test.evil\r\n\r\n",
        "GET http://other.test/ HTTP/1.1\r\n" HOST "\r\n",
        "GET http://api.example.test@other.test/ HTTP/1.1\r\n" HOST "\r\n",
    };
    static const char *const right[] = {
        "GET / HTTP/1.1\r\nHost: API.example.test.\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: api.example.test:80\r\n\r\n",
        "GET http://api.example.test/ HTTP/1.1\r\n" HOST "\r\n",
        "GET http://api.example.test HTTP/1.1\r\n" HOST "\r\n",
        "GET / HTTP/1.0\r\n\r\n",
    };

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(wrong); i++) {
        icept_again(&w, false, 80);
        assert_starts(icept_ask(&w, wrong[i]), "HTTP/1.1 421 ");
        assert_int_equal(w.dials, 0);
    }
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(right); i++) {
        icept_again(&w, false, 80);
        assert_string_equal(icept_ask(&w, right[i]), "");
        assert_starts(icept_asked(&w, i), "GET / HTTP/1.1\r\nHost: ");
    }
}

static void test_no_plain_http_on_the_port_of_tls(void **state)
{
    (void)state;
    icept_again(&w, false, 443);
    assert_starts(icept_ask(&w, "GET / HTTP/1.1\r\n" HOST "\r\n"), "HTTP/1.1 400 ");
    assert_contains(atoll_buf_str(&w.got), "port 443 is for TLS");
    assert_int_equal(w.dials, 0);
    icept_again(&w, false, 8080); /* the control */
    assert_string_equal(icept_ask(&w, "GET / HTTP/1.1\r\n" HOST "\r\n"), "");
    assert_int_equal(w.dials, 1);
}

static void test_methods_that_would_leak_or_tunnel(void **state)
{
    (void)state;
    assert_starts(icept_ask(&w, "TRACE / HTTP/1.1\r\n" HOST "\r\n"), "HTTP/1.1 501 ");
    icept_again(&w, false, 80);
    assert_starts(icept_ask(&w, "CONNECT api.example.test:80 HTTP/1.1\r\n" HOST "\r\n"),
                  "HTTP/1.1 501 ");
    assert_int_equal(w.dials, 0);
}

static void test_smuggling_by_clients(void **state)
{
    static const char *const bad[] = {
        "POST / HTTP/1.1\r\n" HOST "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc",
        "POST / HTTP/1.1\r\n" HOST "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "GET / HTTP/1.1\r\n" HOST "Host: other.test\r\n\r\n",
        "GET / HTTP/1.1\r\n" HOST "X-A : 1\r\n\r\n",
        "GET / HTTP/1.1\nHost: api.example.test\n\n",
        "GET / HTTP/1.1\r\n" HOST "X: a\r\n b\r\n\r\n",
    };

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bad); i++) {
        icept_again(&w, false, 80);
        assert_starts(icept_ask(&w, bad[i]), "HTTP/1.1 400 ");
        assert_int_equal(w.dials, 0);
    }
}

static void test_bad_servers(void **state)
{
    static const char *const bad[] = {
        "SSH-2.0-x\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
        "HTTP/1.1 999 What\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX-\x01: 1\r\n\r\n",
    };

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bad); i++) {
        icept_again(&w, false, 80);
        (void)icept_ask(&w, "GET / HTTP/1.1\r\n" HOST "\r\n");
        assert_starts(icept_answer(&w, i, bad[i]), "HTTP/1.1 502 ");
        assert_contains(atoll_buf_str(&w.got), "api.example.test sent a malformed answer");
    }
}

static void test_chunks_trailers_and_hints(void **state)
{
    (void)state;
    (void)icept_ask(&w,
                    "POST / HTTP/1.1\r\n" HOST "TE: trailers\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "3\r\nabc\r\n0\r\nX-Dropped: 1\r\n\r\n");
    assert_string_equal(icept_asked(&w, 0), "POST / HTTP/1.1\r\nHost: api.example.test\r\n"
                                            "Authorization: Bearer s3cr3t\r\n"
                                            "Connection: TE\r\nTE: trailers\r\n"
                                            "Transfer-Encoding: chunked\r\n\r\n"
                                            "3\r\nabc\r\n0\r\n\r\n");
    assert_string_equal(
        icept_answer(&w, 0,
                     "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"),
        "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
    (void)icept_answer(&w, 0,
                       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"
                       "2\r\nhi\r\n0\r\nX-Sum: 7\r\n\r\n");
    assert_contains(atoll_buf_str(&w.got), "\r\n\r\n2\r\nhi\r\n0\r\nX-Sum: 7\r\n\r\n");
}

static void test_upgrade(void **state)
{
    (void)state;
    (void)icept_ask(&w, "GET /ws HTTP/1.1\r\n" HOST "Connection: Upgrade\r\nUpgrade: websocket\r\n"
                        "Sec-WebSocket-Key: k\r\n\r\n");
    assert_string_equal(icept_asked(&w, 0), "GET /ws HTTP/1.1\r\nHost: api.example.test\r\n"
                                            "Sec-WebSocket-Key: k\r\n"
                                            "Authorization: Bearer s3cr3t\r\n"
                                            "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_contains(icept_answer(&w, 0,
                                 "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
                                 "Upgrade: websocket\r\nSec-WebSocket-Accept: a\r\n\r\nearly"),
                    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
                    "Upgrade: websocket\r\nSec-WebSocket-Accept: a\r\n\r\nearly");
    (void)icept_ask(&w, "ping");
    assert_string_equal(icept_asked(&w, 0), "ping");
    assert_string_equal(icept_answer(&w, 0, "pong"), "pong");
    icept_hang_up(&w, 0);
    assert_true(w.ended);
    /* A server that does not want it answers as usual. */
    icept_again(&w, false, 80);
    (void)icept_ask(&w, "GET /ws HTTP/1.1\r\n" HOST "Connection: Upgrade\r\nUpgrade: x\r\n\r\n");
    assert_starts(icept_answer(&w, 1, "HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n"),
                  "HTTP/1.1 400 No\r\n");
}

#define EMPTY "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

/* Connections by the old route take no more requests: neither idle ones nor one that is being made. */
static void test_another_route(void **state)
{
    static const char get[] = "GET / HTTP/1.1\r\n" HOST "\r\n";

    (void)state;
    (void)icept_ask(&w, get);
    (void)icept_answer(&w, 0, EMPTY);
    (void)icept_ask(&w, get);
    assert_int_equal(w.dials, 1);
    w.route++;
    (void)icept_answer(&w, 0, EMPTY);
    (void)icept_ask(&w, get);
    assert_int_equal(w.dials, 2);
    assert_int_equal(w.unreleased, 1);
    assert_string_equal(icept_asked(&w, 1), "GET / HTTP/1.1\r\nHost: api.example.test\r\n"
                                            "Authorization: Bearer s3cr3t\r\n\r\n");
    (void)icept_answer(&w, 1, EMPTY);
    icept_again(&w, false, 80);
    w.reroute = true;
    (void)icept_ask(&w, get);
    assert_int_equal(w.dials, 4);
    assert_string_equal(icept_asked(&w, 2), "");
    assert_starts(icept_asked(&w, 3), "GET / HTTP/1.1\r\n");
    assert_starts(icept_answer(&w, 3, EMPTY), "HTTP/1.1 200 OK\r\n");
}

static void open_cache(void)
{
    static const char rows[] =
        "{\"downloads\": [{\"name\": \"a\", \"hosts\": [\"api.example.test\"], \"paths\": [\"/f/*\"]},"
        "                 {\"name\": \"d\", \"hosts\": [\"api.example.test\"], \"paths\": [\"/p/*\"],"
        "                  \"digest\": \"sha256\"}]}";
    json_t *json = json_loads(rows, 0, NULL);
    struct atoll_cache_table *table = NULL;
    int fd = openat(w.state_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    assert_int_equal(atoll_cache_table_parse(json, &table, NULL), 0);
    json_decref(json);
    assert_int_equal(atoll_cache_open(w.loop, fd, &w.cache, NULL), 0);
    atoll_cache_set(w.cache, table, 1 << 20);
    w.no_transform = true;
}

/* A download that may be kept is asked for alike by all clients, and without a digest on a connection that
 * nothing else uses. */
static void test_downloads_that_may_be_kept(void **state)
{
    static const char plain[] = "Host: api.example.test\r\nACCEPT: a\r\nUser-Agent: u\r\n\r\n";
    static const char fields[] = "Host: API.example.test.\r\nX-Original-URL: /x\r\nACCEPT: a\r\n"
                                 "X-Forwarded-Host: y\r\nTE: trailers\r\nUser-Agent: u\r\n\r\n";
    static const struct {
        const char *path;
        size_t dial;
        bool plain;
    } cases[] = {
        {"/other", 0, false},
        {"/f/1", 1, true},
        {"/other", 0, false},
        {"/p/000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", 0, true},
        {"/f/2", 2, true},
    };

    (void)state;
    open_cache();
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(cases); i++) {
        char text[1000];
        const char *asked;

        (void)snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\n%s", cases[i].path, fields);
        (void)icept_ask(&w, text);
        asked = icept_asked(&w, cases[i].dial);
        (void)snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\n%s", cases[i].path, plain);
        if (cases[i].plain)
            assert_string_equal(asked, text);
        else
            assert_contains(asked, "X-Original-URL: /x\r\n");
        assert_starts(icept_answer(&w, cases[i].dial, EMPTY), "HTTP/1.1 200 OK\r\n");
        assert_int_equal(w.unreleased, 1); /* the download's own one is closed */
    }
    w.intercept = atoll_intercept_close(w.intercept);
    w.cache = atoll_cache_close(w.cache);
}

static void test_forward(void **state)
{
    (void)state;
    w.transform.forward = (char *)"http://proxy.test:8080/base/";
    (void)icept_ask(&w, "GET /a?b=1 HTTP/1.1\r\n" HOST "X-Forwarded-Host: forged\r\n"
                        "Vercel-Forwarded-Port: 1\r\nVercel-Sandbox-OIDC-Token: forged\r\n\r\n");
    assert_string_equal(icept_asked(&w, 0), "GET /base/a?b=1 HTTP/1.1\r\nHost: proxy.test:8080\r\n"
                                            "Authorization: Bearer s3cr3t\r\n"
                                            "x-forwarded-host: api.example.test\r\n"
                                            "x-forwarded-proto: http\r\n"
                                            "vercel-forwarded-host: api.example.test\r\n"
                                            "vercel-forwarded-scheme: http\r\n"
                                            "vercel-forwarded-port: 80\r\n"
                                            "vercel-forwarded-path: /a?b=1\r\n\r\n");
    assert_string_equal(w.dialled_host, "proxy.test");
    assert_int_equal(w.dialled_port, 8080);
    (void)icept_answer(&w, 0, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    w.transform.forward = (char *)"http://[2001:db8::1]";
    (void)icept_ask(&w, "GET / HTTP/1.1\r\n" HOST "\r\n");
    assert_string_equal(w.dialled_host, "2001:db8::1");
    assert_int_equal(w.dialled_port, 80);
    assert_contains(icept_asked(&w, 1), "Host: [2001:db8::1]\r\n");
    icept_again(&w, false, 80);
    w.transform.forward = (char *)"gopher://x";
    assert_contains(icept_ask(&w, "GET / HTTP/1.1\r\n" HOST "\r\n"), "gopher://x is not usable");
}

static void test_no_connection(void **state)
{
    (void)state;
    w.refuse = -ECONNREFUSED;
    assert_contains(icept_ask(&w, "GET / HTTP/1.1\r\n" HOST "\r\n"),
                    "cannot connect to api.example.test port 80: Connection refused");
    w.refuse = -EACCES;
    assert_contains(icept_ask(&w, "GET / HTTP/1.1\r\n" HOST "\r\n"),
                    "the network policy denies it");
}

static void test_a_kept_connection_that_was_closed(void **state)
{
    (void)state;
    (void)icept_ask(&w, "GET / HTTP/1.1\r\n" HOST "\r\n");
    (void)icept_answer(&w, 0, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    assert_int_equal(send(w.client, "GET /b HTTP/1.1\r\n" HOST "\r\n", 43, 0), 43);
    close(w.servers[0]); /* while the request is on its way */
    w.servers[0] = -1;
    icept_turn(&w);
    assert_int_equal(w.dials, 2);
    assert_starts(icept_asked(&w, 1), "GET /b ");
    /* A request that may not be repeated is not. */
    (void)icept_answer(&w, 1, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    (void)icept_ask(&w, "POST /c HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n");
    (void)icept_asked(&w, 1);
    icept_hang_up(&w, 1);
    assert_contains(atoll_buf_str(&w.got), "closed the connection before its answer");
    assert_int_equal(w.dials, 2);
}

static void test_ends_of_the_server(void **state)
{
    (void)state;
    (void)icept_ask(&w, "GET / HTTP/1.1\r\n" HOST "\r\n");
    (void)icept_answer(&w, 0, "HTTP/1.1 200 OK\r\n\r\nall of it");
    (void)icept_asked(&w, 0); /* unread bytes would make it a reset */
    icept_hang_up(&w, 0);     /* ends an answer without a length */
    assert_contains(atoll_buf_str(&w.got), "9\r\nall of it\r\n");
    assert_contains(atoll_buf_str(&w.got), "0\r\n\r\n");
    assert_false(w.ended);
    (void)icept_ask(&w, "GET / HTTP/1.1\r\n" HOST "\r\n");
    (void)icept_answer(&w, 1, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\npart");
    icept_hang_up(&w, 1); /* a part of an answer is not passed off as the whole */
    assert_true(w.ended);
}

/* Neither side is read faster than the other takes the bytes. */
static void test_back_pressure(void **state)
{
    static char block[64 * 1024];
    size_t up = 0, down = 0;
    ssize_t n;

    (void)state;
    (void)icept_ask(&w, "POST / HTTP/1.1\r\n" HOST "Content-Length: 100000000\r\n\r\n");
    for (int idle = 0; idle < 20; idle++) {
        n = send(w.client, block, sizeof(block), MSG_DONTWAIT);
        if (n > 0) {
            up += (size_t)n;
            idle = 0;
        }
        assert_int_equal(atoll_loop_step(w.loop, 1, NULL), 0);
    }
    assert_true(up < 4 * 1024 * 1024);
    icept_again(&w, false, 80);
    (void)icept_ask(&w, "GET / HTTP/1.1\r\n" HOST "\r\n");
    (void)icept_answer(&w, 1, "HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n");
    for (int idle = 0; idle < 20; idle++) {
        n = send(w.servers[1], block, sizeof(block), MSG_DONTWAIT);
        if (n > 0) {
            down += (size_t)n;
            idle = 0;
        }
        assert_int_equal(atoll_loop_step(w.loop, 1, NULL), 0);
    }
    assert_true(down < 4 * 1024 * 1024);
    /* It goes on once the client reads. */
    icept_turn(&w);
    assert_true(send(w.servers[1], block, sizeof(block), MSG_DONTWAIT) > 0);
}

static void test_closed_in_the_middle(void **state)
{
    (void)state;
    (void)icept_ask(&w, "GET / HTTP/1.1\r\n" HOST "\r\n");
    w.intercept = atoll_intercept_close(w.intercept);
    icept_turn(&w);
    assert_true(w.ended);
    assert_string_equal(icept_asked(&w, 0), "GET / HTTP/1.1\r\nHost: api.example.test\r\n"
                                            "Authorization: Bearer s3cr3t\r\n\r\n");
    assert_int_equal(recv(w.servers[0], (char[1]){0}, 1, MSG_DONTWAIT), 0);
    /* While it dials, and when the client goes. */
    icept_again(&w, false, 80);
    assert_int_equal(send(w.client, "GET / HTTP/1.1\r\n" HOST "\r\n", 42, 0), 42);
    assert_int_equal(atoll_loop_step(w.loop, 1, NULL), 0);
    w.intercept = atoll_intercept_close(w.intercept);
    icept_turn(&w);
    icept_again(&w, false, 80);
    (void)icept_ask(&w, "GET / HTTP/1.1\r\n" HOST "\r\n");
    close(w.client);
    w.client = -1;
    w.ended = true;
    icept_turn(&w);
    (void)icept_asked(&w, w.dials - 1);
    assert_int_equal(recv(w.servers[w.dials - 1], (char[1]){0}, 1, MSG_DONTWAIT), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_headers_are_added_and_replaced),
        TEST(test_a_policy_without_the_transform),
        TEST(test_fixed_answer),
        TEST(test_secrets_that_cannot_be_sent),
        TEST(test_only_the_name_of_the_connection),
        TEST(test_no_plain_http_on_the_port_of_tls),
        TEST(test_methods_that_would_leak_or_tunnel),
        TEST(test_smuggling_by_clients),
        TEST(test_bad_servers),
        TEST(test_chunks_trailers_and_hints),
        TEST(test_upgrade),
        TEST(test_another_route),
        TEST(test_downloads_that_may_be_kept),
        TEST(test_forward),
        TEST(test_no_connection),
        TEST(test_a_kept_connection_that_was_closed),
        TEST(test_ends_of_the_server),
        TEST(test_back_pressure),
        TEST(test_closed_in_the_middle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

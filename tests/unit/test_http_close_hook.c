/* Who is told when a connection is closed: once, after the last request on it, in every version. */
#include "net/websocket.h"
#include "test_http2_util.h"

static struct atoll_http_close_hook close_hooks[4];
static unsigned registered, told;
static bool cut;

static void closed(void *arg)
{
    assert_ptr_equal(arg, &told);
    told++;
}

static struct atoll_ws *ws;

static void on_message(void *arg, struct atoll_ws *from, bool binary, const uint8_t *bytes,
                       size_t n)
{
    (void)arg;
    (void)from;
    (void)binary;
    (void)bytes;
    (void)n;
}

static void on_close(void *arg, struct atoll_ws *from, uint16_t code)
{
    (void)arg;
    (void)code;
    ws = atoll_ws_free(from);
}

static const struct atoll_ws_callbacks ws_callbacks = {.on_message = on_message,
                                                       .on_close = on_close};

static void handler(void *arg, struct atoll_http_request *req)
{
    (void)arg;
    if (atoll_ws_wanted(req)) {
        assert_int_equal(atoll_ws_accept(req, &ws_callbacks, NULL, 1024, &ws, NULL), 0);
        return;
    }
    if (strcmp(atoll_http_path(req), "/lease") == 0)
        atoll_http_on_connection_close(req, &close_hooks[registered++], closed, &told);
    if (cut)
        atoll_http_abort(req);
    else
        atoll_http_respond(req, 200, "text/plain", "x", 1);
    assert_int_equal(told, 0); /* never from inside a call */
}

static void turn(struct rig *r)
{
    for (int i = 0; i < 20; i++)
        assert_int_equal(atoll_loop_step(r->loop, 0, NULL), 0);
}

static int set_up(void **state)
{
    (void)state;
    memset(close_hooks, 0, sizeof(close_hooks));
    registered = told = 0;
    cut = false;
    return 0;
}

#define LEASE "GET /lease HTTP/1.1\r\nHost: x\r\n\r\n"
#define OTHER "GET /other HTTP/1.1\r\nHost: x\r\n\r\n"

static void told_when_the_client_goes(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, NULL, handler, NULL);
    assert_non_null(strstr(rig_ask(&r, LEASE LEASE), " 200 "));
    assert_non_null(strstr(rig_ask(&r, OTHER), " 200 "));
    turn(&r);
    assert_int_equal(registered, 2);
    assert_int_equal(told, 0);
    close(r.fd);
    r.fd = -1;
    turn(&r);
    assert_int_equal(told, 2);
    rig_close(&r);
    assert_int_equal(told, 2);
}

static void told_when_the_server_cuts(void **state)
{
    struct rig r;

    (void)state;
    cut = true;
    rig_open(&r, NULL, handler, NULL);
    (void)rig_ask(&r, LEASE);
    turn(&r);
    assert_int_equal(told, 1);
    rig_close(&r);
}

static void told_when_the_server_ends(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, NULL, handler, NULL);
    (void)rig_ask(&r, LEASE);
    rig_close(&r);
    assert_int_equal(told, 1);
}

static void not_told_when_cancelled(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, NULL, handler, NULL);
    (void)rig_ask(&r, LEASE LEASE);
    atoll_http_close_hook_cancel(&close_hooks[0]);
    close(r.fd);
    r.fd = -1;
    turn(&r);
    assert_int_equal(told, 1);
    rig_close(&r);
}

/* Such a connection may be silent for long; others may not. */
static void idle_connections_are_kept(void **state)
{
    const struct atoll_http_limits limits = {.idle_ms = 40, .header_ms = 40};
    struct rig r;
    int64_t until;

    (void)state;
    rig_open(&r, &limits, handler, NULL);
    (void)rig_ask(&r, LEASE);
    for (until = atoll_clock_ms() + 200; atoll_clock_ms() < until;)
        assert_int_equal(atoll_loop_step(r.loop, 10, NULL), 0);
    assert_int_equal(atoll_http_server_connections(r.server), 1);
    assert_int_equal(told, 0);
    atoll_http_close_hook_cancel(&close_hooks[0]);
    for (until = atoll_clock_ms() + 5000;
         atoll_clock_ms() < until && atoll_http_server_connections(r.server) > 0;)
        assert_int_equal(atoll_loop_step(r.loop, 10, NULL), 0);
    assert_int_equal(atoll_http_server_connections(r.server), 0);
    rig_close(&r);
}

/* One that becomes a WebSocket is not closed by that. */
static void told_when_a_websocket_ends(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, NULL, handler, NULL);
    (void)rig_ask(&r, LEASE);
    assert_contains(rig_ask(&r, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n"
                                "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                                "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"),
                    " 101 ");
    turn(&r);
    assert_int_equal(told, 0);
    close(r.fd);
    r.fd = -1;
    turn(&r);
    assert_int_equal(told, 1);
    rig_close(&r);
}

static void http2_is_told_of_the_connection(void **state)
{
    static struct h2 c;
    int32_t first, second;

    (void)state;
    h2_open(&c, NULL, handler, NULL);
    first = h2_ask(&c, "GET", "/lease");
    h2_turn(&c);
    second = h2_ask(&c, "GET", "/other");
    h2_turn(&c);
    assert_true(h2_reply(&c, first)->closed); /* the stream is, the connection is not */
    assert_int_equal(h2_reply(&c, second)->status, 200);
    assert_int_equal(told, 0);
    close(c.rig.fd);
    c.rig.fd = -1;
    turn(&c.rig);
    assert_int_equal(told, 1);
    h2_close(&c);
    assert_int_equal(told, 1);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(told_when_the_client_goes),       TEST(told_when_the_server_cuts),
        TEST(told_when_the_server_ends),       TEST(not_told_when_cancelled),
        TEST(idle_connections_are_kept),       TEST(told_when_a_websocket_ends),
        TEST(http2_is_told_of_the_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

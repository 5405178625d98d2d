/*
 * The proxy between an HTTP server on one side and a socket pair that plays the upstream on the
 * other. The test turns the loop, so that it decides what comes first.
 */
#include "net/proxy_internal.h"
#include "test_http_util.h"

static struct rig rig;
static struct atoll_proxy *proxy;

static int upstream = -1;      /* the end the test plays */
static struct atoll_buf asked; /* what came there */
static int dials;
static bool refuse_dial, hold_dial;
static struct {
    atoll_proxy_dialed_fn *done;
    void *ctx;
} held[8];
static size_t held_count;
static struct atoll_proxy_outcome last;
static int endings;
static const char *owner; /* of the next request */
static enum atoll_error_kind failure;

static void connect_upstream(atoll_proxy_dialed_fn *done, void *ctx)
{
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    if (upstream >= 0)
        close(upstream);
    upstream = pair[1];
    done(ctx, pair[0], NULL);
}

/* The dial that was held back last gets its connection. */
static void release_dial(void)
{
    held_count--;
    connect_upstream(held[held_count].done, held[held_count].ctx);
}

static void dial(void *arg, const char *key, atoll_proxy_dialed_fn *done, void *ctx)
{
    struct atoll_error error;

    (void)arg;
    assert_string_equal(key, "up");
    dials++;
    if (refuse_dial) {
        (void)atoll_fail(&error, ATOLL_ERR_UNAVAILABLE, ECONNREFUSED, "nothing there");
        done(ctx, ATOLL_NO_FD, &error);
    } else if (hold_dial) {
        held[held_count].done = done;
        held[held_count++].ctx = ctx;
    } else {
        connect_upstream(done, ctx);
    }
}

static bool keep_header(void *arg, const char *name, const char **value)
{
    (void)arg;
    if (strcmp(name, "X-Replace") == 0)
        *value = "replaced";
    return strcmp(name, "X-Drop") != 0;
}

static int failed(void *arg, struct atoll_http_request *req, const struct atoll_error *error)
{
    (void)arg;
    failure = error->kind;
    atoll_http_respond(req, 502, "text/plain", "failed", 6);
    return 502;
}

static void done(void *arg, const struct atoll_proxy_outcome *outcome)
{
    (void)arg;
    last = *outcome;
    endings++;
}

static const struct atoll_proxy_hooks hooks = {keep_header, keep_header, failed, done};

static void serve(void *arg, struct atoll_http_request *req)
{
    const struct atoll_proxy_request request = {
        .key = "up",
        .owner = owner,
        .target = atoll_http_target(req),
        .host = "inside",
        .scheme = "http",
        .extra = "X-Extra: 1\r\n",
        .hooks = &hooks,
    };

    (void)arg;
    atoll_proxy_forward(proxy, req, &request);
}

static int set_up(void **state)
{
    struct atoll_proxy_config config = {.dial = dial, .answer_ms = 300};

    (void)state;
    rig_open(&rig, NULL, serve, NULL);
    config.loop = rig.loop;
    proxy = atoll_proxy_new(&config);
    atoll_buf_init(&asked, 64 * 1024 * 1024);
    dials = endings = 0;
    owner = "somebody";
    held_count = 0;
    refuse_dial = hold_dial = false;
    failure = ATOLL_ERR_NONE;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rig.server = atoll_http_server_free(rig.server);
    proxy = atoll_proxy_free(proxy);
    rig_close(&rig);
    if (upstream >= 0)
        close(upstream);
    upstream = -1;
    atoll_buf_done(&asked);
    return 0;
}

/* What the upstream has been asked since the last call. */
static const char *take_asked(void)
{
    uint8_t *tail;
    ssize_t n;

    atoll_buf_clear(&asked);
    for (;;) {
        assert_int_equal(atoll_buf_reserve(&asked, 65536, &tail), 0);
        n = recv(upstream, tail, 65536, 0);
        if (n <= 0)
            break;
        atoll_buf_commit(&asked, (size_t)n);
    }
    return atoll_buf_str(&asked);
}

static void answer(const char *text)
{
    assert_int_equal(send(upstream, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
    rig_turn(&rig);
}

#define GET "GET /x?y HTTP/1.1\r\nHost: outside\r\n\r\n"
#define OK "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

static void passes_on_and_keeps_the_connection(void **state)
{
    const char *text;

    (void)state;
    (void)rig_ask(&rig, "GET /x?y HTTP/1.1\r\nHost: outside\r\nX-A: b\r\nX-Drop: 1\r\n"
                        "X-Replace: 1\r\nConnection: X-Hop\r\nX-Hop: 1\r\n"
                        "X-Forwarded-For: 9.9.9.9\r\nTE: trailers\r\n\r\n");
    text = take_asked();
    assert_starts(text, "GET /x?y HTTP/1.1\r\nHost: inside\r\n");
    assert_contains(text, "X-A: b\r\n");
    assert_contains(text, "X-Replace: replaced\r\n");
    assert_contains(text, "X-Forwarded-Host: outside\r\n");
    assert_contains(text, "X-Forwarded-Proto: http\r\n");
    assert_contains(text, "X-Extra: 1\r\n");
    assert_null(strstr(text, "X-Drop"));
    assert_null(strstr(text, "X-Hop"));
    assert_null(strstr(text, "9.9.9.9"));
    assert_null(strstr(text, "TE:"));
    answer("HTTP/1.1 201 Fine\r\nContent-Length: 5\r\nContent-Type: a/b\r\nX-Drop: 1\r\nX-B: c\r\n"
           "Connection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\n\r\nhello");
    text = rig_text(&rig);
    assert_starts(text, "HTTP/1.1 201 ");
    assert_contains(text, "Content-Type: a/b\r\n");
    assert_contains(text, "X-B: c\r\n");
    assert_contains(text, "Content-Length: 5\r\n");
    assert_contains(text, "\r\n\r\nhello");
    assert_null(strstr(text, "X-Drop"));
    assert_null(strstr(text, "X-Hop"));
    assert_null(strstr(text, "Keep-Alive"));
    assert_int_equal(atoll_proxy_kept(proxy), 1);
    (void)rig_ask(&rig, GET);
    assert_starts(take_asked(), "GET /x?y ");
    answer(OK);
    assert_contains(rig_text(&rig), "\r\n\r\nok");
    assert_int_equal(dials, 1);
    assert_int_equal(endings, 2);
    assert_int_equal(atoll_proxy_active(proxy), 0);
}

static void heads_in_single_bytes(void **state)
{
    const char *text = "HTTP/1.1 103 Early\r\nLink: x\r\n\r\n"
                       "HTTP/1.1 200 OK\r\nX-Long: value\r\nTransfer-Encoding: chunked\r\n\r\n"
                       "3\r\nabc\r\n2;ext\r\nde\r\n0\r\nX-Trailer: 1\r\n\r\n";

    (void)state;
    (void)rig_ask(&rig, GET);
    (void)take_asked();
    for (; *text; text++) {
        assert_int_equal(send(upstream, text, 1, 0), 1);
        assert_int_equal(atoll_loop_step(rig.loop, 1, NULL), 0);
    }
    rig_turn(&rig);
    assert_starts(rig_text(&rig), "HTTP/1.1 200 ");
    assert_contains(rig_text(&rig), "X-Long: value\r\n");
    assert_null(strstr(rig_text(&rig), "Link"));
    assert_null(strstr(rig_text(&rig), "Trailer"));
    assert_int_equal(last.out_bytes, 5);
    assert_int_equal(atoll_proxy_kept(proxy), 1);
}

static void bodies_are_framed_anew(void **state)
{
    (void)state;
    (void)rig_ask(&rig, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                        "3;ext=1\r\nabc\r\n2\r\nde\r\n0\r\nX-Trailer: 1\r\n\r\n");
    assert_contains(take_asked(), "Transfer-Encoding: chunked\r\n");
    assert_contains(atoll_buf_str(&asked), "\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    assert_null(strstr(atoll_buf_str(&asked), "Content-Length"));
    answer(OK);
    (void)rig_ask(&rig, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nabcde");
    assert_contains(take_asked(), "Content-Length: 5\r\n");
    assert_contains(atoll_buf_str(&asked), "\r\n\r\nabcde");
    answer(OK);
    assert_int_equal(last.in_bytes, 5);
    assert_int_equal(dials, 1);
}

static void an_answer_that_ends_with_the_connection(void **state)
{
    (void)state;
    (void)rig_ask(&rig, GET);
    (void)take_asked();
    answer("HTTP/1.0 200 OK\r\n\r\nall of ");
    answer("it");
    assert_int_equal(endings, 0);
    close(upstream);
    upstream = -1;
    rig_turn(&rig);
    assert_contains(rig_text(&rig), "all of ");
    assert_contains(rig_text(&rig), "\r\n0\r\n\r\n");
    assert_int_equal(last.status, 200);
    assert_int_equal(atoll_proxy_kept(proxy), 0);
}

static void assert_bad_answer(const char *text)
{
    (void)rig_ask(&rig, GET);
    answer(text);
    if (upstream >= 0)
        close(upstream);
    upstream = -1;
    rig_turn(&rig);
    if (strncmp(rig_text(&rig), "HTTP/1.1 502 ", 13) != 0)
        fail_msg("passed on: %s\nas: %s", text, rig_text(&rig));
    assert_int_equal(failure, ATOLL_ERR_DATA_LOSS);
    assert_int_equal(atoll_proxy_kept(proxy), 0);
}

static void bad_answers_are_not_passed_on(void **state)
{
    (void)state;
    assert_bad_answer("nonsense\r\n\r\n");
    assert_bad_answer(
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nok");
    assert_bad_answer("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok");
    assert_bad_answer("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n");
    assert_bad_answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nok");
    assert_bad_answer("HTTP/1.1 200 OK\r\nX-A: b\x01\r\n\r\n");
    assert_bad_answer("HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
    assert_bad_answer("HTTP/1.1 200 OK\r\nX-Cut");
    assert_bad_answer("");
}

static void a_cut_answer_is_cut(void **state)
{
    (void)state;
    (void)rig_ask(&rig, GET);
    answer("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
    close(upstream);
    upstream = -1;
    rig_turn(&rig);
    assert_true(rig.ended);
    assert_int_equal(endings, 1);
}

static void what_follows_an_answer_spoils_the_connection(void **state)
{
    (void)state;
    (void)rig_ask(&rig, GET);
    answer(OK "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nsmuggled");
    assert_null(strstr(rig_text(&rig), "smuggled"));
    assert_int_equal(atoll_proxy_kept(proxy), 0);
    (void)rig_ask(&rig, GET);
    answer(OK);
    assert_int_equal(atoll_proxy_kept(proxy), 1);
    answer("late words");
    assert_int_equal(atoll_proxy_kept(proxy), 0);
}

static void asks_again_what_may_be_asked_twice(void **state)
{
    (void)state;
    (void)rig_ask(&rig, GET);
    answer(OK);
    hold_dial = true;
    (void)rig_ask(&rig, GET); /* taken from the kept ones, which ends without an answer */
    close(upstream);
    upstream = -1;
    rig_turn(&rig);
    assert_int_equal(dials, 2);
    release_dial();
    rig_turn(&rig);
    assert_starts(take_asked(), "GET /x?y ");
    answer(OK);
    assert_contains(rig_text(&rig), "\r\n\r\nok");
    /* Not so what may have had an effect. */
    (void)rig_ask(&rig, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\na");
    close(upstream);
    upstream = -1;
    rig_turn(&rig);
    assert_int_equal(dials, 2);
    assert_starts(rig_text(&rig), "HTTP/1.1 502 ");
}

static void nobody_listens(void **state)
{
    (void)state;
    refuse_dial = true;
    assert_starts(rig_ask(&rig, GET), "HTTP/1.1 502 ");
    assert_int_equal(failure, ATOLL_ERR_UNAVAILABLE);
    assert_int_equal(last.status, 502);
    /* The connection of the client goes on. */
    refuse_dial = false;
    (void)rig_ask(&rig, GET);
    answer(OK);
    assert_contains(rig_text(&rig), "\r\n\r\nok");
}

static void clients_that_go_away(void **state)
{
    (void)state;
    (void)rig_ask(&rig, GET);
    rig_connect(&rig);
    rig_turn(&rig);
    assert_int_equal(last.status, 499);
    assert_int_equal(atoll_proxy_active(proxy), 0);
    /* While it is dialled for: the connection is there for the next. */
    hold_dial = true;
    (void)rig_ask(&rig, GET);
    rig_connect(&rig);
    rig_turn(&rig);
    assert_int_equal(endings, 2);
    release_dial();
    assert_int_equal(atoll_proxy_kept(proxy), 1);
}

static void a_dial_outlives_the_proxy(void **state)
{
    (void)state;
    hold_dial = true;
    (void)rig_ask(&rig, GET);
    rig.server = atoll_http_server_free(rig.server);
    proxy = atoll_proxy_free(proxy);
    assert_int_equal(endings, 1);
    release_dial();
}

static void too_many_dials_wait(void **state)
{
    int fds[6];

    (void)state;
    hold_dial = true;
    for (int i = 0; i < 6; i++) {
        assert_int_equal(send(rig.fd, GET, strlen(GET), 0), (ssize_t)strlen(GET));
        for (int k = 0; k < 5; k++)
            assert_int_equal(atoll_loop_step(rig.loop, 1, NULL), 0);
        fds[i] = rig.fd;
        rig.fd = -1;
        rig_connect(&rig);
    }
    assert_int_equal(dials, 4);
    assert_int_equal(atoll_proxy_active(proxy), 6);
    /* One of them is through: the next in line is dialled for. */
    hold_dial = false;
    release_dial();
    rig_turn(&rig);
    assert_true(dials >= 5);
    for (int i = 0; i < 6; i++)
        close(fds[i]);
    rig_turn(&rig);
    assert_int_equal(atoll_proxy_active(proxy), 0);
    while (held_count > 0)
        release_dial();
}

static void a_neighbours_requests(void **state)
{
    int fds[2];

    (void)state;
    proxy->active.max = 2;
    hold_dial = true;
    for (int i = 0; i < 2; i++) {
        (void)rig_ask(&rig, GET);
        fds[i] = rig.fd;
        rig.fd = -1;
        rig_connect(&rig);
    }
    assert_non_null(strstr(rig_ask(&rig, GET), "HTTP/1.1 502"));
    assert_int_equal(failure, ATOLL_ERR_RESOURCE_EXHAUSTED);
    failure = ATOLL_ERR_NONE;
    owner = "neighbour";
    (void)rig_ask(&rig, GET);
    assert_int_equal(failure, ATOLL_ERR_NONE);
    assert_int_equal(atoll_proxy_active(proxy), 3);
    for (int i = 0; i < 2; i++)
        close(fds[i]);
    rig_connect(&rig);
    rig_turn(&rig);
    assert_int_equal(atoll_proxy_active(proxy), 0);
    while (held_count > 0)
        release_dial();
}

static void turn_a_little(void)
{
    for (int i = 0; i < 5; i++)
        assert_int_equal(atoll_loop_step(rig.loop, 1, NULL), 0);
}

/* A connection that was held back for a slow client is read again for the next one. */
static void a_waiting_request_gets_a_connection_that_is_read(void **state)
{
    static char body[100 * 1024];
    const char *head = "HTTP/1.1 200 OK\r\nContent-Length: 102400\r\n\r\n";
    int pair[2], small = 4096, fds[5];

    (void)state;
    memset(body, 'x', sizeof(body));
    /* The first has its connection, and does not read its answer. */
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    assert_int_equal(setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
    assert_int_equal(atoll_http_server_adopt(rig.server, pair[0], NULL), 0);
    assert_int_equal(send(pair[1], GET, strlen(GET), 0), (ssize_t)strlen(GET));
    turn_a_little();
    (void)take_asked();
    /* Four are dialled for, so that the fifth waits. */
    hold_dial = true;
    for (int i = 0; i < 5; i++) {
        fds[i] = rig.fd;
        rig.fd = -1;
        rig_connect(&rig);
        rig_send(&rig, GET, strlen(GET));
        turn_a_little();
    }
    assert_int_equal(dials, 5);
    assert_int_equal(send(upstream, head, strlen(head), 0), (ssize_t)strlen(head));
    assert_int_equal(send(upstream, body, sizeof(body), 0), (ssize_t)sizeof(body));
    turn_a_little();
    assert_int_equal(endings, 1);
    /* The fifth has asked on it, and hears the answer. */
    assert_starts(take_asked(), "GET /x?y ");
    answer(OK);
    assert_contains(rig_text(&rig), "\r\n\r\nok");
    close(pair[1]);
    for (int i = 0; i < 5; i++)
        close(fds[i]);
    rig_turn(&rig);
    while (held_count > 0)
        release_dial();
}

static void slow_upstreams_are_given_up(void **state)
{
    (void)state;
    (void)rig_ask(&rig, GET);
    rig_turn_ms(&rig, 2500);
    assert_starts(rig_text(&rig), "HTTP/1.1 502 ");
    assert_int_equal(failure, ATOLL_ERR_DEADLINE_EXCEEDED);
}

/* Both directions: what is not taken stays where it is. */
static void back_pressure(void **state)
{
    static uint8_t piece[65536];
    size_t sent = 0, total = (size_t)8 * 1024 * 1024;
    const char *head = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
    size_t got;

    (void)state;
    memset(piece, 'x', sizeof(piece));
    atoll_buf_clear(&rig.got);
    rig_send(&rig, GET, strlen(GET));
    for (int i = 0; i < 5; i++)
        assert_int_equal(atoll_loop_step(rig.loop, 1, NULL), 0);
    (void)take_asked();
    assert_true(send(upstream, head, strlen(head), 0) > 0);
    /* The client does not read. */
    for (int i = 0; i < 200 && sent < total; i++) {
        ssize_t n = send(upstream, piece, sizeof(piece), MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
        assert_int_equal(atoll_loop_step(rig.loop, 1, NULL), 0);
    }
    assert_true(sent < (size_t)2 * 1024 * 1024);
    /* Nothing of it is lost, though the upstream is gone long before it is read. */
    close(upstream);
    upstream = -1;
    for (int i = 0; i < 20; i++)
        assert_int_equal(atoll_loop_step(rig.loop, 1, NULL), 0);
    rig_turn(&rig);
    assert_int_equal(last.out_bytes, sent);
    got = 0;
    for (size_t i = 0; i < atoll_buf_size(&rig.got); i++)
        got += atoll_buf_head(&rig.got)[i] == 'x';
    assert_int_equal(got, sent);
}

static void uploads_wait_for_the_upstream(void **state)
{
    static char piece[65536];
    const char *head = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 8388608\r\n\r\n";
    size_t sent = 0, got = 0;

    (void)state;
    memset(piece, 'x', sizeof(piece));
    rig_send(&rig, head, strlen(head));
    for (int i = 0; i < 300; i++) {
        ssize_t n = send(rig.fd, piece, sizeof(piece), MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
        assert_int_equal(atoll_loop_step(rig.loop, 1, NULL), 0);
    }
    assert_true(sent < (size_t)2 * 1024 * 1024);
    while (got < 8388608) {
        ssize_t n = sent < 8388608 ? send(rig.fd, piece, ATOLL_MIN(sizeof(piece), 8388608 - sent),
                                          MSG_NOSIGNAL)
                                   : 0;
        const char *text = take_asked();
        sent += n > 0 ? (size_t)n : 0;
        for (size_t i = 0; i < atoll_buf_size(&asked); i++)
            got += text[i] == 'x';
        assert_int_equal(atoll_loop_step(rig.loop, 1, NULL), 0);
    }
    answer(OK);
    assert_contains(rig_text(&rig), "\r\n\r\nok");
    assert_int_equal(atoll_proxy_kept(proxy), 1);
}

static void tunnels(void **state)
{
    (void)state;
    (void)rig_ask(&rig, "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\n"
                        "Upgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\n");
    assert_contains(take_asked(), "Connection: Upgrade\r\nUpgrade: websocket\r\n");
    assert_contains(atoll_buf_str(&asked), "Sec-WebSocket-Key: k\r\n");
    answer("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
           "Sec-WebSocket-Accept: a\r\n\r\nfirst words");
    assert_starts(rig_text(&rig), "HTTP/1.1 101 ");
    assert_contains(rig_text(&rig), "Upgrade: websocket\r\n");
    assert_contains(rig_text(&rig), "Sec-WebSocket-Accept: a\r\n");
    assert_contains(rig_text(&rig), "\r\n\r\nfirst words");
    (void)rig_ask(&rig, "to the server");
    assert_string_equal(take_asked(), "to the server");
    answer("to the client");
    assert_contains(rig_text(&rig), "to the client");
    assert_int_equal(atoll_proxy_active(proxy), 1);
    /* The client has said all it wants, and still hears the rest. */
    (void)shutdown(rig.fd, SHUT_WR);
    rig_turn(&rig);
    answer("last words");
    assert_contains(rig_text(&rig), "last words");
    close(upstream);
    upstream = -1;
    rig_turn(&rig);
    assert_true(rig.ended);
    assert_int_equal(atoll_proxy_active(proxy), 0);
    assert_int_equal(last.status, 101);
    assert_int_equal(last.in_bytes, 13);
    assert_int_equal(last.out_bytes, 11 + 13 + 10);
}

/* What the client has sent before its end is carried first, however long the upstream takes. */
static void carry_to_the_end(bool closes)
{
    static char piece[65536];
    size_t sent = 0, got = 0;
    ssize_t n = 0;

    memset(piece, 'x', sizeof(piece));
    (void)rig_ask(&rig, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
    (void)take_asked();
    answer("HTTP/1.1 101 Yes\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
    for (int i = 0; i < 100; i++) {
        n = send(rig.fd, piece, sizeof(piece), MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
        assert_int_equal(atoll_loop_step(rig.loop, 1, NULL), 0);
    }
    assert_true(n < 0);
    if (closes)
        rig_connect(&rig); /* closes the one before */
    else
        assert_int_equal(shutdown(rig.fd, SHUT_WR), 0);
    turn_a_little();
    for (int i = 0; i < 1000 && n != 0; i++) {
        while ((n = recv(upstream, piece, sizeof(piece), 0)) > 0)
            got += (size_t)n;
        assert_int_equal(atoll_loop_step(rig.loop, 1, NULL), 0);
    }
    assert_int_equal(got, sent);
    assert_int_equal(n, 0); /* and then the end */
    close(upstream);
    upstream = -1;
    rig_turn(&rig);
    assert_int_equal(last.in_bytes, sent);
    assert_int_equal(atoll_proxy_active(proxy), 0);
}

static void a_tunnel_carries_all_before_the_end(void **state)
{
    (void)state;
    carry_to_the_end(false);
    rig_connect(&rig);
    carry_to_the_end(true);
}

static void a_refused_upgrade_is_an_answer(void **state)
{
    (void)state;
    (void)rig_ask(&rig, "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n"
                        "Upgrade: websocket\r\n\r\n");
    (void)take_asked();
    answer("HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno");
    assert_starts(rig_text(&rig), "HTTP/1.1 403 ");
    /* HTTP/2 would hide requests from us; a body before an upgrade is no upgrade. */
    (void)rig_ask(&rig, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n");
    assert_null(strstr(take_asked(), "Upgrade"));
    answer(OK);
}

static void tunnels_end_with_the_proxy(void **state)
{
    (void)state;
    (void)rig_ask(&rig, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
    answer("HTTP/1.1 101 Yes\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
    rig.server = atoll_http_server_free(rig.server);
    proxy = atoll_proxy_free(proxy);
    assert_int_equal(endings, 1);
    rig_read(&rig);
    assert_true(rig.ended);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(passes_on_and_keeps_the_connection),
        TEST(heads_in_single_bytes),
        TEST(bodies_are_framed_anew),
        TEST(an_answer_that_ends_with_the_connection),
        TEST(bad_answers_are_not_passed_on),
        TEST(a_cut_answer_is_cut),
        TEST(what_follows_an_answer_spoils_the_connection),
        TEST(asks_again_what_may_be_asked_twice),
        TEST(nobody_listens),
        TEST(clients_that_go_away),
        TEST(a_dial_outlives_the_proxy),
        TEST(too_many_dials_wait),
        TEST(a_neighbours_requests),
        TEST(a_waiting_request_gets_a_connection_that_is_read),
        TEST(slow_upstreams_are_given_up),
        TEST(back_pressure),
        TEST(uploads_wait_for_the_upstream),
        TEST(tunnels),
        TEST(a_tunnel_carries_all_before_the_end),
        TEST(a_refused_upgrade_is_an_answer),
        TEST(tunnels_end_with_the_proxy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * The E2B provider against services that misbehave, and the streams it makes out of requests. What it
 * does with a good service is tested with a second daemon, in tests/integration.
 */
#include "test.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include "base/base64.h"
#include "base/clock.h"
#include "fake_http.h"
#include "provider/e2b/e2b.h"
#include "provider/e2b/messages.h"

#define KEY "e2b_5ec4e75ec4e7"

static struct atoll_sync_call within(int ms)
{
    return (struct atoll_sync_call){.deadline_ms = atoll_clock_ms() + ms, .cancel_fd = -1};
}

static struct atoll_sync_provider *provider_at(struct fake_http *h)
{
    struct atoll_e2b_provider_config config = {.common.api_url = h->url,
                                               .sandbox_url = h->url,
                                               .common.api_key = KEY,
                                               .common.daemon_id = "d-1",
                                               .common.agent_path = "/proc/self/exe",
                                               .common.timeout_s = 7200};
    struct atoll_sync_provider *p = NULL;
    struct atoll_error error;

    assert_int_equal(atoll_e2b_provider_new(&config, &p, &error), 0);
    return p;
}

static bool is(const struct fake_request *q, const char *method, const char *prefix)
{
    return strcmp(q->method, method) == 0 && strncmp(q->path, prefix, strlen(prefix)) == 0;
}

/* Refusals. */

static void serve_refusals(struct fake_request *q)
{
    static const char echo[] = "{\"message\":\"who is " KEY "?\"}";

    if (is(q, "GET", "/sandboxes/r429"))
        fake_reply(q, 429, "Retry-After: 3\r\n", "{\"message\":\"slow\"}");
    else if (is(q, "GET", "/sandboxes/r503"))
        fake_reply(q, 503, "", "<html>");
    else if (is(q, "GET", "/sandboxes/r401"))
        fake_reply(q, 401, "", echo);
    else if (is(q, "GET", "/sandboxes/r404"))
        fake_reply(q, 404, "", "{}");
    else if (is(q, "GET", "/sandboxes/r302"))
        fake_reply(q, 302, "Location: /sandboxes/elsewhere\r\n", echo);
    else if (is(q, "GET", "/sandboxes/garbage"))
        (void)!atoll_fd_write_all(q->fd, "\1\2\3\4\r\n\r\n", 8);
    else if (is(q, "GET", "/sandboxes/other"))
        fake_reply(q, 200, "", "{\"sandboxID\":\"another\",\"state\":\"running\"}");
    else if (is(q, "GET", "/sandboxes/text"))
        fake_reply(q, 200, "", "hello");
    else if (is(q, "GET", "/sandboxes/cut"))
        (void)!atoll_fd_write_all(q->fd, "HTTP/1.1 200 X\r\nContent-Length: 99\r\n\r\n{", 40);
    else if (is(q, "GET", "/sandboxes/paused"))
        fake_reply(q, 200, "", "{\"sandboxID\":\"paused\",\"state\":\"paused\"}");
    else
        fake_reply(q, 200, "", "{\"sandboxID\":\"elsewhere\",\"state\":\"running\"}");
}

static void refusals(void **state)
{
    static const struct {
        const char *handle;
        enum atoll_error_kind kind;
        int retry_ms;
    } rows[] = {
        {"r429", ATOLL_ERR_UNAVAILABLE, 3000},  {"r503", ATOLL_ERR_UNAVAILABLE, 0},
        {"r401", ATOLL_ERR_UNAUTHENTICATED, 0}, {"r302", ATOLL_ERR_FAILED_PRECONDITION, 0},
        {"garbage", ATOLL_ERR_UNAVAILABLE, 0},  {"other", ATOLL_ERR_UNAVAILABLE, 0},
        {"text", ATOLL_ERR_UNAVAILABLE, 0},     {"cut", ATOLL_ERR_UNAVAILABLE, 0},
        {"../keys", ATOLL_ERR_NOT_FOUND, 0},
    };
    struct fake_http *h = fake_http_new(serve_refusals);
    struct atoll_sync_provider *p = provider_at(h);
    struct atoll_sync_call call = within(5000);
    struct atoll_provider_inspection look;
    struct atoll_spec spec = {.id = "x"};
    struct atoll_error error;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        int r;
        (void)snprintf(spec.handle, sizeof(spec.handle), "%s", rows[i].handle);
        r = p->ops->inspect(p, &call, &spec, &look, &error);
        if (rows[i].kind == ATOLL_ERR_NOT_FOUND) {
            assert_int_equal(r, 0);
            assert_int_equal(look.state, ATOLL_INSPECT_GONE);
            continue;
        }
        assert_true(r < 0);
        assert_int_equal(error.kind, rows[i].kind);
        assert_int_equal(error.retry_ms, rows[i].retry_ms);
        assert_null(strstr(error.text, "5ec4"));
    }
    assert_int_equal(fake_asked(h, "elsewhere"), 0);
    assert_int_equal(fake_asked(h, "keys"), 0);
    (void)snprintf(spec.handle, sizeof(spec.handle), "r404");
    assert_int_equal(p->ops->inspect(p, &call, &spec, &look, &error), 0);
    assert_int_equal(look.state, ATOLL_INSPECT_GONE);
    assert_true(look.cause[0]);
    (void)snprintf(spec.handle, sizeof(spec.handle), "paused");
    assert_int_equal(p->ops->inspect(p, &call, &spec, &look, &error), 0);
    assert_int_equal(look.state, ATOLL_INSPECT_PAUSED);
    p->ops->free(p);
    fake_http_free(h);
}

/* Silence. */

static void serve_nothing(struct fake_request *q)
{
    char byte;

    (void)!read(q->fd, &byte, 1); /* until the client gives up */
}

static void silence(void **state)
{
    struct fake_http *h = fake_http_new(serve_nothing);
    struct atoll_sync_provider *p = provider_at(h);
    struct atoll_sync_call call = within(200);
    struct atoll_spec spec = {.id = "x", .handle = "h"};
    struct atoll_provider_inspection look;
    struct atoll_error error;
    char detail[100];
    int fd = -1;

    (void)state;
    assert_true(p->ops->inspect(p, &call, &spec, &look, &error) < 0);
    assert_int_equal(error.kind, ATOLL_ERR_DEADLINE_EXCEEDED);
    call = within(200);
    assert_true(p->ops->dial(p, &call, &spec, &fd, &error) < 0);
    assert_int_equal(error.kind, ATOLL_ERR_DEADLINE_EXCEEDED);
    /* Given up long before its deadline. */
    call = within(60000);
    call.cancel_fd = eventfd(1, EFD_CLOEXEC);
    assert_true(p->ops->health(p, &call, detail, sizeof(detail), &error) < 0);
    assert_int_equal(error.kind, ATOLL_ERR_ABORTED);
    (void)close(call.cancel_fd);
    p->ops->free(p);
    fake_http_free(h);
}

static void nobody(void **state)
{
    struct fake_http *h = fake_http_new(serve_nothing);
    struct atoll_sync_provider *p = provider_at(h);
    struct atoll_sync_call call = within(5000);
    struct atoll_error error;
    char detail[100];

    (void)state;
    fake_http_free(h);
    assert_true(p->ops->health(p, &call, detail, sizeof(detail), &error) < 0);
    assert_int_equal(error.kind, ATOLL_ERR_UNAVAILABLE);
    p->ops->free(p);
}

/* A create whose answer nobody understands may have made something: it is looked for and removed, then
 * and before the next try. */
static void serve_doubt(struct fake_request *q)
{
    if (is(q, "POST", "/sandboxes"))
        fake_reply(q, 201, "", "{\"oops\":1}");
    else if (is(q, "DELETE", "/sandboxes/lost"))
        fake_reply(q, 204, "", "");
    else if (strstr(q->path, "nextToken=p2"))
        fake_reply(
            q, 200, "",
            "[{\"sandboxID\":\"foreign\",\"state\":\"running\","
            "\"metadata\":{\"atoll_id\":\"y\"}},"
            "{\"sandboxID\":\"lost\",\"state\":\"running\",\"metadata\":{\"atoll_id\":\"x\"}}]");
    else if (is(q, "GET", "/v2/sandboxes?metadata=atoll_daemon%3Dd-1%26atoll_id%3Dx&"))
        fake_reply(q, 200, "X-Next-Token: p2\r\n", "[]");
    else
        fake_reply(q, 500, "", "{}");
}

/* A create that fails says so, also where it begins by looking for what an earlier try left. */
static void failures_say_what_was_wanted(void **state)
{
    struct fake_http *h = fake_http_new(serve_doubt);
    struct atoll_sync_provider *p = provider_at(h);
    struct atoll_sync_call call = within(5000);
    struct atoll_spec spec = {.id = "x"};
    struct atoll_error error;
    int fd = -1;

    (void)state;
    fake_http_free(h);
    for (int i = 0; i < 2; i++) {
        assert_true(p->ops->create(p, &call, &spec, &fd, &error) < 0);
        assert_int_equal(strncmp(error.text, "create: ", 8), 0);
    }
    assert_true(p->ops->destroy(p, &call, &spec, &error) < 0);
    assert_int_equal(strncmp(error.text, "destroy: ", 9), 0);
    p->ops->free(p);
}

static void nothing_is_left_behind(void **state)
{
    struct fake_http *h = fake_http_new(serve_doubt);
    struct atoll_sync_provider *p = provider_at(h);
    struct atoll_sync_call call = within(5000);
    struct atoll_spec spec = {.id = "x"};
    struct atoll_error error;
    int fd = -1;

    (void)state;
    assert_true(p->ops->create(p, &call, &spec, &fd, &error) < 0);
    assert_int_equal(error.kind, ATOLL_ERR_UNAVAILABLE);
    assert_string_equal(spec.handle, "");
    assert_int_equal(fake_asked(h, "DELETE /sandboxes/lost"), 1);
    assert_int_equal(fake_asked(h, "DELETE /sandboxes/foreign"), 0);
    /* Without a handle destroy() finds it by our id. */
    assert_int_equal(p->ops->destroy(p, &call, &spec, &error), 0);
    assert_int_equal(fake_asked(h, "DELETE /sandboxes/lost"), 2);
    p->ops->free(p);
    fake_http_free(h);
}

/* A connection that is kept, and breaks with the next request on it: what that asked for may have been done. */
static void serve_kept(struct fake_request *q)
{
    static const char kept[] = "HTTP/1.1 200 X\r\nContent-Length: 38\r\n\r\n"
                               "{\"sandboxID\":\"kept\",\"state\":\"running\"}";

    if (!is(q, "GET", "/sandboxes/kept")) {
        fake_reply(q, 200, "", "[]");
        return;
    }
    (void)!atoll_fd_write_all(q->fd, kept, strlen(kept));
    free(q->body);
    q->body = NULL;
    if (!fake_read(q) || !is(q, "POST", "/sandboxes"))
        return;
    (void)pthread_mutex_lock(&q->http->lock);
    q->http->counter++;
    (void)pthread_mutex_unlock(&q->http->lock);
}

static void a_create_is_sent_once(void **state)
{
    struct fake_http *h = fake_http_new(serve_kept);
    struct atoll_sync_provider *p = provider_at(h);
    struct atoll_sync_call call = within(20000);
    struct atoll_spec spec = {.id = "x", .handle = "kept"};
    struct atoll_provider_inspection look;
    struct atoll_error error;
    int fd = -1;

    (void)state;
    assert_int_equal(p->ops->inspect(p, &call, &spec, &look, &error), 0);
    spec.handle[0] = '\0';
    assert_true(p->ops->create(p, &call, &spec, &fd, &error) < 0);
    assert_int_equal(error.kind, ATOLL_ERR_UNAVAILABLE);
    assert_int_equal(h->counter, 1);
    assert_int_equal(fake_asked(h, "POST /sandboxes"), 0); /* not on another connection as well */
    assert_int_equal(fake_asked(h, "atoll_id%3Dx"), 1);    /* and it is looked for */
    p->ops->free(p);
    fake_http_free(h);
}

static void serve_hours(struct fake_request *q)
{
    if (!is(q, "POST", "/sandboxes"))
        fake_reply(q, 200, "", "[]");
    else if (strstr(q->body, "\"timeout\":7200"))
        fake_reply(q, 400, "", "{\"message\":\"Timeout cannot be greater than 1 hours\"}");
    else
        fake_reply(q, 403, "",
                   strstr(q->body, "\"timeout\":3600") ? "{\"message\":\"3600\"}" : "{}");
}

static void the_service_has_a_maximum(void **state)
{
    struct fake_http *h = fake_http_new(serve_hours);
    struct atoll_sync_provider *p = provider_at(h);
    struct atoll_sync_call call = within(5000);
    struct atoll_spec spec = {.id = "x"};
    struct atoll_error error;
    int fd = -1;

    (void)state;
    assert_true(p->ops->create(p, &call, &spec, &fd, &error) < 0);
    assert_int_equal(error.kind, ATOLL_ERR_PERMISSION_DENIED);
    assert_non_null(strstr(error.text, "3600"));
    /* Refused for good: nothing can be left, and nothing is looked for. */
    assert_int_equal(fake_asked(h, "GET "), 0);
    p->ops->free(p);
    fake_http_free(h);
}

/* Streams. The process of this service prints what it reads; "!" cuts the connection, the end of its
 * input ends it. */

static int send_event(struct fake_request *q, const char *json, uint8_t flags)
{
    size_t n = strlen(json);
    char head[32];
    uint8_t envelope[] = {flags, (uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8),
                          (uint8_t)n};
    int len = snprintf(head, sizeof(head), "%zx\r\n", n + 5);

    if (atoll_fd_write_all(q->fd, head, (size_t)len) < 0 ||
        atoll_fd_write_all(q->fd, envelope, 5) < 0 || atoll_fd_write_all(q->fd, json, n) < 0)
        return -EPIPE;
    return atoll_fd_write_all(q->fd, "\r\n", 2);
}

static int send_data(struct fake_request *q, const void *bytes, size_t n)
{
    struct atoll_buf json;
    int r;

    atoll_buf_init(&json, 1 << 20);
    r = atoll_buf_appends(&json, "{\"event\":{\"data\":{\"stdout\":\"");
    if (r == 0)
        r = atoll_base64_encode(&json, bytes, n);
    if (r == 0)
        r = atoll_buf_appends(&json, "\"}}}");
    if (r == 0)
        r = send_event(q, atoll_buf_str(&json), 0);
    atoll_buf_done(&json);
    return r;
}

#define CLOSED (-1)
#define KILLED (-2)

static void serve_process(struct fake_request *q)
{
    static const char head[] = "HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n";
    struct fake_http *h = q->http;
    char piece[sizeof(h->state)];
    size_t n;

    if (atoll_fd_write_all(q->fd, head, sizeof(head) - 1) < 0 ||
        send_event(q, "{\"event\":{\"start\":{\"pid\":77}}}", 0) < 0)
        return;
    for (;;) {
        (void)pthread_mutex_lock(&h->lock);
        while (h->state_len == 0 && h->counter >= 0)
            (void)pthread_cond_wait(&h->changed, &h->lock);
        n = h->state_len;
        memcpy(piece, h->state, n);
        h->state_len = 0;
        (void)pthread_cond_broadcast(&h->changed);
        (void)pthread_mutex_unlock(&h->lock);
        if (n == 0 || memchr(piece, '!', n) || send_data(q, piece, n) < 0)
            break;
    }
    if (n > 0)
        return; /* cut */
    (void)send_event(q, "{\"event\":{\"end\":{\"exitCode\":0,\"exited\":true}}}", 0);
    (void)send_event(q, "{}", 2);
    (void)!atoll_fd_write_all(q->fd, "0\r\n\r\n", 5);
}

static void take_input(struct fake_request *q)
{
    json_t *json = json_loads(q->body, 0, NULL);
    const char *text = json_string_value(json_object_get(json_object_get(json, "input"), "stdin"));
    struct fake_http *h = q->http;
    ssize_t n;

    (void)pthread_mutex_lock(&h->lock);
    if (h->counter++ == 1) { /* the second one is asked to come again */
        (void)pthread_mutex_unlock(&h->lock);
        fake_reply(q, 429, "", "{}");
        json_decref(json);
        return;
    }
    n = atoll_base64_bytes(h->state + h->state_len, sizeof(h->state) - h->state_len, text,
                           strlen(text));
    h->state_len += n > 0 ? (size_t)n : 0;
    (void)pthread_cond_broadcast(&h->changed);
    /* As a pipe that is full. */
    while (h->state_len > 0 && h->counter >= 0)
        (void)pthread_cond_wait(&h->changed, &h->lock);
    (void)pthread_mutex_unlock(&h->lock);
    fake_reply(q, 200, "Content-Type: application/json\r\n", "{}");
    json_decref(json);
}

static void tell(struct fake_http *h, int what)
{
    (void)pthread_mutex_lock(&h->lock);
    h->counter = what;
    (void)pthread_cond_broadcast(&h->changed);
    (void)pthread_mutex_unlock(&h->lock);
}

static void serve_streams(struct fake_request *q)
{
    if (is(q, "POST", "/process.Process/Start")) {
        serve_process(q);
        (void)pthread_mutex_lock(&q->http->lock);
        q->http->state_len = 0;
        (void)pthread_cond_broadcast(&q->http->changed);
        (void)pthread_mutex_unlock(&q->http->lock);
    } else if (is(q, "POST", "/process.Process/SendInput")) {
        take_input(q);
    } else if (is(q, "POST", "/process.Process/CloseStdin")) {
        tell(q->http, CLOSED);
        fake_reply(q, 200, "", "{}");
    } else if (is(q, "POST", "/process.Process/SendSignal")) {
        tell(q->http, strstr(q->body, "77") && strstr(q->body, "SIGKILL") ? KILLED : 0);
        fake_reply(q, 200, "", "{}");
    } else {
        fake_reply(q, 200, "",
                   "{\"sandboxID\":\"h\",\"state\":\"running\",\"envdAccessToken\":\"t\"}");
    }
}

static int dial(struct atoll_sync_provider *p)
{
    struct atoll_spec spec = {.id = "x", .handle = "h"};
    struct atoll_sync_call call = within(5000);
    struct atoll_error error;
    int fd = -1;

    assert_int_equal(p->ops->dial(p, &call, &spec, &fd, &error), 0);
    return fd;
}

/* Bytes come back in order and whole, also when nobody reads for a while and some requests are refused;
 * then the end of one direction is the end of both. */
static void streams_carry_bytes(void **state)
{
    struct fake_http *h = fake_http_new(serve_streams);
    struct atoll_sync_provider *p = provider_at(h);
    enum { TOTAL = 3000000 };
    static uint8_t sent[TOTAL], got[TOTAL + 1];
    size_t at = 0, have = 0;
    int fd = dial(p);

    (void)state;
    for (size_t i = 0; i < TOTAL; i++)
        sent[i] = (uint8_t)("abcdefg"[i % 7] + (i / 1000) % 13);
    assert_int_equal(atoll_fd_set_nonblock(fd, true), 0);
    while (have < TOTAL) {
        struct pollfd pfd = {.fd = fd, .events = (short)(POLLIN | (at < TOTAL ? POLLOUT : 0))};
        ssize_t n;
        assert_true(poll(&pfd, 1, 20000) > 0);
        if (pfd.revents & POLLOUT && (n = write(fd, sent + at, TOTAL - at)) > 0) {
            at += (size_t)n;
            if (at == TOTAL)
                assert_int_equal(shutdown(fd, SHUT_WR), 0);
        }
        if (pfd.revents & POLLIN) {
            n = read(fd, got + have, sizeof(got) - have);
            assert_true(n > 0);
            have += (size_t)n;
        }
    }
    assert_memory_equal(sent, got, TOTAL);
    assert_int_equal(atoll_fd_set_nonblock(fd, false), 0);
    assert_int_equal(read(fd, got, 1), 0);
    assert_int_equal(fake_asked(h, "CloseStdin"), 1);
    (void)close(fd);
    p->ops->free(p);
    fake_http_free(h);
}

/* Of a sandbox whose end is not known here: at once. */
static void its_time_is_moved_on(void **state)
{
    struct fake_http *h = fake_http_new(serve_streams);
    struct atoll_sync_provider *p = provider_at(h);
    int fd = dial(p);

    (void)state;
    (void)pthread_mutex_lock(&h->lock);
    while (!strstr(h->asked, "POST /sandboxes/h/timeout\n"))
        (void)pthread_cond_wait(&h->changed, &h->lock);
    (void)pthread_mutex_unlock(&h->lock);
    assert_int_equal(fake_asked(h, "POST /sandboxes/h/connect"), 0);
    (void)close(fd);
    p->ops->free(p);
    tell(h, CLOSED);
    fake_http_free(h);
}

static void a_cut_stream_ends(void **state)
{
    struct fake_http *h = fake_http_new(serve_streams);
    struct atoll_sync_provider *p = provider_at(h);
    int fd = dial(p);
    char byte;

    (void)state;
    assert_int_equal(write(fd, "!", 1), 1);
    assert_int_equal(read(fd, &byte, 1), 0);
    (void)close(fd);
    p->ops->free(p);
    fake_http_free(h);
}

/* The service would leave it running. */
static void a_closed_stream_kills_the_relay(void **state)
{
    struct fake_http *h = fake_http_new(serve_streams);
    struct atoll_sync_provider *p = provider_at(h);
    int fd = dial(p);
    bool killed = false;

    (void)state;
    assert_int_equal(write(fd, "last words", 10), 10);
    (void)close(fd);
    for (int i = 0; i < 1000 && !killed; i++) {
        (void)pthread_mutex_lock(&h->lock);
        killed = h->counter == KILLED;
        (void)pthread_mutex_unlock(&h->lock);
        (void)usleep(5000);
    }
    assert_true(killed);
    assert_int_equal(fake_asked(h, "SendInput"), 1);
    p->ops->free(p);
    fake_http_free(h);
}

static void serve_no_stream(struct fake_request *q)
{
    if (is(q, "GET", "/sandboxes/h"))
        fake_reply(q, 200, "", "{\"sandboxID\":\"h\",\"state\":\"running\"}");
    else if (q->http->counter++ == 0)
        fake_reply(q, 200, "", "this is no envelope");
    else if (q->http->counter == 2)
        fake_reply(q, 502, "", "{\"message\":\"The sandbox was not found, " KEY "\"}");
    else
        fake_reply(q, 200, "", "");
}

static void what_is_no_stream_fails(void **state)
{
    struct fake_http *h = fake_http_new(serve_no_stream);
    struct atoll_sync_provider *p = provider_at(h);
    struct atoll_spec spec = {.id = "x", .handle = "h"};
    struct atoll_error error;

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct atoll_sync_call call = within(5000);
        int fd = -1;
        assert_true(p->ops->dial(p, &call, &spec, &fd, &error) < 0);
        assert_int_equal(error.kind, ATOLL_ERR_UNAVAILABLE);
        assert_null(strstr(error.text, "5ec4"));
    }
    p->ops->free(p);
    fake_http_free(h);
}

/* Only of E2B's own cloud do we know how it isolates. */
static void isolations(void **state)
{
    static const struct {
        const char *api_url, *domain, *said, *shown;
    } rows[] = {
        {NULL, NULL, NULL, "microvm"},
        {NULL, "e2b.app", NULL, "microvm"},
        {NULL, "e2b.example.org", NULL, "unknown"},
        {"http://127.0.0.1:7070", NULL, NULL, "unknown"},
        {"http://127.0.0.1:7070", NULL, "namespaces", "namespaces"},
    };

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        const struct atoll_e2b_provider_config config = {.common.api_url = rows[i].api_url,
                                                         .domain = rows[i].domain,
                                                         .common.isolation = rows[i].said,
                                                         .common.api_key = KEY,
                                                         .common.daemon_id = "d",
                                                         .common.agent_path = "/proc/self/exe"};
        struct atoll_sync_provider *p = NULL;
        struct atoll_error error;

        assert_int_equal(atoll_e2b_provider_new(&config, &p, &error), 0);
        assert_string_equal(p->ops->caps.isolation, rows[i].shown);
        (void)p->ops->free(p);
    }
}

static void bad_configs(void **state)
{
    static const struct atoll_remote_header_setting two_lines = {"A", "b\r\nC: d"};
    const struct atoll_e2b_provider_config good = {
        .common.api_key = KEY, .common.daemon_id = "d", .common.agent_path = "/bin/true"};
    struct atoll_e2b_provider_config bad[8];
    struct atoll_sync_provider *p = NULL;
    struct atoll_error error;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bad); i++)
        bad[i] = good;
    bad[0].common.api_url = "ftp://x";
    bad[1].common.api_url = "http://user:pass@x";
    bad[2].common.api_key = "a\nb";
    bad[3].common.api_key = NULL;
    bad[3].common.api_key_env = "ATOLL_TEST_NO_SUCH_VARIABLE";
    bad[4].common.daemon_id = "a&b";
    bad[5].common.headers = &two_lines;
    bad[5].common.header_count = 1;
    bad[6].common.api_key = NULL;
    bad[6].common.api_key_file = "/nonexistent";
    bad[7].domain = "a/b";
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bad); i++) {
        assert_true(atoll_e2b_provider_new(&bad[i], &p, &error) < 0);
        assert_int_equal(error.kind, ATOLL_ERR_INVALID_ARGUMENT);
        assert_null(strstr(error.text, "5ec4"));
    }
    assert_int_equal(atoll_e2b_provider_new(&good, &p, &error), 0);
    p->ops->free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(isolations),
        cmocka_unit_test(bad_configs),
        cmocka_unit_test(refusals),
        cmocka_unit_test(silence),
        cmocka_unit_test(nobody),
        cmocka_unit_test(failures_say_what_was_wanted),
        cmocka_unit_test(nothing_is_left_behind),
        cmocka_unit_test(a_create_is_sent_once),
        cmocka_unit_test(the_service_has_a_maximum),
        cmocka_unit_test(streams_carry_bytes),
        cmocka_unit_test(its_time_is_moved_on),
        cmocka_unit_test(a_cut_stream_ends),
        cmocka_unit_test(a_closed_stream_kills_the_relay),
        cmocka_unit_test(what_is_no_stream_fails),
    };

    /* The server here writes to clients that are gone. */
    (void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

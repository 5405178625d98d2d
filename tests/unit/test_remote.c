/*
 * The kit of providers whose sandboxes are made by a service, with a service of its own: requests,
 * retries, errors, leases, streams and the installer of the agent.
 */
#include "test.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include "base/clock.h"
#include "base/metrics.h"
#include "fake_http.h"
#include "provider/remote/agent.h"
#include "provider/remote/api.h"
#include "provider/remote/pump.h"
#include "provider/remote/retry.h"
#include "provider/remote/settings.h"

static const struct atoll_remote_rule rules[] = {
    {400, "quota", ATOLL_ERR_RESOURCE_EXHAUSTED, EDQUOT, "ask for more"},
    {0, "asleep", ATOLL_ERR_UNAVAILABLE, EAGAIN, NULL},
    {500, NULL, ATOLL_ERR_INTERNAL, EIO, NULL},
};
static const struct atoll_remote_service service = {
    .name = "the plain service",
    .label = "plain",
    .rules = rules,
    .rule_count = ATOLL_ARRAY_LEN(rules),
    .message = "error",
};

static struct atoll_sync_call within(int ms)
{
    return (struct atoll_sync_call){.deadline_ms = atoll_clock_ms() + ms, .cancel_fd = -1};
}

static void wait_asked(struct fake_http *h, const char *text)
{
    int64_t until_ms = atoll_clock_ms() + 30000;

    while (fake_asked(h, text) == 0) {
        if (atoll_clock_ms() > until_ms)
            fail_msg("no request has \"%s\":\n%s", text, h->asked);
        (void)usleep(5000);
    }
}

/* Errors. */

static void refuse(struct atoll_error *error, long status, const char *body)
{
    assert_true(atoll_remote_refused(error, &service, "try", status, body, strlen(body), 7, NULL) <
                0);
}

static void tables_map_refusals(void **state)
{
    static const struct {
        long status;
        const char *body;
        enum atoll_error_kind kind;
    } rows[] = {
        {400, "{\"code\":\"quota\"}", ATOLL_ERR_RESOURCE_EXHAUSTED},
        {400, "{\"code\":\"other\"}", ATOLL_ERR_INVALID_ARGUMENT},
        {404, "{\"code\":\"asleep\"}", ATOLL_ERR_UNAVAILABLE},
        {404, "", ATOLL_ERR_NOT_FOUND},
        {500, "<html>", ATOLL_ERR_INTERNAL},
        {502, "{}", ATOLL_ERR_UNAVAILABLE},
        {302, "[]", ATOLL_ERR_FAILED_PRECONDITION},
    };
    struct atoll_error error;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        refuse(&error, rows[i].status, rows[i].body);
        assert_int_equal(error.kind, rows[i].kind);
        assert_int_equal(error.retry_ms, rows[i].kind == ATOLL_ERR_UNAVAILABLE ? 7000 : 0);
    }
    refuse(&error, 400, "{\"code\":\"quota\",\"error\":\"you have 3\"}");
    assert_string_equal(error.text, "try: the plain service answers 400: you have 3; ask for more");
    assert_int_equal(error.errnum, EDQUOT);
}

static void no_secret_comes_back(void **state)
{
    struct atoll_error error;
    char body[1000];

    (void)state;
    /* Also where the text is cut in the middle of it. */
    for (int pad = 0; pad < 300; pad++) {
        (void)snprintf(body, sizeof(body),
                       "{\"error\":\"%*s e2b_5ec4e7 is bad, e2b_5ec4e7\\n e2b_5ec4e7\"}", pad, "");
        for (long status = 400; status <= 401; status++) {
            assert_true(atoll_remote_refused(&error, &service, "try", status, body, strlen(body), 0,
                                             "e2b_5ec4e7") < 0);
            assert_null(strstr(error.text, "5ec"));
            assert_null(strchr(error.text, '\n'));
        }
    }
}

/* Requests. */

static void delays(void **state)
{
    (void)state;
    assert_true(atoll_remote_is_later(429) && atoll_remote_is_later(503));
    assert_false(atoll_remote_is_later(500) || atoll_remote_is_later(200));
    assert_int_equal(atoll_remote_delay_ms(1, 0, 0), 250);
    assert_int_equal(atoll_remote_delay_ms(2, 0, 0), 500);
    assert_int_equal(atoll_remote_delay_ms(100, 0, 0), 8000);
    assert_int_equal(atoll_remote_delay_ms(1, 3, 0), 3000);
    assert_int_equal(atoll_remote_delay_ms(1, 0, 62), 312);
}

/* /later: refused so often as `counter` says. */
static void serve(struct fake_request *q)
{
    struct fake_http *h = q->http;
    bool refused;
    char byte;

    (void)pthread_mutex_lock(&h->lock);
    refused = h->counter > 0 && h->counter--;
    (void)pthread_mutex_unlock(&h->lock);
    if (strcmp(q->path, "/silent") == 0)
        (void)!read(q->fd, &byte, 1); /* until the client gives up */
    else if (strcmp(q->path, "/later") == 0 && refused)
        fake_reply(q, 503, "", "{}");
    else if (strcmp(q->path, "/hour") == 0)
        fake_reply(q, 429, "Retry-After: 3600\r\n", "{\"error\":\"slowly\"}");
    else
        fake_reply(q, 200, "X-More: yes\r\n", q->body_len > 0 ? q->body : "0123456789");
}

static struct atoll_remote_http *client(unsigned connections)
{
    struct atoll_remote_http *http = NULL;
    struct atoll_error error;

    assert_int_equal(atoll_remote_http_new(
                         &(struct atoll_remote_http_config){
                             .service = &service, .connections = connections, .direct = true},
                         &http, &error),
                     0);
    return http;
}

static int ask(struct atoll_remote_http *http, struct atoll_sync_call call, struct fake_http *h,
               const char *path, struct atoll_remote_request request,
               struct atoll_remote_answer *answer, struct atoll_error *error)
{
    char url[128];

    (void)snprintf(url, sizeof(url), "%s%s", h->url, path);
    request.what = "try";
    request.url = url;
    request.method = request.body ? "POST" : "GET";
    return atoll_remote_http_ask(http, &call, &request, answer, error);
}

static void requests_are_answered(void **state)
{
    struct fake_http *h = fake_http_new(serve);
    struct atoll_remote_http *http = client(0);
    struct atoll_remote_answer answer;
    struct atoll_error error;

    (void)state;
    assert_int_equal(
        ask(http, within(5000), h, "/x",
            (struct atoll_remote_request){.body = "abc", .body_len = 3, .header = "x-more"},
            &answer, &error),
        0);
    assert_int_equal(answer.status, 200);
    assert_string_equal(answer.header, "yes");
    assert_string_equal(atoll_buf_str(&answer.body), "abc");
    atoll_remote_answer_done(&answer);
    assert_true(ask(http, within(5000), h, "/x", (struct atoll_remote_request){.answer_max = 4},
                    &answer, &error) < 0);
    assert_int_equal(error.kind, ATOLL_ERR_RESOURCE_EXHAUSTED);
    atoll_remote_answer_done(&answer);
    assert_true(ask(http, within(5000), h, "/silent",
                    (struct atoll_remote_request){.timeout_ms = 100}, &answer, &error) < 0);
    assert_int_equal(error.kind, ATOLL_ERR_DEADLINE_EXCEEDED);
    assert_string_equal(error.text, "try: the plain service did not answer in time");
    atoll_remote_answer_done(&answer);
    (void)atoll_remote_http_free(http);
    fake_http_free(h);
}

static double metric(const char *name)
{
    struct atoll_buf text;
    const char *at;
    char line[100];
    double value = 0;

    atoll_buf_init(&text, 1 << 20);
    assert_int_equal(atoll_metrics_write(&text), 0);
    (void)snprintf(line, sizeof(line), "\n%s{service=\"plain\"} ", name);
    at = strstr(atoll_buf_str(&text), line);
    if (at)
        value = strtod(at + strlen(line), NULL);
    atoll_buf_done(&text);
    return value;
}

static void later_is_tried_again(void **state)
{
    struct fake_http *h = fake_http_new(serve);
    struct atoll_remote_http *http = client(0);
    struct atoll_remote_answer answer;
    struct atoll_error error;

    (void)state;
    assert_true(metric("atoll_remote_limited_total") < 1);
    h->counter = 3;
    assert_int_equal(
        ask(http, within(20000), h, "/later", (struct atoll_remote_request){0}, &answer, &error),
        0);
    assert_int_equal(answer.status, 503);
    assert_int_equal(fake_asked(h, "/later"), 1);
    atoll_remote_answer_done(&answer);
    assert_int_equal(ask(http, within(20000), h, "/later",
                         (struct atoll_remote_request){.tries = 3}, &answer, &error),
                     0);
    assert_int_equal(answer.status, 200);
    assert_int_equal(fake_asked(h, "/later"), 4);
    atoll_remote_answer_done(&answer);
    /* A pause that ends after the deadline is not waited for. */
    assert_int_equal(ask(http, within(20000), h, "/hour", (struct atoll_remote_request){.tries = 3},
                         &answer, &error),
                     0);
    assert_int_equal(answer.status, 429);
    assert_int_equal(answer.retry_after_s, 3600);
    assert_int_equal(fake_asked(h, "/hour"), 1);
    atoll_remote_answer_done(&answer);
    /* One refusal of the first request, two of the second, one of the third. */
    assert_int_equal((int)metric("atoll_remote_limited_total"), 4);
    assert_int_equal((int)metric("atoll_remote_retries_total"), 2);
    assert_true(metric("atoll_remote_pause_seconds_total") > 0.7); /* 250 and 500 ms at least */
    (void)atoll_remote_http_free(http);
    fake_http_free(h);
}

/* Others that may wait do so until the pause has ended, but not when they are cancelled. */
static void a_pause_holds_for_all(void **state)
{
    struct fake_http *h = fake_http_new(serve);
    struct atoll_remote_http *http = client(0);
    struct atoll_sync_call call = within(7200000);
    struct atoll_remote_answer answer;
    struct atoll_error error;

    (void)state;
    assert_int_equal(ask(http, call, h, "/hour", (struct atoll_remote_request){0}, &answer, &error),
                     0);
    atoll_remote_answer_done(&answer);
    call.cancel_fd = eventfd(1, EFD_CLOEXEC);
    assert_true(
        ask(http, call, h, "/x", (struct atoll_remote_request){.tries = 2}, &answer, &error) < 0);
    assert_int_equal(error.kind, ATOLL_ERR_ABORTED);
    assert_int_equal(fake_asked(h, "/x"), 0);
    (void)close(call.cancel_fd);
    (void)atoll_remote_http_free(http);
    fake_http_free(h);
}

struct asker {
    struct atoll_remote_http *http;
    struct fake_http *h;
    int cancel_fd;
    enum atoll_error_kind kind;
};

static void *ask_silent(void *arg)
{
    struct asker *a = arg;
    struct atoll_sync_call call = within(60000);
    struct atoll_remote_answer answer;
    struct atoll_error error = {0};

    call.cancel_fd = a->cancel_fd;
    (void)!ask(a->http, call, a->h, "/silent", (struct atoll_remote_request){0}, &answer, &error);
    atoll_remote_answer_done(&answer);
    a->kind = error.kind;
    return NULL;
}

static void connections_are_bounded(void **state)
{
    struct fake_http *h = fake_http_new(serve);
    struct asker a = {.http = client(1), .h = h, .cancel_fd = eventfd(0, EFD_CLOEXEC)};
    struct atoll_remote_answer answer;
    struct atoll_error error;
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, ask_silent, &a), 0);
    wait_asked(h, "/silent");
    assert_true(
        ask(a.http, within(200), h, "/x", (struct atoll_remote_request){0}, &answer, &error) < 0);
    assert_int_equal(error.kind, ATOLL_ERR_DEADLINE_EXCEEDED);
    assert_int_equal(fake_asked(h, "/x"), 0);
    assert_int_equal(ask(a.http, within(5000), h, "/x", (struct atoll_remote_request){.slow = true},
                         &answer, &error),
                     0);
    atoll_remote_answer_done(&answer);
    assert_int_equal(eventfd_write(a.cancel_fd, 1), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(a.kind, ATOLL_ERR_ABORTED);
    (void)close(a.cancel_fd);
    (void)atoll_remote_http_free(a.http);
    fake_http_free(h);
}

/* Leases. */

static void leases(void **state)
{
    struct atoll_remote_leases *r = atoll_remote_leases_new(&service, 300, sizeof(int));
    int one = 1, two = 2, got = 0;
    int64_t now = atoll_clock_ms(), wait_ms;
    char handle[ATOLL_REMOTE_HANDLE_MAX + 1];
    struct atoll_error error;

    (void)state;
    assert_int_equal(atoll_remote_leases_put(r, "one", &one, false, true, &error), 0);
    assert_false(atoll_remote_leases_due(r, now, handle, &wait_ms));
    assert_in_range(wait_ms, 90000, 101000); /* a third */
    /* One that is only now known again may be at its end. */
    assert_int_equal(atoll_remote_leases_put(r, "two", &two, false, false, &error), 0);
    assert_true(atoll_remote_leases_due(r, now, handle, &wait_ms));
    assert_string_equal(handle, "two");
    assert_false(atoll_remote_leases_due(r, now, handle, &wait_ms));
    atoll_remote_leases_extended(r, "two", false);
    assert_false(atoll_remote_leases_due(r, now, handle, &wait_ms));
    assert_in_range(wait_ms, 1, 11000);
    assert_true(atoll_remote_leases_due(r, now + 12000, handle, &wait_ms));
    atoll_remote_leases_extended(r, "two", true);
    /* What stands still has no end. */
    atoll_remote_leases_set_paused(r, "one", true);
    atoll_remote_leases_set_paused(r, "two", true);
    assert_false(atoll_remote_leases_due(r, now + 3600000, handle, &wait_ms));
    assert_true(atoll_remote_leases_get(r, "one", &got));
    assert_int_equal(got, 1);
    atoll_remote_leases_forget(r, "one");
    assert_false(atoll_remote_leases_get(r, "one", &got));
    atoll_remote_leases_free(r);
}

static void unconfirmed(void **state)
{
    struct atoll_remote_leases *r = atoll_remote_leases_new(&service, 0, sizeof(int));
    char id[20];

    (void)state;
    assert_int_equal(atoll_remote_leases_lease_s(r), ATOLL_REMOTE_LEASE_S);
    atoll_remote_leases_set_unconfirmed(r, "x");
    assert_true(atoll_remote_leases_is_unconfirmed(r, "x"));
    atoll_remote_leases_set_confirmed(r, "x");
    assert_false(atoll_remote_leases_is_unconfirmed(r, "x"));
    for (int i = 0; i < 10000; i++) {
        (void)snprintf(id, sizeof(id), "i%d", i);
        atoll_remote_leases_set_unconfirmed(r, id);
        assert_true(atoll_remote_leases_is_unconfirmed(r, id));
    }
    assert_false(atoll_remote_leases_is_unconfirmed(r, "i0"));
    atoll_remote_leases_free(r);
}

/* Streams: this service sends "+" when the process runs and then its output as it is. The process
 * prints what it reads until its input ends. */

static int decode(void *st, struct atoll_remote_stream *s, const void *bytes, size_t n)
{
    bool *running = st;
    size_t skip = *running ? 0 : 1;

    if (!*running && *(const char *)bytes != '+')
        return -EBADMSG;
    if (!*running)
        atoll_remote_stream_opened(s);
    *running = true;
    return n > skip ? atoll_remote_stream_output(s, (const char *)bytes + skip, n - skip) : 0;
}

static int plain_input(void *st, struct atoll_buf *body, const void *bytes, size_t n)
{
    (void)st;
    return atoll_buf_append(body, bytes, n);
}

static int plain_body(void *st, struct atoll_buf *body)
{
    (void)st;
    return atoll_buf_appends(body, "{}");
}

static const struct atoll_remote_stream_ops plain_ops = {
    .decode = decode,
    .input = plain_input,
    .end_input = plain_body,
    .kill = plain_body,
    .free = free,
};

static void serve_stream(struct fake_request *q)
{
    static const char head[] = "HTTP/1.1 200 X\r\nConnection: close\r\n\r\n+";
    struct fake_http *h = q->http;

    (void)pthread_mutex_lock(&h->lock);
    if (strcmp(q->path, "/input") == 0) {
        memcpy(h->state + h->state_len, q->body, q->body_len);
        h->state_len += q->body_len;
    } else if (strcmp(q->path, "/end") == 0 || strcmp(q->method, "DELETE") == 0) {
        h->counter = -1;
    } else if (strcmp(q->path, "/start") == 0 &&
               atoll_fd_write_all(q->fd, head, strlen(head)) == 0) {
        while (h->counter >= 0)
            (void)pthread_cond_wait(&h->changed, &h->lock);
        (void)!atoll_fd_write_all(q->fd, h->state, h->state_len);
    }
    (void)pthread_cond_broadcast(&h->changed);
    (void)pthread_mutex_unlock(&h->lock);
    if (strcmp(q->path, "/refused") == 0)
        fake_reply(q, 400, "", "{\"code\":\"quota\",\"error\":\"no more\"}");
    else if (strcmp(q->path, "/start") != 0)
        fake_reply(q, 200, "", "{}");
}

/* The request that extends a lease of this service. */
static int extend(void *arg, const char *handle, uint32_t lease_s,
                  struct atoll_remote_extension *ret)
{
    const struct fake_http *h = arg;

    if (asprintf(&ret->url, "%s/extend/%s/%u", h->url, handle, lease_s) < 0)
        ret->url = NULL;
    ret->body = strdup("{}");
    return ret->url && ret->body ? 0 : -ENOMEM;
}

static int open_stream(struct atoll_remote_pump *pump, struct fake_http *h, const char *start,
                       int *ret_fd, struct atoll_error *error)
{
    static const char *const paths[] = {"", "/input", "/end", "/kill"};
    struct atoll_sync_call call = within(10000);
    struct curl_slist *headers = curl_slist_append(NULL, "X-A: b");
    struct atoll_remote_open open = {.handle = "box",
                                     .start_headers = headers,
                                     .headers = headers,
                                     .start_body = "go",
                                     .start_body_len = 2,
                                     .silence_ms = 60000,
                                     .ops = &plain_ops,
                                     .state = calloc(1, sizeof(bool))};
    char urls[4][128];
    int r;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(urls); i++) {
        (void)snprintf(urls[i], sizeof(urls[i]), "%s%s", h->url, i ? paths[i] : start);
        open.to[i].url = urls[i];
    }
    r = atoll_remote_pump_open(pump, &call, &open, ret_fd, error);
    curl_slist_free_all(headers);
    return r;
}

/* A process that another request has started: only its output is asked for, and it cannot be told
 * that its input ends. */
static int open_running(struct atoll_remote_pump *pump, struct fake_http *h, int *ret_fd,
                        struct atoll_error *error)
{
    struct atoll_sync_call call = within(10000);
    struct atoll_remote_open open = {.handle = "box",
                                     .running = true,
                                     .silence_ms = 60000,
                                     .ops = &plain_ops,
                                     .state = calloc(1, sizeof(bool))};
    char start[128], input[128], end[128];

    (void)snprintf(start, sizeof(start), "%s/start", h->url);
    (void)snprintf(input, sizeof(input), "%s/input", h->url);
    (void)snprintf(end, sizeof(end), "%s/kill", h->url);
    open.to[ATOLL_REMOTE_START].method = "GET";
    open.to[ATOLL_REMOTE_START].url = start;
    open.to[ATOLL_REMOTE_INPUT].method = "PUT";
    open.to[ATOLL_REMOTE_INPUT].url = input;
    open.to[ATOLL_REMOTE_KILL].method = "DELETE";
    open.to[ATOLL_REMOTE_KILL].url = end;
    return atoll_remote_pump_open(pump, &call, &open, ret_fd, error);
}

static void streams_and_leases_are_carried(void **state)
{
    struct fake_http *h = fake_http_new(serve_stream);
    struct atoll_remote_http *http = client(0);
    struct atoll_remote_leases *leases = atoll_remote_leases_new(&service, 90, sizeof(int));
    struct atoll_remote_pump *pump = NULL;
    struct atoll_error error;
    char text[16] = "";
    int fd = -1, record = 0;

    (void)state;
    assert_int_equal(
        atoll_remote_pump_new(&(struct atoll_remote_pump_config){.http = http,
                                                                 .service = &service,
                                                                 .leases = leases,
                                                                 .extend = extend,
                                                                 .arg = h,
                                                                 .extend_method = "PUT"},
                              &pump, &error),
        0);
    assert_true(open_stream(pump, h, "/refused", &fd, &error) < 0);
    assert_int_equal(error.kind, ATOLL_ERR_RESOURCE_EXHAUSTED);
    assert_true(open_stream(pump, h, "/no-stream", &fd, &error) < 0);
    assert_int_equal(error.kind, ATOLL_ERR_UNAVAILABLE);
    assert_int_equal(atoll_remote_leases_put(leases, "box", &record, false, false, &error), 0);
    assert_int_equal(open_stream(pump, h, "/start", &fd, &error), 0);
    assert_int_equal(write(fd, "hello", 5), 5);
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    assert_int_equal(atoll_fd_read_all(fd, text, 5), 0);
    assert_string_equal(text, "hello");
    assert_int_equal(read(fd, text, 1), 0);
    (void)close(fd);
    wait_asked(h, "PUT /extend/box/90");
    (void)pthread_mutex_lock(&h->lock);
    h->counter = 0;
    (void)pthread_mutex_unlock(&h->lock);
    assert_int_equal(open_running(pump, h, &fd, &error), 0);
    assert_int_equal(write(fd, "more", 4), 4);
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    wait_asked(h, "PUT /input");
    wait_asked(h, "GET /start");
    (void)close(fd);
    wait_asked(h, "DELETE /kill");
    assert_int_equal(fake_asked(h, "/end"), 1); /* of the first stream */
    (void)atoll_remote_pump_free(pump);
    (void)atoll_remote_leases_free(leases);
    (void)atoll_remote_http_free(http);
    fake_http_free(h);
}

/* The installer. */

struct place {
    bool has_agent;
    int runs, code;
    char path[64], bytes[16];
    size_t len;
};

static int run(void *arg, const struct atoll_sync_call *call, const char *const *argv,
               struct atoll_remote_exit *ret, struct atoll_error *err)
{
    struct place *place = arg;

    (void)call;
    (void)err;
    assert_string_equal(argv[0], "/bin/sh");
    assert_int_equal(strlen(argv[4]), 64); /* the hash */
    place->runs++;
    ret->code = place->has_agent ? place->code : 3;
    (void)snprintf(ret->text, sizeof(ret->text), "no exec");
    return 0;
}

static int upload(void *arg, const struct atoll_sync_call *call, const char *path,
                  const void *bytes, size_t n, struct atoll_error *err)
{
    struct place *place = arg;

    (void)call;
    (void)err;
    place->has_agent = true;
    place->len = n;
    (void)snprintf(place->path, sizeof(place->path), "%s", path);
    memcpy(place->bytes, bytes, ATOLL_MIN(n, sizeof(place->bytes)));
    return 0;
}

static void the_agent_is_installed(void **state)
{
    char file[] = "/tmp/test-remote-XXXXXX";
    int fd = mkstemp(file);
    struct place place = {0};
    const struct atoll_remote_installer installer = {.run = run, .upload = upload, .arg = &place};
    struct atoll_remote_exit ended;
    struct atoll_sync_call call = within(1000);
    struct atoll_remote_agent *agent;
    struct atoll_error error;

    (void)state;
    assert_int_equal(write(fd, "agent", 5), 5);
    (void)close(fd);
    for (int form = ATOLL_REMOTE_PLAIN; form <= ATOLL_REMOTE_TGZ; form++) {
        agent = atoll_remote_agent_new(file, (enum atoll_remote_form)form);
        place = (struct place){0};
        assert_int_equal(atoll_remote_agent_start(agent, &call, &installer, &ended, &error), 0);
        assert_int_equal(place.runs, 2);
        assert_string_equal(place.path, "/var/lib/atoll/agent");
        assert_int_equal(memcmp(place.bytes, form ? "\x1f\x8b" : "ag", 2), 0);
        assert_int_equal(atoll_remote_agent_start(agent, &call, &installer, &ended, &error), 0);
        assert_int_equal(place.runs, 3);
        place.code = 126;
        assert_true(atoll_remote_agent_start(agent, &call, &installer, &ended, &error) < 0);
        assert_int_equal(error.kind, ATOLL_ERR_FAILED_PRECONDITION);
        assert_non_null(strstr(error.text, "no exec"));
        (void)atoll_remote_agent_free(agent);
    }
    (void)unlink(file);
}

static void settings_are_checked(void **state)
{
    const struct atoll_remote_header_setting bad = {"A", "b\r\nC: d"}, good = {"A", "b"};
    struct curl_slist *list = NULL;
    struct atoll_error error;
    char *text = NULL;

    (void)state;
    assert_int_equal(atoll_remote_take_url("x", "api_url", "https://a/b//", &text, &error), 0);
    assert_string_equal(text, "https://a/b");
    free(text);
    assert_true(atoll_remote_take_url("x", "api_url", "https://u@a", &text, &error) < 0);
    assert_string_equal(error.text, "x: api_url must be like https://HOST or http://HOST:PORT");
    assert_true(atoll_remote_take_headers("x", &bad, 1, &list, &error) < 0);
    assert_int_equal(atoll_remote_take_headers("x", &good, 1, &list, &error), 0);
    assert_string_equal(list->data, "A: b");
    curl_slist_free_all(list);
    assert_true(atoll_remote_take_key("x", &(struct atoll_remote_key){.env = "ATOLL_NO_SUCH_KEY"},
                                      &text, &error) < 0);
    assert_int_equal(error.kind, ATOLL_ERR_INVALID_ARGUMENT);
    assert_int_equal(
        atoll_remote_take_key("x", &(struct atoll_remote_key){.value = "k"}, &text, &error), 0);
    assert_string_equal(text, "k");
    atoll_remote_key_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_map_refusals),
        cmocka_unit_test(no_secret_comes_back),
        cmocka_unit_test(delays),
        cmocka_unit_test(requests_are_answered),
        cmocka_unit_test(later_is_tried_again),
        cmocka_unit_test(a_pause_holds_for_all),
        cmocka_unit_test(connections_are_bounded),
        cmocka_unit_test(leases),
        cmocka_unit_test(unconfirmed),
        cmocka_unit_test(streams_and_leases_are_carried),
        cmocka_unit_test(the_agent_is_installed),
        cmocka_unit_test(settings_are_checked),
    };

    (void)signal(SIGPIPE, SIG_IGN); /* the server writes to clients that are gone */
    return cmocka_run_group_tests(tests, NULL, NULL);
}

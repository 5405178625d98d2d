/*
 * The Daytona provider against services that misbehave, and the streams it makes out of requests. What it
 * does with a good service is tested with a second daemon, in tests/conformance/providers.
 */
#include "test.h"

#include <errno.h>
#include <signal.h>
#include "base/clock.h"
#include "fake_http.h"
#include "fake_relay.h"
#include "provider/daytona/daytona.h"
#include "provider/daytona/messages.h"
#include "provider/remote/relay.h"

#define KEY "dtn_5ec4e75ec4e7"
#define TOKEN FAKE_RELAY_TOKEN
#define LABELS "%7B%22atoll_daemon%22%3A%22d-1%22%2C%22atoll_id%22%3A%22x%22%7D"

static struct atoll_sync_call within(int ms)
{
    return (struct atoll_sync_call){.deadline_ms = atoll_clock_ms() + ms, .cancel_fd = -1};
}

static struct atoll_sync_provider *provider_at(struct fake_http *h)
{
    char toolbox[100];
    const struct atoll_daytona_provider_config config = {.common.api_url = h->url,
                                                         .common.api_key = KEY,
                                                         .common.daemon_id = "d-1",
                                                         .common.agent_path = "/proc/self/exe",
                                                         .common.timeout_s = 7200,
                                                         .pause = true,
                                                         .toolbox_url = toolbox};
    struct atoll_sync_provider *p = NULL;
    struct atoll_error error;

    (void)snprintf(toolbox, sizeof(toolbox), "%s/toolbox", h->url);
    assert_int_equal(atoll_daytona_provider_new(&config, &p, &error), 0);
    return p;
}

static bool is(const struct fake_request *q, const char *method, const char *prefix)
{
    return strcmp(q->method, method) == 0 && strncmp(q->path, prefix, strlen(prefix)) == 0;
}

/* What the answers to get mean. The last part of the path is the state, or a status. */
static void serve_states(struct fake_request *q)
{
    const char *last = strrchr(q->path, '/') + 1;
    char body[300];

    if (strcmp(last, "s429") == 0)
        fake_reply(q, 429, "Retry-After: 3\r\n", "{\"message\":\"slow\"}");
    else if (last[0] == 's' && last[1] >= '0' && last[1] <= '9')
        fake_reply(q, atoi(last + 1), "", "{\"message\":\"who is " KEY "?\"}");
    else if (strcmp(last, "text") == 0)
        fake_reply(q, 200, "", "hello");
    else if (strcmp(last, "other") == 0)
        fake_reply(q, 200, "", "{\"id\":\"another\",\"state\":\"started\"}");
    else {
        (void)snprintf(body, sizeof(body),
                       "{\"id\":\"%s\",\"state\":\"%s\",\"errorReason\":\"no\\nroom\"}", last,
                       last);
        fake_reply(q, 200, "", body);
    }
}

static void states(void **state)
{
    static const struct {
        const char *handle;
        int state; /* -1: an error */
        enum atoll_error_kind kind;
        int retry_ms;
    } rows[] = {
        {"started", ATOLL_INSPECT_ALIVE, 0, 0},
        {"creating", ATOLL_INSPECT_ALIVE, 0, 0}, /* it changes by itself */
        {"stopping", ATOLL_INSPECT_ALIVE, 0, 0},
        {"paused", ATOLL_INSPECT_PAUSED, 0, 0},
        {"stopped", ATOLL_INSPECT_EXITED, 0, 0},
        {"archived", ATOLL_INSPECT_EXITED, 0, 0},
        {"error", ATOLL_INSPECT_EXITED, 0, 0},
        {"destroyed", ATOLL_INSPECT_GONE, 0, 0},
        {"destroying", ATOLL_INSPECT_GONE, 0, 0},
        {"s404", ATOLL_INSPECT_GONE, 0, 0},
        {"..%2fkeys", ATOLL_INSPECT_GONE, 0, 0},
        {"s408", -1, ATOLL_ERR_UNAVAILABLE, 0},
        {"s409", -1, ATOLL_ERR_UNAVAILABLE, 0},
        {"s429", -1, ATOLL_ERR_UNAVAILABLE, 3000},
        {"s502", -1, ATOLL_ERR_UNAVAILABLE, 0},
        {"s401", -1, ATOLL_ERR_UNAUTHENTICATED, 0},
        {"s302", -1, ATOLL_ERR_FAILED_PRECONDITION, 0},
        {"text", -1, ATOLL_ERR_UNAVAILABLE, 0},
        {"other", -1, ATOLL_ERR_UNAVAILABLE, 0},
    };
    struct fake_http *h = fake_http_new(serve_states);
    struct atoll_sync_provider *p = provider_at(h);
    struct atoll_sync_call call = within(20000);
    struct atoll_provider_inspection look;
    struct atoll_spec spec = {.id = "x"};
    struct atoll_error error;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        int r;

        (void)snprintf(spec.handle, sizeof(spec.handle), "%s", rows[i].handle);
        r = p->ops->inspect(p, &call, &spec, &look, &error);
        assert_int_equal(r < 0, rows[i].state < 0);
        if (r == 0) {
            assert_int_equal(look.state, rows[i].state);
            assert_true(look.cause[0] || look.state < ATOLL_INSPECT_EXITED);
            assert_null(strchr(look.cause, '\n'));
        } else {
            assert_int_equal(error.kind, rows[i].kind);
            assert_int_equal(error.retry_ms, rows[i].retry_ms);
            assert_null(strstr(error.text, "5ec4"));
        }
    }
    assert_int_equal(fake_asked(h, "keys"), 0);
    p->ops->free(p);
    fake_http_free(h);
}

/* A create whose answer cannot be read may have made something: it is looked for and removed. */
static void serve_doubt(struct fake_request *q)
{
    if (is(q, "POST", "/sandbox"))
        fake_reply(q, 200, "", "{\"oops\":1}");
    else if (is(q, "DELETE", "/sandbox/lost"))
        fake_reply(q, 200, "", "{}");
    else if (strstr(q->path, "cursor=p%202") || strstr(q->path, "cursor=p+2"))
        fake_reply(q, 200, "",
                   "{\"items\":[{\"id\":\"foreign\",\"labels\":{\"atoll_id\":\"y\"}},"
                   "{\"id\":\"dead\",\"state\":\"destroyed\",\"labels\":{\"atoll_id\":\"x\"}},"
                   "{\"id\":\"lost\",\"state\":\"started\",\"labels\":{\"atoll_id\":\"x\"}}],"
                   "\"nextCursor\":null}");
    else if (is(q, "GET", "/sandbox?labels=" LABELS "&"))
        fake_reply(q, 200, "", "{\"items\":[],\"nextCursor\":\"p 2\"}");
    else
        fake_reply(q, 500, "", "{}");
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
    assert_int_equal(fake_asked(h, "DELETE /sandbox/lost"), 1);
    assert_int_equal(fake_asked(h, "DELETE "), 1);
    /* Without a handle destroy() finds it by our id. */
    assert_int_equal(p->ops->destroy(p, &call, &spec, &error), 0);
    assert_int_equal(fake_asked(h, "DELETE /sandbox/lost"), 2);
    p->ops->free(p);
    fake_http_free(h);
}

/* A sandbox that does not start is removed, and its reason is told. */
static void serve_failure(struct fake_request *q)
{
    if (is(q, "POST", "/sandbox"))
        fake_reply(q, 200, "", "{\"id\":\"h\",\"state\":\"creating\"}");
    else if (is(q, "DELETE", "/sandbox/h"))
        fake_reply(q, 200, "", "{}");
    else if (q->http->counter++ == 0)
        fake_reply(q, 200, "", "{\"id\":\"h\",\"state\":\"pulling_snapshot\"}");
    else if (q->http->counter == 2)
        fake_reply(q, 429, "", "{}"); /* asked again */
    else
        fake_reply(q, 200, "",
                   "{\"id\":\"h\",\"state\":\"error\",\"errorReason\":\"the runner is full\"}");
}

static void a_failed_start_is_told(void **state)
{
    struct fake_http *h = fake_http_new(serve_failure);
    struct atoll_sync_provider *p = provider_at(h);
    struct atoll_sync_call call = within(20000);
    struct atoll_spec spec = {.id = "x"};
    struct atoll_error error;
    int fd = -1;

    (void)state;
    assert_true(p->ops->create(p, &call, &spec, &fd, &error) < 0);
    assert_int_equal(error.kind, ATOLL_ERR_FAILED_PRECONDITION);
    assert_non_null(strstr(error.text, "the runner is full"));
    assert_int_equal(fake_asked(h, "DELETE /sandbox/h"), 1);
    p->ops->free(p);
    fake_http_free(h);
}

/* Refusals. The body of the create is checked by the server. */
static void serve_create(struct fake_request *q)
{
    (void)pthread_mutex_lock(&q->http->lock);
    q->http->state_len = q->body_len < sizeof(q->http->state) ? q->body_len : 0;
    memcpy(q->http->state, q->body ? q->body : "", q->http->state_len);
    (void)pthread_mutex_unlock(&q->http->lock);
    fake_reply(q, 403, "", "{\"message\":\"Total CPU limit exceeded. Maximum allowed: 10.\"}");
}

static void quotas_lead_to_the_next_provider(void **state)
{
    struct fake_http *h = fake_http_new(serve_create);
    struct atoll_sync_provider *p = provider_at(h);
    struct atoll_sync_call call = within(5000);
    static const char *const env[] = {"A=b", NULL};
    struct atoll_spec spec = {.id = "x", .network = ATOLL_NETWORK_BRIDGE, .env = env};
    struct atoll_error error;
    int fd = -1;

    (void)state;
    assert_true(p->ops->create(p, &call, &spec, &fd, &error) < 0);
    assert_int_equal(error.kind, ATOLL_ERR_RESOURCE_EXHAUSTED);
    assert_int_equal(fake_asked(h, "GET "), 0); /* nothing can be left */
    h->state[h->state_len] = '\0';
    assert_non_null(strstr(h->state, "\"autoStopInterval\":120,\"autoDeleteInterval\":0"));
    assert_non_null(strstr(h->state, "\"env\":{\"A\":\"b\"}"));
    assert_null(strstr(h->state, "network"));
    p->ops->free(p);
    fake_http_free(h);
}

static void policies(void **state)
{
    static const struct {
        const char *policy, *sent; /* NULL: refused */
    } rows[] = {
        {NULL, "{}"},
        {"{\"default\":\"deny\"}", "{\"networkBlockAll\":true}"},
        {"{\"default\":\"deny\",\"rules\":[{\"allow\":\"10.0.0.0/8\"},{\"allow\":\"1.2.3.4\"},"
         "{\"allow\":\"*.example.org\"}]}",
         "{\"networkAllowList\":\"10.0.0.0/8,1.2.3.4/32\",\"domainAllowList\":\"*.example.org\"}"},
        {"{\"default\":\"allow\",\"rules\":[{\"deny\":\"10.0.0.0/8\"}]}", NULL},
        {"{\"default\":\"deny\",\"rules\":[{\"allow\":\"1.2.3.4:443\"}]}", NULL},
        {"{\"default\":\"deny\",\"rules\":[{\"allow\":\"2001:db8::/32\"}]}", NULL},
        {"{\"default\":\"deny\",\"rules\":[{\"deny\":\"10.0.0.1\"},{\"allow\":\"10.0.0.0/8\"}]}",
         NULL},
    };

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        json_t *body = json_object();
        struct atoll_error error;
        int r = atoll_daytona_network(rows[i].policy, body, &error);
        ATOLL_AUTOFREE char *text = json_dumps(body, JSON_COMPACT);

        if (rows[i].sent) {
            assert_int_equal(r, 0);
            assert_string_equal(text, rows[i].sent);
        } else {
            assert_true(r < 0);
            assert_int_equal(error.kind, ATOLL_ERR_UNIMPLEMENTED);
        }
        json_decref(body);
    }
}

static void serve_streams(struct fake_request *q)
{
    static const char port[] = "/toolbox/h/proxy/4000/";
    const char *verb = q->path + sizeof(port) - 1;

    if (is(q, "POST", "/toolbox/h/process/execute"))
        fake_reply(q, 200, "",
                   "{\"exitCode\":0,\"result\":\"sudo: noise\\natoll-relay 4000 " TOKEN "\\n\"}");
    else if (strncmp(q->path, port, sizeof(port) - 1) != 0)
        fake_reply(q, 200, "", "{\"id\":\"h\",\"state\":\"started\"}");
    else if (!strstr(q->head, "Stream-Token: " TOKEN) || !strstr(q->head, "Bearer " KEY))
        fake_reply(q, 403, "", "");
    else
        fake_relay_serve(q, verb);
}

/* Its activity is reported at once, since the time of its last one is not known here. */
static void its_lease_is_extended(void **state)
{
    struct fake_http *h = fake_http_new(serve_streams);
    struct atoll_sync_provider *p = provider_at(h);
    int fd = fake_relay_dial(p);

    (void)state;
    (void)pthread_mutex_lock(&h->lock);
    while (!strstr(h->asked, "POST /sandbox/h/last-activity\n"))
        (void)pthread_cond_wait(&h->changed, &h->lock);
    (void)pthread_mutex_unlock(&h->lock);
    (void)close(fd);
    p->ops->free(p);
    fake_relay_end(h);
    fake_http_free(h);
}

/* An agent that does not listen: the sandbox has failed, however well the service is. */
static void serve_no_agent(struct fake_request *q)
{
    if (!strstr(q->path, "/open/")) {
        serve_streams(q);
        return;
    }
    (void)!atoll_fd_write_all(
        q->fd, "HTTP/1.1 200 X\r\nContent-Length: 5\r\nConnection: close\r\n\r\n\4\0\0\0\0", 62);
}

static void streams_carry_bytes(void **state)
{
    (void)state;
    fake_relay_check_bytes(serve_streams, provider_at);
}

static void a_cut_stream_ends(void **state)
{
    (void)state;
    fake_relay_check_cut(serve_streams, provider_at);
}

static void an_agent_that_is_gone(void **state)
{
    struct fake_http *h = fake_http_new(serve_no_agent);
    struct atoll_sync_provider *p = provider_at(h);
    struct atoll_spec spec = {.id = "x", .handle = "h"};
    struct atoll_sync_call call = within(10000);
    struct atoll_provider_inspection look;
    struct atoll_error error;
    int fd = -1;

    (void)state;
    assert_true(p->ops->dial(p, &call, &spec, &fd, &error) < 0);
    assert_int_equal(error.kind, ATOLL_ERR_UNAVAILABLE);
    assert_int_equal(p->ops->inspect(p, &call, &spec, &look, &error), 0);
    assert_int_equal(look.state, ATOLL_INSPECT_EXITED);
    assert_int_equal(look.exit.code, -1);
    p->ops->free(p);
    fake_http_free(h);
}

/* Messages. */

static void commands_are_quoted(void **state)
{
    static const char *const argv[] = {"/bin/sh", "-c", "echo 'a b' \"$1\"", "", NULL};
    static const char start[] = "set -- '/bin/sh' '-c' 'echo '\\''a b'\\'' \"$1\"' ''\n";
    ATOLL_AUTOFREE char *text = atoll_remote_as_root(argv);

    (void)state;
    assert_int_equal(strncmp(text, start, sizeof(start) - 1), 0);
}

static void answers_are_checked(void **state)
{
    static const char *const bad[] = {
        "[]",
        "{}",
        "{\"id\":7}",
        "{\"id\":\"../x\"}",
        "{\"id\":\"a?b\"}",
        "{\"id\":\"a\",\"toolboxProxyUrl\":\"http://x\\r\\nHost: y\"}",
    };
    struct atoll_daytona_remote remote;
    struct atoll_remote_relay relay;
    struct atoll_error error;
    char host[100];

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bad); i++) {
        json_t *json = json_loads(bad[i], 0, NULL);

        assert_true(atoll_daytona_read_remote(json, &remote, &error) < 0);
        assert_int_equal(error.kind, ATOLL_ERR_UNAVAILABLE);
        json_decref(json);
    }
    assert_false(atoll_remote_relay_read("atoll-relay 0 " TOKEN, &relay));
    assert_false(atoll_remote_relay_read("atoll-relay 99999 " TOKEN, &relay));
    assert_false(atoll_remote_relay_read("atoll-relay 80 short", &relay));
    assert_true(atoll_remote_relay_read("x\natoll-relay 80 " TOKEN "\n", &relay));
    assert_true(atoll_daytona_read_preview("https://3000-a.proxy.x/", 3000, host, sizeof(host)));
    assert_string_equal(host, "{port}-a.proxy.x");
    assert_false(atoll_daytona_read_preview("https://a.proxy.x/", 3000, host, sizeof(host)));
    assert_false(atoll_daytona_read_preview("https://3000-a@b/", 3000, host, sizeof(host)));
}

static void bad_configs(void **state)
{
    const struct atoll_daytona_provider_config good = {
        .common.api_key = KEY, .common.daemon_id = "d", .common.agent_path = "/bin/true"};
    struct atoll_daytona_provider_config bad[5];
    struct atoll_sync_provider *p = NULL;
    struct atoll_error error;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bad); i++)
        bad[i] = good;
    bad[0].common.api_url = "ftp://x";
    bad[1].toolbox_url = "http://user:pass@x";
    bad[2].common.api_key = "a\nb";
    bad[3].common.api_key = NULL;
    bad[3].common.api_key_env = "ATOLL_TEST_NO_SUCH_VARIABLE";
    bad[4].common.daemon_id = "a&b";
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bad); i++) {
        assert_true(atoll_daytona_provider_new(&bad[i], &p, &error) < 0);
        assert_int_equal(error.kind, ATOLL_ERR_INVALID_ARGUMENT);
        assert_null(strstr(error.text, "5ec4"));
    }
    assert_int_equal(atoll_daytona_provider_new(&good, &p, &error), 0);
    assert_string_equal(p->ops->caps.isolation, "container");
    assert_false(p->ops->caps.pause);
    p->ops->free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_configs),
        cmocka_unit_test(commands_are_quoted),
        cmocka_unit_test(answers_are_checked),
        cmocka_unit_test(policies),
        cmocka_unit_test(states),
        cmocka_unit_test(nothing_is_left_behind),
        cmocka_unit_test(a_failed_start_is_told),
        cmocka_unit_test(quotas_lead_to_the_next_provider),
        cmocka_unit_test(streams_carry_bytes),
        cmocka_unit_test(a_cut_stream_ends),
        cmocka_unit_test(its_lease_is_extended),
        cmocka_unit_test(an_agent_that_is_gone),
    };

    /* The server here writes to clients that are gone. */
    (void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * The Vercel provider against services that misbehave, and its translations. What it does with a good
 * service is tested with a second daemon, in tests/conformance/providers.
 */
#include "test.h"

#include <errno.h>
#include <signal.h>
#include "base/clock.h"
#include "fake_http.h"
#include "fake_relay.h"
#include "provider/vercel/messages.h"
#include "provider/vercel/vercel.h"

#define KEY "vca_5ec4e75ec4e7"
#define PORT "4000"
#define QUERY "teamId=t_1&projectId=p_1"

static struct atoll_sync_call within(int ms)
{
    return (struct atoll_sync_call){.deadline_ms = atoll_clock_ms() + ms, .cancel_fd = -1};
}

static struct atoll_sync_provider *provider_at(struct fake_http *h)
{
    const struct atoll_vercel_provider_config config = {.common.api_url = h->url,
                                                        .common.api_key = KEY,
                                                        .common.daemon_id = "d-1",
                                                        .common.agent_path = "/proc/self/exe",
                                                        .common.timeout_s = 600,
                                                        .team = "t_1",
                                                        .project = "p_1",
                                                        .sandbox_url = h->url,
                                                        .relay_port = 4000,
                                                        .max_vcpus = 8};
    struct atoll_sync_provider *p = NULL;
    struct atoll_error error;

    assert_int_equal(atoll_vercel_provider_new(&config, &p, &error), 0);
    return p;
}

static bool is(const struct fake_request *q, const char *method, const char *prefix)
{
    return strcmp(q->method, method) == 0 && strncmp(q->path, prefix, strlen(prefix)) == 0;
}

static void reply_box(struct fake_request *q, const char *name, const char *status)
{
    char body[600];

    (void)snprintf(body, sizeof(body),
                   "{\"sandbox\":{\"name\":\"%s\",\"status\":\"%s\",\"tags\":{\"atoll_id\":\"x\"}},"
                   "\"session\":{\"id\":\"sbx_1\",\"status\":\"%s\",\"timeout\":600000},"
                   "\"routes\":[{\"port\":3000,\"url\":\"http://no\",\"subdomain\":\"no\"},"
                   "{\"port\":" PORT ",\"url\":\"http://yes\",\"subdomain\":\"yes-1\"}]}",
                   name, status, status);
    fake_reply(q, 200, "", body);
}

/* What the answers to get mean. The last part of the path is the state, or a status. */
static void serve_states(struct fake_request *q)
{
    char last[64];
    const char *slash = strrchr(q->path, '/') + 1;

    (void)snprintf(last, sizeof(last), "%.*s", (int)strcspn(slash, "?"), slash);
    if (strcmp(last, "s429") == 0)
        fake_reply(q, 429, "Retry-After: 3\r\n", "{\"error\":{\"message\":\"slow\"}}");
    else if (last[0] == 's' && last[1] >= '0' && last[1] <= '9')
        fake_reply(q, atoi(last + 1), "",
                   "{\"error\":{\"code\":\"c\",\"message\":\"who is " KEY "?\"}}");
    else if (strcmp(last, "text") == 0)
        fake_reply(q, 200, "", "hello");
    else if (strcmp(last, "other") == 0)
        reply_box(q, "another", "running");
    else
        reply_box(q, last, last);
}

static void states(void **state)
{
    static const struct {
        const char *handle;
        int state; /* -1: an error */
        enum atoll_error_kind kind;
        int retry_ms;
    } rows[] = {
        {"running", ATOLL_INSPECT_ALIVE, 0, 0},
        {"pending", ATOLL_INSPECT_ALIVE, 0, 0}, /* it changes by itself */
        {"stopping", ATOLL_INSPECT_EXITED, 0, 0},
        {"stopped", ATOLL_INSPECT_EXITED, 0, 0},
        {"failed", ATOLL_INSPECT_EXITED, 0, 0},
        {"aborted", ATOLL_INSPECT_EXITED, 0, 0},
        {"snapshotting", ATOLL_INSPECT_EXITED, 0, 0},
        {"s404", ATOLL_INSPECT_GONE, 0, 0},
        {"s410", ATOLL_INSPECT_GONE, 0, 0},
        {"..%2fkeys", ATOLL_INSPECT_GONE, 0, 0},
        {"s408", -1, ATOLL_ERR_UNAVAILABLE, 0},
        {"s409", -1, ATOLL_ERR_UNAVAILABLE, 0},
        {"s422", -1, ATOLL_ERR_UNAVAILABLE, 0},
        {"s429", -1, ATOLL_ERR_UNAVAILABLE, 3000},
        {"s502", -1, ATOLL_ERR_UNAVAILABLE, 0},
        {"s401", -1, ATOLL_ERR_UNAUTHENTICATED, 0},
        {"s403", -1, ATOLL_ERR_UNAUTHENTICATED, 0},
        {"s402", -1, ATOLL_ERR_RESOURCE_EXHAUSTED, 0},
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
        } else {
            assert_int_equal(error.kind, rows[i].kind);
            assert_int_equal(error.retry_ms, rows[i].retry_ms);
            assert_null(strstr(error.text, "5ec4"));
            if (rows[i].handle[0] == 's' && rows[i].retry_ms == 0)
                assert_non_null(strstr(error.text, "who is"));
        }
    }
    assert_int_equal(fake_asked(h, "keys"), 0);
    assert_int_equal(fake_asked(h, "GET /v2/sandboxes/running?resume=false&" QUERY), 1);
    p->ops->free(p);
    fake_http_free(h);
}

/* A create without an answer that can be read may have made something: it is removed by its name. */
static void serve_doubt(struct fake_request *q)
{
    if (is(q, "POST", "/v3/sandboxes?teamId=t_1")) {
        (void)pthread_mutex_lock(&q->http->lock);
        q->http->state_len = q->body_len < sizeof(q->http->state) - 1 ? q->body_len : 0;
        memcpy(q->http->state, q->body, q->http->state_len);
        q->http->state[q->http->state_len] = '\0';
        (void)pthread_mutex_unlock(&q->http->lock);
        if (q->http->counter++ == 0)
            fake_reply(q, 200, "", "{\"oops\":1}");
        else
            fake_reply(q, 409, "", "{\"error\":{\"message\":\"exists\"}}");
    } else if (is(q, "GET", "/v2/sandboxes/atoll-x?")) {
        reply_box(q, "atoll-x", "stopped");
    } else if (is(q, "DELETE", "/v2/sandboxes/atoll-x?")) {
        fake_reply(q, 200, "", "{}");
    } else {
        fake_reply(q, 500, "", "{}");
    }
}

static void nothing_is_left_behind(void **state)
{
    static const char *const env[] = {"A=b", NULL};
    struct fake_http *h = fake_http_new(serve_doubt);
    struct atoll_sync_provider *p = provider_at(h);
    struct atoll_sync_call call = within(5000);
    struct atoll_spec spec = {.id = "x", .limits.cpu_millis = 2500, .env = env};
    struct atoll_error error;
    int fd = -1;

    (void)state;
    for (int i = 1; i <= 2; i++) { /* the second one finds that the name exists */
        assert_true(p->ops->create(p, &call, &spec, &fd, &error) < 0);
        assert_int_equal(error.kind, ATOLL_ERR_UNAVAILABLE);
        assert_string_equal(spec.handle, "");
        assert_int_equal(fake_asked(h, "DELETE /v2/sandboxes/atoll-x?"), i);
    }
    assert_non_null(strstr(h->state, "\"name\":\"atoll-x\",\"ports\":[" PORT "],\"timeout\":600000,"
                                     "\"persistent\":false"));
    assert_non_null(strstr(h->state, "\"env\":{\"A\":\"b\"}"));
    assert_non_null(strstr(h->state, "\"projectId\":\"p_1\""));
    assert_non_null(strstr(h->state, "\"vcpus\":4"));
    assert_non_null(strstr(h->state, "\"networkPolicy\":{\"mode\":\"deny-all\"}"));
    /* Without a handle destroy() finds it by its name. */
    assert_int_equal(p->ops->destroy(p, &call, &spec, &error), 0);
    assert_int_equal(fake_asked(h, "DELETE /v2/sandboxes/atoll-x?"), 3);
    p->ops->free(p);
    fake_http_free(h);
}

/* The list is walked to its end. */
static void serve_list(struct fake_request *q)
{
    if (strstr(q->path, "cursor=p%202") || strstr(q->path, "cursor=p+2"))
        fake_reply(q, 200, "",
                   "{\"sandboxes\":[{\"name\":\"foreign\",\"status\":\"running\"},"
                   "{\"name\":\"b\",\"status\":\"stopped\",\"tags\":{\"atoll_id\":\"y\"}}],"
                   "\"pagination\":{\"count\":2,\"next\":null}}");
    else if (strstr(q->path, "tags=atoll_daemon%3Ad-1&teamId=t_1&project=p_1"))
        fake_reply(q, 200, "",
                   "{\"sandboxes\":[{\"name\":\"a\",\"status\":\"running\","
                   "\"tags\":{\"atoll_id\":\"x\"}}],\"pagination\":{\"next\":\"p 2\"}}");
    else
        fake_reply(q, 500, "", "{}");
}

static void note(void *arg, const char *id, const char *handle, bool alive)
{
    char *text = arg;
    size_t n = strlen(text);

    (void)snprintf(text + n, 100 - n, "%s=%s%s ", id, handle, alive ? "" : "-");
}

static void lists_are_read(void **state)
{
    struct fake_http *h = fake_http_new(serve_list);
    struct atoll_sync_provider *p = provider_at(h);
    struct atoll_sync_call call = within(5000);
    char found[100] = "";
    struct atoll_error error;

    (void)state;
    assert_int_equal(p->ops->list(p, &call, note, found, &error), 0);
    assert_string_equal(found, "x=a y=b- ");
    p->ops->free(p);
    fake_http_free(h);
}

/* Commands. */

#define FIRST "{\"command\":{\"id\":\"c\",\"exitCode\":null}}\n"
#define LAST(code) "{\"command\":{\"id\":\"c\",\"exitCode\":" code "}}\n"
#define OUT(stream, text) "{\"stream\":\"" stream "\",\"data\":\"" text "\"}\n"

static void ends_of_commands(void **state)
{
    static const struct {
        const char *lines;
        int code; /* -1: not known */
        const char *text;
    } rows[] = {
        {FIRST OUT("stdout", "a") "\n \r\n" OUT("stderr", "no") OUT("stdout", "b\\n") LAST("0"), 0,
         "ab\n"},
        {FIRST OUT("stdout", "a") OUT("stderr", "why") LAST("3"), 3, "why"},
        {FIRST OUT("stdout", "a") LAST("143"), 143, ""},
        {FIRST OUT("other", "a") LAST("0"), 0, ""},
        {FIRST "{\"stream\":\"error\",\"data\":{\"code\":\"output_truncated\"}}\n" LAST("0"), 0,
         ""},
        {LAST("0"), 0, ""},
        {"", -1, NULL},
        {FIRST, -1, NULL},
        {FIRST OUT("stdout", "all is well"), -1, NULL}, /* ends early: not a success */
        {FIRST LAST("null"), -1, NULL},
        {FIRST LAST("\"0\""), -1, NULL},
        {FIRST LAST("4294967296"), -1, NULL},
        {FIRST LAST("-1"), -1, NULL},
        {FIRST "{\"stream\":\"error\",\"data\":{\"code\":\"command_lost\"}}\n" LAST("0"), -1, NULL},
        {FIRST "garbage\n" LAST("0"), -1, NULL},
        {FIRST "[1]\n" LAST("0"), -1, NULL},
        {FIRST "{\"stream\":\"stdout\",\"data\":7}\n" LAST("0"), -1, NULL},
        {"{\"command\":{\"exitCode\":0", -1, NULL},
    };

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        struct atoll_remote_exit ended = {.code = 99};
        struct atoll_error error;
        int r = atoll_vercel_read_run(rows[i].lines, strlen(rows[i].lines), &ended, &error);

        assert_int_equal(r < 0, rows[i].code < 0);
        if (r == 0) {
            assert_int_equal(ended.code, rows[i].code);
            assert_string_equal(ended.text, rows[i].text);
        } else {
            assert_int_equal(error.kind, ATOLL_ERR_UNAVAILABLE);
            assert_int_equal(ended.code, 99);
        }
    }
}

/* Streams. */

static void serve_streams(struct fake_request *q)
{
    bool relay = strstr(q->head, "X-Atoll-Host: yes-1.vercel.run") != NULL;

    if (is(q, "POST", "/v2/sandboxes/sessions/sbx_1/cmd?teamId=t_1"))
        fake_reply(q, 200, "",
                   FIRST OUT("stdout", "noise\\natoll-relay " PORT " " FAKE_RELAY_TOKEN "\\n")
                       LAST("0"));
    else if (is(q, "POST", "/v2/sandboxes/sessions/sbx_1/extend-timeout?teamId=t_1"))
        fake_reply(q, 200, "", "{\"session\":{\"id\":\"sbx_1\",\"timeout\":900000}}");
    else if (!relay)
        reply_box(q, "h", "running");
    /* The key is not for processes of the sandbox. */
    else if (!strstr(q->head, "Stream-Token: " FAKE_RELAY_TOKEN) || strstr(q->head, "Bearer"))
        fake_reply(q, 403, "", "");
    else
        fake_relay_serve(q, q->path + 1);
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

/* It is extended at once, since the time of its end is not known here. */
static void its_lease_is_extended(void **state)
{
    struct fake_http *h = fake_http_new(serve_streams);
    struct atoll_sync_provider *p = provider_at(h);
    int fd = fake_relay_dial(p);

    (void)state;
    (void)pthread_mutex_lock(&h->lock);
    while (!strstr(h->asked, "POST /v2/sandboxes/sessions/sbx_1/extend-timeout"))
        (void)pthread_cond_wait(&h->changed, &h->lock);
    (void)pthread_mutex_unlock(&h->lock);
    (void)close(fd);
    p->ops->free(p);
    fake_relay_end(h);
    fake_http_free(h);
}

/* A session gets what is missing to a whole lease, never more. */
static void leases_are_whole(void **state)
{
    const struct atoll_vercel_remote remote = {.began_unix_ms = 1000000, .timeout_ms = 600000};
    static const struct {
        int64_t now, more;
    } rows[] = {
        {1000000, 1000},   /* just begun: the least */
        {1200000, 200000}, /* a third has passed */
        {1600000, 600000}, /* at its end */
        {9000000, 600000}, /* a clock that is ahead */
        {100, 1000},       /* and one that is behind */
    };

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++)
        assert_int_equal(atoll_vercel_more_ms(&remote, 600, rows[i].now), rows[i].more);
}

/* Translations. */

static void policies(void **state)
{
    static const struct {
        const char *policy, *sent; /* NULL: refused */
    } rows[] = {
        {NULL, "null"},
        {"{\"default\":\"deny\"}", "{\"mode\":\"deny-all\"}"},
        {"{\"default\":\"deny\",\"rules\":[{\"deny\":\"10.0.0.0/8\"},{\"allow\":\"1.2.3.4\"},"
         "{\"allow\":\"*.example.org\"}]}",
         "{\"allow\":{\"*.example.org\":[]},\"subnets\":{\"allow\":[\"1.2.3.4/32\"],"
         "\"deny\":[\"10.0.0.0/8\"]}}"},
        {"{\"default\":\"allow\",\"rules\":[{\"deny\":\"10.0.0.0/8\"}]}",
         "{\"allow\":{\"*\":[]},\"subnets\":{\"allow\":[],\"deny\":[\"10.0.0.0/8\"]}}"},
        {"{\"default\":\"deny\",\"rules\":[{\"allow\":\"a.org\"}],"
         "\"transforms\":[{\"domain\":\"a.org\",\"headers\":{\"x-a\":\"b\"}}]}",
         "{\"allow\":{\"a.org\":[{\"transform\":[{\"headers\":{\"x-a\":\"b\"}}]}]},"
         "\"subnets\":{\"allow\":[],\"deny\":[]}}"},
        /* Rules count in their order, each for the requests that it matches. */
        {"{\"default\":\"deny\",\"rules\":[{\"allow\":\"a.org\"}],\"transforms\":["
         "{\"domain\":\"a.org\",\"match\":{\"path\":{\"startsWith\":\"/v1/\"},\"method\":[\"GET\"]},"
         "\"headers\":{\"x-a\":\"b\"}},{\"domain\":\"a.org\",\"status\":403,\"body\":\"no\"}]}",
         "{\"allow\":{\"a.org\":[{\"match\":{\"path\":{\"startsWith\":\"/v1/\"},\"method\":[\"GET\"]},"
         "\"transform\":[{\"headers\":{\"x-a\":\"b\"}}]},{\"response\":{\"statusCode\":403,"
         "\"body\":\"no\",\"contentType\":\"text/plain; charset=utf-8\"}}]},"
         "\"subnets\":{\"allow\":[],\"deny\":[]}}"},
        /* A fixed answer has its headers, and a default for its type only without one of them. */
        {"{\"default\":\"deny\",\"rules\":[{\"allow\":\"a.org\"}],\"transforms\":["
         "{\"domain\":\"a.org\",\"status\":200,\"body\":\"{}\",\"responseHeaders\":"
         "{\"content-type\":\"application/json\",\"x-a\":\"b\"}},{\"domain\":\"a.org\","
         "\"status\":302,\"responseHeaders\":{\"location\":\"/x\"}},{\"domain\":\"a.org\","
         "\"status\":403,\"body\":\"no\",\"responseHeaders\":{\"x-a\":\"b\"}}]}",
         "{\"allow\":{\"a.org\":[{\"response\":{\"statusCode\":200,\"headers\":"
         "{\"content-type\":\"application/json\",\"x-a\":\"b\"},\"body\":\"{}\"}},"
         "{\"response\":{\"statusCode\":302,\"headers\":{\"location\":\"/x\"}}},"
         "{\"response\":{\"statusCode\":403,\"headers\":{\"x-a\":\"b\"},\"body\":\"no\","
         "\"contentType\":\"text/plain; charset=utf-8\"}}]},\"subnets\":{\"allow\":[],\"deny\":[]}}"},
        {"{\"default\":\"allow\",\"transforms\":[{\"domain\":\"*.a.org\",\"status\":404},"
         "{\"domain\":\"b.org\",\"forward\":\"https://c.org/x\"}]}",
         "{\"allow\":{\"*\":[],\"*.a.org\":[{\"response\":{\"statusCode\":404}}],"
         "\"b.org\":[{\"forwardURL\":\"https://c.org/x\"}]},\"subnets\":{\"allow\":[],\"deny\":[]}}"},
        {"{\"default\":\"allow\",\"transforms\":[{\"domain\":\"*.a.org\",\"status\":404},"
         "{\"domain\":\"b.a.org\",\"status\":403}]}",
         NULL},
        {"{\"default\":\"deny\",\"rules\":[{\"allow\":\"*.a.org\"},{\"allow\":\"*.b.a.org\"}],"
         "\"transforms\":[{\"domain\":\"*.a.org\",\"status\":404}]}",
         NULL},
        {"{\"default\":\"allow\",\"transforms\":[{\"domain\":\"b.org\",\"forward\":\"http://c.org\"}]}",
         NULL},
        {"{\"default\":\"allow\",\"transforms\":[{\"domain\":\"b.org\",\"status\":204,\"body\":\"x\"}]}",
         NULL},
        {"{\"default\":\"allow\",\"transforms\":[{\"domain\":\"b.org\",\"forward\":\"https://c.org\","
         "\"headers\":{\"x-a\":\"b\"}}]}",
         NULL},
        /* A transform would open its domain. */
        {"{\"default\":\"deny\",\"rules\":[{\"allow\":\"a.org\"}],"
         "\"transforms\":[{\"domain\":\"b.org\",\"headers\":{\"x-a\":\"b\"}}]}",
         NULL},
        {"{\"default\":\"deny\",\"rules\":[{\"allow\":\"a.org\"}],"
         "\"transforms\":[{\"domain\":\"a.org\",\"headers\":{\"x-a\":\"${secret.S}\"}}]}",
         NULL},
        {"{\"default\":\"deny\",\"rules\":[{\"allow\":\"1.2.3.4:443\"}]}", NULL},
        {"{\"default\":\"deny\",\"rules\":[{\"allow\":\"2001:db8::/32\"}]}", NULL},
        {"{\"default\":\"allow\",\"rules\":[{\"deny\":\"a.org\"}]}", NULL},
        {"{\"default\":\"deny\",\"rules\":[{\"allow\":\"10.0.0.1\"},{\"deny\":\"10.0.0.0/8\"}]}",
         NULL},
    };

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        json_t *sent = NULL;
        struct atoll_error error;
        int r = atoll_vercel_network(rows[i].policy, &sent, &error);
        ATOLL_AUTOFREE char *text = sent ? json_dumps(sent, JSON_COMPACT) : strdup("null");

        if (rows[i].sent) {
            assert_int_equal(r, 0);
            assert_string_equal(text, rows[i].sent);
        } else {
            assert_true(r < 0);
            assert_int_equal(error.kind, ATOLL_ERR_UNIMPLEMENTED);
        }
        json_decref(sent);
    }
}

static void sources_and_sizes(void **state)
{
    static const struct {
        const char *name, *sent;
        bool runtime;
    } rows[] = {
        {"", "{}", false},
        {"node24", "{\"runtime\":\"node24\"}", true},
        {"python3.13", "{\"runtime\":\"python3.13\"}", true},
        {"snap_1", "{\"source\":{\"type\":\"snapshot\",\"snapshotId\":\"snap_1\"}}", false},
        {"a/b", "{\"image\":\"a/b\"}", false},
        {"debian:12", "{\"image\":\"debian:12\"}", false},
    };
    const uint64_t gib = (uint64_t)1 << 30;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        json_t *body = json_object();
        bool runtime = atoll_vercel_put_source(body, rows[i].name);
        ATOLL_AUTOFREE char *text = json_dumps(body, JSON_COMPACT);

        assert_int_equal(runtime, rows[i].runtime);
        assert_string_equal(text, rows[i].sent);
        json_decref(body);
    }
    assert_int_equal(atoll_vercel_vcpus(&(struct atoll_limits){.memory_bytes = gib}, 0), 1);
    assert_int_equal(atoll_vercel_vcpus(&(struct atoll_limits){.memory_bytes = 5 * gib}, 0), 4);
    assert_int_equal(atoll_vercel_vcpus(&(struct atoll_limits){.cpu_millis = 2100}, 0), 4);
    assert_int_equal(
        atoll_vercel_vcpus(&(struct atoll_limits){.cpu_millis = 9000, .memory_bytes = gib},
                           ATOLL_LIMIT_CPU),
        1);
}

static void answers_are_checked(void **state)
{
    static const char *const bad[] = {
        "[]",
        "{}",
        "{\"sandbox\":{\"name\":7}}",
        "{\"sandbox\":{\"name\":\"../x\"},\"session\":{\"id\":\"s\"}}",
        "{\"sandbox\":{\"name\":\"a\"}}",
        "{\"sandbox\":{\"name\":\"a\"},\"session\":{\"id\":\"s/../x\"}}",
        "{\"sandbox\":{\"name\":\"a\"},\"session\":{\"id\":\"s\"},"
        "\"routes\":[{\"port\":4000,\"url\":\"http://x\\r\\ny\"}]}",
        "{\"sandbox\":{\"name\":\"a\"},\"session\":{\"id\":\"s\"},"
        "\"routes\":[{\"port\":4000,\"subdomain\":\"x.y/\"}]}",
    };
    struct atoll_vercel_remote remote;
    struct atoll_vercel_scope scope;
    struct atoll_error error;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bad); i++) {
        json_t *json = json_loads(bad[i], 0, NULL);

        assert_true(atoll_vercel_read_answer(json, 4000, &remote, &error) < 0);
        assert_int_equal(error.kind, ATOLL_ERR_UNAVAILABLE);
        json_decref(json);
    }
    assert_true(atoll_vercel_read_scope("- prj_1", &scope));
    assert_string_equal(scope.team, "");
    assert_string_equal(scope.project, "prj_1");
    assert_false(atoll_vercel_read_scope("a&b c", &scope));
    assert_false(atoll_vercel_read_scope("a b c", &scope));
}

static void bad_configs(void **state)
{
    const struct atoll_vercel_provider_config good = {.common.api_key = KEY,
                                                      .common.daemon_id = "d",
                                                      .common.agent_path = "/bin/true",
                                                      .team = "t",
                                                      .project = "p"};
    struct atoll_vercel_provider_config bad[7];
    struct atoll_sync_provider *p = NULL;
    struct atoll_error error;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bad); i++)
        bad[i] = good;
    bad[0].common.api_url = "ftp://x";
    bad[1].sandbox_url = "http://user:pass@x";
    bad[2].common.api_key = "a\nb";
    bad[3].common.api_key = NULL;
    bad[3].common.api_key_env = "ATOLL_TEST_NO_SUCH_VARIABLE";
    bad[4].project = NULL;
    bad[5].team = "a&b";
    bad[6].team = "team_atoll"; /* a key of an Atoll would be sent to Vercel */
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bad); i++) {
        assert_true(atoll_vercel_provider_new(&bad[i], &p, &error) < 0);
        assert_int_equal(error.kind, ATOLL_ERR_INVALID_ARGUMENT);
        assert_null(strstr(error.text, "5ec4"));
    }
    assert_int_equal(atoll_vercel_provider_new(&good, &p, &error), 0);
    assert_string_equal(p->ops->caps.isolation, "microvm");
    assert_false(p->ops->caps.pause);
    p->ops->free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_configs),
        cmocka_unit_test(answers_are_checked),
        cmocka_unit_test(sources_and_sizes),
        cmocka_unit_test(policies),
        cmocka_unit_test(ends_of_commands),
        cmocka_unit_test(leases_are_whole),
        cmocka_unit_test(states),
        cmocka_unit_test(nothing_is_left_behind),
        cmocka_unit_test(lists_are_read),
        cmocka_unit_test(streams_carry_bytes),
        cmocka_unit_test(a_cut_stream_ends),
        cmocka_unit_test(its_lease_is_extended),
    };

    /* The server here writes to clients that are gone. */
    (void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

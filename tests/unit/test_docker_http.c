/* Requests to an engine: versions, refusals, silence. */
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include "base/clock.h"
#include "fake_http.h"
#include "provider/docker/http.h"

static struct atoll_docker_http *http_of(const struct fake_http *fake)
{
    struct atoll_docker_http_config config = {.connections = 2};
    struct atoll_docker_http *http = NULL;
    struct atoll_error err = {0};
    char host[80];

    /* "http://..." as Docker writes it */
    (void)snprintf(host, sizeof(host), "tcp%s", strchr(fake->url, ':'));
    config.host = host;
    assert_int_equal(atoll_docker_http_new(&config, &http, &err), 0);
    return http;
}

static struct atoll_sync_call call_for(int ms)
{
    return (struct atoll_sync_call){.deadline_ms = atoll_clock_ms() + ms, .cancel_fd = ATOLL_NO_FD};
}

static bool is_ping(struct fake_request *q, const char *version)
{
    char header[64];

    if (strcmp(q->path, "/_ping") != 0)
        return false;
    (void)snprintf(header, sizeof(header), "Api-Version: %s\r\n", version);
    fake_reply(q, 200, header, "OK");
    return true;
}

static void serve_plain(struct fake_request *q)
{
    if (is_ping(q, "1.41"))
        return;
    if (strstr(q->path, "/good"))
        fake_reply(q, 200, "", "{\"a\":7}");
    else if (strstr(q->path, "/busy"))
        fake_reply(q, 503, "", "{\"message\":\"not now\"}");
    else if (strstr(q->path, "/taken"))
        fake_reply(q, 409, "", "{\"message\":\"name is taken\"}");
    else if (strstr(q->path, "/broken"))
        fake_reply(q, 500, "", "<html>");
    else
        fake_reply(q, 404, "", "{\"message\":\"no such thing\"}");
}

static void test_answers(void **state)
{
    static const struct {
        const char *path;
        enum atoll_error_kind kind;
        int result;
        const char *text;
    } rows[] = {
        {"/busy", ATOLL_ERR_UNAVAILABLE, -EAGAIN, "not now"},
        {"/taken", ATOLL_ERR_FAILED_PRECONDITION, -EEXIST, "name is taken"},
        {"/broken", ATOLL_ERR_INTERNAL, -EIO, "no reason given"},
        {"/other", ATOLL_ERR_NOT_FOUND, -ENOENT, "no such thing"},
    };
    struct fake_http *fake = fake_http_new(serve_plain);
    struct atoll_docker_http *http = http_of(fake);
    struct atoll_sync_call call = call_for(10000);
    struct atoll_error err = {0};
    json_t *json = NULL;

    (void)state;
    assert_int_equal(atoll_docker_http_askf(http, &call, &json, &err, "GET", "/good"), 200);
    assert_int_equal(json_integer_value(json_object_get(json, "a")), 7);
    json_decref(json);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        assert_int_equal(
            atoll_docker_http_askf(http, &call, NULL, &err, "POST", "%s", rows[i].path),
            rows[i].result);
        assert_int_equal(err.kind, rows[i].kind);
        assert_non_null(strstr(err.text, rows[i].text));
    }
    assert_non_null(strstr(fake->asked, "GET /v1.41/good\n"));
    http = atoll_docker_http_free(http);
    fake_http_free(fake);
}

static void serve_newer(struct fake_request *q)
{
    if (is_ping(q, "1.52"))
        return;
    if (strncmp(q->path, "/v1.44/", 7) == 0)
        fake_reply(q, 200, "", "{}");
    else
        fake_reply(
            q, 400, "",
            "{\"message\":\"client version 1.41 is too old. Minimum supported API version is "
            "1.44, please upgrade\"}");
}

/* The engine's oldest version is used from then on. */
static void test_newer_engine(void **state)
{
    struct fake_http *fake = fake_http_new(serve_newer);
    struct atoll_docker_http *http = http_of(fake);
    struct atoll_sync_call call = call_for(10000);
    struct atoll_error err = {0};

    (void)state;
    assert_int_equal(atoll_docker_http_askf(http, &call, NULL, &err, "GET", "/x"), 200);
    assert_int_equal(atoll_docker_http_askf(http, &call, NULL, &err, "GET", "/y"), 200);
    assert_non_null(strstr(fake->asked, "GET /v1.41/x\nGET /v1.44/x\nGET /v1.44/y\n"));
    http = atoll_docker_http_free(http);
    fake_http_free(fake);
}

static void serve_older(struct fake_request *q)
{
    (void)is_ping(q, "1.40");
}

static void test_older_engine(void **state)
{
    struct fake_http *fake = fake_http_new(serve_older);
    struct atoll_docker_http *http = http_of(fake);
    struct atoll_sync_call call = call_for(10000);
    struct atoll_error err = {0};

    (void)state;
    assert_true(atoll_docker_http_askf(http, &call, NULL, &err, "GET", "/x") < 0);
    assert_int_equal(err.kind, ATOLL_ERR_UNIMPLEMENTED);
    http = atoll_docker_http_free(http);
    fake_http_free(fake);
}

static void serve_silence(struct fake_request *q)
{
    char byte;

    if (!is_ping(q, "1.41"))
        (void)!read(q->fd, &byte, 1); /* until the client gives up */
}

static void test_silence(void **state)
{
    struct fake_http *fake = fake_http_new(serve_silence);
    struct atoll_docker_http *http = http_of(fake);
    struct atoll_sync_call call = call_for(200);
    struct atoll_error err = {0};

    (void)state;
    assert_true(atoll_docker_http_askf(http, &call, NULL, &err, "GET", "/x") < 0);
    assert_int_equal(err.kind, ATOLL_ERR_DEADLINE_EXCEEDED);
    call = call_for(30000);
    call.cancel_fd = eventfd(1, EFD_CLOEXEC);
    assert_true(atoll_docker_http_askf(http, &call, NULL, &err, "GET", "/x") < 0);
    assert_int_equal(err.kind, ATOLL_ERR_ABORTED);
    (void)close(call.cancel_fd);
    http = atoll_docker_http_free(http);
    fake_http_free(fake);
}

/* The connection is kept, and breaks with the next request on it: what that asked for may have been done. */
static void serve_kept(struct fake_request *q)
{
    static const char kept[] = "HTTP/1.1 200 X\r\nContent-Length: 2\r\n\r\n{}";

    if (is_ping(q, "1.41"))
        return;
    (void)!atoll_fd_write_all(q->fd, kept, strlen(kept));
    free(q->body);
    q->body = NULL;
    if (!fake_read(q))
        return;
    (void)pthread_mutex_lock(&q->http->lock);
    q->http->counter++;
    (void)pthread_mutex_unlock(&q->http->lock);
}

static void test_once(void **state)
{
    struct fake_http *fake = fake_http_new(serve_kept);
    struct atoll_docker_http *http = http_of(fake);
    struct atoll_sync_call call = call_for(20000);
    struct atoll_docker_ask ask = {.method = "POST", .path = "/commit"};
    struct atoll_error err = {0};

    (void)state;
    assert_int_equal(atoll_docker_http_askf(http, &call, NULL, &err, "GET", "/x"), 200);
    ask.json = json_pack("{s:s}", "User", "root");
    assert_true(atoll_docker_http_ask(http, &call, &ask, NULL, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_UNAVAILABLE);
    assert_int_equal(fake->counter, 1);
    assert_int_equal(fake_asked(fake, "/commit"), 0); /* not on another connection as well */
    http = atoll_docker_http_free(http);
    fake_http_free(fake);
}

static void serve_slow(struct fake_request *q)
{
    char byte;

    if (is_ping(q, "1.41"))
        return;
    if (strstr(q->path, "/slow"))
        (void)!read(q->fd, &byte, 1); /* until the client has gone */
    else
        fake_reply(q, 200, "", "{}");
}

struct pull {
    struct atoll_docker_http *http;
    struct atoll_sync_call call;
    pthread_t thread;
};

static void *pull(void *arg)
{
    const struct atoll_docker_ask ask = {.method = "POST", .path = "/slow", .slow = true};
    struct pull *p = arg;
    struct atoll_error err;

    return atoll_docker_http_ask(p->http, &p->call, &ask, NULL, &err) < 0 ? NULL : arg;
}

/* As many as there are connections are pulling, and one more asks. */
static void test_what_is_slow_holds_nobody_up(void **state)
{
    struct fake_http *fake = fake_http_new(serve_slow);
    struct atoll_docker_http *http = http_of(fake);
    struct atoll_sync_call call = call_for(20000), slow = call_for(60000);
    struct atoll_error err = {0};
    const uint64_t one = 1;
    struct pull pulls[2];
    void *failed;
    int r;

    (void)state;
    slow.cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    for (int i = 0; i < 2; i++) {
        pulls[i] = (struct pull){.http = http, .call = slow};
        assert_int_equal(pthread_create(&pulls[i].thread, NULL, pull, &pulls[i]), 0);
    }
    while (fake_asked(fake, "/slow") < 2 && atoll_sync_left_ms(&call) > 0)
        (void)usleep(10000);
    r = atoll_docker_http_askf(http, &call, NULL, &err, "GET", "/x");
    assert_int_equal(write(slow.cancel_fd, &one, sizeof(one)), sizeof(one));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(pulls[i].thread, &failed), 0);
        assert_null(failed);
    }
    assert_int_equal(r, 200);
    (void)close(slow.cancel_fd);
    http = atoll_docker_http_free(http);
    fake_http_free(fake);
}

static void serve_stream(struct fake_request *q)
{
    static const char head[] = "HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n";
    char byte;

    if (is_ping(q, "1.41"))
        return;
    (void)!atoll_fd_write_all(q->fd, head, strlen(head));
    (void)!read(q->fd, &byte, 1);
}

/* Whether a connection to this port is one whose kernel asks now and then if the other end is there. */
static bool is_kept_alive(unsigned port)
{
    unsigned remote, state, timer;
    bool found = false;
    char line[256];
    FILE *file = fopen("/proc/net/tcp", "re");

    while (!found && fgets(line, sizeof(line), file))
        found = sscanf(line, "%*d: %*8x:%*4x %*8x:%4x %2x %*8x:%*8x %2x:", &remote, &state,
                       &timer) == 3 &&
                remote == port && state == 1 && timer == 2;
    (void)fclose(file);
    return found;
}

/* Nothing is sent on a stream for hours; that its other end is gone has to show all the same. */
static void test_streams_are_kept_alive(void **state)
{
    struct fake_http *fake = fake_http_new(serve_stream);
    struct atoll_docker_http *http = http_of(fake);
    struct atoll_sync_call call = call_for(20000);
    unsigned port = (unsigned)strtoul(strrchr(fake->url, ':') + 1, NULL, 10);
    struct atoll_error err = {0};
    int fd;

    (void)state;
    if (atoll_docker_http_hijack(http, &call, "/exec/1/start", "{}", &fd, &err) < 0)
        fail_msg("%s", err.text);
    while (!is_kept_alive(port)) {
        assert_true(atoll_sync_left_ms(&call) > 0);
        (void)usleep(10000);
    }
    (void)close(fd);
    http = atoll_docker_http_free(http);
    fake_http_free(fake);
}

static void test_addresses(void **state)
{
    static const char *const bad[] = {"",           "docker",      "unix://x",
                                      "http://h:1", "tcp://h:1/x", "tcp://u@h:1"};
    struct atoll_docker_http *http = NULL;
    struct atoll_error err = {0};

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bad); i++) {
        struct atoll_docker_http_config config = {.host = bad[i]};
        assert_true(atoll_docker_http_new(&config, &http, &err) < 0);
        assert_int_equal(err.kind, ATOLL_ERR_INVALID_ARGUMENT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_newer_engine),
        cmocka_unit_test(test_older_engine),
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_once),
        cmocka_unit_test(test_what_is_slow_holds_nobody_up),
        cmocka_unit_test(test_streams_are_kept_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

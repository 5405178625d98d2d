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
        cmocka_unit_test(test_answers),      cmocka_unit_test(test_newer_engine),
        cmocka_unit_test(test_older_engine), cmocka_unit_test(test_silence),
        cmocka_unit_test(test_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

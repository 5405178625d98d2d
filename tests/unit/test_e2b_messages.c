/*
 * What an E2B service is told and what it answers, as a client of it: JSON, envelopes, refusals.
 */
#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "provider/e2b/messages.h"
#include "provider/remote/api.h"

static json_t *parse(const char *text)
{
    json_t *json = json_loads(text, 0, NULL);

    assert_non_null(json);
    return json;
}

static void sandboxes(void **state)
{
    json_t *json = parse("{\"sandboxID\":\"abc-1\",\"envdAccessToken\":\"tok\",\"domain\":null,"
                         "\"state\":\"paused\",\"metadata\":{\"atoll_id\":\"x9\"}}");
    struct atoll_e2b_remote remote;
    struct atoll_error error;

    (void)state;
    assert_int_equal(atoll_e2b_read_remote(json, &remote, &error), 0);
    assert_string_equal(remote.of.handle, "abc-1");
    assert_string_equal(remote.token, "tok");
    assert_string_equal(remote.domain, "");
    assert_string_equal(remote.of.id, "x9");
    assert_int_equal(remote.of.state, ATOLL_REMOTE_PAUSED);
    json_decref(json);
}

/* Parts of answers become parts of URLs and headers. */
static void hostile_sandboxes(void **state)
{
    static const char *const bad[] = {
        "{}",
        "[]",
        "{\"sandboxID\":7}",
        "{\"sandboxID\":\"\"}",
        "{\"sandboxID\":\"../keys\"}",
        "{\"sandboxID\":\"a?b\"}",
        "{\"sandboxID\":\"a\",\"envdAccessToken\":\"x\\r\\nHost: y\"}",
        "{\"sandboxID\":\"a\",\"domain\":\"x/y\"}",
        "{\"sandboxID\":\"a\",\"domain\":\"user@x\"}",
    };
    struct atoll_e2b_remote remote;
    struct atoll_error error;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bad); i++) {
        json_t *json = parse(bad[i]);
        assert_true(atoll_e2b_read_remote(json, &remote, &error) < 0);
        assert_int_equal(error.kind, ATOLL_ERR_UNAVAILABLE);
        json_decref(json);
    }
    json_t *json = parse("{\"sandboxID\":\"a\",\"metadata\":{\"atoll_id\":\"../x\"}}");
    assert_int_equal(atoll_e2b_read_remote(json, &remote, &error), 0);
    assert_string_equal(remote.of.id, "");
    json_decref(json);
}

static void samples(void **state)
{
    json_t *none = parse("[]"), *two = parse("[{\"memUsed\":1,\"memTotal\":9},"
                                             "{\"memUsed\":5,\"memTotal\":10.0}]");
    struct atoll_e2b_sample sample;

    (void)state;
    assert_int_equal(atoll_e2b_read_sample(none, &sample), -ENODATA);
    assert_int_equal(atoll_e2b_read_sample(two, &sample), 0);
    assert_int_equal(sample.memory_bytes, 5);
    assert_int_equal(sample.memory_total_bytes, 10);
    json_decref(none);
    json_decref(two);
    two = json_pack("[{s:i,s:f,s:i,s:i}]", "cpuCount", 2, "cpuUsedPct", 37.5, "diskUsed", 7,
                    "diskTotal", 9);
    assert_int_equal(atoll_e2b_read_sample(two, &sample), 0);
    assert_true(sample.cpus == 2 && sample.cpu_percent == 37.5);
    assert_int_equal(sample.disk_bytes, 7);
    assert_int_equal(sample.disk_total_bytes, 9);
    json_decref(two);
    two = json_pack("[{s:s,s:i,s:i}]", "cpuCount", "many", "cpuUsedPct", -3, "diskUsed", -1);
    assert_int_equal(atoll_e2b_read_sample(two, &sample), 0);
    assert_true(sample.cpus == 0 && sample.cpu_percent == 0 && sample.disk_bytes == 0);
    json_decref(two);
}

/* What a new sandbox is to be, with labels and variables; ours are not to be forged. */
static void creations(void **state)
{
    static const char *const env[] = {"A=b=c", "EMPTY=", "BROKEN", "=x", "BYTES=\xff", NULL};
    char daemon_id[] = "d";
    const struct atoll_remote_provider p = {.daemon_id = daemon_id};
    struct atoll_spec spec = {.id = "ours",
                              .metadata_json = "{\"k\":\"v\",\"n\":1,\"atoll_id\":\"x\"}"};
    struct atoll_e2b_create_params params = {.template_id = "base",
                                             .timeout_s = 60,
                                             .internet = true,
                                             .metadata = atoll_remote_labels(&p, &spec),
                                             .env = atoll_remote_env(env)};
    ATOLL_AUTOFREE char *text = atoll_remote_dump(atoll_e2b_create_message(&params));
    ATOLL_AUTOFREE char *plain = NULL;

    (void)state;
    assert_string_equal(text, "{\"templateID\":\"base\",\"timeout\":60,\"secure\":true,"
                              "\"allow_internet_access\":true,\"metadata\":{\"k\":\"v\","
                              "\"atoll_id\":\"ours\",\"atoll_daemon\":\"d\"},\"envVars\":{"
                              "\"A\":\"b=c\",\"EMPTY\":\"\"}}");
    spec.metadata_json = "[]";
    params.metadata = atoll_remote_labels(&p, &spec);
    params.env = atoll_remote_env(NULL);
    plain = atoll_remote_dump(atoll_e2b_create_message(&params));
    assert_non_null(strstr(plain, "\"envVars\":{}"));
    assert_non_null(strstr(plain, "\"metadata\":{\"atoll_id\":\"ours\",\"atoll_daemon\":\"d\"}"));
}

static void refusals(void **state)
{
    static const struct {
        long status;
        enum atoll_error_kind kind;
    } rows[] = {
        {302, ATOLL_ERR_FAILED_PRECONDITION}, {400, ATOLL_ERR_INVALID_ARGUMENT},
        {401, ATOLL_ERR_UNAUTHENTICATED},     {403, ATOLL_ERR_PERMISSION_DENIED},
        {404, ATOLL_ERR_NOT_FOUND},           {409, ATOLL_ERR_FAILED_PRECONDITION},
        {429, ATOLL_ERR_UNAVAILABLE},         {500, ATOLL_ERR_UNAVAILABLE},
        {502, ATOLL_ERR_UNAVAILABLE},         {503, ATOLL_ERR_UNAVAILABLE},
        {507, ATOLL_ERR_RESOURCE_EXHAUSTED},
    };
    static const char body[] = "{\"code\":1,\"message\":\"so it is\"}";
    struct atoll_error error;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        assert_true(atoll_remote_refused(&error, &atoll_e2b_service, "try", rows[i].status, body,
                                         strlen(body), 7, NULL) < 0);
        assert_int_equal(error.kind, rows[i].kind);
        assert_non_null(strstr(error.text, "so it is"));
        assert_int_equal(error.retry_ms, rows[i].kind == ATOLL_ERR_UNAVAILABLE ? 7000 : 0);
    }
    assert_true(atoll_remote_refused(&error, &atoll_e2b_service, "try", 401, body, strlen(body), 0,
                                     NULL) < 0);
    assert_non_null(strstr(error.text, "api_key_env"));
}

static void hours(void **state)
{
    static const char body[] = "{\"message\":\"Timeout cannot be greater than 24 hours\"}";

    (void)state;
    assert_int_equal(atoll_e2b_most_hours(body, strlen(body)), 24);
    assert_int_equal(atoll_e2b_most_hours("{}", 2), 0);
    assert_int_equal(atoll_e2b_most_hours("x", 1), 0);
}

static void requests(void **state)
{
    static const char *const args[] = {"--relay", "/x", NULL};
    char *text = atoll_remote_dump(atoll_e2b_start_message("/a", args, true));
    struct atoll_buf out;

    (void)state;
    assert_string_equal(text,
                        "{\"process\":{\"cmd\":\"/a\",\"args\":[\"--relay\",\"/x\"],\"envs\":{},"
                        "\"cwd\":\"/\"},\"stdin\":true}");
    atoll_buf_init(&out, 1000);
    assert_int_equal(atoll_e2b_envelope(&out, "{}"), 0);
    assert_int_equal(atoll_buf_size(&out), 7);
    assert_memory_equal(atoll_buf_head(&out), "\0\0\0\0\2{}", 7);
    atoll_buf_clear(&out);
    assert_int_equal(atoll_e2b_input_message(&out, 7, "hi", 2), 0);
    assert_string_equal(atoll_buf_str(&out),
                        "{\"process\":{\"pid\":7},\"input\":{\"stdin\":\"aGk=\"}}");
    atoll_buf_done(&out);
    free(text);
}

/* Events. */

static int note(void *arg, const struct atoll_e2b_event *e)
{
    struct atoll_buf *out = arg;

    switch (e->type) {
    case ATOLL_E2B_EVENT_START:
        return atoll_buf_appendf(out, "start %u;", e->pid);
    case ATOLL_E2B_EVENT_STDOUT:
        return atoll_buf_appendf(out, "out %.*s;", (int)e->len, (const char *)e->bytes);
    case ATOLL_E2B_EVENT_STDERR:
        return atoll_buf_appendf(out, "err %.*s;", (int)e->len, (const char *)e->bytes);
    case ATOLL_E2B_EVENT_EXIT:
        return atoll_buf_appendf(out, "exit %d %s;", e->code, e->text);
    case ATOLL_E2B_EVENT_ALIVE:
        return atoll_buf_appends(out, "alive;");
    case ATOLL_E2B_EVENT_END:
        return atoll_buf_appendf(out, "end %s %s;", atoll_error_kind_name(e->kind), e->text);
    }
    return -EINVAL;
}

static void put(struct atoll_buf *out, const char *message, uint8_t flags)
{
    size_t at = atoll_buf_size(out);

    assert_int_equal(atoll_e2b_envelope(out, message), 0);
    out->data[out->off + at] = flags;
}

static const char good[] =
    "start 5;out hi;err no;alive;alive;exit 3 exit status 3;end not_found gone;";

static void put_good(struct atoll_buf *out)
{
    put(out, "{\"event\":{\"start\":{\"pid\":5}}}", 0);
    put(out, "{\"event\":{\"data\":{\"stdout\":\"aGk=\"}}}", 0);
    put(out, "{\"event\":{\"data\":{\"stderr\":\"bm8=\"}}}", 0);
    put(out, "{\"event\":{\"keepalive\":{}}}", 0);
    put(out, "{\"event\":{\"later\":{}}}", 0);
    put(out, "{\"event\":{\"data\":{\"stdout\":\"\"}}}", 0);
    put(out, "{\"event\":{\"end\":{\"exitCode\":3,\"status\":\"exit status 3\"}}}", 0);
    put(out, "{\"error\":{\"code\":\"not_found\",\"message\":\"gone\"}}", 2);
}

/* However the bytes arrive. */
static void events_in_pieces(void **state)
{
    struct atoll_buf bytes, seen;

    (void)state;
    atoll_buf_init(&bytes, 100000);
    atoll_buf_init(&seen, 100000);
    put_good(&bytes);
    for (size_t piece = 1; piece <= atoll_buf_size(&bytes); piece++) {
        struct atoll_e2b_events events;
        atoll_buf_clear(&seen);
        atoll_e2b_events_init(&events);
        for (size_t at = 0; at < atoll_buf_size(&bytes); at += piece)
            assert_int_equal(atoll_e2b_events_feed(&events, atoll_buf_head(&bytes) + at,
                                                   ATOLL_MIN(piece, atoll_buf_size(&bytes) - at),
                                                   note, &seen),
                             0);
        assert_string_equal(atoll_buf_str(&seen), good);
        assert_true(events.ended);
        assert_int_equal(atoll_e2b_events_feed(&events, "x", 1, note, &seen), -EBADMSG);
        atoll_e2b_events_done(&events);
    }
    atoll_buf_done(&bytes);
    atoll_buf_done(&seen);
}

static void bad_events(void **state)
{
    static const char *const bad[] = {
        "[]",
        "x",
        "",
        "{\"event\":{\"start\":{}}}",
        "{\"event\":{\"start\":{\"pid\":-1}}}",
        "{\"event\":{\"start\":{\"pid\":99999999999}}}",
        "{\"event\":{\"data\":{}}}",
        "{\"event\":{\"data\":{\"stdout\":\"a\"}}}",
        "{\"event\":{\"data\":{\"stdout\":7}}}",
        "{\"event\":{\"end\":{\"exitCode\":99999999999}}}",
    };
    struct atoll_e2b_events events;
    struct atoll_buf bytes, seen;

    (void)state;
    atoll_buf_init(&bytes, 100000);
    atoll_buf_init(&seen, 100000);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bad); i++) {
        atoll_buf_clear(&bytes);
        put(&bytes, bad[i], 0);
        atoll_e2b_events_init(&events);
        assert_int_equal(atoll_e2b_events_feed(&events, atoll_buf_head(&bytes),
                                               atoll_buf_size(&bytes), note, &seen),
                         -EBADMSG);
        atoll_e2b_events_done(&events);
    }
    atoll_e2b_events_init(&events);
    assert_int_equal(atoll_e2b_events_feed(&events, "HTTP", 4, note, &seen), -EBADMSG);
    atoll_e2b_events_done(&events);
    atoll_e2b_events_init(&events);
    assert_int_equal(atoll_e2b_events_feed(&events, "\0\xff\xff\xff\xff", 5, note, &seen),
                     -EMSGSIZE);
    atoll_e2b_events_done(&events);
    atoll_buf_done(&bytes);
    atoll_buf_done(&seen);
}

/* A policy that the service's terms cannot say is refused: never a wider one. */
static void networks(void **state)
{
    static const struct {
        const char *policy, *wanted; /* JSON, or a part of the refusal */
    } cases[] = {
        {"{}", "null"},
        {"{\"allow\":[\"a.test\",\"*.b.test\",\"203.0.113.0/24\"]}",
         "{\"allowOut\":[\"a.test\",\"*.b.test\",\"203.0.113.0/24\"],\"denyOut\":[\"0.0.0.0/0\"]}"},
        {"{\"deny\":[\"203.0.113.7\"]}", "{\"denyOut\":[\"203.0.113.7\"]}"},
        {"{\"default\":\"deny\"}", "{\"denyOut\":[\"0.0.0.0/0\"]}"},
        {"{\"default\":\"allow\",\"rules\":[{\"allow\":\"a.test\"},{\"deny\":\"*\"}]}",
         "{\"allowOut\":[\"a.test\"],\"denyOut\":[\"0.0.0.0/0\"]}"},
        {"{\"deny\":[\"198.51.100.0/24\"],\"allow\":[\"203.0.113.0/24\"]}",
         "{\"allowOut\":[\"203.0.113.0/24\"],\"denyOut\":[\"0.0.0.0/0\"]}"},
        {"{\"transforms\":[{\"domain\":\"a.test\",\"headers\":{\"x-a\":\"b\"}}]}",
         "{\"rules\":{\"a.test\":[{\"transform\":{\"headers\":{\"x-a\":\"b\"}}}]}}"},
        {"{\"proxy\":{\"address\":\"p.test:1080\",\"username\":\"u\",\"password\":\"p\"}}",
         "{\"egressProxy\":{\"address\":\"p.test:1080\",\"username\":\"u\",\"password\":\"p\"}}"},
        {"{\"allow\":[\"a.test:443\"]}", "rules for ports"},
        {"{\"allow\":[\"2001:db8::/32\"]}", "IPv6"},
        {"{\"deny\":[\"a.test\"]}", "denies a domain"},
        {"{\"deny\":[\"203.0.113.7\"],\"allow\":[\"203.0.113.0/24\"]}", "a later one allows"},
        {"{\"deny\":[\"203.0.113.7\"],\"allow\":[\"a.test\"]}", "a later one allows"},
        {"{\"default\":\"allow\",\"rules\":[{\"allow\":\"a.test\"},{\"deny\":\"203.0.113.7\"}]}",
         "some addresses only"},
        {"{\"network\":\"team1\"}", "isolated network"},
        {"{\"mbps\":5}", "bandwidth"},
        {"{\"transforms\":[{\"domain\":\"a.test\",\"status\":204}]}", "more than to add headers"},
        {"{\"transforms\":[{\"domain\":\"*.a.test\",\"headers\":{\"x\":\"y\"}}]}",
         "more than one domain"},
        {"{\"transforms\":[{\"domain\":\"a.test\",\"headers\":{\"x\":\"${secret.k}\"}}]}",
         "a secret"},
    };

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(cases); i++) {
        struct atoll_error err = {0};
        json_t *network = NULL;
        int r = atoll_e2b_network(cases[i].policy, &network, &err);
        ATOLL_AUTOFREE char *text =
            network ? json_dumps(network, JSON_COMPACT) : strdup(r < 0 ? err.text : "null");

        if (r == 0 ? strcmp(text, cases[i].wanted) != 0
                   : err.kind != ATOLL_ERR_UNIMPLEMENTED || !strstr(text, cases[i].wanted))
            fail_msg("%s: %s", cases[i].policy, text);
        json_decref(network);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(networks),
        cmocka_unit_test(sandboxes),
        cmocka_unit_test(hostile_sandboxes),
        cmocka_unit_test(samples),
        cmocka_unit_test(creations),
        cmocka_unit_test(refusals),
        cmocka_unit_test(hours),
        cmocka_unit_test(requests),
        cmocka_unit_test(events_in_pieces),
        cmocka_unit_test(bad_events),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

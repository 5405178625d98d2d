/*
 * The decoder of JSON bodies, and the JSON writer.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/fields.h"
#include "api/json_out.h"

struct inner {
    uint64_t bytes;
    uint32_t millis;
};

struct target {
    bool flag, has_inner;
    const char *text;
    uint32_t count, rounded;
    uint64_t big;
    const char *const *strings, *const *env;
    struct inner inner;
    const json_t *any;
};

static const struct atoll_field inner_fields[] = {
    {"memoryMB", ATOLL_FIELD_MIB, offsetof(struct inner, bytes), 8, 1048576, NULL, 0},
    {"cpuCores", ATOLL_FIELD_MILLI, offsetof(struct inner, millis), 0.01, 64, NULL, 0},
    {0},
};

static const struct atoll_field fields[] = {
    {"flag", ATOLL_FIELD_BOOL, offsetof(struct target, flag), 0, 0, NULL, 0},
    {"text", ATOLL_FIELD_STRING, offsetof(struct target, text), 1, 5, NULL, 0},
    {"count", ATOLL_FIELD_U32, offsetof(struct target, count), 1, 100, NULL, 0},
    {"rounded", ATOLL_FIELD_CEIL, offsetof(struct target, rounded), 0, 100, NULL, 0},
    {"big", ATOLL_FIELD_U64, offsetof(struct target, big), 0, 1e15, NULL, 0},
    {"strings", ATOLL_FIELD_STRINGS, offsetof(struct target, strings), 1, 3, NULL, 0},
    {"env", ATOLL_FIELD_ENV, offsetof(struct target, env), 0, 0, NULL, 0},
    {"limits", ATOLL_FIELD_OBJECT, offsetof(struct target, inner), 0, 0, inner_fields,
     offsetof(struct target, has_inner)},
    {"any", ATOLL_FIELD_JSON, offsetof(struct target, any), 0, 0, NULL, 0},
    {0},
};

static int decode(struct atoll_body *body, const char *json, struct target *t,
                  struct atoll_error *err)
{
    struct atoll_field_set set = {fields, t};
    int r = atoll_body_parse(body, json, strlen(json), err);

    *t = (struct target){0};
    return r < 0 ? r : atoll_fields_decode(body, body->root, "", &set, 1, err);
}

static void every_type_is_decoded(void **state)
{
    struct atoll_body body;
    struct atoll_error err;
    struct target t;

    (void)state;
    assert_int_equal(decode(&body,
                            "{\"flag\":true,\"text\":\"abc\",\"count\":7,\"rounded\":1.2,"
                            "\"big\":1e3,\"strings\":[\"a\",\"\"],\"env\":{\"A\":\"1\",\"B\":\"\"},"
                            "\"limits\":{\"memoryMB\":8.5,\"cpuCores\":1.5},\"any\":[1]}",
                            &t, &err),
                     0);
    assert_true(t.flag);
    assert_string_equal(t.text, "abc");
    assert_int_equal(t.count, 7);
    assert_int_equal(t.rounded, 2);
    assert_int_equal(t.big, 1000);
    assert_string_equal(t.strings[0], "a");
    assert_string_equal(t.strings[1], "");
    assert_null(t.strings[2]);
    assert_string_equal(t.env[0], "A=1");
    assert_string_equal(t.env[1], "B=");
    assert_null(t.env[2]);
    assert_true(t.has_inner);
    assert_int_equal(t.inner.bytes, 8912896);
    assert_int_equal(t.inner.millis, 1500);
    assert_true(json_is_array(t.any));
    atoll_body_done(&body);
}

static void nothing_and_null_are_not_given(void **state)
{
    struct atoll_body body;
    struct atoll_error err;
    struct target t;

    (void)state;
    assert_int_equal(decode(&body, "", &t, &err), 0);
    atoll_body_done(&body);
    assert_int_equal(decode(&body, "{\"text\":null,\"limits\":null}", &t, &err), 0);
    assert_null(t.text);
    assert_false(t.has_inner);
    atoll_body_done(&body);
}

static void errors_name_field_bounds_and_value(void **state)
{
    static const struct {
        const char *json, *text;
    } cases[] = {
        {"{\"limits\":{\"memoryMB\":\"x\"}}",
         "limits.memoryMB must be a number between 8 and 1048576 (got \"x\")"},
        {"{\"limits\":{\"memoryMB\":7}}",
         "limits.memoryMB must be a number between 8 and 1048576 (got 7)"},
        {"{\"count\":1.5}", "count must be a whole number between 1 and 100 (got 1.5)"},
        {"{\"count\":-1}", "count must be a whole number between 1 and 100 (got -1)"},
        {"{\"count\":true}", "count must be a whole number between 1 and 100 (got true)"},
        {"{\"flag\":1}", "flag must be true or false (got 1)"},
        {"{\"text\":\"\"}", "text must be a string of 1 to 5 bytes (got \"\")"},
        {"{\"text\":\"123456\"}", "text must be a string of 1 to 5 bytes (got \"123456\")"},
        {"{\"strings\":[]}", "strings must be an array of 1 to 3 strings (got [])"},
        {"{\"strings\":[\"a\",1]}", "strings must be an array of 1 to 3 strings (got [\"a\",1])"},
        {"{\"strings\":\"ls\"}", "strings must be an array of 1 to 3 strings (got \"ls\")"},
        {"{\"limits\":[]}", "limits must be an object (got [])"},
        {"{\"limits\":{\"memoryMb\":8}}",
         "there is no field \"limits.memoryMb\"; known are memoryMB, cpuCores"},
        {"{\"env\":{\"A=\":\"x\"}}",
         "env must be an object whose names are not empty and hold no \"=\""},
        {"[]", "the body must be a JSON object"},
    };
    struct atoll_body body;
    struct atoll_error err;
    struct target t;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(cases); i++) {
        assert_true(decode(&body, cases[i].json, &t, &err) < 0);
        assert_int_equal(err.kind, ATOLL_ERR_INVALID_ARGUMENT);
        assert_string_equal(err.text, cases[i].text);
        atoll_body_done(&body);
    }
}

static void secrets_are_not_repeated(void **state)
{
    struct atoll_body body;
    struct atoll_error err;
    struct target t;

    (void)state;
    assert_true(decode(&body, "{\"env\":{\"KEY\":[\"hunter2\"]}}", &t, &err) < 0);
    assert_string_equal(err.text, "env.KEY must be a string");
    atoll_body_done(&body);
    assert_true(decode(&body, "{\"env\":[\"KEY=hunter2\"]}", &t, &err) < 0);
    assert_null(strstr(err.text, "hunter2"));
    atoll_body_done(&body);
}

static void timeouts_are_seconds(void **state)
{
    static const struct {
        double seconds;
        uint32_t ms; /* UINT32_MAX: refused */
    } cases[] = {
        {0, 0},          {1.5, 1500}, {0.0001, 1}, {2678400, 2678400000u}, {2678401, UINT32_MAX},
        {-1, UINT32_MAX}};
    struct atoll_error err;
    uint32_t ms = 7;

    (void)state;
    assert_int_equal(atoll_fields_timeout(NULL, "timeout", &ms, &err), 0);
    assert_int_equal(ms, 7);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(cases); i++) {
        json_t *value = json_real(cases[i].seconds);
        int r = atoll_fields_timeout(value, "timeout", &ms, &err);
        json_decref(value);
        assert_int_equal(r < 0, cases[i].ms == UINT32_MAX);
        if (r == 0)
            assert_int_equal(ms, cases[i].ms);
        else
            assert_non_null(strstr(err.text, "timeout must be a number of seconds"));
    }
}

static void malformed_bodies_are_refused(void **state)
{
    static const char *const bad[] = {
        "{",
        "{\"flag\":true}x",
        "{\"flag\":true,\"flag\":false}",
        "{\"text\":\"\\u0000\"}",
        "{\"text\":\"\xff\"}",
        "{\"any\":1e999}",
        "null",
        "\"x\"",
    };
    struct atoll_body body;
    struct atoll_error err;
    struct target t;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bad); i++) {
        assert_true(decode(&body, bad[i], &t, &err) < 0);
        assert_int_equal(err.kind, ATOLL_ERR_INVALID_ARGUMENT);
        atoll_body_done(&body);
    }
}

static void depth_is_limited(void **state)
{
    char json[400] = "{\"any\":";
    size_t n = strlen(json);
    struct atoll_body body;
    struct atoll_error err;
    struct target t;

    (void)state;
    memset(json + n, '[', 63);
    memset(json + n + 63, ']', 63);
    (void)snprintf(json + n + 126, 2, "}");
    assert_int_equal(decode(&body, json, &t, &err), 0);
    atoll_body_done(&body);
    memset(json + n, '[', 64);
    memset(json + n + 64, ']', 64);
    (void)snprintf(json + n + 128, 2, "}");
    assert_true(decode(&body, json, &t, &err) < 0);
    assert_non_null(strstr(err.text, "64 levels"));
    atoll_body_done(&body);
    /* Brackets in strings do not count, not even behind an escaped quote. */
    (void)snprintf(json, sizeof(json), "{\"any\":\"\\\"%080d\"}", 0);
    memset(strchr(json, '0'), '[', 80);
    assert_int_equal(decode(&body, json, &t, &err), 0);
    atoll_body_done(&body);
}

static void json_is_written(void **state)
{
    struct atoll_json_out out;
    struct atoll_buf buf;

    (void)state;
    atoll_buf_init(&buf, 4096);
    atoll_json_out_init(&out, &buf);
    atoll_json_open(&out, NULL, '{');
    atoll_json_text(&out, "t", "a\"\\\n\x01\x7f\xc3\xa4");
    atoll_json_open(&out, "list", '[');
    atoll_json_u64(&out, NULL, UINT64_MAX);
    atoll_json_i64(&out, NULL, -1);
    atoll_json_double(&out, NULL, 0.1, 6);
    atoll_json_double(&out, NULL, 1.0 / 0.0, 6);
    atoll_json_bool(&out, NULL, false);
    atoll_json_close(&out, ']');
    atoll_json_bytes(&out, "b", "\xff\x00z", 3);
    atoll_json_time(&out, "never", 0);
    atoll_json_time(&out, "at", 1500);
    atoll_json_base64(&out, "empty", NULL, 0);
    /* A key may be the name of something a tenant made. */
    atoll_json_null(&out, "user.\"\\\n\xff");
    atoll_json_close(&out, '}');
    assert_int_equal(out.error, 0);
    assert_string_equal(atoll_buf_str(&buf),
                        "{\"t\":\"a\\\"\\\\\\n\\u0001\\u007f\xc3\xa4\",\"list\":["
                        "18446744073709551615,-1,0.1,null,false],"
                        "\"b\":\"\xef\xbf\xbd\\u0000z\",\"b_base64\":\"/wB6\","
                        "\"never\":null,\"at\":\"1970-01-01T00:00:01.500Z\",\"empty\":\"\","
                        "\"user.\\\"\\\\\\n\xef\xbf\xbd\":null}");
    atoll_buf_done(&buf);
}

static void a_full_buffer_sticks(void **state)
{
    struct atoll_json_out out;
    struct atoll_buf buf;

    (void)state;
    atoll_buf_init(&buf, 8);
    atoll_json_out_init(&out, &buf);
    atoll_json_text(&out, NULL, "0123456789");
    assert_int_equal(out.error, -ENOBUFS);
    atoll_json_close(&out, '}');
    assert_int_equal(out.error, -ENOBUFS);
    atoll_buf_done(&buf);
}

static void cut_characters_are_found(void **state)
{
    static const struct {
        const char *bytes;
        size_t tail;
    } cases[] = {
        {"abc", 0},          {"a\xc3", 1}, {"\xe2\x82", 2}, {"\xf0\x9f\x98", 3},
        {"\xc3\xa4", 0},     {"\xff", 0},  {"\xe0\x80", 0}, /* overlong */
        {"\xed\xa0", 0},                                    /* surrogate */
        {"\xf4\x90", 0},                                    /* beyond U+10FFFF */
        {"\x80\x80\x80", 0}, {"\xc0", 0},
    };

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(cases); i++)
        assert_int_equal(
            atoll_json_utf8_open_tail((const uint8_t *)cases[i].bytes, strlen(cases[i].bytes)),
            cases[i].tail);
    assert_int_equal(atoll_json_utf8_open_tail((const uint8_t *)"", 0), 0);
    assert_int_equal(atoll_json_utf8_prefix((const uint8_t *)"a\xc3\xa4\xff", 4), 3);
}

static void a_tolerant_table_takes_what_it_does_not_know(void **state)
{
    static const struct atoll_field tolerant[] = {
        {"count", ATOLL_FIELD_U32, 0, 1, 100, NULL, 0},
        ATOLL_FIELDS_TOLERANT,
        {0},
    };
    static const char text[] = "{\"new\":{\"a\":[1]},\"count\":7,\"*\":true}";
    uint32_t count = 0;
    const struct atoll_field_set set = {tolerant, &count};
    struct atoll_body body;
    struct atoll_error err;

    (void)state;
    assert_int_equal(atoll_body_parse(&body, text, sizeof(text) - 1, &err), 0);
    assert_int_equal(atoll_fields_decode(&body, body.root, "", &set, 1, &err), 0);
    assert_int_equal(count, 7);
    atoll_body_done(&body);
    /* What it does know it still checks. */
    assert_int_equal(atoll_body_parse(&body, "{\"x\":1,\"count\":0}", 17, &err), 0);
    assert_true(atoll_fields_decode(&body, body.root, "", &set, 1, &err) < 0);
    atoll_body_done(&body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_is_decoded),
        cmocka_unit_test(nothing_and_null_are_not_given),
        cmocka_unit_test(errors_name_field_bounds_and_value),
        cmocka_unit_test(secrets_are_not_repeated),
        cmocka_unit_test(timeouts_are_seconds),
        cmocka_unit_test(malformed_bodies_are_refused),
        cmocka_unit_test(depth_is_limited),
        cmocka_unit_test(json_is_written),
        cmocka_unit_test(a_full_buffer_sticks),
        cmocka_unit_test(cut_characters_are_found),
        cmocka_unit_test(a_tolerant_table_takes_what_it_does_not_know),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

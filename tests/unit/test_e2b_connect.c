/*
 * The Connect protocol and what is written with it: envelopes, fields, the end of a process, signed
 * URLs.
 */
#include "test.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include "api/e2b/connect.h"
#include "api/e2b/filesystem.h"
#include "api/e2b/plane.h"
#include "api/e2b/process.h"

static void envelopes(void **state)
{
    static const uint8_t one[] = "\0\0\0\0\2{}", end[] = "\2\0\0\0\0";
    struct atoll_connect_frame frame;

    (void)state;
    for (size_t n = 0; n < 7; n++)
        assert_int_equal(atoll_connect_take(one, n, 100, &frame), 0);
    assert_int_equal(atoll_connect_take(one, 7, 100, &frame), 7);
    assert_int_equal(frame.flags, 0);
    assert_int_equal(frame.len, 2);
    assert_memory_equal(frame.message, "{}", 2);
    assert_int_equal(atoll_connect_take(end, 5, 100, &frame), 5);
    assert_int_equal(frame.flags, ATOLL_CONNECT_END);
    assert_int_equal(frame.len, 0);
}

static void bad_envelopes(void **state)
{
    static const uint8_t packed[] = "\1\0\0\0\0", unknown[] = "\x80\0\0\0\0";
    static const uint8_t large[] = "\0\0\0\0\x65", huge[] = "\0\xff\xff\xff\xff";
    struct atoll_connect_frame frame;

    (void)state;
    assert_int_equal(atoll_connect_take(packed, 1, 100, &frame), -EBADMSG);
    assert_int_equal(atoll_connect_take(unknown, 5, 100, &frame), -EBADMSG);
    assert_int_equal(atoll_connect_take(large, 5, 100, &frame), -EMSGSIZE);
    assert_int_equal(atoll_connect_take(huge, 5, 100, &frame), -EMSGSIZE);
}

static json_t *parse(const char *text)
{
    struct atoll_error error;
    json_t *message = NULL;

    assert_int_equal(atoll_connect_parse((const uint8_t *)text, strlen(text), &message, &error), 0);
    return message;
}

static void messages(void **state)
{
    static const char *const bad[] = {
        "[]", "1", "{", "{\"a\":1,\"a\":2}", "null", "{\"a\":\"\\u0000\"}"};
    struct atoll_error error;
    json_t *message = parse("");

    (void)state;
    assert_int_equal(json_object_size(message), 0);
    json_decref(message);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bad); i++) {
        assert_true(atoll_connect_parse((const uint8_t *)bad[i], strlen(bad[i]), &message, &error) <
                    0);
        assert_int_equal(error.kind, ATOLL_ERR_INVALID_ARGUMENT);
    }
}

static void fields(void **state)
{
    json_t *m = parse("{\"includeEntry\":true,\"watcher_id\":\"w\",\"pid\":7,\"size\":\"9\","
                      "\"nothing\":null}");
    struct atoll_error error;
    const char *text = "default";
    uint32_t number = 3;
    bool flag = false;

    (void)state;
    assert_int_equal(atoll_connect_flag(m, "includeEntry", &flag, &error), 0);
    assert_true(flag);
    assert_int_equal(atoll_connect_text(m, "watcherId", &text, &error), 0); /* snake_case too */
    assert_string_equal(text, "w");
    assert_int_equal(atoll_connect_u32(m, "absent", &number, &error), 0);
    assert_int_equal(number, 3);
    assert_int_equal(atoll_connect_u32(m, "nothing", &number, &error), 0);
    assert_int_equal(number, 3);
    assert_int_equal(atoll_connect_u32(m, "pid", &number, &error), 0);
    assert_int_equal(number, 7);
    assert_int_equal(atoll_connect_u32(m, "size", &number, &error), 0);
    assert_int_equal(number, 9);
    assert_true(atoll_connect_text(m, "pid", &text, &error) < 0);
    assert_true(atoll_connect_flag(m, "pid", &flag, &error) < 0);
    assert_true(atoll_connect_u32(m, "includeEntry", &number, &error) < 0);
    json_decref(m);
}

static void check_end(const struct atoll_exec_result *result, const char *expected)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_buf_init(&buf, 1024);
    atoll_json_out_init(&out, &buf);
    atoll_json_open(&out, NULL, '{');
    atoll_process_write_end(&out, result);
    atoll_json_close(&out, '}');
    assert_int_equal(out.error, 0);
    assert_string_equal(atoll_buf_str(&buf), expected);
    atoll_buf_done(&buf);
}

static void ends(void **state)
{
    (void)state;
    check_end(&(struct atoll_exec_result){.kind = ATOLL_END_EXITED},
              "{\"exitCode\":0,\"exited\":true,\"status\":\"exit status 0\"}");
    check_end(&(struct atoll_exec_result){.kind = ATOLL_END_EXITED, .code = 3},
              "{\"exitCode\":3,\"exited\":true,\"status\":\"exit status 3\","
              "\"error\":\"exit status 3\"}");
    check_end(&(struct atoll_exec_result){.kind = ATOLL_END_KILLED_BY, .signal = SIGKILL},
              "{\"exitCode\":-1,\"exited\":false,\"status\":\"signal: killed\","
              "\"error\":\"signal: killed\"}");
    check_end(&(struct atoll_exec_result){.kind = ATOLL_END_SIGNALED, .signal = SIGSEGV},
              "{\"exitCode\":-1,\"exited\":false,\"status\":\"signal: segmentation fault\","
              "\"error\":\"signal: segmentation fault\"}");
}

/* The example of the SDKs' documentation. */
static void signature(void **state)
{
    struct atoll_e2b_signed what = {"hello.txt", "read", "user", ""};
    char right[ATOLL_E2B_SIGNATURE_MAX], other[ATOLL_E2B_SIGNATURE_MAX];

    (void)state;
    atoll_e2b_sign(&what, "0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0", right);
    assert_string_equal(right, "v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E");
    what.expiration = "1";
    atoll_e2b_sign(&what, "0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0", other);
    assert_string_not_equal(right, other);
    what.expiration = "";
    what.operation = "write";
    atoll_e2b_sign(&what, "0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0", other);
    assert_string_not_equal(right, other);
}

static void check_entry(const struct atoll_am_entry *entry, const char *expected)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_buf_init(&buf, 4096);
    atoll_json_out_init(&out, &buf);
    atoll_entry_write(&out, NULL, entry);
    assert_int_equal(out.error, 0);
    assert_string_equal(atoll_buf_str(&buf), expected);
    atoll_buf_done(&buf);
}

static void entries(void **state)
{
    static const char attributes[] =
        "user.e2b.k\0v\0user.other\0x\0user.e2b.bad\"key\0v\0user.e2b.cut";
    struct atoll_am_entry e = {.path = "/home/user/f",
                               .type = ATOLL_ENTRY_FILE,
                               .mode = 0644,
                               .owner = "user",
                               .group = "user",
                               .size_bytes = 5,
                               .mtime_ms = 1700000000123,
                               .target = "",
                               .resolved = "",
                               .attributes = {(const uint8_t *)attributes, sizeof(attributes) - 1}};

    (void)state;
    check_entry(&e, "{\"name\":\"f\",\"type\":\"FILE_TYPE_FILE\",\"path\":\"/home/user/f\","
                    "\"size\":\"5\",\"mode\":420,\"permissions\":\"-rw-r--r--\",\"owner\":\"user\","
                    "\"group\":\"user\",\"modifiedTime\":\"2023-11-14T22:13:20.123Z\","
                    "\"metadata\":{\"k\":\"v\"}}");
    e.attributes.len = 0;
    e.path = "/";
    e.type = ATOLL_ENTRY_DIRECTORY;
    e.mode = 01777;
    check_entry(&e,
                "{\"name\":\"/\",\"type\":\"FILE_TYPE_DIRECTORY\",\"path\":\"/\",\"size\":\"5\","
                "\"mode\":511,\"permissions\":\"dtrwxrwxrwx\",\"owner\":\"user\","
                "\"group\":\"user\",\"modifiedTime\":\"2023-11-14T22:13:20.123Z\"}");
    e.path = "/l";
    e.type = ATOLL_ENTRY_SYMLINK;
    e.mode = 0777;
    e.target = "to";
    check_entry(&e, "{\"name\":\"l\",\"type\":\"FILE_TYPE_UNSPECIFIED\",\"path\":\"/l\","
                    "\"size\":\"5\",\"mode\":511,\"permissions\":\"Lrwxrwxrwx\",\"owner\":\"user\","
                    "\"group\":\"user\",\"modifiedTime\":\"2023-11-14T22:13:20.123Z\","
                    "\"symlinkTarget\":\"to\"}");
    e.resolved = "/to";
    e.resolved_type = ATOLL_ENTRY_FILE;
    e.resolved_mode = 0600;
    check_entry(&e, "{\"name\":\"l\",\"type\":\"FILE_TYPE_FILE\",\"path\":\"/l\",\"size\":\"5\","
                    "\"mode\":384,\"permissions\":\"Lrwxrwxrwx\",\"owner\":\"user\","
                    "\"group\":\"user\",\"modifiedTime\":\"2023-11-14T22:13:20.123Z\","
                    "\"symlinkTarget\":\"/to\"}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(envelopes), cmocka_unit_test(bad_envelopes), cmocka_unit_test(messages),
        cmocka_unit_test(fields),    cmocka_unit_test(ends),          cmocka_unit_test(signature),
        cmocka_unit_test(entries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

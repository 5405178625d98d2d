/*
 * Forms taken apart, however they are cut.
 */
#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/kit/multipart.h"
#include "base/buf.h"

#define TYPE "multipart/form-data; boundary=XX"

/* What came out, as text: "[name|filename]" data "/" … "." */
static int take_apart(const char *type, const char *bytes, size_t size, size_t piece, char *out,
                      size_t cap)
{
    struct atoll_multipart m;
    size_t len = 0;
    int r = atoll_multipart_init(&m, type);

    out[0] = '\0';
    for (size_t at = 0; r == 0 && at < size; at += piece) {
        const uint8_t *p = (const uint8_t *)bytes + at;
        size_t n = ATOLL_MIN(piece, size - at);
        struct atoll_multipart_event e;
        while ((r = atoll_multipart_next(&m, &p, &n, &e)) > 0) {
            int k = 0;
            if (e.kind == ATOLL_PART_BEGIN)
                k = snprintf(out + len, cap - len, "[%s|%s]", e.name,
                             e.filename ? e.filename : "-");
            else if (e.kind == ATOLL_PART_DATA)
                k = snprintf(out + len, cap - len, "%.*s", (int)e.len, (const char *)e.data);
            else
                k = snprintf(out + len, cap - len, "%s", e.kind == ATOLL_PART_END ? "/" : ".");
            len += (size_t)k;
            assert_true(len < cap);
        }
    }
    return r;
}

static void check(const char *bytes, const char *expected)
{
    char out[1024];

    for (size_t piece = 1; piece <= strlen(bytes); piece++) {
        assert_int_equal(take_apart(TYPE, bytes, strlen(bytes), piece, out, sizeof(out)), 0);
        assert_string_equal(out, expected);
    }
}

static void forms(void **state)
{
    (void)state;
    check("--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n"
          "Content-Type: text/plain\r\n\r\nhello\r\n--XX--\r\n",
          "[file|a.txt]hello/.");
    check("--XX\r\ncontent-disposition: form-data; filename=/0/b; name=file\r\n\r\n\r\n--XX\r\n"
          "X-Other: 1\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\ny\r\n--XX--epilogue",
          "[file|/0/b]/[x|-]y/.");
    check("preamble\r\n--XX \t\r\n\r\nno head\r\n--XX--", "[|-]no head/.");
    check(
        "--XX\r\nContent-Disposition: form-data; name=\"a\\\"b\"; filename=\"C:\\dir\\\\f\"\r\n\r\n"
        "\r\n--XX--",
        "[a\"b|C:\\dir\\f]/.");
}

/* What looks like a delimiter and is none is data. */
static void near_misses(void **state)
{
    (void)state;
    check("--XX\r\n\r\n\r\r\n\r\n-\r\n--\r\n--X\r\n--XY--XX\r\n--XX--",
          "[|-]\r\r\n\r\n-\r\n--\r\n--X\r\n--XY--XX/.");
}

static void malformed(void **state)
{
    static const char *const types[] = {
        "text/plain", "multipart/form-data",
        "multipart/form-data; boundary=", "multipart/form-data; boundary=\"open",
        "multipart/form-data; boundary="
        "0123456789012345678901234567890123456789"
        "0123456789012345678901234567890"};
    char out[256], head[ATOLL_MULTIPART_HEAD_MAX + 64];

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(types); i++)
        assert_int_equal(take_apart(types[i], "x", 1, 1, out, sizeof(out)), -EINVAL);
    assert_int_equal(take_apart(TYPE, "--XXX\r\n", 7, 1, out, sizeof(out)), -EBADMSG);
    assert_int_equal(take_apart(TYPE, "--XX-x", 6, 6, out, sizeof(out)), -EBADMSG);
    assert_int_equal(take_apart(TYPE, "--XX\r\na\0b", 9, 9, out, sizeof(out)), -EBADMSG);
    memset(head, 'h', sizeof(head));
    memcpy(head, "--XX\r\n", 6);
    assert_int_equal(take_apart(TYPE, head, sizeof(head), 100, out, sizeof(out)), -E2BIG);
    /* Without its end it is no error here, but nothing says that it is over. */
    assert_int_equal(take_apart(TYPE, "--XX\r\n\r\nab", 10, 10, out, sizeof(out)), 0);
    assert_string_equal(out, "[|-]ab");
}

static void quoted_boundary(void **state)
{
    char out[64];

    (void)state;
    assert_int_equal(take_apart("Multipart/Form-Data; charset=x; boundary=\"a b\"",
                                "--a b\r\n\r\nx\r\n--a b--", 22, 3, out, sizeof(out)),
                     0);
    assert_string_equal(out, "[|-]x/.");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms),
        cmocka_unit_test(near_misses),
        cmocka_unit_test(malformed),
        cmocka_unit_test(quoted_boundary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

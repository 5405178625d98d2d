/*
 * What E2B's clients put into the query of a list: metadata encoded three times, times, cursors.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/e2b/list_query.h"
#include "api/kit/rfc3339.h"
#include "net/url.h"
#include "test.h"

static int decode(struct atoll_buf *out, const char *text)
{
    atoll_buf_init(out, 1024);
    return atoll_e2b_metadata_decode(out, text);
}

static const char *pair(const struct atoll_buf *pairs, const char *name)
{
    return atoll_url_pair((const char *)atoll_buf_head(pairs), atoll_buf_size(pairs), name);
}

static void metadata_is_decoded_twice_more(void **state)
{
    struct atoll_buf pairs;

    (void)state;
    /* {"k y": "v=1"} as both SDKs send it, after the query itself was decoded. */
    assert_int_equal(decode(&pairs, "k%2520y=v%253D1"), 0);
    assert_string_equal(pair(&pairs, "k y"), "v=1");
    atoll_buf_done(&pairs);
    /* Encoded less often it means the same where nothing is special. */
    assert_int_equal(decode(&pairs, "user=abc&app%3Dprod"), 0);
    assert_string_equal(pair(&pairs, "user"), "abc");
    assert_string_equal(pair(&pairs, "app"), "prod");
    atoll_buf_done(&pairs);
    assert_int_equal(decode(&pairs, "a=%252526%25253D"), 0);
    assert_string_equal(pair(&pairs, "a"), "%26%3D");
    atoll_buf_done(&pairs);
    assert_int_equal(decode(&pairs, "%25C3%25A4=%25E2%2582%25AC"), 0);
    assert_string_equal(pair(&pairs, "ä"), "€");
    atoll_buf_done(&pairs);
}

static void bad_metadata_is_refused(void **state)
{
    static const char *const bad[] = {"a=%", "a=%2", "a=%zz", "a=%00", "a=%2500", "a=%25zz"};
    struct atoll_buf pairs;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bad); i++) {
        assert_int_equal(decode(&pairs, bad[i]), -EINVAL);
        atoll_buf_done(&pairs);
    }
}

static void times_are_read(void **state)
{
    static const struct {
        const char *text;
        int64_t unix_us;
    } good[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"1970-01-01T00:00:01.5Z", 1500000},
        {"2026-01-31T12:00:00.123456789Z", INT64_C(1769860800123456)},
        {"2026-01-31T12:00:00.123Z", INT64_C(1769860800123000)},
        {"2026-01-31T14:00:00+02:00", INT64_C(1769860800000000)},
        {"2026-01-31T06:30:00-05:30", INT64_C(1769860800000000)},
        {"2026-01-31t12:00:00z", INT64_C(1769860800000000)},
        {"2026-01-31 12:00:00Z", INT64_C(1769860800000000)},
    };
    static const char *const bad[] = {
        "",
        "now",
        "2026",
        "2026-01-31",
        "2026-01-31T12:00:00",
        "2026-13-01T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "2026-01-32T00:00:00Z",
        "2026-01-31T24:00:00Z",
        "2026-01-31T12:00:00.Z",
        "2026-01-31T12:00:00Zulu",
        "2026-01-31T12:00:00+2:00",
        "2026-01-31T12:00:00+24:00",
        "2026-01-31T12:00:00+ 1:00",
        "-026-01-31T12:00:00Z",
        "2026-01-31T12:00:00 00:00",
    };
    int64_t us;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(good); i++) {
        assert_int_equal(atoll_rfc3339_parse(good[i].text, &us), 0);
        assert_int_equal(us, good[i].unix_us);
    }
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bad); i++)
        assert_int_equal(atoll_rfc3339_parse(bad[i], &us), -EINVAL);
}

static void cursors_come_back(void **state)
{
    static const char *const ids[] = {"a", "ab", "abc", "q1w2e3r4t5y6u7i8o9p0a1s2d3",
                                      "01234567890123456789012345678901"};
    char text[ATOLL_E2B_CURSOR_MAX];
    struct atoll_e2b_cursor in, out;

    (void)state;
    for (size_t i = 0; i < 2 * ATOLL_ARRAY_LEN(ids); i++) {
        in = (struct atoll_e2b_cursor){.unix_ms = INT64_C(1769860800123), .ascending = i & 1};
        (void)snprintf(in.id, sizeof(in.id), "%s", ids[i / 2]);
        atoll_e2b_cursor_format(&in, text);
        /* Nothing that would have to be encoded in a query or a header. */
        assert_int_equal(strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                      "0123456789-_"),
                         strlen(text));
        assert_int_equal(atoll_e2b_cursor_parse(text, &out), 0);
        assert_int_equal(out.unix_ms, in.unix_ms);
        assert_string_equal(out.id, in.id);
        assert_int_equal(out.ascending, in.ascending);
    }
}

static void other_words_are_no_cursors(void **state)
{
    static const char *const bad[] = {
        "",
        "x",
        "====",
        "not base64!",
        "MjAyNi0wMS0zMVQxMjowMDowMFo",         /* a time alone */
        "MjAyNi0wMS0zMVQxMjowMDowMFpfXw",      /* no id */
        "bm93X19hYmM",                         /* no time */
        "MjAyNi0wMS0zMVQxMjowMDowMFpfX0FCQw",  /* no id of ours */
        "MjAyNi0wMS0zMVQxMjowMDowMFpfX2FfX3g", /* no order */
    };
    struct atoll_e2b_cursor out;
    char longer[2 * ATOLL_E2B_CURSOR_MAX];

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bad); i++)
        assert_int_equal(atoll_e2b_cursor_parse(bad[i], &out), -EINVAL);
    memset(longer, 'A', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    assert_int_equal(atoll_e2b_cursor_parse(longer, &out), -EINVAL);
    /* Padding is allowed, though we write none. */
    assert_int_equal(atoll_e2b_cursor_parse("MjAyNi0wMS0zMVQxMjowMDowMFpfX2FiYw==", &out), 0);
    assert_string_equal(out.id, "abc");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metadata_is_decoded_twice_more),
        cmocka_unit_test(bad_metadata_is_refused),
        cmocka_unit_test(times_are_read),
        cmocka_unit_test(cursors_come_back),
        cmocka_unit_test(other_words_are_no_cursors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Messages of language servers on a stream. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "api/daytona/lsp_frames.h"

#define ONE "Content-Length: 2\r\n\r\n{}"
#define TWO "Content-Type: x\r\nContent-Length: 7\r\nX-Y: z\r\n\r\n{\"a\":1}"

static int next(const char *text, struct atoll_lsp_message *ret, size_t *used)
{
    return atoll_lsp_next((const uint8_t *)text, strlen(text), ret, used);
}

static void test_whole_messages(void **state)
{
    struct atoll_lsp_message m;
    size_t used;

    (void)state;
    assert_int_equal(next(ONE TWO, &m, &used), 1);
    assert_int_equal(m.len, 2);
    assert_memory_equal(m.json, "{}", 2);
    assert_int_equal(used, strlen(ONE));
    assert_int_equal(next(TWO, &m, &used), 1);
    assert_memory_equal(m.json, "{\"a\":1}", 7);
    assert_int_equal(used, strlen(TWO));
}

/* However a message is cut, it is found when it is whole. */
static void test_every_cut(void **state)
{
    const char *text = "garbage" TWO;
    struct atoll_lsp_message m;
    struct atoll_buf held;
    size_t used;

    (void)state;
    for (size_t cut = 0; cut < strlen(text); cut++) {
        atoll_buf_init(&held, 1024);
        assert_int_equal(atoll_buf_append(&held, text, cut), 0);
        assert_int_equal(atoll_lsp_next(atoll_buf_head(&held), cut, &m, &used), 0);
        atoll_buf_consume(&held, used);
        assert_int_equal(atoll_buf_appends(&held, text + cut), 0);
        assert_int_equal(atoll_lsp_next(atoll_buf_head(&held), atoll_buf_size(&held), &m, &used),
                         1);
        assert_int_equal(m.len, 7);
        assert_int_equal(used, atoll_buf_size(&held));
        atoll_buf_done(&held);
    }
}

static void test_begins_in_a_message(void **state)
{
    struct atoll_lsp_message m;
    size_t used;

    (void)state;
    /* A string of JSON has no line breaks, so that this is no head. */
    assert_int_equal(next("\"Content-Length: 5\\r\\n\\r\\nabcde\"}" ONE, &m, &used), 1);
    assert_memory_equal(m.json, "{}", 2);
    assert_int_equal(next("Content-Length: x\r\n\r\n" ONE, &m, &used), 1);
    assert_memory_equal(m.json, "{}", 2);
}

static void test_too_long(void **state)
{
    struct atoll_lsp_message m;
    size_t used;

    (void)state;
    assert_int_equal(next("Content-Length: 99999999999999999999\r\n\r\n", &m, &used), -EMSGSIZE);
}

static void test_append(void **state)
{
    struct atoll_lsp_message m;
    struct atoll_buf out;
    size_t used;

    (void)state;
    atoll_buf_init(&out, 64);
    assert_int_equal(atoll_lsp_append(&out, "{\"a\":1}"), 0);
    assert_int_equal(atoll_lsp_next(atoll_buf_head(&out), atoll_buf_size(&out), &m, &used), 1);
    assert_memory_equal(m.json, "{\"a\":1}", 7);
    assert_int_equal(
        atoll_lsp_append(&out, "{\"long\":\"0123456789012345678901234567890123456789\"}"),
        -ENOBUFS);
    atoll_buf_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_messages),
        cmocka_unit_test(test_every_cut),
        cmocka_unit_test(test_begins_in_a_message),
        cmocka_unit_test(test_too_long),
        cmocka_unit_test(test_append),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

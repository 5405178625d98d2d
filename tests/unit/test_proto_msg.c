/*
 * Messages as bytes: every message of the agent protocol survives the trip, and no bytes at all make
 * the decoder read outside them.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/agent_proto.h"
#include "proto/sudo_proto.h"

static const struct atoll_msg_desc *const all[] = {
    &atoll_am_hello_desc,     &atoll_am_error_desc,        &atoll_am_exec_start_desc,
    &atoll_am_exec_ref_desc,  &atoll_am_exec_started_desc, &atoll_am_stdin_desc,
    &atoll_am_signal_desc,    &atoll_am_resize_desc,       &atoll_am_resume_desc,
    &atoll_am_ack_desc,       &atoll_am_output_desc,       &atoll_am_exit_desc,
    &atoll_am_exec_info_desc, &atoll_am_process_desc,      &atoll_am_path_desc,
    &atoll_am_list_desc,      &atoll_am_entry_desc,        &atoll_am_opened_desc,
    &atoll_am_handle_desc,    &atoll_am_read_desc,         &atoll_am_data_desc,
    &atoll_am_create_desc,    &atoll_am_write_desc,        &atoll_am_mkdir_desc,
    &atoll_am_two_paths_desc, &atoll_am_chmod_desc,        &atoll_am_chown_desc,
    &atoll_am_xattr_desc,     &atoll_am_watch_desc,        &atoll_am_watch_event_desc,
    &atoll_am_connect_desc,   &atoll_am_usage_desc,        &atoll_sudo_run_desc,
    &atoll_sudo_signal_desc,  &atoll_sudo_error_desc,      &atoll_sudo_exit_desc,
};

static const char *strings[] = {"one", "", "three"};

/* Fills every field with something that is not zero. */
static void fill(const struct atoll_msg_desc *desc, void *msg)
{
    for (size_t i = 0; i < desc->field_count; i++) {
        void *at = (char *)msg + desc->fields[i].offset;
        switch (desc->fields[i].type) {
        case ATOLL_MSG_U8:
            *(uint8_t *)at = (uint8_t)(i + 1);
            break;
        case ATOLL_MSG_U32:
        case ATOLL_MSG_I32:
            *(uint32_t *)at = 0xfff00000u + (uint32_t)i;
            break;
        case ATOLL_MSG_U64:
        case ATOLL_MSG_I64:
            *(uint64_t *)at = 0xfffffffff0000000u + i;
            break;
        case ATOLL_MSG_STR:
            *(const char **)at = "text";
            break;
        case ATOLL_MSG_BYTES:
            *(struct atoll_bytes *)at = (struct atoll_bytes){(const uint8_t *)"a\0b", 3};
            break;
        case ATOLL_MSG_STRV:
            *(struct atoll_strv *)at = (struct atoll_strv){strings, 3};
            break;
        }
    }
}

static void check_equal(const struct atoll_msg_desc *desc, const void *a, const void *b)
{
    for (size_t i = 0; i < desc->field_count; i++) {
        const void *x = (const char *)a + desc->fields[i].offset;
        const void *y = (const char *)b + desc->fields[i].offset;
        const struct atoll_bytes *run = x;
        const struct atoll_strv *v = x, *w = y;

        switch (desc->fields[i].type) {
        case ATOLL_MSG_U8:
            assert_int_equal(*(const uint8_t *)x, *(const uint8_t *)y);
            break;
        case ATOLL_MSG_U32:
        case ATOLL_MSG_I32:
            assert_int_equal(*(const uint32_t *)x, *(const uint32_t *)y);
            break;
        case ATOLL_MSG_U64:
        case ATOLL_MSG_I64:
            assert_true(*(const uint64_t *)x == *(const uint64_t *)y);
            break;
        case ATOLL_MSG_STR:
            assert_string_equal(*(const char *const *)x, *(const char *const *)y);
            break;
        case ATOLL_MSG_BYTES:
            assert_int_equal(run->len, ((const struct atoll_bytes *)y)->len);
            assert_memory_equal(run->data, ((const struct atoll_bytes *)y)->data, run->len);
            break;
        case ATOLL_MSG_STRV:
            assert_int_equal(v->len, w->len);
            for (size_t n = 0; n < v->len; n++)
                assert_string_equal(v->items[n], w->items[n]);
            break;
        }
    }
}

static void every_message_survives(void **state)
{
    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(all); i++) {
        uint64_t before[64] = {0}, after[64];
        struct atoll_buf buf;

        assert_true(all[i]->size <= sizeof(before));
        fill(all[i], before);
        atoll_buf_init(&buf, 4096);
        assert_int_equal(atoll_msg_encode(all[i], before, &buf), 0);
        assert_int_equal(
            atoll_msg_decode(all[i], atoll_buf_head(&buf), atoll_buf_size(&buf), after, NULL), 0);
        check_equal(all[i], before, after);
        atoll_msg_done(all[i], after);
        atoll_buf_done(&buf);
    }
}

/* Cut anywhere, a message is an older, shorter one or an error; never something else. */
static void cut_messages_are_older_ones_or_errors(void **state)
{
    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(all); i++) {
        uint64_t msg[64] = {0}, got[64];
        struct atoll_buf buf;

        fill(all[i], msg);
        atoll_buf_init(&buf, 4096);
        assert_int_equal(atoll_msg_encode(all[i], msg, &buf), 0);
        for (size_t n = 0; n < atoll_buf_size(&buf); n++) {
            /* A copy of exactly n bytes, so that a sanitizer sees a read behind them. */
            uint8_t *cut = malloc(n + 1);
            struct atoll_error err;
            int r;

            memcpy(cut, atoll_buf_head(&buf), n);
            r = atoll_msg_decode(all[i], cut, n, got, &err);
            if (r == 0)
                atoll_msg_done(all[i], got);
            else
                assert_int_equal(err.kind, ATOLL_ERR_INVALID_ARGUMENT);
            free(cut);
        }
        atoll_buf_done(&buf);
    }
}

static void missing_fields_are_empty_and_more_is_ignored(void **state)
{
    struct atoll_am_path path;
    struct atoll_am_chmod longer = {.user = "u", .path = "p", .mode = 7};
    struct atoll_buf buf;
    (void)state;

    assert_int_equal(atoll_msg_decode(&atoll_am_path_desc, (const uint8_t *)"", 0, &path, NULL), 0);
    assert_string_equal(path.user, "");
    assert_string_equal(path.path, "");
    assert_int_equal(path.follow, 0);
    atoll_buf_init(&buf, 100);
    assert_int_equal(atoll_msg_encode(&atoll_am_chmod_desc, &longer, &buf), 0);
    assert_int_equal(atoll_buf_append(&buf, "tomorrow", 8), 0);
    assert_int_equal(atoll_msg_decode(&atoll_am_chmod_desc, atoll_buf_head(&buf),
                                      atoll_buf_size(&buf), &longer, NULL),
                     0);
    assert_int_equal(longer.mode, 7);
    atoll_buf_done(&buf);
}

static void malformed_bytes_are_refused(void **state)
{
    struct atoll_am_path path;
    struct atoll_am_exec_start start;
    /* a string that is longer than the message, without its NUL, with a NUL inside */
    static const uint8_t too_long[] = {255, 255, 255, 255, 'x', 0};
    static const uint8_t no_nul[] = {1, 0, 0, 0, 'x', 'y'};
    static const uint8_t inner_nul[] = {3, 0, 0, 0, 'x', 0, 'y', 0};
    /* id and flags, empty user and cwd, then a vector of four billion strings */
    static const uint8_t huge_vector[] = {1, 0, 0, 0, 0, 0, 0, 0, 0, 0,   0,   0,   0,
                                          0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255};
    (void)state;

    assert_int_equal(atoll_msg_decode(&atoll_am_path_desc, too_long, sizeof(too_long), &path, NULL),
                     -EBADMSG);
    assert_int_equal(atoll_msg_decode(&atoll_am_path_desc, no_nul, sizeof(no_nul), &path, NULL),
                     -EBADMSG);
    assert_int_equal(
        atoll_msg_decode(&atoll_am_path_desc, inner_nul, sizeof(inner_nul), &path, NULL), -EBADMSG);
    assert_int_equal(
        atoll_msg_decode(&atoll_am_exec_start_desc, huge_vector, sizeof(huge_vector), &start, NULL),
        -EBADMSG);
}

static void encoding_respects_the_buffer(void **state)
{
    struct atoll_am_path path = {.user = "", .path = "a path that does not fit"};
    struct atoll_buf buf;
    (void)state;

    atoll_buf_init(&buf, 16);
    assert_int_equal(atoll_msg_encode(&atoll_am_path_desc, &path, &buf), -ENOBUFS);
    atoll_buf_done(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_survives),
        cmocka_unit_test(cut_messages_are_older_ones_or_errors),
        cmocka_unit_test(missing_fields_are_empty_and_more_is_ignored),
        cmocka_unit_test(malformed_bytes_are_refused),
        cmocka_unit_test(encoding_respects_the_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

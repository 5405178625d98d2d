/* Lines of manifests. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/tree_line.h"
#include "test.h"

#define SUM "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void lines_are_read_as_they_were_written(void **state)
{
    static const struct {
        struct atoll_tree_line line;
        const char *text;
    } rows[] = {
        {{.type = ATOLL_TREE_DIRECTORY, .mode = 0755, .path = "", .target = ""},
         "d 755 0 0 0 - . -\n"},
        {{.type = ATOLL_TREE_FILE,
          .mode = 04711,
          .uid = 5,
          .gid = 6,
          .size = 1234567890123,
          .sha256 = SUM,
          .path = "a/b",
          .target = ""},
         "f 4711 5 6 1234567890123 " SUM " a/b -\n"},
        {{.type = ATOLL_TREE_LINK, .mode = 0777, .path = "l", .target = "to a\\b"},
         "l 777 0 0 0 - l to\\040a\\134b\n"},
        {{.type = ATOLL_TREE_LINK, .mode = 0777, .path = "l", .target = "-"},
         "l 777 0 0 0 - l \\055\n"},
        {{.type = ATOLL_TREE_WHITEOUT, .path = "-", .target = ""}, "w 0 0 0 0 - \\055 -\n"},
        {{.type = ATOLL_TREE_FIFO, .path = "x\n\x7f\xff", .target = ""},
         "p 0 0 0 0 - x\\012\\177\xff -\n"},
    };

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        struct atoll_tree_line read;
        struct atoll_buf out;
        char text[256];

        atoll_buf_init(&out, sizeof(text) - 1);
        assert_int_equal(atoll_tree_line_write(&out, &rows[i].line), 0);
        assert_string_equal(atoll_buf_str(&out), rows[i].text);
        (void)snprintf(text, sizeof(text), "%s", atoll_buf_str(&out));
        text[strlen(text) - 1] = '\0';
        assert_int_equal(atoll_tree_line_read(text, &read), 0);
        assert_int_equal(read.type, rows[i].line.type);
        assert_int_equal(read.mode, rows[i].line.mode);
        assert_int_equal(read.uid, rows[i].line.uid);
        assert_int_equal(read.gid, rows[i].line.gid);
        assert_int_equal(read.size, rows[i].line.size);
        assert_string_equal(read.sha256, rows[i].line.sha256);
        assert_string_equal(read.path, rows[i].line.path);
        assert_string_equal(read.target, rows[i].line.target);
        atoll_buf_done(&out);
    }
}

static void malformed_lines_are_refused(void **state)
{
    static const char *const lines[] = {
        "",
        "d",
        "d 755 0 0 0 - .",
        "d 755 0 0 0 - . - ",
        "d 755 0 0 0 - . - x",
        "d  755 0 0 0 - . -",
        "x 755 0 0 0 - . -",
        "dd 755 0 0 0 - . -",
        "d 789 0 0 0 - a -",
        "d 17777 0 0 0 - a -",
        "d -1 0 0 0 - a -",
        "d 755 4294967296 0 0 - a -",
        "d 755 0 0 9223372036854775808 - a -",
        "d 755 0 0 0 - a target",
        "d 755 0 0 0 " SUM " a -",
        "f 755 0 0 0 - a -",
        "f 755 0 0 0 abc a -",
        "l 777 0 0 0 - a -",
        "d 755 0 0 0 - /a -",
        "d 755 0 0 0 - a/ -",
        "d 755 0 0 0 - a//b -",
        "d 755 0 0 0 - ../a -",
        "d 755 0 0 0 - a/.. -",
        "d 755 0 0 0 - a/\\056\\056/b -",
        "d 755 0 0 0 - ./a -",
        "d 755 0 0 0 - - -",
        "d 755 0 0 0 - a\\ -",
        "d 755 0 0 0 - a\\000 -",
        "d 755 0 0 0 - a\\777 -",
        "d 755 0 0 0 - a\\9 -",
        "d 755 0 0 0 - a\tb -",
    };

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(lines); i++) {
        struct atoll_tree_line line;
        char text[256];

        (void)snprintf(text, sizeof(text), "%s", lines[i]);
        if (atoll_tree_line_read(text, &line) != -EINVAL)
            fail_msg("accepted: %s", lines[i]);
    }
}

static void a_line_that_does_not_fit_is_not_written(void **state)
{
    const struct atoll_tree_line line = {
        .type = ATOLL_TREE_LINK, .path = "path", .target = "0123456789"};
    struct atoll_buf out;

    (void)state;
    for (size_t room = 1; room < 24; room++) {
        atoll_buf_init(&out, room);
        assert_int_equal(atoll_tree_line_write(&out, &line), -ENOBUFS);
        assert_int_equal(atoll_buf_size(&out), 0);
        atoll_buf_done(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_read_as_they_were_written),
        cmocka_unit_test(malformed_lines_are_refused),
        cmocka_unit_test(a_line_that_does_not_fit_is_not_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

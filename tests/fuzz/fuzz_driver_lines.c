/*
 * Output of an interpreter's driver, cut into lines and checked. The first byte chooses the size of the
 * pieces it comes in. Whatever gets through must be one ASCII object of the protocol, and must not
 * depend on how the bytes were cut.
 */
#include <errno.h>
#include <string.h>
#include "fuzz.h"
#include "interpreter/contexts_line.h"

#define REQUEST 7

static void check_line(const struct atoll_line *line)
{
    static const char *const types[] = {
        [ATOLL_LINE_COUNT] = "number_of_executions",
        [ATOLL_LINE_STDOUT] = "stdout",
        [ATOLL_LINE_STDERR] = "stderr",
        [ATOLL_LINE_RESULT] = "result",
        [ATOLL_LINE_ERROR] = "error",
    };
    json_t *root = json_loadb(line->json, line->len, JSON_ALLOW_NUL, NULL);
    const char *type = json_string_value(json_object_get(root, "type"));

    FUZZ_CHECK(root && type && strcmp(type, types[line->kind]) == 0);
    for (size_t i = 0; i < line->len; i++)
        FUZZ_CHECK(line->json[i] >= ' ');
    if (line->kind == ATOLL_LINE_STDOUT || line->kind == ATOLL_LINE_STDERR)
        FUZZ_CHECK(json_is_string(json_object_get(root, "text")) &&
                   json_is_string(json_object_get(root, "timestamp")));
    if (line->kind == ATOLL_LINE_ERROR)
        FUZZ_CHECK(json_is_string(json_object_get(root, "name")) &&
                   json_is_string(json_object_get(root, "value")) &&
                   json_is_string(json_object_get(root, "traceback")));
    if (line->kind == ATOLL_LINE_RESULT)
        FUZZ_CHECK(json_is_boolean(json_object_get(root, "is_main_result")) &&
                   json_is_object(json_object_get(root, "extra")));
    if (line->kind == ATOLL_LINE_COUNT)
        FUZZ_CHECK(json_integer_value(json_object_get(root, "execution_count")) >= 0);
    json_decref(root);
}

/* The words that came out, and how many bytes of lines. */
static void take(struct atoll_lines *lines, struct atoll_buf *said)
{
    const char *bytes;
    size_t n;
    int r;

    while ((r = atoll_lines_next(lines, &bytes, &n)) != 0) {
        struct atoll_line line;
        char word = '!';
        FUZZ_CHECK(r == 1 || r == -EMSGSIZE);
        if (r == 1) {
            word = (char)('0' + (int)atoll_line_parse(bytes, n, REQUEST, &line));
            if (word == '0' + ATOLL_DRIVER_LINE)
                check_line(&line);
            else
                FUZZ_CHECK(!line.json || word == '0' + ATOLL_DRIVER_FAILED);
            atoll_line_done(&line);
        }
        FUZZ_CHECK(atoll_buf_append(said, &word, 1) == 0);
    }
}

static void run(const uint8_t *data, size_t size, size_t piece, struct atoll_buf *said)
{
    struct atoll_lines lines;
    struct atoll_shares shares;

    atoll_buf_init(said, (size_t)16 * 1024 * 1024);
    atoll_shares_init(&shares, ATOLL_LINES_SHARED_MAX);
    atoll_lines_init(&lines, &shares, "somebody");
    for (size_t at = 0; at < size; at += piece) {
        if (atoll_lines_add(&lines, data + at, size - at < piece ? size - at : piece) < 0)
            abort();
        take(&lines, said);
    }
    atoll_lines_done(&lines);
    FUZZ_CHECK(shares.used == 0);
    atoll_shares_done(&shares);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct atoll_buf cut, whole;

    if (size < 2)
        return 0;
    run(data + 1, size - 1, (size_t)data[0] + 1, &cut);
    run(data + 1, size - 1, size, &whole);
    FUZZ_CHECK(atoll_buf_size(&cut) == atoll_buf_size(&whole));
    FUZZ_CHECK(atoll_buf_size(&cut) == 0 ||
               memcmp(atoll_buf_head(&cut), atoll_buf_head(&whole), atoll_buf_size(&cut)) == 0);
    atoll_buf_done(&cut);
    atoll_buf_done(&whole);
    return 0;
}

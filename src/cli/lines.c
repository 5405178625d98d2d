#include "cli/lines.h"

#include <string.h>

void atoll_cli_lines_init(struct atoll_cli_lines *lines, size_t max_bytes,
                          void (*take)(void *arg, const char *text, size_t n), void *arg)
{
    *lines = (struct atoll_cli_lines){.take = take, .arg = arg};
    atoll_buf_init(&lines->rest, max_bytes);
}

void atoll_cli_lines_done(struct atoll_cli_lines *lines)
{
    atoll_buf_done(&lines->rest);
}

int atoll_cli_lines_write(void *arg, const void *bytes, size_t n)
{
    struct atoll_cli_lines *lines = arg;
    const char *p = bytes, *end = p + n;

    while (p < end) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        const char *stop = newline ? newline : end;
        int r = atoll_buf_append(&lines->rest, p, (size_t)(stop - p));
        if (r < 0)
            return r;
        if (newline) {
            lines->take(lines->arg, atoll_buf_str(&lines->rest), atoll_buf_size(&lines->rest));
            atoll_buf_clear(&lines->rest);
        }
        p = newline ? newline + 1 : end;
    }
    return 0;
}

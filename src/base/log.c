#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/text.h"

#define LINE_MAX_BYTES 4096
#define VALUE_MAX_BYTES 1024

static enum atoll_log_level threshold = ATOLL_LOG_INFO;
static const char *const level_names[] = {"error", "warn", "info", "debug"};

void atoll_log_set_level(enum atoll_log_level level)
{
    threshold = level;
}

int atoll_log_parse_level(const char *name, enum atoll_log_level *ret_level)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(level_names); i++)
        if (strcmp(name, level_names[i]) == 0) {
            *ret_level = (enum atoll_log_level)i;
            return 0;
        }
    return -EINVAL;
}

/* A field that does not fit is omitted, so that the line stays valid JSON. */
static void add_field(struct atoll_buf *line, const char *key, const char *value)
{
    size_t before = line->len;
    if (atoll_buf_appends(line, line->len > 1 ? ",\"" : "\"") < 0 ||
        atoll_buf_appends(line, key) < 0 || atoll_buf_appends(line, "\":") < 0 ||
        atoll_text_json_quote(line, value, strnlen(value, VALUE_MAX_BYTES)) < 0)
        line->len = before;
}

void atoll_log(enum atoll_log_level level, const char *what, ...)
{
    struct atoll_buf line;
    char when[ATOLL_CLOCK_TEXT_MAX];
    const char *key;
    va_list ap;

    if (level > threshold)
        return;
    atoll_buf_init(&line, LINE_MAX_BYTES);
    if (atoll_buf_appends(&line, "{") < 0)
        return;
    add_field(&line, "time", atoll_clock_format(atoll_clock_unix_ms(), when));
    add_field(&line, "level", level_names[level]);
    add_field(&line, "event", what);
    va_start(ap, what);
    while ((key = va_arg(ap, const char *)) != NULL) {
        const char *value = va_arg(ap, const char *);
        add_field(&line, key, value ? value : "");
    }
    va_end(ap);
    line.max += 2;
    if (atoll_buf_appends(&line, "}\n") == 0)
        (void)!write(STDERR_FILENO, atoll_buf_head(&line), atoll_buf_size(&line));
    atoll_buf_done(&line);
}

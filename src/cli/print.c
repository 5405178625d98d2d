#include "cli/print.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/clock.h"
#include "base/text.h"

#define SAY_MAX 1024
#define CELL_MAX 96
#define ROWS_MAX 10000
#define PROGRESS_EVERY_MS 100

/* Control characters beyond ASCII, and bidirectional marks, which can make a line look like another. */
static bool is_deceptive(const uint8_t *p, size_t len)
{
    if (len == 2)
        return p[0] == 0xc2 && p[1] < 0xa0; /* U+0080..U+009F, C1 controls */
    if (len != 3 || p[0] != 0xe2)
        return false;
    if (p[1] == 0x80) /* U+200E..F, U+2028..E */
        return p[2] == 0x8e || p[2] == 0x8f || (p[2] >= 0xa8 && p[2] <= 0xae);
    return p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9; /* U+2066..U+2069 */
}

/* Length of the next character if it can be printed unchanged, else 0. */
static size_t plain_len(const uint8_t *p, size_t n)
{
    size_t len = atoll_text_utf8_len(p, n);

    if (len == 1)
        return *p >= 0x20 && *p != 0x7f;
    return len > 0 && !is_deceptive(p, len) ? len : 0;
}

static void put_n(FILE *stream, const char *text, size_t n)
{
    const uint8_t *p = (const uint8_t *)text;

    while (n > 0) {
        size_t len = plain_len(p, n);
        if (len > 0)
            (void)fwrite(p, 1, len, stream);
        else
            (void)fprintf(stream, "\\x%02x", *p);
        len += len == 0;
        p += len;
        n -= len;
    }
}

void atoll_cli_put(FILE *stream, const char *text)
{
    put_n(stream, text, strlen(text));
}

void atoll_cli_put_lines(FILE *stream, const char *text, const char *indent)
{
    for (;;) {
        size_t n = strcspn(text, "\t\n");

        put_n(stream, text, n);
        text += n;
        if (text[strspn(text, "\n")] == '\0')
            return;
        (void)fputc(*text, stream);
        if (*text == '\n')
            (void)fputs(indent, stream);
        text++;
    }
}

static size_t width_of(const char *text)
{
    const uint8_t *p = (const uint8_t *)text;
    size_t n = strlen(text), width = 0;

    while (n > 0) {
        size_t len = plain_len(p, n);
        width += len > 0 ? 1 : 4;
        len += len == 0;
        p += len;
        n -= len;
    }
    return width;
}

void atoll_cli_say(const char *fmt, ...)
{
    char text[SAY_MAX];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    (void)fflush(stdout);
    (void)fputs("atoll: ", stderr);
    atoll_cli_put_lines(stderr, text, "  ");
    (void)fputc('\n', stderr);
}

bool atoll_cli_has_colour(FILE *stream)
{
    const char *off = getenv("NO_COLOR");
    const char *term = getenv("TERM");

    return !(off && *off) && !(term && strcmp(term, "dumb") == 0) && isatty(fileno(stream));
}

static const char *const colour_codes[] = {
    [ATOLL_CLI_PLAIN] = "",       [ATOLL_CLI_BOLD] = "\033[1m",   [ATOLL_CLI_DIM] = "\033[2m",
    [ATOLL_CLI_RED] = "\033[31m", [ATOLL_CLI_GREEN] = "\033[32m", [ATOLL_CLI_YELLOW] = "\033[33m",
};

void atoll_cli_put_colour(FILE *stream, enum atoll_cli_colour colour, const char *text)
{
    bool on = colour != ATOLL_CLI_PLAIN && atoll_cli_has_colour(stream);

    if (on)
        (void)fputs(colour_codes[colour], stream);
    atoll_cli_put(stream, text);
    if (on)
        (void)fputs("\033[0m", stream);
}

struct atoll_cli_cell {
    enum atoll_cli_colour colour;
    char text[CELL_MAX];
};

void atoll_cli_table_init(struct atoll_cli_table *table, const char *const *names)
{
    *table = (struct atoll_cli_table){0};
    while (names[table->ncolumns] && table->ncolumns < ATOLL_CLI_COLUMNS_MAX)
        table->ncolumns++;
    for (size_t i = 0; i < table->ncolumns; i++)
        atoll_cli_table_add(table, ATOLL_CLI_BOLD, "%s", names[i]);
}

void atoll_cli_table_add(struct atoll_cli_table *table, enum atoll_cli_colour colour,
                         const char *fmt, ...)
{
    struct atoll_cli_cell *cell;
    va_list ap;

    if (table->ncells >= ROWS_MAX * table->ncolumns) {
        table->left_out++;
        return;
    }
    if (table->ncells == table->cap) {
        size_t cap = table->cap ? 2 * table->cap : 128;
        void *grown = realloc(table->cells, cap * sizeof(*table->cells));
        if (!grown) {
            table->left_out++;
            return;
        }
        table->cells = grown;
        table->cap = cap;
    }
    cell = &table->cells[table->ncells++];
    cell->colour = colour;
    va_start(ap, fmt);
    (void)vsnprintf(cell->text, sizeof(cell->text), fmt, ap);
    va_end(ap);
}

void atoll_cli_table_finish(struct atoll_cli_table *table, FILE *stream)
{
    size_t widths[ATOLL_CLI_COLUMNS_MAX] = {0};

    for (size_t i = 0; i < table->ncells; i++) {
        size_t column = i % table->ncolumns;
        widths[column] = ATOLL_MAX(widths[column], width_of(table->cells[i].text));
    }
    for (size_t i = 0; i < table->ncells; i++) {
        const struct atoll_cli_cell *cell = &table->cells[i];
        size_t column = i % table->ncolumns;
        atoll_cli_put_colour(stream, cell->colour, cell->text);
        if (column + 1 == table->ncolumns)
            (void)fputc('\n', stream);
        else
            (void)fprintf(stream, "%*s", (int)(widths[column] - width_of(cell->text) + 2), "");
    }
    if (table->left_out > 0)
        (void)fprintf(stream, "… and %zu more; --json lists all\n",
                      (table->left_out + table->ncolumns - 1) / table->ncolumns);
    free(table->cells);
    table->cells = NULL;
}

const char *atoll_cli_format_age(double seconds, char *out)
{
    static const struct {
        double above, unit;
        const char *name;
    } units[] = {{172800, 86400, "d"}, {7200, 3600, "h"}, {120, 60, "min"}, {0, 1, "s"}};

    if (!(seconds >= 0) || seconds > 1e9)
        return "-";
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(units); i++)
        if (seconds >= units[i].above) {
            (void)snprintf(out, 16, "%.0f %s", seconds / units[i].unit, units[i].name);
            break;
        }
    return out;
}

double atoll_cli_age_of(const char *timestamp)
{
    struct tm tm = {0};
    const char *rest = timestamp ? strptime(timestamp, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;

    if (!rest || (*rest != '.' && *rest != 'Z'))
        return -1;
    return (double)atoll_clock_unix_ms() / 1000 - (double)timegm(&tm);
}

static void draw(struct atoll_cli_progress *p)
{
    char done[16], total[16];

    (void)fputs("\r\033[K", stderr);
    atoll_cli_put(stderr, p->name);
    (void)fprintf(stderr, "  %s", atoll_text_format_size(p->done, done));
    if (p->total > 0)
        (void)fprintf(stderr, " of %s, %u%%", atoll_text_format_size(p->total, total),
                      (unsigned)(100.0 * (double)p->done / (double)p->total));
    (void)fflush(stderr);
}

void atoll_cli_progress_start(struct atoll_cli_progress *p, const char *name, uint64_t total)
{
    *p = (struct atoll_cli_progress){.shown = isatty(STDERR_FILENO), .name = name, .total = total};
    /* A transfer that ends before the first interval draws nothing. */
    p->drawn_ms = atoll_clock_ms() + PROGRESS_EVERY_MS;
}

void atoll_cli_progress_add(struct atoll_cli_progress *p, uint64_t bytes)
{
    int64_t now;

    p->done += bytes;
    if (!p->shown)
        return;
    now = atoll_clock_ms();
    if (now - p->drawn_ms < PROGRESS_EVERY_MS)
        return;
    p->drawn_ms = now;
    draw(p);
}

void atoll_cli_progress_end(struct atoll_cli_progress *p)
{
    if (p->shown) {
        (void)fputs("\r\033[K", stderr);
        (void)fflush(stderr);
    }
    p->shown = false;
}

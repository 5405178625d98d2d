/*
 * The figures as an SVG chart: a group of bars for each measure, on a logarithmic scale if the values
 * differ by more than a factor of twenty.
 */
#include <math.h>
#include <string.h>
#include "tools/bench/bench.h"

#define WIDTH 860
#define LEFT 210    /* where bars begin */
#define LONGEST 330 /* longest bar */
#define ROW 20
#define GAP 34 /* between measures */

static void put_escaped(FILE *out, const char *text)
{
    for (; *text; text++) {
        switch (*text) {
        case '<':
            (void)fputs("&lt;", out);
            break;
        case '&':
            (void)fputs("&amp;", out);
            break;
        default:
            (void)fputc(*text, out);
        }
    }
}

static double middle(const struct atoll_bench_subject *s)
{
    return atoll_bench_percentile(s, 50);
}

static size_t rows_of(const struct atoll_bench *b, const struct atoll_bench_measure *m,
                      double *ret_least, double *ret_most)
{
    size_t rows = 0;

    *ret_least = *ret_most = 0;
    for (size_t i = 0; i < b->count; i++) {
        const struct atoll_bench_subject *s = &b->subjects[i];
        if (s->measure != m || s->count == 0)
            continue;
        *ret_least = rows == 0 ? middle(s) : ATOLL_MIN(*ret_least, middle(s));
        *ret_most = ATOLL_MAX(*ret_most, middle(s));
        rows++;
    }
    return rows;
}

/* Length of a bar; logarithmic if the largest value is more than twenty times the smallest. */
static double length_of(double value, double least, double most)
{
    if (most <= 0 || value <= 0)
        return 1;
    if (most / least <= 20)
        return value / most * LONGEST;
    return (0.08 + 0.92 * log(value / least) / log(most / least)) * LONGEST;
}

static int put_measure(const struct atoll_bench *b, const struct atoll_bench_measure *m, int y,
                       FILE *out)
{
    double least, most;

    if (rows_of(b, m, &least, &most) == 0)
        return y;
    (void)fprintf(out, "<text x=\"10\" y=\"%d\" class=\"h\">", y);
    put_escaped(out, m->title);
    (void)fprintf(out, " (%s, %s is better%s)</text>\n", m->unit,
                  m->more_is_better ? "more" : "less", most / least > 20 ? ", logarithmic" : "");
    for (size_t i = 0; i < b->count; i++) {
        const struct atoll_bench_subject *s = &b->subjects[i];
        double length;
        if (s->measure != m || s->count == 0)
            continue;
        y += ROW;
        length = length_of(middle(s), least, most);
        (void)fprintf(out, "<text x=\"%d\" y=\"%d\" class=\"n\">", LEFT - 8, y);
        put_escaped(out, s->name);
        (void)fprintf(out,
                      "</text><rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"13\" class=\"%s\"/>"
                      "<text x=\"%.1f\" y=\"%d\">%.4g <tspan class=\"t\">",
                      LEFT, y - 11, length, strncmp(s->name, "atoll", 5) == 0 ? "a" : "o",
                      LEFT + length + 6, y, middle(s));
        put_escaped(out, s->tier);
        (void)fputs("</tspan></text>\n", out);
    }
    return y + GAP;
}

void atoll_bench_svg(const struct atoll_bench *b, FILE *out)
{
    char host[256];
    double least, most;
    int height = 50, y = 56;

    for (size_t i = 0; i < ATOLL_BENCH_MEASURES; i++) {
        size_t rows = rows_of(b, &atoll_bench_measures[i], &least, &most);
        height += rows > 0 ? (int)rows * ROW + GAP : 0;
    }
    (void)fprintf(out,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                  "viewBox=\"0 0 %d %d\" role=\"img\">\n<style>"
                  "text{font:12px system-ui,sans-serif;fill:#334}.h{font-weight:600}"
                  ".n{text-anchor:end}.t{fill:#889}.a{fill:#0a7d86}.o{fill:#b9c3cc}</style>\n"
                  "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n"
                  "<text x=\"10\" y=\"24\" class=\"t\">Atoll " ATOLL_VERSION ", ",
                  WIDTH, height, WIDTH, height, WIDTH, height);
    put_escaped(out, atoll_bench_host(host));
    (void)fputs("</text>\n", out);
    for (size_t i = 0; i < ATOLL_BENCH_MEASURES; i++)
        y = put_measure(b, &atoll_bench_measures[i], y, out);
    (void)fputs("</svg>\n", out);
}

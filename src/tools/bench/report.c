#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>
#include "base/clock.h"
#include "tools/bench/bench.h"

/*
 * The report as text: a table for each measure, with a bar relative to the largest value of the measure,
 * on a logarithmic scale over three decades.
 */

#define BAR 24
#define EIGHTHS 8

static const char *const blocks[EIGHTHS + 1] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"};

const char *atoll_bench_host(char *out)
{
    char line[256], cpu[128] = "?";
    struct utsname kernel;
    FILE *f = fopen("/proc/cpuinfo", "re");

    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, "model name : %127[^\n]", cpu) == 1)
            break;
    if (f)
        (void)fclose(f);
    (void)uname(&kernel);
    (void)snprintf(out, 256, "%s, %ld CPUs, %.1f GiB, Linux %s", cpu, sysconf(_SC_NPROCESSORS_ONLN),
                   (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) / (1u << 30),
                   kernel.release);
    return out;
}

static double median(const struct atoll_bench_subject *s)
{
    return atoll_bench_percentile(s, 50);
}

/* The first subject of Atoll in a measure; the others are compared with it. */
static const struct atoll_bench_subject *reference(const struct atoll_bench *b,
                                                   const struct atoll_bench_measure *m)
{
    for (size_t i = 0; i < b->count; i++)
        if (b->subjects[i].measure == m && b->subjects[i].count > 0)
            return &b->subjects[i];
    return NULL;
}

static double largest(const struct atoll_bench *b, const struct atoll_bench_measure *m)
{
    double most = 0;

    for (size_t i = 0; i < b->count; i++)
        if (b->subjects[i].measure == m)
            most = ATOLL_MAX(most, median(&b->subjects[i]));
    return most;
}

/* How many times worse than `ours`; "" for `ours` itself. */
static const char *compared(const struct atoll_bench_subject *s,
                            const struct atoll_bench_subject *ours, char *out, size_t size)
{
    double ratio = median(s) / median(ours);

    if (s == ours || median(s) <= 0 || median(ours) <= 0)
        return "";
    if (s->measure->more_is_better)
        ratio = 1 / ratio;
    (void)snprintf(out, size, "%.2f×", ratio);
    return out;
}

static void print_bar(FILE *out, double value, double most)
{
    int eighths = most > 0 ? (int)(value / most * BAR * EIGHTHS + 0.5) : 0;

    eighths = ATOLL_MAX(eighths, 1);
    for (int i = 0; i < eighths / EIGHTHS; i++)
        (void)fputs(blocks[EIGHTHS], out);
    (void)fputs(blocks[eighths % EIGHTHS], out);
    for (int i = (eighths + EIGHTHS - 1) / EIGHTHS; i < BAR; i++)
        (void)fputc(' ', out);
}

static void print_measure(const struct atoll_bench *b, const struct atoll_bench_measure *m,
                          FILE *out, bool colour)
{
    const struct atoll_bench_subject *ours = reference(b, m);
    double most = largest(b, m);
    char ratio[32];

    if (!ours)
        return;
    (void)fprintf(out, "%s%s%s, %s (%s is better)\n", colour ? "\033[1m" : "", m->title,
                  colour ? "\033[0m" : "", m->unit, m->more_is_better ? "more" : "less");
    for (size_t i = 0; i < b->count; i++) {
        const struct atoll_bench_subject *s = &b->subjects[i];
        if (s->measure != m || s->count == 0)
            continue;
        (void)fprintf(out, "  %-20s %10.3f  p95 %10.3f  %8s  ", s->name, median(s),
                      atoll_bench_percentile(s, 95), compared(s, ours, ratio, sizeof(ratio)));
        print_bar(out, median(s), most);
        (void)fprintf(out, "  %s%s%s\n", colour ? "\033[2m" : "", s->tier, colour ? "\033[0m" : "");
    }
    (void)fputc('\n', out);
}

void atoll_bench_print(const struct atoll_bench *b, FILE *out, bool colour)
{
    char host[256];
    bool any = false;

    (void)fprintf(out, "%s\nMedians; then how many times worse than the first row.\n\n",
                  atoll_bench_host(host));
    for (size_t i = 0; i < ATOLL_BENCH_MEASURES; i++)
        print_measure(b, &atoll_bench_measures[i], out, colour);
    for (size_t i = 0; i < b->count; i++) {
        const struct atoll_bench_subject *s = &b->subjects[i];
        if (!*s->problem)
            continue;
        if (!any)
            (void)fputs("not measured\n", out);
        any = true;
        (void)fprintf(out, "  %s, %s: %s\n", s->measure->id, s->name, s->problem);
    }
}

void atoll_bench_markdown(const struct atoll_bench *b, FILE *out)
{
    char host[256], when[ATOLL_CLOCK_TEXT_MAX], ratio[32];

    (void)atoll_clock_format(atoll_clock_unix_ms(), when);
    (void)fprintf(out,
                  "%.10s, %s. Medians; the last column is how many times worse than the first "
                  "row.\n",
                  when, atoll_bench_host(host));
    for (size_t m = 0; m < ATOLL_BENCH_MEASURES; m++) {
        const struct atoll_bench_measure *measure = &atoll_bench_measures[m];
        const struct atoll_bench_subject *ours = reference(b, measure);
        if (!ours)
            continue;
        (void)fprintf(out,
                      "\n**%s** (%s, %s is better)\n\n| | walls | p50 | p95 | rounds | |\n"
                      "|---|---|---|---|---|---|\n",
                      measure->title, measure->unit, measure->more_is_better ? "more" : "less");
        for (size_t i = 0; i < b->count; i++) {
            const struct atoll_bench_subject *s = &b->subjects[i];
            if (s->measure == measure && s->count > 0)
                (void)fprintf(out, "| %s | %s | %.4g | %.4g | %zu | %s |\n", s->name, s->tier,
                              median(s), atoll_bench_percentile(s, 95), s->count,
                              compared(s, ours, ratio, sizeof(ratio)));
        }
    }
}

static json_t *subject_json(const struct atoll_bench_subject *s)
{
    json_t *samples = json_array(), *one;

    for (size_t i = 0; i < s->count; i++)
        (void)json_array_append_new(samples, json_real(s->samples[i]));
    one = json_pack("{s:s,s:s,s:s,s:s,s:b,s:i}", "measure", s->measure->id, "name", s->name,
                    "walls", s->tier, "unit", s->measure->unit, "more_is_better",
                    s->measure->more_is_better, "rounds", (int)s->count);
    if (s->count > 0) {
        (void)json_object_set_new(one, "p50", json_real(median(s)));
        (void)json_object_set_new(one, "p95", json_real(atoll_bench_percentile(s, 95)));
    }
    if (*s->problem)
        (void)json_object_set_new(one, "problem", json_string(s->problem));
    (void)json_object_set_new(one, "samples", samples);
    return one;
}

json_t *atoll_bench_json(const struct atoll_bench *b)
{
    char host[256], when[ATOLL_CLOCK_TEXT_MAX];
    json_t *results = json_array();

    for (size_t i = 0; i < b->count; i++)
        (void)json_array_append_new(results, subject_json(&b->subjects[i]));
    return json_pack("{s:s,s:s,s:s,s:b,s:o}", "version", ATOLL_VERSION, "at",
                     atoll_clock_format(atoll_clock_unix_ms(), when), "host",
                     atoll_bench_host(host), "quick", b->quick, "results", results);
}

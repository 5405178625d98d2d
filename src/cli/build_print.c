#include "cli/build_print.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "cli/print.h"
#include "client/link.h"

#define BAR_WIDTH 24

static void erase(struct atoll_cli_build_print *p)
{
    if (p->drawn)
        (void)fputs("\r\033[K", stderr);
    p->drawn = false;
}

static void draw(struct atoll_cli_build_print *p)
{
    char bar[BAR_WIDTH + 1];
    size_t full = p->of ? (size_t)BAR_WIDTH * p->done / p->of : 0;

    if (p->quiet || !p->of || !isatty(STDERR_FILENO))
        return;
    memset(bar, '.', BAR_WIDTH);
    memset(bar, '#', full < BAR_WIDTH ? full : BAR_WIDTH);
    bar[BAR_WIDTH] = '\0';
    (void)fprintf(stderr, "[%s] %u of %u steps", bar, p->done, p->of);
    (void)fflush(stderr);
    p->drawn = true;
}

static void put_step(struct atoll_cli_build_print *p, const json_t *o)
{
    char head[96];

    p->running = (unsigned)atoll_link_number(o, "step", 0);
    p->of = (unsigned)atoll_link_number(o, "of", 0);
    (void)snprintf(head, sizeof(head), "#%u [%s %u/%u] ", p->running,
                   atoll_link_text(o, "stage", "-"), p->running, p->of);
    atoll_cli_put_colour(stderr, ATOLL_CLI_BOLD, head);
    atoll_cli_put(stderr, atoll_link_text(o, "text", ""));
    (void)fputc('\n', stderr);
}

static void put_output(const json_t *o)
{
    (void)fprintf(stderr, "#%u ", (unsigned)atoll_link_number(o, "step", 0));
    atoll_cli_put(stderr, atoll_link_text(o, "text", ""));
    (void)fputc('\n', stderr);
}

static void put_done(struct atoll_cli_build_print *p, const json_t *o)
{
    unsigned step = (unsigned)atoll_link_number(o, "step", 0);
    char text[64];

    p->done++;
    if (json_is_true(json_object_get(o, "cached")))
        (void)snprintf(text, sizeof(text), "#%u cached", step);
    else
        (void)snprintf(text, sizeof(text), "#%u done in %.2f s", step,
                       atoll_link_number(o, "ms", 0) / 1000);
    atoll_cli_put_colour(stderr, ATOLL_CLI_DIM, text);
    (void)fputc('\n', stderr);
}

static void put_note(const json_t *o, const char *kind)
{
    int line = (int)atoll_link_number(o, "line", 0);

    atoll_cli_put_colour(stderr, strcmp(kind, "error") == 0 ? ATOLL_CLI_RED : ATOLL_CLI_YELLOW,
                         kind);
    if (line > 0)
        (void)fprintf(stderr, ": line %d", line);
    (void)fputs(": ", stderr);
    atoll_cli_put(stderr, atoll_link_text(o, "text", ""));
    (void)fputc('\n', stderr);
}

void atoll_cli_build_print_line(void *arg, const char *text, size_t n)
{
    struct atoll_cli_build_print *p = arg;
    json_t *o = p->quiet ? NULL : atoll_link_parse_json(text, n);
    const char *kind = atoll_link_text(o, "kind", "");

    erase(p);
    if (strcmp(kind, "step") == 0)
        put_step(p, o);
    else if (strcmp(kind, "output") == 0)
        put_output(o);
    else if (strcmp(kind, "done") == 0)
        put_done(p, o);
    else if (strcmp(kind, "note") == 0 || strcmp(kind, "warning") == 0 ||
             strcmp(kind, "error") == 0)
        put_note(o, kind);
    if (*kind && strcmp(kind, "end") != 0)
        draw(p);
    json_decref(o);
}

void atoll_cli_build_print_end(struct atoll_cli_build_print *p)
{
    erase(p);
}

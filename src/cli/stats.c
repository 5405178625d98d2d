#include <errno.h>
#include <stdio.h>
#include <time.h>
#include "base/text.h"
#include "cli/client.h"
#include "cli/print.h"

struct options {
    struct atoll_cli_common common;
    bool watch;
};

static const struct atoll_cli_option options_table[] = {
    {"watch", 'w', ATOLL_CLI_FLAG, offsetof(struct options, watch), NULL,
     "repeat every second, until Ctrl-C", NULL},
    ATOLL_CLI_COMMON(struct options),
    {0},
};

/* Red when nine tenths of the limit are used. */
static enum atoll_cli_colour colour_of(double used, double limit)
{
    return limit > 0 && used >= 0.9 * limit ? ATOLL_CLI_RED : ATOLL_CLI_PLAIN;
}

static const char *format_bytes(double bytes, char *out)
{
    return atoll_text_format_size(bytes > 0 && bytes < 9e18 ? (uint64_t)bytes : 0, out);
}

static void add_peak(struct atoll_cli_table *table, const json_t *memory)
{
    double peak = atoll_link_number(memory, "peak_bytes", 0);
    char text[16];

    atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "%s", peak > 0 ? format_bytes(peak, text) : "-");
}

/* "used / limit", or "used" if there is no limit; "-" if the usage is not measured. */
static void add_bytes(struct atoll_cli_table *table, const json_t *usage)
{
    double used = atoll_link_number(usage, "used_bytes", -1);
    double limit = atoll_link_number(usage, "limit_bytes", 0);
    char a[16] = "-", b[16];

    if (used >= 0)
        (void)format_bytes(used, a);
    if (limit > 0)
        atoll_cli_table_add(table, colour_of(used, limit), "%s / %s", a, format_bytes(limit, b));
    else
        atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "%s", a);
}

static void add_cpu(struct atoll_cli_table *table, const json_t *cpu)
{
    double percent = atoll_link_number(cpu, "percent", -1);
    double seconds = atoll_link_number(cpu, "used_seconds", -1);

    if (percent < 0 || seconds < 0) {
        atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "-");
        atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "-");
        return;
    }
    atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "%.0f%%", percent);
    atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "%.2f s", seconds);
}

static void add_counts(struct atoll_cli_table *table, const json_t *usage, const char *key)
{
    double used = atoll_link_number(usage, key, 0);
    double limit = atoll_link_number(usage, "limit", 0);

    if (limit > 0)
        atoll_cli_table_add(table, colour_of(used, limit), "%.0f / %.0f", used, limit);
    else
        atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "%.0f", used);
}

static void add_sandbox(struct atoll_cli_table *table, const json_t *stats, const char *id)
{
    const json_t *memory = json_object_get(stats, "memory");
    const json_t *network = json_object_get(stats, "network");
    char a[16], b[16];

    atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "%s", atoll_link_text(stats, "id", id));
    add_bytes(table, memory);
    add_peak(table, memory);
    add_cpu(table, json_object_get(stats, "cpu"));
    add_bytes(table, json_object_get(stats, "disk"));
    add_counts(table, json_object_get(stats, "processes"), "count");
    atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "%s / %s",
                        format_bytes(atoll_link_number(network, "rx_bytes", 0), a),
                        format_bytes(atoll_link_number(network, "tx_bytes", 0), b));
    atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "%s",
                        atoll_cli_format_age(atoll_link_number(stats, "uptime_seconds", -1), a));
}

static void print_table(const json_t *reply, const char *id)
{
    static const char *const names[] = {"SANDBOX", "MEMORY", "PEAK",       "CPU", "CPU TIME",
                                        "DISK",    "PIDS",   "NET IN/OUT", "UP",  NULL};
    const json_t *sandboxes = json_object_get(reply, "sandboxes");
    struct atoll_cli_table table;

    atoll_cli_table_init(&table, names);
    if (id)
        add_sandbox(&table, reply, id);
    for (size_t i = 0; i < json_array_size(sandboxes); i++)
        add_sandbox(&table, json_array_get(sandboxes, i), "?");
    atoll_cli_table_finish(&table, stdout);
}

static int show(struct atoll_cli *cli, const char *target, const char *id, bool clear,
                struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *reply = NULL;
    int r = atoll_cli_call(cli, "GET", target, NULL, &reply, err);

    if (r < 0)
        return r;
    if (cli->json)
        return atoll_cli_print_json(reply, err);
    if (clear)
        (void)fputs("\033[H\033[2J", stdout);
    print_table(reply, id);
    return fflush(stdout) == EOF ? atoll_fail_errno(err, EIO, "standard output") : 0;
}

static int run(struct atoll_cli *cli, const void *options, int argc, char **argv,
               struct atoll_error *err)
{
    const struct options *o = options;
    const char *id = argc > 0 ? argv[0] : NULL;
    struct timespec second = {.tv_sec = 1};
    struct atoll_link_target target = {"/api/stats"};
    int r = id ? atoll_link_check_id("sandbox", id, err) : 0;

    if (r == 0 && id)
        r = atoll_link_target(&target, err, "/api/sandboxes/%s/stats", id);
    while (r == 0) {
        r = show(cli, target.text, id, o->watch && isatty(STDOUT_FILENO), err);
        if (r < 0 || !o->watch)
            break;
        (void)nanosleep(&second, NULL);
    }
    return r;
}

const struct atoll_cli_verb atoll_cli_stats = {
    .name = "stats",
    .args = "[OPTION]... [SANDBOX]",
    .summary = "show the resource usage and limits of sandboxes",
    .help =
        "CPU is the usage since the last reading; 100% is one CPU. \"-\" means not measured: PEAK\n"
        "needs a memory cgroup, and a provider may not report everything.\n"
        "\n"
        "Examples:\n"
        "  atoll stats\n"
        "  atoll stats --watch $id\n",
    .options = options_table,
    .options_size = sizeof(struct options),
    .max_args = 1,
    .run = run,
};

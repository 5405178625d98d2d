/*
 * `atoll bench`: measures on this host what docs/benchmarks.md reports.
 */
#include "tools/bench/bench.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cli/client.h"
#include "cli/print.h"
#include "sys/tree.h"

struct options {
    struct atoll_cli_common common;
    bool quick, markdown;
    const char *only, *svg;
};

static const struct atoll_cli_option options_table[] = {
    {"quick", 'q', ATOLL_CLI_FLAG, offsetof(struct options, quick), NULL,
     "fewer rounds: takes seconds instead of minutes, less precise", NULL},
    {"only", 0, ATOLL_CLI_TEXT, offsetof(struct options, only), "MEASURE",
     "one of start, exec, rate, memory, upload, download, preview, code", NULL},
    {"svg", 0, ATOLL_CLI_TEXT, offsetof(struct options, svg), "FILE", "also write a chart to FILE",
     NULL},
    {"markdown", 0, ATOLL_CLI_FLAG, offsetof(struct options, markdown), NULL,
     "print Markdown tables", NULL},
    ATOLL_CLI_COMMON(struct options),
    {0},
};

static void show_progress(const char *what)
{
    if (isatty(STDERR_FILENO))
        (void)fprintf(stderr, "\r\033[K%s", what);
}

static int write_svg(const struct atoll_bench *bench, const char *path, struct atoll_error *err)
{
    FILE *f = fopen(path, "we");

    if (!f)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, errno, "%s: %s", path, strerror(errno));
    atoll_bench_svg(bench, f);
    return fclose(f) == 0 ? 0 : atoll_fail_errno(err, errno, "write %s", path);
}

static int print(const struct atoll_cli *cli, const struct atoll_bench *bench,
                 const struct options *o, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *figures = NULL;

    if (!cli->json && o->markdown)
        atoll_bench_markdown(bench, stdout);
    else if (!cli->json)
        atoll_bench_print(bench, stdout, atoll_cli_has_colour(stdout));
    if (!cli->json)
        return 0;
    figures = atoll_bench_json(bench);
    return figures ? atoll_cli_print_json(figures, err) : atoll_fail_errno(err, ENOMEM, "figures");
}

static int run(struct atoll_cli *cli, const void *options, int argc ATOLL_UNUSED,
               char **argv ATOLL_UNUSED, struct atoll_error *err)
{
    const struct options *o = options;
    const struct atoll_client_options reach = {.size = sizeof(reach), .ca_file = cli->ca_file};
    const char *tmp = getenv("TMPDIR");
    char scratch[400], program[4096] = "atoll";
    struct atoll_bench bench = {.options = &reach,
                                .program = program,
                                .scratch = scratch,
                                .only = o->only,
                                .quick = o->quick,
                                .progress = show_progress};
    ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
    int r = atoll_cli_open(cli, err);

    if (r < 0)
        return r;
    if (n > 0)
        program[n] = '\0';
    (void)snprintf(scratch, sizeof(scratch), "%.300s/atoll-bench-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(scratch))
        return atoll_fail_errno(err, errno, "make the directory %s", scratch);
    (void)chmod(scratch, 0755);
    bench.client = cli->client;
    r = atoll_bench_run(&bench, err);
    if (isatty(STDERR_FILENO))
        (void)fputs("\r\033[K", stderr);
    if (r == 0 && o->svg)
        r = write_svg(&bench, o->svg, err);
    if (r == 0)
        r = print(cli, &bench, o, err);
    atoll_bench_done(&bench);
    (void)!atoll_tree_remove(AT_FDCWD, scratch);
    return r < 0 ? r : ATOLL_CLI_OK;
}

const struct atoll_cli_verb atoll_cli_bench = {
    .name = "bench",
    .args = "[OPTION]...",
    .summary = "measure sandboxes on this host and compare with other runtimes",
    .help = "Measures creation and removal of sandboxes, commands in a running sandbox, file\n"
            "transfer, previews and code execution. Measures bwrap, runc, runsc and docker as\n"
            "well, if they are installed. The programs take turns, so compare figures within\n"
            "one run, not between runs. For a pooled start, run the daemon with --pool 8.\n"
            "Removes everything it made except the docker image atoll-bench:1.\n",
    .options = options_table,
    .options_size = sizeof(struct options),
    .run = run,
};

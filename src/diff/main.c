/* atoll-diff: options. The contract is in diff/diff.h. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include "base/fd.h"
#include "base/text.h"
#include "diff/compare.h"
#include "diff/patch.h"
#include "diff/report.h"

#define EXIT_USAGE 2

struct request {
    bool patch;
    const char *below;
    uint64_t max_lines, max_bytes;
};

static const struct option long_options[] = {
    {"patch", no_argument, NULL, 'p'},
    {"below", required_argument, NULL, 'b'},
    {"max-lines", required_argument, NULL, 'l'},
    {"max-bytes", required_argument, NULL, 'm'},
    {NULL, 0, NULL, 0},
};

static int usage(void)
{
    (void)fputs(
        "Usage: atoll-diff [--patch] [--below DIR] [--max-lines N] [--max-bytes N] FROM TO\n",
        stderr);
    return EXIT_USAGE;
}

static int complain(const struct atoll_error *error)
{
    (void)fprintf(stderr, "%s: %s\n", atoll_error_kind_name(error->kind), error->text);
    return 1;
}

static int read_option(int option, struct request *r)
{
    switch (option) {
    case 'p':
        r->patch = true;
        return 0;
    case 'b':
        r->below = optarg + strspn(optarg, "/");
        return 0;
    case 'l':
        return atoll_text_u64(optarg, 0, UINT32_MAX, &r->max_lines);
    case 'm':
        return atoll_text_u64(optarg, 0, UINT64_C(1) << 30, &r->max_bytes);
    default:
        return -1;
    }
}

static int print_patch(const struct request *r, struct atoll_diff_compare *c,
                       struct atoll_error *err)
{
    struct atoll_diff_patch patch = {.out_fd = STDOUT_FILENO,
                                     .skip = strlen(r->below) + (*r->below != '\0'),
                                     .max_bytes = r->max_bytes};

    c->skip_git = true;
    c->fn = atoll_diff_patch_add;
    c->arg = &patch;
    return atoll_diff_compare(c, err);
}

static int print_report(const struct request *r, struct atoll_diff_compare *c,
                        struct atoll_error *err)
{
    struct atoll_diff_report report;
    int result;

    atoll_diff_report_init(&report, STDOUT_FILENO, r->max_lines);
    c->fn = atoll_diff_report_add;
    c->arg = &report;
    result = atoll_diff_compare(c, err);
    if (result == 0)
        result = atoll_diff_report_finish(&report, err);
    atoll_diff_report_done(&report);
    return result;
}

int main(int argc, char **argv)
{
    struct request r = {.below = "", .max_lines = 10000, .max_bytes = UINT64_C(16) << 20};
    struct atoll_diff_view a = {0}, b = {0};
    struct atoll_diff_compare compare = {.a = &a, .b = &b};
    struct atoll_error err;
    int option, result;

    while ((option = getopt_long(argc, argv, "+", long_options, NULL)) != -1)
        if (read_option(option, &r) < 0)
            return usage();
    if (argc - optind != 2)
        return usage();
    atoll_fd_raise_limit();
    compare.below = r.below;
    result = atoll_diff_view_open(&a, argv[optind], &err);
    if (result == 0)
        result = atoll_diff_view_open(&b, argv[optind + 1], &err);
    if (result == 0)
        result = r.patch ? print_patch(&r, &compare, &err) : print_report(&r, &compare, &err);
    atoll_diff_view_close(&a);
    atoll_diff_view_close(&b);
    return result < 0 ? complain(&err) : 0;
}

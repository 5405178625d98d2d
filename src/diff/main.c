/* atoll-diff: options. The contract is in diff/diff.h. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/fd.h"
#include "base/text.h"
#include "diff/apply.h"
#include "diff/compare.h"
#include "diff/merge.h"
#include "diff/patch.h"
#include "diff/report.h"

#define EXIT_USAGE 2

struct request {
    bool patch, apply, stream;
    const char *ours;  /* merge; NULL: none */
    const char *since; /* of a merge; NULL: none */
    enum atoll_diff_prefer prefer;
    const char *below;
    uint64_t max_lines, max_bytes;
};

static const struct option long_options[] = {
    {"patch", no_argument, NULL, 'p'},           {"below", required_argument, NULL, 'b'},
    {"max-lines", required_argument, NULL, 'l'}, {"max-bytes", required_argument, NULL, 'm'},
    {"merge", required_argument, NULL, 'o'},     {"prefer", required_argument, NULL, 'f'},
    {"stream", no_argument, NULL, 's'},          {"since", required_argument, NULL, 'i'},
    {"apply", no_argument, NULL, 'a'},           {NULL, 0, NULL, 0},
};

static int usage(void)
{
    (void)fputs(
        "Usage: atoll-diff [--patch] [--below DIR] [--max-lines N] [--max-bytes N] FROM TO\n"
        "       atoll-diff --merge OURS [--prefer ours|theirs] [--stream] [--since VIEW] BASE THEIRS\n"
        "       atoll-diff --apply\n",
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
    case 'o':
        r->ours = optarg;
        return 0;
    case 'f':
        r->prefer = strcmp(optarg, "ours") == 0     ? ATOLL_DIFF_PREFER_OURS
                    : strcmp(optarg, "theirs") == 0 ? ATOLL_DIFF_PREFER_THEIRS
                                                    : ATOLL_DIFF_PREFER_NONE;
        return r->prefer == ATOLL_DIFF_PREFER_NONE ? -1 : 0;
    case 's':
        r->stream = true;
        return 0;
    case 'i':
        r->since = optarg;
        return 0;
    case 'a':
        r->apply = true;
        return 0;
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

static int print_merge(const struct request *r, struct atoll_diff_compare *c,
                       struct atoll_error *err)
{
    struct atoll_diff_view ours = {0}, since = {0};
    struct atoll_diff_merge merge = {.ours = &ours,
                                     .since = r->since ? &since : NULL,
                                     .prefer = r->prefer,
                                     .stream = r->stream,
                                     .out_fd = STDOUT_FILENO,
                                     .lines_left = r->max_lines,
                                     .conflict_lines_left = r->max_lines,
                                     .bytes_left = r->max_bytes};
    int result = atoll_diff_view_open(&ours, r->ours, err);

    c->fn = atoll_diff_merge_add;
    c->arg = &merge;
    if (result == 0 && r->since)
        result = atoll_diff_view_open(&since, r->since, err);
    if (result == 0)
        result = atoll_diff_compare(c, err);
    if (result == 0)
        result = atoll_diff_merge_finish(&merge, err);
    atoll_diff_view_close(&ours);
    atoll_diff_view_close(&since);
    return result;
}

static int apply(struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

    (void)umask(0);
    return root < 0 ? atoll_fail_errno(err, errno, "open /")
                    : atoll_diff_apply(root, STDIN_FILENO, STDOUT_FILENO, err);
}

static int run(const struct request *r, struct atoll_diff_compare *c, struct atoll_error *err)
{
    return r->ours    ? print_merge(r, c, err)
           : r->patch ? print_patch(r, c, err)
                      : print_report(r, c, err);
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
    if (argc - optind != (r.apply ? 0 : 2))
        return usage();
    if (r.apply)
        return apply(&err) < 0 ? complain(&err) : 0;
    atoll_fd_raise_limit();
    compare.below = r.below;
    result = atoll_diff_view_open(&a, argv[optind], &err);
    if (result == 0)
        result = atoll_diff_view_open(&b, argv[optind + 1], &err);
    if (result == 0)
        result = run(&r, &compare, &err);
    atoll_diff_view_close(&a);
    atoll_diff_view_close(&b);
    return result < 0 ? complain(&err) : 0;
}

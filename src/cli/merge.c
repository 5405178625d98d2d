/* The verbs merge and try. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cli/collection.h"
#include "cli/print.h"
#include "cli/request.h"

#define TIMEOUT_MS (60 * 60 * 1000)

struct merge_options {
    struct atoll_cli_common common;
    bool ours, theirs, dry_run;
};

static const struct atoll_cli_option merge_table[] = {
    {"ours", 0, ATOLL_CLI_FLAG, offsetof(struct merge_options, ours), NULL,
     "where both have changed a file, keep that of SANDBOX", NULL},
    {"theirs", 0, ATOLL_CLI_FLAG, offsetof(struct merge_options, theirs), NULL,
     "where both have changed a file, take that of the fork", NULL},
    {"dry-run", 0, ATOLL_CLI_FLAG, offsetof(struct merge_options, dry_run), NULL,
     "list what would be changed, and write nothing", NULL},
    ATOLL_CLI_COMMON(struct merge_options),
    {0},
};

static void print_report(const json_t *report)
{
    const json_t *changes = json_object_get(report, "changes");
    const json_t *conflicts = json_object_get(report, "conflicts");

    for (size_t i = 0; i < json_array_size(changes); i++) {
        const json_t *one = json_array_get(changes, i);
        const char *kind = atoll_link_text(one, "kind", "");

        (void)printf("%c %s%s\n",
                     *kind == 'a'   ? '+'
                     : *kind == 'r' ? '-'
                                    : '~',
                     atoll_link_text(one, "path", ""),
                     json_is_true(json_object_get(one, "joined")) ? "  (joined)" : "");
    }
    for (size_t i = 0; i < json_array_size(conflicts); i++) {
        const json_t *one = json_array_get(conflicts, i);
        const char *with = atoll_link_text(one, "with", "");

        (void)printf("! %s  ours: %s, theirs: %s (%s%s%s)\n", atoll_link_text(one, "path", ""),
                     atoll_link_text(one, "ours", ""), atoll_link_text(one, "theirs", ""),
                     atoll_link_text(one, "from", ""), *with ? ", ours is of " : "", with);
    }
}

static int merge(struct atoll_cli *cli, const void *options, int argc, char **argv,
                 struct atoll_error *err)
{
    const struct merge_options *o = options;
    ATOLL_AUTOJSON json_t *request = json_pack("{s:[], s:b}", "from", "dryRun", o->dry_run);
    ATOLL_AUTOJSON json_t *reply = NULL;
    int r = 0;

    if (o->ours && o->theirs)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "--ours and --theirs exclude each other");
    for (int i = 1; i < argc; i++)
        (void)json_array_append_new(json_object_get(request, "from"), json_string(argv[i]));
    if (o->ours || o->theirs)
        (void)json_object_set_new(request, "prefer", json_string(o->ours ? "ours" : "theirs"));
    r = atoll_cli_post(cli, argv[0], "merge", request, TIMEOUT_MS, &reply, err);
    if (r < 0)
        return r;
    if (cli->json)
        return atoll_cli_print_json(reply, err);
    print_report(reply);
    if (json_array_size(json_object_get(reply, "conflicts")) > 0)
        return atoll_fail(
            err, ATOLL_ERR_FAILED_PRECONDITION, EEXIST,
            "there are conflicts, and nothing was written for them; decide with --ours "
            "or --theirs");
    return ATOLL_CLI_OK;
}

const struct atoll_cli_verb atoll_cli_merge = {
    .name = "merge",
    .args = "[OPTION]... SANDBOX FORK...",
    .summary = "bring what forks have changed into a sandbox",
    .help = "SANDBOX goes on running. Texts that both have changed in different lines are joined;\n"
            "other conflicts are listed, and nothing is written unless an option decides.\n"
            "\n"
            "Example:\n"
            "  fork=$(atoll fork $id)\n"
            "  atoll exec $fork -- make fix\n"
            "  atoll merge $id $fork\n",
    .options = merge_table,
    .options_size = sizeof(struct merge_options),
    .min_args = 2,
    .max_args = -1,
    .run = merge,
};

/* try */

struct try_options {
    struct atoll_cli_common common;
    uint32_t count;
    struct atoll_cli_command_options command;
};

#define AT(member) offsetof(struct try_options, command.member)

static const struct atoll_cli_option try_table[] = {
    {"count", 'n', ATOLL_CLI_COUNT, offsetof(struct try_options, count), "N",
     "how many forks, at most 32 (default: 2)", NULL},
    {"user", 'u', ATOLL_CLI_TEXT, AT(user), "USER[:GROUP]",
     "user to run it as, names or numbers (default: user, uid 1000)", NULL},
    {"cwd", 'w', ATOLL_CLI_TEXT, AT(cwd), "PATH",
     "working directory of the command (default: that of the sandbox)", NULL},
    {.kind = ATOLL_CLI_TABLE, .offset = AT(env), .table = atoll_cli_env_options},
    {"timeout", 't', ATOLL_CLI_TIME, AT(timeout_seconds), "TIME", "time limit of each command",
     NULL},
    ATOLL_CLI_COMMON(struct try_options),
    {0},
};
#undef AT

/* The end of the output of a try that has failed, indented. */
static void print_output(const char *text)
{
    while (*text) {
        size_t n = strcspn(text, "\n");
        char *line = strndup(text, n);

        if (line) {
            (void)fputs("   | ", stdout);
            atoll_cli_put(stdout, line);
            (void)fputc('\n', stdout);
        }
        free(line);
        text += n + (text[n] == '\n');
    }
}

static void print_tries(const json_t *reply)
{
    const json_t *tries = json_object_get(reply, "tries");
    const json_t *best = json_object_get(reply, "best");
    bool merged = json_is_true(json_object_get(json_object_get(reply, "merge"), "merged"));

    for (size_t i = 0; i < json_array_size(tries); i++) {
        const json_t *one = json_array_get(tries, i);
        const char *error = atoll_link_text(one, "error", "");
        double code = atoll_link_number(one, "exit_code", -1);
        bool is_best = json_is_integer(best) && (size_t)json_integer_value(best) == i;

        (void)printf("%zu  score %g", i, atoll_link_number(one, "score", 0));
        if (*error) {
            (void)fputs("  ", stdout);
            atoll_cli_put(stdout, error);
        } else if (code != 0) {
            (void)printf("  exit status %g", code);
        }
        (void)puts(!is_best ? "" : merged ? "  merged" : "  best");
        if (*error || code != 0)
            print_output(atoll_link_text(one, "output", ""));
    }
    print_report(json_object_get(reply, "merge"));
}

/* Whether the best has been merged. */
static int judge(const json_t *reply, const char *sandbox, struct atoll_error *err)
{
    const char *kept = atoll_link_text(reply, "kept", "");
    const char *error = atoll_link_text(reply, "error", "");

    if (!json_is_integer(json_object_get(reply, "best")))
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ENOENT,
                          "no try has succeeded, and nothing was written");
    if (json_is_true(json_object_get(json_object_get(reply, "merge"), "merged")))
        return 0;
    return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EEXIST,
                      "the best was not merged: %.150s; its fork is kept. Merge it with: "
                      "atoll merge %.32s %.32s%s",
                      *error ? error : "there are conflicts", sandbox, kept,
                      *error ? "" : " --ours|--theirs");
}

static int try_command(struct atoll_cli *cli, const void *options, int argc ATOLL_UNUSED,
                       char **argv, struct atoll_error *err)
{
    const struct try_options *o = options;
    ATOLL_AUTOJSON json_t *request =
        json_pack("{s:I}", "count", (json_int_t)(o->count ? o->count : 2));
    ATOLL_AUTOJSON json_t *reply = NULL;
    int r = atoll_cli_add_command(request, &o->command, argv + 1, err);

    if (r < 0)
        return r;
    r = atoll_cli_post(cli, argv[0], "try", request, TIMEOUT_MS, &reply, err);
    if (r < 0)
        return r;
    if (cli->json)
        r = atoll_cli_print_json(reply, err);
    else
        print_tries(reply);
    if (r >= 0)
        r = judge(reply, argv[0], err);
    return r < 0 ? r : ATOLL_CLI_OK;
}

const struct atoll_cli_verb atoll_cli_try = {
    .name = "try",
    .args = "[OPTION]... SANDBOX -- COMMAND [ARG]...",
    .summary = "run a command in forks of a sandbox and merge the best",
    .help =
        "Each fork has ATOLL_TRY=0, 1, … in the environment. The score is a number on the last\n"
        "line of the output, or else 1 for the exit status 0. The best is merged into the\n"
        "sandbox; all forks are removed. Of tries that failed the end of the output is shown. If there are conflicts, the best fork is kept and named,\n"
        "and the exit status is 1.\n"
        "\n"
        "Example:\n"
        "  atoll try --count 4 $id -- sh -c './agent --seed $ATOLL_TRY && ./score'\n",
    .options = try_table,
    .options_size = sizeof(struct try_options),
    .min_args = 2,
    .max_args = -1,
    .run = try_command,
};

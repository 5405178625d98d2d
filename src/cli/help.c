#include <stdio.h>
#include <string.h>
#include "cli/client.h"
#include "cli/print.h"

#define OPTION_WIDTH 26

const struct atoll_cli_option atoll_cli_common_options[] = {
    {"json", 0, ATOLL_CLI_FLAG, offsetof(struct atoll_cli_common, json), NULL,
     "print JSON for programs to read", NULL},
    {"ca", 0, ATOLL_CLI_TEXT, offsetof(struct atoll_cli_common, ca_file), "FILE",
     "certificate to trust with https://", NULL},
    {"help", 'h', ATOLL_CLI_FLAG, offsetof(struct atoll_cli_common, help), NULL, "show this", NULL},
    {0},
};

const struct atoll_cli_option atoll_cli_plain_options[] = {
    ATOLL_CLI_COMMON(struct atoll_cli_plain),
    {0},
};

static void print_option(const struct atoll_cli_option *option)
{
    char left[80];
    int n = option->letter ? snprintf(left, sizeof(left), "-%c, --%s", option->letter, option->name)
                           : snprintf(left, sizeof(left), "    --%s", option->name);

    if (option->value && n > 0 && (size_t)n < sizeof(left))
        n += snprintf(left + n, sizeof(left) - (size_t)n, " %s", option->value);
    if (n < OPTION_WIDTH)
        (void)printf("  %-*s%s\n", OPTION_WIDTH, left, option->help);
    else
        (void)printf("  %s\n  %*s%s\n", left, OPTION_WIDTH, "", option->help);
}

static void print_verb(const struct atoll_cli_verb *verb)
{
    const struct atoll_cli_option *option;

    (void)printf("atoll %s: %s\n\nUsage: atoll %s%s%s\n", verb->name, verb->summary, verb->name,
                 *verb->args ? " " : "", verb->args);
    (void)fputs("\nOptions:\n", stdout);
    for (size_t i = 0; (option = atoll_cli_option_next(verb->options, &i)) != NULL;)
        print_option(option);
    (void)printf("\n%s", verb->help);
}

static void print_overview(void)
{
    (void)fputs("atoll: sandboxes for code nobody has to trust\n"
                "\n"
                "Usage: atoll VERB [OPTION]... [ARG]...\n"
                "\n"
                "Verbs:\n",
                stdout);
    for (const struct atoll_cli_verb *const *verb = atoll_cli_verbs; *verb; verb++)
        (void)printf("  %-17s %s\n", (*verb)->name, (*verb)->summary);
    (void)fputs("\n"
                "Environment:\n"
                "  ATOLL_SOCKET      socket of the daemon\n"
                "  ATOLL_URL         its address instead, such as http://127.0.0.1:7070\n"
                "  ATOLL_API_KEY     key for that address\n"
                "  ATOLL_CA_FILE     certificate to trust with https://\n"
                "  ATOLL_INSECURE    1: trust any\n"
                "  NO_COLOR          no colours, even on a terminal\n"
                "\n"
                "Try: atoll run -- python3 -c 'print(6*7)'\n"
                "`atoll help VERB` says more about each.\n",
                stdout);
}

void atoll_cli_print_help(const struct atoll_cli_verb *verb)
{
    if (verb)
        print_verb(verb);
    else
        print_overview();
}

static int run_help(struct atoll_cli *cli ATOLL_UNUSED, const void *options ATOLL_UNUSED, int argc,
                    char **argv, struct atoll_error *err)
{
    const struct atoll_cli_verb *verb = NULL;
    int words;

    if (argc > 0) {
        verb = atoll_cli_find_verb(argv, &words, err);
        if (!verb)
            return -err->errnum;
    }
    atoll_cli_print_help(verb);
    return ATOLL_CLI_OK;
}

static int run_version(struct atoll_cli *cli, const void *options ATOLL_UNUSED,
                       int argc ATOLL_UNUSED, char **argv ATOLL_UNUSED, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *object = json_pack("{s:s}", "version", ATOLL_VERSION);

    if (cli->json)
        return atoll_cli_print_json(object, err);
    (void)puts("atoll " ATOLL_VERSION);
    return ATOLL_CLI_OK;
}

const struct atoll_cli_verb atoll_cli_help = {
    .name = "help",
    .args = "[VERB]",
    .summary = "explain a verb",
    .help = "Example:\n"
            "  atoll help run\n",
    .options = atoll_cli_plain_options,
    .options_size = sizeof(struct atoll_cli_plain),
    .max_args = 2,
    .command_at = ATOLL_CLI_NO_COMMAND,
    .failure = ATOLL_CLI_USAGE,
    .run = run_help,
};

const struct atoll_cli_verb atoll_cli_version = {
    .name = "version",
    .args = "",
    .summary = "print the version of this program",
    .help = "",
    .options = atoll_cli_plain_options,
    .options_size = sizeof(struct atoll_cli_plain),
    .max_args = 0,
    .command_at = ATOLL_CLI_NO_COMMAND,
    .run = run_version,
};

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "cli/client.h"
#include "cli/print.h"

#define OPTION_WIDTH 26

const struct atoll_cli_option atoll_cli_common_options[] = {
    {"json", 0, ATOLL_CLI_FLAG, offsetof(struct atoll_cli_common, json), NULL,
     "print machine-readable JSON", NULL},
    {"ca", 0, ATOLL_CLI_TEXT, offsetof(struct atoll_cli_common, ca_file), "FILE",
     "certificate to trust with https://", NULL},
    {"help", 'h', ATOLL_CLI_FLAG, offsetof(struct atoll_cli_common, help), NULL, "show this help",
     NULL},
    {0},
};

const struct atoll_cli_variable atoll_cli_variables[] = {
    {"ATOLL_SOCKET", "unix socket of the daemon"},
    {"ATOLL_URL", "URL of the daemon instead of the socket: http://127.0.0.1:8000"},
    {"ATOLL_API_KEY", "API key to send to ATOLL_URL"},
    {"ATOLL_CA_FILE", "certificate to trust with https://"},
    {"ATOLL_INSECURE", "1: accept any certificate"},
    {"ATOLL_GIT_PASSWORD", "password or token of the server, for `atoll git`"},
    {"NO_COLOR", "if set: no colours, even on a terminal"},
    {0},
};

const struct atoll_cli_option *atoll_cli_options_of(const struct atoll_cli_verb *verb)
{
    return verb->options ? verb->options : atoll_cli_common_options;
}

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
    for (size_t i = 0; (option = atoll_cli_option_next(atoll_cli_options_of(verb), &i)) != NULL;)
        print_option(option);
    if (*verb->help)
        (void)printf("\n%s", verb->help);
}

/* A NULL group contains every verb. */
static bool is_in_group(const struct atoll_cli_verb *verb, const char *group)
{
    size_t n = group ? strlen(group) : 0;
    return !group || (strncmp(verb->name, group, n) == 0 && verb->name[n] == ' ');
}

static void print_names(const char *group)
{
    for (const struct atoll_cli_verb *const *verb = atoll_cli_verbs; *verb; verb++)
        if (is_in_group(*verb, group))
            (void)printf("  %-18s %s\n", (*verb)->name, (*verb)->summary);
}

void atoll_cli_print_group(const char *group)
{
    (void)printf("Usage: atoll %s VERB [OPTION]... [ARG]...\n\nVerbs:\n", group);
    print_names(group);
    (void)printf("\n`atoll help %s VERB` describes a verb and its options.\n", group);
}

static void print_overview(void)
{
    (void)fputs("atoll: sandboxes for untrusted code\n"
                "\n"
                "Usage: atoll VERB [OPTION]... [ARG]...\n"
                "\n"
                "Verbs:\n",
                stdout);
    print_names(NULL);
    (void)fputs("\nEnvironment:\n", stdout);
    for (const struct atoll_cli_variable *v = atoll_cli_variables; v->name; v++)
        (void)printf("  %-17s %s\n", v->name, v->help);
    (void)fputs("\n"
                "Try: atoll run -- python3 -c 'print(6*7)'\n"
                "`atoll help VERB` describes a verb and its options.\n",
                stdout);
}

void atoll_cli_print_help(const struct atoll_cli_verb *verb)
{
    if (verb)
        print_verb(verb);
    else
        print_overview();
}

static json_t *options_json(const struct atoll_cli_verb *verb)
{
    json_t *list = json_array();
    const struct atoll_cli_option *option;

    for (size_t i = 0; (option = atoll_cli_option_next(atoll_cli_options_of(verb), &i)) != NULL;)
        (void)json_array_append_new(list, json_pack("{s:s, s:s%, s:s*, s:s}", "name", option->name,
                                                    "letter", &option->letter,
                                                    (size_t)(option->letter != 0), "value",
                                                    option->value, "help", option->help));
    return list;
}

/* Prints one verb, the verbs of a group, or (both NULL) all verbs. */
static int print_json(const struct atoll_cli_verb *only, const char *group, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *list = json_array();
    ATOLL_AUTOJSON json_t *object = json_pack("{s:O}", "verbs", list);

    for (const struct atoll_cli_verb *const *v = atoll_cli_verbs; *v; v++)
        if (only ? *v == only : is_in_group(*v, group))
            (void)json_array_append_new(list,
                                        json_pack("{s:s, s:s, s:s, s:s, s:o}", "name", (*v)->name,
                                                  "args", (*v)->args, "summary", (*v)->summary,
                                                  "help", (*v)->help, "options", options_json(*v)));
    return atoll_cli_print_json(object, err);
}

static int run_help(struct atoll_cli *cli, const void *options ATOLL_UNUSED, int argc, char **argv,
                    struct atoll_error *err)
{
    const struct atoll_cli_verb *verb = NULL;
    const char *group = NULL;
    int words;

    if (argc == 1 && atoll_cli_is_group(argv[0])) {
        group = argv[0];
    } else if (argc > 0) {
        verb = atoll_cli_find_verb(argv, &words, err);
        if (!verb)
            return -err->errnum;
        if (argc > words)
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "unexpected argument \"%.60s\"", argv[words]);
    }
    if (cli->json)
        return print_json(verb, group, err);
    if (group)
        atoll_cli_print_group(group);
    else
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
    .help = "Examples:\n"
            "  atoll help run\n"
            "  atoll help template          lists the verbs for templates\n"
            "  atoll help template build\n",
    .max_args = 2,
    .failure = ATOLL_CLI_USAGE,
    .run = run_help,
};

const struct atoll_cli_verb atoll_cli_version = {
    .name = "version",
    .args = "",
    .summary = "print the version of this program",
    .help = "",
    .run = run_version,
};

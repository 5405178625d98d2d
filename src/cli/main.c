/*
 * atoll: the command line of Atoll, a client of the daemon's API.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "cli/client.h"
#include "cli/print.h"
#include "cli/request.h"
#include "cli/words.h"

/* The first line is prose. The lines after it are commands to copy: they are printed without the
 * "atoll: " prefix. */
static void print_hint(const char *hint)
{
    size_t n = strcspn(hint, "\n");

    atoll_cli_say("%.*s", (int)n, hint);
    while (hint[n]) {
        char line[200];
        hint += n + 1;
        n = strcspn(hint, "\n");
        (void)snprintf(line, sizeof(line), "%.*s", (int)n, hint);
        atoll_cli_put(stderr, line);
        (void)fputc('\n', stderr);
    }
}

static void print_error(const struct atoll_cli *cli, const struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *object = NULL;
    const char *hint = atoll_cli_hint(cli);
    struct atoll_error ignored;

    atoll_cli_say("%s", err->text);
    if (*hint)
        print_hint(hint);
    if (!cli->json)
        return;
    object = json_pack("{s:{s:s, s:s, s:s*}}", "error", "code", atoll_error_kind_name(err->kind),
                       "message", err->text, "hint", *hint ? hint : NULL);
    if (object && atoll_cli_print_json(object, &ignored) < 0)
        return; /* standard output is closed; the error is already on standard error */
}

static int usage_error(const struct atoll_cli_verb *verb, const char *text)
{
    if (verb)
        atoll_cli_say("%s: %s", verb->name, text);
    else
        atoll_cli_say("%s", text);
    (void)fprintf(stderr, "Try: atoll %s%s\n", verb ? verb->name : "help", verb ? " --help" : "");
    return ATOLL_CLI_USAGE;
}

/* INVALID_ARGUMENT that did not come from the daemon is a mistake on the command line. */
static bool is_usage(const struct atoll_error *err)
{
    return err->kind == ATOLL_ERR_INVALID_ARGUMENT && err->errnum != EREMOTEIO;
}

/* As shells do: 127 for a command that does not exist, 126 for one that cannot be executed. */
static int failure_of(const struct atoll_cli_verb *verb, const struct atoll_error *err)
{
    if (is_usage(err))
        return ATOLL_CLI_USAGE;
    if (verb->failure == ATOLL_CLI_BROKEN && err->kind == ATOLL_ERR_NOT_FOUND &&
        strncmp(err->text, "command not found: ", 19) == 0)
        return ATOLL_CLI_NOT_FOUND;
    if (verb->failure == ATOLL_CLI_BROKEN && err->kind == ATOLL_ERR_PERMISSION_DENIED &&
        strstr(err->text, "not an executable file"))
        return ATOLL_CLI_NOT_EXECUTABLE;
    return verb->failure ? verb->failure : ATOLL_CLI_FAILED;
}

static int check_count(const struct atoll_cli_verb *verb, int argc, char **argv)
{
    char text[200];

    if (argc < verb->min_args)
        (void)snprintf(text, sizeof(text), "missing argument: atoll %s %s", verb->name, verb->args);
    else if (verb->max_args >= 0 && argc > verb->max_args)
        (void)snprintf(text, sizeof(text), "unexpected argument \"%.60s\"", argv[verb->max_args]);
    else
        return ATOLL_CLI_OK;
    return usage_error(verb, text);
}

static int run_verb(const struct atoll_cli_verb *verb, char **argv)
{
    ATOLL_AUTOFREE struct atoll_cli_common *options =
        calloc(1, ATOLL_MAX(verb->options_size, sizeof(*options)));
    struct atoll_error err = {.kind = ATOLL_ERR_NONE};
    struct atoll_cli cli;
    int argc, r;

    if (!options)
        return ATOLL_CLI_BROKEN;
    if (atoll_cli_parse(atoll_cli_options_of(verb), verb->command_arg - 1, argv, options, &argc,
                        &err) < 0)
        return usage_error(verb, err.text);
    if (options->help) {
        atoll_cli_print_help(verb);
        return ATOLL_CLI_OK;
    }
    r = check_count(verb, argc, argv);
    if (r != ATOLL_CLI_OK)
        return r;
    atoll_cli_init(&cli);
    cli.verb = verb;
    cli.json = options->json;
    cli.ca_file = options->ca_file;
    r = atoll_cli_resolve_args(&cli, argc, argv, &err);
    if (r == 0)
        r = verb->run(&cli, options, argc, argv, &err);
    if (r < 0) {
        if (err.kind == ATOLL_ERR_INVALID_ARGUMENT && !is_usage(&err))
            atoll_cli_name_option(atoll_cli_options_of(verb), &err);
        print_error(&cli, &err);
        r = failure_of(verb, &err);
    }
    atoll_cli_done(&cli);
    return r;
}

/* If the caller closed a standard descriptor, opens /dev/null there: a file we open later must not
 * become standard input, output or error. */
static void fill_standard_fds(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        (void)close(fd);
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

int main(int argc, char **argv)
{
    const struct atoll_cli_verb *verb;
    struct atoll_error err;
    int words, r;

    fill_standard_fds();
    /* Line-buffered, so that our lines do not mix with output of other processes. */
    (void)setvbuf(stderr, NULL, _IOLBF, BUFSIZ);
    if (argc < 2) {
        atoll_cli_print_help(NULL);
        return ATOLL_CLI_USAGE;
    }
    if (is_help(argv[1]))
        argv[1] = (char *)"help";
    if (strcmp(argv[1], "--version") == 0)
        argv[1] = (char *)"version";
    if (argc == 3 && atoll_cli_is_group(argv[1]) && is_help(argv[2])) {
        atoll_cli_print_group(argv[1]);
        return ATOLL_CLI_OK;
    }
    verb = atoll_cli_find_verb(argv + 1, &words, &err);
    if (!verb)
        return usage_error(NULL, err.text);
    r = run_verb(verb, argv + 1 + words);
    if (fflush(stdout) == EOF && r == ATOLL_CLI_OK) {
        atoll_cli_say("standard output: %s", strerror(errno));
        r = ATOLL_CLI_FAILED;
    }
    return r;
}

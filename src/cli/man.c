/*
 * Manual pages, written from the table of verbs in the man(7) macros.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "cli/client.h"

struct options {
    struct atoll_cli_common common;
    const char *directory;
};

static const struct atoll_cli_option options_table[] = {
    {"directory", 0, ATOLL_CLI_TEXT, offsetof(struct options, directory), "DIR",
     "write all pages as files of this directory", NULL},
    ATOLL_CLI_COMMON(struct options),
    {0},
};

/* Writes text as roff: no character has a special meaning, a hyphen stays one that can be copied. */
static void put(FILE *f, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool starts = i == 0 || text[i - 1] == '\n';
        if (starts && (text[i] == '.' || text[i] == '\''))
            (void)fputs("\\&", f);
        if (text[i] == '\\')
            (void)fputs("\\e", f);
        else if (text[i] == '-')
            (void)fputs("\\-", f);
        else
            (void)fputc(text[i], f);
    }
}

static void put_text(FILE *f, const char *text)
{
    put(f, text, strlen(text));
}

/* "atoll-template-ls" for the verb "template ls". */
static void page_name(const struct atoll_cli_verb *verb, char *out, size_t cap)
{
    (void)snprintf(out, cap, "atoll%s%s", verb ? "-" : "", verb ? verb->name : "");
    for (; *out; out++)
        if (*out == ' ')
            *out = '-';
}

static void put_head(FILE *f, const struct atoll_cli_verb *verb, const char *summary)
{
    char name[64];

    page_name(verb, name, sizeof(name));
    (void)fputs(".TH \"", f);
    put_text(f, name);
    (void)fprintf(f, "\" 1 \"\" \"atoll %s\" \"Atoll\"\n.SH NAME\n", ATOLL_VERSION);
    put_text(f, name);
    (void)fputs(" \\- ", f);
    put_text(f, summary);
    (void)fputs("\n.SH SYNOPSIS\n", f);
}

static void put_option(FILE *f, const struct atoll_cli_option *option)
{
    (void)fputs(".TP\n\\fB", f);
    if (option->letter)
        (void)fprintf(f, "\\-%c\\fR, \\fB", option->letter);
    (void)fputs("\\-\\-", f);
    put_text(f, option->name);
    (void)fputs("\\fR", f);
    if (option->value) {
        (void)fputs(" \\fI", f);
        put_text(f, option->value);
        (void)fputs("\\fR", f);
    }
    (void)fputc('\n', f);
    put_text(f, option->help);
    (void)fputc('\n', f);
}

/* Help is paragraphs with empty lines between them; the last may be examples, whose lines stay. */
static void put_help(FILE *f, const char *help)
{
    const char *examples = strstr(help, "Example");
    bool has = examples && (examples == help || examples[-1] == '\n');
    const char *end = has ? examples : help + strlen(help);

    if (end > help)
        (void)fputs(".SH DESCRIPTION\n", f);
    while (help < end) {
        const char *gap = strstr(help, "\n\n");
        const char *stop = gap && gap < end ? gap + 1 : end;
        put(f, help, (size_t)(stop - help));
        help = gap && gap < end ? stop + 1 : end;
        if (help < end)
            (void)fputs(".PP\n", f);
    }
    if (has) {
        (void)fputs(".SH EXAMPLES\n.nf\n", f);
        put_text(f, strchr(examples, '\n') + 1);
        (void)fputs(".fi\n", f);
    }
}

static void put_verb(FILE *f, const struct atoll_cli_verb *verb)
{
    const struct atoll_cli_option *option;

    put_head(f, verb, verb->summary);
    (void)fputs("\\fBatoll ", f);
    put_text(f, verb->name);
    (void)fputs("\\fR ", f);
    put_text(f, verb->args);
    (void)fputc('\n', f);
    put_help(f, verb->help);
    (void)fputs(".SH OPTIONS\n", f);
    for (size_t i = 0; (option = atoll_cli_option_next(atoll_cli_options_of(verb), &i));)
        put_option(f, option);
    (void)fputs(".SH SEE ALSO\n.BR atoll (1)\n", f);
}

static void put_program(FILE *f)
{
    put_head(f, NULL, "sandboxes for untrusted code");
    (void)fputs("\\fBatoll\\fR VERB [OPTION]... [ARG]...\n.SH VERBS\n", f);
    for (const struct atoll_cli_verb *const *v = atoll_cli_verbs; *v; v++) {
        char name[64];
        page_name(*v, name, sizeof(name));
        (void)fputs(".TP\n\\fB", f);
        put_text(f, name);
        (void)fputs("\\fR(1)\n", f);
        put_text(f, (*v)->summary);
        (void)fputc('\n', f);
    }
    (void)fputs(".SH ENVIRONMENT\n", f);
    for (const struct atoll_cli_variable *v = atoll_cli_variables; v->name; v++) {
        (void)fprintf(f, ".TP\n\\fB%s\\fR\n", v->name);
        put_text(f, v->help);
        (void)fputc('\n', f);
    }
}

static void put_page(FILE *f, const struct atoll_cli_verb *verb)
{
    if (verb)
        put_verb(f, verb);
    else
        put_program(f);
}

static int write_page(const char *directory, const struct atoll_cli_verb *verb,
                      struct atoll_error *err)
{
    char path[4096], name[64];
    FILE *f;
    int failed;

    page_name(verb, name, sizeof(name));
    if ((size_t)snprintf(path, sizeof(path), "%s/%s.1", directory, name) >= sizeof(path))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG, "the path is too long");
    f = fopen(path, "we");
    if (!f)
        return atoll_fail(err, atoll_error_kind_of_path_errno(errno), errno, "%.200s: %s", path,
                          strerror(errno));
    put_page(f, verb);
    failed = ferror(f);
    if (fclose(f) == EOF || failed)
        return atoll_fail_errno(err, EIO, "%.200s", path);
    return 0;
}

static int write_all(const char *directory, struct atoll_error *err)
{
    int r = write_page(directory, NULL, err);

    for (const struct atoll_cli_verb *const *v = atoll_cli_verbs; r == 0 && *v; v++)
        r = write_page(directory, *v, err);
    return r;
}

/* Shows the page with man(1). */
static int show(const struct atoll_cli_verb *verb, struct atoll_error *err)
{
    FILE *f = popen("man -l -", "we");

    if (!f)
        return atoll_fail_errno(err, errno, "man");
    put_page(f, verb);
    return pclose(f) == 0 ? ATOLL_CLI_OK : ATOLL_CLI_FAILED;
}

static int run(struct atoll_cli *cli ATOLL_UNUSED, const void *options, int argc, char **argv,
               struct atoll_error *err)
{
    const struct options *o = options;
    const struct atoll_cli_verb *verb = NULL;
    int words = 0;

    if (o->directory)
        return write_all(o->directory, err);
    if (argc > 0) {
        verb = atoll_cli_find_verb(argv, &words, err);
        if (!verb)
            return -err->errnum;
    }
    if (argc > words)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "unexpected argument \"%.60s\"",
                          argv[words]);
    if (isatty(STDOUT_FILENO))
        return show(verb, err);
    put_page(stdout, verb);
    return ATOLL_CLI_OK;
}

const struct atoll_cli_verb atoll_cli_man = {
    .name = "man",
    .args = "[OPTION]... [VERB]",
    .summary = "show or write manual pages",
    .help = "Without VERB, the page of the program. If standard output is not a terminal, prints\n"
            "the source of the page.\n"
            "\n"
            "Examples:\n"
            "  atoll man run\n"
            "  atoll man --directory ~/.local/share/man/man1\n",
    .options = options_table,
    .options_size = sizeof(struct options),
    .max_args = 2,
    .run = run,
};

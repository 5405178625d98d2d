#include "cli/git_print.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define HASH_SHOWN 9

/* The text up to its first line end. */
static void put_line(const char *text)
{
    char line[200];

    (void)snprintf(line, sizeof(line), "%.*s", (int)strcspn(text, "\n"), text);
    atoll_cli_put(stdout, line);
}

/* Lines are kept; what else could move the cursor is escaped. */
static void put_lines(FILE *stream, const char *text)
{
    char piece[1024];

    while (*text) {
        size_t n = ATOLL_MIN(strcspn(text, "\n\t"), sizeof(piece) - 1);
        memcpy(piece, text, n);
        piece[n] = '\0';
        atoll_cli_put(stream, piece);
        text += n;
        if (*text == '\n' || *text == '\t')
            (void)fputc(*text++, stream);
    }
}

static void put_commit(const json_t *commit)
{
    (void)printf("%.*s ", HASH_SHOWN, atoll_link_text(commit, "hash", "?"));
    put_line(atoll_link_text(commit, "message", ""));
    (void)fputc('\n', stdout);
}

void atoll_cli_git_print_where(const json_t *reply)
{
    const json_t *commit = json_object_get(reply, "commit");

    atoll_cli_put(stdout, atoll_link_text(reply, "branch", "(detached)"));
    (void)fputc(' ', stdout);
    if (json_is_object(commit))
        put_commit(commit);
    else
        (void)puts("(no commit)");
}

static char letter_of(const char *state)
{
    static const char *const letters[] = {" unmodified", "Mmodified", "Ttype_changed", "Aadded",
                                          "Ddeleted",    "Rrenamed",  "Ccopied",       "Uunmerged",
                                          "?untracked",  "!ignored"};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(letters); i++)
        if (strcmp(letters[i] + 1, state) == 0)
            return letters[i][0];
    return '?';
}

void atoll_cli_git_print_status(const json_t *reply)
{
    const char *upstream = atoll_link_text(reply, "upstream", "");
    const json_t *file;
    size_t i;

    (void)fputs("## ", stdout);
    atoll_cli_put(stdout, atoll_link_text(reply, "branch", "(detached)"));
    if (*upstream) {
        (void)fputs("...", stdout);
        atoll_cli_put(stdout, upstream);
        (void)printf(" [ahead %.0f, behind %.0f]", atoll_link_number(reply, "ahead", 0),
                     atoll_link_number(reply, "behind", 0));
    }
    (void)fputc('\n', stdout);
    json_array_foreach(json_object_get(reply, "files"), i, file)
    {
        const char *from = atoll_link_text(file, "from", "");
        (void)printf("%c%c ", letter_of(atoll_link_text(file, "staging", "")),
                     letter_of(atoll_link_text(file, "worktree", "")));
        atoll_cli_put(stdout, from);
        (void)fputs(*from ? " -> " : "", stdout);
        atoll_cli_put(stdout, atoll_link_text(file, "path", ""));
        (void)fputc('\n', stdout);
    }
}

void atoll_cli_git_print_log(const json_t *reply)
{
    const json_t *commit;
    size_t i;

    json_array_foreach(json_object_get(reply, "commits"), i, commit)
    {
        const json_t *author = json_object_get(commit, "author");
        (void)printf("%.*s %.10s ", HASH_SHOWN, atoll_link_text(commit, "hash", "?"),
                     atoll_link_text(author, "at", "?"));
        put_line(atoll_link_text(author, "name", "?"));
        (void)fputs(": ", stdout);
        put_line(atoll_link_text(commit, "message", ""));
        (void)fputc('\n', stdout);
    }
}

/* A patch is for programs as well: into a file or pipe it goes as it is. */
void atoll_cli_git_print_diff(const json_t *reply)
{
    const json_t *patch = json_object_get(reply, "patch");

    if (isatty(STDOUT_FILENO))
        put_lines(stdout, atoll_link_text(reply, "patch", ""));
    else
        (void)fwrite(json_string_value(patch), 1, json_string_length(patch), stdout);
}

void atoll_cli_git_print_words(const json_t *reply)
{
    put_lines(stderr, atoll_link_text(reply, "words", ""));
}

static const struct atoll_cli_column pushed_columns[] = {
    {.title = "STATE", .member = "state"},
    {.title = "FROM", .member = "from", .missing = "-"},
    {.title = "TO", .member = "to", .missing = "-"},
    {.title = "SUMMARY", .member = "summary"},
    {.title = NULL},
};

static void add_mark(struct atoll_cli_table *table, const json_t *branch)
{
    bool current = json_is_true(json_object_get(branch, "current"));

    atoll_cli_table_add(table, current ? ATOLL_CLI_GREEN : ATOLL_CLI_PLAIN, "%s %s",
                        current ? "*" : " ", atoll_link_text(branch, "name", "?"));
}

static void add_counts(struct atoll_cli_table *table, const json_t *branch)
{
    atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "+%.0f -%.0f",
                        atoll_link_number(branch, "ahead", 0),
                        atoll_link_number(branch, "behind", 0));
}

static const struct atoll_cli_column branch_columns[] = {
    {.title = "  BRANCH", .add = add_mark},
    {.title = "COMMIT", .member = "commit", .width = HASH_SHOWN},
    {.title = "UPSTREAM", .member = "upstream", .missing = "-"},
    {.title = "AHEAD", .add = add_counts},
    {.title = "SUBJECT", .member = "subject", .missing = "", .width = 60},
    {.title = NULL},
};

static const struct atoll_cli_column remote_columns[] = {
    {.title = "NAME", .member = "name"},
    {.title = "URL", .member = "url"},
    {.title = NULL},
};

static const struct atoll_cli_column tag_columns[] = {
    {.title = "NAME", .member = "name"},
    {.title = "COMMIT", .member = "commit", .width = HASH_SHOWN},
    {.title = "SUBJECT", .member = "subject", .missing = "", .width = 60},
    {.title = NULL},
};

static const struct atoll_cli_column stash_columns[] = {
    {.title = "INDEX", .member = "index", .form = ATOLL_CLI_FORM_NUMBER},
    {.title = "SUBJECT", .member = "subject", .missing = ""},
    {.title = NULL},
};

static const struct atoll_cli_column config_columns[] = {
    {.title = "NAME", .member = "name"},
    {.title = "VALUE", .member = "value", .missing = ""},
    {.title = "SCOPE", .member = "scope"},
    {.title = NULL},
};

void atoll_cli_git_print_pushed(const json_t *reply)
{
    atoll_cli_list_print(json_object_get(reply, "refs"), pushed_columns);
}

void atoll_cli_git_print_branches(const json_t *reply)
{
    atoll_cli_list_print(json_object_get(reply, "branches"), branch_columns);
}

void atoll_cli_git_print_remotes(const json_t *reply)
{
    atoll_cli_list_print(json_object_get(reply, "remotes"), remote_columns);
}

void atoll_cli_git_print_tags(const json_t *reply)
{
    atoll_cli_list_print(json_object_get(reply, "tags"), tag_columns);
}

void atoll_cli_git_print_stashes(const json_t *reply)
{
    atoll_cli_list_print(json_object_get(reply, "stashes"), stash_columns);
}

void atoll_cli_git_print_config(const json_t *reply)
{
    atoll_cli_list_print(json_object_get(reply, "entries"), config_columns);
}

/*
 * Shell completion. The script of a shell asks this program for the candidates of the word at the cursor:
 * `atoll completion SHELL -- WORD...`, and all that is known about a word comes from the tables of verbs,
 * options and words. A last line "@files" or "@directories" asks the shell for file names.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "cli/print.h"
#include "cli/words.h"

#define DAEMON_TIMEOUT_MS 2000

static const char bash_script[] =
    "# bash completion of atoll. Load it with: source <(atoll completion bash)\n"
    "_atoll() {\n"
    "    local line cur=${COMP_WORDS[COMP_CWORD]}\n"
    "    COMPREPLY=()\n"
    "    while IFS= read -r line; do\n"
    "        case $line in\n"
    "        @files | @directories)\n"
    "            compopt -o filenames\n"
    "            while IFS= read -r line; do\n"
    "                COMPREPLY+=(\"$line\")\n"
    "            done < <(compgen -${line:1:1} -- \"$cur\")\n"
    "            ;;\n"
    "        *)\n"
    "            [[ $line == *: ]] && compopt -o nospace\n"
    "            COMPREPLY+=(\"$line\")\n"
    "            ;;\n"
    "        esac\n"
    "    done < <(\"${COMP_WORDS[0]}\" completion bash -- \"${COMP_WORDS[@]:1:COMP_CWORD}\" "
    "2>/dev/null)\n"
    "}\n"
    "complete -F _atoll atoll\n";

static const char zsh_script[] =
    "#compdef atoll\n"
    "# zsh completion of atoll. Load it with: source <(atoll completion zsh)\n"
    "_atoll() {\n"
    "    local -a lines\n"
    "    lines=(\"${(@f)$($words[1] completion zsh -- \"${(@)words[2,CURRENT]}\" 2>/dev/null)}\")\n"
    "    case $lines[-1] in\n"
    "    @files) lines[-1]=(); _files ;;\n"
    "    @directories) lines[-1]=(); _files -/ ;;\n"
    "    esac\n"
    "    [[ -n $lines ]] && _describe atoll lines\n"
    "}\n"
    "if [[ $funcstack[1] == _atoll ]]; then _atoll; else compdef _atoll atoll; fi\n";

static const char fish_script[] =
    "# fish completion of atoll. Load it with: atoll completion fish | source\n"
    "function __atoll_candidates\n"
    "    set -l words (commandline -opc)\n"
    "    for line in ($words[1] completion fish -- $words[2..] (commandline -ct) 2>/dev/null)\n"
    "        switch $line\n"
    "            case @files\n"
    "                __fish_complete_path (commandline -ct)\n"
    "            case @directories\n"
    "                __fish_complete_directories (commandline -ct)\n"
    "            case '*'\n"
    "                echo $line\n"
    "        end\n"
    "    end\n"
    "end\n"
    "complete -c atoll -f -a '(__atoll_candidates)'\n";

static const struct shell {
    const char *name, *script;
    char separator; /* between a candidate and its description; 0: no descriptions */
} shells[] = {
    {"bash", bash_script, '\0'},
    {"zsh", zsh_script, ':'},
    {"fish", fish_script, '\t'},
};

/* The command line up to the cursor. */
struct line {
    struct atoll_cli *cli;
    const struct shell *shell;
    const struct atoll_cli_verb *verb;     /* NULL: not complete yet */
    const struct atoll_cli_option *option; /* whose value is at the cursor; NULL: none */
    const char *current;                   /* the word at the cursor */
    const char *before;  /* "--name=" when the value follows in the same word, else "" */
    const char *sandbox; /* the argument before the cursor that is one; NULL: none */
    int args;            /* arguments before the cursor */
    bool options_ended;
};

/* In zsh a colon ends the candidate unless it is escaped. */
static void put_escaped(const struct line *line, const char *text)
{
    for (; *text; text++) {
        if (line->shell->separator == ':' && (*text == ':' || *text == '\\'))
            (void)fputc('\\', stdout);
        (void)fputc(*text, stdout);
    }
}

static void offer(const struct line *line, const char *word, const char *ending, const char *detail)
{
    char text[256];

    (void)snprintf(text, sizeof(text), "%s%s", word, ending);
    if (strncmp(text, line->current, strlen(line->current)) != 0)
        return;
    put_escaped(line, line->before);
    put_escaped(line, text);
    if (line->shell->separator && detail && *detail) {
        (void)fputc(line->shell->separator, stdout);
        atoll_cli_put(stdout, detail);
    }
    (void)fputc('\n', stdout);
}

/* The daemon may be down or slow: then there are no candidates, and no message disturbs the prompt. */
static void offer_list(struct line *line, const struct atoll_cli_word *word, const char *ending)
{
    ATOLL_AUTOJSON json_t *items = NULL;
    struct atoll_error ignored;

    if (strchr(word->target, '%') && !line->sandbox)
        return;
    atoll_cli_set_timeout(line->cli, DAEMON_TIMEOUT_MS);
    if (atoll_cli_word_items(line->cli, word, line->sandbox, &items, &ignored) < 0)
        return;
    for (size_t i = 0; i < json_array_size(items); i++) {
        const json_t *item = json_array_get(items, i);
        const char *name = word->name_of ? atoll_link_text(item, word->name_of, NULL) : NULL;
        offer(line, atoll_link_text(item, word->id, ""), ending,
              atoll_link_text(item, word->detail, ""));
        if (name)
            offer(line, name, ending, atoll_link_text(item, word->detail, ""));
    }
}

static void offer_choices(const struct line *line, const char *choices)
{
    while (*choices) {
        size_t n = strcspn(choices, "|");
        char word[ATOLL_CLI_WORD_MAX];
        (void)snprintf(word, sizeof(word), "%.*s", (int)n, choices);
        offer(line, word, "", "");
        choices += n + (choices[n] == '|');
    }
}

/* The first words of all verbs or, with a group, the second words of its verbs. */
static void offer_verbs(const struct line *line, const char *group)
{
    const char *last = "";
    size_t n = group ? strlen(group) : 0;

    for (const struct atoll_cli_verb *const *v = atoll_cli_verbs; *v; v++) {
        const char *name = (*v)->name, *space = strchr(name, ' ');
        char word[32];
        if (group && (!space || (size_t)(space - name) != n || memcmp(name, group, n) != 0))
            continue;
        if (group)
            (void)snprintf(word, sizeof(word), "%s", space + 1);
        else
            (void)snprintf(word, sizeof(word), "%.*s", (int)strcspn(name, " "), name);
        if (!group && strncmp(last, name, strcspn(name, " ") + 1) == 0)
            continue; /* another verb of the same group */
        offer(line, word, "", group || !space ? (*v)->summary : "a group of verbs");
        last = name;
    }
}

static void offer_word(struct line *line, const char *name)
{
    const struct atoll_cli_word *word = atoll_cli_word_find(name);

    if (atoll_cli_word_is_choice(name))
        offer_choices(line, name);
    if (!word)
        return;
    if (word->source == ATOLL_CLI_FROM_LIST)
        offer_list(line, word, "");
    if (word->source == ATOLL_CLI_FROM_SIDES)
        offer_list(line, atoll_cli_word_find("SANDBOX"), ":");
    if (word->source == ATOLL_CLI_FROM_VERBS)
        offer_verbs(line, NULL);
    if (word->source == ATOLL_CLI_FROM_FILES || word->source == ATOLL_CLI_FROM_SIDES)
        (void)puts("@files");
    if (word->source == ATOLL_CLI_FROM_DIRECTORIES)
        (void)puts("@directories");
}

static void offer_options(const struct line *line)
{
    const struct atoll_cli_option *option;

    for (size_t i = 0; (option = atoll_cli_option_next(atoll_cli_options_of(line->verb), &i));) {
        char text[64];
        (void)snprintf(text, sizeof(text), "--%s", option->name);
        offer(line, text, "", option->help);
        (void)snprintf(text, sizeof(text), "-%c", option->letter);
        if (option->letter && line->current[1] != '-')
            offer(line, text, "", option->help);
    }
}

/* The option that a word such as "--name", "--name=VALUE" or "-n" names. */
static const struct atoll_cli_option *option_of(const struct atoll_cli_verb *verb, const char *word)
{
    const struct atoll_cli_option *option;
    size_t n = strcspn(word, "=");

    for (size_t i = 0; (option = atoll_cli_option_next(atoll_cli_options_of(verb), &i));)
        if (word[1] == '-'
                ? strlen(option->name) == n - 2 && memcmp(option->name, word + 2, n - 2) == 0
                : option->letter == word[1] && !word[2])
            return option;
    return NULL;
}

/* Takes one word before the cursor. */
static void pass(struct line *line, char *word)
{
    const struct atoll_cli_option *option;
    char name[ATOLL_CLI_WORD_MAX];

    if (line->option) {
        line->option = NULL;
    } else if (!line->options_ended && strcmp(word, "--") == 0) {
        line->options_ended = true;
    } else if (!line->options_ended && word[0] == '-' && word[1]) {
        option = option_of(line->verb, word);
        if (option && option->value && !strchr(word, '='))
            line->option = option;
    } else {
        if (atoll_cli_arg_word(line->verb, line->args, name) && strcmp(name, "SANDBOX") == 0)
            line->sandbox = word;
        line->args++;
        if (line->args == line->verb->command_arg)
            line->options_ended = true;
    }
}

static void offer_current(struct line *line)
{
    char name[ATOLL_CLI_WORD_MAX], before[64];
    const char *equals = strchr(line->current, '=');

    if (!line->option && !line->options_ended && equals && line->current[0] == '-') {
        line->option = option_of(line->verb, line->current);
        (void)snprintf(before, sizeof(before), "%.*s", (int)(equals + 1 - line->current),
                       line->current);
        line->before = before;
        line->current = equals + 1;
    }
    if (line->option)
        offer_word(line, line->option->value ? line->option->value : "");
    else if (!line->options_ended && line->current[0] == '-')
        offer_options(line);
    else if (atoll_cli_arg_word(line->verb, line->args, name))
        offer_word(line, name);
}

/* words[0..n-1]; the last one is at the cursor. bash makes a word of its own of each "=". */
static void complete(struct line *line, char **words, int n)
{
    struct atoll_error ignored;
    int at;

    line->current = strcmp(words[n - 1], "=") == 0 ? "" : words[n - 1];
    if (n == 1) {
        offer_verbs(line, NULL);
        return;
    }
    if (n == 2 && atoll_cli_is_group(words[0])) {
        offer_verbs(line, words[0]);
        return;
    }
    line->verb = atoll_cli_find_verb(words, &at, &ignored);
    if (!line->verb || at >= n)
        return;
    for (; at < n - 1; at++)
        if (strcmp(words[at], "=") != 0)
            pass(line, words[at]);
    offer_current(line);
}

static int run(struct atoll_cli *cli, const void *options ATOLL_UNUSED, int argc, char **argv,
               struct atoll_error *err)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(shells); i++) {
        struct line line = {.cli = cli, .shell = &shells[i], .before = ""};
        if (strcmp(argv[0], shells[i].name) != 0)
            continue;
        if (argc == 1)
            (void)fputs(shells[i].script, stdout);
        else
            complete(&line, argv + 1, argc - 1);
        return ATOLL_CLI_OK;
    }
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                      "\"%.40s\" is not a known shell: use bash, zsh or fish", argv[0]);
}

const struct atoll_cli_verb atoll_cli_completion = {
    .name = "completion",
    .args = "bash|zsh|fish [-- WORD...]",
    .summary = "print the completion script of a shell",
    .help = "The script completes verbs, options, files, and what the daemon knows: sandboxes,\n"
            "commands, templates, volumes, keys and providers. `make install` puts it where the\n"
            "shells look. With WORDs, prints the candidates for the last of them, as the\n"
            "scripts need them.\n"
            "\n"
            "Examples:\n"
            "  source <(atoll completion bash)      also for zsh\n"
            "  atoll completion fish | source\n"
            "  atoll completion fish -- run --mem   what fish would show\n",
    .min_args = 1,
    .max_args = -1,
    .run = run,
};

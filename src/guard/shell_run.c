#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "guard/shell_internal.h"

/*
 * Programs that run other programs. What they run is a command of the text, too: "sudo rm x" is sudo and rm.
 */
static const char hole[] = {ATOLL_SHELL_HOLE, '\0'};

struct runner {
    const char *name;
    const char *with_value;             /* letters of options that have a value */
    const char *const *long_with_value; /* likewise, without "="; or NULL */
    unsigned skip;                      /* arguments in front of the command */
    bool variables;                     /* NAME=VALUE may be there, too */
    bool plain;                         /* the command runs as it would run by itself */
};

static const char *const sudo_long[] = {"--user", "--group", "--host",   "--prompt",     "--chdir",
                                        "--role", "--type",  "--chroot", "--close-from", NULL};
static const char *const env_long[] = {"--unset", "--chdir", NULL};
static const char *const nice_long[] = {"--adjustment", NULL};
static const char *const timeout_long[] = {"--signal", "--kill-after", NULL};
static const char *const xargs_long[] = {"--arg-file",  "--delimiter", "--max-args", "--max-lines",
                                         "--max-procs", "--max-chars", "--replace",  NULL};
static const char *const stdbuf_long[] = {"--input", "--output", "--error", NULL};
static const struct runner runners[] = {
    {"sudo", "ugChpDRrTtU", sudo_long, 0, true, false},
    {"doas", "uCa", NULL, 0, false, false},
    {"env", "uC", env_long, 0, true, true},
    {"nohup", "", NULL, 0, false, true},
    {"nice", "n", nice_long, 0, false, true},
    {"ionice", "cnpPu", NULL, 0, false, true},
    {"timeout", "sk", timeout_long, 1, false, true},
    {"stdbuf", "ioe", stdbuf_long, 0, false, true},
    {"setsid", "", NULL, 0, false, true},
    {"exec", "a", NULL, 0, false, true},
    {"command", "", NULL, 0, false, true},
    {"builtin", "", NULL, 0, false, true},
    {"time", "fo", NULL, 0, false, true},
    {"xargs", "adEILnPs", xargs_long, 0, false, true},
    {"chroot", "", NULL, 1, false, false},
    {"busybox", "", NULL, 0, false, true},
};

static const char *const shells[] = {"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", NULL};

static const char *base_name(const char *text)
{
    const char *slash = strrchr(text, '/');

    return slash ? slash + 1 : text;
}

static bool has_hole(const struct atoll_shell_word *word)
{
    return word->many || strchr(word->text, ATOLL_SHELL_HOLE);
}

static int add(struct atoll_shell_parser *ps, const struct atoll_shell_word *words, size_t count,
               bool runs_others)
{
    struct atoll_shell *out = ps->out;
    struct atoll_shell_words copy = {0};

    for (size_t i = 0; i < count; i++)
        out->bytes += strlen(words[i].text) + 1;
    if (out->count == ATOLL_SHELL_COMMANDS_MAX || out->bytes > ATOLL_SHELL_BYTES_MAX)
        return atoll_fail(ps->err, ATOLL_ERR_RESOURCE_EXHAUSTED, E2BIG,
                          "the command cannot be taken apart: it has too many commands");
    if (!out->commands)
        out->commands = calloc(ATOLL_SHELL_COMMANDS_MAX, sizeof(*out->commands));
    if (!out->commands)
        abort();
    for (size_t i = 0; i < count; i++)
        atoll_shell_words_add(&copy, strdup(words[i].text), words[i].many);
    out->commands[out->count++] = (struct atoll_shell_command){copy.words, copy.count, runs_others};
    return 0;
}

/* A command of which nothing is known. */
static int add_unknown(struct atoll_shell_parser *ps)
{
    const struct atoll_shell_word word = {(char *)hole, true};

    return add(ps, &word, 1, false);
}

static int run_text(struct atoll_shell_parser *ps, const char *text, unsigned depth)
{
    unsigned was = ps->depth;
    int r;

    ps->depth = depth;
    r = atoll_shell_read_text(ps, text, strlen(text));
    ps->depth = was;
    return r;
}

static bool is_input(const char *path)
{
    return strcmp(path, "/dev/stdin") == 0 || strcmp(path, "/dev/fd/0") == 0 ||
           strcmp(path, "/proc/self/fd/0") == 0;
}

/* sh -c TEXT. Returns 1 if it runs a file. What it reads from its standard input is not known. */
static int run_shell(struct atoll_shell_parser *ps, const struct atoll_shell_word *words,
                     size_t count, unsigned depth)
{
    bool script = false, input = false;
    size_t i = 1;

    for (; i < count && (words[i].text[0] == '-' || words[i].text[0] == '+'); i++) {
        const char *option = words[i].text;

        if (has_hole(&words[i]))
            return add_unknown(ps);
        if (strcmp(option, "--") == 0) {
            i++;
            break;
        }
        if (strcmp(option, "--rcfile") == 0 || strcmp(option, "--init-file") == 0)
            i++;
        if (strcmp(option, "--version") == 0 || strcmp(option, "--help") == 0)
            return 1;
        if (option[1] == '-')
            continue;
        script |= strchr(option, 'c') != NULL;
        input |= strchr(option, 's') != NULL;
        if (option[strlen(option) - 1] == 'o' || option[strlen(option) - 1] == 'O')
            i++;
    }
    if (!script)
        return i >= count || input || words[i].many || is_input(words[i].text) ? add_unknown(ps)
                                                                               : 1;
    if (i >= count || has_hole(&words[i]))
        return add_unknown(ps);
    return run_text(ps, words[i].text, depth);
}

/* eval WORD…; su -c TEXT. */
static int run_words(struct atoll_shell_parser *ps, const struct atoll_shell_word *words,
                     size_t count, unsigned depth)
{
    struct atoll_buf text;
    bool known = true;
    int r = 0;

    atoll_buf_init(&text, ATOLL_SHELL_TEXT_MAX);
    for (size_t i = 0; r == 0 && i < count; i++) {
        known &= !has_hole(&words[i]);
        r = atoll_buf_appendf(&text, "%s%s", i ? " " : "", words[i].text);
    }
    if (r < 0)
        r = atoll_shell_refuse(ps, "it is too long");
    else
        r = known ? run_text(ps, atoll_buf_str(&text), depth) : add_unknown(ps);
    atoll_buf_done(&text);
    return r;
}

/* find … -exec COMMAND ; */
static int run_find(struct atoll_shell_parser *ps, const struct atoll_shell_word *words,
                    size_t count, unsigned depth)
{
    static const char *const actions[] = {"-exec", "-execdir", "-ok", "-okdir", NULL};
    int r = 0;

    for (size_t i = 1; r == 0 && i < count; i++) {
        struct atoll_shell_words inner = {0};
        bool runs = false;

        for (const char *const *action = actions; *action; action++)
            runs |= strcmp(words[i].text, *action) == 0;
        if (!runs)
            continue;
        for (i++; i < count && strcmp(words[i].text, ";") != 0 && strcmp(words[i].text, "+") != 0;
             i++)
            atoll_shell_words_add(
                &inner, strdup(strstr(words[i].text, "{}") ? hole : words[i].text), words[i].many);
        r = atoll_shell_emit(ps, inner.words, inner.count, depth);
        atoll_shell_words_done(&inner);
    }
    return r;
}

static bool is_long_with_value(const struct runner *runner, const char *option)
{
    for (const char *const *p = runner->long_with_value; p && *p; p++)
        if (strcmp(option, *p) == 0)
            return true;
    return false;
}

/* Whether the value of an option is the next word. */
static bool value_follows(const struct runner *runner, const char *option)
{
    if (option[1] == '-')
        return is_long_with_value(runner, option);
    for (const char *p = option + 1; *p; p++)
        if (strchr(runner->with_value, *p))
            return !p[1];
    return false;
}

/* Where the command of a runner begins; count: it has none. SIZE_MAX: that is not known. */
static size_t find_command(const struct runner *runner, const struct atoll_shell_word *words,
                           size_t count)
{
    size_t i = 1;

    for (; i < count && words[i].text[0] == '-' && words[i].text[1]; i++) {
        if (has_hole(&words[i]) || strncmp(words[i].text, "-S", 2) == 0 ||
            strncmp(words[i].text, "--split", 7) == 0)
            return SIZE_MAX;
        if (strcmp(words[i].text, "--") == 0) {
            i++;
            break;
        }
        i += value_follows(runner, words[i].text);
    }
    while (i < count && runner->variables && atoll_shell_is_assignment(words[i].text))
        i++;
    for (unsigned k = 0; k < runner->skip && i < count; k++) {
        if (words[i].many)
            return SIZE_MAX;
        i++;
    }
    return ATOLL_MIN(i, count);
}

static int run_runner(struct atoll_shell_parser *ps, const struct runner *runner,
                      const struct atoll_shell_word *words, size_t count, unsigned depth)
{
    struct atoll_shell_words inner = {0};
    size_t from = find_command(runner, words, count);
    int r;

    if (from == SIZE_MAX)
        return add_unknown(ps);
    for (size_t i = from; i < count; i++)
        atoll_shell_words_add(&inner, strdup(words[i].text), words[i].many);
    if (strcmp(runner->name, "xargs") == 0 && inner.count > 0)
        atoll_shell_words_add(&inner, strdup(hole), true);
    r = atoll_shell_emit(ps, inner.words, inner.count, depth);
    atoll_shell_words_done(&inner);
    return r;
}

static const struct runner *find_runner(const char *name)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(runners); i++)
        if (strcmp(runners[i].name, name) == 0)
            return &runners[i];
    return NULL;
}

static bool is_shell(const char *name)
{
    for (const char *const *p = shells; *p; p++)
        if (strcmp(name, *p) == 0)
            return true;
    return false;
}

/* Index of the text after -c of su and similar programs; 0: none. */
static size_t find_su_text(const struct atoll_shell_word *words, size_t count)
{
    for (size_t i = 1; i + 1 < count; i++)
        if (strcmp(words[i].text, "-c") == 0 || strcmp(words[i].text, "--command") == 0)
            return i + 1;
    return 0;
}

static int emit_known(struct atoll_shell_parser *ps, const char *name,
                      const struct atoll_shell_word *words, size_t count, unsigned depth)
{
    const struct runner *runner = find_runner(name);
    size_t before = ps->out->count, at;
    int r = 0;

    if (is_shell(name)) {
        r = run_shell(ps, words, count, depth);
        return r < 0 ? r : add(ps, words, count, r == 0);
    }
    if (runner)
        r = run_runner(ps, runner, words, count, depth);
    else if (strcmp(name, "eval") == 0 || strcmp(name, "watch") == 0)
        r = run_words(ps, words + 1, count - 1, depth);
    else if ((strcmp(name, "source") == 0 || strcmp(name, ".") == 0) && count > 1 &&
             is_input(words[1].text))
        r = add_unknown(ps);
    else if (strcmp(name, "trap") == 0 && count > 1)
        r = run_words(ps, words + 1, 1, depth);
    else if (strcmp(name, "find") == 0)
        r = run_find(ps, words, count, depth);
    else if ((strcmp(name, "su") == 0 || strcmp(name, "runuser") == 0) &&
             (at = find_su_text(words, count)) > 0)
        r = run_words(ps, words + at, 1, depth);
    if (r < 0)
        return r;
    return add(ps, words, count,
               ps->out->count > before && ((runner && runner->plain) || strcmp(name, "eval") == 0));
}

int atoll_shell_emit(struct atoll_shell_parser *ps, const struct atoll_shell_word *words,
                     size_t count, unsigned depth)
{
    if (count == 0)
        return 0;
    if (depth >= ATOLL_SHELL_DEPTH_MAX)
        return atoll_shell_refuse(ps, "it is nested too deeply");
    return emit_known(ps, base_name(words[0].text), words, count, depth + 1);
}

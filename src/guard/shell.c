#include "guard/shell.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "guard/shell_internal.h"

/*
 * Lists of commands. Keywords are skipped, as if "if", "then" and "do" were separators: which commands run, and how
 * often, does not matter here. Only parentheses nest, since a substitution ends at its own.
 */

int atoll_shell_refuse(struct atoll_shell_parser *ps, const char *what)
{
    return atoll_fail(ps->err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                      "the command cannot be taken apart: %s", what);
}

void atoll_shell_words_add(struct atoll_shell_words *words, char *text, bool many)
{
    if (!text)
        abort(); /* small objects: the daemon is crash-only */
    if (words->count == words->capacity) {
        words->capacity = words->capacity ? 2 * words->capacity : 8;
        words->words = reallocarray(words->words, words->capacity, sizeof(*words->words));
        if (!words->words)
            abort();
    }
    words->words[words->count++] = (struct atoll_shell_word){text, many};
}

void atoll_shell_words_done(struct atoll_shell_words *words)
{
    for (size_t i = 0; i < words->count; i++)
        free(words->words[i].text);
    free(words->words);
    *words = (struct atoll_shell_words){0};
}

void atoll_shell_done(struct atoll_shell *shell)
{
    for (size_t i = 0; i < shell->count; i++) {
        for (size_t k = 0; k < shell->commands[i].count; k++)
            free(shell->commands[i].words[k].text);
        free(shell->commands[i].words);
    }
    free(shell->commands);
    *shell = (struct atoll_shell){0};
}

static bool at(const struct atoll_shell_parser *ps, const char *text)
{
    size_t n = strlen(text);

    return (size_t)(ps->end - ps->p) >= n && memcmp(ps->p, text, n) == 0;
}

static bool take(struct atoll_shell_parser *ps, const char *text)
{
    if (!at(ps, text))
        return false;
    ps->p += strlen(text);
    return true;
}

static void skip_blanks(struct atoll_shell_parser *ps)
{
    while (ps->p < ps->end && (strchr(" \t\r", *ps->p) || at(ps, "\\\n")))
        ps->p += *ps->p == '\\' ? 2 : 1;
    if (ps->p < ps->end && *ps->p == '#')
        while (ps->p < ps->end && *ps->p != '\n')
            ps->p++;
}

/* Here-documents. */

static void drop_heredocs(struct atoll_shell_parser *ps)
{
    for (size_t i = 0; i < ps->heredoc_count; i++)
        free(ps->heredocs[i].delimiter);
    ps->heredoc_count = 0;
}

static bool is_delimiter(const char *line, size_t n, const char *delimiter, bool tabs)
{
    while (tabs && n > 0 && *line == '\t') {
        line++;
        n--;
    }
    return n == strlen(delimiter) && memcmp(line, delimiter, n) == 0;
}

/* After the newline of the line with "<<". */
static int read_heredocs(struct atoll_shell_parser *ps)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < ps->heredoc_count; i++) {
        const char *body = ps->p, *body_end = ps->p;

        while (ps->p < ps->end) {
            const char *newline = memchr(ps->p, '\n', (size_t)(ps->end - ps->p));
            const char *line = ps->p, *line_end = newline ? newline : ps->end;

            ps->p = newline ? newline + 1 : ps->end;
            if (is_delimiter(line, (size_t)(line_end - line), ps->heredocs[i].delimiter,
                             ps->heredocs[i].tabs))
                break;
            body_end = ps->p;
        }
        if (!ps->heredocs[i].quoted)
            r = atoll_shell_read_body(ps, body, (size_t)(body_end - body));
    }
    drop_heredocs(ps);
    return r;
}

static int note_heredoc(struct atoll_shell_parser *ps, bool tabs)
{
    struct atoll_shell_read word;
    int r;

    skip_blanks(ps);
    r = atoll_shell_read_word(ps, &word);
    if (r == 0 && (!word.any || ps->heredoc_count == ATOLL_SHELL_HEREDOCS))
        r = atoll_shell_refuse(ps, "a here-document has no end, or there are too many");
    if (r == 0) {
        ps->heredocs[ps->heredoc_count].delimiter = strdup(atoll_buf_str(&word.text));
        if (!ps->heredocs[ps->heredoc_count].delimiter)
            abort();
        ps->heredocs[ps->heredoc_count].quoted = word.quoted;
        ps->heredocs[ps->heredoc_count++].tabs = tabs;
    }
    atoll_buf_done(&word.text);
    return r;
}

/* Redirections. */

static bool at_redirection(const struct atoll_shell_parser *ps)
{
    return at(ps, "<") || at(ps, ">") || at(ps, "&>");
}

/* A word that is not part of a command; commands in it are. */
static int skip_word(struct atoll_shell_parser *ps)
{
    struct atoll_shell_read word;
    int r;

    skip_blanks(ps);
    if (at(ps, "<(") || at(ps, ">(")) {
        ps->p += 2;
        ps->depth++;
        r = ps->depth > ATOLL_SHELL_DEPTH_MAX ? atoll_shell_refuse(ps, "it is nested too deeply")
                                              : atoll_shell_read_list(ps, ')');
        ps->depth--;
        return r;
    }
    r = atoll_shell_read_word(ps, &word);
    if (r == 0 && !word.any)
        r = atoll_shell_refuse(ps, "a redirection has no target");
    atoll_buf_done(&word.text);
    return r;
}

/* Returns 1 if it was the substitution of a process, which is a word. */
static int read_redirection(struct atoll_shell_parser *ps)
{
    static const char *const operators[] = {"&>>", "&>", ">>", ">|", ">&", "<&", "<>", ">", "<"};

    if (at(ps, "<(") || at(ps, ">("))
        return skip_word(ps) < 0 ? -EINVAL : 1;
    if (take(ps, "<<<"))
        return skip_word(ps);
    if (take(ps, "<<-"))
        return note_heredoc(ps, true);
    if (take(ps, "<<"))
        return note_heredoc(ps, false);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(operators); i++)
        if (take(ps, operators[i]))
            break;
    return skip_word(ps);
}

/* Commands. */

static bool is_number(const char *text)
{
    return *text && strspn(text, "0123456789") == strlen(text);
}

static bool is_one_of(const char *text, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(text, *list) == 0)
            return true;
    return false;
}

static bool is_keyword(const char *text)
{
    static const char *const keywords[] = {"if",    "then",   "elif", "else", "fi", "while",
                                           "until", "do",     "done", "{",    "}",  "esac",
                                           "!",     "coproc", "time", NULL};
    return is_one_of(text, keywords);
}

static int read_list_items(struct atoll_shell_parser *ps, char closer, bool in_case);

/* case WORD in [(]PATTERN[|PATTERN]…) LIST ;; … esac, after "case". */
static int read_case(struct atoll_shell_parser *ps)
{
    struct atoll_shell_read word;
    bool ended = false;
    int r = skip_word(ps);

    while (r == 0 && ps->p < ps->end && strchr(" \t\r\n", *ps->p))
        ps->p++;
    if (r == 0 && !take(ps, "in"))
        r = atoll_shell_refuse(ps, "a case has no \"in\"");
    while (r == 0 && !ended) {
        while (ps->p < ps->end && strchr(" \t\r\n;&", *ps->p))
            ps->p++;
        skip_blanks(ps);
        if (ps->p < ps->end && strchr("(|\n", *ps->p)) {
            ps->p++;
            continue;
        }
        if (take(ps, ")")) {
            r = read_list_items(ps, ';', true);
            /* it stopped in front of ";;" or after "esac" */
            ended = r == 1;
            r = ATOLL_MIN(r, 0);
            continue;
        }
        r = atoll_shell_read_word(ps, &word);
        if (r == 0 && !word.any)
            r = atoll_shell_refuse(ps, "a case is not closed");
        ended = r == 0 && !word.quoted && strcmp(atoll_buf_str(&word.text), "esac") == 0;
        atoll_buf_done(&word.text);
    }
    return r;
}

/* [[ … ]]: tests, after "[[". */
static int read_test(struct atoll_shell_parser *ps)
{
    struct atoll_shell_read word;
    int r = 0;

    for (;;) {
        bool ended;

        while (ps->p < ps->end && strchr(" \t\r\n;&|<>()", *ps->p))
            ps->p++;
        if (ps->p == ps->end)
            return atoll_shell_refuse(ps, "a [[ is not closed");
        r = atoll_shell_read_word(ps, &word);
        ended = r == 0 && strcmp(atoll_buf_str(&word.text), "]]") == 0;
        atoll_buf_done(&word.text);
        if (r < 0 || ended)
            return r;
    }
}

/* for NAME in WORD…; select likewise. */
static int read_for(struct atoll_shell_parser *ps)
{
    skip_blanks(ps);
    if (take(ps, "(("))
        return atoll_shell_skip_arithmetic(ps);
    while (ps->p < ps->end && !strchr("\n;&|()", *ps->p)) {
        int r = at_redirection(ps) ? read_redirection(ps) : skip_word(ps);

        if (r < 0)
            return r;
        skip_blanks(ps);
    }
    return 0;
}

enum kept { WORD_KEPT, COMMAND_DONE };

/* A word at the beginning of a command may be a keyword. Returns 1 if the command goes on with another word. */
static int take_keyword(struct atoll_shell_parser *ps, const char *text)
{
    if (strcmp(text, "case") == 0)
        return read_case(ps) < 0 ? -EINVAL : 1;
    if (strcmp(text, "for") == 0 || strcmp(text, "select") == 0)
        return read_for(ps) < 0 ? -EINVAL : 1;
    if (strcmp(text, "[[") == 0)
        return read_test(ps) < 0 ? -EINVAL : 1;
    if (strcmp(text, "function") == 0)
        return skip_word(ps) < 0 ? -EINVAL : 1;
    return is_keyword(text);
}

/* NAME (): the definition of a function. */
static bool take_function(struct atoll_shell_parser *ps)
{
    const char *p = ps->p;

    while (p < ps->end && (*p == ' ' || *p == '\t'))
        p++;
    if (p == ps->end || *p++ != '(')
        return false;
    while (p < ps->end && (*p == ' ' || *p == '\t'))
        p++;
    if (p == ps->end || *p++ != ')')
        return false;
    ps->p = p;
    return true;
}

/* Adds the next word to the command. */
static int read_command_word(struct atoll_shell_parser *ps, struct atoll_shell_words *words)
{
    struct atoll_shell_read word;
    int r = atoll_shell_read_word(ps, &word);
    const char *text = r == 0 ? atoll_buf_str(&word.text) : "";
    bool first = words->count == 0;

    if (r == 0 && !word.any)
        r = ps->p < ps->end && (*ps->p == '(' || *ps->p == ')')
                ? atoll_shell_refuse(ps, "a parenthesis is where none can be")
                : 0; /* only "\" and a newline */
    else if (r == 0 && is_number(text) && !word.quoted && (at(ps, "<") || at(ps, ">")))
        r = 0; /* of a descriptor */
    else if (r == 0 && first && !word.quoted && atoll_shell_is_assignment(text))
        r = 0;
    else if (r == 0 && first && !word.quoted && (r = take_keyword(ps, text)) != 0)
        r = ATOLL_MIN(r, 0);
    else if (r == 0 && first && take_function(ps))
        r = 0;
    else if (r == 0)
        atoll_shell_words_add(words, strdup(text), word.many);
    atoll_buf_done(&word.text);
    return r;
}

static int emit(struct atoll_shell_parser *ps, struct atoll_shell_words *words)
{
    int r = atoll_shell_emit(ps, words->words, words->count, ps->depth);

    atoll_shell_words_done(words);
    return r;
}

static int read_process(struct atoll_shell_parser *ps, struct atoll_shell_words *words)
{
    static const char hole[] = {ATOLL_SHELL_HOLE, '\0'};
    int r = read_redirection(ps);

    if (r == 1)
        atoll_shell_words_add(words, strdup(hole), false);
    return ATOLL_MIN(r, 0);
}

/* At an operator. Returns 1 at the end of the list. */
static int read_operator(struct atoll_shell_parser *ps, struct atoll_shell_words *words,
                         char closer, bool in_case)
{
    char c = *ps->p;
    int r = 0;

    if (c == '(' && words->count > 0)
        return atoll_shell_refuse(ps, "a ( is where none can be");
    r = emit(ps, words);
    if (r < 0)
        return r;
    if (in_case && (at(ps, ";;") || at(ps, ";&")))
        return 1;
    ps->p++;
    if (c == ')')
        return closer == ')' ? 1 : atoll_shell_refuse(ps, "there is a ) without a (");
    if (c == '\n')
        return read_heredocs(ps);
    if (c != '(')
        return 0;
    if (take(ps, "("))
        return atoll_shell_skip_arithmetic(ps);
    if (ps->depth >= ATOLL_SHELL_DEPTH_MAX)
        return atoll_shell_refuse(ps, "it is nested too deeply");
    ps->depth++;
    r = atoll_shell_read_list(ps, ')');
    ps->depth--;
    return r;
}

/* "esac" ends the last list of a case, which needs no ";;". */
static bool take_esac(struct atoll_shell_parser *ps, const struct atoll_shell_words *words)
{
    if (words->count > 0 || !at(ps, "esac") ||
        (ps->p + 4 < ps->end && !strchr(" \t\r\n;&|<>)", ps->p[4])))
        return false;
    ps->p += 4;
    return true;
}

/* In a case: returns 1 after "esac", 0 in front of ";;". */
static int read_list_items(struct atoll_shell_parser *ps, char closer, bool in_case)
{
    struct atoll_shell_words words = {0};
    int r = 0;

    if (in_case && ps->depth >= ATOLL_SHELL_DEPTH_MAX)
        return atoll_shell_refuse(ps, "it is nested too deeply");
    ps->depth += in_case;
    while (r == 0) {
        skip_blanks(ps);
        if (ps->p == ps->end) {
            r = closer ? atoll_shell_refuse(ps, "a ( or case is not closed") : emit(ps, &words);
            r = r < 0 ? r : 1;
        } else if (in_case && take_esac(ps, &words)) {
            r = 2;
        } else if (at_redirection(ps)) {
            r = read_process(ps, &words);
        } else if (strchr("\n;&|()", *ps->p)) {
            r = read_operator(ps, &words, closer, in_case);
        } else {
            r = read_command_word(ps, &words);
        }
    }
    ps->depth -= in_case;
    atoll_shell_words_done(&words);
    return r < 0 ? r : r - 1;
}

int atoll_shell_read_list(struct atoll_shell_parser *ps, char closer)
{
    return read_list_items(ps, closer, false);
}

int atoll_shell_read_text(struct atoll_shell_parser *ps, const char *text, size_t n)
{
    struct atoll_shell_parser inner = {.p = text,
                                       .end = n > 0 ? text + n : text,
                                       .depth = ps->depth + 1,
                                       .out = ps->out,
                                       .err = ps->err};
    int r = 0;

    if (n == 0)
        return 0;
    if (inner.depth > ATOLL_SHELL_DEPTH_MAX)
        return atoll_shell_refuse(ps, "it is nested too deeply");
    r = atoll_shell_read_list(&inner, '\0');
    drop_heredocs(&inner);
    return r;
}

int atoll_shell_parse(const char *text, size_t n, struct atoll_shell *ret, struct atoll_error *err)
{
    struct atoll_shell_parser ps = {.p = text, .end = text + n, .out = ret, .err = err};
    int r;

    *ret = (struct atoll_shell){0};
    if (n == 0)
        return 0;
    if (n > ATOLL_SHELL_TEXT_MAX)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, E2BIG,
                          "the command cannot be taken apart: it is larger than %zu KiB",
                          ATOLL_SHELL_TEXT_MAX / 1024);
    if (memchr(text, '\0', n) || memchr(text, ATOLL_SHELL_HOLE, n))
        return atoll_shell_refuse(&ps, "it has bytes that are not text");
    r = atoll_shell_read_list(&ps, '\0');
    drop_heredocs(&ps);
    return r;
}

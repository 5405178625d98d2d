#include <errno.h>
#include <string.h>
#include "guard/shell_internal.h"

/*
 * Words: quotes, expansions and substitutions. What the shell puts in place of an expansion is a hole; commands in
 * substitutions are read where they are.
 */

static bool at(const struct atoll_shell_parser *ps, const char *text)
{
    size_t n = strlen(text);

    return (size_t)(ps->end - ps->p) >= n && memcmp(ps->p, text, n) == 0;
}

static int put(struct atoll_shell_parser *ps, struct atoll_shell_read *w, char c)
{
    w->any = true;
    return atoll_buf_append(&w->text, &c, 1) == 0
               ? 0
               : atoll_shell_refuse(ps, "a word of it is too long");
}

/* What an expansion becomes; without quotes it can be any number of words. */
static int put_hole(struct atoll_shell_parser *ps, struct atoll_shell_read *w, bool in_quotes)
{
    w->many |= !in_quotes;
    return put(ps, w, ATOLL_SHELL_HOLE);
}

/* After the first backquote. Its text is unquoted once before it is read. */
static int read_backquoted(struct atoll_shell_parser *ps)
{
    struct atoll_buf inner;
    int r = 0;

    atoll_buf_init(&inner, ATOLL_SHELL_TEXT_MAX);
    while (ps->p < ps->end && *ps->p != '`' && r == 0) {
        if (*ps->p == '\\' && ps->p + 1 < ps->end && strchr("`\\$", ps->p[1]))
            ps->p++;
        r = atoll_buf_append(&inner, ps->p++, 1);
    }
    if (r == 0 && ps->p == ps->end)
        r = atoll_shell_refuse(ps, "a ` is not closed");
    if (r == 0) {
        ps->p++;
        r = atoll_shell_read_text(ps, (const char *)atoll_buf_head(&inner), atoll_buf_size(&inner));
    }
    atoll_buf_done(&inner);
    return r;
}

static int skip_single(struct atoll_shell_parser *ps)
{
    const char *end = memchr(ps->p, '\'', (size_t)(ps->end - ps->p));

    if (!end)
        return atoll_shell_refuse(ps, "a ' is not closed");
    ps->p = end + 1;
    return 0;
}

static int read_expansion(struct atoll_shell_parser *ps, struct atoll_shell_read *w,
                          bool in_quotes);

/* Reads to the end of double quotes, whose first one was consumed. */
static int read_double(struct atoll_shell_parser *ps, struct atoll_shell_read *w)
{
    int r = 0;

    while (r == 0 && ps->p < ps->end && *ps->p != '"') {
        if (*ps->p == '\\' && ps->p + 1 < ps->end && strchr("$`\"\\\n", ps->p[1])) {
            r = ps->p[1] == '\n' ? 0 : put(ps, w, ps->p[1]);
            ps->p += 2;
        } else if (*ps->p == '$' || *ps->p == '`') {
            r = read_expansion(ps, w, true);
        } else {
            r = put(ps, w, *ps->p++);
        }
    }
    if (r == 0 && ps->p == ps->end)
        return atoll_shell_refuse(ps, "a \" is not closed");
    ps->p++;
    return r;
}

/* What is quoted or substituted inside of something that is skipped: ${…}, ((…)). Returns 1 if it was something. */
static int skip_part(struct atoll_shell_parser *ps)
{
    struct atoll_shell_read part = {0};
    int r;

    if (*ps->p == '\\') {
        ps->p += ps->p + 1 < ps->end ? 2 : 1;
        return 1;
    }
    if (*ps->p != '\'' && *ps->p != '"' && *ps->p != '$' && *ps->p != '`')
        return 0;
    atoll_buf_init(&part.text, ATOLL_SHELL_TEXT_MAX);
    if (*ps->p == '\'') {
        ps->p++;
        r = skip_single(ps);
    } else if (*ps->p == '"') {
        ps->p++;
        r = read_double(ps, &part);
    } else {
        r = read_expansion(ps, &part, true);
    }
    atoll_buf_done(&part.text);
    return r < 0 ? r : 1;
}

/* After "${". */
static int skip_parameter(struct atoll_shell_parser *ps)
{
    while (ps->p < ps->end && *ps->p != '}') {
        int r = skip_part(ps);

        if (r < 0)
            return r;
        if (r == 0)
            ps->p++;
    }
    if (ps->p == ps->end)
        return atoll_shell_refuse(ps, "a ${ is not closed");
    ps->p++;
    return 0;
}

int atoll_shell_skip_arithmetic(struct atoll_shell_parser *ps)
{
    unsigned open = 2;

    while (ps->p < ps->end && open > 0) {
        int r = skip_part(ps);

        if (r < 0)
            return r;
        if (r > 0)
            continue;
        open += *ps->p == '(';
        open -= *ps->p == ')';
        if (open == 1 && (ps->p + 1 == ps->end || ps->p[1] != ')'))
            return atoll_shell_refuse(ps, "arithmetic does not end with ))");
        ps->p++;
    }
    return open == 0 ? 0 : atoll_shell_refuse(ps, "arithmetic does not end with ))");
}

/* A nested list of commands, up to its ')'. */
static int read_nested(struct atoll_shell_parser *ps)
{
    int r;

    if (ps->depth >= ATOLL_SHELL_DEPTH_MAX)
        return atoll_shell_refuse(ps, "it is nested too deeply");
    ps->depth++;
    r = atoll_shell_read_list(ps, ')');
    ps->depth--;
    return r;
}

/* At a '$' or '`'. */
static int read_expansion(struct atoll_shell_parser *ps, struct atoll_shell_read *w, bool in_quotes)
{
    int r = 0;

    if (*ps->p++ == '`') {
        r = read_backquoted(ps);
    } else if (at(ps, "((")) {
        ps->p += 2;
        r = atoll_shell_skip_arithmetic(ps);
    } else if (at(ps, "(")) {
        ps->p++;
        r = read_nested(ps);
    } else if (at(ps, "{")) {
        ps->p++;
        if (ps->depth >= ATOLL_SHELL_DEPTH_MAX)
            return atoll_shell_refuse(ps, "it is nested too deeply");
        ps->depth++;
        r = skip_parameter(ps);
        ps->depth--;
    } else if (ps->p < ps->end && strchr("@*#?$!-0123456789", *ps->p)) {
        ps->p++;
    } else if (ps->p < ps->end &&
               (*ps->p == '_' || ((*ps->p | 32) >= 'a' && (*ps->p | 32) <= 'z'))) {
        while (ps->p < ps->end && (*ps->p == '_' || (*ps->p >= '0' && *ps->p <= '9') ||
                                   ((*ps->p | 32) >= 'a' && (*ps->p | 32) <= 'z')))
            ps->p++;
    } else {
        return put(ps, w, '$');
    }
    return r < 0 ? r : put_hole(ps, w, in_quotes);
}

/* $'…': its escapes can make any text. */
static int read_ansi(struct atoll_shell_parser *ps, struct atoll_shell_read *w)
{
    bool escapes = false;
    int r = 0;

    while (ps->p < ps->end && *ps->p != '\'' && r == 0) {
        if (*ps->p == '\\') {
            escapes = true;
            ps->p += ps->p + 1 < ps->end ? 2 : 1;
        } else {
            r = put(ps, w, *ps->p++);
        }
    }
    if (r == 0 && ps->p == ps->end)
        return atoll_shell_refuse(ps, "a $' is not closed");
    ps->p++;
    if (r == 0 && escapes) {
        atoll_buf_clear(&w->text);
        r = put_hole(ps, w, true);
    }
    return r;
}

static int read_single(struct atoll_shell_parser *ps, struct atoll_shell_read *w)
{
    int r = 0;

    while (r == 0 && ps->p < ps->end && *ps->p != '\'')
        r = put(ps, w, *ps->p++);
    if (r == 0 && ps->p == ps->end)
        return atoll_shell_refuse(ps, "a ' is not closed");
    ps->p++;
    return r;
}

bool atoll_shell_is_assignment(const char *text)
{
    const char *p = text;

    if (*p != '_' && ((*p | 32) < 'a' || (*p | 32) > 'z'))
        return false;
    while (*p == '_' || (*p >= '0' && *p <= '9') || ((*p | 32) >= 'a' && (*p | 32) <= 'z'))
        p++;
    if (*p == '[')
        while (*p && *p++ != ']')
            ;
    return *p == '=' || (*p == '+' && p[1] == '=');
}

/* NAME=( … ): the words of an array. */
static int read_array(struct atoll_shell_parser *ps, struct atoll_shell_read *w)
{
    ps->p++;
    for (;;) {
        struct atoll_shell_read one = {0};
        int r;

        while (ps->p < ps->end && strchr(" \t\r\n", *ps->p))
            ps->p++;
        if (ps->p == ps->end)
            return atoll_shell_refuse(ps, "an array is not closed");
        if (*ps->p == ')') {
            ps->p++;
            return put_hole(ps, w, true);
        }
        if (strchr(";&|<>(", *ps->p))
            return atoll_shell_refuse(ps, "an array has an operator");
        r = atoll_shell_read_word(ps, &one);
        atoll_buf_done(&one.text);
        if (r < 0)
            return r;
    }
}

static int read_quoted(struct atoll_shell_parser *ps, struct atoll_shell_read *w, bool is_double)
{
    w->any = w->quoted = true;
    ps->p++;
    return is_double ? read_double(ps, w) : read_single(ps, w);
}

/* After a '[': whether a ']' closes it in the same word. */
static bool is_set(const struct atoll_shell_parser *ps)
{
    for (const char *p = ps->p; p < ps->end && !strchr(" \t\r\n;&|<>()", *p); p++)
        if (*p == ']')
            return true;
    return false;
}

/* One character or quoted part of a word. */
static int read_part(struct atoll_shell_parser *ps, struct atoll_shell_read *w)
{
    char c = *ps->p;

    if (c == '\'' || c == '"')
        return read_quoted(ps, w, c == '"');
    if (at(ps, "$\"") || at(ps, "$'")) {
        ps->p++;
        if (*ps->p == '"')
            return read_quoted(ps, w, true);
        w->any = w->quoted = true;
        ps->p++;
        return read_ansi(ps, w);
    }
    if (c == '$' || c == '`')
        return read_expansion(ps, w, false);
    ps->p++;
    if (c == '\\') {
        if (ps->p == ps->end)
            return atoll_shell_refuse(ps, "it ends with a \\");
        w->quoted |= *ps->p != '\n';
        return *ps->p++ == '\n' ? 0 : put(ps, w, ps->p[-1]);
    }
    if (c == '*' || c == '?' || (c == '[' && is_set(ps)))
        return put(ps, w, ATOLL_SHELL_HOLE); /* the names of files: at least one word */
    if (c == '{' && ps->p < ps->end && !strchr("} \t\r\n;&|<>()", *ps->p))
        return put_hole(ps, w, false); /* {a,b} */
    return put(ps, w, c);
}

int atoll_shell_read_word(struct atoll_shell_parser *ps, struct atoll_shell_read *w)
{
    int r = 0;

    *w = (struct atoll_shell_read){0};
    atoll_buf_init(&w->text, ATOLL_SHELL_TEXT_MAX);
    while (r == 0 && ps->p < ps->end && !strchr(" \t\r\n;&|<>()", *ps->p))
        r = read_part(ps, w);
    if (r == 0 && at(ps, "(") && atoll_buf_size(&w->text) > 0 &&
        atoll_buf_head(&w->text)[atoll_buf_size(&w->text) - 1] == '=' &&
        atoll_shell_is_assignment(atoll_buf_str(&w->text)))
        r = read_array(ps, w);
    return r;
}

int atoll_shell_read_body(struct atoll_shell_parser *ps, const char *text, size_t n)
{
    const char *p = ps->p, *end = ps->end;
    struct atoll_shell_read unused = {0};
    int r = 0;

    if (n == 0)
        return 0;
    ps->p = text;
    ps->end = text + n;
    atoll_buf_init(&unused.text, ATOLL_SHELL_TEXT_MAX);
    while (r == 0 && ps->p < ps->end) {
        if (*ps->p == '\\')
            ps->p += ps->p + 1 < ps->end ? 2 : 1;
        else if (*ps->p == '$' || *ps->p == '`')
            r = read_expansion(ps, &unused, true);
        else
            ps->p++;
    }
    atoll_buf_done(&unused.text);
    ps->p = p;
    ps->end = end;
    return r;
}

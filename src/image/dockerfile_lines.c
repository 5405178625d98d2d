/*
 * Lines of a Dockerfile: directives ("# escape=`"), comments, continuation lines, here-documents.
 */
#include <errno.h>
#include <string.h>
#include <strings.h>
#include "base/buf.h"
#include "image/dockerfile_internal.h"
#include "image/lex.h"

struct span {
    const char *p;
    size_t n;
};

static struct span trim_left(struct span s)
{
    while (s.n > 0 && atoll_lex_is_space(*s.p)) {
        s.p++;
        s.n--;
    }
    return s;
}

static struct span trim_right(struct span s)
{
    while (s.n > 0 && atoll_lex_is_space(s.p[s.n - 1]))
        s.n--;
    return s;
}

static bool is_comment(struct span s)
{
    s = trim_left(s);
    return s.n > 0 && *s.p == '#';
}

/* Reads one line without its end; false at the end of the text. *ret_whole has the end too. */
static bool read_line(struct atoll_dockerfile_reader *r, struct span *ret, struct span *ret_whole)
{
    const char *newline;
    struct span whole = {.p = r->p};

    if (r->p == r->end)
        return false;
    newline = memchr(r->p, '\n', (size_t)(r->end - r->p));
    r->p = newline ? newline + 1 : r->end;
    whole.n = (size_t)(r->p - whole.p);
    *ret = *ret_whole = whole;
    while (ret->n > 0 && (ret->p[ret->n - 1] == '\n' || ret->p[ret->n - 1] == '\r'))
        ret->n--;
    r->line++;
    return true;
}

static const char *const directives[] = {"syntax", "escape", "check"};
enum { SYNTAX, ESCAPE };

static int set_directive(struct atoll_dockerfile_reader *r, size_t which, struct span value,
                         struct atoll_error *err)
{
    if (r->seen & 1u << which)
        return atoll_recipe_refuse(err, r->line, "the directive %s is given twice",
                                   directives[which]);
    r->seen |= 1u << which;
    if (which == ESCAPE) {
        if (value.n != 1 || (*value.p != '\\' && *value.p != '`'))
            return atoll_recipe_refuse(err, r->line, "the directive escape is either \\ or `");
        r->escape = *value.p;
    }
    if (which == SYNTAX) {
        r->syntax = atoll_recipe_text(r->memory, value.p, value.n);
        if (!r->syntax)
            return atoll_recipe_no_room(err);
    }
    return 0;
}

/* "# name = value" before everything else. Another line ends the directives. */
static int read_directive(struct atoll_dockerfile_reader *r, struct span s, struct atoll_error *err)
{
    struct span name, value;
    const char *equals;

    if (r->directives_done)
        return 0;
    r->directives_done = true;
    if (s.n == 0 || *s.p != '#')
        return 0;
    s = trim_left((struct span){s.p + 1, s.n - 1});
    equals = s.n > 0 ? memchr(s.p, '=', s.n) : NULL;
    if (!equals)
        return 0;
    name = trim_right((struct span){s.p, (size_t)(equals - s.p)});
    value = trim_right(trim_left((struct span){equals + 1, s.n - (size_t)(equals - s.p) - 1}));
    for (size_t i = 0; value.n > 0 && i < ATOLL_ARRAY_LEN(directives); i++) {
        if (name.n == strlen(directives[i]) && strncasecmp(name.p, directives[i], name.n) == 0) {
            r->directives_done = false;
            return set_directive(r, i, value, err);
        }
    }
    return 0;
}

/* Removes the escape character that ends a line which is continued. Two of them are not one. */
static bool cut_continuation(struct span *s, char escape)
{
    size_t n = s->n;

    while (n > 0 && (s->p[n - 1] == ' ' || s->p[n - 1] == '\t'))
        n--;
    if (n == 0 || s->p[n - 1] != escape || (n > 1 && s->p[n - 2] == escape))
        return false;
    s->n = n - 1;
    return true;
}

/* Appends the lines that continue an instruction. */
static int join(struct atoll_dockerfile_reader *r, struct atoll_buf *text,
                struct atoll_dockerfile_line *ret)
{
    struct span s, whole;
    bool more = true;
    int failed = 0;

    while (more && failed == 0 && read_line(r, &s, &whole)) {
        if (is_comment(s))
            continue;
        if (trim_left(s).n == 0) {
            ret->gap = true;
            continue;
        }
        more = cut_continuation(&s, r->escape);
        failed = s.n > 0 ? atoll_buf_append(text, s.p, s.n) : 0;
    }
    return failed;
}

static int finish(struct atoll_dockerfile_reader *r, struct atoll_buf *text,
                  struct atoll_dockerfile_line *ret, struct atoll_error *err)
{
    struct span s = {(const char *)atoll_buf_head(text), atoll_buf_size(text)};

    s = trim_right(trim_left(s));
    if (s.n > 0 && memchr(s.p, '\0', s.n))
        return atoll_recipe_refuse(err, ret->line, "a NUL character");
    ret->text = atoll_recipe_text(r->memory, s.p, s.n);
    ret->last_line = r->line;
    return ret->text ? 1 : atoll_recipe_no_room(err);
}

int atoll_dockerfile_next(struct atoll_dockerfile_reader *r, struct atoll_dockerfile_line *ret,
                          struct atoll_error *err)
{
    struct span s, whole;
    struct atoll_buf text;
    int failed;

    while (read_line(r, &s, &whole)) {
        if (r->line == 1 && s.n >= 3 && memcmp(s.p, "\xef\xbb\xbf", 3) == 0)
            s = (struct span){s.p + 3, s.n - 3};
        s = trim_left(s);
        if (read_directive(r, s, err) < 0)
            return -EINVAL;
        if (s.n == 0 || *s.p == '#')
            continue;
        *ret = (struct atoll_dockerfile_line){.line = r->line};
        atoll_buf_init(&text, ATOLL_RECIPE_TEXT_MAX);
        failed = 0;
        if (cut_continuation(&s, r->escape)) {
            failed = s.n > 0 ? atoll_buf_append(&text, s.p, s.n) : 0;
            failed = failed == 0 ? join(r, &text, ret) : failed;
        } else {
            failed = atoll_buf_append(&text, s.p, s.n);
        }
        failed = failed < 0 ? atoll_recipe_no_room(err) : finish(r, &text, ret, err);
        atoll_buf_done(&text);
        if (failed < 0 || *ret->text)
            return failed;
    }
    return 0;
}

int atoll_dockerfile_is_heredoc(struct atoll_recipe_memory *m, const char *text,
                                struct atoll_dockerfile_end *ret, struct atoll_error *err)
{
    struct atoll_lex lex = {.escape = '\\', .keep_unset = true};
    const char **words;
    size_t count;

    text += strspn(text, "0123456789");
    if (text[0] != '<' || text[1] != '<')
        return 0;
    text += 2;
    ret->tabs = *text == '-';
    text += ret->tabs;
    while (atoll_lex_is_space(*text))
        text++;
    if (!*text || strchr(text, '<'))
        return 0;
    if (atoll_lex_words(&lex, m, text, &words, &count, err) < 0)
        return -EINVAL;
    if (count != 1)
        return 0;
    ret->name = words[0];
    ret->expand = !strpbrk(text, "'\"");
    return 1;
}

/* Removes tabs at the beginning of a line of a "<<-" document. */
static struct span cut_tabs(struct span s, bool tabs)
{
    while (tabs && s.n > 0 && *s.p == '\t') {
        s.p++;
        s.n--;
    }
    return s;
}

static int read_body(struct atoll_dockerfile_reader *r, const struct atoll_dockerfile_end *end,
                     struct atoll_buf *text, struct atoll_error *err)
{
    struct span s, whole;

    while (read_line(r, &s, &whole)) {
        s = cut_tabs(s, end->tabs);
        if (s.n == strlen(end->name) && memcmp(s.p, end->name, s.n) == 0)
            return 0;
        if (s.n > 0 && memchr(s.p, '\0', s.n))
            return atoll_recipe_refuse(err, r->line, "a NUL character");
        whole = cut_tabs(whole, end->tabs);
        if (whole.n > 0 && atoll_buf_append(text, whole.p, whole.n) < 0)
            return atoll_recipe_no_room(err);
    }
    return -ENODATA;
}

static int read_heredoc(struct atoll_dockerfile_reader *r, const struct atoll_dockerfile_end *end,
                        int line, struct atoll_recipe_heredoc *ret, struct atoll_error *err)
{
    struct atoll_buf text;
    int failed;

    *ret = (struct atoll_recipe_heredoc){end->name, NULL, end->expand, r->line + 1};
    atoll_buf_init(&text, ATOLL_RECIPE_TEXT_MAX);
    failed = read_body(r, end, &text, err);
    if (failed == -ENODATA)
        failed = atoll_recipe_refuse(err, line, "the here-document <<%.60s has no line %.60s",
                                     end->name, end->name);
    if (failed == 0) {
        ret->text = atoll_recipe_text(r->memory, atoll_buf_str(&text), atoll_buf_size(&text));
        if (!ret->text)
            failed = atoll_recipe_no_room(err);
    }
    atoll_buf_done(&text);
    return failed;
}

int atoll_dockerfile_heredocs(struct atoll_dockerfile_reader *r, struct atoll_dockerfile_line *line,
                              const struct atoll_recipe_heredoc **ret, size_t *ret_count,
                              struct atoll_error *err)
{
    const struct atoll_lex lex = {
        .escape = '\\', .raw_quotes = true, .raw_escapes = true, .keep_unset = true};
    struct atoll_recipe_heredoc *docs = NULL;
    struct atoll_dockerfile_end end;
    const char **words;
    size_t count, found = 0;

    /* Quotes that do not match are the shell's business; then there are no here-documents. */
    if (!strstr(line->text, "<<") ||
        atoll_lex_words(&lex, r->memory, line->text, &words, &count, NULL) < 0)
        return 0;
    for (size_t i = 0; i < count; i++) {
        int is = atoll_dockerfile_is_heredoc(r->memory, words[i], &end, err);
        if (is < 0)
            return atoll_recipe_at_line(err, line->line);
        if (!is)
            continue;
        docs = atoll_recipe_grow(r->memory, docs, found, sizeof(*docs));
        if (!docs)
            return atoll_recipe_no_room(err);
        if (read_heredoc(r, &end, line->line, &docs[found++], err) < 0)
            return -EINVAL;
    }
    line->last_line = r->line;
    *ret = docs;
    *ret_count = found;
    return 0;
}

#include "image/lex.h"

#include <errno.h>
#include <string.h>
#include "image/recipe_internal.h"

/* One pass over a text. */
struct run {
    const struct atoll_lex *lex;
    struct atoll_recipe_memory *memory;
    const char *p;    /* next character; the text ends with NUL */
    bool raw_escapes; /* of the part that is being read */
    int depth;        /* of "${" */
    struct atoll_error *err;
};

/* Words as they are found; `text` is the word that has begun. */
struct words {
    struct atoll_buf text;
    bool begun;
    struct atoll_recipe_words list;
};

static int bad(struct run *run, const char *text)
{
    return atoll_fail(run->err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s", text);
}

/* Turns a failure to append into an error. */
static int appended(struct run *run, int r)
{
    if (r == 0)
        return 0;
    return atoll_fail(run->err, ATOLL_ERR_RESOURCE_EXHAUSTED, -r,
                      "a text is too long after its variables were replaced");
}

static int put(struct run *run, struct atoll_buf *out, char c)
{
    return appended(run, atoll_buf_append(out, &c, 1));
}

static int end_word(struct run *run, struct words *w)
{
    int r;

    if (atoll_buf_size(&w->text) == 0)
        return 0;
    r = atoll_recipe_add_word(run->memory, &w->list, (const char *)atoll_buf_head(&w->text),
                              atoll_buf_size(&w->text), run->err);
    atoll_buf_clear(&w->text);
    w->begun = false;
    return r;
}

/* Adds text to the words: as one piece, or split at its white space. */
static int add_words(struct run *run, struct words *w, const char *text, size_t n, bool split)
{
    int r = 0;

    if (!w)
        return 0;
    for (size_t i = 0; r == 0 && i < n; i++) {
        if (!split || !atoll_lex_is_space(text[i])) {
            r = put(run, &w->text, text[i]);
            w->begun = true;
        } else if (w->begun) {
            r = end_word(run, w);
        }
    }
    return r;
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Reads the name of a variable: letters, all digits, or one special parameter of sh. */
static size_t read_name(struct run *run, const char **ret)
{
    static const char digits[] = "0123456789";
    size_t n = 0;

    *ret = run->p;
    if (*run->p >= '0' && *run->p <= '9')
        n = strspn(run->p, digits);
    else if (*run->p && strchr("@*#?-$!", *run->p))
        n = 1;
    else
        while (is_name(run->p[n]))
            n++;
    run->p += n;
    return n;
}

static const char *get(struct run *run, const char *name)
{
    return run->lex->get ? run->lex->get(run->lex->arg, name) : NULL;
}

static int read_until(struct run *run, char stop, bool raw_escapes, struct atoll_buf *out,
                      struct words *w);

/* Reads a part of "${…}" until `stop` into memory. */
static int read_part(struct run *run, char stop, bool raw_escapes, const char *missing,
                     const char **ret)
{
    struct atoll_buf part;
    int r;

    atoll_buf_init(&part, ATOLL_LEX_TEXT_MAX);
    r = read_until(run, stop, raw_escapes, &part, NULL);
    if (r == -ENODATA)
        r = bad(run, missing);
    if (r == 0) {
        *ret = atoll_recipe_text(run->memory, atoll_buf_str(&part), atoll_buf_size(&part));
        if (!*ret)
            r = atoll_recipe_no_room(run->err);
    }
    atoll_buf_done(&part);
    return r;
}

struct operation {
    const char *name, *value; /* value NULL: not set */
    bool empty_is_unset;      /* ":" */
    char op;
    const char *word;
};

static int fail_unset(struct run *run, const struct operation *o)
{
    return atoll_fail(run->err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%.60s: %.200s", o->name,
                      *o->word    ? o->word
                      : !o->value ? "is not allowed to be unset"
                                  : "is not allowed to be empty");
}

static int apply_trim(struct run *run, const struct operation *o, struct atoll_buf *out)
{
    bool longest = *o->word == o->op;

    return atoll_lex_trim(out, o->value ? o->value : "", o->word + longest,
                          o->op == '#' ? ATOLL_LEX_PREFIX : ATOLL_LEX_SUFFIX, longest, run->err);
}

static int apply(struct run *run, const struct operation *o, struct atoll_buf *out)
{
    bool unset = !o->value || (o->empty_is_unset && !*o->value);

    switch (o->op) {
    case '-':
        return appended(run, atoll_buf_appends(out, unset ? o->word : o->value));
    case '+':
        return appended(run, atoll_buf_appends(out, unset ? "" : o->word));
    case '?':
        return unset ? fail_unset(run, o) : appended(run, atoll_buf_appends(out, o->value));
    default:
        return apply_trim(run, o, out);
    }
}

/* "${name OPERATOR word}", behind the name. */
static int read_operation(struct run *run, const char *name, struct atoll_buf *out)
{
    struct operation o = {.name = name, .value = get(run, name)};
    int r;

    if (*run->p == ':') {
        o.empty_is_unset = true;
        run->p++;
    }
    o.op = *run->p;
    if (!o.op || !strchr(o.empty_is_unset ? "-+?" : "-+?#%", o.op))
        return bad(run, o.op ? "unsupported modifier in \"${\"" : "missing \"}\"");
    run->p++;
    r = read_part(run, '}', o.op == '#' || o.op == '%', "missing \"}\"", &o.word);
    if (r < 0)
        return r;
    if (!o.value && run->lex->keep_unset)
        return appended(run, atoll_buf_appendf(out, "${%s%s%c%s}", name,
                                               o.empty_is_unset ? ":" : "", o.op, o.word));
    return apply(run, &o, out);
}

/* "${name/pattern/replacement}" or "${name//pattern/replacement}", behind the first "/". */
static int read_replace(struct run *run, const char *name, struct atoll_buf *out)
{
    const char *value = get(run, name), *pattern, *replacement;
    bool all = *run->p == '/';

    run->p += all;
    if (read_part(run, '/', true, "missing \"/\" in \"${\"", &pattern) < 0 ||
        read_part(run, '}', true, "missing \"}\"", &replacement) < 0)
        return -EINVAL;
    if (!value && run->lex->keep_unset)
        return appended(run, atoll_buf_appendf(out, "${%s/%s%s/%s}", name, all ? "/" : "", pattern,
                                               replacement));
    return atoll_lex_replace(out, value ? value : "", pattern, replacement, all, run->err);
}

static int put_value(struct run *run, const char *name, bool braces, struct atoll_buf *out)
{
    const char *value = get(run, name);

    if (!value && run->lex->keep_unset)
        return appended(run, atoll_buf_appendf(out, braces ? "${%s}" : "$%s", name));
    return appended(run, atoll_buf_appends(out, value ? value : ""));
}

/* Behind "${". */
static int read_braces(struct run *run, struct atoll_buf *out)
{
    const char *at, *name;
    size_t n;

    if (!*run->p)
        return bad(run, "missing \"}\"");
    if (strchr("{}:", *run->p))
        return bad(run, "bad substitution: \"${\" needs the name of a variable");
    n = read_name(run, &at);
    name = atoll_recipe_text(run->memory, at, n);
    if (!name)
        return atoll_recipe_no_room(run->err);
    switch (*run->p) {
    case '}':
        run->p++;
        return put_value(run, name, true, out);
    case '/':
        run->p++;
        return read_replace(run, name, out);
    default:
        return read_operation(run, name, out);
    }
}

static int read_dollar(struct run *run, struct atoll_buf *out)
{
    const char *at, *name;
    size_t n;
    int r;

    run->p++;
    if (*run->p == '{') {
        if (run->depth == ATOLL_LEX_DEPTH_MAX)
            return bad(run, "too many \"${\" inside one another");
        run->p++;
        run->depth++;
        r = read_braces(run, out);
        run->depth--;
        return r;
    }
    n = read_name(run, &at);
    if (n == 0)
        return put(run, out, '$');
    name = atoll_recipe_text(run->memory, at, n);
    return name ? put_value(run, name, false, out) : atoll_recipe_no_room(run->err);
}

static int read_single_quote(struct run *run, struct atoll_buf *out)
{
    const char *from = run->p + 1, *end = strchr(from, '\'');
    bool raw = run->lex->raw_quotes;

    if (!end)
        return bad(run, "missing the second single quote");
    run->p = end + 1;
    return appended(run, raw ? atoll_buf_append(out, from - 1, (size_t)(end - from) + 2)
                             : atoll_buf_append(out, from, (size_t)(end - from)));
}

static int read_double_quote(struct run *run, struct atoll_buf *out)
{
    char escape = run->lex->escape;
    int r = run->lex->raw_quotes ? put(run, out, '"') : 0;

    run->p++;
    while (r == 0 && *run->p != '"') {
        if (!*run->p)
            return bad(run, "missing the second double quote");
        if (*run->p == '$') {
            r = read_dollar(run, out);
            continue;
        }
        if (*run->p == escape && (run->p[1] == '"' || run->p[1] == '$' || run->p[1] == escape)) {
            if (run->raw_escapes)
                r = put(run, out, escape);
            run->p++;
        }
        if (r == 0)
            r = put(run, out, *run->p++);
    }
    if (r == 0 && run->lex->raw_quotes)
        r = put(run, out, '"');
    run->p++;
    return r;
}

/* "<<" keeps the white space behind it, so that "<< EOF" is one word. */
static int read_less(struct run *run, struct atoll_buf *out)
{
    size_t n = run->p[1] == '<' ? 2 + strspn(run->p + 2, " \t\r") : 1;
    int r = atoll_buf_append(out, run->p, n);

    run->p += n;
    return appended(run, r);
}

static int read_plain(struct run *run, struct atoll_buf *out, struct words *w)
{
    bool escaped = *run->p == run->lex->escape;
    const char *from = run->p;
    size_t n;

    run->p += escaped && run->p[1] ? 2 : 1;
    if (escaped && !run->raw_escapes)
        from++;
    n = (size_t)(run->p - from);
    if (n > 0 && appended(run, atoll_buf_append(out, from, n)) < 0)
        return -ENOBUFS;
    return add_words(run, w, from, n, !escaped);
}

/* Reads what begins with a special character, and adds it to the words. */
static int read_special(struct run *run, struct atoll_buf *out, struct words *w)
{
    size_t before = atoll_buf_size(out);
    char c = *run->p;
    int r = c == '$'    ? read_dollar(run, out)
            : c == '<'  ? read_less(run, out)
            : c == '\'' ? read_single_quote(run, out)
                        : read_double_quote(run, out);

    if (r == 0 && w && atoll_buf_size(out) > before)
        r = add_words(run, w, (const char *)atoll_buf_head(out) + before,
                      atoll_buf_size(out) - before, c == '$');
    return r;
}

/* Reads until `stop`, which is consumed, or to the end of the text if stop is NUL. -ENODATA: the text ends
 * before; without an error text. */
static int read_until(struct run *run, char stop, bool raw_escapes, struct atoll_buf *out,
                      struct words *w)
{
    const char *special = run->lex->no_quotes ? "$<" : "$<'\"";
    bool before = run->raw_escapes;
    int r = 0;

    run->raw_escapes = raw_escapes;
    while (r == 0 && *run->p && !(stop && *run->p == stop))
        r = strchr(special, *run->p) ? read_special(run, out, w) : read_plain(run, out, w);
    run->raw_escapes = before;
    if (r == 0 && stop && !*run->p)
        return -ENODATA;
    if (r == 0 && stop)
        run->p++;
    return r;
}

int atoll_lex_text(const struct atoll_lex *lex, struct atoll_recipe_memory *m, const char *text,
                   const char **ret, struct atoll_error *err)
{
    struct run run = {.lex = lex, .memory = m, .p = text, .err = err};
    struct atoll_buf out;
    int r;

    atoll_buf_init(&out, ATOLL_LEX_TEXT_MAX);
    r = read_until(&run, '\0', lex->raw_escapes, &out, NULL);
    if (r == 0) {
        *ret = atoll_recipe_text(m, atoll_buf_str(&out), atoll_buf_size(&out));
        if (!*ret)
            r = atoll_recipe_no_room(err);
    }
    atoll_buf_done(&out);
    return r;
}

int atoll_lex_words(const struct atoll_lex *lex, struct atoll_recipe_memory *m, const char *text,
                    const char ***ret, size_t *ret_count, struct atoll_error *err)
{
    struct run run = {.lex = lex, .memory = m, .p = text, .err = err};
    struct words w = {0};
    struct atoll_buf out;
    int r;

    atoll_buf_init(&out, ATOLL_LEX_TEXT_MAX);
    atoll_buf_init(&w.text, ATOLL_LEX_TEXT_MAX);
    r = read_until(&run, '\0', lex->raw_escapes, &out, &w);
    if (r == 0)
        r = end_word(&run, &w);
    if (r == 0) {
        *ret = w.list.items;
        *ret_count = w.list.count;
    }
    atoll_buf_done(&out);
    atoll_buf_done(&w.text);
    return r;
}

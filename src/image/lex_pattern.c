/*
 * "${X#p}", "${X%p}", "${X/p/r}". Value and pattern become arrays of characters, which are reversed for
 * "%". A pattern is matched by following all its positions at once, so that the time is at most the
 * product of both lengths, whatever the pattern is.
 */
#include <errno.h>
#include <string.h>
#include "base/text.h"
#include "image/lex.h"

#define STEPS_MAX ((size_t)1024 * 1024) /* of one operator: some milliseconds */

enum kind { LITERAL, ANY, STAR };

struct unit {
    const char *bytes; /* borrowed */
    uint8_t n;         /* length of the character in UTF-8 */
    uint8_t kind;      /* of pattern units */
};

struct units {
    struct unit *items; /* owned */
    size_t count;
};

struct match {
    struct units value, pattern;
    bool *now, *next; /* owned; positions of the pattern that are reached, count + 1 each */
    size_t steps;
};

static size_t char_len(const char *p, size_t n)
{
    size_t len = atoll_text_utf8_len((const uint8_t *)p, n);

    return len > 0 ? len : 1;
}

static int split_value(const char *text, struct units *ret, struct atoll_error *err)
{
    size_t n = strlen(text);

    if (n > ATOLL_LEX_PATTERN_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG,
                          "a value is too long for an operator with a pattern");
    ret->items = calloc(n + 1, sizeof(*ret->items));
    if (!ret->items)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM, "no memory for a pattern");
    for (size_t at = 0; at < n; at += ret->items[ret->count++].n) {
        ret->items[ret->count].bytes = text + at;
        ret->items[ret->count].n = (uint8_t)char_len(text + at, n - at);
    }
    return 0;
}

/* Turns characters of a pattern into units: "*", "?", and "\" before one character. */
static int split_pattern(const char *text, struct units *ret, struct atoll_error *err)
{
    size_t to = 0;

    if (split_value(text, ret, err) < 0)
        return -EINVAL;
    for (size_t i = 0; i < ret->count; i++) {
        struct unit unit = ret->items[i];
        if (*unit.bytes == '\\') {
            if (i + 1 == ret->count || !strchr("*?\\/}", *ret->items[i + 1].bytes))
                return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                                  "invalid pattern %.60s: \"\\\" quotes only * ? \\ / }", text);
            unit = ret->items[++i];
        } else if (*unit.bytes == '*' || *unit.bytes == '?') {
            unit.kind = *unit.bytes == '*' ? STAR : ANY;
        }
        ret->items[to++] = unit;
    }
    ret->count = to;
    return 0;
}

static void reverse(struct units *u)
{
    for (size_t i = 0; i < u->count / 2; i++) {
        struct unit unit = u->items[i];
        u->items[i] = u->items[u->count - 1 - i];
        u->items[u->count - 1 - i] = unit;
    }
}

static void match_done(struct match *m)
{
    free(m->value.items);
    free(m->pattern.items);
    free(m->now);
    free(m->next);
}

static int match_init(struct match *m, const char *value, const char *pattern,
                      struct atoll_error *err)
{
    *m = (struct match){0};
    if (split_value(value, &m->value, err) < 0 || split_pattern(pattern, &m->pattern, err) < 0)
        return -EINVAL;
    m->now = calloc(m->pattern.count + 1, sizeof(*m->now));
    m->next = calloc(m->pattern.count + 1, sizeof(*m->next));
    if (!m->now || !m->next)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM, "no memory for a pattern");
    return 0;
}

/* Marks a position, and those behind stars that match nothing. What follows a marked one is marked. */
static void reach(const struct match *m, bool *set, size_t at)
{
    while (!set[at]) {
        set[at] = true;
        if (at == m->pattern.count || m->pattern.items[at].kind != STAR)
            return;
        at++;
    }
}

static bool fits(const struct unit *pattern, const struct unit *c)
{
    return pattern->kind != LITERAL ||
           (pattern->n == c->n && memcmp(pattern->bytes, c->bytes, c->n) == 0);
}

/* Follows one character; false when no position is left. */
static bool advance(struct match *m, const struct unit *c)
{
    bool *swap = m->now, any = false;

    memset(m->next, 0, (m->pattern.count + 1) * sizeof(*m->next));
    for (size_t i = 0; i < m->pattern.count; i++) {
        const struct unit *unit = &m->pattern.items[i];
        if (m->now[i] && fits(unit, c)) {
            reach(m, m->next, unit->kind == STAR ? i : i + 1);
            any = true;
        }
    }
    m->steps += m->pattern.count + 1;
    m->now = m->next;
    m->next = swap;
    return any;
}

/* The length, in characters, of a match that begins at `from`; -ENOENT: none. */
static int find_at(struct match *m, size_t from, bool longest, size_t *ret, struct atoll_error *err)
{
    int r = -ENOENT;

    memset(m->now, 0, (m->pattern.count + 1) * sizeof(*m->now));
    reach(m, m->now, 0);
    for (size_t at = from;; at++) {
        if (m->now[m->pattern.count]) {
            *ret = at - from;
            r = 0;
            if (!longest)
                break;
        }
        if (at == m->value.count || !advance(m, &m->value.items[at]))
            break;
        if (m->steps > STEPS_MAX)
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG,
                              "a pattern takes too long to match");
    }
    return r;
}

static int append_units(struct atoll_buf *out, const struct unit *items, size_t n)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < n; i++)
        r = atoll_buf_append(out, items[i].bytes, items[i].n);
    return r;
}

static int too_long(struct atoll_error *err, int r)
{
    return r == 0 ? 0
                  : atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, -r,
                               "a text is too long after its variables were replaced");
}

int atoll_lex_trim(struct atoll_buf *out, const char *value, const char *pattern,
                   enum atoll_lex_trim what, bool longest, struct atoll_error *err)
{
    ATOLL_CLEANUP(match_done) struct match m;
    size_t cut = 0;
    int r = match_init(&m, value, pattern, err);

    if (r < 0)
        return r;
    if (what == ATOLL_LEX_SUFFIX) {
        reverse(&m.value);
        reverse(&m.pattern);
    }
    r = find_at(&m, 0, longest, &cut, err);
    if (r < 0 && r != -ENOENT)
        return r;
    if (what == ATOLL_LEX_SUFFIX) {
        reverse(&m.value);
        return too_long(err, append_units(out, m.value.items, m.value.count - cut));
    }
    return too_long(err, append_units(out, m.value.items + cut, m.value.count - cut));
}

int atoll_lex_replace(struct atoll_buf *out, const char *value, const char *pattern,
                      const char *replacement, bool all, struct atoll_error *err)
{
    ATOLL_CLEANUP(match_done) struct match m;
    bool more = true;
    int r = match_init(&m, value, pattern, err);

    for (size_t at = 0, n = 0; r == 0 && at<m.value.count; at += n> 0 ? n : 1) {
        n = 0;
        r = more ? find_at(&m, at, true, &n, err) : -ENOENT;
        if (r < 0 && r != -ENOENT)
            return r;
        if (n > 0) {
            r = atoll_buf_appends(out, replacement);
            more = all;
        } else {
            r = append_units(out, &m.value.items[at], 1);
        }
        r = too_long(err, r);
    }
    return r;
}

#include "image/e2b_toml.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include "base/buf.h"
#include "base/text.h"

#define KEY_MAX 64
#define NUMBER_MAX 32

enum type { TEXT, NUMBER };

static const struct key {
    const char *name;
    enum type type;
    size_t offset;
    uint64_t max; /* of a number */
} keys[] = {
#define AT(member) offsetof(struct atoll_e2b_toml, member)
    {"template_id", TEXT, AT(template_id), 0},
    {"template_name", TEXT, AT(template_name), 0},
    {"dockerfile", TEXT, AT(dockerfile), 0},
    {"start_cmd", TEXT, AT(start_cmd), 0},
    {"ready_cmd", TEXT, AT(ready_cmd), 0},
    {"team_id", TEXT, AT(team_id), 0},
    {"cpu_count", NUMBER, AT(cpu_count), 1024},
    {"memory_mb", NUMBER, AT(memory_mb), 16 * 1024 * 1024},
#undef AT
};

struct parser {
    const char *p, *end;
    int line;
    unsigned seen; /* bit per key */
    struct atoll_e2b_toml *ret;
    struct atoll_error *err;
};

static int refuse(struct parser *t, const char *text)
{
    return atoll_fail(t->err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "line %d: %s", t->line, text);
}

static char peek(const struct parser *t)
{
    return t->p < t->end ? *t->p : '\0';
}

static bool starts(const struct parser *t, const char *text)
{
    size_t n = strlen(text);

    return (size_t)(t->end - t->p) >= n && memcmp(t->p, text, n) == 0;
}

static void skip_blank(struct parser *t)
{
    while (peek(t) == ' ' || peek(t) == '\t')
        t->p++;
}

static int append(struct parser *t, struct atoll_buf *out, const char *bytes, size_t n)
{
    return atoll_buf_append(out, bytes, n) == 0 ? 0 : refuse(t, "a text is too long");
}

/* Appends a character by its number, in UTF-8. */
static int append_code(struct parser *t, struct atoll_buf *out, unsigned digits)
{
    unsigned code = 0;
    char bytes[4];
    size_t n = 0;

    for (unsigned i = 0; i < digits; i++) {
        const char *hex = "0123456789abcdef", *at;
        char c = peek(t);
        at = c ? strchr(hex, c >= 'A' && c <= 'F' ? c + ('a' - 'A') : c) : NULL;
        if (!at)
            return refuse(t, "\\u needs 4 and \\U needs 8 hexadecimal digits");
        code = code << 4 | (unsigned)(at - hex);
        t->p++;
    }
    if (code == 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        return refuse(t, "a character that does not exist");
    if (code < 0x80) {
        bytes[n++] = (char)code;
    } else {
        int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
        static const unsigned heads[] = {0, 0xc0, 0xe0, 0xf0};
        bytes[n++] = (char)(heads[more] | code >> (6 * more));
        while (more-- > 0)
            bytes[n++] = (char)(0x80 | (code >> (6 * more) & 0x3f));
    }
    return append(t, out, bytes, n);
}

/* Behind "\". `lines`: in a text of several lines, where it also continues a line. */
static int read_escape(struct parser *t, struct atoll_buf *out, bool lines)
{
    static const char from[] = "btnfr\"\\", to[] = "\b\t\n\f\r\"\\";
    char c = peek(t);
    const char *at = c ? strchr(from, c) : NULL;

    t->p++;
    if (at)
        return append(t, out, &to[at - from], 1);
    if (c == 'u' || c == 'U')
        return append_code(t, out, c == 'u' ? 4 : 8);
    if (!lines || (c != '\n' && c != ' ' && c != '\t' && c != '\r'))
        return refuse(t, "unknown escape in a text");
    for (t->p--; peek(t) && strchr(" \t\r\n", peek(t)); t->p++)
        t->line += peek(t) == '\n';
    return 0;
}

/* Reads until the closing quotes. `quote` is ' or " or three of them. */
static int read_quoted(struct parser *t, const char *quote, struct atoll_buf *out)
{
    bool lines = quote[1] != '\0', escapes = *quote == '"';
    int begin = t->line, r = 0;

    if (lines && starts(t, "\r\n"))
        t->p++;
    if (lines && peek(t) == '\n') {
        t->p++;
        t->line++;
    }
    while (r == 0) {
        /* Quotes right before the closing ones belong to the text. */
        if (starts(t, quote) && !(lines && starts(t, "\"\"\"\"") && escapes) &&
            !(lines && starts(t, "''''") && !escapes))
            break;
        if (t->p == t->end || (!lines && peek(t) == '\n')) {
            t->line = begin;
            return refuse(t, "a text has no closing quote");
        }
        if (escapes && peek(t) == '\\') {
            t->p++;
            r = read_escape(t, out, lines);
            continue;
        }
        if ((unsigned char)peek(t) < ' ' && !strchr("\t\r\n", peek(t)))
            return refuse(t, "a control character in a text");
        if (!peek(t))
            return refuse(t, "a NUL character");
        t->line += peek(t) == '\n';
        r = append(t, out, t->p++, 1);
    }
    t->p += strlen(quote);
    return r;
}

static const char *opening_quote(const struct parser *t)
{
    static const char *const quotes[] = {"\"\"\"", "'''", "\"", "'"};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(quotes); i++)
        if (starts(t, quotes[i]))
            return quotes[i];
    return NULL;
}

static int read_text(struct parser *t, struct atoll_buf *out)
{
    const char *quote = opening_quote(t);

    if (!quote)
        return refuse(t, "a text needs quotes");
    t->p += strlen(quote);
    return read_quoted(t, quote, out);
}

static bool is_bare(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

static int read_key(struct parser *t, struct atoll_buf *out)
{
    if (opening_quote(t))
        return starts(t, "\"\"\"") || starts(t, "'''") ? refuse(t, "a key is in one line")
                                                       : read_text(t, out);
    while (is_bare(peek(t)))
        if (append(t, out, t->p++, 1) < 0)
            return -EINVAL;
    return atoll_buf_size(out) > 0 ? 0 : refuse(t, "expected a key");
}

/* A whole number, in which "_" may stand between digits. */
static int read_number(struct parser *t, const struct key *key, uint64_t *ret)
{
    char digits[NUMBER_MAX];
    size_t n = 0;

    if (peek(t) == '+')
        t->p++;
    for (; (peek(t) >= '0' && peek(t) <= '9') || peek(t) == '_'; t->p++) {
        bool digit = peek(t) != '_';
        if (!digit &&
            (n == 0 || t->p[-1] == '_' || t->p + 1 == t->end || t->p[1] < '0' || t->p[1] > '9'))
            return refuse(t, "\"_\" must be between digits");
        if (n + 1 == sizeof(digits))
            return refuse(t, "a number is too long");
        if (digit)
            digits[n++] = *t->p;
    }
    digits[n] = '\0';
    if (n == 0 || atoll_text_u64(digits, 1, key->max, ret) < 0)
        return atoll_fail(t->err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "line %d: %s must be a whole number from 1 to %llu", t->line, key->name,
                          (unsigned long long)key->max);
    return 0;
}

/* The value of a key that is not known, or of one in a table: skipped, but it must be one line. */
static int skip_value(struct parser *t)
{
    struct atoll_buf text;
    int r = 0;

    atoll_buf_init(&text, ATOLL_E2B_TOML_MAX);
    if (opening_quote(t))
        r = read_text(t, &text);
    atoll_buf_done(&text);
    while (r == 0 && t->p < t->end && *t->p != '\n' && *t->p != '#')
        t->p++;
    return r;
}

static int set_text(struct parser *t, const struct key *key)
{
    char **place = (char **)(void *)((char *)t->ret + key->offset);
    struct atoll_buf text;
    int r;

    atoll_buf_init(&text, ATOLL_E2B_TOML_MAX);
    r = read_text(t, &text);
    if (r == 0) {
        *place = strdup(atoll_buf_str(&text));
        r = *place ? 0 : refuse(t, "no memory");
    }
    atoll_buf_done(&text);
    return r;
}

static int set_value(struct parser *t, const char *name)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(keys); i++) {
        const struct key *key = &keys[i];
        if (strcmp(key->name, name) != 0)
            continue;
        if (t->seen & 1u << i)
            return atoll_fail(t->err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "line %d: %s is given twice", t->line, name);
        t->seen |= 1u << i;
        if (key->type == NUMBER)
            return read_number(t, key, (uint64_t *)(void *)((char *)t->ret + key->offset));
        return set_text(t, key);
    }
    return skip_value(t);
}

static int read_pair(struct parser *t, bool in_table)
{
    struct atoll_buf key;
    int r;

    atoll_buf_init(&key, KEY_MAX);
    r = read_key(t, &key);
    skip_blank(t);
    if (r == 0 && peek(t) != '=')
        r = refuse(t, "expected \"=\" behind the key");
    if (r == 0) {
        t->p++;
        skip_blank(t);
        r = in_table ? skip_value(t) : set_value(t, atoll_buf_str(&key));
    }
    atoll_buf_done(&key);
    return r;
}

/* What may stand behind a value: a comment. */
static int end_line(struct parser *t)
{
    skip_blank(t);
    if (peek(t) == '#')
        while (t->p < t->end && *t->p != '\n')
            t->p++;
    if (peek(t) == '\r')
        t->p++;
    if (t->p < t->end && *t->p != '\n')
        return refuse(t, "unexpected text at the end of the line");
    if (t->p < t->end)
        t->p++;
    t->line++;
    return 0;
}

static int parse(struct parser *t)
{
    bool in_table = false;
    int r = 0;

    while (r == 0 && t->p < t->end) {
        skip_blank(t);
        if (peek(t) == '[') {
            in_table = true;
            while (t->p < t->end && *t->p != '\n' && *t->p != '#')
                t->p++;
        } else if (t->p < t->end && !strchr("#\r\n", *t->p)) {
            r = read_pair(t, in_table);
        }
        if (r == 0)
            r = end_line(t);
    }
    return r;
}

int atoll_e2b_toml_parse(const char *text, size_t n, struct atoll_e2b_toml *ret,
                         struct atoll_error *err)
{
    struct atoll_e2b_toml toml = {0};
    struct parser t = {.p = text, .end = text + n, .line = 1, .ret = &toml, .err = err};

    if (n > ATOLL_E2B_TOML_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG,
                          "e2b.toml has more than %zu bytes", ATOLL_E2B_TOML_MAX);
    if (parse(&t) < 0) {
        atoll_e2b_toml_done(&toml);
        return -EINVAL;
    }
    *ret = toml;
    return 0;
}

void atoll_e2b_toml_done(struct atoll_e2b_toml *t)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(keys); i++)
        if (keys[i].type == TEXT)
            free(*(char **)(void *)((char *)t + keys[i].offset));
    *t = (struct atoll_e2b_toml){0};
}

/*
 * YAML scalars, converted to the type of their field, and the texts of refusals.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/buf.h"
#include "base/text.h"
#include "registry/registry_yaml.h"

#define SHOWN_MAX 48
#define EXPANDED_MAX ((size_t)128 * 1024)

struct atoll_yaml_place atoll_yaml_place_of(struct fy_node *node, struct atoll_yaml_place otherwise)
{
    struct fy_token *token = node ? fy_node_get_scalar_token(node) : NULL;
    const struct fy_mark *mark = token ? fy_token_start_mark(token) : NULL;

    /* A missing node and a collection have no token. */
    return mark ? (struct atoll_yaml_place){mark->line + 1, mark->column + 1} : otherwise;
}

size_t atoll_yaml_write_path(const struct atoll_yaml_spot *spot, char *out, size_t cap)
{
    size_t len = spot->outer ? atoll_yaml_write_path(spot->outer, out, cap) : 0;
    int n;

    if (!spot->outer || len >= cap)
        return len;
    if (*spot->name)
        n = snprintf(out + len, cap - len, "%s%.64s", len ? "." : "", spot->name);
    else
        n = snprintf(out + len, cap - len, "[%zu]", spot->index);
    return len + (size_t)n;
}

int atoll_yaml_refuse_at(const struct atoll_yaml_loader *l, struct atoll_yaml_place place,
                         const char *text)
{
    return atoll_fail(l->err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%.120s:%d:%d: %s", l->file,
                      place.line, place.column, text);
}

int atoll_yaml_refuse(const struct atoll_yaml_loader *l, const struct atoll_yaml_spot *spot,
                      struct fy_node *node, const char *what)
{
    char path[120] = "", got[SHOWN_MAX + 24] = "", text[400];
    size_t n = 0;
    const char *value = node && fy_node_is_scalar(node) ? fy_node_get_scalar(node, &n) : NULL;

    (void)atoll_yaml_write_path(spot, path, sizeof(path));
    if (value && n > 0)
        (void)snprintf(got, sizeof(got), " (got \"%.*s%s\")", (int)ATOLL_MIN(n, (size_t)SHOWN_MAX),
                       value, n > SHOWN_MAX ? "…" : "");
    (void)snprintf(text, sizeof(text), "%s must be %s%s", *path ? path : "the file", what, got);
    return atoll_yaml_refuse_at(l, atoll_yaml_place_of(node, spot->place), text);
}

json_t *atoll_yaml_must(json_t *value)
{
    if (!value)
        abort(); /* small objects, bounded by the size of the file */
    return value;
}

int atoll_yaml_check_plain(const struct atoll_yaml_loader *l, const struct atoll_yaml_spot *spot,
                           struct fy_node *node)
{
    size_t n;

    if (node && fy_node_is_alias(node))
        return atoll_yaml_refuse(l, spot, node, "written out: aliases are not supported");
    if (node && fy_node_get_tag(node, &n))
        return atoll_yaml_refuse(l, spot, node, "without a tag: the field says what type it has");
    return 0;
}

const char *atoll_yaml_scalar(struct fy_node *node, size_t *ret_len)
{
    if (!node || !fy_node_is_scalar(node) || !fy_node_get_scalar_token(node))
        return NULL;
    return fy_node_get_scalar(node, ret_len);
}

/* Scalars. */

/* The text of a scalar, after the replacement of variables; text NULL: it is not a scalar. */
struct text {
    const char *text;
    size_t n;
};

static bool copy_text(const struct text *t, char *out, size_t cap)
{
    if (!t->text || t->n >= cap || memchr(t->text, '\0', t->n))
        return false;
    memcpy(out, t->text, t->n);
    out[t->n] = '\0';
    return true;
}

bool atoll_yaml_copy(struct fy_node *node, char *out, size_t cap)
{
    struct text t = {.n = 0};

    t.text = atoll_yaml_scalar(node, &t.n);
    return copy_text(&t, out, cap);
}

/* Appends the value of the variable at *at, which begins with "${", and moves *at behind it. */
static int expand_one(const struct atoll_yaml_loader *l, const struct atoll_yaml_spot *spot,
                      struct fy_node *node, const char **at, const char *end, struct atoll_buf *out)
{
    static const char chars[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz";
    const char *first = *at + 2, *close = memchr(first, '}', (size_t)(end - first)), *value;
    char name[129] = "", path[120] = "", text[400];

    if (close && (size_t)(close - first) < sizeof(name))
        memcpy(name, first, (size_t)(close - first));
    if (!*name || !strchr(chars + 10, *name) || name[strspn(name, chars)] != '\0')
        return atoll_yaml_refuse(l, spot, node,
                                 "without \"${\" that is not ${NAME}; a literal "
                                 "one is written $${");
    value = getenv(name);
    (void)atoll_yaml_write_path(spot, path, sizeof(path));
    (void)snprintf(text, sizeof(text), "%s needs the environment variable %s, which is not set",
                   path, name);
    if (!value)
        return atoll_yaml_refuse_at(l, atoll_yaml_place_of(node, spot->place), text);
    *at = close + 1;
    return atoll_buf_appends(out, value) < 0
               ? atoll_yaml_refuse(l, spot, node, "shorter, with its variables")
               : 0;
}

/* Replaces the variables in *t; its text is then that of `out`. */
static int expand(const struct atoll_yaml_loader *l, const struct atoll_yaml_spot *spot,
                  struct fy_node *node, struct text *t, struct atoll_buf *out)
{
    const char *at = t->text, *end = t->text + t->n;
    int r = 0;

    while (r == 0 && at < end) {
        bool literal = end - at > 2 && memcmp(at, "$${", 3) == 0;

        if (end - at > 1 && memcmp(at, "${", 2) == 0) {
            r = expand_one(l, spot, node, &at, end, out);
            continue;
        }
        at += literal;
        r = atoll_buf_append(out, at, literal ? 2 : 1);
        at += literal ? 2 : 1;
    }
    *t = (struct text){atoll_buf_head(out) ? (const char *)atoll_buf_head(out) : "",
                       atoll_buf_size(out)};
    return r;
}

static int load_string(const struct atoll_yaml_loader *l, const struct atoll_yaml_spot *spot,
                       struct fy_node *node, const struct text *t, const struct atoll_yaml_field *f,
                       json_t **ret)
{
    char what[80];

    *ret =
        t->text && !memchr(t->text, '\0', t->n) && (double)t->n >= f->min && (double)t->n <= f->max
            ? json_stringn(t->text, t->n)
            : NULL;
    if (*ret)
        return 0;
    (void)snprintf(what, sizeof(what), "a text of %.0f to %.0f bytes", f->min, f->max);
    return atoll_yaml_refuse(l, spot, node, what);
}

static int load_name(const struct atoll_yaml_loader *l, const struct atoll_yaml_spot *spot,
                     struct fy_node *node, const struct text *t, json_t **ret)
{
    char text[66];

    if (!copy_text(t, text, sizeof(text)) || !atoll_text_is_name(text))
        return atoll_yaml_refuse(
            l, spot, node,
            "a name: a letter or digit, then up to 63 of letters, digits, \".\", \"_\" "
            "and \"-\"");
    *ret = atoll_yaml_must(json_string(text));
    return 0;
}

static int load_program(const struct atoll_yaml_loader *l, const struct atoll_yaml_spot *spot,
                        struct fy_node *node, const struct text *t, json_t **ret)
{
    char text[66];

    if (!copy_text(t, text, sizeof(text)) || !*text || strchr(text, '/') || *text == '.')
        return atoll_yaml_refuse(l, spot, node, "the name of a program, without a path");
    *ret = atoll_yaml_must(json_string(text));
    return 0;
}

static int load_number(const struct atoll_yaml_loader *l, const struct atoll_yaml_spot *spot,
                       struct fy_node *node, const struct text *t, const struct atoll_yaml_field *f,
                       json_t **ret)
{
    bool whole = f->type == ATOLL_YAML_WHOLE;
    char text[40], what[80];
    double number;

    if (!copy_text(t, text, sizeof(text)) || atoll_text_double(text, f->min, f->max, &number) < 0 ||
        (whole && number != floor(number))) {
        (void)snprintf(what, sizeof(what), "a %snumber from %.15g to %.15g", whole ? "whole " : "",
                       f->min, f->max);
        return atoll_yaml_refuse(l, spot, node, what);
    }
    *ret = atoll_yaml_must(number == floor(number) && fabs(number) < 1e15
                               ? json_integer((json_int_t)number)
                               : json_real(number));
    return 0;
}

static int load_bool(const struct atoll_yaml_loader *l, const struct atoll_yaml_spot *spot,
                     struct fy_node *node, const struct text *t, json_t **ret)
{
    char text[8];
    bool known = copy_text(t, text, sizeof(text));

    if (known && strcmp(text, "true") == 0)
        *ret = json_true();
    else if (known && strcmp(text, "false") == 0)
        *ret = json_false();
    else
        return atoll_yaml_refuse(l, spot, node, "true or false");
    return 0;
}

static int load_text(const struct atoll_yaml_loader *l, const struct atoll_yaml_spot *spot,
                     struct fy_node *node, const struct text *t, const struct atoll_yaml_field *f,
                     json_t **ret)
{
    switch (f->type) {
    case ATOLL_YAML_NAME:
        return load_name(l, spot, node, t, ret);
    case ATOLL_YAML_PROGRAM:
        return load_program(l, spot, node, t, ret);
    case ATOLL_YAML_NUMBER:
    case ATOLL_YAML_WHOLE:
        return load_number(l, spot, node, t, f, ret);
    case ATOLL_YAML_BOOL:
        return load_bool(l, spot, node, t, ret);
    default:
        return load_string(l, spot, node, t, f, ret);
    }
}

int atoll_yaml_load_scalar(const struct atoll_yaml_loader *l, const struct atoll_yaml_spot *spot,
                           struct fy_node *node, const struct atoll_yaml_field *f, json_t **ret)
{
    struct text t = {.n = 0};
    struct atoll_buf expanded;
    int r = 0;

    t.text = atoll_yaml_scalar(node, &t.n);
    atoll_buf_init(&expanded, EXPANDED_MAX);
    if (l->expands && t.text && memmem(t.text, t.n, "${", 2))
        r = expand(l, spot, node, &t, &expanded);
    if (r == 0)
        r = load_text(l, spot, node, &t, f, ret);
    atoll_buf_done(&expanded);
    return r;
}

/* Converts a plain scalar by the core schema (YAML 1.2.2 section 10.3.2), as far as JSON can
 * represent it. */
json_t *atoll_yaml_guess(struct fy_node *node)
{
    static const char *const nulls[] = {"null", "Null", "NULL", "~"};
    size_t n = 0;
    const char *text = atoll_yaml_scalar(node, &n);
    char copy[64];
    double number;

    if (!text || (n == 0 && fy_node_get_style(node) == FYNS_PLAIN))
        return json_null();
    if (fy_node_get_style(node) != FYNS_PLAIN || !atoll_yaml_copy(node, copy, sizeof(copy)))
        return json_stringn(text, n);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(nulls); i++)
        if (strcmp(copy, nulls[i]) == 0)
            return json_null();
    if (strcmp(copy, "true") == 0 || strcmp(copy, "false") == 0)
        return json_boolean(*copy == 't');
    if (strspn(copy, "0123456789+-.eE") != n || atoll_text_double(copy, -1e300, 1e300, &number) < 0)
        return json_stringn(text, n);
    if (number == floor(number) && fabs(number) < 1e15 && !strpbrk(copy, ".eE"))
        return json_integer((json_int_t)number);
    return json_real(number);
}

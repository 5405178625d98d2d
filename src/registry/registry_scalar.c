/*
 * YAML scalars, converted to the type of their field, and the texts of refusals.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"
#include "registry/registry_yaml.h"

#define SHOWN_MAX 48

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

bool atoll_yaml_copy(struct fy_node *node, char *out, size_t cap)
{
    size_t n;
    const char *text = atoll_yaml_scalar(node, &n);

    if (!text || n >= cap || memchr(text, '\0', n))
        return false;
    memcpy(out, text, n);
    out[n] = '\0';
    return true;
}

static int load_string(const struct atoll_yaml_loader *l, const struct atoll_yaml_spot *spot,
                       struct fy_node *node, double min, double max, json_t **ret)
{
    size_t n;
    const char *text = atoll_yaml_scalar(node, &n);
    char what[80];

    if (!text || memchr(text, '\0', n) || (double)n < min || (double)n > max) {
        (void)snprintf(what, sizeof(what), "a text of %.0f to %.0f bytes", min, max);
        return atoll_yaml_refuse(l, spot, node, what);
    }
    *ret = atoll_yaml_must(json_stringn(text, n));
    return 0;
}

static int load_name(const struct atoll_yaml_loader *l, const struct atoll_yaml_spot *spot,
                     struct fy_node *node, json_t **ret)
{
    char text[66];

    if (!atoll_yaml_copy(node, text, sizeof(text)) || !atoll_text_is_name(text))
        return atoll_yaml_refuse(
            l, spot, node,
            "a name: a letter or digit, then up to 63 of letters, digits, \".\", \"_\" "
            "and \"-\"");
    *ret = atoll_yaml_must(json_string(text));
    return 0;
}

static int load_program(const struct atoll_yaml_loader *l, const struct atoll_yaml_spot *spot,
                        struct fy_node *node, json_t **ret)
{
    char text[66];

    if (!atoll_yaml_copy(node, text, sizeof(text)) || !*text || strchr(text, '/') || *text == '.')
        return atoll_yaml_refuse(l, spot, node, "the name of a program, without a path");
    *ret = atoll_yaml_must(json_string(text));
    return 0;
}

static int load_number(const struct atoll_yaml_loader *l, const struct atoll_yaml_spot *spot,
                       struct fy_node *node, const struct atoll_yaml_field *f, json_t **ret)
{
    bool whole = f->type == ATOLL_YAML_WHOLE;
    char text[40], what[80];
    double number;

    if (!atoll_yaml_copy(node, text, sizeof(text)) ||
        atoll_text_double(text, f->min, f->max, &number) < 0 ||
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
                     struct fy_node *node, json_t **ret)
{
    char text[8];
    bool known = atoll_yaml_copy(node, text, sizeof(text));

    if (known && strcmp(text, "true") == 0)
        *ret = json_true();
    else if (known && strcmp(text, "false") == 0)
        *ret = json_false();
    else
        return atoll_yaml_refuse(l, spot, node, "true or false");
    return 0;
}

int atoll_yaml_load_scalar(const struct atoll_yaml_loader *l, const struct atoll_yaml_spot *spot,
                           struct fy_node *node, const struct atoll_yaml_field *f, json_t **ret)
{
    switch (f->type) {
    case ATOLL_YAML_NAME:
        return load_name(l, spot, node, ret);
    case ATOLL_YAML_PROGRAM:
        return load_program(l, spot, node, ret);
    case ATOLL_YAML_NUMBER:
    case ATOLL_YAML_WHOLE:
        return load_number(l, spot, node, f, ret);
    case ATOLL_YAML_BOOL:
        return load_bool(l, spot, node, ret);
    default:
        return load_string(l, spot, node, f->min, f->max, ret);
    }
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

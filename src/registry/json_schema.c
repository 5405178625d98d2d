#include "registry/json_schema.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define WHERE_MAX 200

static int refuse(struct atoll_error *err, const char *where, const char *text, const char *about)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%.150s %s%.64s", where, text,
                      about);
}

/* The name of a member: "a.b". */
static void name_member(char out[static WHERE_MAX], const char *where, const char *name)
{
    (void)snprintf(out, WHERE_MAX, "%.120s%s%.64s", where, *where ? "." : "", name);
}

/* --- types --- */

static bool is_whole(const json_t *value)
{
    return json_is_integer(value) || (json_is_real(value) && isfinite(json_real_value(value)) &&
                                      floor(json_real_value(value)) == json_real_value(value));
}

static bool is_number(const json_t *value)
{
    return json_is_number(value);
}

static bool is_text(const json_t *value)
{
    return json_is_string(value);
}

static bool is_flag(const json_t *value)
{
    return json_is_boolean(value);
}

static bool is_list(const json_t *value)
{
    return json_is_array(value);
}

static bool is_object(const json_t *value)
{
    return json_is_object(value);
}

static bool is_nothing(const json_t *value)
{
    return json_is_null(value);
}

static const struct {
    const char *name, *text;
    bool (*is)(const json_t *value);
} types[] = {
    {"string", "a string", is_text},   {"integer", "a whole number", is_whole},
    {"number", "a number", is_number}, {"boolean", "true or false", is_flag},
    {"array", "an array", is_list},    {"object", "an object", is_object},
    {"null", "null", is_nothing},
};
#define TYPES ATOLL_ARRAY_LEN(types)

static size_t type_of(const json_t *name)
{
    size_t i = 0;

    while (json_is_string(name) && i < TYPES && strcmp(types[i].name, json_string_value(name)) != 0)
        i++;
    return json_is_string(name) ? i : TYPES;
}

/* --- the check of a schema --- */

static int check_schema(const json_t *schema, const char *where, unsigned depth,
                        struct atoll_error *err);

static int check_type(const json_t *value, const char *where, unsigned depth ATOLL_UNUSED,
                      struct atoll_error *err)
{
    size_t n = json_is_array(value) ? json_array_size(value) : 1;

    for (size_t i = 0; i < n; i++)
        if (type_of(json_is_array(value) ? json_array_get(value, i) : value) == TYPES)
            n = 0;
    return n > 0 ? 0
                 : refuse(err, where,
                          "must be one of string, integer, number, boolean, array, object and "
                          "null, or a list of them",
                          "");
}

static int check_properties(const json_t *value, const char *where, unsigned depth,
                            struct atoll_error *err)
{
    const char *name;
    json_t *one;

    if (!json_is_object(value))
        return refuse(err, where, "must be a mapping from names to schemas", "");
    json_object_foreach((json_t *)(uintptr_t)value, name, one)
    {
        char inner[WHERE_MAX];
        name_member(inner, where, name);
        if (check_schema(one, inner, depth + 1, err) < 0)
            return -EINVAL;
    }
    return 0;
}

static int check_names(const json_t *value, const char *where, unsigned depth ATOLL_UNUSED,
                       struct atoll_error *err)
{
    bool good = json_is_array(value);

    for (size_t i = 0; i < json_array_size(value); i++)
        good = good && json_is_string(json_array_get(value, i));
    return good ? 0 : refuse(err, where, "must be a list of names", "");
}

static int check_inner(const json_t *value, const char *where, unsigned depth,
                       struct atoll_error *err)
{
    return check_schema(value, where, depth + 1, err);
}

static int check_additional(const json_t *value, const char *where, unsigned depth,
                            struct atoll_error *err)
{
    return json_is_boolean(value) ? 0 : check_inner(value, where, depth, err);
}

static int check_values(const json_t *value, const char *where, unsigned depth ATOLL_UNUSED,
                        struct atoll_error *err)
{
    return json_array_size(value) > 0 ? 0 : refuse(err, where, "must be a list of values", "");
}

static int check_any(const json_t *value ATOLL_UNUSED, const char *where ATOLL_UNUSED,
                     unsigned depth ATOLL_UNUSED, struct atoll_error *err ATOLL_UNUSED)
{
    return 0;
}

static int check_number(const json_t *value, const char *where, unsigned depth ATOLL_UNUSED,
                        struct atoll_error *err)
{
    return json_is_number(value) ? 0 : refuse(err, where, "must be a number", "");
}

static int check_size(const json_t *value, const char *where, unsigned depth ATOLL_UNUSED,
                      struct atoll_error *err)
{
    return is_whole(value) && json_number_value(value) >= 0
               ? 0
               : refuse(err, where, "must be a whole number from 0", "");
}

static const struct {
    const char *name;
    int (*check)(const json_t *value, const char *where, unsigned depth, struct atoll_error *err);
} keywords[] = {
    {"type", check_type},       {"properties", check_properties},
    {"required", check_names},  {"additionalProperties", check_additional},
    {"items", check_inner},     {"enum", check_values},
    {"const", check_any},       {"minimum", check_number},
    {"maximum", check_number},  {"minLength", check_size},
    {"maxLength", check_size},  {"minItems", check_size},
    {"maxItems", check_size},   {"title", check_any},
    {"description", check_any}, {"default", check_any},
    {"examples", check_any},    {"format", check_any},
    {"$schema", check_any},     {"$comment", check_any},
};

static int check_schema(const json_t *schema, const char *where, unsigned depth,
                        struct atoll_error *err)
{
    const char *name;
    json_t *value;

    if (!json_is_object(schema))
        return refuse(err, where, "must be a mapping: a JSON schema", "");
    if (depth > ATOLL_JSON_SCHEMA_DEPTH_MAX)
        return refuse(err, where, "is nested too deeply", "");
    json_object_foreach((json_t *)(uintptr_t)schema, name, value)
    {
        char inner[WHERE_MAX];
        size_t i = 0;
        while (i < ATOLL_ARRAY_LEN(keywords) && strcmp(keywords[i].name, name) != 0)
            i++;
        name_member(inner, where, name);
        if (i == ATOLL_ARRAY_LEN(keywords))
            return refuse(err, where, "has a keyword of JSON Schema that is not supported: ", name);
        if (keywords[i].check(value, inner, depth, err) < 0)
            return -EINVAL;
    }
    return 0;
}

int atoll_json_schema_check(const json_t *schema, const char *where, struct atoll_error *err)
{
    return check_schema(schema, where, 0, err);
}

/* --- the check of a value --- */

static int apply(const json_t *schema, const json_t *value, const char *where,
                 struct atoll_error *err);

static int apply_type(const json_t *type, const json_t *value, const char *where,
                      struct atoll_error *err)
{
    char expected[160];
    size_t n = json_is_array(type) ? json_array_size(type) : type != NULL, used = 0;

    expected[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        size_t t = type_of(json_is_array(type) ? json_array_get(type, i) : type);
        if (t < TYPES && types[t].is(value))
            return 0;
        if (t < TYPES && used < sizeof(expected))
            used += (size_t)snprintf(expected + used, sizeof(expected) - used, "%s%s",
                                     i ? " or " : "", types[t].text);
    }
    return n == 0 ? 0 : refuse(err, *where ? where : "the value", "must be ", expected);
}

/* minimum, maximum; the length of texts in characters of Unicode, and of arrays. */
static size_t characters(const char *text)
{
    size_t n = 0;

    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

static int apply_bounds(const json_t *schema, const json_t *value, const char *where,
                        struct atoll_error *err)
{
    static const struct {
        const char *least, *most, *what;
    } bounds[] = {{"minimum", "maximum", ""},
                  {"minLength", "maxLength", " characters"},
                  {"minItems", "maxItems", " elements"}};
    int kind = json_is_number(value)   ? 0
               : json_is_string(value) ? 1
               : json_is_array(value)  ? 2
                                       : -1;
    double size = kind == 0   ? json_number_value(value)
                  : kind == 1 ? (double)characters(json_string_value(value))
                              : (double)json_array_size(value);
    const json_t *least, *most;
    char text[64];

    if (kind < 0)
        return 0;
    least = json_object_get(schema, bounds[kind].least);
    most = json_object_get(schema, bounds[kind].most);
    if (least && size < json_number_value(least)) {
        (void)snprintf(text, sizeof(text), "%g%s", json_number_value(least), bounds[kind].what);
        return refuse(err, where, "must be at least ", text);
    }
    if (most && size > json_number_value(most)) {
        (void)snprintf(text, sizeof(text), "%g%s", json_number_value(most), bounds[kind].what);
        return refuse(err, where, "must be at most ", text);
    }
    return 0;
}

static int apply_choice(const json_t *schema, const json_t *value, const char *where,
                        struct atoll_error *err)
{
    const json_t *choices = json_object_get(schema, "enum");
    const json_t *only = json_object_get(schema, "const");
    bool found = !choices;
    ATOLL_AUTOFREE char *shown = NULL;

    for (size_t i = 0; i < json_array_size(choices); i++)
        found = found || json_equal(json_array_get(choices, i), (json_t *)(uintptr_t)value);
    if (only && !json_equal((json_t *)(uintptr_t)only, (json_t *)(uintptr_t)value)) {
        found = false;
        choices = only;
    }
    if (found)
        return 0;
    shown = json_dumps(choices, JSON_ENCODE_ANY);
    return refuse(err, where, choices == only ? "must be " : "must be one of ", shown ? shown : "");
}

static int apply_object(const json_t *schema, const json_t *value, const char *where,
                        struct atoll_error *err)
{
    const json_t *properties = json_object_get(schema, "properties");
    const json_t *required = json_object_get(schema, "required");
    const json_t *additional = json_object_get(schema, "additionalProperties"), *rule;
    char inner[WHERE_MAX];
    const char *name;
    json_t *one;

    for (size_t i = 0; i < json_array_size(required); i++) {
        name = json_string_value(json_array_get(required, i));
        name_member(inner, where, name);
        if (!json_object_get(value, name))
            return refuse(err, inner, "is missing", "");
    }
    json_object_foreach((json_t *)(uintptr_t)value, name, one)
    {
        rule = json_object_get(properties, name);
        rule = rule ? rule : additional;
        name_member(inner, where, name);
        if (json_is_false(rule))
            return refuse(err, inner, "is not known", "");
        if (json_is_object(rule) && apply(rule, one, inner, err) < 0)
            return -EINVAL;
    }
    return 0;
}

static int apply(const json_t *schema, const json_t *value, const char *where,
                 struct atoll_error *err)
{
    const json_t *items = json_object_get(schema, "items");
    int r = apply_type(json_object_get(schema, "type"), value, where, err);

    if (r == 0)
        r = apply_bounds(schema, value, where, err);
    if (r == 0)
        r = apply_choice(schema, value, where, err);
    if (r == 0 && json_is_object(value))
        r = apply_object(schema, value, where, err);
    for (size_t i = 0; r == 0 && items && i < json_array_size(value); i++) {
        char inner[WHERE_MAX];
        (void)snprintf(inner, sizeof(inner), "%.150s[%zu]", where, i);
        r = apply(items, json_array_get(value, i), inner, err);
    }
    return r;
}

int atoll_json_schema_apply(const json_t *schema, const json_t *value, const char *where,
                            struct atoll_error *err)
{
    return apply(schema, value, where, err);
}

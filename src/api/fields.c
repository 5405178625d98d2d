#include "api/fields.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/switches.h"
#include "engine/json_memory.h"

#define TIMEOUT_MAX_S (31.0 * 24 * 3600)
#define GOT_MAX 48
#define KNOWN_MAX 200

struct decoder {
    struct atoll_body *body;
    const char *where;
    struct atoll_error *err;
};

/* Counts brackets outside of strings, which is cheaper than parsing a document only to refuse
 * it. */
static bool is_too_deep(const char *bytes, size_t n)
{
    bool in_string = false;
    int depth = 0;

    for (size_t i = 0; i < n; i++) {
        char c = bytes[i];
        if (in_string && c == '\\')
            i++;
        else if (c == '"')
            in_string = !in_string;
        else if (!in_string && (c == '{' || c == '[') && ++depth > ATOLL_FIELDS_DEPTH)
            return true;
        else if (!in_string && (c == '}' || c == ']'))
            depth--;
    }
    return false;
}

json_t *atoll_fields_load(const void *bytes, size_t n, json_error_t *why, bool *ret_no_memory)
{
    json_t *root;

    atoll_json_memory_begin();
    *why = (json_error_t){0};
    root = n > 0 ? atoll_json_load(bytes, n, JSON_REJECT_DUPLICATES, why) : json_object();
    *ret_no_memory = !root && atoll_json_memory_failed();
    return root;
}

int atoll_body_parse(struct atoll_body *body, const void *bytes, size_t n, struct atoll_error *err)
{
    json_error_t error;
    bool out_of_memory;

    *body = (struct atoll_body){0};
    if (n > 0 && is_too_deep(bytes, n))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "the body is nested more than %d levels deep", ATOLL_FIELDS_DEPTH);
    body->root = atoll_fields_load(bytes, n, &error, &out_of_memory);
    if (out_of_memory)
        return atoll_fields_no_memory(err);
    if (!body->root)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "the body is not valid JSON: %.120s (line %d, column %d)", error.text,
                          error.line, error.column);
    if (!json_is_object(body->root)) {
        atoll_body_done(body);
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "the body must be a JSON object");
    }
    return 0;
}

void atoll_body_done(struct atoll_body *body)
{
    json_decref(body->root);
    for (size_t i = 0; i < body->part_count; i++)
        free(body->parts[i]);
    *body = (struct atoll_body){0};
}

void atoll_body_take(struct atoll_body *body, void *p)
{
    assert(body->part_count < ATOLL_BODY_PARTS);
    body->parts[body->part_count++] = p;
}

/* NULL when out of memory, since the client chooses the size. */
static void *new_part(struct atoll_body *body, size_t n)
{
    void *part = atoll_fault("base.input") ? NULL : malloc(n);

    if (part)
        atoll_body_take(body, part);
    return part;
}

int atoll_fields_no_memory(struct atoll_error *err)
{
    return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, ENOMEM,
                      "the daemon has no memory for this request; try again");
}

int atoll_fields_refuse(struct atoll_error *err, const char *where, const char *name,
                        const json_t *value, const char *what)
{
    ATOLL_AUTOFREE char *text = atoll_json_dump(value, JSON_COMPACT | JSON_ENCODE_ANY);
    const char *got = text ? text : "?";

    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s%s%s must be %s (got %.*s%s)",
                      where, *where ? "." : "", name, what, GOT_MAX, got,
                      strlen(got) > GOT_MAX ? "…" : "");
}

int atoll_fields_timeout(const json_t *value, const char *name, uint32_t *ret_ms,
                         struct atoll_error *err)
{
    double seconds = json_number_value(value);

    if (!value)
        return 0;
    if (!json_is_number(value) || !(seconds >= 0 && seconds <= TIMEOUT_MAX_S))
        return atoll_fields_refuse(err, "", name, value,
                                   "a number of seconds from 0 (no limit) to 2678400");
    *ret_ms = (uint32_t)(seconds * 1000);
    if (seconds > 0 && *ret_ms == 0)
        *ret_ms = 1;
    return 0;
}

static int refuse(const struct decoder *d, const struct atoll_field *f, const json_t *value,
                  const char *what)
{
    return atoll_fields_refuse(d->err, d->where, f->name, value, what);
}

static int decode_number(const struct decoder *d, const struct atoll_field *f, const json_t *value,
                         void *into)
{
    bool whole = f->type == ATOLL_FIELD_U32 || f->type == ATOLL_FIELD_U64;
    double number = json_number_value(value);
    char what[100];

    if (!json_is_number(value) || !(number >= f->min && number <= f->max) ||
        (whole && number != floor(number))) {
        (void)snprintf(what, sizeof(what), "a %snumber between %.15g and %.15g",
                       whole ? "whole " : "", f->min, f->max);
        return refuse(d, f, value, what);
    }
    switch (f->type) {
    case ATOLL_FIELD_U64:
        *(uint64_t *)into = (uint64_t)number;
        break;
    case ATOLL_FIELD_MIB:
        *(uint64_t *)into = (uint64_t)(number * 1048576.0);
        break;
    case ATOLL_FIELD_MILLI:
        *(uint32_t *)into = (uint32_t)ceil(number * 1000.0);
        break;
    default:
        *(uint32_t *)into = (uint32_t)ceil(number);
        break;
    }
    return 0;
}

static int decode_string(const struct decoder *d, const struct atoll_field *f, const json_t *value,
                         void *into)
{
    size_t n = json_string_length(value);
    char what[80];

    if (!json_is_string(value) || (double)n < f->min || (double)n > f->max) {
        (void)snprintf(what, sizeof(what), "a string of %s%.0f bytes",
                       f->min > 0 ? "1 to " : "at most ", f->max);
        return refuse(d, f, value, what);
    }
    *(const char **)into = json_string_value(value);
    return 0;
}

static int decode_strings(const struct decoder *d, const struct atoll_field *f, const json_t *value,
                          void *into)
{
    size_t n = json_array_size(value);
    const char **strings;
    char what[80];

    (void)snprintf(what, sizeof(what), "an array of %.0f to %.0f strings", f->min, f->max);
    if (!json_is_array(value) || (double)n < f->min || (double)n > f->max)
        return refuse(d, f, value, what);
    strings = new_part(d->body, (n + 1) * sizeof(*strings));
    if (!strings)
        return atoll_fields_no_memory(d->err);
    for (size_t i = 0; i < n; i++) {
        strings[i] = json_string_value(json_array_get(value, i));
        if (!strings[i])
            return refuse(d, f, value, what);
    }
    strings[n] = NULL;
    *(const char *const **)into = strings;
    return 0;
}

/* Environment variables may hold keys and passwords: errors do not repeat their values. */
static int refuse_secret(const struct decoder *d, const struct atoll_field *f, const char *variable,
                         const char *what)
{
    return atoll_fail(d->err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s%s%s%s%.*s must be %s",
                      d->where, *d->where ? "." : "", f->name, *variable ? "." : "", GOT_MAX,
                      variable, what);
}

static bool is_env_name(const char *name)
{
    return *name && !strchr(name, '=');
}

/* One block: the pointers, then the strings they point to. */
static int decode_env(const struct decoder *d, const struct atoll_field *f, const json_t *value,
                      void *into)
{
    size_t n = json_object_size(value), bytes = (n + 1) * sizeof(char *), i = 0;
    json_t *object = (json_t *)value; /* jansson's iterators are not const */
    const char **env, *name;
    json_t *item;
    char *text;

    if (!json_is_object(value) || n > ATOLL_FIELDS_ENV)
        return refuse_secret(d, f, "",
                             "an object of at most " ATOLL_STRINGIFY(ATOLL_FIELDS_ENV) " strings");
    json_object_foreach(object, name, item)
    {
        if (!is_env_name(name))
            return refuse_secret(d, f, "", "an object whose names are not empty and hold no \"=\"");
        if (!json_is_string(item))
            return refuse_secret(d, f, name, "a string");
        bytes += strlen(name) + json_string_length(item) + 2;
    }
    env = new_part(d->body, bytes);
    if (!env)
        return atoll_fields_no_memory(d->err);
    text = (char *)(env + n + 1);
    json_object_foreach(object, name, item)
    {
        env[i++] = text;
        text = stpcpy(stpcpy(stpcpy(text, name), "="), json_string_value(item)) + 1;
    }
    env[n] = NULL;
    *(const char *const **)into = env;
    return 0;
}

static int decode_object(const struct decoder *d, const struct atoll_field *f, const json_t *value,
                         void *into)
{
    struct atoll_field_set inner = {f->table, into};
    char where[120];

    if (!json_is_object(value))
        return refuse(d, f, value, "an object");
    (void)snprintf(where, sizeof(where), "%s%s%s", d->where, *d->where ? "." : "", f->name);
    return atoll_fields_decode(d->body, value, where, &inner, 1, d->err);
}

static int decode_one(const struct decoder *d, const struct atoll_field *f, const json_t *value,
                      uint8_t *base)
{
    void *into = base + f->offset;
    int r;

    switch (f->type) {
    case ATOLL_FIELD_BOOL:
        if (!json_is_boolean(value))
            return refuse(d, f, value, "true or false");
        *(bool *)into = json_is_true(value);
        return 0;
    case ATOLL_FIELD_STRING:
        return decode_string(d, f, value, into);
    case ATOLL_FIELD_STRINGS:
        return decode_strings(d, f, value, into);
    case ATOLL_FIELD_ENV:
        return decode_env(d, f, value, into);
    case ATOLL_FIELD_OBJECT:
        r = decode_object(d, f, value, into);
        if (r == 0 && f->seen)
            *(bool *)(base + f->seen) = true;
        return r;
    case ATOLL_FIELD_JSON:
        *(const json_t **)into = value;
        return 0;
    default:
        return decode_number(d, f, value, into);
    }
}

static int refuse_unknown(const struct decoder *d, const char *name,
                          const struct atoll_field_set *sets, size_t count)
{
    char known[KNOWN_MAX] = "";
    size_t len = 0;

    for (size_t i = 0; i < count; i++)
        for (const struct atoll_field *f = sets[i].table; f->name && len < sizeof(known); f++)
            len += (size_t)snprintf(known + len, sizeof(known) - len, "%s%s", len ? ", " : "",
                                    f->name);
    return atoll_fail(d->err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                      "there is no field \"%s%s%.*s\"; known are %s", d->where,
                      *d->where ? "." : "", GOT_MAX, name, known);
}

/* The row with that name and the struct it fills; else the row for all other fields, if any. */
static const struct atoll_field *find_field(const struct atoll_field_set *sets, size_t count,
                                            const char *name, uint8_t **ret_base)
{
    const struct atoll_field *others = NULL;

    for (size_t i = 0; i < count; i++)
        for (const struct atoll_field *f = sets[i].table; f->name; f++) {
            if (f->type == ATOLL_FIELD_OTHERS) {
                others = f;
            } else if (strcmp(f->name, name) == 0) {
                *ret_base = sets[i].into;
                return f;
            }
        }
    return others;
}

int atoll_fields_decode(struct atoll_body *body, const json_t *object, const char *where,
                        const struct atoll_field_set *sets, size_t count, struct atoll_error *err)
{
    struct decoder d = {body, where, err};
    json_t *value, *iterated = (json_t *)object;
    const char *name;

    json_object_foreach(iterated, name, value)
    {
        uint8_t *base = NULL;
        const struct atoll_field *f = find_field(sets, count, name, &base);
        int r;
        if (!f)
            return refuse_unknown(&d, name, sets, count);
        if (json_is_null(value) || f->type == ATOLL_FIELD_OTHERS)
            continue; /* many clients send null for "not given" */
        r = decode_one(&d, f, value, base);
        if (r < 0)
            return r;
    }
    return 0;
}

int atoll_body_decode(struct atoll_body *body, const void *bytes, size_t n,
                      const struct atoll_field *table, void *into, struct atoll_error *err)
{
    const struct atoll_field_set set = {table, into};
    int r = atoll_body_parse(body, bytes, n, err);

    return r < 0 ? r : atoll_fields_decode(body, body->root, "", &set, 1, err);
}

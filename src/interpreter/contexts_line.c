#include "interpreter/contexts_line.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>
#include "base/clock.h"
#include "base/switches.h"
#include "base/text.h"
#include "engine/json_memory.h"
#include "interpreter/explain.h"

#define KEEP_BYTES ATOLL_LINE_SHORT_MAX /* an empty buffer larger than this is freed */

/* Splitting the stream into lines. */

void atoll_lines_init(struct atoll_lines *l, struct atoll_shares *shares, const char *owner)
{
    *l = (struct atoll_lines){.shares = shares};
    (void)!atoll_text_copy(l->owner, sizeof(l->owner), owner);
    /* The piece of input that completes a line of maximal length may contain more. */
    atoll_buf_init(&l->buf, 2 * ATOLL_LINE_MAX);
}

void atoll_lines_set_owner(struct atoll_lines *l, const char *owner)
{
    size_t n = atoll_buf_size(&l->buf);

    atoll_shares_drop(l->shares, l->owner, n);
    (void)!atoll_text_copy(l->owner, sizeof(l->owner), owner);
    atoll_shares_add(l->shares, l->owner, n);
}

static void drop(struct atoll_lines *l, size_t n)
{
    atoll_shares_drop(l->shares, l->owner, n);
    atoll_buf_consume(&l->buf, n);
    if (atoll_buf_size(&l->buf) == 0 && l->buf.cap > KEEP_BYTES) {
        atoll_buf_done(&l->buf);
        atoll_buf_init(&l->buf, 2 * ATOLL_LINE_MAX);
    }
}

static void drop_taken(struct atoll_lines *l)
{
    size_t n = l->taken;

    l->taken = 0;
    drop(l, n);
}

void atoll_lines_done(struct atoll_lines *l)
{
    if (l->shares)
        atoll_shares_drop(l->shares, l->owner, atoll_buf_size(&l->buf));
    atoll_buf_done(&l->buf);
}

static size_t line_max(const struct atoll_lines *l, size_t n)
{
    return atoll_shares_fits(l->shares, l->owner, n) ? ATOLL_LINE_MAX : ATOLL_LINE_SHORT_MAX;
}

int atoll_lines_add(struct atoll_lines *l, const uint8_t *bytes, size_t n)
{
    const uint8_t *newline = memchr(bytes, '\n', n);
    size_t first = newline ? (size_t)(newline - bytes) : n;
    int r;

    drop_taken(l);
    if (!l->skipping && atoll_buf_size(&l->buf) + first > line_max(l, n)) {
        l->skipping = l->too_long = true;
        drop(l, atoll_buf_size(&l->buf));
        l->searched = 0;
    }
    if (l->skipping) {
        l->skipping = !newline;
        first = newline ? first + 1 : n;
        bytes += first;
        n -= first;
    }
    r = atoll_buf_append(&l->buf, bytes, n);
    if (r == 0)
        atoll_shares_add(l->shares, l->owner, n);
    return r;
}

int atoll_lines_next(struct atoll_lines *l, const char **ret_line, size_t *ret_len)
{
    const uint8_t *head, *newline;
    size_t size;

    drop_taken(l);
    if (l->too_long) {
        l->too_long = false;
        return -EMSGSIZE;
    }
    head = atoll_buf_head(&l->buf);
    size = atoll_buf_size(&l->buf);
    newline = size > l->searched ? memchr(head + l->searched, '\n', size - l->searched) : NULL;
    if (!newline) {
        l->searched = size;
        return 0;
    }
    l->searched = 0;
    *ret_line = (const char *)head;
    *ret_len = (size_t)(newline - head);
    l->taken = *ret_len + 1;
    return 1;
}

/* Checking: only the fields listed here are copied. */

enum shape {
    SHAPE_TEXT,
    SHAPE_TEXT_NEEDED,
    SHAPE_TIME,
    SHAPE_COUNT,
    SHAPE_BOOL,
    SHAPE_OBJECT,
    SHAPE_ANY
};

struct field {
    const char *name;
    enum shape shape;
};

static const struct field count_fields[] = {{"execution_count", SHAPE_COUNT}, {0}};
static const struct field text_fields[] = {{"text", SHAPE_TEXT_NEEDED},
                                           {"timestamp", SHAPE_TIME},
                                           {0}};
static const struct field error_fields[] = {{"name", SHAPE_TEXT_NEEDED},
                                            {"value", SHAPE_TEXT_NEEDED},
                                            {"traceback", SHAPE_TEXT_NEEDED},
                                            {0}};
static const struct field result_fields[] = {{"text", SHAPE_TEXT},
                                             {"html", SHAPE_TEXT},
                                             {"markdown", SHAPE_TEXT},
                                             {"svg", SHAPE_TEXT},
                                             {"png", SHAPE_TEXT},
                                             {"jpeg", SHAPE_TEXT},
                                             {"pdf", SHAPE_TEXT},
                                             {"latex", SHAPE_TEXT},
                                             {"json", SHAPE_ANY},
                                             {"javascript", SHAPE_TEXT},
                                             {"data", SHAPE_ANY},
                                             {"chart", SHAPE_ANY},
                                             {"is_main_result", SHAPE_BOOL},
                                             {"extra", SHAPE_OBJECT},
                                             {0}};

static const struct {
    const char *name;
    enum atoll_line_type word;
    enum atoll_context_line_kind kind;
    const struct field *fields;
} types[] = {
    {"stdout", ATOLL_DRIVER_LINE, ATOLL_LINE_STDOUT, text_fields},
    {"stderr", ATOLL_DRIVER_LINE, ATOLL_LINE_STDERR, text_fields},
    {"result", ATOLL_DRIVER_LINE, ATOLL_LINE_RESULT, result_fields},
    {"error", ATOLL_DRIVER_LINE, ATOLL_LINE_ERROR, error_fields},
    {"number_of_executions", ATOLL_DRIVER_LINE, ATOLL_LINE_COUNT, count_fields},
    {"end_of_execution", ATOLL_DRIVER_END, 0, NULL},
    {"ready", ATOLL_DRIVER_READY, 0, NULL},
    {"failed", ATOLL_DRIVER_FAILED, 0, NULL},
};

/* The value to write for a field, a new reference; NULL: leave the field out. */
static json_t *shaped(json_t *value, enum shape shape)
{
    char now[ATOLL_CLOCK_TEXT_MAX];

    switch (shape) {
    case SHAPE_TEXT:
        return json_is_string(value) ? json_incref(value) : NULL;
    case SHAPE_TEXT_NEEDED:
        return json_is_string(value) ? json_incref(value) : json_string("");
    case SHAPE_TIME:
        return json_is_string(value) ? json_incref(value)
                                     : json_string(atoll_clock_format(atoll_clock_unix_ms(), now));
    case SHAPE_COUNT:
        return json_integer(json_is_integer(value) && json_integer_value(value) > 0
                                ? json_integer_value(value)
                                : 0);
    case SHAPE_BOOL:
        return json_boolean(json_is_true(value));
    case SHAPE_OBJECT:
        return json_is_object(value) ? json_incref(value) : json_object();
    case SHAPE_ANY:
        return value && !json_is_null(value) ? json_incref(value) : NULL;
    }
    return NULL;
}

/* Takes ownership of the object. NULL: out of memory. */
static char *dump(json_t *object, size_t *ret_len)
{
    char *text = object ? atoll_json_dump(object, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;

    json_decref(object);
    if (ret_len)
        *ret_len = text ? strlen(text) : 0;
    return text;
}

static json_t *rewrite(const json_t *from, const char *type, const struct field *fields)
{
    json_t *to = json_pack("{s:s}", "type", type);

    for (const struct field *f = fields; to && f->name; f++) {
        json_t *value = shaped(json_object_get(from, f->name), f->shape);
        if (value && json_object_set_new(to, f->name, value) < 0) {
            json_decref(to);
            return NULL;
        }
    }
    return to;
}

static bool is_surrogate(const char *p, const char *end, char kind_low, char kind_high)
{
    char kind = end - p >= 6 ? (char)(p[3] | 0x20) : '\0';

    return kind != '\0' && p[0] == '\\' && p[1] == 'u' && (p[2] | 0x20) == 'd' &&
           kind >= kind_low && kind <= kind_high;
}

/* Replaces escapes of lone surrogates, which strings of some languages contain and JSON forbids, by
 * U+FFFD. False when there was none. */
static bool replace_lone_surrogates(char *bytes, size_t n)
{
    const char *end = bytes + n;
    bool mended = false;

    for (char *p = bytes; p < end; p++) {
        if (*p != '\\' || end - p < 2)
            continue;
        if (is_surrogate(p, end, '8', 'b') && is_surrogate(p + 6, end, 'c', 'f')) {
            p += 11;
        } else if (is_surrogate(p, end, '8', 'b') || is_surrogate(p, end, 'c', 'f')) {
            memcpy(p + 2, "fffd", 4);
            mended = true;
        } else {
            p++; /* also skips an escaped backslash */
        }
    }
    return mended;
}

static int load_mended(const char *bytes, size_t n, json_t **ret)
{
    ATOLL_AUTOFREE char *copy = atoll_fault("base.input") ? NULL : malloc(n);

    if (!copy)
        return -ENOMEM;
    memcpy(copy, bytes, n);
    *ret = replace_lone_surrogates(copy, n) ? atoll_json_load(copy, n, JSON_ALLOW_NUL, NULL) : NULL;
    return 0;
}

/* *ret is NULL when the line is not an object. Integers beyond 64 bits are read as doubles, as
 * JavaScript does. -ENOMEM. */
static int load(const char *bytes, size_t n, json_t **ret)
{
    json_error_t why;
    json_t *root = atoll_json_load(bytes, n, JSON_ALLOW_NUL, &why);
    int r = 0;

    if (!root && json_error_code(&why) == json_error_numeric_overflow)
        root = atoll_json_load(bytes, n, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &why);
    else if (!root && n > 0 && bytes[0] == '{')
        r = load_mended(bytes, n, &root);
    if (root && !json_is_object(root)) {
        json_decref(root);
        root = NULL;
    }
    *ret = root;
    return r;
}

static enum atoll_line_type understand(const json_t *root, uint64_t id, struct atoll_line *ret)
{
    const char *type = json_string_value(json_object_get(root, "type"));
    const json_t *number = json_object_get(root, "id");

    for (size_t i = 0; type && i < ATOLL_ARRAY_LEN(types); i++) {
        if (strcmp(type, types[i].name) != 0)
            continue;
        if (types[i].word == ATOLL_DRIVER_READY)
            return ATOLL_DRIVER_READY;
        if (types[i].word == ATOLL_DRIVER_FAILED) {
            const char *text = json_string_value(json_object_get(root, "text"));
            ret->json = strdup(text ? text : "it does not say why");
            ret->len = ret->json ? strlen(ret->json) : 0;
            return ret->json ? ATOLL_DRIVER_FAILED : ATOLL_DRIVER_NO_MEMORY;
        }
        if (!json_is_number(number))
            return ATOLL_DRIVER_NOISE;
        if (json_number_value(number) != (double)id)
            return ATOLL_DRIVER_OTHER;
        if (types[i].word == ATOLL_DRIVER_LINE) {
            ret->kind = types[i].kind;
            ret->json = dump(rewrite(root, type, types[i].fields), &ret->len);
            return ret->json ? ATOLL_DRIVER_LINE : ATOLL_DRIVER_NOISE;
        }
        return types[i].word;
    }
    return ATOLL_DRIVER_NOISE;
}

enum atoll_line_type atoll_line_parse(const char *bytes, size_t n, uint64_t id,
                                      struct atoll_line *ret)
{
    enum atoll_line_type word = ATOLL_DRIVER_NO_MEMORY;
    json_t *root = NULL;
    int r;

    *ret = (struct atoll_line){0};
    atoll_json_memory_begin();
    r = load(bytes, n, &root);
    if (r != -ENOMEM)
        word = root ? understand(root, id, ret) : ATOLL_DRIVER_NOISE;
    json_decref(root);
    if (!atoll_json_memory_failed())
        return word;
    atoll_line_done(ret);
    return ATOLL_DRIVER_NO_MEMORY;
}

void atoll_line_done(struct atoll_line *line)
{
    free(line->json);
    line->json = NULL;
}

/* Making lines. */

/* Replaces what is not UTF-8: Jansson refuses it. */
static json_t *text_of(const char *text)
{
    json_t *value = json_string(text);
    struct atoll_buf quoted;

    if (value)
        return value;
    atoll_buf_init(&quoted, ATOLL_LINE_SHORT_MAX);
    if (atoll_text_json_quote(&quoted, text, strlen(text)) == 0)
        value = atoll_json_load(atoll_buf_head(&quoted), atoll_buf_size(&quoted), JSON_DECODE_ANY,
                                NULL);
    atoll_buf_done(&quoted);
    return value ? value : json_string("");
}

static char *made(json_t *object)
{
    char *text = dump(object, NULL);

    if (!text)
        abort(); /* small fixed objects: the daemon is crash-only */
    return text;
}

char *atoll_line_make_error(const char *name, const char *value, const char *traceback)
{
    return made(json_pack("{s:s, s:o, s:o, s:o}", "type", "error", "name", text_of(name), "value",
                          text_of(value), "traceback", text_of(traceback)));
}

char *atoll_line_make_stderr(const char *text)
{
    char now[ATOLL_CLOCK_TEXT_MAX];

    return made(json_pack("{s:s, s:o, s:s}", "type", "stderr", "text", text_of(text), "timestamp",
                          atoll_clock_format(atoll_clock_unix_ms(), now)));
}

char *atoll_line_rename_error(const char *json, size_t n, const char *name, const char *value)
{
    json_t *root = atoll_json_load(json, n, JSON_ALLOW_NUL, NULL);

    if (!root)
        return atoll_line_make_error(name, value, "");
    (void)json_object_set_new(root, "name", text_of(name));
    (void)json_object_set_new(root, "value", text_of(value));
    return made(root);
}

static void add_text(json_t *root, const char *field, const char *separator, const char *text)
{
    const char *before = json_string_value(json_object_get(root, field));
    json_t *whole = json_sprintf("%s%s%s", before ? before : "", separator, text);

    if (whole)
        (void)json_object_set_new(root, field, whole);
}

char *atoll_line_hint_error(char *json)
{
    json_t *root = atoll_json_load(json, strlen(json), JSON_ALLOW_NUL, NULL);
    const char *name = json_string_value(json_object_get(root, "name"));
    const char *hint = name ? atoll_command_hint(name) : NULL;

    if (hint) {
        add_text(root, "value", "; ", hint);
        add_text(root, "traceback", "\nHint: ", hint);
        free(json);
        return made(root);
    }
    json_decref(root);
    return json;
}

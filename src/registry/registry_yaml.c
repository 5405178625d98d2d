/*
 * Loads YAML text into a JSON object, directed by a field table. The table gives the type of each
 * scalar, so that the loader does not depend on YAML's implicit typing ("no" stays a string in a
 * string field). Aliases and tags are refused: registry files do not need them, and aliases let a
 * small file expand to a large one. Scalars are in registry_scalar.c.
 */
#include "registry/registry_yaml.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"

#define KNOWN_MAX 200
#define NAME_SHOWN 48
#define KEYS_MAX 1024
#define ANY_DEPTH_MAX 32

static int load_field(const struct atoll_yaml_loader *l, const struct atoll_yaml_spot *spot,
                      struct fy_node *node, const struct atoll_yaml_field *f, json_t **ret);
static int load_object(const struct atoll_yaml_loader *l, const struct atoll_yaml_spot *spot,
                       struct fy_node *node, const struct atoll_yaml_field *table, json_t **ret);
static int load_any(const struct atoll_yaml_loader *l, const struct atoll_yaml_spot *spot,
                    struct fy_node *node, unsigned depth, json_t **ret);

/* The type of the members of a collection. */
struct member {
    const struct atoll_yaml_field *field; /* NULL: anything */
    unsigned depth;
};

static int load_member(const struct atoll_yaml_loader *l, const struct atoll_yaml_spot *spot,
                       struct fy_node *node, const struct member *m, json_t **ret)
{
    int r = atoll_yaml_check_plain(l, spot, node);

    if (r < 0)
        return r;
    return m->field ? load_field(l, spot, node, m->field, ret)
                    : load_any(l, spot, node, m->depth + 1, ret);
}

static int load_sequence(const struct atoll_yaml_loader *l, const struct atoll_yaml_spot *outer,
                         struct fy_node *node, double min, double max, const struct member *m,
                         const char *what, json_t **ret)
{
    int n = node && fy_node_is_sequence(node) ? fy_node_sequence_item_count(node) : -1;
    struct fy_node *item;
    json_t *array;
    void *pos = NULL;
    size_t i = 0;
    char text[120];

    if (n < 0 || n < min || n > max) {
        (void)snprintf(text, sizeof(text), "a list of %.0f to %.0f %s", min, max, what);
        return atoll_yaml_refuse(l, outer, node, text);
    }
    array = atoll_yaml_must(json_array());
    while ((item = fy_node_sequence_iterate(node, &pos))) {
        struct atoll_yaml_spot spot = {outer, "", i++, atoll_yaml_place_of(item, outer->place)};
        json_t *value;
        int r = load_member(l, &spot, item, m, &value);
        if (r < 0) {
            json_decref(array);
            return r;
        }
        if (json_array_append_new(array, value) < 0)
            abort();
    }
    *ret = array;
    return 0;
}

static int load_pair(const struct atoll_yaml_loader *l, const struct atoll_yaml_spot *outer,
                     struct fy_node_pair *pair, const struct member *m,
                     bool (*is_key)(const char *), const char *what, json_t *object)
{
    struct fy_node *key = fy_node_pair_key(pair), *node = fy_node_pair_value(pair);
    char name[129];
    struct atoll_yaml_spot spot = {outer, name, 0, atoll_yaml_place_of(key, outer->place)};
    json_t *value;
    int r;

    if (atoll_yaml_check_plain(l, outer, key) < 0 || !atoll_yaml_copy(key, name, sizeof(name)) ||
        !is_key(name))
        return atoll_yaml_refuse(l, outer, key, what);
    r = load_member(l, &spot, node, m, &value);
    if (r == 0 && json_object_set_new(object, name, value) < 0)
        abort();
    return r;
}

static int load_mapping(const struct atoll_yaml_loader *l, const struct atoll_yaml_spot *outer,
                        struct fy_node *node, double min, double max, const struct member *m,
                        bool (*is_key)(const char *), const char *what, json_t **ret)
{
    int n = node && fy_node_is_mapping(node) ? fy_node_mapping_item_count(node) : -1;
    struct fy_node_pair *pair;
    json_t *object;
    void *pos = NULL;
    int r = 0;

    if (n < 0 || n < min || n > max)
        return atoll_yaml_refuse(l, outer, node, what);
    object = atoll_yaml_must(json_object());
    while (r == 0 && (pair = fy_node_mapping_iterate(node, &pos)))
        r = load_pair(l, outer, pair, m, is_key, what, object);
    if (r < 0)
        json_decref(object);
    else
        *ret = object;
    return r;
}

static bool is_env_key(const char *name)
{
    return *name && !strchr(name, '=');
}

static bool is_any_key(const char *name)
{
    (void)name;
    return true;
}

static const struct atoll_yaml_field text_member = {.type = ATOLL_YAML_STRING, .max = 65536};
static const struct atoll_yaml_field list_member = {.type = ATOLL_YAML_STRINGS, .max = 256};

static const struct atoll_yaml_field *find_row(const struct atoll_yaml_field *table,
                                               const char *name)
{
    for (; table->name; table++)
        if (strcmp(table->name, name) == 0)
            return table;
    return NULL;
}

static void list_names(const struct atoll_yaml_field *table, char *out, size_t cap)
{
    size_t len = 0;

    for (*out = '\0'; table->name && len < cap; table++)
        len += (size_t)snprintf(out + len, cap - len, "%s%s", len ? ", " : "", table->name);
}

static int load_choice(const struct atoll_yaml_loader *l, const struct atoll_yaml_spot *spot,
                       struct fy_node *node, const struct atoll_yaml_field *table, json_t **ret)
{
    char text[65], known[KNOWN_MAX], what[KNOWN_MAX + 16];

    if (atoll_yaml_copy(node, text, sizeof(text)) && find_row(table, text)) {
        *ret = atoll_yaml_must(json_string(text));
        return 0;
    }
    list_names(table, known, sizeof(known));
    (void)snprintf(what, sizeof(what), "one of %s", known);
    return atoll_yaml_refuse(l, spot, node, what);
}

/* Finds the table to check the object by. */
static int find_kind(const struct atoll_yaml_loader *l, const struct atoll_yaml_spot *spot,
                     struct fy_node *node, const struct atoll_yaml_field *table,
                     const struct atoll_yaml_field **ret)
{
    struct fy_node *given = node && fy_node_is_mapping(node)
                                ? fy_node_mapping_lookup_by_string(node, "kind", FY_NT)
                                : NULL;
    struct atoll_yaml_spot inner = {spot, "kind", 0, atoll_yaml_place_of(given, spot->place)};
    json_t *kind = NULL;
    char known[KNOWN_MAX], text[KNOWN_MAX + 160];
    int r = given ? load_choice(l, &inner, given, table, &kind) : 0;

    if (r < 0)
        return r;
    *ret = find_row(table, kind ? json_string_value(kind) : spot->name);
    json_decref(kind);
    if (*ret)
        return 0;
    list_names(table, known, sizeof(known));
    (void)snprintf(text, sizeof(text), "%.64s needs a \"kind\", one of %s", spot->name, known);
    return atoll_yaml_refuse_at(l, spot->place, text);
}

static int load_kind(const struct atoll_yaml_loader *l, const struct atoll_yaml_spot *spot,
                     struct fy_node *node, const struct atoll_yaml_field *table, json_t **ret)
{
    const struct atoll_yaml_field *row = NULL;
    int r = find_kind(l, spot, node, table, &row);

    if (r == 0)
        r = load_object(l, spot, node, row->table, ret);
    if (r == 0 && (json_object_set_new(*ret, "@kind", json_string(row->name)) < 0 ||
                   json_object_set_new(*ret, "@line", json_integer(spot->place.line)) < 0))
        abort();
    return r;
}

static int load_named_kind(const struct atoll_yaml_loader *l, const struct atoll_yaml_spot *outer,
                           struct fy_node_pair *pair, const struct atoll_yaml_field *table,
                           json_t *object)
{
    struct fy_node *key = fy_node_pair_key(pair), *node = fy_node_pair_value(pair);
    char name[65];
    struct atoll_yaml_spot spot = {outer, name, 0, atoll_yaml_place_of(key, outer->place)};
    json_t *value;
    int r;

    if (atoll_yaml_check_plain(l, outer, key) < 0 || !atoll_yaml_copy(key, name, sizeof(name)) ||
        !atoll_text_is_name(name))
        return atoll_yaml_refuse(l, outer, key, "a mapping from names to mappings");
    r = atoll_yaml_check_plain(l, &spot, node);
    if (r == 0)
        r = load_kind(l, &spot, node, table, &value);
    if (r == 0 && json_object_set_new(object, name, value) < 0)
        abort();
    return r;
}

static int load_kinds(const struct atoll_yaml_loader *l, const struct atoll_yaml_spot *outer,
                      struct fy_node *node, const struct atoll_yaml_field *f, json_t **ret)
{
    int n = node && fy_node_is_mapping(node) ? fy_node_mapping_item_count(node) : -1;
    struct fy_node_pair *pair;
    json_t *object;
    void *pos = NULL;
    char text[120];
    int r = 0;

    if (n < 0 || n < f->min || n > f->max) {
        (void)snprintf(text, sizeof(text), "a mapping from %.0f to %.0f names to mappings", f->min,
                       f->max);
        return atoll_yaml_refuse(l, outer, node, text);
    }
    object = atoll_yaml_must(json_object());
    while (r == 0 && (pair = fy_node_mapping_iterate(node, &pos)))
        r = load_named_kind(l, outer, pair, f->table, object);
    if (r < 0)
        json_decref(object);
    else
        *ret = object;
    return r;
}

static int load_field(const struct atoll_yaml_loader *l, const struct atoll_yaml_spot *spot,
                      struct fy_node *node, const struct atoll_yaml_field *f, json_t **ret)
{
    const struct atoll_yaml_field inner = {.type = ATOLL_YAML_OBJECT, .table = f->table};

    switch (f->type) {
    case ATOLL_YAML_STRING:
    case ATOLL_YAML_NAME:
    case ATOLL_YAML_PROGRAM:
    case ATOLL_YAML_NUMBER:
    case ATOLL_YAML_WHOLE:
    case ATOLL_YAML_BOOL:
        return atoll_yaml_load_scalar(l, spot, node, f, ret);
    case ATOLL_YAML_STRINGS:
        return load_sequence(l, spot, node, f->min, f->max, &(struct member){&text_member, 0},
                             "texts", ret);
    case ATOLL_YAML_ENV:
        return load_mapping(l, spot, node, 0, KEYS_MAX, &(struct member){&text_member, 0},
                            is_env_key, "a mapping from names of variables to texts", ret);
    case ATOLL_YAML_OBJECT:
        return load_object(l, spot, node, f->table, ret);
    case ATOLL_YAML_OBJECTS:
        return load_sequence(l, spot, node, f->min, f->max, &(struct member){&inner, 0}, "mappings",
                             ret);
    case ATOLL_YAML_NAMED:
        return load_mapping(l, spot, node, f->min, f->max, &(struct member){&inner, 0},
                            atoll_text_is_name, "a mapping from names to mappings", ret);
    case ATOLL_YAML_LISTS:
        return load_mapping(l, spot, node, f->min, f->max, &(struct member){&list_member, 0},
                            atoll_text_is_name, "a mapping from names to lists of texts", ret);
    case ATOLL_YAML_CHOICE:
        return load_choice(l, spot, node, f->table, ret);
    case ATOLL_YAML_KINDS:
        return load_kinds(l, spot, node, f, ret);
    case ATOLL_YAML_KIND:
        return load_kind(l, spot, node, f->table, ret);
    case ATOLL_YAML_ANY:
        return load_mapping(l, spot, node, 0, KEYS_MAX, &(struct member){NULL, 0}, is_any_key,
                            "a mapping", ret);
    }
    return -EINVAL;
}

static int load_any(const struct atoll_yaml_loader *l, const struct atoll_yaml_spot *spot,
                    struct fy_node *node, unsigned depth, json_t **ret)
{
    const struct member m = {NULL, depth};

    if (depth > ANY_DEPTH_MAX)
        return atoll_yaml_refuse(l, spot, node, "nested less deeply");
    if (node && fy_node_is_mapping(node))
        return load_mapping(l, spot, node, 0, KEYS_MAX, &m, is_any_key, "a mapping", ret);
    if (node && fy_node_is_sequence(node))
        return load_sequence(l, spot, node, 0, KEYS_MAX, &m, "values", ret);
    *ret = atoll_yaml_guess(node);
    return *ret ? 0 : atoll_yaml_refuse(l, spot, node, "valid UTF-8 text");
}

static int refuse_unknown(const struct atoll_yaml_loader *l, const struct atoll_yaml_spot *spot,
                          struct fy_node *key, const struct atoll_yaml_field *table)
{
    char known[KNOWN_MAX], path[120] = "", text[400];
    size_t len, n = 0;
    const char *name = atoll_yaml_scalar(key, &n);

    list_names(table, known, sizeof(known));
    len = atoll_yaml_write_path(spot, path, sizeof(path));
    (void)snprintf(text, sizeof(text), "there is no field \"%s%s%.*s\"; known are %s", path,
                   len ? "." : "", (int)ATOLL_MIN(n, (size_t)NAME_SHOWN), name ? name : "", known);
    return atoll_yaml_refuse_at(l, atoll_yaml_place_of(key, spot->place), text);
}

static int load_row(const struct atoll_yaml_loader *l, const struct atoll_yaml_spot *outer,
                    struct fy_node_pair *pair, const struct atoll_yaml_field *table, json_t *object)
{
    struct fy_node *key = fy_node_pair_key(pair), *node = fy_node_pair_value(pair);
    const struct atoll_yaml_field *f;
    struct atoll_yaml_spot spot = {outer, "", 0, atoll_yaml_place_of(key, outer->place)};
    json_t *value;
    char name[65];
    int r;

    f = atoll_yaml_copy(key, name, sizeof(name)) && !fy_node_is_alias(key) ? find_row(table, name)
                                                                           : NULL;
    if (!f)
        return refuse_unknown(l, outer, key, table);
    spot.name = f->name;
    r = atoll_yaml_check_plain(l, &spot, node);
    if (r == 0)
        r = load_field(l, &spot, node, f, &value);
    if (r == 0 && json_object_set_new(object, f->name, value) < 0)
        abort();
    return r;
}

static int load_object(const struct atoll_yaml_loader *l, const struct atoll_yaml_spot *spot,
                       struct fy_node *node, const struct atoll_yaml_field *table, json_t **ret)
{
    struct fy_node_pair *pair;
    json_t *object;
    void *pos = NULL;
    char text[120];
    int r = 0;

    if (!node || !fy_node_is_mapping(node))
        return atoll_yaml_refuse(l, spot, node, "a mapping of fields to values");
    object = atoll_yaml_must(json_object());
    while (r == 0 && (pair = fy_node_mapping_iterate(node, &pos)))
        r = load_row(l, spot, pair, table, object);
    for (; r == 0 && table->name; table++) {
        if (!table->required || json_object_get(object, table->name))
            continue;
        (void)snprintf(text, sizeof(text), "the field \"%s\" is missing", table->name);
        r = atoll_yaml_refuse_at(l, spot->place, text);
    }
    if (r < 0)
        json_decref(object);
    else
        *ret = object;
    return r;
}

/* The whole document. */

/* libfyaml ends a value at bytes that are not UTF-8, so refuse them first. */
static int check_text(const struct atoll_yaml_loader *l, const char *text, size_t n)
{
    struct atoll_yaml_place place = {1, 1};

    for (size_t i = 0; i < n;) {
        uint8_t c = (uint8_t)text[i];
        size_t len = c < 0x80 ? 1 : atoll_text_utf8_len((const uint8_t *)text + i, n - i);
        if (len == 0 || (c < 0x20 && !strchr("\t\n\r", c)) || c == 0 || c == 0x7f)
            return atoll_yaml_refuse_at(l, place, "the text is not valid UTF-8");
        place.line += c == '\n';
        place.column = c == '\n' ? 1 : place.column + 1;
        i += len;
    }
    return 0;
}

static int refuse_syntax(const struct atoll_yaml_loader *l, struct fy_diag *diag)
{
    void *pos = NULL;
    const struct fy_diag_error *e = fy_diag_errors_iterate(diag, &pos);

    if (!e)
        return atoll_yaml_refuse_at(l, (struct atoll_yaml_place){1, 1}, "this is not valid YAML");
    return atoll_yaml_refuse_at(l, (struct atoll_yaml_place){e->line, e->column}, e->msg);
}

static int load_documents(const struct atoll_yaml_loader *l, struct fy_parser *parser,
                          struct fy_diag *diag, const struct atoll_yaml_field *table, json_t **ret)
{
    const struct atoll_yaml_spot root = {NULL, "", 0, {1, 1}};
    struct fy_document *doc = fy_parse_load_document(parser), *second;
    int r;

    if (!doc)
        return fy_parser_get_stream_error(parser)
                   ? refuse_syntax(l, diag)
                   : atoll_yaml_refuse_at(l, root.place,
                                          "the file must hold a mapping of fields to values");
    r = atoll_yaml_check_plain(l, &root, fy_document_root(doc));
    if (r == 0)
        r = load_object(l, &root, fy_document_root(doc), table, ret);
    fy_parse_document_destroy(parser, doc);
    if (r < 0)
        return r;
    second = fy_parse_load_document(parser);
    if (second)
        r = atoll_yaml_refuse_at(l, root.place, "the file must hold one document only");
    else if (fy_parser_get_stream_error(parser))
        r = refuse_syntax(l, diag);
    fy_parse_document_destroy(parser, second);
    if (r < 0)
        json_decref(*ret);
    return r;
}

static int load(const struct atoll_yaml_loader *l, const char *text, size_t n,
                const struct atoll_yaml_field *table, json_t **ret)
{
    struct fy_parse_cfg config = {.flags =
                                      FYPCF_QUIET | FYPCF_JSON_NONE | FYPCF_DEFAULT_VERSION_1_2};
    struct fy_parser *parser = NULL;
    struct fy_diag_cfg quiet;
    int r = check_text(l, text, n);

    if (r < 0)
        return r;
    fy_diag_cfg_default(&quiet);
    quiet.fp = NULL;
    config.diag = fy_diag_create(&quiet);
    if (config.diag) {
        fy_diag_set_collect_errors(config.diag, true);
        parser = fy_parser_create(&config);
    }
    if (!parser || fy_parser_set_string(parser, text, n) < 0)
        r = atoll_fail_errno(l->err, ENOMEM, "read %s", l->file);
    else
        r = load_documents(l, parser, config.diag, table, ret);
    fy_parser_destroy(parser);
    fy_diag_destroy(config.diag);
    return r;
}

int atoll_yaml_load(const char *file, const char *text, size_t n,
                    const struct atoll_yaml_field *table, json_t **ret, struct atoll_error *err)
{
    return load(&(struct atoll_yaml_loader){.file = file, .err = err}, text, n, table, ret);
}

int atoll_yaml_load_expanded(const char *file, const char *text, size_t n,
                             const struct atoll_yaml_field *table, json_t **ret,
                             struct atoll_error *err)
{
    return load(&(struct atoll_yaml_loader){.file = file, .err = err, .expands = true}, text, n,
                table, ret);
}

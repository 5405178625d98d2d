/*
 * The stored form of recipes. Each struct has one table of fields, which is used in both directions.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include "image/recipe_internal.h"

enum type {
    TEXT,    /* const char *; default NULL */
    BOOLEAN, /* bool; default false */
    INT,     /* int; default 0 */
    I8,      /* int8_t */
    I64,     /* int64_t */
    NAMED,   /* an enum whose names are in `names` */
    TEXTS,   /* an array of texts, and its count */
    OBJECT,  /* a struct with a table */
    OBJECTS, /* an array of such structs, and its count */
};

struct field {
    const char *name;
    enum type type;
    size_t offset, count_offset;
    const struct field *table; /* ends with a row without a name */
    size_t size;               /* of one struct of OBJECTS */
    const char *const *names;  /* ends with NULL */
    int64_t otherwise;         /* default of numbers and enums */
    bool cosmetic;             /* not part of a key */
};

static const char *const kinds[] = {
    "ADD",        "ARG",     "CMD", "COPY",  "ENTRYPOINT", "ENV",  "EXPOSE", "HEALTHCHECK", "LABEL",
    "MAINTAINER", "ONBUILD", "RUN", "SHELL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR",     NULL};
static const char *const mount_types[] = {"bind", "cache", "tmpfs", "secret", "ssh", NULL};
static const char *const sharings[] = {"shared", "private", "locked", NULL};

#define PAIR(m) offsetof(struct atoll_recipe_pair, m)
static const struct field pair[] = {
    {.name = "name", .type = TEXT, .offset = PAIR(name)},
    {.name = "value", .type = TEXT, .offset = PAIR(value)},
    {0},
};

#define DOC(m) offsetof(struct atoll_recipe_heredoc, m)
static const struct field heredoc[] = {
    {.name = "name", .type = TEXT, .offset = DOC(name)},
    {.name = "text", .type = TEXT, .offset = DOC(text)},
    {.name = "expand", .type = BOOLEAN, .offset = DOC(expand)},
    {.name = "line", .type = INT, .offset = DOC(line), .cosmetic = true},
    {0},
};

#define MOUNT(m) offsetof(struct atoll_recipe_mount, m)
static const struct field mount[] = {
    {.name = "type", .type = NAMED, .offset = MOUNT(type), .names = mount_types, .otherwise = -1},
    {.name = "text", .type = TEXT, .offset = MOUNT(text), .cosmetic = true},
    {.name = "id", .type = TEXT, .offset = MOUNT(id)},
    {.name = "target", .type = TEXT, .offset = MOUNT(target)},
    {.name = "source", .type = TEXT, .offset = MOUNT(source)},
    {.name = "from", .type = TEXT, .offset = MOUNT(from)},
    {.name = "env", .type = TEXT, .offset = MOUNT(env)},
    {.name = "readonly", .type = BOOLEAN, .offset = MOUNT(readonly)},
    {.name = "required", .type = BOOLEAN, .offset = MOUNT(required)},
    {.name = "sharing", .type = NAMED, .offset = MOUNT(sharing), .names = sharings},
    {.name = "mode", .type = I64, .offset = MOUNT(mode), .otherwise = -1},
    {.name = "uid", .type = I64, .offset = MOUNT(uid), .otherwise = -1},
    {.name = "gid", .type = I64, .offset = MOUNT(gid), .otherwise = -1},
    {.name = "sizeBytes", .type = I64, .offset = MOUNT(size_bytes)},
    {0},
};

#define FLAG(m) offsetof(struct atoll_recipe_flags, m)
static const struct field flags[] = {
    {.name = "from", .type = TEXT, .offset = FLAG(from)},
    {.name = "chown", .type = TEXT, .offset = FLAG(chown)},
    {.name = "chmod", .type = TEXT, .offset = FLAG(chmod)},
    {.name = "link", .type = BOOLEAN, .offset = FLAG(link)},
    {.name = "parents", .type = BOOLEAN, .offset = FLAG(parents)},
    {.name = "exclude",
     .type = TEXTS,
     .offset = FLAG(excludes),
     .count_offset = FLAG(exclude_count)},
    {.name = "checksum", .type = TEXT, .offset = FLAG(checksum)},
    {.name = "keepGitDir", .type = BOOLEAN, .offset = FLAG(keep_git_dir)},
    {.name = "unpack", .type = I8, .offset = FLAG(unpack), .otherwise = -1},
    {.name = "network", .type = TEXT, .offset = FLAG(network)},
    {.name = "security", .type = TEXT, .offset = FLAG(security)},
    {.name = "mounts",
     .type = OBJECTS,
     .offset = FLAG(mounts),
     .count_offset = FLAG(mount_count),
     .table = mount,
     .size = sizeof(struct atoll_recipe_mount)},
    {0},
};

#define HEALTH(m) offsetof(struct atoll_recipe_health, m)
static const struct field health[] = {
    {.name = "none", .type = BOOLEAN, .offset = HEALTH(none)},
    {.name = "intervalNs", .type = I64, .offset = HEALTH(interval_ns)},
    {.name = "timeoutNs", .type = I64, .offset = HEALTH(timeout_ns)},
    {.name = "startNs", .type = I64, .offset = HEALTH(start_ns)},
    {.name = "startIntervalNs", .type = I64, .offset = HEALTH(start_interval_ns)},
    {.name = "retries", .type = I64, .offset = HEALTH(retries)},
    {0},
};

#define STEP(m) offsetof(struct atoll_recipe_step, m)
static const struct field step_table[] = {
    {.name = "kind", .type = NAMED, .offset = STEP(kind), .names = kinds, .otherwise = -1},
    {.name = "line", .type = INT, .offset = STEP(line), .cosmetic = true},
    {.name = "lastLine", .type = INT, .offset = STEP(last_line), .cosmetic = true},
    {.name = "text", .type = TEXT, .offset = STEP(text), .cosmetic = true},
    {.name = "gap", .type = BOOLEAN, .offset = STEP(gap), .cosmetic = true},
    {.name = "fresh", .type = BOOLEAN, .offset = STEP(fresh), .cosmetic = true},
    {.name = "json", .type = BOOLEAN, .offset = STEP(json)},
    {.name = "args", .type = TEXTS, .offset = STEP(args), .count_offset = STEP(arg_count)},
    {.name = "dest", .type = TEXT, .offset = STEP(dest)},
    {.name = "pairs",
     .type = OBJECTS,
     .offset = STEP(pairs),
     .count_offset = STEP(pair_count),
     .table = pair,
     .size = sizeof(struct atoll_recipe_pair)},
    {.name = "flags", .type = OBJECT, .offset = STEP(flags), .table = flags},
    {.name = "health", .type = OBJECT, .offset = STEP(health), .table = health},
    {.name = "heredocs",
     .type = OBJECTS,
     .offset = STEP(heredocs),
     .count_offset = STEP(heredoc_count),
     .table = heredoc,
     .size = sizeof(struct atoll_recipe_heredoc)},
    {0},
};

#define STAGE(m) offsetof(struct atoll_recipe_stage, m)
static const struct field stage_table[] = {
    {.name = "name", .type = TEXT, .offset = STAGE(name)},
    {.name = "base", .type = TEXT, .offset = STAGE(base)},
    {.name = "platform", .type = TEXT, .offset = STAGE(platform)},
    {.name = "text", .type = TEXT, .offset = STAGE(text)},
    {.name = "line", .type = INT, .offset = STAGE(line)},
    {0},
};

/* Members of any type, by their place. */
static void *pointer_at(const void *object, size_t offset)
{
    void *p;

    memcpy(&p, (const char *)object + offset, sizeof(p));
    return p;
}

static size_t count_at(const void *object, size_t offset)
{
    size_t n;

    memcpy(&n, (const char *)object + offset, sizeof(n));
    return n;
}

static int64_t number_at(const void *object, const struct field *f)
{
    const char *place = (const char *)object + f->offset;

    switch (f->type) {
    case I8:
        return *(const int8_t *)place;
    case I64:
        return *(const int64_t *)(const void *)place;
    default:
        return *(const int *)(const void *)place;
    }
}

static void set_number(void *object, const struct field *f, int64_t value)
{
    char *place = (char *)object + f->offset;

    switch (f->type) {
    case I8:
        *(int8_t *)place = (int8_t)value;
        break;
    case I64:
        *(int64_t *)(void *)place = value;
        break;
    default:
        *(int *)(void *)place = (int)value;
    }
}

static json_t *write_object(const void *object, const struct field *table, bool for_key);

static json_t *write_texts(const void *object, const struct field *f)
{
    const char *const *items = pointer_at(object, f->offset);
    size_t count = count_at(object, f->count_offset);
    json_t *array = count > 0 ? json_array() : NULL;

    for (size_t i = 0; i < count; i++)
        (void)json_array_append_new(array, json_string_nocheck(items[i]));
    return array;
}

static json_t *write_objects(const void *object, const struct field *f, bool for_key)
{
    const char *items = pointer_at(object, f->offset);
    size_t count = count_at(object, f->count_offset);
    json_t *array = count > 0 ? json_array() : NULL;

    for (size_t i = 0; i < count; i++)
        (void)json_array_append_new(array, write_object(items + i * f->size, f->table, for_key));
    return array;
}

/* NULL: the member has its default. */
static json_t *write_field(const void *object, const struct field *f, bool for_key)
{
    const char *text;
    json_t *inner;

    switch (f->type) {
    case TEXT:
        text = pointer_at(object, f->offset);
        return text ? json_string_nocheck(text) : NULL;
    case BOOLEAN:
        return *((const bool *)object + f->offset) ? json_true() : NULL;
    case INT:
    case I8:
    case I64:
        return number_at(object, f) != f->otherwise ? json_integer(number_at(object, f)) : NULL;
    case NAMED:
        return number_at(object, f) != f->otherwise ? json_string(f->names[number_at(object, f)])
                                                    : NULL;
    case TEXTS:
        return write_texts(object, f);
    case OBJECT:
        inner = write_object((const char *)object + f->offset, f->table, for_key);
        if (json_object_size(inner) > 0)
            return inner;
        json_decref(inner);
        return NULL;
    case OBJECTS:
        return write_objects(object, f, for_key);
    }
    return NULL;
}

static json_t *write_object(const void *object, const struct field *table, bool for_key)
{
    json_t *json = json_object();

    for (const struct field *f = table; f->name; f++) {
        json_t *value = for_key && f->cosmetic ? NULL : write_field(object, f, for_key);
        if (value)
            (void)json_object_set_new(json, f->name, value);
    }
    return json;
}

json_t *atoll_recipe_step_to_json(const struct atoll_recipe_step *step, bool for_key)
{
    return write_object(step, step_table, for_key);
}

static json_t *write_steps(const struct atoll_recipe_step **steps, size_t count)
{
    json_t *array = json_array();

    for (size_t i = 0; i < count; i++)
        (void)json_array_append_new(array, write_object(steps[i], step_table, false));
    return array;
}

json_t *atoll_recipe_to_json(const struct atoll_recipe *r)
{
    char escape[2] = {r->escape, '\0'};
    json_t *stages = json_array(), *json = json_object();

    for (size_t i = 0; i < r->stage_count; i++) {
        const struct atoll_recipe_stage *stage = &r->stages[i];
        json_t *object = write_object(stage, stage_table, false);
        (void)json_object_set_new(object, "steps", write_steps(stage->steps, stage->step_count));
        (void)json_array_append_new(stages, object);
    }
    (void)json_object_set_new(json, "escape", json_string(escape));
    if (r->syntax)
        (void)json_object_set_new(json, "syntax", json_string_nocheck(r->syntax));
    (void)json_object_set_new(json, "globals", write_steps(r->globals, r->global_count));
    (void)json_object_set_new(json, "stages", stages);
    return json;
}

/* Where the reader is, for errors. */
struct reader {
    struct atoll_recipe_memory *memory;
    char where[64];
    struct atoll_error *err;
};

static int bad(struct reader *r, const char *name, const char *wanted)
{
    return atoll_recipe_refuse(r->err, 0, "recipe: %s%.40s must be %s", r->where, name, wanted);
}

static int read_object(struct reader *r, const json_t *json, const struct field *table, void *ret);

static const char *read_text(struct reader *r, const json_t *value)
{
    const char *text = json_string_value(value);

    if (!text || strlen(text) != json_string_length(value))
        return NULL;
    return atoll_recipe_text(r->memory, text, strlen(text));
}

static int read_texts(struct reader *r, const json_t *value, const struct field *f, void *object)
{
    size_t count = json_array_size(value);
    const char **items = atoll_recipe_alloc(r->memory, (count + 1) * sizeof(*items));

    if (!json_is_array(value) || count > ATOLL_RECIPE_WORDS_MAX)
        return bad(r, f->name, "an array of texts");
    if (!items)
        return atoll_recipe_no_room(r->err);
    for (size_t i = 0; i < count; i++) {
        items[i] = read_text(r, json_array_get(value, i));
        if (!items[i])
            return bad(r, f->name, "an array of texts");
    }
    memcpy((char *)object + f->offset, &items, sizeof(items));
    memcpy((char *)object + f->count_offset, &count, sizeof(count));
    return 0;
}

static int read_objects(struct reader *r, const json_t *value, const struct field *f, void *object)
{
    size_t count = json_array_size(value);
    char *items;

    if (!json_is_array(value) || count > ATOLL_RECIPE_WORDS_MAX)
        return bad(r, f->name, "an array of objects");
    items = atoll_recipe_alloc(r->memory, (count + 1) * f->size);
    if (!items)
        return atoll_recipe_no_room(r->err);
    for (size_t i = 0; i < count; i++)
        if (read_object(r, json_array_get(value, i), f->table, items + i * f->size) < 0)
            return -EINVAL;
    memcpy((char *)object + f->offset, &items, sizeof(items));
    memcpy((char *)object + f->count_offset, &count, sizeof(count));
    return 0;
}

static int read_named(struct reader *r, const json_t *value, const struct field *f, void *object)
{
    const char *text = json_string_value(value);

    for (int i = 0; text && f->names[i]; i++) {
        if (strcmp(f->names[i], text) == 0) {
            set_number(object, f, i);
            return 0;
        }
    }
    return bad(r, f->name, "one of the known names");
}

static int read_number(struct reader *r, const json_t *value, const struct field *f, void *object)
{
    json_int_t number = json_integer_value(value);
    json_int_t most = f->type == I8 ? 1 : f->type == INT ? INT32_MAX : INT64_MAX;

    if (!json_is_integer(value) || number < -1 || number > most)
        return bad(r, f->name, "a number in its range");
    set_number(object, f, number);
    return 0;
}

static int read_field(struct reader *r, const json_t *value, const struct field *f, void *object)
{
    const char *text;

    switch (f->type) {
    case TEXT:
        text = read_text(r, value);
        if (!text)
            return bad(r, f->name, "a text");
        memcpy((char *)object + f->offset, &text, sizeof(text));
        return 0;
    case BOOLEAN:
        if (!json_is_boolean(value))
            return bad(r, f->name, "true or false");
        *((bool *)object + f->offset) = json_is_true(value);
        return 0;
    case NAMED:
        return read_named(r, value, f, object);
    case TEXTS:
        return read_texts(r, value, f, object);
    case OBJECT:
        return read_object(r, value, f->table, (char *)object + f->offset);
    case OBJECTS:
        return read_objects(r, value, f, object);
    default:
        return read_number(r, value, f, object);
    }
}

static void set_defaults(const struct field *table, void *object)
{
    for (const struct field *f = table; f->name; f++) {
        if (f->type == I8 || f->type == I64)
            set_number(object, f, f->otherwise);
        if (f->type == OBJECT)
            set_defaults(f->table, (char *)object + f->offset);
    }
}

/* `ret` is zeroed. */
static int read_object(struct reader *r, const json_t *json, const struct field *table, void *ret)
{
    size_t known = 0;

    if (!json_is_object(json))
        return bad(r, "", "an object");
    set_defaults(table, ret);
    for (const struct field *f = table; f->name; f++) {
        const json_t *value = json_object_get(json, f->name);
        if (!value && f->type == NAMED && f->otherwise < 0)
            return bad(r, f->name, "given");
        if (value && read_field(r, value, f, ret) < 0)
            return -EINVAL;
        known += value != NULL;
    }
    known += json_object_get(json, "steps") != NULL;
    return known == json_object_size(json) ? 0 : bad(r, "", "an object with known members only");
}

static int read_steps(struct reader *r, const json_t *array, struct atoll_recipe *recipe)
{
    for (size_t i = 0; i < json_array_size(array); i++) {
        struct atoll_recipe_step step = {0};
        (void)snprintf(r->where, sizeof(r->where), "stage %zu, step %zu: ", recipe->stage_count,
                       i + 1);
        if (read_object(r, json_array_get(array, i), step_table, &step) < 0)
            return -EINVAL;
        if (!atoll_recipe_step_is_whole(&step))
            return bad(r, "", "an instruction with all its parts");
        if (recipe->stage_count == 0 && step.kind != ATOLL_RECIPE_ARG)
            return bad(r, "globals", "ARG only");
        if (atoll_recipe_add_step(recipe, &step, r->err) < 0)
            return -ENOMEM;
    }
    return 0;
}

static int read_stages(struct reader *r, const json_t *array, struct atoll_recipe *recipe)
{
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *json = json_array_get(array, i);
        struct atoll_recipe_stage stage = {0};
        (void)snprintf(r->where, sizeof(r->where), "stage %zu: ", i + 1);
        if (read_object(r, json, stage_table, &stage) < 0)
            return -EINVAL;
        if (!stage.base || !stage.text)
            return bad(r, "base", "given");
        if (atoll_recipe_add_stage(recipe, stage.name, stage.base, stage.platform, stage.text,
                                   stage.line, r->err) < 0 ||
            read_steps(r, json_object_get(json, "steps"), recipe) < 0)
            return -EINVAL;
    }
    return recipe->stage_count > 0 ? 0 : bad(r, "stages", "an array with at least one stage");
}

int atoll_recipe_from_json(const json_t *json, struct atoll_recipe **ret, struct atoll_error *err)
{
    const char *escape = json_string_value(json_object_get(json, "escape"));
    const json_t *syntax = json_object_get(json, "syntax");
    struct atoll_recipe *recipe = atoll_recipe_new();
    struct reader r = {.memory = &recipe->memory, .err = err};

    recipe->escape = escape && *escape == '`' ? '`' : '\\';
    if (syntax)
        recipe->syntax = read_text(&r, syntax);
    if (read_steps(&r, json_object_get(json, "globals"), recipe) < 0 ||
        read_stages(&r, json_object_get(json, "stages"), recipe) < 0) {
        atoll_recipe_free(recipe);
        return -EINVAL;
    }
    *ret = recipe;
    return 0;
}

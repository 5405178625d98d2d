#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/tool/tool_internal.h"
#include "base/memory.h"
#include "engine/json_memory.h"
#include "registry/json_schema.h"
#include "registry/places.h"
#include "registry/registry.h"
#include "session/sessions.h"

/*
 * Tools of the registry: a command whose places get the arguments of a call. Arguments become whole arguments of
 * the command, variables or its standard input; no shell reads them.
 */
#define TIMEOUT_S 120
#define WORDS_MAX 1024 /* of a command, with the elements of arrays */
#define BYTES_MAX ((size_t)1024 * 1024)
#define ALL "json" /* as stdin: all arguments */

struct registered {
    struct atoll_tool tool; /* first */
    char name[65];
    json_t *object; /* a reference */
    unsigned refs;
};

static const struct atoll_registry *registry_of(const struct atoll_api *api)
{
    return api->config.sessions ? atoll_sessions_registry(api->config.sessions) : NULL;
}

static const struct atoll_tool *tool_of(const struct atoll_registry_item *item)
{
    struct registered *r = atoll_alloc(sizeof(*r));
    json_t *object = (json_t *)(uintptr_t)item->object;

    r->refs = 1;
    r->object = json_incref(object);
    (void)snprintf(r->name, sizeof(r->name), "%s", item->name);
    r->tool = (struct atoll_tool){
        .name = r->name,
        .mcp_name = r->name,
        .about = json_string_value(json_object_get(object, "description")),
        .reads_only = json_is_true(json_object_get(object, "readsOnly")),
        .run = atoll_tool_run_registered,
        .object = object,
    };
    return &r->tool;
}

/* --- finding --- */

static const char *name_of(const struct atoll_tool *tool, bool mcp)
{
    return mcp ? tool->mcp_name : tool->name;
}

static const struct atoll_tool *find_built_in(const char *name, bool mcp)
{
    for (const struct atoll_tool *t = atoll_tools; t->run; t++)
        if (name_of(t, mcp) && strcmp(name_of(t, mcp), name) == 0)
            return t;
    return NULL;
}

const struct atoll_tool *atoll_tool_find(const struct atoll_api *api, const char *name, bool mcp)
{
    const struct atoll_tool *built_in = find_built_in(name, mcp);
    const struct atoll_registry *registry = registry_of(api);
    struct atoll_registry_item item;

    if (built_in || !registry || !atoll_registry_find(registry, ATOLL_REGISTRY_TOOL, name, &item))
        return built_in;
    return tool_of(&item);
}

const struct atoll_tool *atoll_tool_next(const struct atoll_api *api, bool mcp, size_t *pos)
{
    const struct atoll_registry *registry = registry_of(api);
    struct atoll_registry_item item;
    size_t built_in = 0, at;

    for (; atoll_tools[built_in].run; built_in++)
        if (built_in >= *pos && name_of(&atoll_tools[built_in], mcp)) {
            *pos = built_in + 1;
            return &atoll_tools[built_in];
        }
    at = ATOLL_MAX(*pos, built_in) - built_in;
    while (registry && atoll_registry_next(registry, ATOLL_REGISTRY_TOOL, &at, &item)) {
        *pos = built_in + at;
        if (!find_built_in(item.name, mcp))
            return tool_of(&item);
    }
    return NULL;
}

const struct atoll_tool *atoll_tool_ref(const struct atoll_tool *tool)
{
    if (tool->object)
        ((struct registered *)(uintptr_t)tool)->refs++;
    return tool;
}

const struct atoll_tool *atoll_tool_unref(const struct atoll_tool *tool)
{
    struct registered *r = tool && tool->object ? (struct registered *)(uintptr_t)tool : NULL;

    if (r && --r->refs == 0) {
        json_decref(r->object);
        free(r);
    }
    return NULL;
}

/* --- arguments --- */

json_t *atoll_tool_registered_schema(const struct atoll_tool *tool)
{
    const json_t *given = json_object_get(tool->object, "parameters");
    json_t *schema = given ? json_deep_copy(given) : json_object();

    (void)json_object_set_new(schema, "type", json_string("object"));
    if (!json_object_get(schema, "properties"))
        (void)json_object_set_new(schema, "properties", json_object());
    if (!json_object_get(schema, "additionalProperties"))
        (void)json_object_set_new(schema, "additionalProperties", json_false());
    return schema;
}

int atoll_tool_registered_check(const struct atoll_tool *tool, const json_t *args,
                                struct atoll_error *err)
{
    json_t *schema = atoll_tool_registered_schema(tool);
    int r = atoll_json_schema_apply(schema, args, "", err);

    json_decref(schema);
    return r;
}

/* --- the command --- */

struct words {
    char *items[WORDS_MAX + 1];
    size_t count;
};

static void words_done(struct words *w)
{
    while (w->count > 0)
        free(w->items[--w->count]);
}

/* 1; 0: a place has no value; negative: too long. */
static int fill(const char *text, const json_t *args, const char *before, char **ret)
{
    struct atoll_buf out;
    int r;

    atoll_buf_init(&out, BYTES_MAX);
    r = atoll_buf_appends(&out, before);
    if (r == 0)
        r = atoll_places_fill(text, args, &out);
    *ret = r > 0 ? strdup(atoll_buf_str(&out)) : NULL;
    atoll_buf_done(&out);
    return r;
}

static int add_word(struct words *w, const char *text, const json_t *args, const char *before)
{
    int r = w->count < WORDS_MAX ? fill(text, args, before, &w->items[w->count]) : -E2BIG;

    w->count += r > 0;
    return r;
}

/* An element that is one place becomes an argument for each element of an array. */
static int add_element(struct words *w, const char *text, const json_t *args)
{
    const json_t *list = atoll_places_value(text, args);
    int r = 1;

    if (!json_is_array(list))
        return add_word(w, text, args, "");
    for (size_t i = 0; r >= 0 && i < json_array_size(list); i++) {
        json_t *one = json_pack("{s:O}", "x", json_array_get(list, i));
        r = add_word(w, "{x}", one, "");
        json_decref(one);
    }
    return r;
}

static int add_variables(struct words *w, const json_t *env, const json_t *args)
{
    const char *name;
    json_t *value;
    int r = 0;

    json_object_foreach((json_t *)(uintptr_t)env, name, value)
    {
        char before[300];
        (void)snprintf(before, sizeof(before), "%.250s=", name);
        if (r >= 0)
            r = add_word(w, json_string_value(value), args, before);
    }
    return r;
}

/* What the command reads. *ret NULL: nothing. */
static int make_input(const json_t *object, const json_t *args, char **ret)
{
    const char *text = json_string_value(json_object_get(object, "stdin"));

    *ret = NULL;
    if (!text)
        return 0;
    if (strcmp(text, ALL) == 0) {
        *ret = atoll_json_dump(args, JSON_COMPACT);
        return *ret ? 0 : -ENOMEM;
    }
    return fill(text, args, "", ret);
}

static int make_words(const json_t *object, const json_t *args, struct words *argv,
                      struct words *env)
{
    const json_t *command = json_object_get(object, "command");
    int r = 0;

    for (size_t i = 0; r >= 0 && i < json_array_size(command); i++)
        r = add_element(argv, json_string_value(json_array_get(command, i)), args);
    return r < 0 ? r : add_variables(env, json_object_get(object, "env"), args);
}

void atoll_tool_run_registered(struct atoll_tool_call *call)
{
    const json_t *object = call->tool->object;
    const json_t *timeout = json_object_get(object, "timeoutSeconds");
    struct words argv = {.count = 0}, *env = atoll_alloc(sizeof(*env));
    char *input = NULL;
    int r;

    r = make_words(object, call->args, &argv, env);
    if (r >= 0)
        r = make_input(object, call->args, &input);
    if (r < 0) {
        words_done(env);
        atoll_tool_refuse(call, ATOLL_ERR_INVALID_ARGUMENT,
                          "the arguments of the tool %s are too long", call->tool->name);
    } else {
        char **variables = atoll_alloc((env->count + 1) * sizeof(*variables));
        memcpy(variables, env->items, env->count * sizeof(*variables));
        atoll_tool_run_command(
            call,
            &(struct atoll_tool_command){
                .argv = (const char *const *)argv.items,
                .env = variables,
                .timeout_ms = (uint32_t)(1000 * (timeout ? json_number_value(timeout) : TIMEOUT_S)),
                .input = input,
                .input_len = input ? strlen(input) : 0,
            });
    }
    words_done(&argv);
    free(env);
    free(input);
}

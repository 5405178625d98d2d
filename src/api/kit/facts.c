#include "api/kit/facts.h"

#include <string.h>
#include "api/fields.h"
#include "base/clock.h"
#include "engine/json_memory.h"

#define FACADE "facade"
#define FOREIGN "foreign"

json_t *atoll_facts_new(const struct atoll_facts_kind *kind)
{
    return json_pack("{s:s}", FACADE, kind->facade);
}

json_t *atoll_facts_of(const struct atoll_facts_kind *kind, const struct atoll_sandbox *sandbox)
{
    struct atoll_sandbox_view view;
    json_t *root;

    atoll_sandbox_get(sandbox, &view);
    root = atoll_json_load_own(view.options.facade_json);
    if (strcmp(atoll_fact_text(root, FACADE), kind->facade) == 0)
        return root;
    json_decref(root);
    root = atoll_json_load_own(kind->foreign);
    (void)json_object_set_new(root, FACADE, json_string(""));
    (void)json_object_set_new(root, FOREIGN, json_true());
    return root;
}

bool atoll_facts_are_foreign(const json_t *facts)
{
    return atoll_fact_flag(facts, FOREIGN);
}

int atoll_facts_dump(const struct atoll_facts_kind *kind, json_t *facts, char **ret,
                     struct atoll_error *err)
{
    char *text;

    (void)json_object_set_new(facts, FACADE, json_string(kind->facade));
    (void)json_object_del(facts, FOREIGN);
    (void)json_object_set_new(facts, kind->changed, json_integer(atoll_clock_unix_ms()));
    text = atoll_json_dump(facts, JSON_COMPACT);
    if (!text)
        return atoll_fields_no_memory(err);
    if (strlen(text) > kind->max) {
        free(text);
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, 0,
                          "the settings of the sandbox are larger than %zu KiB", kind->max >> 10);
    }
    *ret = text;
    return 0;
}

int atoll_facts_store(const struct atoll_facts_kind *kind, struct atoll_engine *engine,
                      const char *id, json_t *facts, struct atoll_error *err)
{
    ATOLL_AUTOFREE char *text = NULL;
    int r = atoll_facts_dump(kind, facts, &text, err);

    return r < 0 ? r : atoll_engine_set_facade(engine, id, text, err);
}

int atoll_facts_change(const struct atoll_facts_kind *kind, struct atoll_engine *engine,
                       const char *id, const char *name, json_t *value, struct atoll_error *err)
{
    const struct atoll_sandbox *sandbox = atoll_engine_find(engine, id);
    json_t *facts = sandbox ? atoll_facts_of(kind, sandbox) : NULL;
    int r;

    if (!facts) {
        json_decref(value);
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, 0, "%s %.64s not found", kind->subject, id);
    }
    (void)json_object_set_new(facts, name, value);
    r = atoll_facts_store(kind, engine, id, facts, err);
    json_decref(facts);
    return r;
}

const char *atoll_fact_text(const json_t *facts, const char *name)
{
    const char *text = json_string_value(json_object_get(facts, name));

    return text ? text : "";
}

int64_t atoll_fact_number(const json_t *facts, const char *name, int64_t otherwise)
{
    const json_t *value = json_object_get(facts, name);

    return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

bool atoll_fact_flag(const json_t *facts, const char *name)
{
    return json_is_true(json_object_get(facts, name));
}

void atoll_fact_put_text(json_t *facts, const char *name, const char *text)
{
    if (text && *text)
        (void)json_object_set_new(facts, name, json_string(text));
}

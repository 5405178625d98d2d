/*
 * Facts: what this facade stores about a sandbox in addition to the engine's record, as facade_json.
 */
#include <string.h>
#include "api/vercel/vercel_internal.h"
#include "base/clock.h"
#include "engine/json_memory.h"

#define MARK "vercel" /* value of "facade" in our own facts */

json_t *atoll_vercel_facts(const struct atoll_sandbox *sandbox)
{
    struct atoll_sandbox_view view;
    const char *facade;
    json_t *root;

    atoll_sandbox_get(sandbox, &view);
    root = atoll_json_load_own(view.options.facade_json);
    facade = json_string_value(json_object_get(root, "facade"));
    if (facade && strcmp(facade, MARK) == 0)
        return root;
    json_decref(root);
    return json_pack("{s:s,s:b}", "facade", "", "foreign", 1);
}

json_t *atoll_vercel_facts_new(void)
{
    return json_pack("{s:s}", "facade", MARK);
}

int atoll_vercel_facts_text(json_t *facts, char **ret, struct atoll_error *err)
{
    char *text;

    (void)json_object_set_new(facts, "facade", json_string(MARK));
    (void)json_object_del(facts, "foreign");
    (void)json_object_set_new(facts, "updatedAt", json_integer(atoll_clock_unix_ms()));
    text = atoll_json_dump(facts, JSON_COMPACT);
    if (!text)
        return atoll_fields_no_memory(err);
    if (strlen(text) > ATOLL_VERCEL_FACTS_MAX) {
        free(text);
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, 0,
                          "the settings of the sandbox are larger than 128 KiB");
    }
    *ret = text;
    return 0;
}

int atoll_vercel_facts_store(struct atoll_engine *engine, const char *id, json_t *facts,
                             struct atoll_error *err)
{
    ATOLL_AUTOFREE char *text = NULL;
    int r = atoll_vercel_facts_text(facts, &text, err);

    return r < 0 ? r : atoll_engine_set_facade(engine, id, text, err);
}

const char *atoll_vercel_fact_text(const json_t *facts, const char *name)
{
    const char *text = json_string_value(json_object_get(facts, name));

    return text ? text : "";
}

int64_t atoll_vercel_fact_number(const json_t *facts, const char *name, int64_t otherwise)
{
    const json_t *value = json_object_get(facts, name);

    return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

bool atoll_vercel_fact_flag(const json_t *facts, const char *name)
{
    return json_is_true(json_object_get(facts, name));
}

int atoll_vercel_change(struct atoll_engine *engine, const char *id, const char *name,
                        json_t *value, struct atoll_error *err)
{
    const struct atoll_sandbox *sandbox = atoll_engine_find(engine, id);
    json_t *facts = sandbox ? atoll_vercel_facts(sandbox) : NULL;
    int r;

    if (!facts) {
        json_decref(value);
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, 0, "Sandbox %.64s not found", id);
    }
    (void)json_object_set_new(facts, name, value);
    r = atoll_vercel_facts_store(engine, id, facts, err);
    json_decref(facts);
    return r;
}

bool atoll_vercel_box_get(struct atoll_engine *engine, const char *id, struct atoll_vercel_box *ret)
{
    const struct atoll_sandbox *sandbox = atoll_engine_find(engine, id);

    if (!sandbox)
        return false;
    ret->sandbox = sandbox;
    atoll_sandbox_get(sandbox, &ret->view);
    ret->facts = atoll_vercel_facts(sandbox);
    return true;
}

void atoll_vercel_box_done(struct atoll_vercel_box *box)
{
    json_decref(box->facts);
    box->facts = NULL;
}

bool atoll_vercel_box_is_ours(const struct atoll_vercel_box *box)
{
    return !json_is_true(json_object_get(box->facts, "foreign"));
}

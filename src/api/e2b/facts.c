/*
 * Facts: what this facade stores about a sandbox in addition to the engine's record, as
 * facade_json.
 */
#include "api/kit/facts.h"
#include <string.h>
#include "api/e2b/e2b.h"
#include "base/text.h"
#include "engine/json_memory.h"

static const struct atoll_facts_kind kind = {.facade = "e2b", .foreign = "{}"};

static void take_text(const json_t *object, const char *name, char *out, size_t cap)
{
    const char *text = json_string_value(json_object_get(object, name));

    if (text)
        (void)!atoll_text_copy(out, cap, text);
}

static bool take_flag(const json_t *object, const char *name, bool otherwise)
{
    const json_t *value = json_object_get(object, name);
    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

static void take_all(const json_t *root, struct atoll_e2b_facts *ret)
{
    const json_t *internet = json_object_get(root, "allow_internet");

    ret->made_here = take_flag(root, "made_here", true);
    take_text(root, "template_id", ret->template_id, sizeof(ret->template_id));
    take_text(root, "alias", ret->alias, sizeof(ret->alias));
    ret->secure = take_flag(root, "secure", true);
    ret->public_traffic = take_flag(root, "public_traffic", false);
    ret->auto_resume = take_flag(root, "auto_resume", false);
    take_text(root, "mask_host", ret->mask_host, sizeof(ret->mask_host));
    ret->network = json_incref(json_object_get(root, "network"));
    ret->lifecycle = json_incref(json_object_get(root, "lifecycle"));
    ret->team = json_incref(json_object_get(root, "team"));
    ret->allow_internet = json_is_boolean(internet) ? json_is_true(internet) : -1;
}

void atoll_e2b_facts_get(const struct atoll_sandbox *sandbox, struct atoll_e2b_facts *ret)
{
    struct atoll_sandbox_view view;
    json_t *root = atoll_facts_of(&kind, sandbox);

    atoll_sandbox_get(sandbox, &view);
    /* A sandbox of another facade is protected here as it is there. */
    *ret = (struct atoll_e2b_facts){.secure = true, .allow_internet = -1};
    if (!atoll_facts_are_foreign(root))
        take_all(root, ret);
    else
        (void)!atoll_text_copy(ret->template_id, sizeof(ret->template_id), view.template_name);
    json_decref(root);
}

void atoll_e2b_facts_done(struct atoll_e2b_facts *facts)
{
    json_decref(facts->network);
    json_decref(facts->lifecycle);
    json_decref(facts->team);
    *facts = (struct atoll_e2b_facts){0};
}

/* Takes ownership of the value. The texts are UTF-8: the parser has checked them. */
static void put(json_t *root, const char *name, json_t *value)
{
    if (value && json_object_set_new(root, name, value) < 0)
        abort();
}

char *atoll_e2b_facts_json(const struct atoll_e2b_facts *facts)
{
    json_t *root = atoll_facts_new(&kind);
    char *text;

    put(root, "made_here", json_boolean(facts->made_here));
    put(root, "template_id", json_string(facts->template_id));
    put(root, "alias", facts->alias[0] ? json_string(facts->alias) : NULL);
    put(root, "secure", json_boolean(facts->secure));
    put(root, "public_traffic", json_boolean(facts->public_traffic));
    put(root, "auto_resume", json_boolean(facts->auto_resume));
    put(root, "mask_host", facts->mask_host[0] ? json_string(facts->mask_host) : NULL);
    put(root, "network", json_incref(facts->network));
    put(root, "lifecycle", json_incref(facts->lifecycle));
    put(root, "team", json_incref(facts->team));
    put(root, "allow_internet",
        facts->allow_internet >= 0 ? json_boolean(facts->allow_internet) : NULL);
    text = atoll_json_dump(root, JSON_COMPACT);
    json_decref(root);
    if (!text)
        abort();
    return text;
}

/* Tokens. */

void atoll_e2b_envd_token(const struct atoll_api *api, const char *sandbox_id, char *out)
{
    atoll_token_make(api, "atoll e2b envd 1", sandbox_id, out);
}

void atoll_e2b_traffic_token(const struct atoll_api *api, const char *sandbox_id, char *out)
{
    atoll_token_make(api, "atoll e2b traffic 1", sandbox_id, out);
}

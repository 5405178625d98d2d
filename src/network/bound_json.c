/* The operator's bound as JSON: {"deny": [TARGET, …], "internal": [TARGET, …]}. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "network/policy_internal.h"

int atoll_network_list_parse(const char *text, json_t **ret, struct atoll_error *err)
{
    static const char between[] = ", \t";
    json_t *list = json_array();

    for (text = text ? text : ""; *(text += strspn(text, between));
         text += strcspn(text, between)) {
        struct atoll_network_target target;
        char word[ATOLL_NETWORK_TARGET_TEXT];

        (void)snprintf(word, sizeof(word), "%.*s", (int)strcspn(text, between), text);
        if (atoll_network_target_parse(word, &target, err) < 0) {
            json_decref(list);
            return -EINVAL;
        }
        atoll_network_target_done(&target);
        (void)json_array_append_new(list, json_string(word));
    }
    *ret = list;
    return 0;
}

static int check_list(const json_t *list, const char *name, struct atoll_error *err)
{
    if (list && !json_is_null(list) &&
        (!json_is_array(list) || json_array_size(list) > ATOLL_NETWORK_RULES_MAX))
        return atoll_network_refuse(
            err, name, "an array of at most " ATOLL_STRINGIFY(ATOLL_NETWORK_RULES_MAX) " entries");
    return 0;
}

static int parse_deny(const json_t *list, struct atoll_network_bound *bound,
                      struct atoll_error *err)
{
    char where[64];

    bound->rules = calloc(json_array_size(list) + 1, sizeof(*bound->rules));
    if (!bound->rules)
        return atoll_network_no_memory(err);
    for (size_t i = 0; i < json_array_size(list); i++) {
        (void)snprintf(where, sizeof(where), "deny[%zu]", i);
        if (atoll_network_target_field(json_array_get(list, i), where, &bound->rules[i].target,
                                       err) < 0)
            return -EINVAL;
        bound->rule_count++;
    }
    return 0;
}

static int parse_internal(const json_t *list, struct atoll_network_bound *bound,
                          struct atoll_error *err)
{
    char where[64];

    bound->internal = calloc(json_array_size(list) + 1, sizeof(*bound->internal));
    if (!bound->internal)
        return atoll_network_no_memory(err);
    for (size_t i = 0; i < json_array_size(list); i++) {
        (void)snprintf(where, sizeof(where), "internal[%zu]", i);
        if (atoll_network_target_field(json_array_get(list, i), where, &bound->internal[i], err) <
            0)
            return -EINVAL;
        bound->internal_count++;
    }
    return 0;
}

static int parse_fields(const json_t *json, struct atoll_network_bound *bound,
                        struct atoll_error *err)
{
    static const char *const known[] = {"deny", "internal", NULL};
    const json_t *deny = json_object_get(json, "deny");
    const json_t *internal = json_object_get(json, "internal");

    if (atoll_network_known_fields(json, "", known, err) < 0 || check_list(deny, "deny", err) < 0 ||
        check_list(internal, "internal", err) < 0 || parse_deny(deny, bound, err) < 0)
        return -EINVAL;
    return parse_internal(internal, bound, err);
}

int atoll_network_bound_parse(const json_t *json, struct atoll_network_bound **ret,
                              struct atoll_error *err)
{
    struct atoll_network_bound *bound = calloc(1, sizeof(*bound));

    if (!bound)
        return atoll_network_no_memory(err);
    if (json && !json_is_null(json) && parse_fields(json, bound, err) < 0) {
        atoll_network_bound_free(bound);
        return -EINVAL;
    }
    *ret = bound;
    return 0;
}

static json_t *target_json(const struct atoll_network_target *target)
{
    char text[ATOLL_NETWORK_TARGET_TEXT];

    atoll_network_target_print(target, text, sizeof(text));
    return json_string(text);
}

json_t *atoll_network_bound_json(const struct atoll_network_bound *bound)
{
    json_t *json = json_object(), *deny = json_array(), *internal = json_array();

    for (size_t i = 0; i < bound->rule_count; i++)
        (void)json_array_append_new(deny, target_json(&bound->rules[i].target));
    for (size_t i = 0; i < bound->internal_count; i++)
        (void)json_array_append_new(internal, target_json(&bound->internal[i]));
    (void)json_object_set_new(json, "deny", deny);
    (void)json_object_set_new(json, "internal", internal);
    return json;
}

struct atoll_network_bound *atoll_network_bound_free(struct atoll_network_bound *bound)
{
    if (!bound)
        return NULL;
    for (size_t i = 0; i < bound->rule_count; i++)
        atoll_network_target_done(&bound->rules[i].target);
    for (size_t i = 0; i < bound->internal_count; i++)
        atoll_network_target_done(&bound->internal[i]);
    free(bound->rules);
    free(bound->internal);
    free(bound);
    return NULL;
}

/*
 * Network settings: lists of addresses and names become a policy of the engine.
 */
#include <errno.h>
#include <string.h>
#include "api/daytona/daytona_internal.h"
#include "engine/json_memory.h"
#include "engine/network/request.h"

#define TARGETS_MAX 100

/* Adds a rule for each item of a list that is separated by commas. */
static int add_list(json_t *rules, const char *list, struct atoll_error *err)
{
    char item[256];

    while (list && *list) {
        size_t n = strcspn(list, ","), skip = strspn(list, " "), len;
        len = n > skip ? n - skip : 0;
        while (len > 0 && list[skip + len - 1] == ' ')
            len--;
        if (len >= sizeof(item) || json_array_size(rules) >= TARGETS_MAX)
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG,
                              "an allow list has at most 100 short entries");
        memcpy(item, list + skip, len);
        item[len] = '\0';
        if (len > 0)
            (void)json_array_append_new(rules, json_pack("{s:s}", "allow", item));
        list += n + (list[n] == ',');
    }
    return 0;
}

int atoll_daytona_policy(bool block_all, const char *addresses, const char *domains, json_t *proxy,
                         char **ret, struct atoll_error *err)
{
    bool limited = (addresses && *addresses) || (domains && *domains);
    json_t *rules = json_array(), *policy;
    struct atoll_network_request request = {0};
    enum atoll_network mode;
    int r = 0;

    *ret = NULL;
    if (!block_all) {
        r = add_list(rules, addresses, err);
        if (r == 0)
            r = add_list(rules, domains, err);
    }
    policy = json_pack("{s:s,s:s,s:o}", "mode", "bridge", "default",
                       block_all || limited ? "deny" : "allow", "rules", rules);
    if (proxy)
        (void)json_object_set(policy, "proxy", proxy);
    request.network = policy;
    if (r == 0)
        r = policy ? atoll_network_request_check(&request, &mode, ret, err)
                   : atoll_fields_no_memory(err);
    json_decref(policy);
    return r;
}

struct settings {
    const json_t *block_all;
    const char *addresses, *domains;
};

static const struct atoll_field fields[] = {
    {"networkBlockAll", ATOLL_FIELD_JSON, offsetof(struct settings, block_all), 0, 0, NULL, 0},
    {"networkAllowList", ATOLL_FIELD_STRING, offsetof(struct settings, addresses), 0, 4096, NULL,
     0},
    {"domainAllowList", ATOLL_FIELD_STRING, offsetof(struct settings, domains), 0, 8192, NULL, 0},
    ATOLL_FIELDS_TOLERANT,
    {0},
};

static void keep_text(json_t *facts, const char *name, const char *text)
{
    if (text)
        (void)json_object_set_new(facts, name, json_string(text));
}

static int store(struct atoll_api_call *call, const struct settings *s, char **ret_policy,
                 struct atoll_error *err)
{
    const struct atoll_sandbox *sandbox = atoll_engine_find(call->engine, call->params.id);
    json_t *facts = atoll_daytona_facts(sandbox), *policy;
    struct atoll_sandbox_view view;
    int r = 0;

    atoll_sandbox_get(sandbox, &view);
    policy = view.options.network_json ? atoll_json_load_own(view.options.network_json) : NULL;
    if (s->block_all && !json_is_null(s->block_all) && !json_is_boolean(s->block_all))
        r = atoll_fields_refuse(err, "", "networkBlockAll", s->block_all, "true or false");
    if (json_is_boolean(s->block_all))
        (void)json_object_set(facts, "networkBlockAll", (json_t *)s->block_all);
    keep_text(facts, "networkAllowList", s->addresses);
    keep_text(facts, "domainAllowList", s->domains);
    if (r == 0)
        r = atoll_daytona_policy(atoll_fact_flag(facts, "networkBlockAll"),
                                 atoll_fact_text(facts, "networkAllowList"),
                                 atoll_fact_text(facts, "domainAllowList"),
                                 json_object_get(policy, "proxy"), ret_policy, err);
    if (r == 0)
        r = atoll_daytona_facts_store(call->engine, call->params.id, facts, err);
    json_decref(policy);
    json_decref(facts);
    return r;
}

void atoll_daytona_set_network(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    ATOLL_AUTOFREE char *policy = NULL;
    struct atoll_sandbox_view view = {0};
    struct settings s = {0};
    struct atoll_error error;
    struct atoll_body body;
    int r = atoll_body_decode(&body, bytes, n, fields, &s, &error);

    if (r == 0)
        r = store(call, &s, &policy, &error);
    atoll_body_done(&body);
    if (r < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    atoll_sandbox_get(atoll_engine_find(call->engine, call->params.id), &view);
    if (view.options.network == ATOLL_NETWORK_NONE)
        atoll_daytona_done(call, NULL); /* it has no network: networkBlockAll is set */
    else
        atoll_engine_set_network(call->engine, view.id, policy, atoll_daytona_done, call);
}

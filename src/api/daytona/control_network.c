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

struct change {
    struct atoll_api_call *call;
    json_t *lists; /* owned; the facts of the request */
    char *policy;  /* owned; with them */
    char id[ATOLL_ID_LEN + 1];
};

static void change_free(struct change *c)
{
    json_decref(c->lists);
    free(c->policy);
    free(c);
}

static void keep_text(json_t *lists, const char *name, const char *text)
{
    if (text)
        (void)json_object_set_new(lists, name, json_string(text));
}

static int take_lists(const struct settings *s, json_t *lists, struct atoll_error *err)
{
    if (s->block_all && !json_is_null(s->block_all) && !json_is_boolean(s->block_all))
        return atoll_fields_refuse(err, "", "networkBlockAll", s->block_all, "true or false");
    if (json_is_boolean(s->block_all))
        (void)json_object_set(lists, "networkBlockAll", (json_t *)s->block_all);
    keep_text(lists, "networkAllowList", s->addresses);
    keep_text(lists, "domainAllowList", s->domains);
    return 0;
}

/* The policy of the sandbox with the lists of the request. */
static int make_policy(const struct change *c, char **ret, struct atoll_error *err)
{
    const struct atoll_sandbox *sandbox = atoll_engine_find(c->call->engine, c->id);
    json_t *facts = atoll_daytona_facts(sandbox), *policy;
    struct atoll_sandbox_view view;
    int r;

    atoll_sandbox_get(sandbox, &view);
    policy = view.options.network_json ? atoll_json_load_own(view.options.network_json) : NULL;
    (void)json_object_update(facts, c->lists);
    r = atoll_daytona_policy(
        atoll_fact_flag(facts, "networkBlockAll"), atoll_fact_text(facts, "networkAllowList"),
        atoll_fact_text(facts, "domainAllowList"), json_object_get(policy, "proxy"), ret, err);
    json_decref(policy);
    json_decref(facts);
    return r;
}

/* Another request may have changed it meanwhile. Without a network there is no policy to change. No policy
 * allows everything. */
static bool is_in_force(const struct change *c, const struct atoll_sandbox *sandbox)
{
    struct atoll_sandbox_view view;
    const char *policy;

    atoll_sandbox_get(sandbox, &view);
    policy = view.options.network_json;
    return view.options.network == ATOLL_NETWORK_NONE ||
           (policy && c->policy ? strcmp(policy, c->policy) == 0 : !policy == !c->policy);
}

/* Clients see the lists that are in force: they are stored when the engine has taken the policy. It may
 * have taken it and failed then, because atoll-egress does not answer: it holds when that does. */
static void on_set(void *arg, const struct atoll_error *error)
{
    struct change *c = arg;
    const struct atoll_sandbox *sandbox = atoll_engine_find(c->call->engine, c->id);
    struct atoll_error failure;
    json_t *facts;

    if (sandbox && is_in_force(c, sandbox)) {
        facts = atoll_daytona_facts(sandbox);
        (void)json_object_update(facts, c->lists);
        if (atoll_daytona_facts_store(c->call->engine, c->id, facts, &failure) < 0 && !error)
            error = &failure;
        json_decref(facts);
    } else if (sandbox && !error) {
        (void)atoll_fail(&failure, ATOLL_ERR_ABORTED, EBUSY,
                         "another request changed the network settings meanwhile: try again");
        error = &failure;
    }
    atoll_daytona_done(c->call, error);
    change_free(c);
}

void atoll_daytona_set_network(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct change *c = atoll_api_alloc(sizeof(*c));
    struct atoll_sandbox_view view = {0};
    struct settings s = {0};
    struct atoll_error error;
    struct atoll_body body;
    int r = atoll_body_decode(&body, bytes, n, fields, &s, &error);

    *c = (struct change){.call = call, .lists = json_object()};
    memcpy(c->id, call->params.id, sizeof(c->id));
    if (r == 0)
        r = take_lists(&s, c->lists, &error);
    atoll_body_done(&body);
    if (r == 0)
        r = make_policy(c, &c->policy, &error);
    if (r < 0) {
        atoll_api_fail(call, &error);
        change_free(c);
        return;
    }
    atoll_sandbox_get(atoll_engine_find(call->engine, c->id), &view);
    if (view.options.network == ATOLL_NETWORK_NONE)
        on_set(c, NULL); /* it has no network: networkBlockAll is set */
    else
        atoll_engine_set_network(call->engine, c->id, c->policy, on_set, c);
}

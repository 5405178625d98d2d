#include <errno.h>
#include <string.h>
#include "base/metrics.h"
#include "engine/engine_internal.h"
#include "engine/json_memory.h"
#include "engine/network/request.h"

/* {"deny": …, "internal": …} of two lists of targets; malloced. */
static int write_bound(const char *deny, const char *internal, char **ret, bool *ret_denies,
                       struct atoll_error *err)
{
    struct atoll_network_bound *bound = NULL;
    json_t *json = json_object(), *list = NULL;
    int r = atoll_network_list_parse(deny, &list, err);

    if (r == 0) {
        (void)json_object_set_new(json, "deny", list);
        r = atoll_network_list_parse(internal, &list, err);
    }
    if (r == 0) {
        (void)json_object_set_new(json, "internal", list);
        r = atoll_network_bound_parse(json, &bound, err);
    }
    json_decref(json);
    if (r < 0)
        return r;
    *ret_denies = bound->rule_count > 0;
    json = atoll_network_bound_json(bound);
    *ret = atoll_json_dump(json, JSON_COMPACT);
    json_decref(json);
    (void)atoll_network_bound_free(bound);
    return *ret ? 0 : atoll_fail_errno(err, ENOMEM, "network");
}

int atoll_operator_networks_open(struct atoll_operator_networks *o,
                                 const struct atoll_engine_config *config, struct atoll_error *err)
{
    bool denies;
    int r = write_bound(config->network_deny, config->network_internal, &o->bound, &o->denies, err);

    if (r == 0)
        r = write_bound("*", NULL, &o->closed, &denies, err);
    o->most = strdup(config->network_most ? config->network_most : "");
    if (r == 0 && !o->most)
        r = atoll_fail_errno(err, ENOMEM, "network");
    return r;
}

void atoll_operator_networks_close(struct atoll_operator_networks *o)
{
    free(o->most);
    free(o->bound);
    free(o->closed);
}

enum atoll_network atoll_engine_network_most(const struct atoll_engine *engine, const char *tenant)
{
    enum atoll_network most;

    if (atoll_network_most(engine->operator_networks.most, tenant ? tenant : ATOLL_OPERATOR_TENANT,
                           &most) < 0)
        return ATOLL_NETWORK_NONE;
    return most;
}

int atoll_network_admit(const struct atoll_engine *engine, const char *tenant,
                        enum atoll_network network, struct atoll_error *err)
{
    enum atoll_network most = atoll_engine_network_most(engine, tenant);

    if (network <= most)
        return 0;
    atoll_metric_add(ATOLL_METRIC_QUOTA_REFUSED, ATOLL_LABELS("network"), 1);
    return atoll_fail(err, ATOLL_ERR_PERMISSION_DENIED, EPERM,
                      "the operator of this daemon permits at most the network mode %s to tenant "
                      "%s, not %s (--network-max)",
                      atoll_network_name(most), tenant, atoll_network_name(network));
}

const char *atoll_network_policy_of(const struct atoll_sandbox *sandbox)
{
    if (atoll_engine_network_most(sandbox->engine, sandbox->spec.tenant) == ATOLL_NETWORK_NONE)
        return "{\"default\":\"deny\"}"; /* without the name of a network, too */
    if (sandbox->options.network_json)
        return sandbox->options.network_json;
    return sandbox->spec.network == ATOLL_NETWORK_ISOLATED
               ? "{\"default\":\"deny\",\"network\":\"" ATOLL_NETWORK_DEFAULT_NAME "\"}"
               : "{}";
}

const char *atoll_network_bound_of(const struct atoll_sandbox *sandbox)
{
    const struct atoll_operator_networks *o = &sandbox->engine->operator_networks;
    enum atoll_network most = atoll_engine_network_most(sandbox->engine, sandbox->spec.tenant);

    return sandbox->spec.network == ATOLL_NETWORK_BRIDGE && most == ATOLL_NETWORK_BRIDGE
               ? o->bound
               : o->closed;
}

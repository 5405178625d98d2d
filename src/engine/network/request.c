#include "engine/network/request.h"

#include <errno.h>
#include <string.h>
#include "engine/json_memory.h"
#include "engine/provider/providers.h"
#include "network/placeholder.h"
#include "network/policy.h"

#define HIDDEN "***"

static int refuse(struct atoll_error *err, const char *text)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s", text);
}

static int check_mode(const char *field, const char *mode, enum atoll_network *ret,
                      struct atoll_error *err)
{
    if (atoll_network_by_name(mode, ret) == 0)
        return 0;
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                      "%s must be \"none\", \"isolated\" or \"bridge\" (got \"%.32s\")", field,
                      mode);
}

/* Whether the policy says anything about destinations outside. */
static bool has_outside(const struct atoll_network_policy *p, const json_t *network)
{
    return p->rule_count > 0 || p->transform_count > 0 || p->proxy_address ||
           json_is_string(json_object_get(network, "default"));
}

static int choose_mode(const struct atoll_network_request *q, const struct atoll_network_policy *p,
                       enum atoll_network *ret, struct atoll_error *err)
{
    const json_t *value = json_object_get(q->network, "mode");
    const char *inner = json_string_value(value);

    if (value && !json_is_null(value) && !inner)
        return refuse(err, "network.mode must be \"none\", \"isolated\" or \"bridge\"");
    if (q->mode && inner && strcmp(q->mode, inner) != 0)
        return atoll_fail(
            err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
            "networkMode is \"%.32s\" and network.mode is \"%.32s\": give one of them", q->mode,
            inner);
    if (q->mode)
        return check_mode("networkMode", q->mode, ret, err);
    if (inner)
        return check_mode("network.mode", inner, ret, err);
    *ret = has_outside(p, q->network) ? ATOLL_NETWORK_BRIDGE
           : *p->network              ? ATOLL_NETWORK_ISOLATED
                                      : ATOLL_NETWORK_NONE;
    return 0;
}

/* Refuses a policy that would have no effect in the mode. */
static int check_effect(enum atoll_network mode, const struct atoll_network_policy *p,
                        const json_t *network, struct atoll_error *err)
{
    if (mode == ATOLL_NETWORK_NONE && (has_outside(p, network) || *p->network))
        return refuse(err, "network has a policy, and its mode is \"none\": give the mode "
                           "\"bridge\", or no policy");
    if (mode == ATOLL_NETWORK_ISOLATED && has_outside(p, network))
        return refuse(err, "network has rules, and its mode \"isolated\" reaches nothing outside: "
                           "give the mode \"bridge\"");
    return 0;
}

static int merge_mbps(struct atoll_network_policy *p, uint32_t mbps, struct atoll_error *err)
{
    if (mbps && p->mbps && mbps != p->mbps)
        return refuse(err, "networkMbps and network.mbps differ: give one of them");
    p->mbps = mbps ? mbps : p->mbps;
    return 0;
}

static int write_policy(enum atoll_network mode, struct atoll_network_policy *p, char **ret,
                        struct atoll_error *err)
{
    json_t *json;

    *ret = NULL;
    if (mode == ATOLL_NETWORK_NONE)
        return 0;
    if (mode == ATOLL_NETWORK_ISOLATED) {
        p->otherwise_allow = false;
        if (!*p->network)
            memcpy(p->network, ATOLL_NETWORK_DEFAULT_NAME, sizeof(ATOLL_NETWORK_DEFAULT_NAME));
    }
    if (p->otherwise_allow && p->rule_count + p->transform_count == 0 && !*p->network && !p->mbps &&
        !p->proxy_address)
        return 0;
    json = atoll_network_policy_json(p);
    *ret = atoll_json_dump(json, JSON_COMPACT);
    json_decref(json);
    return *ret ? 0
                : atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM,
                             "the daemon has no memory for this network policy");
}

int atoll_network_request_check(const struct atoll_network_request *request,
                                enum atoll_network *ret_mode, char **ret_json,
                                struct atoll_error *err)
{
    struct atoll_network_policy *policy;
    enum atoll_network mode;
    int r = atoll_network_policy_parse(request->network, &policy, err);

    if (r < 0)
        return r;
    r = choose_mode(request, policy, &mode, err);
    if (r == 0)
        r = merge_mbps(policy, request->mbps, err);
    if (r == 0)
        r = check_effect(mode, policy, request->network, err);
    if (r == 0)
        r = write_policy(mode, policy, ret_json, err);
    if (r == 0)
        *ret_mode = mode;
    (void)atoll_network_policy_free(policy);
    return r;
}

static void hide_headers(json_t *headers)
{
    char name[ATOLL_SECRET_NAME_MAX + 1];
    const char *key, *end;
    json_t *value;

    json_object_foreach(headers, key, value)
    {
        if (!atoll_placeholder_find(json_string_value(value), &end, name))
            (void)json_string_set(value, HIDDEN);
    }
}

json_t *atoll_network_view(enum atoll_network mode, const char *policy)
{
    json_t *view = json_pack("{s:s}", "mode", atoll_network_name(mode));
    json_t *stored = policy ? atoll_json_load_own(policy) : NULL, *transform, *password;
    size_t i;

    json_array_foreach(json_object_get(stored, "transforms"), i, transform)
        hide_headers(json_object_get(transform, "headers"));
    password = json_object_get(json_object_get(stored, "proxy"), "password");
    if (password)
        (void)json_string_set(password, HIDDEN);
    if (stored)
        (void)json_object_update(view, stored);
    json_decref(stored);
    return view;
}

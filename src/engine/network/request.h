#pragma once
#include <jansson.h>
#include "engine/engine.h"

/*
 * The network of a request, from clients and from files of the operator, and its view. Pure functions.
 */
#define ATOLL_NETWORK_DEFAULT_NAME "default" /* the network of isolated sandboxes that name none */

struct atoll_network_request {
    const char *mode; /* "networkMode"; NULL: not given */
    const json_t
        *network;  /* "network": {"mode", …} and a policy (network/policy.h); NULL or null */
    uint32_t mbps; /* "networkMbps"; 0: not given */
};

/* Without a mode, a policy means bridge and a name alone means isolated. *ret_json: the canonical
 * policy, malloced; NULL: all that the mode permits. INVALID_ARGUMENT names the field;
 * RESOURCE_EXHAUSTED. */
int atoll_network_request_check(const struct atoll_network_request *request,
                                enum atoll_network *ret_mode, char **ret_json,
                                struct atoll_error *err) ATOLL_MUST_CHECK;

/* {"mode", …} with the canonical policy; values of headers that name no secret, and the password of the
 * proxy, are "***". policy NULL: none. A new reference. */
json_t *atoll_network_view(enum atoll_network mode, const char *policy);

#include "api/kit/network_mode.h"

#include "engine/provider/providers.h"

enum atoll_network atoll_api_network_mode(const struct atoll_api_call *call)
{
    struct atoll_provider_view provider;
    size_t pos = 0;

    if (atoll_engine_network_most(call->engine, call->caller.tenant) < ATOLL_NETWORK_BRIDGE)
        return ATOLL_NETWORK_NONE;
    while (atoll_providers_next(call->engine, &pos, &provider))
        if (provider.policies && !provider.removed && !provider.named_only)
            return ATOLL_NETWORK_BRIDGE;
    return ATOLL_NETWORK_NONE;
}

/*
 * POST /env: variables of processes that start later.
 */
#include <string.h>
#include "api/daytona/toolbox_internal.h"

#define UNSET_MAX 1024

struct change {
    const char *const *set, *const *unset;
};

static const struct atoll_field fields[] = {
    {"set", ATOLL_FIELD_ENV, offsetof(struct change, set), 0, 0, NULL, 0},
    {"unset", ATOLL_FIELD_STRINGS, offsetof(struct change, unset), 0, UNSET_MAX, NULL, 0},
    ATOLL_FIELDS_TOLERANT,
    {0},
};

void atoll_daytona_change_env(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct change change = {0};
    struct atoll_error error;
    struct atoll_body body;
    int r;

    if (!atoll_toolbox_decode(call, &body, bytes, n, fields, &change))
        return;
    r = atoll_engine_change_env(call->engine, call->params.id, change.set, change.unset, &error);
    atoll_body_done(&body);
    if (r < 0)
        atoll_api_fail(call, &error);
    else
        atoll_api_reply_empty(call, 204);
}

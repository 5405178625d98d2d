/*
 * Sessions: get, list, stop, extend.
 */
#include "api/vercel/vercel_internal.h"

void atoll_vercel_session_get(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                              size_t n ATOLL_UNUSED)
{
    atoll_vercel_refuse(call, 404, NULL, "Session %.64s not found", call->params.name);
}

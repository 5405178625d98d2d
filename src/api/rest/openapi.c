/*
 * GET /api/openapi.json: the OpenAPI description of this API. It is docs/openapi.json; a unit test
 * compares it with the route tables.
 */
#include "api/rest/openapi.h"
#include "api/rest/rest_internal.h"

void atoll_rest_openapi(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                        size_t n ATOLL_UNUSED)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_api_reply_init(&buf, &out);
    out.error = atoll_buf_append(&buf, atoll_openapi_json, atoll_openapi_json_len);
    atoll_api_reply(call, 200, &out);
}

#include "api/rest/rest_internal.h"

void atoll_rest_host(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                     size_t n ATOLL_UNUSED)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_api_reply_init(&buf, &out);
    atoll_json_raw(&out, NULL, atoll_engine_host_json(call->engine));
    atoll_api_reply(call, 200, &out);
}

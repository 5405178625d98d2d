/*
 * What clients ask about the service itself.
 */
#include "api/daytona/daytona_internal.h"

void atoll_daytona_health(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                          size_t n ATOLL_UNUSED)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_text(&out, "status", "ok");
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

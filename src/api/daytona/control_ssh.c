/*
 * Access by SSH, which is not offered (docs/adr/0060): no token exists, so every check of one answers
 * that it is not valid, and every request to revoke one succeeds.
 */
#include "api/daytona/daytona_internal.h"

void atoll_daytona_ssh_create(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                              size_t n ATOLL_UNUSED)
{
    atoll_daytona_refuse(
        call, 501, NULL,
        "SSH access is not offered: no SSH server leads to sandboxes. Use a terminal "
        "(createPty of the SDK, or `atoll exec -it %.*s bash`), or a preview for a port",
        ATOLL_ID_LEN, call->params.id);
}

void atoll_daytona_ssh_revoke(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                              size_t n ATOLL_UNUSED)
{
    atoll_daytona_reply_sandbox(call, 200, call->params.id);
}

void atoll_daytona_ssh_validate(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                size_t n ATOLL_UNUSED)
{
    const char *token = atoll_http_query(call->req, "token");
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (!token || !*token) {
        atoll_daytona_refuse(call, 400, NULL, "token must be given, as a parameter of the query");
        return;
    }
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_bool(&out, "valid", false);
    atoll_json_text(&out, "sandboxId", "");
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

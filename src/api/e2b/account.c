/*
 * Small routes: health, the teams of a key, and features that are not offered.
 */
#include <errno.h>
#include "api/e2b/e2b_internal.h"

void atoll_e2b_health(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                      size_t n ATOLL_UNUSED)
{
    static const char text[] = "Health check successful";

    atoll_api_reply_text(call, 200, "text/plain", text, sizeof(text) - 1);
}

/* Each tenant is one team. The API key is never returned: only its owner has it. */
void atoll_e2b_teams(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                     size_t n ATOLL_UNUSED)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '[');
    atoll_json_open(&out, NULL, '{');
    atoll_json_text(&out, "teamID", call->caller.tenant);
    atoll_json_text(&out, "name", call->caller.tenant);
    atoll_json_text(&out, "apiKey", "");
    atoll_json_bool(&out, "isDefault", true);
    atoll_json_close(&out, '}');
    atoll_json_close(&out, ']');
    atoll_api_reply(call, 200, &out);
}

void atoll_e2b_unsupported(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                           size_t n ATOLL_UNUSED)
{
    struct atoll_error error;

    if (!call->params.id[0] || atoll_e2b_find(call, &error))
        (void)atoll_fail(&error, ATOLL_ERR_UNIMPLEMENTED, EOPNOTSUPP, "%s %s is not supported",
                         atoll_http_method_name(call->route->method), call->route->path);
    atoll_api_fail(call, &error);
}

/*
 * What clients ask about the service itself.
 */
#include <stdio.h>
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

/* Without analyticsApiUrl: clients then ask this daemon for measurements. */
void atoll_daytona_config(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                          size_t n ATOLL_UNUSED)
{
    char origin[ATOLL_ORIGIN_MAX], url[ATOLL_ORIGIN_MAX + 32];
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_origin(call->api, call->req, origin);
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_text(&out, "version", ATOLL_DAYTONA_VERSION);
    (void)snprintf(url, sizeof(url), "%s" ATOLL_DAYTONA_BASE "/toolbox", origin);
    atoll_json_text(&out, "proxyToolboxUrl", url);
    atoll_json_text(&out, "dashboardUrl", origin);
    atoll_json_text(&out, "defaultSnapshot", "daytona-small");
    atoll_json_u64(&out, "maxAutoArchiveInterval", 43200);
    atoll_json_bool(&out, "maintananceMode", false);
    atoll_json_text(&out, "environment", "atoll");
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

/*
 * The toolbox: requests to one sandbox.
 */
#include "api/daytona/daytona.h"

#define NONE ATOLL_BODY_NONE
#define READ ATOLL_SCOPE_READ

static void version(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                    size_t n ATOLL_UNUSED)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_text(&out, "version", "v0.190.0");
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

/* clang-format off */
#define ROWS(BASE) \
    {ATOLL_GET,    BASE "/version",            READ, NONE, version, NULL}

static const struct atoll_route rows[] = {ROWS(ATOLL_DAYTONA_TOOLBOX), ROWS(ATOLL_DAYTONA_TOOLBOX_OLD)};
/* clang-format on */

const struct atoll_routes atoll_daytona_toolbox_routes = {
    rows, ATOLL_ARRAY_LEN(rows), &atoll_daytona_toolbox_protocol, atoll_daytona_params,
    ATOLL_DAYTONA_PARAM_COUNT};

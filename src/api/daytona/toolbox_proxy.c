/*
 * /proxy/{port}/…: requests to a port of the sandbox, for clients that have a key or the token of the
 * sandbox.
 */
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/daytona/daytona_internal.h"
#include "api/daytona/toolbox_internal.h"
#include "api/preview.h"
#include "base/text.h"

/* What is behind the port in the path of a target, from its slash on. Only the router's path is decoded, but it has the
 * same slashes as the target: as many as the route before its {rest}. NULL: the target has fewer. */
static const char *behind_port(const char *route, const char *path)
{
    const char *slash = NULL;

    for (; (route = strchr(route, '/')); route++) {
        slash = strchr(slash ? slash + 1 : path, '/');
        if (!slash || slash > strchrnul(path, '?'))
            return NULL;
    }
    return slash;
}

/* Without the slash, relative links of the page would resolve outside of it. */
static void add_slash(struct atoll_api_call *call, const char *path)
{
    size_t n = strcspn(path, "?"), cap = strlen(path) + 2;
    ATOLL_AUTOFREE char *location = atoll_api_alloc(cap);

    (void)snprintf(location, cap, "%.*s/%s", (int)n, path, path + n);
    (void)atoll_http_set_header(call->req, "Location", location);
    atoll_api_reply_empty(call, 308);
}

/* For clients of the toolbox. */
static void refuse(struct atoll_http_request *req, int status, const char *text)
{
    const struct atoll_api_call call = {.req = req, .protocol = &atoll_daytona_toolbox_protocol};
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_daytona_error_members(&out, &call, status, NULL, text);
    atoll_json_close(&out, '}');
    atoll_http_respond(req, status, "application/json", atoll_buf_head(&buf), atoll_buf_size(&buf));
    atoll_buf_done(&buf);
}

void atoll_daytona_proxy(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                         size_t n ATOLL_UNUSED)
{
    struct atoll_api *api = call->api;
    char base[sizeof(ATOLL_DAYTONA_BASE) + 96], id[sizeof(call->params.id)];
    ATOLL_AUTOFREE char *target = NULL;
    const char *authority, *path, *rest;
    uint64_t port = 0;
    size_t len;

    if (!api->preview) {
        atoll_daytona_refuse(call, 501, NULL, "this server does not serve ports of sandboxes");
        return;
    }
    (void)!atoll_text_u64(call->params.port, 1, UINT16_MAX, &port);
    path = atoll_target_path(atoll_http_target(call->req), &authority, &len);
    rest = behind_port(call->route->path, path);
    if (!rest) {
        add_slash(call, path);
        return;
    }
    target = atoll_api_alloc(strlen(rest) + 1);
    (void)atoll_preview_strip_parameter(rest, ATOLL_DAYTONA_TOKEN_QUERY, target);
    (void)snprintf(id, sizeof(id), "%s", call->params.id);
    (void)snprintf(base, sizeof(base), ATOLL_DAYTONA_BASE "/toolbox/%s/proxy/%u", id,
                   (unsigned)port);
    atoll_preview_pass_below(api, atoll_api_hand_over(call), id, (uint16_t)port, base, target,
                             refuse);
}

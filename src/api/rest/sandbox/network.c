/*
 * GET and PUT /api/sandboxes/{id}/network: the policy of a sandbox's network, without the values of
 * secrets. PUT replaces all of it.
 */
#include <errno.h>
#include <string.h>
#include "api/fields.h"
#include "api/rest/rest_internal.h"
#include "api/rest/views.h"
#include "engine/network/request.h"
#include "engine/provider/providers.h"

static void reply(struct atoll_api_call *call)
{
    struct atoll_error error;
    const struct atoll_sandbox *sandbox = atoll_rest_find_sandbox(call, &error);
    struct atoll_sandbox_view view;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (!sandbox) {
        atoll_api_fail(call, &error);
        return;
    }
    atoll_sandbox_get(sandbox, &view);
    atoll_api_reply_init(&buf, &out);
    atoll_view_network(&out, NULL, &view);
    atoll_api_reply(call, 200, &out);
}

void atoll_rest_network_get(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                            size_t n ATOLL_UNUSED)
{
    reply(call);
}

static void changed(void *arg, const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;

    if (error)
        atoll_api_fail(call, error);
    else
        reply(call);
}

/* The mode is part of how a sandbox is made: one that the request names must be that one. */
static int check_request(const struct atoll_api_call *call, const json_t *network,
                         char **ret_policy, struct atoll_error *err)
{
    const struct atoll_sandbox *sandbox = atoll_rest_find_sandbox(call, err);
    struct atoll_network_request request = {.network = network};
    struct atoll_sandbox_view view;
    enum atoll_network mode;
    int r;

    if (!sandbox)
        return -ENOENT;
    atoll_sandbox_get(sandbox, &view);
    if (!json_object_get(network, "mode") && view.options.network != ATOLL_NETWORK_NONE)
        request.mode = atoll_network_name(view.options.network);
    r = atoll_network_request_check(&request, &mode, ret_policy, err);
    if (r == 0 && json_object_get(network, "mode") && mode != view.options.network)
        r = atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EINVAL,
                       "the sandbox was created with the network mode %s, which cannot be changed",
                       atoll_network_name(view.options.network));
    return r;
}

void atoll_rest_network_set(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    ATOLL_AUTOFREE char *policy = NULL;
    struct atoll_body body;
    struct atoll_error error;
    int r = atoll_body_parse(&body, bytes, n, &error);

    if (r == 0)
        r = check_request(call, body.root, &policy, &error);
    atoll_body_done(&body);
    if (r < 0)
        atoll_api_fail(call, &error);
    else
        atoll_engine_set_network(call->engine, call->params.id, policy, changed, call);
}

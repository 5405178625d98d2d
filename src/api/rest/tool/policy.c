/* Tool policies (guard/policy.h): of the tenant, at /api/tools/policy, and of a sandbox. */
#include <errno.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/fields.h"
#include "api/rest/rest_internal.h"
#include "engine/json_memory.h"
#include "guard/guard.h"

static void reply(struct atoll_api_call *call, const struct atoll_guard_policy *policy)
{
    json_t *shown = policy ? atoll_guard_policy_show(policy) : json_object();
    char *text = shown ? atoll_json_dump(shown, JSON_COMPACT) : NULL;
    struct atoll_error error;

    json_decref(shown);
    if (text) {
        atoll_api_reply_text(call, 200, "application/json", text, strlen(text));
    } else {
        (void)atoll_fail_errno(&error, ENOMEM, "tool policy");
        atoll_api_fail(call, &error);
    }
    free(text);
}

/* Parses a body; both results belong to the caller. */
static int read_policy(const uint8_t *bytes, size_t n, char **ret_text,
                       struct atoll_guard_policy **ret, struct atoll_error *err)
{
    struct atoll_body body;
    int r = atoll_body_parse(&body, bytes, n, err);

    if (r == 0)
        r = atoll_guard_policy_parse(body.root, ret, err);
    if (r == 0)
        r = atoll_guard_policy_check(body.root, err);
    if (r == 0 && !(*ret_text = atoll_json_dump(body.root, JSON_COMPACT)))
        r = atoll_fields_no_memory(err);
    atoll_body_done(&body);
    return r;
}

/* Of the tenant. */

void atoll_rest_tenant_policy_get(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                  size_t n ATOLL_UNUSED)
{
    reply(call, atoll_guard_tenant_policy(call->api->config.guard, call->caller.tenant));
}

static void set_tenant(struct atoll_api_call *call, const json_t *json)
{
    struct atoll_error error;

    if ((json && atoll_guard_policy_check(json, &error) < 0) ||
        atoll_guard_set_tenant_policy(call->api->config.guard, call->caller.tenant, json, &error) <
            0)
        atoll_api_fail(call, &error);
    else if (json)
        reply(call, atoll_guard_tenant_policy(call->api->config.guard, call->caller.tenant));
    else
        atoll_api_reply_empty(call, 204);
}

void atoll_rest_tenant_policy_set(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct atoll_body body;
    struct atoll_error error;

    if (atoll_body_parse(&body, bytes, n, &error) < 0)
        atoll_api_fail(call, &error);
    else
        set_tenant(call, body.root);
    atoll_body_done(&body);
}

void atoll_rest_tenant_policy_remove(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                     size_t n ATOLL_UNUSED)
{
    set_tenant(call, NULL);
}

/* Of a sandbox. */

void atoll_rest_tool_policy_get(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                size_t n ATOLL_UNUSED)
{
    struct atoll_error error;
    const struct atoll_sandbox *sandbox = atoll_rest_find_sandbox(call, &error);
    struct atoll_guard_policy *policy = NULL;
    struct atoll_sandbox_view view;
    json_t *json = NULL;
    int r = sandbox ? 0 : -ENOENT;

    if (sandbox) {
        atoll_sandbox_get(sandbox, &view);
        json = atoll_json_load_own(view.options.tool_policy_json);
    }
    if (json)
        r = atoll_guard_policy_parse(json, &policy, &error);
    json_decref(json);
    if (r < 0)
        atoll_api_fail(call, &error);
    else
        reply(call, policy);
    (void)atoll_guard_policy_free(policy);
}

void atoll_rest_tool_policy_set(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct atoll_guard_policy *policy = NULL;
    struct atoll_error error;
    char *text = NULL;
    int r = read_policy(bytes, n, &text, &policy, &error);

    if (r == 0)
        r = atoll_engine_set_tool_policy(call->engine, call->params.id, text, &error);
    if (r < 0)
        atoll_api_fail(call, &error);
    else
        reply(call, policy);
    if (text)
        explicit_bzero(text, strlen(text)); /* it may have secrets */
    free(text);
    (void)atoll_guard_policy_free(policy);
}

void atoll_rest_tool_policy_remove(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                   size_t n ATOLL_UNUSED)
{
    struct atoll_error error;

    if (atoll_engine_set_tool_policy(call->engine, call->params.id, NULL, &error) < 0)
        atoll_api_fail(call, &error);
    else
        atoll_api_reply_empty(call, 204);
}

#include "api/api_internal.h"
#include "api/mcp/mcp_internal.h"
#include "registry/prompt.h"

/*
 * Prompts of the registry, for people to choose from in their client.
 */
static const struct atoll_registry *registry_of(const struct atoll_mcp_request *req)
{
    return req->api->config.sessions ? atoll_sessions_registry(req->api->config.sessions) : NULL;
}

static json_t *describe(const struct atoll_registry_item *item)
{
    json_t *object = (json_t *)(uintptr_t)item->object, *arguments = json_array(), *variable;
    const char *name;

    json_object_foreach(json_object_get(object, "variables"), name, variable)
    {
        (void)json_array_append_new(arguments,
                                    json_pack("{s:s, s:O*, s:b}", "name", name, "description",
                                              json_object_get(variable, "description"), "required",
                                              json_is_true(json_object_get(variable, "required"))));
    }
    return json_pack("{s:s, s:O*, s:o}", "name", item->name, "description",
                     json_object_get(object, "description"), "arguments", arguments);
}

void atoll_mcp_prompts_list(struct atoll_mcp_request *req)
{
    const struct atoll_registry *registry = registry_of(req);
    struct atoll_registry_item item;
    json_t *all = json_array();
    size_t pos = 0;

    while (registry && atoll_registry_next(registry, ATOLL_REGISTRY_PROMPT, &pos, &item))
        (void)json_array_append_new(all, describe(&item));
    atoll_mcp_answer(req, json_pack("{s:o}", "prompts", all));
}

void atoll_mcp_prompts_get(struct atoll_mcp_request *req)
{
    const struct atoll_registry *registry = registry_of(req);
    const char *name = json_string_value(json_object_get(req->message.params, "name"));
    const json_t *given = json_object_get(req->message.params, "arguments");
    struct atoll_registry_item item;
    struct atoll_error error;
    struct atoll_buf text;

    if (!name || !registry || !atoll_registry_find(registry, ATOLL_REGISTRY_PROMPT, name, &item)) {
        atoll_mcp_refuse(req, ATOLL_MCP_INVALID_PARAMS, "there is no prompt %.64s",
                         name ? name : "");
        return;
    }
    if (given && !json_is_object(given)) {
        atoll_mcp_refuse(req, ATOLL_MCP_INVALID_PARAMS, "arguments must be an object");
        return;
    }
    atoll_buf_init(&text, ATOLL_PROMPT_TEXT_MAX);
    if (atoll_prompt_render(&item, given, &text, &error) < 0)
        atoll_mcp_fail(req, &error);
    else
        atoll_mcp_answer(req, json_pack("{s:O*, s:[{s:s, s:{s:s, s:s}}]}", "description",
                                        json_object_get(item.object, "description"), "messages",
                                        "role", "user", "content", "type", "text", "text",
                                        atoll_buf_str(&text)));
    atoll_buf_done(&text);
}

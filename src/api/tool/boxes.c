#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/preview.h"
#include "api/tool/tool_internal.h"
#include "base/memory.h"

/*
 * Sandboxes themselves: tools that MCP clients have in place of the REST API.
 */
#define LIST_MAX 200

static json_t *describe(const struct atoll_sandbox *sandbox)
{
    struct atoll_sandbox_view view;

    atoll_sandbox_get(sandbox, &view);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I}", "id", view.id, "name",
                     view.options.name ? view.options.name : "", "state",
                     atoll_sandbox_state_name(view.state), "provider", view.provider, "template",
                     view.template_name, "image", view.image, "memory_mb",
                     (json_int_t)(view.options.limits.memory_bytes >> 20), "disk_mb",
                     (json_int_t)(view.options.limits.disk_bytes >> 20));
}

static void created(void *arg, struct atoll_sandbox *sandbox, const struct atoll_error *error)
{
    struct atoll_tool_call *call = arg;

    if (error)
        atoll_tool_fail(call, error);
    else
        atoll_tool_finish_data(call, describe(sandbox));
}

void atoll_tool_run_create(struct atoll_tool_call *call)
{
    const char *network = atoll_tool_text(call, "network"), *name = atoll_tool_text(call, "name");
    const json_t *env = json_object_get(call->args, "env");
    char **variables;
    struct atoll_error error;
    bool bridge = network && strcmp(network, "bridge") == 0;

    if (network && !bridge && strcmp(network, "none") != 0) {
        atoll_tool_refuse(call, ATOLL_ERR_INVALID_ARGUMENT, "network must be none or bridge");
        return;
    }
    if (name && atoll_name_check(name, &error) < 0) {
        atoll_tool_fail(call, &error);
        return;
    }
    variables = atoll_tool_variables(env);
    atoll_engine_create(
        call->engine,
        &(struct atoll_options){
            .owner = call->tenant,
            .name = name,
            .template_name = atoll_tool_text(call, "template"),
            .image = atoll_tool_text(call, "image"),
            .network = bridge ? ATOLL_NETWORK_BRIDGE : ATOLL_NETWORK_NONE,
            .network_is_given = network != NULL,
            .env = env ? (const char *const *)variables : NULL,
            .limits = {.timeout_s = (uint32_t)atoll_tool_whole(call, "timeout_seconds", 0),
                       .memory_bytes = atoll_tool_whole(call, "memory_mb", 0) << 20,
                       .disk_bytes = atoll_tool_whole(call, "disk_mb", 0) << 20},
        },
        created, call);
    atoll_tool_variables_free(variables);
}

void atoll_tool_run_list(struct atoll_tool_call *call)
{
    json_t *all = json_array();
    struct atoll_sandbox *sandbox = atoll_engine_after(call->engine, call->tenant, 0, "");
    struct atoll_sandbox_view view;

    for (size_t i = 0; sandbox && i < LIST_MAX; i++) {
        (void)json_array_append_new(all, describe(sandbox));
        atoll_sandbox_get(sandbox, &view);
        sandbox = atoll_engine_after(call->engine, call->tenant, view.created_unix_ms, view.id);
    }
    atoll_tool_finish_data(call,
                           json_pack("{s:o, s:b}", "sandboxes", all, "more", sandbox != NULL));
}

void atoll_tool_run_info(struct atoll_tool_call *call)
{
    const struct atoll_sandbox *sandbox = atoll_engine_find(call->engine, call->sandbox_id);

    if (sandbox)
        atoll_tool_finish_data(call, describe(sandbox));
    else
        atoll_tool_refuse(call, ATOLL_ERR_NOT_FOUND, "the sandbox has ended");
}

static void destroyed(void *arg, const struct atoll_error *error)
{
    struct atoll_tool_call *call = arg;

    if (error)
        atoll_tool_fail(call, error);
    else
        atoll_tool_finish_data(call,
                               json_pack("{s:s, s:s}", "id", call->sandbox_id, "state", "ended"));
}

void atoll_tool_run_destroy(struct atoll_tool_call *call)
{
    atoll_engine_destroy(call->engine, call->sandbox_id, "a tool call", destroyed, call);
}

void atoll_tool_run_preview(struct atoll_tool_call *call)
{
    struct atoll_previews *previews = atoll_api_previews(call->api);
    uint64_t port = atoll_tool_whole(call, "port", 0);
    char url[ATOLL_PREVIEW_URL_MAX], path[ATOLL_PREVIEW_URL_MAX];
    struct atoll_preview_view view;
    struct atoll_error error;

    if (!previews) {
        atoll_tool_refuse(call, ATOLL_ERR_UNIMPLEMENTED, "previews are disabled in this daemon");
        return;
    }
    if (atoll_previews_add(previews, call->sandbox_id, (uint16_t)port,
                           atoll_tool_flag(call, "public"), &view, &error) < 0) {
        atoll_tool_fail(call, &error);
        return;
    }
    atoll_preview_url(atoll_api_site(call->api), &view, url);
    atoll_preview_path_url(&view, path);
    atoll_tool_finish_data(
        call, json_pack("{s:s, s:s, s:I}", "url", url, "path_url", path, "port", (json_int_t)port));
}

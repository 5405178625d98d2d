#include <errno.h>
#include <string.h>
#include "api/tool/tool_internal.h"
#include "engine/state/state.h"

/*
 * Snapshots and forks: tools that MCP clients have in place of the REST API.
 */

static void snapshot_made(void *arg, const struct atoll_template_view *view,
                          const struct atoll_snapshot_facts *facts, const struct atoll_error *error)
{
    struct atoll_tool_call *call = arg;

    if (error)
        atoll_tool_fail(call, error);
    else
        atoll_tool_finish_data(call, json_pack("{s:s, s:I, s:I}", "name", view->name, "bytes",
                                               (json_int_t)facts->bytes, "files",
                                               (json_int_t)facts->files));
}

void atoll_tool_run_snapshot(struct atoll_tool_call *call)
{
    atoll_engine_snapshot(call->engine, call->sandbox_id, atoll_tool_text(call, "name"),
                          snapshot_made, call);
}

static void forked(void *arg, const char (*ids)[ATOLL_ID_LEN + 1], size_t count,
                   const struct atoll_error *error)
{
    struct atoll_tool_call *call = arg;
    json_t *list;

    if (error) {
        atoll_tool_fail(call, error);
        return;
    }
    list = json_array();
    for (size_t i = 0; i < count; i++)
        (void)json_array_append_new(list, json_string(ids[i]));
    atoll_tool_finish_data(call, json_pack("{s:o}", "sandboxes", list));
}

void atoll_tool_run_fork(struct atoll_tool_call *call)
{
    const struct atoll_fork_request request = {.count =
                                                   (uint32_t)atoll_tool_whole(call, "count", 1)};

    if (request.count == 0)
        atoll_tool_refuse(call, ATOLL_ERR_INVALID_ARGUMENT, "count must be at least 1");
    else
        atoll_engine_fork(call->engine, call->sandbox_id, &request, forked, call);
}

static void restored(void *arg, const struct atoll_error *error)
{
    struct atoll_tool_call *call = arg;

    if (error)
        atoll_tool_fail(call, error);
    else
        atoll_tool_finish_data(call, json_pack("{s:s, s:s}", "id", call->sandbox_id, "snapshot",
                                               atoll_tool_text(call, "snapshot")));
}

void atoll_tool_run_restore(struct atoll_tool_call *call)
{
    atoll_engine_restore(call->engine, call->sandbox_id, atoll_tool_text(call, "snapshot"),
                         "a tool call", restored, call);
}

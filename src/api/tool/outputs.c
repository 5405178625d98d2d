#include <string.h>
#include "api/tool/tool_internal.h"

/*
 * What the objects of results have, for clients that check them. No member is required: commands in the background
 * have fewer, and interceptors may remove some.
 */
#define MEMBERS_MAX 14

static const struct {
    const char *tool; /* its name in MCP */
    struct {
        const char *name, *type; /* "array?": or null */
    } members[MEMBERS_MAX];
} outputs[] = {
#define COMMAND                                                                      \
    {                                                                                \
        {"command_id", "string"}, {"stdout", "string"}, {"stderr", "string"},        \
            {"truncated", "boolean"}, {"state", "string"}, {"exit_code", "integer"}, \
    }
#define SANDBOX                                                                            \
    {                                                                                      \
        {"id", "string"}, {"name", "string"}, {"state", "string"}, {"provider", "string"}, \
            {"template", "string"}, {"image", "string"}, {"memory_mb", "integer"},         \
            {"disk_mb", "integer"},                                                        \
    }
    {"run_command", COMMAND},
    {"command_output", COMMAND},
    {"run_code",
     {{"stdout", "string"}, {"stderr", "string"}, {"results", "array?"}, {"error", "object?"}}},
    {"sandbox_create", SANDBOX},
    {"sandbox_info", SANDBOX},
    {"sandbox_list", {{"sandboxes", "array"}, {"more", "boolean"}}},
    {"sandbox_stop", {{"id", "string"}, {"state", "string"}}},
    {"sandbox_snapshot", {{"name", "string"}, {"bytes", "integer"}}},
    {"sandbox_fork", {{"sandboxes", "array"}}},
    {"preview_url", {{"url", "string"}, {"path_url", "string"}, {"port", "integer"}}},
    {"read_file", {{"lines", "integer"}, {"shown", "integer"}, {"bytes", "integer"}}},
    {"write_file", {{"bytes", "integer"}}},
    {"edit_file", {{"replaced", "integer"}}},
    {"edit_file_many", {{"replaced", "integer"}}},
    {"find_files", {{"paths", "array"}}},
    {"search_files", {{"found", "boolean"}}},
    {"list_files", {{"paths", "array"}}},
    {"get_file_info",
     {{"path", "string"},
      {"type", "string"},
      {"size_bytes", "integer"},
      {"mode", "string"},
      {"owner", "string"},
      {"group", "string"},
      {"modified_ms", "integer"}}},
    {"download_file",
     {{"path", "string"}, {"bytes", "integer"}, {"encoding", "string"}, {"content", "string"}}},
    {"task_run",
     {{"id", "string"},
      {"state", "string"},
      {"output", "string"},
      {"branch", "string"},
      {"commit", "string"},
      {"pushed", "boolean"},
      {"usage", "object"},
      {"changes", "array"},
      {"sandbox_id", "string"},
      {"exit_code", "integer"},
      {"provider", "string"},
      {"error", "string"},
      {"files", "array"}}},
    {"swarm_memory_get", {{"memory", "object"}}},
    {"swarm_memory_set", {{"memory", "object"}}},
};

static json_t *type_of(const char *type)
{
    size_t n = strcspn(type, "?");

    return type[n] ? json_pack("{s:[s%, s]}", "type", type, n, "null")
                   : json_pack("{s:s}", "type", type);
}

json_t *atoll_tool_output(const struct atoll_tool *tool)
{
    json_t *properties;

    for (size_t i = 0; !tool->object && i < ATOLL_ARRAY_LEN(outputs); i++) {
        if (strcmp(outputs[i].tool, tool->mcp_name) != 0)
            continue;
        properties = json_object();
        for (size_t k = 0; k < MEMBERS_MAX && outputs[i].members[k].name; k++)
            (void)json_object_set_new(properties, outputs[i].members[k].name,
                                      type_of(outputs[i].members[k].type));
        return json_pack("{s:s, s:o}", "type", "object", "properties", properties);
    }
    return NULL;
}

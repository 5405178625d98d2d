#include <string.h>
#include "api/tool/tool_internal.h"

/*
 * Names that other sandbox servers have for tools of ours, and for their arguments. They are accepted when a tool is
 * called, and are in no list: prompts and programs written for those servers go on to work.
 */
#define RENAMED_MAX 5
#define SCRIPT_MAX ((size_t)1024 * 1024)
struct alias {
    const char *name, *tool;
    const struct {
        const char *from, *to; /* to NULL: has no meaning here */
    } args[RENAMED_MAX];
};

static const struct alias aliases[] = {
    /* Daytona's. */
    {"create_sandbox",
     "sandbox_create",
     {{"id", "name"}, {"target", NULL}, {"auto_stop_interval", NULL}}},
    {"destroy_sandbox", "sandbox_stop", {{"id", "sandbox"}}},
    {"execute_command", "run_command", {{"id", "sandbox"}}},
    {"preview_link",
     "preview_url",
     {{"id", "sandbox"}, {"description", NULL}, {"check_server", NULL}}},
    {"file_upload", "upload_file", {{"id", "sandbox"}, {"file_path", "path"}}},
    {"download_file", "download_file", {{"id", "sandbox"}, {"file_path", "path"}}},
    {"list_files", "list_files", {{"id", "sandbox"}}},
    {"get_file_info", "get_file_info", {{"id", "sandbox"}, {"file_path", "path"}}},
    {"create_folder", "create_folder", {{"id", "sandbox"}, {"folder_path", "path"}}},
    {"move_file",
     "move_file",
     {{"id", "sandbox"}, {"source_path", "source"}, {"dest_path", "destination"}}},
    {"delete_file", "delete_file", {{"id", "sandbox"}, {"file_path", "path"}}},
    {"git_clone", "git_clone", {{"id", "sandbox"}}},
    /* microsandbox's. */
    {"sandbox_start", "sandbox_create", {{"sandbox", "name"}, {"namespace", NULL}}},
    {"sandbox_stop", "sandbox_stop", {{"namespace", NULL}, {"container_id", "sandbox"}}},
    {"sandbox_run_command", "run_command", {{"namespace", NULL}}},
    {"sandbox_run_code", "run_code", {{"namespace", NULL}}},
    {"sandbox_get_metrics", "sandbox_info", {{"namespace", NULL}}},
    /* code-sandbox-mcp's. */
    {"sandbox_initialize", "sandbox_create", {{NULL, NULL}}},
    {"sandbox_exec", "run_command", {{"container_id", "sandbox"}, {"commands", "command"}}},
};

static const struct alias *find(const char *name)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(aliases); i++)
        if (strcmp(aliases[i].name, name) == 0)
            return &aliases[i];
    return NULL;
}

const char *atoll_tool_alias(const char *name)
{
    const struct alias *alias = find(name);

    return alias ? alias->tool : name;
}

/* Commands are one script, which ends with the first that fails. Owned by the caller. */
static json_t *join(const json_t *commands)
{
    struct atoll_buf script;
    json_t *text;

    atoll_buf_init(&script, SCRIPT_MAX);
    for (size_t i = 0; i < json_array_size(commands); i++) {
        const char *command = json_string_value(json_array_get(commands, i));
        if (!command || atoll_buf_appendf(&script, "%s%s", i ? " &&\n" : "", command) < 0) {
            atoll_buf_done(&script);
            return json_incref((json_t *)(uintptr_t)commands); /* which is refused */
        }
    }
    text = json_string(atoll_buf_str(&script));
    atoll_buf_done(&script);
    return text;
}

void atoll_tool_alias_args(const char *name, json_t *args)
{
    const struct alias *alias = find(name);

    for (size_t i = 0; alias && i < RENAMED_MAX && alias->args[i].from; i++) {
        const char *from = alias->args[i].from, *to = alias->args[i].to;
        json_t *value = json_object_get(args, from);

        if (!value || (to && json_object_get(args, to)))
            continue;
        if (to && json_is_array(value))
            (void)json_object_set_new(args, to, join(value));
        else if (to)
            (void)json_object_set(args, to, value);
        (void)json_object_del(args, from);
    }
}

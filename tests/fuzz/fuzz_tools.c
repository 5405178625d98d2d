/*
 * Messages of MCP clients and the arguments of tools. The input is a message; its params are also taken as the
 * arguments of every tool, and what is accepted must fit the table.
 */
#include <stdlib.h>
#include <string.h>
#include "api/mcp/mcp_internal.h"
#include "api/tool/tool_internal.h"
#include "fuzz.h"
#include "guard/shell.h"

/* A call as a command is read as one program with the arguments as they are. */
static void check_command(const struct atoll_tool *tool, const json_t *args)
{
    char *text = atoll_tool_as_command(tool, args);
    const char *path = json_string_value(json_object_get(args, "path"));
    struct atoll_shell shell;
    struct atoll_error err;

    if (text && atoll_shell_parse(text, strlen(text), &shell, &err) == 0) {
        FUZZ_CHECK(shell.count > 0);
        for (size_t i = 0; i < shell.count; i++) {
            const struct atoll_shell_command *c = &shell.commands[i];

            FUZZ_CHECK(!c->runs_others);
            FUZZ_CHECK(strcmp(c->words[0].text, shell.commands[0].words[0].text) == 0);
            for (size_t k = 0; k < c->count; k++)
                FUZZ_CHECK(!c->words[k].many && !strchr(c->words[k].text, ATOLL_SHELL_HOLE));
            if (strcmp(tool->mcp_name, "delete_file") == 0)
                FUZZ_CHECK(strcmp(c->words[c->count - 1].text, path) == 0);
        }
    }
    if (text)
        atoll_shell_done(&shell);
    free(text);
}

static void check_arguments(const struct atoll_tool *tool, bool mcp, const json_t *given)
{
    json_t *args = json_deep_copy(given);
    struct atoll_error err;

    if (!args)
        return;
    if (atoll_tool_check(tool, mcp, args, &err) < 0) {
        FUZZ_CHECK(err.kind == ATOLL_ERR_INVALID_ARGUMENT);
        FUZZ_CHECK(strnlen(err.text, sizeof(err.text)) < sizeof(err.text));
    } else {
        for (const struct atoll_tool_arg *arg = tool->args; arg->name; arg++)
            FUZZ_CHECK(!arg->required || json_object_get(args, arg->name));
        FUZZ_CHECK(json_object_size(args) <= json_object_size(given));
        check_command(tool, args);
    }
    json_decref(args);
}

/* An edit with the texts of the params changes the text as it says. */
static void check_edit(const json_t *params)
{
    const char *old = json_string_value(json_object_get(params, "old_string"));
    const char *text = json_string_value(json_object_get(params, "content"));
    struct atoll_tool_edit edit = {old, "<new>", true};
    struct atoll_buf buf;
    struct atoll_error err;
    size_t count = 0;

    if (!old || !text)
        return;
    atoll_buf_init(&buf, 1 << 20);
    FUZZ_CHECK(atoll_buf_appends(&buf, text) == 0);
    if (atoll_tool_edit_apply(&buf, &edit, &count, &err) == 0)
        FUZZ_CHECK(atoll_buf_size(&buf) ==
                   strlen(text) - count * strlen(old) + count * strlen(edit.new_text));
    atoll_buf_done(&buf);
}

static void check_paths(const json_t *params)
{
    struct atoll_tool_call call = {.outside = (char *)"/repo", .inside = (char *)"/work"};
    const char *given = json_string_value(json_object_get(params, "file_path"));
    char path[ATOLL_TOOL_PATH_MAX];
    struct atoll_error err;

    if (!given || atoll_tool_path(&call, given, path, &err) < 0)
        return;
    FUZZ_CHECK(strncmp(path, "/work", 5) == 0 && (!path[5] || path[5] == '/'));
    FUZZ_CHECK(!strstr(path, "/../"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct atoll_mcp_message message;
    const char *why = NULL;
    int r = atoll_mcp_parse(data, size, &message, &why);

    FUZZ_CHECK(r == 0 || (r < 0 && why && *why));
    if (r == 0 && message.params) {
        for (const struct atoll_tool *tool = atoll_tools; tool->run; tool++) {
            check_arguments(tool, true, message.params);
            check_arguments(tool, false, message.params);
        }
        check_edit(message.params);
        check_paths(message.params);
    }
    atoll_mcp_message_done(&message);
    return 0;
}

#include "git/git.h"
#include <string.h>
#include "api/kit/git_view.h"
#include "api/tool/tool_internal.h"
#include "base/memory.h"
#include "engine/json_memory.h"

/*
 * Git: tools that MCP clients have in place of the REST API. Requests and results are those of /api/sandboxes/ID/git.
 */
#define VIEW_MAX (3 * ATOLL_GIT_OUTPUT_MAX)
#define PATCH_SHOWN_MAX ((size_t)256 * 1024)
#define COMMITS 20 /* of a log */

static const struct {
    const char *tool;
    enum atoll_git_op op;
} operations[] = {
    {"git_clone", ATOLL_GIT_CLONE},       {"git_status", ATOLL_GIT_STATUS},
    {"git_diff", ATOLL_GIT_DIFF},         {"git_log", ATOLL_GIT_LOG},
    {"git_branches", ATOLL_GIT_BRANCHES}, {"git_checkout", ATOLL_GIT_CHECKOUT},
    {"git_add", ATOLL_GIT_ADD},           {"git_commit", ATOLL_GIT_COMMIT},
    {"git_pull", ATOLL_GIT_PULL},         {"git_push", ATOLL_GIT_PUSH},
};

static enum atoll_git_op op_of(const struct atoll_tool_call *call)
{
    size_t i = 0;

    while (strcmp(operations[i].tool, call->tool->mcp_name) != 0)
        i++;
    return operations[i].op;
}

/* The patch is the text: models read it better than JSON. */
static void finish_diff(struct atoll_tool_call *call, json_t *data)
{
    const json_t *patch = json_object_get(data, "patch");
    size_t n = json_string_length(patch), shown = ATOLL_MIN(n, PATCH_SHOWN_MAX);
    struct atoll_buf text;

    atoll_buf_init(&text, PATCH_SHOWN_MAX + 100);
    if (n == 0)
        (void)!atoll_buf_appends(&text, "No differences\n");
    else
        (void)!atoll_buf_append(&text, json_string_value(patch), shown);
    if (shown < n)
        (void)!atoll_buf_appendf(&text, "\n[%zu bytes are left out: name files]\n", n - shown);
    atoll_tool_finish(call, &text, data, false);
}

static void done(void *arg, const struct atoll_git_result *result, const struct atoll_error *error)
{
    struct atoll_tool_call *call = arg;
    struct atoll_json_out out;
    struct atoll_buf text;
    json_t *data = NULL;

    if (error) {
        atoll_tool_fail(call, error);
        return;
    }
    atoll_buf_init(&text, VIEW_MAX);
    atoll_json_out_init(&out, &text);
    if (!atoll_git_view(&out, result))
        data = json_pack("{s:s}", "exec_id", result->exec_id);
    else if (out.error == 0)
        data = atoll_json_load(atoll_buf_head(&text), atoll_buf_size(&text), JSON_ALLOW_NUL, NULL);
    atoll_buf_done(&text);
    if (!data)
        atoll_tool_refuse(call, ATOLL_ERR_RESOURCE_EXHAUSTED, "the result of git is too long");
    else if (result->op == ATOLL_GIT_DIFF)
        finish_diff(call, data);
    else
        atoll_tool_finish_data(call, data);
}

/* NULL: not given. The strings are those of the arguments. */
static const char **files_of(const struct atoll_tool_call *call)
{
    const json_t *list = json_object_get(call->args, "files");
    const char **files;

    if (!list)
        return NULL;
    files = atoll_alloc((json_array_size(list) + 1) * sizeof(*files));
    for (size_t i = 0; i < json_array_size(list); i++)
        files[i] = json_string_value(json_array_get(list, i));
    return files;
}

/* An argument that the tool does not have is not given. */
void atoll_tool_run_git(struct atoll_tool_call *call)
{
    const char *branch = atoll_tool_text(call, "branch"), **files = files_of(call);

    atoll_git_run(call->engine, call->sandbox_id,
                  &(struct atoll_git_request){
                      .op = op_of(call),
                      .path = atoll_tool_text(call, "path"),
                      .url = atoll_tool_text(call, "url"),
                      .remote = atoll_tool_text(call, "remote"),
                      .ref = branch ? branch : atoll_tool_text(call, "ref"),
                      .to = atoll_tool_text(call, "to"),
                      .commit = atoll_tool_text(call, "commit_id"),
                      .message = atoll_tool_text(call, "message"),
                      .files = files,
                      .author_name = atoll_tool_text(call, "author_name"),
                      .author_email = atoll_tool_text(call, "author_email"),
                      .limit = (uint32_t)atoll_tool_whole(call, "limit", COMMITS),
                      .all = atoll_tool_flag(call, "all"),
                      .staged = atoll_tool_flag(call, "staged"),
                      .create = atoll_tool_flag(call, "create"),
                      .rebase = atoll_tool_flag(call, "rebase"),
                      .force = atoll_tool_flag(call, "force"),
                      .set_upstream = atoll_tool_flag(call, "set_upstream"),
                      .credentials = {.username = atoll_tool_text(call, "username"),
                                      .password = atoll_tool_text(call, "password")},
                  },
                  done, call);
    free(files);
}

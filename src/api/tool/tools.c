#include <errno.h>
#include <math.h>
#include <string.h>
#include "api/tool/tool_internal.h"

/*
 * The table of tools: their arguments, and what models are told about them.
 */
#define TEXT(name, mcp, about)                      \
    {                                               \
        name, mcp, ATOLL_TOOL_TEXT, true, 0, about, \
    }
#define OPTIONAL(name, mcp, type, max, about)           \
    {                                                   \
        name, mcp, ATOLL_TOOL_##type, false, max, about \
    }
#define MILLISECONDS_MAX 86400000
#define LIST_MAX 100 /* elements of an array: each costs time of the loop */

static const struct atoll_tool_arg bash_args[] = {
    TEXT("command", NULL,
         "The command line, run by /bin/bash, or by /bin/sh where there is no bash."),
    OPTIONAL("timeout", NULL, WHOLE, MILLISECONDS_MAX,
             "Milliseconds after which the command is killed; 120000 if not given."),
    OPTIONAL("description", NULL, TEXT, 0, "What the command does, in a few words."),
    OPTIONAL("run_in_background", "background", FLAG, 0,
             "Return at once with an id for BashOutput and KillShell."),
    OPTIONAL("cwd", NULL, TEXT, 0, "Working directory; that of the sandbox if not given."),
    OPTIONAL("env", NULL, ENV, 0, "More environment variables."),
    {0},
};
static const struct atoll_tool_arg bash_output_args[] = {
    TEXT("bash_id", "command_id", "The id that the background command was given."),
    {0},
};
static const struct atoll_tool_arg kill_shell_args[] = {
    TEXT("shell_id", "command_id", "The id that the background command was given."),
    {0},
};
static const struct atoll_tool_arg code_args[] = {
    TEXT("code", NULL, "The code. Variables stay for the next call in the same language."),
    OPTIONAL("language", NULL, TEXT, 0,
             "python (if not given), javascript, typescript, bash, r or java."),
    OPTIONAL("timeout", NULL, WHOLE, MILLISECONDS_MAX,
             "Milliseconds after which the code is interrupted; 120000 if not given."),
    {0},
};
static const struct atoll_tool_arg read_args[] = {
    TEXT("file_path", "path", "The file."),
    OPTIONAL("offset", NULL, WHOLE, 0, "Number of the first line, from 1."),
    OPTIONAL("limit", NULL, WHOLE, 0, "How many lines; 2000 if not given."),
    {0},
};
static const struct atoll_tool_arg write_args[] = {
    TEXT("file_path", "path", "The file; directories are made, an existing file is replaced."),
    TEXT("content", NULL, "All that the file shall contain."),
    {0},
};
static const struct atoll_tool_arg edit_args[] = {
    TEXT("file_path", "path", "The file."),
    TEXT("old_string", "old_text", "The text to replace, exactly as it is in the file."),
    TEXT("new_string", "new_text", "The text to put in its place."),
    OPTIONAL("replace_all", NULL, FLAG, 0, "Replace it everywhere; else it must be there once."),
    {0},
};
static const struct atoll_tool_arg multi_edit_args[] = {
    TEXT("file_path", "path", "The file."),
    {"edits", NULL, ATOLL_TOOL_EDITS, true, 0,
     "Edits, made in this order; if one cannot be made, the file stays as it is."},
    {0},
};
static const struct atoll_tool_arg notebook_args[] = {
    TEXT("notebook_path", "path", "The notebook, an .ipynb file."),
    TEXT("new_source", NULL, "The new source of the cell; \"\" to delete it."),
    OPTIONAL(
        "cell_id", NULL, TEXT, 0,
        "The id of the cell, or cell-N for the one at position N from 0. With insert: the new cell "
        "follows it; the first one if not given."),
    OPTIONAL("cell_type", NULL, TEXT, 0, "code or markdown; needed with insert."),
    OPTIONAL("edit_mode", NULL, TEXT, 0, "replace (if not given), insert or delete."),
    {0},
};
static const struct atoll_tool_arg web_fetch_args[] = {
    TEXT("url", NULL, "The address, http or https. The sandbox needs a network that permits it."),
    OPTIONAL("prompt", NULL, TEXT, 0, "What you look for; the whole text is returned."),
    {0},
};
static const struct atoll_tool_arg glob_args[] = {
    TEXT("pattern", NULL, "A pattern for paths, such as **/*.c or src/*.h."),
    OPTIONAL("path", NULL, TEXT, 0, "The directory to search; the working directory if not given."),
    {0},
};
static const struct atoll_tool_arg grep_args[] = {
    TEXT("pattern", NULL, "An extended regular expression."),
    OPTIONAL("path", NULL, TEXT, 0, "The file or directory; the working directory if not given."),
    OPTIONAL("glob", NULL, TEXT, 0, "Only files whose name matches, such as *.js."),
    OPTIONAL("output_mode", NULL, TEXT, 0,
             "content (lines), files_with_matches (if not given) or count."),
    OPTIONAL("-i", "ignore_case", FLAG, 0, "Ignore case."),
    OPTIONAL("-n", "line_numbers", FLAG, 0, "Show line numbers; only with content."),
    OPTIONAL("-A", "after", WHOLE, 1000, "Lines to show after each match; only with content."),
    OPTIONAL("-B", "before", WHOLE, 1000, "Lines to show before each match; only with content."),
    OPTIONAL("-C", "context", WHOLE, 1000, "Lines around each match; only with content."),
    OPTIONAL("head_limit", "limit", WHOLE, 0, "Only the first so many lines of the result."),
    {0},
};
static const struct atoll_tool_arg ls_args[] = {
    TEXT("path", NULL, "The directory."),
    OPTIONAL("ignore", NULL, TEXTS, 0, "Patterns of names to leave out."),
    {0},
};
static const struct atoll_tool_arg create_args[] = {
    OPTIONAL("name", NULL, TEXT, 0, "A name, unique among your sandboxes."),
    OPTIONAL("template", NULL, TEXT, 0, "The template; host if not given."),
    OPTIONAL("image", NULL, TEXT, 0, "A container image instead, such as python:3.12."),
    OPTIONAL("network", NULL, TEXT, 0,
             "none (if not given) or bridge, which reaches the internet."),
    OPTIONAL("timeout_seconds", NULL, WHOLE, 31 * 86400, "It ends after this time."),
    OPTIONAL("memory_mb", NULL, WHOLE, 1 << 24, "Limit of memory."),
    OPTIONAL("disk_mb", NULL, WHOLE, 1 << 24, "Limit of its disk."),
    OPTIONAL("env", NULL, ENV, 0, "Environment variables of all its commands."),
    {0},
};
static const struct atoll_tool_arg no_args[] = {{0}};
static const struct atoll_tool_arg preview_args[] = {
    {"port", NULL, ATOLL_TOOL_WHOLE, true, 65535, "The port on which a server listens inside."},
    OPTIONAL("public", NULL, FLAG, 0, "The URL works without its token."),
    {0},
};

static const struct atoll_tool_arg snapshot_args[] = {
    OPTIONAL("name", NULL, TEXT, 0, "NAME or NAME:TAG; default: a new name."),
    {0},
};
static const struct atoll_tool_arg fork_args[] = {
    OPTIONAL("count", NULL, WHOLE, 100, "How many; default: 1."),
    {0},
};
static const struct atoll_tool_arg restore_args[] = {
    {"snapshot", NULL, ATOLL_TOOL_TEXT, true, 0, "The name of a snapshot or template."},
    {0},
};
static const struct atoll_tool_arg path_args[] = {
    TEXT("path", NULL, "The file or directory."),
    {0},
};
static const struct atoll_tool_arg delete_args[] = {
    TEXT("path", NULL, "The file or directory."),
    OPTIONAL("recursive", NULL, FLAG, 0, "A directory with all that is in it."),
    {0},
};
static const struct atoll_tool_arg move_args[] = {
    TEXT("source", NULL, "The file or directory."),
    TEXT("destination", NULL, "Its new path."),
    {0},
};
static const struct atoll_tool_arg upload_args[] = {
    TEXT("path", NULL, "The file; directories are made."),
    TEXT("content", NULL, "All that the file shall contain."),
    OPTIONAL("encoding", NULL, TEXT, 0, "Of the content: base64 (if not given) or text."),
    OPTIONAL("overwrite", NULL, FLAG, 0, "false: an existing file is not replaced."),
    {0},
};

#define REPOSITORY \
    OPTIONAL("path", NULL, TEXT, 0, "The repository; the working directory if not given.")
#define FILES(about) OPTIONAL("files", NULL, TEXTS, 0, about)
#define CREDENTIALS                                                          \
    OPTIONAL("username", NULL, TEXT, 0, "At the server of the repository."), \
        OPTIONAL("password", NULL, TEXT, 0, "It is not stored in the sandbox.")
static const struct atoll_tool_arg git_clone_args[] = {
    {"url", NULL, ATOLL_TOOL_TEXT, true, 0, "The repository. The sandbox needs a network."},
    OPTIONAL("path", NULL, TEXT, 0, "Where to; default: the last part of the URL."),
    OPTIONAL("branch", NULL, TEXT, 0, "A branch or tag."),
    OPTIONAL("commit_id", NULL, TEXT, 0, "A commit to check out."),
    CREDENTIALS,
    {0},
};
static const struct atoll_tool_arg git_args[] = {REPOSITORY, {0}};
static const struct atoll_tool_arg git_diff_args[] = {
    REPOSITORY,
    OPTIONAL("staged", NULL, FLAG, 0, "What is staged, instead of what is not."),
    OPTIONAL("ref", NULL, TEXT, 0, "A commit or branch to compare with."),
    OPTIONAL("to", NULL, TEXT, 0, "The commit or branch that is compared with ref."),
    FILES("Only these."),
    {0},
};
static const struct atoll_tool_arg git_log_args[] = {
    REPOSITORY,
    OPTIONAL("ref", NULL, TEXT, 0, "A branch, tag, commit or range a..b."),
    OPTIONAL("limit", NULL, WHOLE, 1000, "How many commits; 20 if not given."),
    FILES("Only commits that change these."),
    {0},
};
static const struct atoll_tool_arg git_checkout_args[] = {
    REPOSITORY,
    TEXT("ref", NULL, "A branch, tag or commit."),
    OPTIONAL("create", NULL, FLAG, 0, "Make it, a new branch."),
    {0},
};
static const struct atoll_tool_arg git_add_args[] = {
    REPOSITORY,
    FILES("Paths in the repository."),
    OPTIONAL("all", NULL, FLAG, 0, "All that has changed."),
    {0},
};
static const struct atoll_tool_arg git_commit_args[] = {
    REPOSITORY,
    TEXT("message", NULL, "The message of the commit."),
    OPTIONAL("all", NULL, FLAG, 0, "Stage what has changed first; new files need git_add."),
    FILES("Only these."),
    OPTIONAL("author_name", NULL, TEXT, 0, "As git is configured, if not given."),
    OPTIONAL("author_email", NULL, TEXT, 0, "As git is configured, if not given."),
    {0},
};
static const struct atoll_tool_arg git_pull_args[] = {
    REPOSITORY,
    OPTIONAL("remote", NULL, TEXT, 0, "That of the branch, or origin, if not given."),
    OPTIONAL("branch", NULL, TEXT, 0, "The current one if not given."),
    OPTIONAL("rebase", NULL, FLAG, 0, "Rebase instead of merging."),
    CREDENTIALS,
    {0},
};
static const struct atoll_tool_arg git_push_args[] = {
    REPOSITORY,
    OPTIONAL("remote", NULL, TEXT, 0, "That of the branch, or origin, if not given."),
    OPTIONAL("branch", NULL, TEXT, 0, "The current one if not given."),
    OPTIONAL("set_upstream", NULL, FLAG, 0, "The branch follows that of the server."),
    OPTIONAL("force", NULL, FLAG, 0, "Replace what the server has."),
    CREDENTIALS,
    {0},
};
static const struct atoll_tool_arg task_args[] = {
    {"instruction", NULL, ATOLL_TOOL_TEXT, true, 0, "What the agent is to do."},
    OPTIONAL("agent", NULL, TEXT, 0, "An agent of the registry; default: shell, a script."),
    OPTIONAL("model", NULL, TEXT, 0, "The model of the agent."),
    OPTIONAL("system_prompt", NULL, TEXT, 0, "Added to the agent's own."),
    OPTIONAL("repo", NULL, TEXT, 0, "A repository to clone, and to push the branch to."),
    OPTIONAL("branch", NULL, TEXT, 0, "The new branch; default: from the instruction."),
    OPTIONAL("check", NULL, TEXT, 0, "A command that must succeed afterwards."),
    OPTIONAL("username", NULL, TEXT, 0, "At the server of the repository."),
    OPTIONAL("password", NULL, TEXT, 0, "It is not stored in the sandbox."),
    OPTIONAL("capture", NULL, TEXTS, LIST_MAX,
             "Patterns of files to keep and to return, such as *.js or **/*.json."),
    OPTIONAL("provider", NULL, TEXT, 0, "What makes the sandbox; default: the first that can."),
    OPTIONAL("network", NULL, TEXT, 0,
             "none, or bridge, which reaches the internet; default: the hosts that it needs."),
    OPTIONAL("cleanup", NULL, TEXT, 0,
             "When its sandbox is removed: always, success (if not given) or never."),
    {0},
};

#define SWARM TEXT("swarm", NULL, "The id of the swarm.")
static const struct atoll_tool_arg memory_args[] = {SWARM, {0}};
static const struct atoll_tool_arg remember_args[] = {
    SWARM,
    {"changes", NULL, ATOLL_TOOL_OBJECT, true, 0,
     "Members to set; null removes one, others stay as they are."},
    {0},
};

/* Git runs the filters of .git/config (filter.NAME.clean) for git_status and git_diff: these do not only read. */
const struct atoll_tool atoll_tools[] = {
    {"Bash", "run_command", "Runs a shell command in the sandbox and returns its output.",
     bash_args, false, false, atoll_tool_run_bash, NULL},
    {"BashOutput", "command_output",
     "The output of a background command so far, and whether it runs.", bash_output_args, true,
     false, atoll_tool_run_bash_output, NULL},
    {"KillShell", "kill_command", "Kills a background command and all it started.", kill_shell_args,
     false, false, atoll_tool_run_kill_shell, NULL},
    {"RunCode", "run_code", "Runs code in an interpreter that keeps its variables between calls.",
     code_args, false, false, atoll_tool_run_code, NULL},
    {"Read", "read_file", "Reads a text file, with line numbers.", read_args, true, false,
     atoll_tool_run_read, NULL},
    {"Write", "write_file", "Writes a file.", write_args, false, false, atoll_tool_run_write, NULL},
    {"Edit", "edit_file", "Replaces a text in a file.", edit_args, false, false,
     atoll_tool_run_edit, NULL},
    {"MultiEdit", "edit_file_many", "Makes several edits in one file, all of them or none.",
     multi_edit_args, false, false, atoll_tool_run_edit, NULL},
    {"NotebookEdit", "edit_notebook", "Replaces, inserts or deletes a cell of a Jupyter notebook.",
     notebook_args, false, false, atoll_tool_run_notebook, NULL},
    {"WebFetch", "fetch_url",
     "Fetches a page of the web from inside the sandbox and returns its text.", web_fetch_args,
     true, false, atoll_tool_run_web_fetch, NULL},
    {"Glob", "find_files", "Finds files by a pattern, the last changed first.", glob_args, true,
     false, atoll_tool_run_glob, NULL},
    {"Grep", "search_files", "Searches the contents of files.", grep_args, true, false,
     atoll_tool_run_grep, NULL},
    {"LS", "list_files", "Lists a directory.", ls_args, true, false, atoll_tool_run_ls, NULL},
    {NULL, "sandbox_create", "Makes a new sandbox and returns its id.", create_args, false, true,
     atoll_tool_run_create, NULL},
    {NULL, "sandbox_list", "Lists your sandboxes.", no_args, true, true, atoll_tool_run_list, NULL},
    {NULL, "sandbox_info", "What a sandbox is, its state and limits.", no_args, true, false,
     atoll_tool_run_info, NULL},
    {NULL, "sandbox_stop", "Ends a sandbox; its files are gone.", no_args, false, false,
     atoll_tool_run_destroy, NULL},
    {NULL, "preview_url", "A URL for a server that listens on a port in the sandbox.", preview_args,
     false, false, atoll_tool_run_preview, NULL},
    {NULL, "sandbox_snapshot", "Keeps the files of a sandbox as a template.", snapshot_args, false,
     false, atoll_tool_run_snapshot, NULL},
    {NULL, "sandbox_fork", "Makes copies of a sandbox.", fork_args, false, false,
     atoll_tool_run_fork, NULL},
    {NULL, "sandbox_restore", "Brings the files of a sandbox back to a snapshot.", restore_args,
     false, false, atoll_tool_run_restore, NULL},
    {NULL, "get_file_info", "What a file or directory is: type, size, mode, owner, time.",
     path_args, true, false, atoll_tool_run_file_info, NULL},
    {NULL, "create_folder", "Makes a directory, and those above it.", path_args, false, false,
     atoll_tool_run_create_folder, NULL},
    {NULL, "move_file", "Moves or renames a file or directory.", move_args, false, false,
     atoll_tool_run_move_file, NULL},
    {NULL, "delete_file", "Deletes a file or directory.", delete_args, false, false,
     atoll_tool_run_delete_file, NULL},
    {NULL, "upload_file", "Writes a file with any bytes.", upload_args, false, false,
     atoll_tool_run_upload_file, NULL},
    {NULL, "download_file", "All of a file with any bytes: text, or base64 of what is no text.",
     path_args, true, false, atoll_tool_run_download_file, NULL},
    {NULL, "git_clone", "Clones a repository into the sandbox.", git_clone_args, false, false,
     atoll_tool_run_git, NULL},
    {NULL, "git_status", "The branch, and the files that have changed.", git_args, false, false,
     atoll_tool_run_git, NULL},
    {NULL, "git_diff", "What has changed since it was staged, or between two commits.",
     git_diff_args, false, false, atoll_tool_run_git, NULL},
    {NULL, "git_log", "Commits, the newest first.", git_log_args, true, false, atoll_tool_run_git,
     NULL},
    {NULL, "git_branches", "Branches, and which one is checked out.", git_args, true, false,
     atoll_tool_run_git, NULL},
    {NULL, "git_checkout", "Checks out a branch or commit.", git_checkout_args, false, false,
     atoll_tool_run_git, NULL},
    {NULL, "git_add", "Stages files for the next commit.", git_add_args, false, false,
     atoll_tool_run_git, NULL},
    {NULL, "git_commit", "Makes a commit.", git_commit_args, false, false, atoll_tool_run_git,
     NULL},
    {NULL, "git_pull", "Fetches and merges what the server has. The sandbox needs a network.",
     git_pull_args, false, false, atoll_tool_run_git, NULL},
    {NULL, "git_push", "Sends commits to the server. The sandbox needs a network.", git_push_args,
     false, false, atoll_tool_run_git, NULL},
    {NULL, "task_run",
     "Lets an agent work on an instruction in a sandbox of its own, and waits for its result.",
     task_args, false, true, atoll_tool_run_task, NULL},
    {NULL, "swarm_memory_get", "The memory that the agents of a swarm share, an object.",
     memory_args, true, true, atoll_tool_run_memory, NULL},
    {NULL, "swarm_memory_set", "Changes the memory that the agents of a swarm share.",
     remember_args, false, true, atoll_tool_run_remember, NULL},
    {0},
};

/* Schemas. */

static json_t *schema_of(enum atoll_tool_arg_type type)
{
    switch (type) {
    case ATOLL_TOOL_TEXT:
        return json_pack("{s:s}", "type", "string");
    case ATOLL_TOOL_WHOLE:
        return json_pack("{s:s, s:i}", "type", "integer", "minimum", 0);
    case ATOLL_TOOL_FLAG:
        return json_pack("{s:s}", "type", "boolean");
    case ATOLL_TOOL_TEXTS:
        return json_pack("{s:s, s:{s:s}}", "type", "array", "items", "type", "string");
    case ATOLL_TOOL_ENV:
        return json_pack("{s:s, s:{s:s}}", "type", "object", "additionalProperties", "type",
                         "string");
    case ATOLL_TOOL_OBJECT:
        return json_pack("{s:s}", "type", "object");
    case ATOLL_TOOL_EDITS:
        return json_pack("{s:s, s:i, s:{s:s, s:{s:{s:s}, s:{s:s}, s:{s:s}}, s:[s,s], s:b}}", "type",
                         "array", "minItems", 1, "items", "type", "object", "properties",
                         "old_string", "type", "string", "new_string", "type", "string",
                         "replace_all", "type", "boolean", "required", "old_string", "new_string",
                         "additionalProperties", 0);
    }
    return NULL;
}

static const char *name_of(const struct atoll_tool_arg *arg, bool mcp)
{
    return mcp && arg->mcp_name ? arg->mcp_name : arg->name;
}

static int add_property(json_t *properties, json_t *required, const struct atoll_tool_arg *arg,
                        bool mcp)
{
    json_t *one = schema_of(arg->type);

    if (!one || json_object_set_new(one, "description", json_string(arg->about)) < 0 ||
        (arg->max > 0 &&
         json_object_set_new(one, "maximum", json_integer((json_int_t)arg->max)) < 0)) {
        json_decref(one);
        return -ENOMEM;
    }
    if (json_object_set_new(properties, name_of(arg, mcp), one) < 0)
        return -ENOMEM;
    return arg->required ? json_array_append_new(required, json_string(name_of(arg, mcp))) : 0;
}

static const struct atoll_tool_arg sandbox_arg = {
    .name = "sandbox",
    .type = ATOLL_TOOL_TEXT,
    .about = "Id or name of the sandbox. If not given, the one of this session, which is made "
             "with the first call that needs it.",
};

/* The one of the registry, with "sandbox". */
static json_t *registered_schema(const struct atoll_tool *tool, bool mcp)
{
    json_t *schema = atoll_tool_registered_schema(tool);
    json_t *required = json_array();

    if (schema && required && mcp &&
        add_property(json_object_get(schema, "properties"), required, &sandbox_arg, mcp) < 0) {
        json_decref(schema);
        schema = NULL;
    }
    json_decref(required);
    return schema;
}

json_t *atoll_tool_schema(const struct atoll_tool *tool, bool mcp)
{
    json_t *properties, *required, *schema;
    int r;

    if (tool->object)
        return registered_schema(tool, mcp);
    properties = json_object();
    required = json_array();
    r = properties && required ? 0 : -ENOMEM;
    for (const struct atoll_tool_arg *arg = tool->args; r == 0 && arg->name; arg++)
        r = add_property(properties, required, arg, mcp);
    if (r == 0 && mcp && !tool->without_sandbox)
        r = add_property(properties, required, &sandbox_arg, mcp);
    schema = r < 0 ? NULL
                   : json_pack("{s:s, s:O, s:O, s:b}", "type", "object", "properties", properties,
                               "required", required, "additionalProperties", 0);
    json_decref(properties);
    json_decref(required);
    return schema;
}

/* Checking. */

static bool are_texts(const json_t *values)
{
    for (size_t i = 0; i < json_array_size(values); i++)
        if (!json_is_string(json_array_get(values, i)))
            return false;
    return json_is_array(values) && json_array_size(values) <= LIST_MAX;
}

static bool are_variables(const json_t *values)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)values, name, value)
    {
        if (!json_is_string(value) || !*name || strchr(name, '='))
            return false;
    }
    return json_is_object(values);
}

static bool is_edit(const json_t *edit)
{
    const json_t *all = json_object_get(edit, "replace_all");
    size_t known = 2 + (all != NULL);

    return json_is_string(json_object_get(edit, "old_string")) &&
           json_is_string(json_object_get(edit, "new_string")) && (!all || json_is_boolean(all)) &&
           json_object_size(edit) == known;
}

static bool are_edits(const json_t *values)
{
    for (size_t i = 0; i < json_array_size(values); i++)
        if (!is_edit(json_array_get(values, i)))
            return false;
    return json_array_size(values) > 0 && json_array_size(values) <= LIST_MAX;
}

static bool is_whole(const json_t *value, uint64_t max)
{
    double number = json_number_value(value);

    return json_is_number(value) && number >= 0 && number <= (max ? (double)max : 9e15) &&
           floor(number) == number;
}

/* What the value must be; NULL: it is. */
static const char *fault_of(const struct atoll_tool_arg *arg, const json_t *value)
{
    switch (arg->type) {
    case ATOLL_TOOL_TEXT:
        return json_is_string(value) ? NULL : "a string";
    case ATOLL_TOOL_WHOLE:
        return is_whole(value, arg->max) ? NULL : "a whole number from 0";
    case ATOLL_TOOL_FLAG:
        return json_is_boolean(value) ? NULL : "true or false";
    case ATOLL_TOOL_TEXTS:
        return are_texts(value) ? NULL : "an array of at most 100 strings";
    case ATOLL_TOOL_ENV:
        return are_variables(value) ? NULL : "an object of strings";
    case ATOLL_TOOL_OBJECT:
        return json_is_object(value) ? NULL : "an object";
    case ATOLL_TOOL_EDITS:
        return are_edits(value) ? NULL
                                : "an array of 1 to 100 {old_string, new_string, replace_all}";
    }
    return NULL;
}

static int refuse(struct atoll_error *err, const char *name, const char *what, uint64_t max)
{
    if (max > 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s must be %s to %llu", name,
                          what, (unsigned long long)max);
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s must be %s", name, what);
}

/* Moves the argument to the name of the table. */
static int check_arg(const struct atoll_tool_arg *arg, bool mcp, json_t *args, json_t *checked,
                     struct atoll_error *err)
{
    const char *name = name_of(arg, mcp);
    json_t *value = json_object_get(args, name);
    const char *fault;

    if (!value || (json_is_null(value) && !arg->required)) {
        (void)json_object_del(args, name);
        return arg->required ? atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                                          "the argument %s is missing: %s", name, arg->about)
                             : 0;
    }
    fault = fault_of(arg, value);
    if (fault)
        return refuse(err, name, fault, arg->type == ATOLL_TOOL_WHOLE ? arg->max : 0);
    if (json_object_set(checked, arg->name, value) < 0)
        return atoll_fail_errno(err, ENOMEM, "arguments");
    (void)json_object_del(args, name);
    return 0;
}

static int check_registered(const struct atoll_tool *tool, bool mcp, json_t *args,
                            struct atoll_error *err)
{
    json_t *checked = json_object();
    int r = checked ? 0 : atoll_fail_errno(err, ENOMEM, "arguments");

    if (r == 0 && mcp)
        r = check_arg(&sandbox_arg, mcp, args, checked, err);
    if (r == 0)
        r = atoll_tool_registered_check(tool, args, err);
    if (r == 0 && json_object_update(args, checked) < 0)
        r = atoll_fail_errno(err, ENOMEM, "arguments");
    json_decref(checked);
    return r;
}

int atoll_tool_check(const struct atoll_tool *tool, bool mcp, json_t *args, struct atoll_error *err)
{
    json_t *checked;
    const char *left;
    int r;

    if (tool->object)
        return check_registered(tool, mcp, args, err);
    checked = json_object();
    r = checked ? 0 : atoll_fail_errno(err, ENOMEM, "arguments");
    for (const struct atoll_tool_arg *arg = tool->args; r == 0 && arg->name; arg++)
        r = check_arg(arg, mcp, args, checked, err);
    if (r == 0 && mcp && !tool->without_sandbox)
        r = check_arg(&sandbox_arg, mcp, args, checked, err);
    left = r == 0 ? json_object_iter_key(json_object_iter(args)) : NULL;
    if (left)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "there is no argument %.64s", left);
    if (r == 0 && json_object_update(args, checked) < 0)
        r = atoll_fail_errno(err, ENOMEM, "arguments");
    json_decref(checked);
    return r;
}

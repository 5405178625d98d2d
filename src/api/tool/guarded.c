#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/tool/tool_internal.h"
#include "git/git.h"
#include "guard/guard.h"

/*
 * Calls of tools as the guard sees them (guard/guard.h): what they run, and which file they are about.
 */

static int check(void *arg, json_t *args, struct atoll_error *err)
{
    const struct atoll_tool_call *call = arg;

    return atoll_tool_check(call->tool, false, args, err);
}

static const char *text_of(const json_t *args, const char *name)
{
    return json_string_value(json_object_get(args, name));
}

/* Code in the language of a shell is commands. */
static const char *command_of(const struct atoll_tool_call *call, const json_t *args)
{
    const char *language = text_of(args, "language");

    if (call->tool->run == atoll_tool_run_bash)
        return text_of(args, "command");
    return language && (strcmp(language, "bash") == 0 || strcmp(language, "sh") == 0)
               ? text_of(args, "code")
               : NULL;
}

/* As the agent does it (agent/path.c): relative paths begin where commands do, and "~" is the home. git and grep have
 * arguments instead, in which "~" is a name. */
static int make_absolute(const struct atoll_tool_call *call, const char *given,
                         char out[static ATOLL_TOOL_PATH_MAX], struct atoll_error *err)
{
    bool is_argument =
        call->tool->run == atoll_tool_run_git || call->tool->run == atoll_tool_run_grep;
    char inside[ATOLL_TOOL_PATH_MAX];
    const char *base = call->start, *rest = inside;
    int r = atoll_tool_path(call, given, inside, err);

    if (r < 0)
        return r;
    if (*inside == '/') {
        base = "";
    } else if (!is_argument && *inside == '~' && (inside[1] == '/' || !inside[1])) {
        base = call->home;
        rest++;
    }
    if (snprintf(out, ATOLL_TOOL_PATH_MAX, "%s%s%s", base, *base && *rest != '/' ? "/" : "",
                 rest) >= ATOLL_TOOL_PATH_MAX)
        return atoll_fail(
            err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG,
            "a path must have at most %d bytes, with the directory in which it begins",
            ATOLL_TOOL_PATH_MAX - 1);
    return 0;
}

/* The file or directory; without such an argument, the tool uses the working directory, or no file at all. */
static int find_path(struct atoll_tool_call *call, const json_t *args,
                     struct atoll_guard_subject *ret, struct atoll_error *err)
{
    static const char *const names[] = {"file_path", "path", "notebook_path"};
    bool moves = call->tool->run == atoll_tool_run_move_file;
    bool is_git = call->tool->run == atoll_tool_run_git;
    const char *given = moves ? text_of(args, "source") : NULL;
    const char *target = moves ? text_of(args, "destination") : NULL;
    char clone[ATOLL_GIT_NAME_MAX];
    int r;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(names) && !given; i++)
        given = text_of(args, names[i]);
    if (!given && !is_git && call->tool->run != atoll_tool_run_glob &&
        call->tool->run != atoll_tool_run_grep)
        return 0;
    if (!given && is_git && strcmp(call->tool->mcp_name, "git_clone") == 0) {
        atoll_git_clone_name(text_of(args, "url"), clone);
        given = clone;
    }
    r = make_absolute(call, given ? given : ".", call->path, err);
    if (r == 0 && target)
        r = make_absolute(call, target, call->target, err);
    ret->path = call->path;
    ret->target = r == 0 && target ? call->target : NULL;
    ret->files = is_git ? json_object_get(args, "files") : NULL;
    ret->with_content = moves || (call->tool->run == atoll_tool_run_delete_file &&
                                  json_is_true(json_object_get(args, "recursive")));
    return r;
}

/* Tools that do to files what others do, too. */
static const char *const *like(const struct atoll_tool_call *call)
{
    static const char *const reads[] = {"Read", "read_file", NULL};
    static const char *const writes[] = {"Write", "write_file", NULL};
    static const char *const both[] = {"Write", "write_file", "Read", "read_file", NULL};
    const struct {
        void (*run)(struct atoll_tool_call *call);
        const char *const *names;
    } rows[] = {
        {atoll_tool_run_download_file, reads},  {atoll_tool_run_upload_file, writes},
        {atoll_tool_run_create_folder, writes}, {atoll_tool_run_delete_file, writes},
        {atoll_tool_run_move_file, both}, /* what was not readable may be so at its new path */
    };

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++)
        if (rows[i].run == call->tool->run)
            return rows[i].names;
    return NULL;
}

static int describe(void *arg, const json_t *args, struct atoll_guard_subject *ret,
                    struct atoll_error *err)
{
    struct atoll_tool_call *call = arg;
    const char *command = command_of(call, args);

    free(call->command);
    call->command = command ? NULL : atoll_tool_as_command(call->tool, args);
    *ret = (struct atoll_guard_subject){
        .tool = call->tool->name,
        .mcp_name = call->tool->mcp_name,
        .command = command ? command : call->command,
        .command_is_made = call->command != NULL,
        .home = call->home,
        .like = like(call),
    };
    return find_path(call, args, ret, err);
}

static void run(struct atoll_tool_call *call)
{
    call->phase = ATOLL_TOOL_RUNS;
    call->tool->run(call);
}

static void decided(void *arg, struct atoll_guard_call *guarded, const struct atoll_error *error)
{
    struct atoll_tool_call *call = arg;

    call->guarded = guarded;
    if (error) {
        atoll_tool_deliver(call, NULL, error);
        return;
    }
    json_decref(call->args);
    call->args = json_incref(atoll_guard_call_args(guarded));
    run(call);
}

static void finished(void *arg, const char *text, const json_t *data, bool is_error, bool changed)
{
    struct atoll_tool_call *call = arg;

    call->guarded = NULL;
    atoll_tool_deliver(call,
                       &(struct atoll_tool_result){.text = text,
                                                   .data = data,
                                                   .is_error = is_error,
                                                   .image = changed ? NULL : call->image},
                       NULL);
}

static const struct atoll_guard_ops ops = {check, describe, decided, finished};

/* The home of the default user, which "~" is in rules and paths; and where its relative paths begin. */
static void find_start(struct atoll_tool_call *call, const struct atoll_sandbox_view *view)
{
    const char *user = view->options.user ? view->options.user : "user";

    if (strcmp(user, "root") == 0)
        (void)snprintf(call->home, sizeof(call->home), "/root");
    else
        (void)snprintf(call->home, sizeof(call->home), "/home/%.64s", user);
    (void)snprintf(call->start, sizeof(call->start), "%s",
                   view->options.workdir ? view->options.workdir : call->home);
}

void atoll_tool_guard(struct atoll_tool_call *call)
{
    struct atoll_sandbox *sandbox =
        *call->sandbox_id ? atoll_engine_find(call->engine, call->sandbox_id) : NULL;
    struct atoll_sandbox_view view = {0};
    struct atoll_guard_call *guarded;

    if (!call->api->config.guard) {
        run(call);
        return;
    }
    if (sandbox)
        atoll_sandbox_get(sandbox, &view);
    find_start(call, &view);
    guarded = atoll_guard_call_begin(
        call->api->config.guard,
        &(struct atoll_guard_request){.tenant = call->tenant,
                                      .sandbox_id = call->sandbox_id,
                                      .sandbox_policy = view.options.tool_policy_json,
                                      .args = call->args,
                                      .ops = &ops,
                                      .arg = call});
    if (guarded)
        call->guarded = guarded;
}

/* The verbs of sessions: environments of the registry that run code and keep its variables. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "base/fd.h"
#include "cli/code.h"
#include "cli/collection.h"
#include "cli/request.h"
#include "client/compose.h"

#define CONFIG_MAX ((size_t)128 * 1024)

static const struct atoll_cli_column columns[] = {
    {.title = "SESSION", .member = "session_id"},
    {.title = "ENVIRONMENT", .member = "environment"},
    {.title = "STATE", .member = "state"},
    {.title = "PROVIDER", .member = "provider"},
    {.title = "SANDBOX", .member = "sandbox_id"},
    {.title = "AGE", .member = "created_at", .form = ATOLL_CLI_FORM_AGE},
    {.title = NULL},
};

static const struct atoll_cli_collection sessions = {"/api/sessions", "sessions", "session", false,
                                                     columns};

struct create_options {
    struct atoll_cli_common common;
    struct atoll_cli_sandbox_options sandbox;
    struct atoll_cli_env env;
    const char *agent_config;
    double timeout_seconds;
};

static const struct atoll_cli_option create_table[] = {
    {.kind = ATOLL_CLI_TABLE,
     .offset = offsetof(struct create_options, sandbox),
     .table = atoll_cli_sandbox_options},
    {.kind = ATOLL_CLI_TABLE,
     .offset = offsetof(struct create_options, env),
     .table = atoll_cli_env_options},
    {"timeout", 0, ATOLL_CLI_TIME, offsetof(struct create_options, timeout_seconds), "TIME",
     "end the session after this time", NULL},
    {"agent-config", 0, ATOLL_CLI_TEXT, offsetof(struct create_options, agent_config), "FILE",
     "keep the JSON object in this file with the session", NULL},
    ATOLL_CLI_COMMON(struct create_options),
    {0},
};

static int add_config(json_t *request, const char *path, struct atoll_error *err)
{
    ATOLL_AUTOFREE char *text = path ? malloc(CONFIG_MAX) : NULL;
    json_t *object;
    int n;

    if (!path)
        return 0;
    n = text ? atoll_fd_read_file(AT_FDCWD, path, text, CONFIG_MAX) : -ENOMEM;
    if (n < 0)
        return atoll_fail(err, atoll_error_kind_of_path_errno(-n), -n, "--agent-config %.200s: %s",
                          path, strerror(-n));
    object = atoll_link_parse_json(text, (size_t)n);
    if (!json_is_object(object)) {
        json_decref(object);
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "--agent-config %.200s: not a JSON object", path);
    }
    return json_object_set_new(request, "agent_config", object) < 0
               ? atoll_fail_errno(err, ENOMEM, "request")
               : 0;
}

static int create(struct atoll_cli *cli, const void *options, int argc ATOLL_UNUSED, char **argv,
                  struct atoll_error *err)
{
    const struct create_options *o = options;
    ATOLL_AUTOJSON json_t *request = json_object();
    ATOLL_AUTOJSON json_t *reply = NULL;
    int r = atoll_compose_text(request, "environment", argv[0], err);

    if (r == 0)
        r = atoll_cli_add_sandbox(request, &o->sandbox, o->timeout_seconds, err);
    if (r == 0)
        r = atoll_cli_add_env(request, &o->env, err);
    if (r == 0)
        r = add_config(request, o->agent_config, err);
    atoll_cli_set_timeout(cli, -1); /* the template may be built first, or an image pulled */
    if (r == 0)
        r = atoll_cli_call(cli, "POST", "/api/sessions", request, &reply, err);
    if (r < 0)
        return r;
    if (cli->json)
        return atoll_cli_print_json(reply, err);
    (void)printf("%s\n", atoll_link_text(reply, "session_id", ""));
    return ATOLL_CLI_OK;
}

const struct atoll_cli_verb atoll_cli_session_create = {
    .name = "session create",
    .args = "[OPTION]... ENVIRONMENT",
    .summary = "start a session in an environment and print its id",
    .help = "`atoll registry ls environments` lists the environments. Limits that are not given\n"
            "are the environment's. The session is a sandbox, too: see `atoll session show`.\n"
            "\n"
            "Examples:\n"
            "  session=$(atoll session create Python3)\n"
            "  atoll session run $session 'x = 42'\n"
            "  atoll session run $session 'x'\n",
    .options = create_table,
    .options_size = sizeof(struct create_options),
    .min_args = 1,
    .max_args = 1,
    .run = create,
};

struct ls_options {
    struct atoll_cli_common common;
    bool ended;
};

static const struct atoll_cli_option ls_table[] = {
    {"all", 'a', ATOLL_CLI_FLAG, offsetof(struct ls_options, ended), NULL,
     "also list ended sessions, as long as their records are kept", NULL},
    ATOLL_CLI_COMMON(struct ls_options),
    {0},
};

int atoll_cli_sessions(struct atoll_cli *cli, bool ended, json_t *items, struct atoll_error *err)
{
    int r = 0;

    if (ended)
        r = atoll_cli_pages(cli, "/api/sessions?state=ended&limit=500", "sessions", items, err);
    return r < 0 ? r : atoll_cli_pages(cli, "/api/sessions?limit=1000", "sessions", items, err);
}

static int list(struct atoll_cli *cli, const void *options, int argc ATOLL_UNUSED,
                char **argv ATOLL_UNUSED, struct atoll_error *err)
{
    const struct ls_options *o = options;
    ATOLL_AUTOJSON json_t *items = json_array();
    ATOLL_AUTOJSON json_t *object = json_pack("{s:O}", "sessions", items);
    int r = atoll_cli_sessions(cli, o->ended, items, err);

    if (r < 0)
        return r;
    if (cli->json)
        return atoll_cli_print_json(object, err);
    atoll_cli_list_print(items, columns);
    return ATOLL_CLI_OK;
}

const struct atoll_cli_verb atoll_cli_session_ls = {
    .name = "session ls",
    .args = "[OPTION]...",
    .summary = "list sessions",
    .help = "",
    .options = ls_table,
    .options_size = sizeof(struct ls_options),
    .run = list,
};

static int show(struct atoll_cli *cli, const void *options ATOLL_UNUSED, int argc ATOLL_UNUSED,
                char **argv, struct atoll_error *err)
{
    struct atoll_link_target target;
    int r = atoll_link_check_id("session", argv[0], err);

    if (r == 0)
        r = atoll_link_target(&target, err, "/api/sessions/%s?ended=true", argv[0]);
    return r < 0 ? r : atoll_cli_show(cli, target.text, err);
}

const struct atoll_cli_verb atoll_cli_session_show = {
    .name = "session show",
    .args = "SESSION",
    .summary = "show all that the daemon knows about a session, as JSON",
    .help = "",
    .min_args = 1,
    .max_args = 1,
    .run = show,
};

struct run_options {
    struct atoll_cli_common common;
    const char *language, *file;
    double timeout_seconds;
};

static const struct atoll_cli_option run_table[] = {
    {"language", 'l', ATOLL_CLI_TEXT, offsetof(struct run_options, language), "LANGUAGE",
     "language of the code (default: the environment's)", NULL},
    {"file", 'f', ATOLL_CLI_TEXT, offsetof(struct run_options, file), "FILE",
     "run the code of a file", NULL},
    {"timeout", 0, ATOLL_CLI_TIME, offsetof(struct run_options, timeout_seconds), "TIME",
     "interrupt the code after this time (default: the environment's)", NULL},
    ATOLL_CLI_COMMON(struct run_options),
    {0},
};

static int run_code(struct atoll_cli *cli, const void *options, int argc, char **argv,
                    struct atoll_error *err)
{
    const struct run_options *o = options;
    ATOLL_AUTOJSON json_t *request = json_object();
    ATOLL_AUTOJSON json_t *reply = NULL;
    struct atoll_link_target target;
    int r = atoll_link_check_id("session", argv[0], err);

    if (r == 0)
        r = atoll_cli_code_add(request, argc > 1 ? argv[1] : NULL, o->file, err);
    if (r == 0)
        r = atoll_compose_text(request, "language", o->language, err);
    if (r == 0 && atoll_compose_number(request, "timeout", o->timeout_seconds) < 0)
        r = atoll_fail_errno(err, ENOMEM, "request");
    if (r == 0)
        r = atoll_link_target(&target, err, "/api/sessions/%s/execute", argv[0]);
    if (r < 0)
        return r;
    atoll_cli_set_timeout(cli, -1);
    r = atoll_cli_call(cli, "POST", target.text, request, &reply, err);
    if (r < 0)
        return r;
    if (!cli->json)
        return atoll_cli_code_print(reply);
    r = atoll_cli_print_json(reply, err);
    return r < 0 ? r : atoll_cli_code_status(json_object_get(reply, "error"));
}

const struct atoll_cli_verb atoll_cli_session_code = {
    .name = "session run",
    .args = "[OPTION]... SESSION [CODE]",
    .summary = "run code in a session",
    .help = "Without CODE, the code is standard input. Variables and files stay for the next\n"
            "call. Output is shown when the code has ended, then the value of the last\n"
            "expression. Exit status as for `atoll code`.\n"
            "\n"
            "Examples:\n"
            "  atoll session run $session 'print(6 * 7)'\n"
            "  atoll session run --language bash $session 'ls -l'\n"
            "  atoll session run $session < job.py\n",
    .options = run_table,
    .options_size = sizeof(struct run_options),
    .min_args = 1,
    .max_args = 2,
    .failure = ATOLL_CLI_BROKEN,
    .run = run_code,
};

const struct atoll_cli_verb atoll_cli_session_rm = {
    .name = "session rm",
    .args = "SESSION...",
    .summary = "end sessions and their sandboxes",
    .help = "",
    .min_args = 1,
    .max_args = -1,
    .collection = &sessions,
    .run = atoll_cli_collection_rm,
};

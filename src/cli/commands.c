/*
 * The verbs attach, wait, kill and top, for commands that already run. Without an EXEC, attach and wait are
 * about the running command that was started last, or the last one if none runs.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "cli/collection.h"
#include "cli/output.h"
#include "cli/print.h"
#include "cli/request.h"
#include "cli/session.h"
#include "cli/words.h"
#include "client/result.h"

static int list_commands(struct atoll_cli *cli, const char *sandbox, json_t **ret_items,
                         struct atoll_error *err)
{
    int r = atoll_link_check_id("sandbox", sandbox, err);
    return r < 0 ? r
                 : atoll_cli_word_items(cli, atoll_cli_word_find("EXEC"), sandbox, ret_items, err);
}

static bool is_running(const json_t *exec)
{
    return strcmp(atoll_link_text(exec, "state", ""), "running") == 0;
}

static bool has_terminal(const json_t *items, const char *exec)
{
    for (size_t i = 0; i < json_array_size(items); i++) {
        const json_t *item = json_array_get(items, i);
        if (strcmp(atoll_link_text(item, "exec_id", ""), exec) == 0)
            return json_is_true(json_object_get(item, "pty"));
    }
    return false;
}

/* Fills the ids of *outcome. FAILED_PRECONDITION if the sandbox has had no command. */
static int choose(struct atoll_cli *cli, int argc, char **argv, struct atoll_cli_outcome *outcome,
                  bool *ret_pty, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *items = NULL;
    const char *exec = argc > 1 ? argv[1] : NULL;
    size_t n;
    int r = list_commands(cli, argv[0], &items, err);

    if (r < 0)
        return r;
    n = json_array_size(items);
    if (!exec && n == 0)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ENOENT,
                          "no command was started in sandbox %s", argv[0]);
    for (size_t i = n; i-- > 0 && !exec;)
        if (is_running(json_array_get(items, i)))
            exec = atoll_link_text(json_array_get(items, i), "exec_id", "");
    if (!exec)
        exec = atoll_link_text(json_array_get(items, n - 1), "exec_id", "");
    r = atoll_link_check_id("exec", exec, err);
    (void)snprintf(outcome->sandbox_id, sizeof(outcome->sandbox_id), "%s", argv[0]);
    (void)snprintf(outcome->exec_id, sizeof(outcome->exec_id), "%s", exec);
    *ret_pty = has_terminal(items, exec);
    return r;
}

struct attach_options {
    struct atoll_cli_common common;
    bool no_input;
};

static const struct atoll_cli_option attach_table[] = {
    {"no-stdin", 0, ATOLL_CLI_FLAG, offsetof(struct attach_options, no_input), NULL,
     "do not connect standard input", NULL},
    ATOLL_CLI_COMMON(struct attach_options),
    {0},
};

static int visit(struct atoll_cli *cli, struct atoll_cli_outcome *outcome, bool pty,
                 struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *request = json_pack("{s:s}", "exec_id", outcome->exec_id);
    struct atoll_link_target target;
    const struct atoll_cli_session_plan plan = {
        .target = target.text,
        .request = request,
        .pty = pty && isatty(STDIN_FILENO),
        .visits = true,
    };
    int r = atoll_link_target(&target, err, "/api/sandboxes/%s/execs/stream", outcome->sandbox_id);

    return r < 0 ? r : atoll_cli_session_run(cli, &plan, outcome, err);
}

static int run_attach(struct atoll_cli *cli, const void *options, int argc, char **argv,
                      struct atoll_error *err)
{
    const struct attach_options *o = options;
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct atoll_cli_outcome outcome;
    bool pty;
    int r;

    (void)sigaction(SIGPIPE, &ignore, NULL);
    atoll_cli_outcome_init(&outcome, cli->json);
    r = choose(cli, argc, argv, &outcome, &pty, err);
    if (r == 0)
        r = o->no_input || atoll_cli_stdin_is_null()
                ? atoll_cli_output_tail(cli, &outcome, 0, true, err)
                : visit(cli, &outcome, pty, err);
    if (r == 0 && outcome.result)
        r = atoll_cli_outcome_report(&outcome, err);
    atoll_cli_outcome_done(&outcome);
    return r;
}

const struct atoll_cli_verb atoll_cli_attach = {
    .name = "attach",
    .args = "[OPTION]... SANDBOX [EXEC]",
    .summary = "connect to a running command: its output from now on, and its input",
    .help = "Without EXEC, to the running command that was started last. Exit status as for\n"
            "`atoll run`. Standard input reaches a command that was started with it (`run -di`);\n"
            "its end does not end the input of the command. Ctrl-C leaves the command running;\n"
            "if it has a terminal, Ctrl-P Ctrl-Q does. `atoll logs` shows earlier output.\n"
            "\n"
            "Example:\n"
            "  id=$(atoll run -dit -- bash); atoll attach $id\n",
    .options = attach_table,
    .options_size = sizeof(struct attach_options),
    .min_args = 1,
    .max_args = 2,
    .failure = ATOLL_CLI_BROKEN,
    .run = run_attach,
};

static int run_wait(struct atoll_cli *cli, const void *options ATOLL_UNUSED, int argc, char **argv,
                    struct atoll_error *err)
{
    struct atoll_cli_outcome outcome;
    bool pty;
    int r;

    atoll_cli_outcome_init(&outcome, false);
    r = choose(cli, argc, argv, &outcome, &pty, err);
    if (r == 0)
        r = atoll_cli_output_wait(cli, &outcome, err);
    if (r == 0 && cli->json)
        r = atoll_cli_print_json(outcome.result, err);
    else if (r == 0)
        (void)printf("%d\n", atoll_result_status(outcome.result));
    atoll_cli_outcome_done(&outcome);
    return r;
}

const struct atoll_cli_verb atoll_cli_wait = {
    .name = "wait",
    .args = "SANDBOX [EXEC]",
    .summary = "wait until a command has ended and print its exit status",
    .help = "Without EXEC, for the running command that was started last, or the last one.\n"
            "\n"
            "Example:\n"
            "  id=$(atoll run -d -- make test); atoll wait $id\n",
    .min_args = 1,
    .max_args = 2,
    .run = run_wait,
};

struct kill_options {
    struct atoll_cli_common common;
    const char *signal;
};

static const struct atoll_cli_option kill_table[] = {
    {"signal", 's', ATOLL_CLI_TEXT, offsetof(struct kill_options, signal), "SIGNAL",
     "signal to send, such as SIGTERM, TERM or 15 (default: SIGKILL)", NULL},
    ATOLL_CLI_COMMON(struct kill_options),
    {0},
};

/* "TERM", "sigterm", "15": the name that the daemon knows. */
static int parse_signal(const char *text, char *out, struct atoll_error *err)
{
    char name[ATOLL_LINK_SIGNAL_MAX];
    ATOLL_AUTOJSON json_t *value = NULL;
    bool plain = (*text >= '0' && *text <= '9') || strncasecmp(text, "SIG", 3) == 0;
    int signo;

    (void)snprintf(name, sizeof(name), "%s%s", plain ? "" : "SIG", text);
    for (char *p = name; *p; p++)
        *p = (char)(*p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p);
    value = json_string(name);
    signo = atoll_link_signal_number(value);
    if (signo <= 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "--signal: unknown signal %.40s",
                          text);
    (void)atoll_link_signal_name(signo, out);
    return 0;
}

struct signalled {
    const char *sandbox, *signal;
};

static int signal_one(struct atoll_cli *cli, const char *exec, const void *arg,
                      struct atoll_error *err)
{
    const struct signalled *to = arg;
    ATOLL_AUTOJSON json_t *body = json_pack("{s:s, s:b}", "signal", to->signal, "tree", 1);
    struct atoll_link_target target;
    int r = atoll_link_check_id("exec", exec, err);

    if (r == 0)
        r = atoll_link_target(&target, err, "/api/sandboxes/%s/execs/%s/signal", to->sandbox, exec);
    return r < 0 ? r : atoll_cli_call(cli, "POST", target.text, body, NULL, err);
}

/* The ids of the running commands, ending with NULL; borrowed from `items`. */
static char **running(const json_t *items)
{
    char **ids = calloc(json_array_size(items) + 1, sizeof(*ids));
    size_t n = 0;

    for (size_t i = 0; ids && i < json_array_size(items); i++) {
        const json_t *item = json_array_get(items, i);
        if (is_running(item))
            ids[n++] = (char *)atoll_link_text(item, "exec_id", "");
    }
    return ids;
}

static int run_kill(struct atoll_cli *cli, const void *options, int argc, char **argv,
                    struct atoll_error *err)
{
    const struct kill_options *o = options;
    ATOLL_AUTOJSON json_t *items = NULL;
    ATOLL_AUTOFREE char **ids = NULL;
    char signal[ATOLL_LINK_SIGNAL_MAX];
    const struct signalled to = {argv[0], signal};
    int r = parse_signal(o->signal ? o->signal : "SIGKILL", signal, err);

    if (r == 0)
        r = list_commands(cli, argv[0], &items, err);
    if (r < 0)
        return r;
    if (argc > 1)
        return atoll_cli_each(cli, argv + 1, "signaled", false, signal_one, &to, err);
    ids = running(items);
    if (!ids)
        return atoll_fail_errno(err, ENOMEM, "ids");
    return atoll_cli_each(cli, ids, "signaled", false, signal_one, &to, err);
}

const struct atoll_cli_verb atoll_cli_kill = {
    .name = "kill",
    .args = "[OPTION]... SANDBOX [EXEC]...",
    .summary = "send a signal to commands and their children",
    .help = "Without EXEC, to all commands that run in the sandbox. Prints the ids of the\n"
            "commands. The sandbox stays; `atoll rm` destroys it.\n"
            "\n"
            "Examples:\n"
            "  atoll kill $id\n"
            "  atoll kill --signal TERM $id $exec\n",
    .options = kill_table,
    .options_size = sizeof(struct kill_options),
    .min_args = 1,
    .max_args = -1,
    .run = run_kill,
};

/* procps and busybox have different options; both know -o. */
static int run_top(struct atoll_cli *cli, const void *options ATOLL_UNUSED, int argc ATOLL_UNUSED,
                   char **argv, struct atoll_error *err)
{
    static char script[] = "ps -e -o user,pid,ppid,time,args 2>/dev/null || "
                           "ps -o user,pid,ppid,time,args";
    static char sh[] = "sh", dash_c[] = "-c";
    char *const command[] = {sh, dash_c, script, NULL};
    const struct atoll_cli_command_options as = {.user = NULL};
    ATOLL_AUTOJSON json_t *request = json_object();
    int r = atoll_link_check_id("sandbox", argv[0], err);

    if (r == 0)
        r = atoll_cli_add_command(request, &as, command, err);
    return r < 0 ? r : atoll_cli_session_attach(cli, argv[0], request, false, false, err);
}

const struct atoll_cli_verb atoll_cli_top = {
    .name = "top",
    .args = "SANDBOX",
    .summary = "list the processes of a sandbox",
    .help = "Runs ps in the sandbox, so its image must have it. `atoll stats` shows how much a\n"
            "sandbox uses, `atoll logs` the commands that were started in it.\n",
    .min_args = 1,
    .max_args = 1,
    .failure = ATOLL_CLI_BROKEN,
    .run = run_top,
};

/*
 * `atoll verify`: attacks sandboxes (tools/verify/). A child process does the work. This process cleans
 * up however the child ends: it removes scratch files and stops a daemon that it started.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include "cli/client.h"
#include "cli/print.h"
#include "cli/verify_place.h"
#include "cli/verify_print.h"
#include "tools/verify/suite.h"

/* Exit statuses beside 0. */
#define FOUND 1
#define IMPOSSIBLE 2

struct options {
    struct atoll_cli_common common;
    struct atoll_cli_list providers, tiers;
    const char *only;
    bool start, list;
};

static const struct atoll_cli_option options_table[] = {
    {"provider", 0, ATOLL_CLI_LIST, offsetof(struct options, providers), "PROVIDER",
     "verify only sandboxes of this provider; may be repeated", NULL},
    {"tier", 0, ATOLL_CLI_LIST, offsetof(struct options, tiers), "NAME",
     "verify only this tier (native, \"native, root inside\", docker, daemon …)", NULL},
    {"only", 0, ATOLL_CLI_TEXT, offsetof(struct options, only), "ID[,ID]",
     "run only these checks; a prefix selects several (seccomp.mode,bomb.)", NULL},
    {"start", 0, ATOLL_CLI_FLAG, offsetof(struct options, start), NULL,
     "start a temporary daemon, even if one answers", NULL},
    {"list", 0, ATOLL_CLI_FLAG, offsetof(struct options, list), NULL, "list all checks and exit",
     NULL},
    ATOLL_CLI_COMMON(struct options),
    {0},
};

static const char *or_null(const char *text)
{
    return *text ? text : NULL;
}

static int print_list(struct atoll_cli *cli, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *list = atoll_suite_list();

    if (!list)
        return atoll_fail_errno(err, ENOMEM, "list");
    if (cli->json)
        return atoll_cli_print_json(list, err);
    atoll_cli_verify_print_list(list);
    return ATOLL_CLI_OK;
}

static void progress(void *arg, const char *what)
{
    (void)arg;
    atoll_cli_say("verifying %s", what);
}

static int conclude(struct atoll_cli *cli, const struct atoll_cli_verify_place *p,
                    const struct atoll_report *report, struct atoll_error *err)
{
    struct atoll_report_counts counts = atoll_report_count(report, NULL);
    int status = counts.found > 0                     ? FOUND
                 : atoll_report_trouble_at(report, 0) ? IMPOSSIBLE
                                                      : ATOLL_CLI_OK;
    ATOLL_AUTOJSON json_t *object = cli->json ? atoll_report_json(report) : NULL;
    int r = 0;

    if (!cli->json) {
        atoll_cli_verify_print(report);
        return status;
    }
    if (!object || json_object_set_new(object, "status", json_integer(status)) < 0 ||
        json_object_set_new(object, "daemon_started", json_boolean(p->started)) < 0)
        r = atoll_fail_errno(err, ENOMEM, "report");
    if (r == 0)
        r = atoll_cli_print_json(object, err);
    return r < 0 ? r : status;
}

static bool is_rootless(struct atoll_client *client)
{
    ATOLL_AUTOJSON json_t *host = NULL;
    struct atoll_error ignored;

    return atoll_link_call(client, "GET", "/api/host", NULL, &host, &ignored) == 0 &&
           strcmp(atoll_link_text(host, "mode", ""), "rootless") == 0;
}

static int verify(struct atoll_cli *cli, const struct options *o,
                  const struct atoll_cli_verify_place *p, struct atoll_client *client,
                  struct atoll_error *err)
{
    static struct atoll_suite suite;
    struct atoll_report *report = atoll_report_new();
    const struct atoll_verify v = {
        .client = client,
        .report = report,
        .scratch = p->scratch,
        .probe = p->probe,
        .only = o->only,
        .state_dir = or_null(p->place.state),
        .socket_path = or_null(p->place.socket),
        .listen = or_null(p->daemon.listen),
        .launcher_env = or_null(p->variable),
        .launcher_key = or_null(p->key),
        .rootless = is_rootless(client),
    };
    const struct atoll_suite_options request = {
        .providers = o->providers.items,
        .provider_count = o->providers.n,
        .tiers = o->tiers.items,
        .tier_count = o->tiers.n,
        .progress = isatty(STDERR_FILENO) ? progress : NULL,
    };
    int r = report ? atoll_suite_run(&suite, &v, &request, err)
                   : atoll_fail_errno(err, ENOMEM, "report");

    if (r == 0)
        r = conclude(cli, p, report, err);
    atoll_report_free(report);
    return r;
}

/* Runs in the child process. Returns its exit status. */
static int work(struct atoll_cli *cli, const struct options *o,
                const struct atoll_cli_verify_place *p, struct atoll_error *err)
{
    struct atoll_client_options at = {.size = sizeof(at), .address = or_null(p->place.socket)};
    struct atoll_client *own = NULL;
    int r = p->started ? atoll_link_open(&at, &own, err) : 0;

    if (r == 0)
        r = verify(cli, o, p, own ? own : cli->client, err);
    atoll_client_close(own);
    if (r < 0) {
        atoll_cli_say("%s", err->text);
        r = IMPOSSIBLE;
    }
    return fflush(stdout) == 0 ? r : IMPOSSIBLE;
}

/* Forks the child and waits for it. The signals of an interrupt (Ctrl-C) reach the child too and end it;
 * this process ignores them, so that it can clean up. */
static int run_worker(struct atoll_cli *cli, const struct options *o,
                      const struct atoll_cli_verify_place *p, struct atoll_error *err)
{
    static const int polite[] = {SIGINT, SIGTERM, SIGHUP};
    int status;
    pid_t pid;

    (void)fflush(NULL);
    pid = fork();
    if (pid < 0)
        return atoll_fail_errno(err, errno, "fork");
    if (pid == 0)
        _exit(work(cli, o, p, err));
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(polite); i++)
        (void)signal(polite[i], SIG_IGN);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return atoll_fail_errno(err, errno, "wait");
    if (WIFSIGNALED(status))
        return atoll_fail(err, ATOLL_ERR_CANCELED, EINTR, "ended by signal %d", WTERMSIG(status));
    return WEXITSTATUS(status);
}

static int run(struct atoll_cli *cli, const void *options, int argc ATOLL_UNUSED,
               char **argv ATOLL_UNUSED, struct atoll_error *err)
{
    const struct options *o = options;
    struct atoll_cli_verify_place place;
    int r;

    if (o->list)
        return print_list(cli, err);
    r = atoll_cli_open(cli, err);
    if (r == 0) {
        r = atoll_cli_verify_open(&place, cli->client, o->start, err);
        if (r == 0)
            r = run_worker(cli, o, &place, err);
        atoll_cli_verify_close(&place);
    }
    return r;
}

const struct atoll_cli_verb atoll_cli_verify = {
    .name = "verify",
    .args = "[OPTION]...",
    .summary = "attack sandboxes on this host and report what fails",
    .help =
        "Creates sandboxes of every provider and attacks the host from inside, as an ordinary\n"
        "user and as root: its files, processes, devices, system calls, networks and secrets,\n"
        "and every limit. Then attacks the daemon through its own interfaces. Each attack also\n"
        "runs outside a sandbox as a control: a promise counts as kept only if the control\n"
        "succeeds. The attacks are harmless where they succeed.\n"
        "\n"
        "If no daemon answers, starts one and stops it at the end. Root can check more than an\n"
        "ordinary user.\n"
        "\n"
        "The exit status is 0 without findings, 1 with findings, 2 if something requested could\n"
        "not be verified. Checks whose control fails too cannot be decided on this host; they\n"
        "are listed and do not affect the status.\n"
        "\n"
        "Examples:\n"
        "  atoll verify\n"
        "  atoll verify --provider docker --json\n"
        "  atoll verify --tier native --only bomb.\n",
    .options = options_table,
    .options_size = sizeof(struct options),
    .failure = IMPOSSIBLE,
    .run = run,
};

/*
 * Reports what this host supports. If a daemon answers, it reports, because it makes the sandboxes;
 * otherwise this program probes the host with its own privileges.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "cli/client.h"
#include "cli/print.h"
#include "sandbox/host.h"

#define REPORT_MAX (256 * 1024)
#define SYSCTL_FIX "sysctl -w "

struct options {
    struct atoll_cli_common common;
    bool sysctl;
};
static const struct atoll_cli_option options_table[] = {
    ATOLL_CLI_COMMON(struct options),
    {"sysctl", 0, ATOLL_CLI_FLAG, offsetof(struct options, sysctl), NULL,
     "print only the sysctls to change, in the format of /etc/sysctl.d", NULL},
    {0},
};

static const struct {
    const char *state, *mark;
    enum atoll_cli_colour colour;
} states[] = {
    {"ok", "✓", ATOLL_CLI_GREEN},
    {"missing", "✗", ATOLL_CLI_RED},
    {"warn", "!", ATOLL_CLI_YELLOW},
    {"info", "·", ATOLL_CLI_DIM},
};

/* Prints the commands of a fix, separated by "; " in `fix`, with sudo where an ordinary user needs it. */
static void print_fix(const char *fix)
{
    static const char *const for_root[] = {"sysctl ", "modprobe ", "apt ", "systemctl "};
    ATOLL_AUTOFREE char *text = strdup(fix);
    char *rest = NULL;

    for (char *one = text ? strtok_r(text, ";", &rest) : NULL; one;
         one = strtok_r(NULL, ";", &rest)) {
        one += strspn(one, " ");
        if (one != text)
            atoll_cli_put_colour(stdout, ATOLL_CLI_DIM, "; ");
        for (size_t i = 0; geteuid() != 0 && i < ATOLL_ARRAY_LEN(for_root); i++)
            if (strncmp(one, for_root[i], strlen(for_root[i])) == 0)
                atoll_cli_put_colour(stdout, ATOLL_CLI_DIM, "sudo ");
        atoll_cli_put_colour(stdout, ATOLL_CLI_DIM, one);
    }
}

static void print_check(const json_t *check, int width)
{
    const char *state = atoll_link_text(check, "state", "info");
    const char *name = atoll_link_text(check, "name", "?");
    const char *fix = atoll_link_text(check, "fix", "");
    size_t i = 0;

    while (i + 1 < ATOLL_ARRAY_LEN(states) && strcmp(states[i].state, state) != 0)
        i++;
    atoll_cli_put_colour(stdout, states[i].colour, states[i].mark);
    (void)fputc(' ', stdout);
    atoll_cli_put(stdout, name);
    (void)printf("%*s", ATOLL_MAX(width - (int)strlen(name), 1), "");
    atoll_cli_put(stdout, atoll_link_text(check, "detail", ""));
    (void)fputc('\n', stdout);
    if (*fix) {
        (void)printf("%*s", width + 2, "");
        atoll_cli_put_colour(stdout, ATOLL_CLI_DIM, "→ ");
        print_fix(fix);
        (void)fputc('\n', stdout);
    }
}

static int name_width(const json_t *checks)
{
    size_t width = 0;

    for (size_t i = 0; i < json_array_size(checks); i++)
        width = ATOLL_MAX(width, strlen(atoll_link_text(json_array_get(checks, i), "name", "?")));
    return (int)ATOLL_MIN(width, (size_t)60) + 2;
}

static int probe_here(json_t **ret_report, struct atoll_error *err)
{
    ATOLL_AUTOFREE struct atoll_host_report *report = malloc(sizeof(*report));
    struct atoll_buf text;
    int r = report ? atoll_host_probe(report, err) : atoll_fail_errno(err, ENOMEM, "report");

    if (r < 0)
        return r;
    atoll_buf_init(&text, REPORT_MAX);
    if (atoll_host_report_json(report, &text) == 0)
        *ret_report = atoll_link_parse_json(atoll_buf_head(&text), atoll_buf_size(&text));
    atoll_buf_done(&text);
    return *ret_report ? 0 : atoll_fail_errno(err, ENOMEM, "report");
}

/* The first item with these members (name, value, …, NULL), or NULL. Borrowed. */
static json_t *find_with(const json_t *list, const char *const *members)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *item = json_array_get(list, i);
        const char *const *m = members;
        while (*m && strcmp(atoll_link_text(item, m[0], ""), m[1]) == 0)
            m += 2;
        if (!*m)
            return item;
    }
    return NULL;
}

/* The host report checked Docker's default socket. If a docker provider is up, which may use another
 * socket, reports that instead. */
static int amend_docker(struct atoll_cli *cli, const json_t *report)
{
    static const char *const named[] = {"name", "Docker", NULL};
    static const char *const up[] = {"kind", "docker", "state", "up", NULL};
    ATOLL_AUTOJSON json_t *reply = NULL;
    json_t *check = find_with(json_object_get(report, "checks"), named);
    const json_t *provider;
    struct atoll_error ignored;

    if (atoll_cli_call(cli, "GET", "/api/providers", NULL, &reply, &ignored) < 0)
        *atoll_link_hint(cli->client) = '\0';
    provider = find_with(json_object_get(reply, "providers"), up);
    if (!check || !provider)
        return 0;
    (void)json_object_del(check, "fix");
    if (json_object_set_new(check, "state", json_string("ok")) < 0)
        return -ENOMEM;
    return json_object_set_new(check, "detail",
                               json_sprintf("provider %s is up: %s",
                                            atoll_link_text(provider, "name", "?"),
                                            atoll_link_text(provider, "detail", "containers")));
}

/* Whether sandboxes with a network have it is known to the daemon only. */
static int add_network(struct atoll_cli *cli, const json_t *report)
{
    ATOLL_AUTOJSON json_t *reply = NULL;
    const json_t *network;
    const char *cause;
    struct atoll_error ignored;

    if (atoll_cli_call(cli, "GET", "/api/health", NULL, &reply, &ignored) < 0)
        *atoll_link_hint(cli->client) = '\0';
    network = json_object_get(reply, "network");
    if (!network) /* an older daemon */
        return 0;
    cause = atoll_link_text(network, "cause", NULL);
    return json_array_append_new(
        json_object_get(report, "checks"),
        json_pack("{ssssss}", "name", "network", "state", cause ? "warn" : "ok", "detail",
                  cause ? cause : "atoll-egress serves sandboxes that have a network"));
}

static int find_report(struct atoll_cli *cli, bool *ret_daemon, json_t **ret_report,
                       struct atoll_error *err)
{
    int r = atoll_cli_call(cli, "GET", "/api/host", NULL, ret_report, err);

    *ret_daemon = r == 0;
    if (r == 0 && (amend_docker(cli, *ret_report) < 0 || add_network(cli, *ret_report) < 0))
        r = atoll_fail_errno(err, ENOMEM, "report");
    if (r == 0 || err->kind != ATOLL_ERR_UNAVAILABLE)
        return r; /* the daemon refused; it may be on another host, so a local probe says nothing */
    *atoll_link_hint(cli->client) = '\0';
    return probe_here(ret_report, err);
}

static void print_report(const struct atoll_cli *cli, const json_t *report, bool daemon)
{
    const json_t *checks = json_object_get(report, "checks");
    int width = name_width(checks);

    if (daemon)
        (void)printf("Report of the daemon at %s (%s, version %s):\n\n",
                     atoll_client_address(cli->client), atoll_link_text(report, "mode", "?"),
                     atoll_link_text(report, "version", "?"));
    else
        (void)printf("No daemon answers at %s. Report for this user (%s):\n\n",
                     atoll_client_address(cli->client), atoll_link_text(report, "mode", "?"));
    for (size_t i = 0; i < json_array_size(checks); i++)
        print_check(json_array_get(checks, i), width);
    (void)fputs("\nThis host supports: ", stdout);
    atoll_cli_put_colour(stdout, ATOLL_CLI_BOLD, atoll_link_text(report, "summary", "?"));
    (void)fputs(".\n", stdout);
}

/* Prints the fixes that are sysctl settings as lines of a sysctl.d file, which survives a reboot. */
static void print_sysctls(const json_t *report)
{
    const json_t *checks = json_object_get(report, "checks");

    for (size_t i = 0; i < json_array_size(checks); i++) {
        const json_t *check = json_array_get(checks, i);
        const char *fix = atoll_link_text(check, "fix", "");
        if (strncmp(fix, SYSCTL_FIX, strlen(SYSCTL_FIX)) != 0 || strpbrk(fix, ",;"))
            continue;
        (void)fputs("# ", stdout);
        atoll_cli_put(stdout, atoll_link_text(check, "detail", ""));
        (void)fputc('\n', stdout);
        atoll_cli_put(stdout, fix + strlen(SYSCTL_FIX));
        (void)fputc('\n', stdout);
    }
}

static int run(struct atoll_cli *cli, const void *options, int argc ATOLL_UNUSED,
               char **argv ATOLL_UNUSED, struct atoll_error *err)
{
    const struct options *o = options;
    ATOLL_AUTOJSON json_t *report = NULL;
    bool daemon;
    int r = find_report(cli, &daemon, &report, err);

    if (r == 0 && cli->json)
        r = atoll_cli_print_json(report, err);
    else if (r == 0 && o->sysctl)
        print_sysctls(report);
    else if (r == 0)
        print_report(cli, report, daemon);
    if (r < 0)
        return r;
    return json_is_true(json_object_get(report, "native")) ? ATOLL_CLI_OK : ATOLL_CLI_FAILED;
}

const struct atoll_cli_verb atoll_cli_doctor = {
    .name = "doctor",
    .args = "[OPTION]...",
    .summary = "show what this host supports, what is missing, and how to fix it",
    .help = "✓ available, ✗ missing, ! works but weaker than it should be, · information.\n"
            "The exit status is 0 if native sandboxes can run here.\n"
            "\n"
            "  atoll doctor --sysctl > /etc/sysctl.d/60-atoll.conf && sysctl --system\n",
    .options = options_table,
    .options_size = sizeof(struct options),
    .run = run,
};

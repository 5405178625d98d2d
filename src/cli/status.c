#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "cli/client.h"
#include "cli/place.h"
#include "cli/print.h"

/* What is known about the daemon. The process is known only if it is on this machine. */
struct status {
    const char *address;
    json_t *health;    /* owned */
    json_t *sandboxes; /* owned; NULL: the daemon refused the list */
    json_t *providers; /* owned; NULL: the daemon refused the list */
    struct atoll_cli_daemon daemon;
    struct atoll_cli_place place;
    bool is_ours;       /* place.state is the daemon's state directory */
    bool started_by_up; /* `atoll up` started the daemon */
};

static void find_process(struct status *s)
{
    struct atoll_cli_daemon noted;
    struct atoll_error ignored;

    if (strstr(s->address, "://") ||
        atoll_cli_place_find(&s->place, NULL, s->address, &ignored) < 0)
        return;
    s->daemon = atoll_cli_daemon_at(s->place.socket);
    s->is_ours = atoll_cli_daemon_owns(&s->daemon, &s->place);
    noted = atoll_cli_place_noted(&s->place);
    s->started_by_up = s->daemon.pid > 0 && noted.pid == s->daemon.pid;
    if (s->started_by_up)
        s->daemon = noted;
}

static int ask(struct atoll_cli *cli, struct status *s, struct atoll_error *err)
{
    struct atoll_error ignored;
    int r = atoll_cli_call(cli, "GET", "/healthz", NULL, &s->health, err);

    if (r < 0)
        return r;
    /* The sandboxes of all tenants, or of our own if the key may not list all. */
    if (atoll_cli_call(cli, "GET", "/api/sandboxes?all=true", NULL, &s->sandboxes, &ignored) < 0 &&
        atoll_cli_call(cli, "GET", "/api/sandboxes", NULL, &s->sandboxes, &ignored) < 0)
        s->sandboxes = NULL;
    if (atoll_cli_call(cli, "GET", "/api/providers", NULL, &s->providers, &ignored) < 0)
        s->providers = NULL;
    find_process(s);
    return 0;
}

static size_t count_sandboxes(const struct status *s, const char *state)
{
    const json_t *all = json_object_get(s->sandboxes, "sandboxes");
    size_t n = 0;

    for (size_t i = 0; i < json_array_size(all); i++)
        if (!state || strcmp(atoll_link_text(json_array_get(all, i), "state", ""), state) == 0)
            n++;
    return n;
}

static int print_json(const struct status *s, struct atoll_error *err)
{
    double uptime = atoll_cli_daemon_uptime(&s->daemon);
    char key_file[ATOLL_CLI_PATH_MAX + 16];
    ATOLL_AUTOJSON json_t *object = NULL;

    (void)snprintf(key_file, sizeof(key_file), "%s/api-key", s->place.state);
    object = json_pack(
        "{s:b, s:s, s:s?, s:o*, s:o*, s:o*, s:b, s:s*, s:s*, s:s*, s:s*}", "running", 1, "address",
        s->address, "version", atoll_link_text(s->health, "version", NULL), "pid",
        s->daemon.pid > 0 ? json_integer(s->daemon.pid) : NULL, "uptime_seconds",
        uptime >= 0 ? json_real(uptime) : NULL, "sandboxes",
        s->sandboxes ? json_integer((json_int_t)count_sandboxes(s, NULL)) : NULL, "started_by_up",
        (int)s->started_by_up, "state", s->is_ours ? s->place.state : NULL, "key_file",
        s->is_ours && access(key_file, F_OK) == 0 ? key_file : NULL, "listen",
        *s->daemon.listen ? s->daemon.listen : NULL, "providers_file",
        atoll_link_text(s->providers, "file", NULL));
    if (!object)
        return atoll_fail_errno(err, ENOMEM, "answer");
    return atoll_cli_print_json(object, err);
}

static void print_sandboxes(const struct status *s)
{
    static const char *const states[] = {"running", "paused", "stopped", "failed"};

    if (!s->sandboxes)
        return;
    (void)printf("  sandboxes  %zu", count_sandboxes(s, NULL));
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(states); i++)
        if (count_sandboxes(s, states[i]) > 0)
            (void)printf(", %zu %s", count_sandboxes(s, states[i]), states[i]);
    (void)fputc('\n', stdout);
}

static void print_words(const struct status *s)
{
    const char *providers = atoll_link_text(s->providers, "file", NULL);
    char age[16], key_file[ATOLL_CLI_PATH_MAX + 16];

    (void)fputs("atolld ", stdout);
    atoll_cli_put(stdout, atoll_link_text(s->health, "version", "?"));
    (void)printf(" answers at %s\n", s->address);
    if (s->daemon.pid > 0)
        (void)printf("  process    %d, up %s%s\n", (int)s->daemon.pid,
                     atoll_cli_format_age(atoll_cli_daemon_uptime(&s->daemon), age),
                     s->started_by_up ? ", started by `atoll up`" : "");
    print_sandboxes(s);
    if (*s->daemon.listen)
        (void)printf("  HTTP       http://%s\n", s->daemon.listen);
    if (providers) {
        (void)fputs("  providers  ", stdout);
        atoll_cli_put(stdout, providers);
        (void)fputc('\n', stdout);
    }
    if (!s->is_ours)
        return;
    (void)printf("  state      %s\n", s->place.state);
    (void)snprintf(key_file, sizeof(key_file), "%s/api-key", s->place.state);
    if (access(key_file, F_OK) == 0)
        (void)printf("  key        %s\n", key_file);
}

static int not_running(struct atoll_cli *cli, const struct status *s, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *object = json_pack("{s:b, s:s}", "running", 0, "address", s->address);
    int r = 0;

    if (cli->json)
        r = atoll_cli_print_json(object, err);
    else
        (void)printf("no daemon answers at %s; start one with: atoll up\n", s->address);
    return r < 0 ? r : ATOLL_CLI_NOT_RUNNING;
}

static int run(struct atoll_cli *cli, const void *options ATOLL_UNUSED, int argc ATOLL_UNUSED,
               char **argv ATOLL_UNUSED, struct atoll_error *err)
{
    struct status s = {.health = NULL};
    int r = atoll_cli_open(cli, err);

    if (r < 0)
        return r;
    s.address = atoll_client_address(cli->client);
    r = ask(cli, &s, err);
    if (r < 0 && err->kind == ATOLL_ERR_UNAVAILABLE)
        r = not_running(cli, &s, err);
    else if (r == 0 && cli->json)
        r = print_json(&s, err);
    else if (r == 0)
        print_words(&s);
    json_decref(s.health);
    json_decref(s.sandboxes);
    json_decref(s.providers);
    return r;
}

const struct atoll_cli_verb atoll_cli_status = {
    .name = "status",
    .args = "",
    .summary = "show whether a daemon answers, and its state",
    .help = "The exit status is 0 if a daemon answers, 3 if none does.\n",
    .run = run,
};

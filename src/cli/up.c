/*
 * `atoll up`: starts a daemon in the background. A note in its state directory (place.h) records what was
 * started, for `atoll down` and `atoll status`.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "cli/client.h"
#include "cli/launch.h"
#include "cli/place.h"
#include "cli/print.h"

/* The second if the first is taken, then any. */
#define DEFAULT_PORT 8000
#define OTHER_PORT 7070

struct options {
    struct atoll_cli_common common;
    const char *state, *socket_path, *listen;
    bool no_listen;
};

static const struct atoll_cli_option options_table[] = {
    {"state", 0, ATOLL_CLI_TEXT, offsetof(struct options, state), "DIR",
     "state directory of the daemon", NULL},
    {"socket", 0, ATOLL_CLI_TEXT, offsetof(struct options, socket_path), "PATH",
     "unix socket to serve", NULL},
    {"listen", 0, ATOLL_CLI_TEXT, offsetof(struct options, listen), "HOST:PORT",
     "TCP address to serve (default: 127.0.0.1:8000, or another port if taken)", NULL},
    {"no-listen", 0, ATOLL_CLI_FLAG, offsetof(struct options, no_listen), NULL,
     "serve only the unix socket", NULL},
    ATOLL_CLI_COMMON(struct options),
    {0},
};

static int choose_listen(const struct options *o, char *out, size_t cap, struct atoll_error *err)
{
    const char *wanted = o->listen ? o->listen : getenv("ATOLL_LISTEN");
    unsigned port;

    out[0] = '\0';
    if (o->no_listen)
        return 0;
    if (wanted && *wanted) {
        const char *colon = strrchr(wanted, ':');
        if (!colon || strcmp(colon, ":0") == 0 || strlen(wanted) >= cap)
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "--listen %.80s: name a host and a port, such as 127.0.0.1:8000",
                              wanted);
        (void)snprintf(out, cap, "%s", wanted);
        return 0;
    }
    port = atoll_cli_free_port(DEFAULT_PORT);
    if (port == 0)
        port = atoll_cli_free_port(OTHER_PORT);
    if (port == 0)
        port = atoll_cli_free_port(0);
    if (port == 0)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EADDRINUSE,
                          "no TCP port is available; use --no-listen");
    (void)snprintf(out, cap, "127.0.0.1:%u", port);
    return 0;
}

static int print_json(const struct atoll_cli_place *place, const struct atoll_cli_daemon *daemon,
                      bool started, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *object =
        json_pack("{s:b, s:i, s:s, s:s, s:s, s:s}", "started", (int)started, "pid",
                  (int)daemon->pid, "socket", place->socket, "state", place->state, "log",
                  place->log, "listen", daemon->listen);
    char url[300], key_file[ATOLL_CLI_PATH_MAX + 16];

    (void)snprintf(url, sizeof(url), "http://%s", daemon->listen);
    (void)snprintf(key_file, sizeof(key_file), "%s/api-key", place->state);
    if (*daemon->listen && (json_object_set_new(object, "url", json_string(url)) < 0 ||
                            json_object_set_new(object, "key_file", json_string(key_file)) < 0))
        return atoll_fail_errno(err, ENOMEM, "answer");
    return atoll_cli_print_json(object, err);
}

/* Whether `atoll down` without options finds the state directory. */
static bool is_default(const struct atoll_cli_place *place)
{
    struct atoll_cli_place found;
    struct atoll_error ignored;

    return atoll_cli_place_find(&found, NULL, NULL, &ignored) == 0 &&
           strcmp(found.state, place->state) == 0;
}

static void print_words(const struct atoll_cli_place *place, const struct atoll_cli_daemon *daemon,
                        bool started)
{
    (void)printf("atolld %s (pid %d)\n  socket  %s\n", started ? "started" : "is running",
                 (int)daemon->pid, place->socket);
    if (*daemon->listen)
        (void)printf("  HTTP    http://%s, key in %s/api-key\n", daemon->listen, place->state);
    (void)printf("  log     %s\n\nIn your shell:\n  export ATOLL_SOCKET=%s\n", place->log,
                 place->socket);
    if (*daemon->listen)
        (void)printf("With E2B's SDKs:\n"
                     "  export E2B_API_URL=http://%s E2B_SANDBOX_URL=http://%s\n"
                     "  export E2B_API_KEY=$(atoll key create --e2b)\n",
                     daemon->listen, daemon->listen);
    (void)printf("Try: atoll run -- echo hello\nStop it with: atoll down%s%s\n",
                 is_default(place) ? "" : " --state ", is_default(place) ? "" : place->state);
}

static int tell(struct atoll_cli *cli, const struct atoll_cli_place *place,
                const struct atoll_cli_daemon *daemon, bool started, struct atoll_error *err)
{
    if (cli->json)
        return print_json(place, daemon, started, err);
    print_words(place, daemon, started);
    return ATOLL_CLI_OK;
}

static int start_and_tell(struct atoll_cli *cli, const struct options *o,
                          const struct atoll_cli_place *place, struct atoll_client *client,
                          char **more, struct atoll_error *err)
{
    struct atoll_cli_daemon daemon = {.pid = 0};
    int r = choose_listen(o, daemon.listen, sizeof(daemon.listen), err);

    if (r == 0)
        r = atoll_cli_launch(place, daemon.listen, more, &daemon.pid, err);
    if (r == 0)
        r = atoll_cli_launch_wait(client, place, daemon.pid, err);
    if (r == 0)
        r = atoll_cli_place_note(place, &daemon, err);
    return r < 0 ? r : tell(cli, place, &daemon, true, err);
}

/* Ends a daemon of an earlier build, which may not understand requests of this program, and leaves its
 * sandboxes to the next one. */
static int replace_outdated(const struct atoll_cli_place *place, struct atoll_error *err)
{
    struct atoll_cli_daemon noted = atoll_cli_place_noted(place);

    if (noted.pid == 0 || !atoll_cli_daemon_is_outdated(&noted))
        return 0;
    atoll_cli_say("atolld (pid %d) is from an earlier build; replacing it", (int)noted.pid);
    return atoll_cli_daemon_stop(&noted, SIGKILL, err);
}

static int run(struct atoll_cli *cli, const void *options, int argc, char **argv,
               struct atoll_error *err)
{
    const struct options *o = options;
    struct atoll_cli_place place;
    struct atoll_client_options at = {.size = sizeof(at), .address = place.socket};
    struct atoll_client *client = NULL;
    struct atoll_cli_daemon found, noted;
    int r = atoll_cli_place_find(&place, o->state, o->socket_path, err);

    if (r == 0 && o->no_listen && o->listen)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "--listen and --no-listen exclude each other");
    if (r == 0 && argc > ATOLL_CLI_LAUNCH_ARGS_MAX)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG, "too many options for atolld");
    if (r == 0)
        r = replace_outdated(&place, err);
    if (r == 0)
        r = atoll_link_open(&at, &client, err);
    if (r < 0)
        return r;
    if (atoll_cli_answers(client, "/healthz")) {
        found = atoll_cli_daemon_at(place.socket);
        noted = atoll_cli_place_noted(&place);
        if (argc > 0 || (o->listen && strcmp(o->listen, noted.listen) != 0))
            atoll_cli_say("the daemon already runs, with its earlier options; run `atoll down` "
                          "first to change them");
        r = tell(cli, &place, noted.pid == found.pid ? &noted : &found, false, err);
    } else {
        r = start_and_tell(cli, o, &place, client, argv, err);
    }
    atoll_client_close(client);
    return r;
}

const struct atoll_cli_verb atoll_cli_up = {
    .name = "up",
    .args = "[OPTION]... [-- ATOLLD-OPTION...]",
    .summary = "start a daemon in the background, unless one answers",
    .help = "Waits until the daemon is ready and prints its addresses. Root starts the system's\n"
            "daemon, another user a daemon of their own. Options after -- are passed to atolld.\n"
            "\n"
            "Examples:\n"
            "  atoll up\n"
            "  atoll up --listen 127.0.0.1:8000 -- --pool 4\n",
    .options = options_table,
    .options_size = sizeof(struct options),
    .max_args = -1,
    .command_arg = 1,
    .run = run,
};

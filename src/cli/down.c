#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include "cli/client.h"
#include "cli/place.h"

struct options {
    struct atoll_cli_common common;
    const char *state, *socket_path;
    bool force;
};

static const struct atoll_cli_option options_table[] = {
    {"state", 0, ATOLL_CLI_TEXT, offsetof(struct options, state), "DIR",
     "state directory of the daemon, as given to `atoll up`", NULL},
    {"socket", 0, ATOLL_CLI_TEXT, offsetof(struct options, socket_path), "PATH",
     "socket of the daemon, as given to `atoll up`", NULL},
    {"force", 'f', ATOLL_CLI_FLAG, offsetof(struct options, force), NULL,
     "also stop a daemon that `atoll up` did not start", NULL},
    ATOLL_CLI_COMMON(struct options),
    {0},
};

static int tell(struct atoll_cli *cli, pid_t pid, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *object = json_pack("{s:b, s:i}", "stopped", pid > 0, "pid", (int)pid);

    if (cli->json)
        return atoll_cli_print_json(object, err);
    if (pid > 0)
        (void)printf("atolld (pid %d) stopped\n", (int)pid);
    else
        (void)puts("no daemon is running");
    return ATOLL_CLI_OK;
}

static int run(struct atoll_cli *cli, const void *options, int argc ATOLL_UNUSED,
               char **argv ATOLL_UNUSED, struct atoll_error *err)
{
    const struct options *o = options;
    struct atoll_cli_place place;
    struct atoll_cli_daemon daemon;
    int r = atoll_cli_place_find(&place, o->state, o->socket_path, err);

    if (r < 0)
        return r;
    daemon = atoll_cli_place_daemon(&place);
    if (daemon.pid > 0 && !daemon.started_by_up && !o->force)
        return atoll_fail(
            err, ATOLL_ERR_FAILED_PRECONDITION, EPERM,
            "atolld (pid %d) at %.200s was not started by `atoll up`: stop it where it "
            "was started, or use --force",
            (int)daemon.pid, place.socket);
    if (daemon.pid > 0)
        r = atoll_cli_daemon_stop(&daemon, SIGTERM, err);
    if (r < 0)
        return r;
    (void)unlink(place.note);
    return tell(cli, daemon.pid, err);
}

const struct atoll_cli_verb atoll_cli_down = {
    .name = "down",
    .args = "[OPTION]...",
    .summary = "stop the daemon that `atoll up` started",
    .help = "Destroys its sandboxes. Persistent sandboxes are stopped and keep their disks.\n"
            "`atoll reload` replaces the daemon and ends nothing.\n",
    .options = options_table,
    .options_size = sizeof(struct options),
    .run = run,
};

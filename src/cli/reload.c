/*
 * `atoll reload`: replaces the daemon by the one that is installed beside this program. The old one is
 * killed: a daemon that is asked to stop destroys its sandboxes, and the sandboxes of one that was killed
 * are taken over by the next.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "base/fd.h"
#include "cli/client.h"
#include "cli/launch.h"
#include "cli/place.h"

#define STRINGS_MAX_BYTES (256 * 1024)

struct options {
    struct atoll_cli_common common;
    const char *state, *socket_path;
};

static const struct atoll_cli_option options_table[] = {
    {"state", 0, ATOLL_CLI_TEXT, offsetof(struct options, state), "DIR",
     "state directory of the daemon, as given to `atoll up`", NULL},
    {"socket", 0, ATOLL_CLI_TEXT, offsetof(struct options, socket_path), "PATH",
     "socket of the daemon, as given to `atoll up`", NULL},
    ATOLL_CLI_COMMON(struct options),
    {0},
};

/* What the next daemon inherits from the one before. Arrays end with NULL; all is owned. */
struct legacy {
    char *texts[2];
    char **args, **variables;
    int cwd_fd;
};

/* Reads the strings of a file such as /proc/PID/environ. */
static int read_strings(pid_t pid, const char *name, char **ret_text, char ***ret_list)
{
    char path[40], *text = malloc(STRINGS_MAX_BYTES);
    size_t count = 0, at = 0;
    int n;

    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    *ret_text = text;
    n = text ? atoll_fd_read_file(AT_FDCWD, path, text, STRINGS_MAX_BYTES) : -ENOMEM;
    if (n < 0)
        return n;
    for (int i = 0; i < n; i++)
        count += text[i] == '\0';
    *ret_list = calloc(count + 1, sizeof(**ret_list));
    for (size_t i = 0; *ret_list && i < count; i++) {
        (*ret_list)[i] = text + at;
        at += strlen(text + at) + 1;
    }
    return !*ret_list ? -ENOMEM : count == 0 && strcmp(name, "cmdline") == 0 ? -ESRCH : 0;
}

static int read_legacy(pid_t pid, struct legacy *ret, struct atoll_error *err)
{
    char path[40];
    int r = read_strings(pid, "cmdline", &ret->texts[0], &ret->args);

    if (r == 0)
        r = read_strings(pid, "environ", &ret->texts[1], &ret->variables);
    (void)snprintf(path, sizeof(path), "/proc/%d/cwd", (int)pid);
    ret->cwd_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (r == 0 && ret->cwd_fd < 0)
        r = -errno;
    if (r < 0)
        return atoll_fail(err, atoll_error_kind_of_path_errno(-r), -r, "atolld (pid %d): %s",
                          (int)pid, strerror(-r));
    return 0;
}

static void legacy_done(struct legacy *legacy)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(legacy->texts); i++)
        free(legacy->texts[i]);
    free(legacy->args);
    free(legacy->variables);
    if (legacy->cwd_fd >= 0)
        (void)close(legacy->cwd_fd);
}

/* Kills the daemon and starts the next with its arguments, variables and working directory. */
static int replace(const struct atoll_cli_place *place, struct atoll_cli_daemon *daemon,
                   struct atoll_error *err)
{
    struct atoll_client_options at = {.size = sizeof(at), .address = place->socket};
    struct legacy legacy = {.cwd_fd = ATOLL_NO_FD};
    struct atoll_client *client = NULL;
    char **ours = environ;
    int r = read_legacy(daemon->pid, &legacy, err);

    if (r == 0)
        r = atoll_link_open(&at, &client, err);
    if (r == 0)
        r = atoll_cli_daemon_stop(daemon, SIGKILL, err);
    if (r == 0 && fchdir(legacy.cwd_fd) < 0)
        r = atoll_fail_errno(err, errno, "working directory of atolld");
    if (r == 0) {
        environ = legacy.variables;
        r = atoll_cli_relaunch(place, legacy.args, &daemon->pid, err);
        environ = ours;
    }
    if (r == 0)
        r = atoll_cli_launch_wait(client, place, daemon->pid, err);
    if (r == 0)
        r = atoll_cli_place_note(place, daemon, err);
    atoll_client_close(client);
    legacy_done(&legacy);
    return r;
}

static int tell(struct atoll_cli *cli, pid_t old, pid_t new, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *object = json_pack("{s:i, s:i}", "pid", (int)new, "old_pid", (int)old);

    if (cli->json)
        return atoll_cli_print_json(object, err);
    (void)printf("atolld (pid %d) has replaced pid %d; its sandboxes continue\n", (int)new,
                 (int)old);
    return ATOLL_CLI_OK;
}

static int run(struct atoll_cli *cli, const void *options, int argc ATOLL_UNUSED,
               char **argv ATOLL_UNUSED, struct atoll_error *err)
{
    const struct options *o = options;
    struct atoll_cli_place place;
    struct atoll_cli_daemon daemon;
    pid_t old;
    int r = atoll_cli_place_find(&place, o->state, o->socket_path, err);

    if (r < 0)
        return r;
    daemon = atoll_cli_place_daemon(&place);
    old = daemon.pid;
    if (old == 0)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ESRCH,
                          "no daemon is running; start one with: atoll up");
    if (!daemon.started_by_up)
        return atoll_fail(
            err, ATOLL_ERR_FAILED_PRECONDITION, EPERM,
            "atolld (pid %d) at %.200s was not started by `atoll up`: reload it where "
            "it was started, such as with `systemctl reload atolld`",
            (int)old, place.socket);
    r = replace(&place, &daemon, err);
    return r < 0 ? r : tell(cli, old, daemon.pid, err);
}

const struct atoll_cli_verb atoll_cli_reload = {
    .name = "reload",
    .args = "[OPTION]...",
    .summary = "replace the daemon, such as by a newer version; nothing ends",
    .help = "For a daemon that `atoll up` started. Sandboxes and commands continue, and the new\n"
            "daemon has the options of the old one. Connections break; clients that follow a\n"
            "command connect again. Sandboxes that live as long as a connection\n"
            "(leaseConnection) end. A daemon of systemd: systemctl reload atolld.\n"
            "\n"
            "Example:\n"
            "  make install && atoll reload\n",
    .options = options_table,
    .options_size = sizeof(struct options),
    .run = run,
};

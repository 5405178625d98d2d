/*
 * `atoll ssh`: makes a token, runs ssh with it, and ends the token. The token is in a configuration file
 * for ssh, which other users cannot read, and not in its arguments; the daemon's key is in a file beside
 * it, so that no other server is believed.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include "base/fd.h"
#include "cli/client.h"
#include "cli/print.h"

#define ARGS_MAX 1024
#define HOST "sandbox"

extern char **environ;

struct options {
    struct atoll_cli_common common;
    uint64_t minutes;
    bool tty, no_command;
    const char *forward;
};

static const struct atoll_cli_option options_table[] = {
    {"minutes", 0, ATOLL_CLI_COUNT, offsetof(struct options, minutes), "N",
     "end the access after N minutes (default: 1440; the token ends with ssh anyway)", NULL},
    {"tty", 't', ATOLL_CLI_FLAG, offsetof(struct options, tty), NULL,
     "a terminal for the command, too", NULL},
    {"forward", 'L', ATOLL_CLI_TEXT, offsetof(struct options, forward), "LOCAL:localhost:PORT",
     "forward a local port to a port of the sandbox", NULL},
    {"no-command", 'N', ATOLL_CLI_FLAG, offsetof(struct options, no_command), NULL,
     "only forward the port", NULL},
    ATOLL_CLI_COMMON(struct options),
    {0},
};

/* A directory with the files for ssh. */
struct place {
    char path[64];
    int fd;
};

static int open_place(struct place *p, struct atoll_error *err)
{
    p->fd = ATOLL_NO_FD;
    (void)snprintf(p->path, sizeof(p->path), "/tmp/atoll-ssh-XXXXXX");
    if (!mkdtemp(p->path)) {
        p->path[0] = '\0';
        return atoll_fail_errno(err, errno, "make a directory in /tmp");
    }
    p->fd = open(p->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return p->fd < 0 ? atoll_fail_errno(err, errno, "open %s", p->path) : 0;
}

static void remove_place(struct place *p)
{
    if (p->fd >= 0) {
        (void)unlinkat(p->fd, "config", 0);
        (void)unlinkat(p->fd, "known_hosts", 0);
        (void)close(p->fd);
    }
    if (*p->path)
        (void)rmdir(p->path);
}

static int write_files(const struct place *p, const json_t *access, struct atoll_error *err)
{
    char config[1024], known[1024];
    int n, m, r;

    n = snprintf(config, sizeof(config),
                 "Host " HOST "\n"
                 "HostName %s\n"
                 "Port %.0f\n"
                 "User %s\n"
                 "HostKeyAlias " HOST "\n"
                 "UserKnownHostsFile %s/known_hosts\n"
                 "GlobalKnownHostsFile none\n"
                 "StrictHostKeyChecking yes\n"
                 "UpdateHostKeys no\n"
                 "BatchMode yes\n"
                 "SendEnv LANG LC_* COLORTERM\n"
                 "LogLevel ERROR\n",
                 atoll_link_text(access, "host", ""), atoll_link_number(access, "port", 0),
                 atoll_link_text(access, "token", ""), p->path);
    m = snprintf(known, sizeof(known), HOST " %s\n", atoll_link_text(access, "host_key", ""));
    if (n < 0 || (size_t)n >= sizeof(config) || m < 0 || (size_t)m >= sizeof(known))
        return atoll_fail(err, ATOLL_ERR_DATA_LOSS, EPROTO, "the daemon's answer is too long");
    r = atoll_fd_replace_file(p->fd, "config", config, (size_t)n);
    if (r == 0)
        r = atoll_fd_replace_file(p->fd, "known_hosts", known, (size_t)m);
    explicit_bzero(config, sizeof(config));
    return r < 0 ? atoll_fail_errno(err, -r, "write to %s", p->path) : 0;
}

/* Running ssh. */

static volatile sig_atomic_t running;

static void pass_on(int signo)
{
    if (running > 0)
        (void)kill((pid_t)running, signo);
}

/* The terminal's signals reach ssh without us; others are passed on. Either way the token is ended. */
static void stay(void)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN}, pass = {.sa_handler = pass_on};

    (void)sigaction(SIGINT, &ignore, NULL);
    (void)sigaction(SIGQUIT, &ignore, NULL);
    (void)sigaction(SIGTERM, &pass, NULL);
    (void)sigaction(SIGHUP, &pass, NULL);
}

static int spawn(char *const *argv, pid_t *ret_pid)
{
    posix_spawnattr_t attr;
    sigset_t usual;
    int r = posix_spawnattr_init(&attr);

    if (r != 0)
        return -r;
    (void)sigemptyset(&usual);
    (void)sigaddset(&usual, SIGINT);
    (void)sigaddset(&usual, SIGQUIT);
    (void)sigaddset(&usual, SIGPIPE);
    (void)posix_spawnattr_setsigdefault(&attr, &usual);
    (void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF);
    r = posix_spawnp(ret_pid, argv[0], NULL, &attr, argv, environ);
    (void)posix_spawnattr_destroy(&attr);
    return -r;
}

static int run_ssh(char *const *argv, struct atoll_error *err)
{
    pid_t pid;
    int status, r;

    stay();
    r = spawn(argv, &pid);
    if (r == -ENOENT)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT,
                          "there is no program ssh; install it (Debian: openssh-client)");
    if (r < 0)
        return atoll_fail_errno(err, -r, "start ssh");
    running = pid;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return atoll_fail_errno(err, errno, "wait for ssh");
    running = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int compose(const struct options *o, const struct place *p, int argc, char **argv,
                   char **ret, struct atoll_error *err)
{
    static char ssh[] = "ssh", dash_f[] = "-F", dash_t[] = "-t", dash_l[] = "-L", dash_n[] = "-N",
                stop[] = "-oExitOnForwardFailure=yes", host[] = HOST;
    static char config[80];
    size_t n = 0;

    if (argc > ARGS_MAX - 16)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG, "too many arguments");
    (void)snprintf(config, sizeof(config), "%s/config", p->path);
    ret[n++] = ssh;
    ret[n++] = dash_f;
    ret[n++] = config;
    if (o->tty)
        ret[n++] = dash_t;
    if (o->no_command)
        ret[n++] = dash_n;
    if (o->forward) {
        ret[n++] = stop;
        ret[n++] = dash_l;
        ret[n++] = (char *)(uintptr_t)o->forward;
    }
    ret[n++] = host;
    for (int i = 0; i < argc; i++)
        ret[n++] = argv[i];
    ret[n] = NULL;
    return 0;
}

static int visit(const struct options *o, const json_t *access, int argc, char **argv,
                 struct atoll_error *err)
{
    char *args[ARGS_MAX];
    struct place place;
    int r = open_place(&place, err);

    if (r == 0)
        r = write_files(&place, access, err);
    if (r == 0)
        r = compose(o, &place, argc, argv, args, err);
    if (r == 0)
        r = run_ssh(args, err);
    remove_place(&place);
    return r;
}

static int run(struct atoll_cli *cli, const void *options, int argc, char **argv,
               struct atoll_error *err)
{
    const struct options *o = options;
    ATOLL_AUTOJSON json_t *request =
        json_pack("{s:I}", "expires_minutes", (json_int_t)(o->minutes ? o->minutes : 1440));
    ATOLL_AUTOJSON json_t *access = NULL;
    struct atoll_link_target target;
    struct atoll_error ignored;
    int r = atoll_link_check_id("sandbox", argv[0], err);

    if (r == 0)
        r = atoll_link_target(&target, err, "/api/sandboxes/%s/ssh", argv[0]);
    if (r == 0)
        r = atoll_cli_call(cli, "POST", target.text, request, &access, err);
    if (r < 0)
        return r;
    r = visit(o, access, argc - 1, argv + 1, err);
    if (atoll_link_target(&target, &ignored, "/api/sandboxes/%s/ssh/%s", argv[0],
                          atoll_link_text(access, "id", "")) == 0)
        (void)!atoll_cli_call(cli, "DELETE", target.text, NULL, NULL, &ignored);
    return r;
}

const struct atoll_cli_verb atoll_cli_ssh = {
    .name = "ssh",
    .args = "[OPTION]... SANDBOX [--] [COMMAND [ARG]...]",
    .summary = "reach a sandbox by SSH",
    .help =
        "Runs ssh with a token that ends with it. The daemon must serve SSH (atolld --ssh-listen).\n"
        "As ssh does, the arguments are joined with blanks, and the shell of the sandbox reads them.\n"
        "The exit status is that of ssh: of the command, or 255.\n"
        "\n"
        "Examples:\n"
        "  atoll ssh $id\n"
        "  atoll ssh $id -- 'df -h | head -3'\n"
        "  atoll ssh -N -L 8000:localhost:8000 $id\n",
    .options = options_table,
    .options_size = sizeof(struct options),
    .min_args = 1,
    .max_args = -1,
    .command_arg = 2,
    .failure = ATOLL_CLI_BROKEN,
    .run = run,
};

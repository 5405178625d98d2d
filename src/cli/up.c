/*
 * A daemon in the background, for whoever does not want to think about one. It is started like any
 * other program, in a session of its own; what was started is noted in its state directory.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "base/clock.h"
#include "base/fd.h"
#include "cli/client.h"
#include "cli/place.h"
#include "cli/print.h"

#define READY_MS (20 * 1000)
#define LOOK_MS 20
#define DEFAULT_PORT 7070
#define ARGS_MAX 64
#define LOG_TAIL_BYTES 4096

extern char **environ;

struct options {
    struct atoll_cli_common common;
    const char *state, *socket_path, *listen;
    bool no_listen;
};

static const struct atoll_cli_option options_table[] = {
    {"state", 0, ATOLL_CLI_TEXT, offsetof(struct options, state), "DIR", "where everything is kept",
     NULL},
    {"socket", 0, ATOLL_CLI_TEXT, offsetof(struct options, socket_path), "PATH",
     "unix socket to serve", NULL},
    {"listen", 0, ATOLL_CLI_TEXT, offsetof(struct options, listen), "HOST:PORT",
     "TCP address to serve (127.0.0.1:7070, or another port when that is taken)", NULL},
    {"no-listen", 0, ATOLL_CLI_FLAG, offsetof(struct options, no_listen), NULL,
     "serve the socket only", NULL},
    ATOLL_CLI_COMMON(struct options),
    {0},
};

/* Which port. */

/* The port, or another one when it is 0; 0 when it cannot be had. */
static unsigned try_port(unsigned port)
{
    ATOLL_AUTOCLOSE int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(address);
    int one = 1;

    if (fd < 0)
        return 0;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, (struct sockaddr *)&address, len) < 0 || listen(fd, 1) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) < 0)
        return 0;
    return ntohs(address.sin_port);
}

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
                              "--listen %.80s: name a host and a port, such as 127.0.0.1:7070",
                              wanted);
        (void)snprintf(out, cap, "%s", wanted);
        return 0;
    }
    port = try_port(DEFAULT_PORT);
    if (port == 0)
        port = try_port(0);
    if (port == 0)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EADDRINUSE,
                          "no TCP port can be had; use --no-listen");
    (void)snprintf(out, cap, "127.0.0.1:%u", port);
    return 0;
}

/* Starting. */

/* mkdir -p, the last one private. */
static int make_directory(const char *path, struct atoll_error *err)
{
    char part[ATOLL_CLI_PATH_MAX];

    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        (void)snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
        if (mkdir(part, 0755) < 0 && errno != EEXIST)
            return atoll_fail(err, atoll_error_kind_of_path_errno(errno), errno, "%.200s: %s", part,
                              strerror(errno));
    }
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return atoll_fail(err, atoll_error_kind_of_path_errno(errno), errno, "%.200s: %s", path,
                          strerror(errno));
    return 0;
}

/* The one beside us, else the one in PATH. */
static void find_program(char *out, size_t cap)
{
    ssize_t n = readlink("/proc/self/exe", out, cap - 8);
    char *slash;

    out[n > 0 ? n : 0] = '\0';
    slash = strrchr(out, '/');
    if (slash)
        memcpy(slash + 1, "atolld", 7);
    if (!slash || access(out, X_OK) < 0)
        (void)snprintf(out, cap, "atolld");
}

static int spawn(const struct atoll_cli_place *place, char *const *argv, pid_t *ret_pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    int r = posix_spawn_file_actions_init(&actions);

    if (r != 0)
        return -r;
    r = posix_spawnattr_init(&attr);
    if (r != 0) {
        (void)posix_spawn_file_actions_destroy(&actions);
        return -r;
    }
    (void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSID);
    r = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (r == 0)
        r = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, place->log,
                                             O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);
    if (r == 0)
        r = posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    if (r == 0)
        r = posix_spawnp(ret_pid, argv[0], &actions, &attr, argv, environ);
    (void)posix_spawnattr_destroy(&attr);
    (void)posix_spawn_file_actions_destroy(&actions);
    return -r;
}

static int start(const struct atoll_cli_place *place, const char *listen_at, char **more,
                 pid_t *ret_pid, struct atoll_error *err)
{
    static char state[] = "--state", socket_path[] = "--socket", listen_name[] = "--listen";
    char program[ATOLL_CLI_PATH_MAX], *argv[ARGS_MAX + 8];
    size_t n = 0;
    int r = make_directory(place->state, err);

    if (r < 0)
        return r;
    find_program(program, sizeof(program));
    argv[n++] = program;
    argv[n++] = state;
    argv[n++] = (char *)place->state;
    argv[n++] = socket_path;
    argv[n++] = (char *)place->socket;
    if (*listen_at) {
        argv[n++] = listen_name;
        argv[n++] = (char *)listen_at;
    }
    for (size_t i = 0; more[i] && i < ARGS_MAX; i++)
        argv[n++] = more[i];
    argv[n] = NULL;
    r = spawn(place, argv, ret_pid);
    if (r == -ENOENT)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT,
                          "atolld is neither beside atoll nor in PATH");
    return r < 0 ? atoll_fail_errno(err, -r, "starting atolld") : 0;
}

/* The last lines of the log, for whoever has to find out why. */
static void print_log_tail(const char *path)
{
    ATOLL_AUTOCLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    char text[LOG_TAIL_BYTES + 1];
    struct stat st;
    ssize_t n;

    if (fd < 0 || fstat(fd, &st) < 0)
        return;
    n = pread(fd, text, LOG_TAIL_BYTES, ATOLL_MAX(st.st_size - LOG_TAIL_BYTES, 0));
    for (char *line = text, *end; n > 0 && line < text + n; line = end + 1) {
        text[n] = '\0';
        end = line + strcspn(line, "\n");
        *end = '\0';
        atoll_cli_say("%s", line);
    }
}

static bool answers(struct atoll_client *client, const char *target)
{
    return atoll_client_request(client, "GET", target, NULL, NULL, NULL) == 0;
}

static int wait_until_ready(struct atoll_client *client, const struct atoll_cli_place *place,
                            pid_t pid, struct atoll_error *err)
{
    int64_t until = atoll_clock_ms() + READY_MS;
    int status;

    while (!answers(client, "/readyz")) {
        if (waitpid(pid, &status, WNOHANG) == pid) {
            print_log_tail(place->log);
            return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ECHILD,
                              "atolld ended at once; its log is %.256s", place->log);
        }
        if (atoll_clock_ms() > until)
            return atoll_fail(err, ATOLL_ERR_DEADLINE_EXCEEDED, ETIMEDOUT,
                              "atolld (pid %d) does not get ready; its log is %.256s", (int)pid,
                              place->log);
        (void)poll(NULL, 0, LOOK_MS);
    }
    return 0;
}

/* Telling. */

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
    (void)printf("Try: atoll run -- echo hello\nStop it with: atoll down\n");
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
        r = start(place, daemon.listen, more, &daemon.pid, err);
    if (r == 0)
        r = wait_until_ready(client, place, daemon.pid, err);
    if (r == 0)
        r = atoll_cli_place_note(place, &daemon, err);
    return r < 0 ? r : tell(cli, place, &daemon, true, err);
}

/* A daemon that an earlier build left would not know what this one asks of it. */
static int replace_outdated(const struct atoll_cli_place *place, struct atoll_error *err)
{
    struct atoll_cli_daemon noted = atoll_cli_place_noted(place);

    if (noted.pid == 0 || !atoll_cli_daemon_is_outdated(&noted))
        return 0;
    atoll_cli_say("atolld (pid %d) is from an earlier build; restarting it", (int)noted.pid);
    return atoll_cli_daemon_stop(&noted, err);
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

    if (r == 0 && argc > ARGS_MAX)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG, "too many options for atolld");
    if (r == 0)
        r = replace_outdated(&place, err);
    if (r == 0)
        r = atoll_link_open(&at, &client, err);
    if (r < 0)
        return r;
    if (answers(client, "/healthz")) {
        found = atoll_cli_daemon_at(place.socket);
        noted = atoll_cli_place_noted(&place);
        r = tell(cli, &place, noted.pid == found.pid ? &noted : &found, false, err);
    } else {
        r = start_and_tell(cli, o, &place, client, argv, err);
    }
    atoll_client_close(client);
    return r;
}

const struct atoll_cli_verb atoll_cli_up = {
    .name = "up",
    .args = "[OPTION]... [-- ATOLLD OPTION...]",
    .summary = "start a daemon in the background, unless one answers",
    .help = "Waits until it is ready and says where it is and how to use it. As root it is\n"
            "the system's, else this user's own. What follows -- is given to atolld.\n"
            "\n"
            "Examples:\n"
            "  atoll up\n"
            "  atoll up --listen 127.0.0.1:8000 -- --pool 4\n",
    .options = options_table,
    .options_size = sizeof(struct options),
    .max_args = -1,
    .command_at = 0,
    .run = run,
};

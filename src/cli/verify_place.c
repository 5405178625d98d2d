#include "cli/verify_place.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include "base/clock.h"
#include "base/fd.h"
#include "base/rand.h"
#include "cli/launch.h"
#include "tools/verify/suite.h"

#define CANARY_VARIABLE "ATOLL_LAUNCHER_CANARY"
#define KEYCTL_JOIN_SESSION_KEYRING 1
#define KEYRING_SESSION (-3)
#define ENVIRON_MAX (128 * 1024)
#define STOP_MS 20000
#define LOOK_MS 10

/* The probe in the directory of this program, else the installed one. */
static int find_probe(char *out, size_t cap, struct atoll_error *err)
{
    static const char name[] = "atoll-probe";
    ssize_t n = readlink("/proc/self/exe", out, cap - sizeof(name));
    char *slash;

    out[n > 0 ? n : 0] = '\0';
    slash = strrchr(out, '/');
    if (slash)
        memcpy(slash + 1, name, sizeof(name));
    if (slash && access(out, X_OK) == 0)
        return 0;
    (void)snprintf(out, cap, "%s/%s", ATOLL_LIBEXEC_DIR, name);
    if (access(out, X_OK) == 0)
        return 0;
    return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT,
                      "%s was found neither in the directory of atoll nor in %s", name,
                      ATOLL_LIBEXEC_DIR);
}

static int make_directories(struct atoll_cli_verify_place *p, struct atoll_error *err)
{
    const char *parent = getenv("TMPDIR");

    /* Short: the path of a unix socket has at most 107 bytes. */
    (void)snprintf(p->base, sizeof(p->base), "%s/atoll-verify-XXXXXX",
                   parent && *parent == '/' && strlen(parent) < 40 ? parent : "/tmp");
    if (!mkdtemp(p->base)) {
        p->base[0] = '\0';
        return atoll_fail_errno(err, errno, "scratch directory");
    }
    (void)snprintf(p->scratch, sizeof(p->scratch), "%s/private", p->base);
    if (chmod(p->base, 0755) < 0 || mkdir(p->scratch, 0700) < 0)
        return atoll_fail_errno(err, errno, "scratch directory");
    return 0;
}

/* Gives the daemon that we start two secrets for sandboxes to look for: an environment variable and a
 * key in its session keyring. */
static void put_canaries(struct atoll_cli_verify_place *p)
{
    char name[13];

    (void)setenv(CANARY_VARIABLE, "the launcher's environment", 1);
    (void)snprintf(p->variable, sizeof(p->variable), "%s", CANARY_VARIABLE);
    atoll_rand_id(name, sizeof(name) - 1);
    (void)snprintf(p->key, sizeof(p->key), "atoll-canary-%s", name);
    if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 ||
        syscall(SYS_add_key, "user", p->key, "x", 1, KEYRING_SESSION) < 0)
        p->key[0] = '\0';
}

static int start_daemon(struct atoll_cli_verify_place *p, struct atoll_error *err)
{
    struct atoll_cli_place *place = &p->place;
    struct atoll_client_options at = {.size = sizeof(at), .address = place->socket};
    struct atoll_client *client = NULL;
    char *no_more[] = {NULL};
    int r;

    (void)snprintf(place->state, sizeof(place->state), "%s/state", p->base);
    (void)snprintf(place->socket, sizeof(place->socket), "%s/atoll.sock", p->base);
    (void)snprintf(place->log, sizeof(place->log), "%s/atolld.log", p->base);
    (void)snprintf(p->daemon.listen, sizeof(p->daemon.listen), "127.0.0.1:%u",
                   atoll_cli_free_port(0));
    put_canaries(p);
    r = atoll_link_open(&at, &client, err);
    if (r == 0)
        r = atoll_cli_launch(place, p->daemon.listen, no_more, &p->daemon.pid, err);
    p->started = r == 0;
    if (r == 0)
        r = atoll_cli_launch_wait(client, place, p->daemon.pid, err);
    atoll_client_close(client);
    return r;
}

/* Finds an unusual variable in the daemon's environment, for sandboxes to look for. */
static void find_variable(struct atoll_cli_verify_place *p)
{
    static const char *const usual[] = {"PATH",   "HOME", "LANG",  "USER",  "LOGNAME",
                                        "SHELL",  "TERM", "PWD",   "SHLVL", "MAIL",
                                        "OLDPWD", "_",    "TMPDIR"};
    ATOLL_AUTOFREE char *text = malloc(ENVIRON_MAX);
    char path[40];
    int n;

    (void)snprintf(path, sizeof(path), "/proc/%d/environ", (int)p->daemon.pid);
    n = text ? atoll_fd_read_file(AT_FDCWD, path, text, ENVIRON_MAX) : 0;
    for (char *at = text; n > 0 && at < text + n; at += strlen(at) + 1) {
        size_t len = strcspn(at, "=");
        bool known = strncmp(at, "LC_", 3) == 0 || len >= sizeof(p->variable);
        for (size_t i = 0; i < ATOLL_ARRAY_LEN(usual) && !known; i++)
            known = strlen(usual[i]) == len && memcmp(usual[i], at, len) == 0;
        if (!known && at[len] == '=') {
            (void)snprintf(p->variable, sizeof(p->variable), "%.*s", (int)len, at);
            return;
        }
    }
}

/* For a daemon that answers: finds its process and its state directory, if possible. */
static void inspect_daemon(struct atoll_cli_verify_place *p, const char *address)
{
    struct atoll_cli_daemon noted;
    struct atoll_error ignored;

    if (*address != '/')
        return; /* over TCP, perhaps on another host */
    p->daemon = atoll_cli_daemon_at(address);
    if (atoll_cli_place_find(&p->place, NULL, address, &ignored) < 0 ||
        !atoll_cli_daemon_owns(&p->daemon, &p->place))
        p->place.state[0] = '\0';
    (void)snprintf(p->place.socket, sizeof(p->place.socket), "%s", address);
    noted = atoll_cli_place_noted(&p->place);
    if (noted.pid == p->daemon.pid)
        p->daemon = noted;
    find_variable(p);
}

static bool address_is_configured(void)
{
    const char *socket_path = getenv("ATOLL_SOCKET"), *url = getenv("ATOLL_URL");
    return (socket_path && *socket_path) || (url && *url);
}

int atoll_cli_verify_open(struct atoll_cli_verify_place *p, struct atoll_client *client, bool start,
                          struct atoll_error *err)
{
    int r;

    *p = (struct atoll_cli_verify_place){.started = false};
    r = find_probe(p->probe, sizeof(p->probe), err);
    if (r == 0)
        r = make_directories(p, err);
    if (r < 0)
        return r;
    if (!start && atoll_cli_answers(client, "/healthz"))
        inspect_daemon(p, atoll_client_address(client));
    else if (start || !address_is_configured())
        r = start_daemon(p, err);
    else
        r = atoll_fail(err, ATOLL_ERR_UNAVAILABLE, ECONNREFUSED,
                       "no daemon answers at %.200s; start it (`atoll up`), or use --start for a "
                       "temporary one",
                       atoll_client_address(client));
    return r;
}

static void stop_daemon(struct atoll_cli_verify_place *p)
{
    struct atoll_client_options at = {.size = sizeof(at), .address = p->place.socket};
    struct atoll_client *client = NULL;
    struct atoll_error ignored;
    int64_t until;

    if (atoll_link_open(&at, &client, &ignored) == 0)
        (void)!atoll_link_call(client, "DELETE", "/api/sandboxes", NULL, NULL, &ignored);
    atoll_client_close(client);
    until = atoll_clock_ms() + STOP_MS;
    (void)kill(p->daemon.pid, SIGTERM); /* our child: the pid is not reused before waitpid() */
    while (waitpid(p->daemon.pid, NULL, WNOHANG) == 0) {
        if (atoll_clock_ms() > until)
            (void)kill(p->daemon.pid, SIGKILL);
        (void)poll(NULL, 0, LOOK_MS);
    }
}

void atoll_cli_verify_close(struct atoll_cli_verify_place *p)
{
    if (p->started)
        stop_daemon(p);
    if (*p->base)
        atoll_suite_remove(p->base);
}

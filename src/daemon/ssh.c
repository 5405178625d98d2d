#include "daemon/ssh.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "base/fd.h"
#include "base/log.h"
#include "base/switches.h"
#include "net/listener.h"
#include "sys/ns.h"

#define OWN_DIR "ssh" /* below the state directory: its working directory */
#define SOCKET_NAME "api.sock"
#define KEY_FILE "ssh_host_key.pub"
#define LISTEN_FD 3 /* where atoll-ssh expects its socket */
#define FIRST_DELAY_MS 50
#define DELAY_MAX_MS 5000
#define LASTED_MS 10000 /* an atoll-ssh that ran this long starts again at once */
#define BIND_TRIES 40
#define BIND_PAUSE_MS 50

struct atoll_daemon_ssh {
    struct atoll_loop *loop;
    struct atoll_http_server *server; /* borrowed */
    struct atoll_listener *api;
    struct atoll_ssh_site site;
    char *program, *state_dir; /* owned */
    char host[256];
    char host_key[512]; /* "" until it was read */
    int state_fd;       /* borrowed */
    int listen_fd, pidfd;
    pid_t child; /* 0: none */
    struct atoll_watch watch;
    struct atoll_timer again;
    int64_t started_ms, delay_ms;
};

/* The process. */

static int spawn(const struct atoll_daemon_ssh *ssh, pid_t *ret_pid)
{
    char *argv[] = {ssh->program, ssh->state_dir, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, usual;
    int r = posix_spawnattr_init(&attr);

    if (r == 0 && (r = posix_spawn_file_actions_init(&actions)) != 0)
        (void)posix_spawnattr_destroy(&attr);
    if (r != 0)
        return -r;
    (void)sigemptyset(&none);
    (void)sigemptyset(&usual);
    (void)sigaddset(&usual, SIGPIPE);
    (void)sigaddset(&usual, SIGHUP);
    (void)posix_spawnattr_setsigmask(&attr, &none);
    (void)posix_spawnattr_setsigdefault(&attr, &usual);
    (void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    r = posix_spawn_file_actions_adddup2(&actions, ssh->listen_fd, LISTEN_FD);
    if (r == 0)
        r = posix_spawn(ret_pid, ssh->program, &actions, &attr, argv, atoll_switches_env());
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)posix_spawnattr_destroy(&attr);
    return -r;
}

static void start(void *arg);

static void start_later(struct atoll_daemon_ssh *ssh)
{
    atoll_timer_set(&ssh->again, ssh->loop, ssh->delay_ms, start, ssh);
    ssh->delay_ms = ATOLL_MIN(2 * ssh->delay_ms, (int64_t)DELAY_MAX_MS);
}

static void forget_child(struct atoll_daemon_ssh *ssh)
{
    atoll_watch_close(&ssh->watch);
    if (ssh->pidfd >= 0)
        (void)close(ATOLL_TAKE_FD(ssh->pidfd));
    ssh->child = 0;
}

static void on_end(void *arg, uint32_t events ATOLL_UNUSED)
{
    struct atoll_daemon_ssh *ssh = arg;

    if (waitpid(ssh->child, NULL, WNOHANG) == 0)
        return;
    forget_child(ssh);
    atoll_log(ATOLL_LOG_ERROR, "atoll-ssh ended; starting it again", NULL);
    if (atoll_loop_now_ms(ssh->loop) - ssh->started_ms >= LASTED_MS)
        ssh->delay_ms = FIRST_DELAY_MS;
    start_later(ssh);
}

static void start(void *arg)
{
    struct atoll_daemon_ssh *ssh = arg;
    int r = spawn(ssh, &ssh->child);

    ssh->started_ms = atoll_loop_now_ms(ssh->loop);
    if (r == 0) {
        ssh->pidfd = atoll_sys_pidfd_open(ssh->child);
        r = ssh->pidfd < 0
                ? ssh->pidfd
                : atoll_watch_open(&ssh->watch, ssh->loop, ssh->pidfd, EPOLLIN, on_end, ssh);
        if (r == 0)
            return;
        (void)kill(ssh->child, SIGKILL);
        (void)waitpid(ssh->child, NULL, 0);
        forget_child(ssh);
    }
    ssh->child = 0;
    atoll_log(ATOLL_LOG_ERROR, "atoll-ssh cannot be started", "error", strerror(-r), NULL);
    start_later(ssh);
}

/* Its key. */

/* A line of two words, "TYPE BASE64". */
static bool is_key(const char *text)
{
    const char *space = strchr(text, ' ');

    return strncmp(text, "ssh-", 4) == 0 && space && space[1] != '\0' && !strchr(space + 1, ' ');
}

static const char *host_key(void *arg)
{
    struct atoll_daemon_ssh *ssh = arg;
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    ssize_t n;

    if (*ssh->host_key)
        return ssh->host_key;
    fd = openat(ssh->state_fd, KEY_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    n = fd < 0 ? -1 : read(fd, ssh->host_key, sizeof(ssh->host_key) - 1);
    ssh->host_key[ATOLL_MAX(n, 0)] = '\0';
    ssh->host_key[strcspn(ssh->host_key, "\n")] = '\0';
    if (!is_key(ssh->host_key))
        ssh->host_key[0] = '\0';
    return *ssh->host_key ? ssh->host_key : NULL;
}

/* Opening. */

static void on_accept(void *arg, int fd, bool is_unix ATOLL_UNUSED)
{
    struct atoll_daemon_ssh *ssh = arg;
    struct atoll_error error;

    if (atoll_http_server_adopt_as(ssh->server, fd, NULL, ATOLL_AUTH_NEEDS_KEY, &error) < 0)
        atoll_log(ATOLL_LOG_WARN, "a connection of atoll-ssh is refused", "error", error.text,
                  NULL);
}

/* The process has left root: it finds the socket in its working directory. */
static int open_api(struct atoll_daemon_ssh *ssh, struct atoll_error *err)
{
    char path[4400];

    if (mkdirat(ssh->state_fd, OWN_DIR, 0711) < 0 && errno != EEXIST)
        return atoll_fail_errno(err, errno, "make the directory " OWN_DIR);
    if (fchmodat(ssh->state_fd, OWN_DIR, 0711, 0) < 0)
        return atoll_fail_errno(err, errno, "the directory " OWN_DIR);
    (void)snprintf(path, sizeof(path), "%s/" OWN_DIR "/" SOCKET_NAME, ssh->state_dir);
    return atoll_listener_open_unix(ssh->loop, path, 0666, on_accept, ssh, &ssh->api, err);
}

/* An atoll-ssh whose daemon was killed needs a moment to end. */
static int bind_address(struct atoll_daemon_ssh *ssh, const char *listen, struct atoll_error *err)
{
    int fd = ATOLL_NO_FD;

    for (int i = 0; i < BIND_TRIES; i++) {
        fd = atoll_listener_bind_tcp(listen, &ssh->site.port, err);
        if (fd != -EADDRINUSE)
            break;
        (void)poll(NULL, 0, BIND_PAUSE_MS);
    }
    if (fd < 0)
        return fd;
    ssh->listen_fd = fd;
    return 0;
}

/* HOST of HOST:PORT, unless it stands for all addresses. */
static void set_host(struct atoll_daemon_ssh *ssh, const struct atoll_daemon_ssh_config *config)
{
    static const char *const wild[] = {"", "0.0.0.0", "[::]", "*"};
    char *colon;

    ssh->site.host = ssh->host;
    (void)snprintf(ssh->host, sizeof(ssh->host), "%s",
                   *config->host ? config->host : config->listen);
    if (*config->host)
        return;
    colon = strrchr(ssh->host, ':');
    if (colon)
        *colon = '\0';
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(wild); i++)
        if (strcmp(ssh->host, wild[i]) == 0)
            ssh->host[0] = '\0';
}

static int set_paths(struct atoll_daemon_ssh *ssh, const struct atoll_daemon_ssh_config *config,
                     struct atoll_error *err)
{
    ssh->state_dir = strdup(config->state_dir);
    if (!ssh->state_dir || asprintf(&ssh->program, "%s/atoll-ssh", config->programs) < 0) {
        ssh->program = NULL;
        return atoll_fail_errno(err, ENOMEM, "SSH server");
    }
    if (access(ssh->program, X_OK) < 0)
        return atoll_fail(
            err, ATOLL_ERR_FAILED_PRECONDITION, errno,
            "--ssh-listen needs the program atoll-ssh beside atoll-spawn; it is built "
            "where libssh (Debian: libssh-dev) is installed");
    return 0;
}

int atoll_daemon_ssh_open(const struct atoll_daemon_ssh_config *config,
                          struct atoll_daemon_ssh **ret, struct atoll_error *err)
{
    struct atoll_daemon_ssh *ssh = calloc(1, sizeof(*ssh));
    int r;

    if (!ssh)
        return atoll_fail_errno(err, ENOMEM, "SSH server");
    *ssh = (struct atoll_daemon_ssh){.loop = config->loop,
                                     .server = config->server,
                                     .state_fd = config->state_fd,
                                     .listen_fd = ATOLL_NO_FD,
                                     .pidfd = ATOLL_NO_FD,
                                     .delay_ms = FIRST_DELAY_MS};
    ssh->site.host_key = host_key;
    ssh->site.arg = ssh;
    r = set_paths(ssh, config, err);
    if (r == 0)
        r = bind_address(ssh, config->listen, err);
    if (r == 0)
        r = open_api(ssh, err);
    if (r < 0) {
        (void)atoll_daemon_ssh_close(ssh);
        return r;
    }
    set_host(ssh, config);
    start(ssh);
    *ret = ssh;
    return 0;
}

struct atoll_daemon_ssh *atoll_daemon_ssh_close(struct atoll_daemon_ssh *ssh)
{
    if (!ssh)
        return NULL;
    atoll_timer_cancel(&ssh->again);
    /* It holds nothing that must be kept. Its connections end with those to the API. */
    if (ssh->child > 0) {
        (void)kill(ssh->child, SIGKILL);
        (void)waitpid(ssh->child, NULL, 0);
    }
    forget_child(ssh);
    ssh->api = atoll_listener_close(ssh->api);
    if (ssh->listen_fd >= 0)
        (void)close(ssh->listen_fd);
    free(ssh->program);
    free(ssh->state_dir);
    free(ssh);
    return NULL;
}

const struct atoll_ssh_site *atoll_daemon_ssh_site(const struct atoll_daemon_ssh *ssh)
{
    return ssh ? &ssh->site : NULL;
}

#include "cli/place.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <time.h>
#include "base/fd.h"
#include "base/text.h"
#include "client/link.h"
#include "net/address.h"

#define STOP_MS (30 * 1000)
#define NOTE_MAX 4096

/* Paths. */

static int absolute(char *out, const char *path, struct atoll_error *err)
{
    ATOLL_AUTOFREE char *cwd = *path == '/' ? NULL : getcwd(NULL, 0);

    if ((size_t)snprintf(out, ATOLL_CLI_PATH_MAX, "%s%s%s", cwd ? cwd : "", cwd ? "/" : "", path) >=
        ATOLL_CLI_PATH_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG, "%.80s…: too long", path);
    return 0;
}

static const char *said(const char *option, const char *variable)
{
    const char *value = option ? option : getenv(variable);
    return value && *value ? value : NULL;
}

static int join(char *out, const char *directory, const char *rest, struct atoll_error *err)
{
    if ((size_t)snprintf(out, ATOLL_CLI_PATH_MAX, "%s%s", directory, rest) >= ATOLL_CLI_PATH_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG, "%.80s…: too long",
                          directory);
    return 0;
}

static int find_state(char *out, const char *option, struct atoll_error *err)
{
    const char *state = said(option, "ATOLL_STATE"), *home = getenv("HOME");

    if (state)
        return absolute(out, state, err);
    if (geteuid() == 0)
        return join(out, "/var/lib/atoll", "", err);
    if (!home || *home != '/')
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "HOME is not set; use --state DIR to name the state directory");
    return join(out, home, "/.local/state/atoll", err);
}

static int find_socket(char *out, const char *option, const char *state, struct atoll_error *err)
{
    const char *path = said(option, "ATOLL_SOCKET"), *runtime = getenv("XDG_RUNTIME_DIR");

    if (path)
        return absolute(out, path, err);
    if (geteuid() == 0)
        return join(out, "/run/atoll", "/atoll.sock", err);
    if (runtime && *runtime == '/')
        return join(out, runtime, "/atoll/atoll.sock", err);
    return join(out, state, "/atoll.sock", err);
}

int atoll_cli_place_find(struct atoll_cli_place *place, const char *state, const char *socket_path,
                         struct atoll_error *err)
{
    int r = find_state(place->state, state, err);

    if (r == 0)
        r = find_socket(place->socket, socket_path, place->state, err);
    if (r == 0)
        r = join(place->log, place->state, "/atolld.log", err);
    return r < 0 ? r : join(place->note, place->state, "/up.json", err);
}

/* The daemon's process. */

/* Start time: field 22 of /proc/PID/stat. 0 if there is no such process or it is a zombie. */
static uint64_t start_ticks(pid_t pid)
{
    char path[40], text[1024], *at, state;
    unsigned long long ticks = 0;

    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    if (pid <= 0 || atoll_fd_read_file(AT_FDCWD, path, text, sizeof(text)) < 0)
        return 0;
    /* The process name is in parentheses and may contain ")" itself. */
    at = strrchr(text, ')');
    if (!at ||
        sscanf(at,
               ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d "
               "%*d %llu",
               &state, &ticks) != 2 ||
        state == 'Z' || state == 'X')
        return 0;
    return ticks;
}

struct atoll_cli_daemon atoll_cli_place_noted(const struct atoll_cli_place *place)
{
    struct atoll_cli_daemon daemon = {.pid = 0};
    ATOLL_AUTOJSON json_t *note = NULL;
    char text[NOTE_MAX];
    int n = atoll_fd_read_file(AT_FDCWD, place->note, text, sizeof(text));

    if (n > 0)
        note = atoll_link_parse_json(text, (size_t)n);
    daemon.pid = (pid_t)atoll_link_number(note, "pid", 0);
    daemon.start_ticks = atoll_link_count(note, "start_ticks");
    (void)snprintf(daemon.listen, sizeof(daemon.listen), "%s", atoll_link_text(note, "listen", ""));
    if (daemon.start_ticks == 0 || start_ticks(daemon.pid) != daemon.start_ticks)
        daemon = (struct atoll_cli_daemon){.pid = 0};
    daemon.started_by_up = daemon.pid > 0;
    return daemon;
}

int atoll_cli_place_note(const struct atoll_cli_place *place, const struct atoll_cli_daemon *daemon,
                         struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *note = json_pack("{s:i, s:I, s:s, s:s}", "pid", (int)daemon->pid,
                                            "start_ticks", (json_int_t)start_ticks(daemon->pid),
                                            "listen", daemon->listen, "socket", place->socket);
    ATOLL_AUTOFREE char *text = note ? json_dumps(note, JSON_COMPACT) : NULL;
    ATOLL_AUTOCLOSE int fd =
        open(place->note, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    int r = fd < 0 ? -errno : text ? atoll_fd_write_all(fd, text, strlen(text)) : -ENOMEM;

    return r < 0 ? atoll_fail_errno(err, -r, "%.200s", place->note) : 0;
}

struct atoll_cli_daemon atoll_cli_daemon_at(const char *socket_path)
{
    struct atoll_cli_daemon daemon = {.pid = 0};
    ATOLL_AUTOCLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct atoll_address_unix address;
    struct ucred peer;
    socklen_t len = sizeof(peer);

    if (fd < 0 || atoll_address_unix_open(&address, socket_path) < 0)
        return daemon;
    /* For a connected client SO_PEERCRED is the process that called listen(2). */
    if (connect(fd, (const struct sockaddr *)&address.addr, address.len) == 0 &&
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && peer.pid > 0) {
        daemon.pid = peer.pid;
        daemon.start_ticks = start_ticks(peer.pid);
    }
    atoll_address_unix_close(&address);
    return daemon;
}

bool atoll_cli_daemon_is_outdated(const struct atoll_cli_daemon *daemon)
{
    static const char mark[] = " (deleted)";
    char path[40], program[ATOLL_CLI_PATH_MAX];
    ssize_t n;

    (void)snprintf(path, sizeof(path), "/proc/%d/exe", (int)daemon->pid);
    n = readlink(path, program, sizeof(program));
    return n >= (ssize_t)sizeof(mark) &&
           memcmp(program + n - (sizeof(mark) - 1), mark, sizeof(mark) - 1) == 0;
}

double atoll_cli_daemon_uptime(const struct atoll_cli_daemon *daemon)
{
    struct timespec now;

    if (daemon->start_ticks == 0 || clock_gettime(CLOCK_BOOTTIME, &now) < 0)
        return -1;
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9 -
           (double)daemon->start_ticks / (double)sysconf(_SC_CLK_TCK);
}

/* The value of an option in the text of /proc/PID/cmdline, whose arguments end with NUL. */
static const char *option_in(const char *text, size_t n, const char *option)
{
    const char *end = text + n;

    for (; text < end; text += strlen(text) + 1)
        if (strcmp(text, option) == 0 && text + strlen(text) + 1 < end)
            return text + strlen(text) + 1;
    return NULL;
}

struct atoll_cli_daemon atoll_cli_place_daemon(struct atoll_cli_place *place)
{
    struct atoll_cli_daemon daemon = atoll_cli_place_noted(place), noted;
    struct atoll_cli_place other;
    struct atoll_error ignored;
    char path[40], text[8192];
    const char *state;
    int n;

    if (daemon.pid > 0)
        return daemon;
    daemon = atoll_cli_daemon_at(place->socket);
    (void)snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)daemon.pid);
    n = daemon.pid > 0 ? atoll_fd_read_file(AT_FDCWD, path, text, sizeof(text)) : 0;
    state = n > 0 ? option_in(text, (size_t)n, "--state") : NULL;
    if (!state || *state != '/' || atoll_cli_place_find(&other, state, place->socket, &ignored) < 0)
        return daemon;
    noted = atoll_cli_place_noted(&other);
    if (noted.pid != daemon.pid)
        return daemon;
    *place = other;
    return noted;
}

bool atoll_cli_daemon_owns(const struct atoll_cli_daemon *daemon,
                           const struct atoll_cli_place *place)
{
    char path[ATOLL_CLI_PATH_MAX + 16], text[32];
    uint64_t pid;

    (void)snprintf(path, sizeof(path), "%s/atolld.lock", place->state);
    if (daemon->pid <= 0 || atoll_fd_read_file(AT_FDCWD, path, text, sizeof(text)) <= 0)
        return false;
    text[strcspn(text, "\n")] = '\0';
    return atoll_text_u64(text, 1, INT32_MAX, &pid) == 0 && (pid_t)pid == daemon->pid;
}

int atoll_cli_daemon_stop(const struct atoll_cli_daemon *daemon, int signo, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int fd = pidfd_open(daemon->pid, 0);
    struct pollfd ended = {.fd = fd, .events = POLLIN};
    int r;

    /* First open the pidfd, then compare the start time: now the pidfd cannot be another process. */
    if (fd >= 0 && start_ticks(daemon->pid) != daemon->start_ticks)
        return 0;
    if (fd < 0 || pidfd_send_signal(fd, signo, NULL, 0) < 0)
        return errno == ESRCH
                   ? 0
                   : atoll_fail(err, atoll_error_kind_of_path_errno(errno), errno,
                                "atolld (pid %d): %s", (int)daemon->pid, strerror(errno));
    do
        r = poll(&ended, 1, STOP_MS);
    while (r < 0 && errno == EINTR);
    if (r == 0)
        return atoll_fail(err, ATOLL_ERR_DEADLINE_EXCEEDED, ETIMEDOUT,
                          "atolld (pid %d) did not stop in time; see its log", (int)daemon->pid);
    return 0;
}

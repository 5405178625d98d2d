#include "cli/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "base/clock.h"
#include "base/fd.h"
#include "cli/child.h"
#include "cli/print.h"

#define READY_MS (20 * 1000)
#define LOOK_MS 20
#define LOG_TAIL_BYTES 4096

unsigned atoll_cli_free_port(unsigned port)
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

/* Like mkdir -p; the last directory gets mode 0700. */
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

/* atolld in the directory of this program, else in PATH. */
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

int atoll_cli_relaunch(const struct atoll_cli_place *place, char **argv, pid_t *ret_pid,
                       struct atoll_error *err)
{
    char program[ATOLL_CLI_PATH_MAX];
    ATOLL_AUTOCLOSE int log_fd = ATOLL_NO_FD;
    int r = make_directory(place->state, err);

    if (r < 0)
        return r;
    find_program(program, sizeof(program));
    argv[0] = program;
    log_fd = open(place->log, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (log_fd < 0)
        return atoll_fail(err, atoll_error_kind_of_path_errno(errno), errno, "%.200s: %s",
                          place->log, strerror(errno));
    r = atoll_cli_spawn(argv, log_fd, true, ret_pid);
    if (r == -ENOENT)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT,
                          "atolld was found neither in the directory of atoll nor in PATH");
    return r < 0 ? atoll_fail_errno(err, -r, "starting atolld") : 0;
}

int atoll_cli_launch(const struct atoll_cli_place *place, const char *listen_at, char **more,
                     pid_t *ret_pid, struct atoll_error *err)
{
    static char state[] = "--state", socket_path[] = "--socket", listen_name[] = "--listen";
    char *argv[ATOLL_CLI_LAUNCH_ARGS_MAX + 8] = {NULL, state, (char *)place->state, socket_path,
                                                 (char *)place->socket};
    size_t n = 5;

    if (*listen_at) {
        argv[n++] = listen_name;
        argv[n++] = (char *)listen_at;
    }
    for (size_t i = 0; more[i] && i < ATOLL_CLI_LAUNCH_ARGS_MAX; i++)
        argv[n++] = more[i];
    return atoll_cli_relaunch(place, argv, ret_pid, err);
}

/* Prints the last lines of the daemon's log to standard error. */
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

bool atoll_cli_answers(struct atoll_client *client, const char *target)
{
    return atoll_client_request(client, "GET", target, NULL, NULL, NULL) == 0;
}

int atoll_cli_launch_wait(struct atoll_client *client, const struct atoll_cli_place *place,
                          pid_t pid, struct atoll_error *err)
{
    int64_t until = atoll_clock_ms() + READY_MS;
    int status;

    while (!atoll_cli_answers(client, "/readyz")) {
        if (waitpid(pid, &status, WNOHANG) == pid) {
            print_log_tail(place->log);
            return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ECHILD,
                              "atolld exited during startup; its log is %.256s", place->log);
        }
        if (atoll_clock_ms() > until)
            return atoll_fail(err, ATOLL_ERR_DEADLINE_EXCEEDED, ETIMEDOUT,
                              "atolld (pid %d) is not ready yet; its log is %.256s", (int)pid,
                              place->log);
        (void)poll(NULL, 0, LOOK_MS);
    }
    return 0;
}

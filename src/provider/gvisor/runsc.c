#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include "base/clock.h"
#include "base/text.h"
#include "provider/gvisor/gvisor_internal.h"

/*
 * The runsc program: path, version and platforms. It is run with fixed arguments only and needs no
 * privileges for that.
 */

#define ANSWER_MAX (64 * 1024)
#define ANSWER_MS 5000

static const char *const places[] = {"/usr/local/bin/runsc", "/usr/bin/runsc", "/usr/sbin/runsc"};

static int start(const char *program, const char *word, int out, pid_t *ret_pid)
{
    char *argv[] = {"runsc", (char *)(uintptr_t)word, NULL};
    char *envp[] = {"PATH=/usr/sbin:/usr/bin", NULL};
    posix_spawn_file_actions_t actions;
    int r = posix_spawn_file_actions_init(&actions);

    if (r != 0)
        return -r;
    r = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    if (r == 0)
        r = posix_spawn_file_actions_adddup2(&actions, out, STDERR_FILENO);
    if (r == 0)
        r = posix_spawn(ret_pid, program, &actions, NULL, argv, envp);
    (void)posix_spawn_file_actions_destroy(&actions);
    return -r;
}

/* Reads to the end or until the timeout. */
static int collect(int fd, struct atoll_buf *answer)
{
    int64_t deadline = atoll_clock_ms() + ANSWER_MS;

    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int64_t left = deadline - atoll_clock_ms();
        uint8_t *tail;
        ssize_t n;

        if (left <= 0 || poll(&p, 1, (int)left) == 0)
            return -ETIMEDOUT;
        if (atoll_buf_reserve(answer, 4096, &tail) < 0)
            return -E2BIG;
        n = read(fd, tail, 4096);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        atoll_buf_commit(answer, (size_t)n);
    }
}

static int ask(const char *program, const char *word, struct atoll_buf *answer)
{
    ATOLL_AUTOCLOSE int in = ATOLL_NO_FD;
    int pair[2], status = 0, r;
    pid_t pid;

    if (pipe2(pair, O_CLOEXEC) < 0)
        return -errno;
    in = pair[0];
    r = start(program, word, pair[1], &pid);
    (void)close(pair[1]);
    if (r < 0)
        return r;
    r = collect(in, answer);
    if (r < 0)
        (void)kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return r;
}

static const char *find(const struct atoll_gvisor_config *config)
{
    if (config->runsc)
        return config->runsc;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(places); i++)
        if (access(places[i], X_OK) == 0)
            return places[i];
    return NULL;
}

/* "runsc version X": the word after the second blank of the first line. */
static void take_version(struct atoll_gvisor *g, const char *answer)
{
    static const char prefix[] = "runsc version ";
    const char *at = strstr(answer, prefix);

    at = at ? at + sizeof(prefix) - 1 : "?";
    (void)snprintf(g->version, sizeof(g->version), "%.*s", (int)strcspn(at, " \r\n"), at);
}

/* systrap is newer and faster; ptrace is in every release. */
static int choose_platform(struct atoll_gvisor *g, const char *wanted, struct atoll_error *err)
{
    struct atoll_buf answer;
    int r = 0;

    if (wanted) {
        if (!atoll_text_is_id(wanted) ||
            atoll_text_copy(g->platform, sizeof(g->platform), wanted) < 0)
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "the platform of gVisor must be a name such as systrap or ptrace");
        return 0;
    }
    atoll_buf_init(&answer, ANSWER_MAX);
    r = ask(g->runsc, "flags", &answer);
    if (r == 0)
        (void)snprintf(g->platform, sizeof(g->platform), "%s",
                       strstr(atoll_buf_str(&answer), "systrap") ? "systrap" : "ptrace");
    atoll_buf_done(&answer);
    return r < 0 ? atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, -r,
                              "runsc does not list its platforms")
                 : 0;
}

int atoll_gvisor_find_runsc(struct atoll_gvisor *g, const struct atoll_gvisor_config *config,
                            struct atoll_error *err)
{
    const char *program = find(config);
    struct atoll_buf answer;
    int r;

    if (!program || access(program, X_OK) < 0)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ENOENT,
                          "runsc is not installed; install gVisor (Debian: apt install runsc)");
    if (strncmp(program, "/usr/", 5) != 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "runsc has to be installed below /usr, such as in /usr/local/bin");
    g->runsc = strdup(program);
    if (!g->runsc)
        return atoll_fail_errno(err, ENOMEM, "gvisor provider");
    atoll_buf_init(&answer, ANSWER_MAX);
    r = ask(g->runsc, "--version", &answer);
    if (r == 0)
        take_version(g, atoll_buf_str(&answer));
    atoll_buf_done(&answer);
    if (r < 0)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, -r, "runsc does not start");
    return choose_platform(g, config->platform, err);
}

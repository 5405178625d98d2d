/*
 * Clients that never finish their request, too many connections, and commands with endless output.
 */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include "base/clock.h"
#include "tools/verify/attacks/attacks_internal.h"

#define SLOW_CLIENTS 200
#define SLOW_LIMIT_MS 30000 /* far beyond the ten seconds that the daemon allows for a head */
#define MANY_CLIENTS 1000
#define SPARE_FDS 64
#define ANSWER_MS 10000
#define CONTROL_MS 400
#define FLOOD_BYTES ((size_t)16 * 1024 * 1024)
#define MEMORY_KIB (64 * 1024)
#define CHILD_SECONDS 20

/* Raises our own descriptor limit for a check. */
static size_t raise_own_limit(struct rlimit *old)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, old) < 0)
        return 256;
    limit = *old;
    limit.rlim_cur = ATOLL_MIN(limit.rlim_max, (rlim_t)(MANY_CLIENTS + 2 * SPARE_FDS));
    if (limit.rlim_cur > old->rlim_cur)
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    return (size_t)ATOLL_MAX(limit.rlim_cur, old->rlim_cur);
}

static size_t connect_many(struct atoll_raid *raid, const char *text, int *fds, size_t n)
{
    size_t made = 0;

    while (made < n && (fds[made] = atoll_raid_connect(raid, false)) >= 0) {
        (void)send(fds[made], text, strlen(text), MSG_NOSIGNAL);
        made++;
    }
    return made;
}

static void close_many(const int *fds, size_t n)
{
    for (size_t i = 0; i < n; i++)
        (void)close(fds[i]);
}

/* Checks that a new client gets an answer. */
static void newcomer(struct atoll_raid *raid, struct atoll_raid_outcome *o, const char *beside)
{
    static const char request[] =
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    struct atoll_buf answer;
    bool closed;
    int status;

    atoll_buf_init(&answer, 64 * 1024);
    status = atoll_raid_raw(raid, false, request, sizeof(request) - 1, ANSWER_MS, &answer, &closed);
    atoll_buf_done(&answer);
    if (status != 200)
        atoll_outcome_found(o, "beside %s a newcomer was answered %d", beside, status);
    if (raid->box[0] && atoll_raid_sh(raid, raid->box, NULL, "true", NULL, 0) != 0)
        atoll_outcome_found(o, "beside %s no command could be run", beside);
}

/* D12. */

/* Checks that the daemon has ended the slow request that was opened first. */
static void judge_slow_head(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    struct pollfd poll_fd = {.fd = raid->slow_fd, .events = POLLIN};
    int64_t left = raid->slow_since_ms + SLOW_LIMIT_MS - atoll_clock_ms();

    if (raid->slow_fd < 0)
        return;
    if (poll(&poll_fd, 1, (int)ATOLL_MAX(left, 0)) == 0)
        atoll_outcome_found(o, "a head that never ends may take longer than %d s",
                            SLOW_LIMIT_MS / 1000);
}

void atoll_attack_slow_clients(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    static const char head[] = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: ";
    char body[1000], credentials[600];
    int fds[SLOW_CLIENTS];
    struct rlimit old;
    size_t n;

    if (!atoll_raid_box(raid, o))
        return;
    (void)snprintf(body, sizeof(body),
                   "POST /api/sandboxes HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: 100\r\n"
                   "\r\n{",
                   atoll_raid_credentials(raid, credentials, sizeof(credentials)));
    (void)raise_own_limit(&old);
    n = connect_many(raid, head, fds, SLOW_CLIENTS / 2);
    n += connect_many(raid, body, fds + n, SLOW_CLIENTS - n);
    if (n < SLOW_CLIENTS / 2)
        atoll_outcome_unknown(o, "only %zu connections could be made", n);
    newcomer(raid, o, "clients that never finish");
    close_many(fds, n);
    judge_slow_head(raid, o);
    (void)setrlimit(RLIMIT_NOFILE, &old);
    (void)atoll_raid_alive(raid, o, "slow clients");
    atoll_outcome_note(o,
                       "beside %zu clients that never finish their head or body others are served, "
                       "and a head that takes too long is cut off",
                       n);
}

/* The careless server serves one connection after the other. */
static _Noreturn void serve_in_turn(int listener)
{
    char request[4096];
    int fd;

    (void)alarm(CHILD_SECONDS);
    while ((fd = accept(listener, NULL, NULL)) >= 0) {
        size_t used = 0;
        ssize_t k;
        while (used + 1 < sizeof(request) &&
               (k = recv(fd, request + used, sizeof(request) - 1 - used, 0)) > 0) {
            used += (size_t)k;
            request[used] = '\0';
            if (strstr(request, "\r\n\r\n"))
                break;
        }
        (void)send(fd, "HTTP/1.1 200 OK\r\n\r\n", 19, MSG_NOSIGNAL);
        (void)close(fd);
    }
    _exit(0);
}

/* 1: the server answers, 0: timeout. */
static int asks(uint16_t port, const char *text)
{
    ATOLL_AUTOCLOSE int fd = atoll_raid_dial(port, CONTROL_MS);
    char byte;

    return fd >= 0 && send(fd, text, strlen(text), MSG_NOSIGNAL) > 0 && recv(fd, &byte, 1, 0) == 1;
}

void atoll_control_slow_clients(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    static const char whole[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    uint16_t port = 0;
    ATOLL_AUTOCLOSE int listener = atoll_raid_listen(&port);
    ATOLL_AUTOCLOSE int slow = ATOLL_NO_FD;
    int before, after;
    pid_t pid;

    (void)raid;
    pid = listener >= 0 ? fork() : -1;
    if (pid == 0)
        serve_in_turn(listener);
    if (pid < 0) {
        atoll_outcome_unknown(o, "no server could be started: %s", strerror(errno));
        return;
    }
    before = asks(port, whole);
    slow = atoll_raid_dial(port, CONTROL_MS);
    if (slow >= 0)
        (void)send(slow, "GET / HT", 8, MSG_NOSIGNAL);
    after = asks(port, whole);
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    if (before && !after)
        atoll_outcome_found(o, "one slow client kept a careless server from all others");
}

/* D13. */

static ssize_t daemon_descriptors(const struct atoll_raid *raid)
{
    char path[64];
    ssize_t n = 0;
    DIR *dir;

    (void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)raid->daemon);
    dir = raid->daemon > 0 ? opendir(path) : NULL;
    if (!dir)
        return -1;
    while (readdir(dir))
        n++;
    (void)closedir(dir);
    return n;
}

/* Waits until the daemon has closed the connections. */
static ssize_t settle(const struct atoll_raid *raid, ssize_t wanted)
{
    int64_t end = atoll_clock_ms() + ANSWER_MS;
    ssize_t n;

    while ((n = daemon_descriptors(raid)) > wanted && atoll_clock_ms() < end)
        (void)usleep(20 * 1000);
    return n;
}

void atoll_attack_descriptors(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    static int fds[MANY_CLIENTS]; /* static is safe: there is one thread */
    ssize_t before = daemon_descriptors(raid), after;
    struct rlimit old;
    size_t own = raise_own_limit(&old), n;

    n = connect_many(raid, "G", fds, ATOLL_MIN((size_t)MANY_CLIENTS, own - SPARE_FDS));
    newcomer(raid, o, "so many connections");
    close_many(fds, n);
    (void)setrlimit(RLIMIT_NOFILE, &old);
    if (n < 100)
        atoll_outcome_unknown(o, "only %zu connections could be made", n);
    (void)atoll_raid_alive(raid, o, "so many connections");
    /* Allow a few descriptors for other work of the daemon. */
    after = before < 0 ? -1 : settle(raid, before + 16);
    if (before >= 0 && after > before + 16)
        atoll_outcome_found(o, "%zd descriptors of the daemon became %zd", before, after);
    atoll_outcome_note(o,
                       "%zu idle connections: others are served, and the descriptors came back "
                       "(to the last one: tests/unit/test_stream.c)",
                       n);
}

/* The careless server exits when descriptors run out. */
static _Noreturn void accept_until_error(int listener)
{
    const struct rlimit few = {24, 24};

    (void)alarm(CHILD_SECONDS);
    (void)setrlimit(RLIMIT_NOFILE, &few);
    while (accept(listener, NULL, NULL) >= 0)
        continue;
    _exit(0);
}

void atoll_control_descriptors(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    uint16_t port = 0;
    int listener = atoll_raid_listen(&port), fds[48], status = 0;
    int64_t end = atoll_clock_ms() + ANSWER_MS;
    size_t n = 0;
    pid_t pid, ended = 0;

    (void)raid;
    pid = listener >= 0 ? fork() : -1;
    if (pid == 0)
        accept_until_error(listener);
    if (pid < 0) {
        atoll_outcome_unknown(o, "no server could be started: %s", strerror(errno));
        if (listener >= 0)
            (void)close(listener);
        return;
    }
    (void)close(listener);
    while (n < ATOLL_ARRAY_LEN(fds) && (fds[n] = atoll_raid_dial(port, CONTROL_MS)) >= 0)
        n++;
    while ((ended = waitpid(pid, &status, WNOHANG)) == 0 && atoll_clock_ms() < end)
        (void)usleep(10 * 1000);
    close_many(fds, n);
    if (ended == 0) {
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
    } else if (WIFEXITED(status)) {
        atoll_outcome_found(o, "a careless server ended when its descriptors did");
    }
}

/* D24. */

/* Requests the endless output of a command and never reads it. */
static int stall(struct atoll_raid *raid, const char *exec_id)
{
    char request[1000], credentials[600];
    int fd = atoll_raid_connect(raid, false), little = 4096;

    if (fd < 0)
        return fd;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &little, sizeof(little));
    (void)snprintf(request, sizeof(request),
                   "GET /api/sandboxes/%s/execs/%s/output?follow=true HTTP/1.1\r\n"
                   "Host: localhost\r\n%s\r\n",
                   raid->box, exec_id,
                   atoll_raid_credentials(raid, credentials, sizeof(credentials)));
    (void)send(fd, request, strlen(request), MSG_NOSIGNAL);
    return fd;
}

static void judge_gathered(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    ATOLL_AUTOREPLY struct atoll_http_reply reply = {0};
    ATOLL_AUTOJSON json_t *ended = NULL;
    char target[100], body[200];
    const struct atoll_ask ask = {
        .method = "POST", .target = target, .body = body, .size = strlen(body)};
    struct atoll_ask sized = ask;

    (void)snprintf(target, sizeof(target), "/api/sandboxes/%s/execs?wait=true", raid->box);
    (void)snprintf(body, sizeof(body),
                   "{\"cmd\":[\"sh\",\"-c\",\"head -c %zu /dev/zero | tr '\\\\0' x\"]}",
                   FLOOD_BYTES);
    sized.size = strlen(body);
    (void)atoll_raid_ask(raid, &sized, &reply);
    ended = atoll_link_parse_json(atoll_buf_head(&reply.body), atoll_buf_size(&reply.body));
    if (!json_is_true(json_object_get(ended, "stdout_truncated")))
        atoll_outcome_found(o, "%zu bytes of output are not said to be cut (%d)", FLOOD_BYTES,
                            reply.status);
    if (atoll_buf_size(&reply.body) > FLOOD_BYTES / 2)
        atoll_outcome_found(o, "an answer of %zu bytes", atoll_buf_size(&reply.body));
}

void atoll_attack_output(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    int64_t before = atoll_raid_daemon_memory(raid), after;
    char script[200], exec_id[ATOLL_RAID_ID_MAX];
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;

    if (!atoll_raid_box(raid, o))
        return;
    (void)snprintf(script, sizeof(script), "head -c %zu /dev/zero | tr '\\0' x", FLOOD_BYTES);
    if (!atoll_raid_start(raid, raid->box, script, exec_id)) {
        atoll_outcome_unknown(o, "nothing could be started inside");
        return;
    }
    fd = stall(raid, exec_id);
    newcomer(raid, o, "a reader that has stopped");
    judge_gathered(raid, o);
    after = atoll_raid_daemon_memory(raid);
    if (before >= 0 && after > before + MEMORY_KIB)
        atoll_outcome_found(o, "the daemon grew by %lld KiB", (long long)(after - before));
    (void)atoll_raid_alive(raid, o, "a flood of output");
    atoll_outcome_note(o,
                       "a line of 16 MiB, with a reader that has stopped and with one that gathers "
                       "it: bounded, and said to be cut");
}

void atoll_control_output(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    ATOLL_AUTOFREE char *gathered = NULL;
    size_t used = 0;
    int fds[2];
    ssize_t k = 1;
    pid_t pid;

    (void)raid;
    if (pipe(fds) < 0 || (pid = fork()) < 0) {
        atoll_outcome_unknown(o, "no flood could be started: %s", strerror(errno));
        return;
    }
    if (pid == 0) {
        static char block[65536];
        (void)alarm(CHILD_SECONDS);
        memset(block, 'x', sizeof(block));
        for (size_t n = 0; n < FLOOD_BYTES && write(fds[1], block, sizeof(block)) > 0;)
            n += sizeof(block);
        _exit(0);
    }
    (void)close(fds[1]);
    while (k > 0) {
        char *grown = realloc(gathered, used + 65536);
        if (!grown)
            break;
        gathered = grown;
        k = read(fds[0], gathered + used, 65536);
        used += k > 0 ? (size_t)k : 0;
    }
    (void)close(fds[0]);
    (void)waitpid(pid, NULL, 0);
    if (used >= FLOOD_BYTES)
        atoll_outcome_found(o, "a careless collector holds a line of %zu bytes", used);
}

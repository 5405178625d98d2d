/*
 * Residue: of sandboxes that resist destruction, of requests whose client disconnected, and of one
 * sandbox in the next.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "base/clock.h"
#include "base/rand.h"
#include "tools/verify/attacks/attacks_internal.h"

#define END_MS 30000 /* generous, for a loaded machine */
#define GONE_MS 10000
#define ROUNDS 3
#define CHILD_SECONDS 20

/* D26. */

static void resist(struct atoll_raid *raid, const char *id, const char *marker)
{
    static const char *const bombs[] = {"deepdir 2000", "inodes 5000", "disk 64"};
    char script[200], exec_id[ATOLL_RAID_ID_MAX];

    (void)snprintf(script, sizeof(script), "exec " ATOLL_RAID_PROBE " --bomb stubborn 1 %s",
                   marker);
    (void)atoll_raid_start(raid, id, script, exec_id);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bombs); i++) {
        (void)snprintf(script, sizeof(script),
                       "mkdir -p d%zu && cd d%zu && " ATOLL_RAID_PROBE " --bomb %s >/dev/null", i,
                       i, bombs[i]);
        (void)atoll_raid_sh(raid, id, NULL, script, NULL, 0);
    }
}

static bool names_id(const char *dir_name, const char *id, int depth)
{
    DIR *dir = opendir(dir_name);
    struct dirent *entry;
    bool found = false;
    char path[1200];

    while (dir && !found && (entry = readdir(dir))) {
        /* Commands of ended sandboxes stay readable with their record. */
        if (entry->d_name[0] == '.' || strcmp(entry->d_name, "ended") == 0)
            continue;
        found = strstr(entry->d_name, id) != NULL;
        if (!found && depth > 0 && entry->d_type == DT_DIR) {
            (void)snprintf(path, sizeof(path), "%.700s/%s", dir_name, entry->d_name);
            found = names_id(path, id, depth - 1);
        }
    }
    if (dir)
        (void)closedir(dir);
    return found;
}

/* Its record may be there. */
static bool lives(struct atoll_raid *raid, const char *id)
{
    ATOLL_AUTOJSON json_t *view = NULL;
    char target[ATOLL_RAID_ID_MAX + 32];

    (void)snprintf(target, sizeof(target), "/api/sandboxes/%s", id);
    view = atoll_raid_json(raid, "GET", target, NULL);
    return view && strcmp(atoll_link_text(view, "state", ""), "ended") != 0;
}

static void judge_end(struct atoll_raid *raid, struct atoll_raid_outcome *o, const char *id,
                      const char *marker)
{
    char state[512];
    size_t left;

    if ((left = atoll_raid_wait_gone(marker, GONE_MS)) > 0)
        atoll_outcome_found(o, "%zu processes outlived their sandbox", left);
    if (lives(raid, id))
        atoll_outcome_found(o, "a destroyed sandbox is still there");
    if (atoll_raid_state_dir(raid, state, sizeof(state)) && names_id(state, id, 1))
        atoll_outcome_found(o, "a directory of a destroyed sandbox is left");
}

void atoll_attack_destroy(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    char id[ATOLL_RAID_ID_MAX], marker[ATOLL_RAID_ID_MAX];
    size_t seen = 0;
    int64_t start, took;
    int status;

    for (int frozen = 0; frozen < 2; frozen++) {
        atoll_rand_id(marker, 26);
        if (!atoll_raid_make(raid, o, NULL,
                             "{\"limits\":{\"diskMB\":32,\"pids\":64,\"memoryMB\":256,"
                             "\"timeoutSeconds\":900},\"waive\":[\"all\"]}",
                             id) ||
            !atoll_raid_put_probe(raid, o, id))
            return;
        resist(raid, id, marker);
        seen += atoll_raid_processes(marker);
        if (frozen)
            (void)atoll_raid_callf(raid, "POST", "/api/sandboxes/%s/pause", id);
        start = atoll_clock_ms();
        status = atoll_raid_drop(raid, id);
        took = atoll_clock_ms() - start;
        if (status != 204)
            atoll_outcome_found(o,
                                "destroying a sandbox that resists was answered %d after %lld ms",
                                status, (long long)took);
        else if (took > END_MS)
            atoll_outcome_found(o, "destroying took %lld ms", (long long)took);
        judge_end(raid, o, id, marker);
    }
    (void)atoll_raid_alive(raid, o, "sandboxes that resist");
    atoll_outcome_note(o,
                       "deaf and daemonised processes (%zu seen), a deep tree, many files, a full "
                       "disk, once frozen: all gone after %lld ms",
                       seen, (long long)took);
}

/* The careless supervisor sends a signal only to the process that it started. */
void atoll_control_destroy(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    int fds[2];
    pid_t pid, survivor = 0;

    (void)raid;
    if (pipe(fds) < 0 || (pid = fork()) < 0) {
        atoll_outcome_unknown(o, "nothing could be started: %s", strerror(errno));
        return;
    }
    if (pid == 0) {
        pid_t child = fork();
        if (child == 0) {
            struct sigaction deaf = {.sa_handler = SIG_IGN};
            (void)setsid();
            (void)alarm(CHILD_SECONDS);
            (void)sigaction(SIGTERM, &deaf, NULL);
            (void)sigaction(SIGHUP, &deaf, NULL);
            child = getpid();
            (void)!write(fds[1], &child, sizeof(child));
        }
        for (;;)
            (void)pause();
    }
    (void)close(fds[1]);
    if (read(fds[0], &survivor, sizeof(survivor)) != (ssize_t)sizeof(survivor))
        survivor = 0;
    (void)close(fds[0]);
    (void)kill(pid, SIGTERM);
    (void)waitpid(pid, NULL, 0);
    if (survivor > 1 && kill(survivor, 0) == 0) {
        atoll_outcome_found(o, "a daemonised process outlived the one that was killed");
        (void)kill(survivor, SIGKILL);
    }
}

/* D28. */

static void abandon(struct atoll_raid *raid, const char *marker, int after_ms)
{
    ATOLL_AUTOCLOSE int fd = atoll_raid_connect(raid, false);
    char request[1500], body[300], credentials[600];

    if (fd < 0)
        return;
    (void)snprintf(body, sizeof(body),
                   "{\"cmd\":[\"sh\",\"-c\",\"sleep 50; :\",\"%s\"],\"waive\":[\"all\"],"
                   "\"metadata\":{\"abandoned\":\"%s\"}}",
                   marker, marker);
    (void)snprintf(request, sizeof(request),
                   "POST /api/run HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %zu\r\n\r\n%s",
                   atoll_raid_credentials(raid, credentials, sizeof(credentials)), strlen(body),
                   body);
    (void)send(fd, request, strlen(request), MSG_NOSIGNAL);
    (void)usleep((useconds_t)after_ms * 1000);
}

static size_t abandoned_left(struct atoll_raid *raid, const char *marker)
{
    ATOLL_AUTOJSON json_t *list = NULL;
    char target[200];

    (void)snprintf(target, sizeof(target), "/api/sandboxes?metadata=abandoned%%3D%s", marker);
    list = atoll_raid_json(raid, "GET", target, NULL);
    return list ? json_array_size(json_object_get(list, "sandboxes")) : 1;
}

void atoll_attack_abandoned(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    static const int delays_ms[] = {0, 2, 5, 10, 20, 50, 100, 200};
    int64_t end = atoll_clock_ms() + END_MS;
    char marker[ATOLL_RAID_ID_MAX];
    size_t left, processes;
    int fd = atoll_raid_connect(raid, false);

    if (fd < 0) {
        atoll_outcome_unknown(o, "raw bytes cannot be sent: %s", strerror(-fd));
        return;
    }
    (void)close(fd);
    atoll_rand_id(marker, 26);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(delays_ms); i++)
        abandon(raid, marker, delays_ms[i]);
    while ((left = abandoned_left(raid, marker)) > 0 && atoll_clock_ms() < end)
        (void)usleep(50 * 1000);
    processes = atoll_raid_wait_gone(marker, GONE_MS);
    if (left > 0)
        atoll_outcome_found(o, "%zu sandboxes are left of requests whose client went away", left);
    if (processes > 0)
        atoll_outcome_found(o, "%zu processes are left of requests whose client went away",
                            processes);
    (void)atoll_raid_alive(raid, o, "clients that went away");
    atoll_outcome_note(o,
                       "%zu clients went away at different moments of a start: no sandbox and no "
                       "process is left (the daemon killed: tests/fault/test_daemon_kill.py)",
                       ATOLL_ARRAY_LEN(delays_ms));
}

/* The careless server starts a program and leaves it running when the connection ends. */
void atoll_control_abandoned(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    int pair[2];
    pid_t pid;

    (void)raid;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0 || (pid = fork()) < 0) {
        atoll_outcome_unknown(o, "nothing could be started: %s", strerror(errno));
        return;
    }
    if (pid == 0) {
        (void)alarm(CHILD_SECONDS);
        for (;;)
            (void)pause();
    }
    (void)close(pair[0]); /* the client disconnects */
    (void)close(pair[1]); /* the server closes its end and does not stop the program */
    if (waitpid(pid, NULL, WNOHANG) == 0)
        atoll_outcome_found(o, "a program outlived the client it was started for");
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}

/* D29. */

static const char leave_marks[] =
    "for d in /tmp /home/user /dev/shm /var/tmp /root /run /mnt; do echo %s >$d/%s; done "
    "2>/dev/null; echo %s >/etc/%s 2>/dev/null; hostname %s 2>/dev/null; "
    "sh -c 'sleep 1000; :' %s >/dev/null 2>&1 & head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \\n'";
static const char find_marks[] =
    "for d in /tmp /home/user /dev/shm /var/tmp /root /run /mnt /etc; do ls -a $d; done "
    "2>/dev/null | grep -c %s; n=0; for p in /proc/[0-9]*/cmdline; do tr '\\0' ' ' <$p 2>/dev/null | "
    "grep -q '^sh -c sleep 1000; : %s' && n=$((n+1)); done; echo $n; "
    "head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \\n'";

void atoll_attack_residue(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    char id[ATOLL_RAID_ID_MAX], mark[ATOLL_RAID_ID_MAX], script[1500], out[200], random[64] = "";
    char previous[64] = "";

    for (int i = 0; i < ROUNDS; i++) {
        unsigned files = 0, processes = 0;
        atoll_rand_id(mark, 20);
        if (!atoll_raid_make(raid, o, NULL, NULL, id))
            return;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        (void)snprintf(script, sizeof(script), leave_marks, mark, mark, mark, mark, mark, mark);
        (void)atoll_raid_sh(raid, id, "root", script, previous, sizeof(previous));
        (void)atoll_raid_drop(raid, id);
        if (!atoll_raid_make(raid, o, NULL, NULL, id))
            return;
        (void)snprintf(script, sizeof(script), find_marks, mark, mark);
#pragma GCC diagnostic pop
        (void)atoll_raid_sh(raid, id, "root", script, out, sizeof(out));
        if (sscanf(out, "%u %u %63s", &files, &processes, random) != 3)
            atoll_outcome_unknown(o, "what is in a sandbox could not be looked at");
        (void)atoll_raid_drop(raid, id);
        if (files > 0 || processes > 0)
            atoll_outcome_found(o, "a new sandbox holds %u files and %u processes of the last one",
                                files, processes);
        if (strlen(previous) == 32 && strcmp(previous, random) == 0)
            atoll_outcome_found(o, "two sandboxes drew the same random bytes");
    }
    atoll_outcome_note(
        o,
        "%d times made, marked in eight places, destroyed and made again: nothing of "
        "the one before",
        ROUNDS);
}

/* The careless provider reuses a directory. */
void atoll_control_residue(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    char dir[600], file[700], text[64];

    (void)atoll_raid_path(raid, "slot", dir, sizeof(dir));
    (void)snprintf(file, sizeof(file), "%s/%s", dir, raid->mark);
    /* The first tenant. */
    if (mkdir(dir, 0700) < 0 || atoll_raid_write_file(file, "mine", 4) < 0) {
        atoll_outcome_unknown(o, "no directory could be made: %s", strerror(errno));
        return;
    }
    /* The second one. */
    if (mkdir(dir, 0700) < 0 && errno == EEXIST &&
        atoll_raid_read_file(file, text, sizeof(text)) == 4)
        atoll_outcome_found(o, "a directory that is used again holds the file of the one before");
}

/*
 * Lies of code inside to the daemon: that a command has ended, or that a reused pid is still the same
 * process. Also the privileges that an attacker would have who takes over the daemon's process.
 */
#include <dirent.h>
#include <errno.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include "base/buf.h"
#include "tools/verify/attacks/attacks_internal.h"

/* Frames of the agent's protocol: docs/agent-protocol.md, section 1. */
#define FRAME_HEAD 12
#define FRAME_OUTPUT 4
#define FRAME_EXIT 5
#define TRUE_STATUS 7

/* D25. */

static int add_frame(struct atoll_buf *out, uint32_t claims, uint16_t type, uint16_t fds,
                     uint32_t id, const void *payload, size_t n)
{
    uint8_t head[FRAME_HEAD];
    int r;

    for (int i = 0; i < 4; i++) {
        head[i] = (uint8_t)(claims >> 8 * i);
        head[8 + i] = (uint8_t)(id >> 8 * i);
    }
    for (int i = 0; i < 2; i++) {
        head[4 + i] = (uint8_t)(type >> 8 * i);
        head[6 + i] = (uint8_t)(fds >> 8 * i);
    }
    r = atoll_buf_append(out, head, sizeof(head));
    return r < 0 ? r : atoll_buf_append(out, payload, n);
}

/* Frames that report the end of a command (for command numbers 0 to 31), output, and garbage. */
static int forge(struct atoll_buf *out)
{
    uint8_t payload[64] = {0};
    int r = 0;

    for (uint8_t exec = 0; r == 0 && exec < 32; exec++) {
        payload[0] = exec;
        payload[8] = 1; /* exited, with 0 */
        r = add_frame(out, sizeof(payload), FRAME_EXIT, 0, 0, payload, sizeof(payload));
    }
    if (r == 0)
        r = add_frame(out, 5, FRAME_OUTPUT, 0, 0, "hello", 5);
    if (r == 0)
        r = add_frame(out, UINT32_MAX, FRAME_EXIT, UINT16_MAX, UINT32_MAX, "", 0);
    for (uint16_t type = 0; r == 0 && type < 100; type++)
        r = add_frame(out, 0, type, 0, type, "", 0);
    return r < 0 ? r : atoll_buf_appends(out, "{\"type\":\"end_of_execution\"}\n");
}

static void forge_as(struct atoll_raid *raid, struct atoll_raid_outcome *o, const char *user,
                     const struct atoll_buf *forged)
{
    /* Write the frames to standard output and error, and to all descriptors of the agent. */
    static const char script[] =
        "cat forged; cat forged >&2; for f in /proc/1/fd/* /proc/self/fd/*; "
        "do timeout 1 sh -c 'cat forged >\"$1\"' sh $f; done "
        ">/dev/null 2>&1; exit " ATOLL_STRINGIFY(TRUE_STATUS);
    const char *const argv[] = {"sh", "-c", script, NULL};
    const struct atoll_client_command command = {.size = sizeof(command),
                                                 .argv = argv,
                                                 .user = user,
                                                 .cwd = "/home/user",
                                                 .timeout_seconds = 60};
    const struct atoll_client_output *said;
    struct atoll_client_result *result = NULL;
    struct atoll_client_error error;

    if (atoll_client_exec(raid->v->client, raid->box, &command, &result, &error) < 0) {
        atoll_outcome_found(o, "a command that forged frames was lost: %.100s", error.message);
        return;
    }
    said = &result->output[ATOLL_CLIENT_STDOUT];
    if (result->end != ATOLL_CLIENT_EXITED || result->exit_code != TRUE_STATUS)
        atoll_outcome_found(o, "a command that exited with %d is said to have ended with %d",
                            TRUE_STATUS, result->status);
    /* The output may contain the frames more than once: /proc can reopen a pipe. */
    if (said->size < atoll_buf_size(forged) ||
        memcmp(said->bytes, atoll_buf_head(forged), atoll_buf_size(forged)) != 0)
        atoll_outcome_found(o, "of %zu forged bytes %zu came as output", atoll_buf_size(forged),
                            said->size);
    atoll_client_result_free(result);
}

/* Forges the lines with which an interpreter reports results. */
static void forge_results(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    static const char code[] =
        "{\"code\":\"l='{\\\"type\\\":\\\"result\\\",\\\"text\\\":\\\"forged\\\"}'; echo \\\"$l\\\"; "
        "echo \\\"$l\\\" >&2; for f in 3 4 5 6 7 8 9; do { echo \\\"$l\\\" >&$f; } 2>/dev/null; "
        "done; true\",\"timeoutSeconds\":10}";
    ATOLL_AUTOJSON json_t *context = NULL, *answer = NULL;
    ATOLL_AUTOFREE char *results = NULL;
    char target[200];

    (void)snprintf(target, sizeof(target), "/api/sandboxes/%s/contexts", raid->box);
    context = atoll_raid_json(raid, "POST", target, "{\"language\":\"bash\"}");
    if (!context)
        return; /* this sandbox has no interpreter */
    (void)snprintf(target, sizeof(target), "/api/sandboxes/%s/contexts/%s/execute", raid->box,
                   atoll_link_text(context, "context_id", "x"));
    answer = atoll_raid_json(raid, "POST", target, code);
    results = json_dumps(json_object_get(answer, "results"), JSON_ENCODE_ANY);
    if (results && strstr(results, "forged"))
        atoll_outcome_found(o, "code made up a result of its interpreter");
}

void atoll_attack_frames(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    struct atoll_buf forged;
    char out[64];

    if (!atoll_raid_box(raid, o))
        return;
    atoll_buf_init(&forged, 64 * 1024);
    if (forge(&forged) < 0 ||
        atoll_client_file_write(raid->v->client, raid->box, NULL, "forged", 0644,
                                atoll_buf_head(&forged), atoll_buf_size(&forged), NULL) < 0) {
        atoll_outcome_unknown(o, "the forged frames could not be put into a sandbox");
    } else {
        forge_as(raid, o, NULL, &forged);
        forge_as(raid, o, "root", &forged);
        forge_results(raid, o);
    }
    atoll_buf_done(&forged);
    if (atoll_raid_sh(raid, raid->box, NULL, "echo here", out, sizeof(out)) != 0)
        atoll_outcome_found(o, "after forged frames the sandbox no longer answers");
    (void)atoll_raid_alive(raid, o, "forged frames");
    atoll_outcome_note(o, "frames that say a command has ended, in its output and at the agent's "
                          "descriptors: output, byte by byte (hostile agents: "
                          "tests/fuzz/fuzz_agent.c)");
}

/* The careless supervisor reads control messages and output from one stream. */
void atoll_control_frames(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    struct atoll_buf stream;
    const uint8_t *p;
    size_t left;
    int status = -1;

    (void)raid;
    atoll_buf_init(&stream, 64 * 1024);
    if (forge(&stream) < 0) {
        atoll_buf_done(&stream);
        return;
    }
    p = atoll_buf_head(&stream);
    left = atoll_buf_size(&stream);
    while (left >= FRAME_HEAD && status < 0) {
        size_t n = p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16 | (size_t)p[3] << 24;
        if (p[4] == FRAME_EXIT && n + FRAME_HEAD <= left)
            status = p[FRAME_HEAD + 9];
        n = ATOLL_MIN(n, left - FRAME_HEAD);
        p += FRAME_HEAD + n;
        left -= FRAME_HEAD + n;
    }
    atoll_buf_done(&stream);
    if (status == 0)
        atoll_outcome_found(o,
                            "a supervisor with control and output in one stream believed that the "
                            "command exited with 0, which will exit with %d",
                            TRUE_STATUS);
}

/* D27. */

void atoll_attack_pid_reuse(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    char ended[ATOLL_RAID_ID_MAX], running[ATOLL_RAID_ID_MAX], target[200];
    static const char *const signals[] = {"{\"signal\":\"SIGKILL\"}", "{\"signal\":9}",
                                          "{\"signal\":\"SIGTERM\"}"};
    ATOLL_AUTOJSON json_t *exec = NULL;

    if (!atoll_raid_box(raid, o))
        return;
    if (!atoll_raid_start(raid, raid->box, "exit 0", ended) ||
        !atoll_raid_start(raid, raid->box, "sleep 60", running)) {
        atoll_outcome_unknown(o, "nothing could be started inside");
        return;
    }
    (void)snprintf(target, sizeof(target), "/api/sandboxes/%s/execs/%s/output?follow=true",
                   raid->box, ended);
    (void)atoll_raid_call(raid, "GET", target, NULL);
    /* Make the kernel reuse pids. */
    (void)atoll_raid_sh(raid, raid->box, NULL,
                        "i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i+1)); done", NULL, 0);
    (void)snprintf(target, sizeof(target), "/api/sandboxes/%s/execs/%s/signal", raid->box, ended);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(signals); i++) {
        int status = atoll_raid_call(raid, "POST", target, signals[i]);
        if (status != 409)
            atoll_outcome_found(o, "a signal for a command that has ended was answered %d", status);
    }
    (void)snprintf(target, sizeof(target), "/api/sandboxes/%s/execs/%s", raid->box, running);
    exec = atoll_raid_json(raid, "GET", target, NULL);
    if (strcmp(atoll_link_text(exec, "state", ""), "running") != 0)
        atoll_outcome_found(o, "a signal for one command ended another");
    (void)snprintf(target, sizeof(target), "/api/sandboxes/%s/execs/%s/signal", raid->box, running);
    (void)atoll_raid_call(raid, "POST", target, signals[0]);
    atoll_outcome_note(o,
                       "signals for a command that has ended are refused, even if its pid is used "
                       "again (tests/unit/test_agent_kill.c reuses one)");
}

/* Makes a child with the pid of one that has ended; ENOSYS and EPERM if we may not choose pids. */
static pid_t clone_with_pid(pid_t pid)
{
    struct clone_args args = {
        .exit_signal = SIGCHLD, .set_tid = (uint64_t)(uintptr_t)&pid, .set_tid_size = 1};
    long r = syscall(SYS_clone3, &args, sizeof(args));

    if (r == 0)
        for (;;)
            (void)pause();
    return (pid_t)r;
}

/* The careless supervisor remembers a pid and sends a signal to it much later. */
static int reuse_a_pid(void)
{
    int status = 0;
    pid_t pid = fork(), again;

    if (pid == 0)
        _exit(0);
    if (pid < 0 || waitpid(pid, NULL, 0) != pid)
        return 2;
    again = clone_with_pid(pid);
    if (again < 0)
        return 2;
    (void)kill(pid, SIGKILL);
    return waitpid(again, &status, 0) == again && WIFSIGNALED(status) ? 1 : 0;
}

void atoll_control_pid_reuse(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    int status = 0;
    pid_t pid = fork();

    (void)raid;
    if (pid == 0) {
        int r = reuse_a_pid();
        pid_t inner;
        if (r != 2)
            _exit(r);
        /* An ordinary user may choose pids in its own pid namespace. */
        if (unshare(CLONE_NEWUSER | CLONE_NEWPID) < 0 || (inner = fork()) < 0)
            _exit(2);
        if (inner == 0)
            _exit(reuse_a_pid());
        if (waitpid(inner, &status, 0) != inner || !WIFEXITED(status))
            _exit(2);
        _exit(WEXITSTATUS(status));
    }
    if (pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 1)
        atoll_outcome_found(o, "a signal to a remembered number killed another process");
    else
        atoll_outcome_unknown(o, "process numbers cannot be chosen here");
}

/* D31. */

struct posture {
    uint64_t caps;
    bool no_new_privs, filtered, root;
    unsigned threads;
};

static void add_thread(const char *path, struct posture *posture)
{
    static const char *const sets[] = {"CapEff", "CapPrm", "CapInh", "CapAmb"};
    char text[64];

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(sets); i++)
        if (atoll_raid_status_field(path, sets[i], text, sizeof(text)))
            posture->caps |= strtoull(text, NULL, 16);
    if (!atoll_raid_status_field(path, "NoNewPrivs", text, sizeof(text)))
        return; /* it has just ended */
    posture->no_new_privs &= text[0] == '1';
    posture->filtered &= atoll_raid_status_field(path, "Seccomp", text, sizeof(text)) &&
                         (text[0] == '2' || ATOLL_IS_SANITIZED);
    posture->root |= atoll_raid_status_field(path, "Uid", text, sizeof(text)) && text[0] == '0';
    posture->threads++;
}

/* The union over all threads: each has its own credentials, but all share the memory. */
static bool read_posture(pid_t pid, struct posture *ret)
{
    char path[300];
    struct dirent *entry;
    DIR *dir;

    *ret = (struct posture){.no_new_privs = true, .filtered = true};
    (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    dir = pid > 0 ? opendir(path) : NULL;
    while (dir && (entry = readdir(dir)))
        if (entry->d_name[0] != '.') {
            (void)snprintf(path, sizeof(path), "/proc/%d/task/%.20s/status", (int)pid,
                           entry->d_name);
            add_thread(path, ret);
        }
    if (dir)
        (void)closedir(dir);
    return ret->threads > 0;
}

void atoll_attack_privilege(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    struct posture posture;

    if (!read_posture(raid->daemon, &posture)) {
        atoll_outcome_unknown(o, "the daemon's process cannot be seen from here (tests: "
                                 "tests/security/test_attacks.py)");
        return;
    }
    if (posture.caps != 0)
        atoll_outcome_found(o,
                            "the process that reads requests has a thread with capabilities %llx",
                            (unsigned long long)posture.caps);
    if (!posture.no_new_privs)
        atoll_outcome_found(o, "the process that reads requests has a thread that may gain some");
    if (!posture.filtered)
        atoll_outcome_found(o,
                            "the process that reads requests has a thread with all system calls");
    atoll_outcome_note(o,
                       "process %d, which reads requests, has no capability in any of its %u "
                       "threads, can gain none and has the system calls of a sandbox%s; what needs "
                       "more is in atoll-spawn",
                       (int)raid->daemon, posture.threads,
                       posture.root ? ", though it reads what root can read" : "");
}

/* The control is this process: an ordinary program without confinement. */
void atoll_control_privilege(struct atoll_raid *raid, struct atoll_raid_outcome *o)
{
    struct posture posture;

    (void)raid;
    if (!read_posture(getpid(), &posture))
        atoll_outcome_unknown(o, "/proc cannot be read");
    else if (posture.caps != 0 || !posture.no_new_privs || !posture.filtered)
        atoll_outcome_found(o, "an ordinary program like this one has capabilities %llx, %s and %s",
                            (unsigned long long)posture.caps,
                            posture.no_new_privs ? "can gain none" : "may gain more",
                            posture.filtered ? "not all system calls" : "all system calls");
}

/*
 * The end of commands and its cause. The kernel reports how a process died; the sender of a signal
 * is known only for signals that the agent sent, and an out-of-memory kill by the counter in the
 * cgroup. Nothing else is inferred.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include "agent/agent_internal.h"
#include "base/clock.h"
#include "base/fd.h"

/* Zombies reaped per round, so that many of them do not block the loop. */
#define REAP_MAX 256
/* A background process may keep the pipes open: the output counts as complete after QUIET_MS
 * without output, or SETTLE_MAX_MS after the exit. */
#define QUIET_MS 100
#define SETTLE_MAX_MS 1000
/* More than a terminal can buffer; the amount cannot be queried. */
#define TERMINAL_MAX ((size_t)256 * 1024)

/* The number after `key` in a small cgroup file ("" for a file with a single number). */
static uint64_t read_counter(int fd, const char *key)
{
    char text[512];
    const char *at;
    ssize_t n;

    if (fd < 0)
        return 0;
    n = pread(fd, text, sizeof(text) - 1, 0);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    at = *key ? strstr(text, key) : text;
    return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

uint64_t atoll_agent_oom_kills(const struct atoll_agent *a)
{
    return read_counter(a->config.oom_fd, "oom_kill ");
}

static uint64_t memory_limit(const struct atoll_agent *a)
{
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;

    if (!a->config.memory_limit_file)
        return a->config.memory_limit_bytes;
    fd = open(a->config.memory_limit_file, O_RDONLY | O_CLOEXEC);
    return fd >= 0 ? read_counter(fd, "") : a->config.memory_limit_bytes;
}

static void read_comm(struct atoll_agent *a, pid_t pid, char *out, size_t cap)
{
    char path[32];
    int n;

    (void)snprintf(path, sizeof(path), "%d/comm", pid);
    n = atoll_fd_read_file(a->proc_fd, path, out, cap);
    out[n > 0 ? n - 1 : 0] = '\0'; /* without its newline */
}

/* True if an out-of-memory kill happened while the command ran that is not attributed to another
 * command. */
static bool claim_oom_kill(struct atoll_agent_exec *exec, uint64_t kills)
{
    uint64_t known = ATOLL_MAX(exec->oom_base, exec->agent->oom_attributed);

    if (kills <= known)
        return false;
    exec->agent->oom_attributed = known + 1;
    return true;
}

static void judge_signal(struct atoll_agent_exec *exec, int signal, uint64_t kills)
{
    struct atoll_am_exit *e = &exec->exit;

    e->signal = signal;
    if (signal == SIGKILL && exec->timed_out) {
        e->kind = ATOLL_END_TIMED_OUT;
    } else if (exec->signals_sent & (1ull << (signal - 1))) {
        e->kind = ATOLL_END_KILLED_BY;
        e->who = exec->who;
    } else if (signal == SIGKILL && claim_oom_kill(exec, kills)) {
        e->kind = ATOLL_END_OOM_KILLED;
        e->oom_pid = (uint32_t)exec->pid;
        e->oom_process = exec->oom_process;
    } else {
        e->kind = ATOLL_END_SIGNALED;
    }
}

static void judge(struct atoll_agent_exec *exec, int status, const struct rusage *ru)
{
    const struct atoll_agent *a = exec->agent;
    uint64_t kills = atoll_agent_oom_kills(a);
    struct atoll_am_exit *e = &exec->exit;

    *e = (struct atoll_am_exit){
        .exec = exec->id,
        .ended_unix_ms = atoll_clock_unix_ms(),
        .user_us = (uint64_t)ru->ru_utime.tv_sec * 1000000 + (uint64_t)ru->ru_utime.tv_usec,
        .system_us = (uint64_t)ru->ru_stime.tv_sec * 1000000 + (uint64_t)ru->ru_stime.tv_usec,
        .max_rss_bytes = (uint64_t)ru->ru_maxrss * 1024,
    };
    if (WIFEXITED(status)) {
        e->kind = ATOLL_END_EXITED;
        e->code = WEXITSTATUS(status);
    } else {
        judge_signal(exec, WTERMSIG(status), kills);
    }
    if (kills > exec->oom_base) {
        e->oom_kills = (uint32_t)ATOLL_MIN(kills - exec->oom_base, (uint64_t)UINT32_MAX);
        e->oom_peak_bytes = read_counter(a->config.peak_fd, "");
        e->oom_limit_bytes = memory_limit(a);
    }
}

/* The output is complete: EXIT may be sent after it. */
static void finish(struct atoll_agent_exec *exec)
{
    exec->ended = true;
    atoll_timer_cancel(&exec->settle);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(exec->streams); i++)
        atoll_agent_stream_abandon(&exec->streams[i]);
    exec->exit.stdout_bytes = exec->streams[0].produced;
    exec->exit.stderr_bytes = exec->streams[1].produced;
    atoll_agent_output_ready(exec);
}

static void settle_timer(void *arg)
{
    atoll_agent_exec_settle(arg);
}

void atoll_agent_exec_settle(struct atoll_agent_exec *exec)
{
    int64_t now = atoll_loop_now_ms(exec->agent->loop);
    int64_t quiet = now - ATOLL_MAX(exec->last_output_ms, exec->reaped_ms);
    bool open = false;

    if (exec->ended)
        return;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(exec->streams); i++) {
        if (exec->streams[i].owed > 0)
            return; /* bytes of the command itself: no time limit */
        open |= exec->streams[i].fd >= 0;
    }
    if (!open || quiet >= QUIET_MS || now - exec->reaped_ms >= SETTLE_MAX_MS)
        finish(exec);
    else
        atoll_timer_set(&exec->settle, exec->agent->loop, QUIET_MS - quiet, settle_timer, exec);
}

static void exec_reaped(struct atoll_agent_exec *exec, int status, const struct rusage *ru)
{
    exec->reaped = true;
    exec->reaped_ms = atoll_loop_now_ms(exec->agent->loop);
    atoll_timer_cancel(&exec->timeout);
    judge(exec, status, ru);
    atoll_agent_stdin_done(exec);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(exec->streams); i++) {
        struct atoll_agent_stream *s = &exec->streams[i];
        int waiting = 0;
        if (s->fd < 0)
            continue;
        if (exec->pty)
            s->owed = TERMINAL_MAX;
        else if (ioctl(s->fd, FIONREAD, &waiting) == 0 && waiting > 0)
            s->owed = (size_t)waiting;
        atoll_agent_stream_drain(s);
    }
    atoll_agent_exec_settle(exec);
}

static void reap_one(struct atoll_agent *a, const siginfo_t *info)
{
    pid_t pid = info->si_pid;
    struct atoll_agent_exec *exec = atoll_agent_exec_by_pid(a, pid);
    struct rusage ru;
    int status;

    /* The name can be read until the zombie is reaped. */
    if (exec && info->si_code == CLD_KILLED && info->si_status == SIGKILL)
        read_comm(a, pid, exec->oom_process, sizeof(exec->oom_process));
    if (wait4(pid, &status, WNOHANG, &ru) != pid)
        return;
    if (exec)
        exec_reaped(exec, status, &ru);
    else
        (void)atoll_agent_sudo_reaped(a, pid, status);
}

void atoll_agent_reap(struct atoll_agent *a)
{
    a->zombies_left = true;
    for (int i = 0; i < REAP_MAX; i++) {
        siginfo_t info = {0};
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0) {
            a->zombies_left = false;
            return;
        }
        reap_one(a, &info);
    }
}

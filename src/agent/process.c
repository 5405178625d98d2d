/*
 * The processes of the sandbox, from /proc. A process may exit at any time, and its pid may then
 * belong to another process.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include "agent/agent_internal.h"
#include "base/fd.h"
#include "base/text.h"

/* More than any pids limit; processes beyond it are not listed. */
#define PROCESSES_MAX 65536
#define DENTS_BYTES (32 * 1024)
#define COMMAND_MAX 512

/* Field numbers of /proc/PID/stat; the state is 0. */
enum {
    STAT_PARENT = 1,
    STAT_SESSION = 3,
    STAT_UTIME = 11,
    STAT_STIME = 12,
    STAT_CUTIME = 13,
    STAT_CSTIME = 14,
    STAT_START = 19,
    STAT_RSS = 21,
    STAT_FIELDS,
};

static uint64_t ticks_to_us(uint64_t ticks)
{
    return ticks * 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);
}

/* The name in the second field may contain any character, so the numbers start after the last
 * ')'. */
static int parse_stat(const char *text, struct atoll_agent_process *p)
{
    const char *at = strrchr(text, ')');
    uint64_t f[STAT_FIELDS] = {0};

    if (!at || at[1] != ' ' || at[2] == '\0')
        return -EINVAL;
    p->state = at[2];
    at += 3;
    for (int i = STAT_PARENT; i < STAT_FIELDS; i++) {
        char *end;
        f[i] = (uint64_t)strtoll(at, &end, 10);
        if (end == at)
            return -EINVAL;
        at = end;
    }
    p->parent = (pid_t)f[STAT_PARENT];
    p->session = (pid_t)f[STAT_SESSION];
    p->start = f[STAT_START];
    p->own_cpu_us = ticks_to_us(f[STAT_UTIME] + f[STAT_STIME]);
    p->cpu_us = p->own_cpu_us + ticks_to_us(f[STAT_CUTIME] + f[STAT_CSTIME]);
    p->rss_bytes = f[STAT_RSS] * (uint64_t)sysconf(_SC_PAGESIZE);
    return 0;
}

int atoll_agent_process_read(struct atoll_agent *a, pid_t pid,
                             struct atoll_agent_process *ret_process)
{
    struct atoll_agent_process p = {.pid = pid};
    char path[32], text[1024];
    int r;

    (void)snprintf(path, sizeof(path), "%d/stat", pid);
    r = atoll_fd_read_file(a->proc_fd, path, text, sizeof(text));
    if (r < 0)
        return r == -ENOENT ? -ESRCH : r;
    r = parse_stat(text, &p);
    if (r == 0)
        *ret_process = p;
    return r;
}

static int add(struct atoll_agent_processes *ps, const struct atoll_agent_process *p)
{
    if (ps->len == ps->cap) {
        size_t cap = ATOLL_MAX(ps->cap * 2, (size_t)64);
        struct atoll_agent_process *grown;
        if (cap > PROCESSES_MAX)
            return -ENOSPC;
        grown = realloc(ps->items, cap * sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        ps->items = grown;
        ps->cap = cap;
    }
    ps->items[ps->len++] = *p;
    return 0;
}

static int add_named(struct atoll_agent *a, const char *name, struct atoll_agent_processes *ps)
{
    struct atoll_agent_process p;
    uint64_t pid;

    if (atoll_text_u64(name, 1, INT32_MAX, &pid) < 0 || (pid_t)pid == a->pid)
        return 0;
    if (atoll_agent_process_read(a, (pid_t)pid, &p) < 0)
        return 0; /* gone meanwhile */
    return add(ps, &p);
}

int atoll_agent_processes_read(struct atoll_agent *a, struct atoll_agent_processes *ret_processes)
{
    /* /proc lists pids in ascending order. */
    char *dents = (char *)atoll_agent_scratch;
    struct atoll_agent_processes ps = {0};
    long n;
    int r = 0;

    if (lseek(a->proc_fd, 0, SEEK_SET) < 0)
        return -errno;
    while (r == 0 && (n = syscall(SYS_getdents64, a->proc_fd, dents, DENTS_BYTES)) > 0)
        for (long at = 0; r == 0 && at < n;) {
            const struct atoll_agent_dent *d = (const void *)(dents + at);
            r = add_named(a, d->name, &ps);
            at += d->reclen;
        }
    if (r == -ENOMEM) {
        atoll_agent_processes_done(&ps);
        return r;
    }
    *ret_processes = ps;
    return 0;
}

void atoll_agent_processes_done(struct atoll_agent_processes *processes)
{
    free(processes->items);
    *processes = (struct atoll_agent_processes){0};
}

/* The arguments separated by spaces, or the process name if there are none. */
static void read_command(struct atoll_agent *a, pid_t pid, char *out, size_t cap)
{
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    char path[32];
    ssize_t n;

    (void)snprintf(path, sizeof(path), "%d/cmdline", pid);
    fd = openat(a->proc_fd, path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? 0 : read(fd, out, cap - 1);
    while (n > 0 && out[n - 1] == '\0')
        n--;
    if (n <= 0) {
        int r;
        (void)snprintf(path, sizeof(path), "%d/comm", pid);
        r = atoll_fd_read_file(a->proc_fd, path, out, cap);
        out[r > 0 ? r - 1 : 0] = '\0';
        return;
    }
    out[n] = '\0';
    for (ssize_t i = 0; i < n; i++)
        if (out[i] == '\0')
            out[i] = ' ';
}

/* The owner of /proc/PID is the process's effective user. */
static uint32_t read_uid(struct atoll_agent *a, pid_t pid)
{
    char path[16];
    struct stat st;

    (void)snprintf(path, sizeof(path), "%d", pid);
    return fstatat(a->proc_fd, path, &st, 0) < 0 ? 0 : st.st_uid;
}

int atoll_agent_on_process_list(struct atoll_agent *a, uint32_t request, const void *message,
                                struct atoll_error *err)
{
    struct atoll_agent_processes ps;
    int r = atoll_agent_processes_read(a, &ps);

    (void)message;
    if (r < 0)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, -r, "cannot list the processes");
    for (size_t i = 0; i < ps.len; i++) {
        const struct atoll_agent_process *p = &ps.items[i];
        char command[COMMAND_MAX];
        struct atoll_am_process msg = {.pid = (uint32_t)p->pid,
                                       .parent = (uint32_t)p->parent,
                                       .state = (uint8_t)p->state,
                                       .rss_bytes = p->rss_bytes,
                                       .cpu_us = p->own_cpu_us,
                                       .command = command};
        if (!atoll_agent_conn_has_room(a)) {
            r = atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOBUFS,
                           "there are too many processes to list (%zu)", ps.len);
            break;
        }
        read_command(a, p->pid, command, sizeof(command));
        msg.uid = read_uid(a, p->pid);
        atoll_agent_part(a, request, &atoll_am_process_desc, &msg);
    }
    atoll_agent_processes_done(&ps);
    return r;
}

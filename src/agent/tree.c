/*
 * All processes that a command started. A process can shed any single mark, so three are combined:
 * descendants by parent pid, processes of its session, and processes whose environment contains its
 * ATOLL_EXEC. A process that forked twice has another parent, one that called setsid() another
 * session, but most keep their environment.
 *
 * To kill, processes are first stopped and then killed when a scan finds no new ones; otherwise a
 * process that forks quickly could escape.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include "agent/agent_internal.h"

#define ROUNDS_MAX 32
/* Maximum length of an environment that is searched. */
#define ENVIRON_MAX ATOLL_AGENT_SCRATCH

struct tree {
    struct atoll_agent *agent;
    const struct atoll_agent_exec *exec;
    struct atoll_agent_processes now; /* this round */
    uint8_t *member;                  /* owned, one per process of `now` */
    struct atoll_agent_processes hit; /* stopped or signalled already */
};

static int by_pid(const void *a, const void *b)
{
    const struct atoll_agent_process *x = a, *y = b;
    return (x->pid > y->pid) - (x->pid < y->pid);
}

static struct atoll_agent_process *lookup(const struct atoll_agent_processes *ps, pid_t pid)
{
    struct atoll_agent_process key = {.pid = pid};

    return ps->len == 0 ? NULL : bsearch(&key, ps->items, ps->len, sizeof(key), by_pid);
}

/* True if the block of NUL-separated variables contains the mark of this command. */
static bool has_mark(const char *text, size_t n, const char *mark)
{
    char want[sizeof(ATOLL_AGENT_MARK) + 32];
    int len = snprintf(want, sizeof(want), "%s%s", ATOLL_AGENT_MARK, mark);

    for (const char *at = text; at < text + n;) {
        const char *end = memchr(at, '\0', (size_t)(text + n - at));
        if (!end)
            end = text + n;
        if (end - at == len && memcmp(at, want, (size_t)len) == 0)
            return true;
        at = end + 1;
    }
    return false;
}

/* Only the owner may read an environment, so the agent reads it as the owner. */
static bool is_marked(struct tree *t, pid_t pid)
{
    char *text = (char *)atoll_agent_scratch;
    char path[32];
    struct stat st;
    size_t n = 0;
    ssize_t got;
    int fd;

    (void)snprintf(path, sizeof(path), "%d", pid);
    if (fstatat(t->agent->proc_fd, path, &st, 0) < 0 ||
        atoll_agent_become_ids(t->agent, st.st_uid, st.st_gid) < 0)
        return false;
    (void)snprintf(path, sizeof(path), "%d/environ", pid);
    fd = openat(t->agent->proc_fd, path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && n < ENVIRON_MAX && (got = read(fd, text + n, ENVIRON_MAX - n)) > 0)
        n += (size_t)got;
    if (fd >= 0)
        (void)close(fd);
    atoll_agent_unbecome(t->agent);
    return has_mark(text, n, t->exec->mark);
}

/* The pid of a reaped command may belong to another process by now. */
static bool is_root(const struct tree *t, const struct atoll_agent_process *p)
{
    return !t->exec->reaped && (p->pid == t->exec->pid || p->session == t->exec->pid);
}

static bool in_tree(const struct tree *t, pid_t pid)
{
    const struct atoll_agent_process *p = lookup(&t->now, pid);
    return p && t->member[p - t->now.items];
}

/* Marks members of `now`: roots first, then processes whose parent is a member, until a pass adds
 * nothing. A parent usually has the lower pid, so two passes are usual. */
static void find_members(struct tree *t)
{
    bool grew = true;

    for (size_t i = 0; i < t->now.len; i++) {
        const struct atoll_agent_process *p = &t->now.items[i];
        const struct atoll_agent_process *old = lookup(&t->hit, p->pid);
        t->member[i] = (old && old->start == p->start) || is_root(t, p) || is_marked(t, p->pid);
    }
    while (grew) {
        grew = false;
        for (size_t i = 0; i < t->now.len; i++)
            if (!t->member[i] && in_tree(t, t->now.items[i].parent))
                t->member[i] = grew = true;
    }
}

/* Signals exactly the process that was scanned: its pid may belong to another one by now. */
static void signal_process(struct tree *t, const struct atoll_agent_process *p, int signal)
{
    ATOLL_AUTOCLOSE int fd = (int)syscall(SYS_pidfd_open, p->pid, 0);
    struct atoll_agent_process again;

    if (p->pid == 1 || p->pid == t->agent->pid || p->state == 'Z')
        return;
    if (fd >= 0 &&
        (atoll_agent_process_read(t->agent, p->pid, &again) < 0 || again.start != p->start))
        return;
    if (fd >= 0)
        (void)syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0);
    else if (errno == ENOSYS)
        (void)kill(p->pid, signal);
}

/* One scan of all processes. Returns the number of new members, or -errno. */
static int round_of(struct tree *t, int signal)
{
    int fresh = 0;
    size_t kept = 0;
    int r = atoll_agent_processes_read(t->agent, &t->now);

    if (r < 0)
        return r;
    t->member = calloc(t->now.len + 1, 1);
    if (!t->member) {
        atoll_agent_processes_done(&t->now);
        return -ENOMEM;
    }
    find_members(t);
    for (size_t i = 0; i < t->now.len; i++) {
        const struct atoll_agent_process *p = &t->now.items[i];
        const struct atoll_agent_process *old = lookup(&t->hit, p->pid);
        if (!t->member[i] || p->state == 'Z' || (old && old->start == p->start))
            continue;
        signal_process(t, p, signal);
        fresh++;
    }
    /* `hit` becomes the current members: dead processes need not be remembered. */
    for (size_t i = 0; i < t->now.len; i++)
        if (t->member[i])
            t->now.items[kept++] = t->now.items[i];
    t->now.len = kept;
    free(ATOLL_TAKE_PTR(t->member));
    atoll_agent_processes_done(&t->hit);
    t->hit = t->now;
    t->now = (struct atoll_agent_processes){0};
    return fresh;
}

static void kill_hit(struct tree *t)
{
    for (size_t i = 0; i < t->hit.len; i++)
        signal_process(t, &t->hit.items[i], SIGKILL);
}

int atoll_agent_tree_kill(struct atoll_agent *a, const struct atoll_agent_exec *exec, int signal)
{
    struct tree t = {.agent = a, .exec = exec};
    int fresh = round_of(&t, signal == SIGKILL ? SIGSTOP : signal);
    int count = ATOLL_MAX(fresh, 0);

    if (signal == SIGKILL) {
        for (int i = 1; i < ROUNDS_MAX && fresh > 0; i++) {
            fresh = round_of(&t, SIGSTOP);
            count += ATOLL_MAX(fresh, 0);
        }
        kill_hit(&t);
        for (int i = 0; i < ROUNDS_MAX && fresh >= 0; i++) {
            fresh = round_of(&t, SIGKILL);
            count += ATOLL_MAX(fresh, 0);
            if (fresh == 0)
                break;
        }
        /* Without memory for a scan, at least the command itself is signalled. */
        if (fresh < 0 && !exec->reaped)
            (void)kill(exec->pid, SIGKILL);
    }
    atoll_agent_processes_done(&t.hit);
    return count;
}

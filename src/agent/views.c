/*
 * Writes the views: before a command starts, and while processes run. The interval is one second
 * while they use CPU time and grows while they only wait, so that an idle sandbox rarely wakes up.
 * Without processes views are not written.
 *
 * A process inside can only read the files: the mounts are read-only, and the files are unlinked in
 * the underlying file system. So a tenant cannot make the agent wait.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <time.h>
#include "agent/agent_internal.h"
#include "base/clock.h"

#define FRESH_MS 200    /* views up to this age are not written again for a new command */
#define BUSY_MS 1000    /* interval while processes use CPU time */
#define RESTING_MS 8000 /* maximum interval while they wait */
#define BUSY_PERCENT 1
#define LOAD_MS 5000
#define LOADS_MAX 720 /* missed samples that are counted: after an hour every average is 0 */
#define TEXT_MAX (64 * 1024)

struct atoll_agent_views {
    struct atoll_agent *agent;
    struct atoll_view_fds fds; /* owned */
    struct atoll_timer timer;
    int64_t interval_ms;
    int64_t written_ms;                      /* 0: not yet */
    uint64_t cpu_user, cpu_system, cpu_used; /* as of then */
    uint64_t uptime;                         /* last value written */
    uint64_t load[3];
    int64_t loaded_ms; /* time of the last load sample */
    uint32_t running, processes, last_pid;
    unsigned cpus_shown; /* in cpuinfo */
    size_t sizes[ATOLL_VIEW_COUNT];
    cpu_set_t allowed; /* CPUs the agent may use */
    unsigned allowed_count;
    char cpu[4096]; /* the cpuinfo text of one CPU */
    struct atoll_buf text;
};

static const char *read_source(struct atoll_agent_views *v, enum atoll_cgroup_file file)
{
    char *text = (char *)atoll_agent_scratch;
    ssize_t n =
        v->fds.source[file] < 0 ? -1 : pread(v->fds.source[file], text, ATOLL_AGENT_SCRATCH - 1, 0);

    text[n > 0 ? n : 0] = '\0';
    return text;
}

static unsigned count_cpus(struct atoll_agent_views *v)
{
    unsigned limit = atoll_view_parse_cpus(read_source(v, ATOLL_CGF_CPU_LIMIT));

    return limit == 0 ? v->allowed_count : ATOLL_MIN(limit, v->allowed_count);
}

static void read_memory(struct atoll_agent_views *v, struct atoll_view_facts *f)
{
    uint64_t limit = atoll_view_parse_limit(read_source(v, ATOLL_CGF_MEMORY_LIMIT));
    struct sysinfo host;

    if (v->fds.file[ATOLL_VIEW_MEMINFO] < 0)
        return;
    f->memory_total = sysinfo(&host) == 0 ? (uint64_t)host.totalram * host.mem_unit : limit;
    f->memory_total = ATOLL_MIN(f->memory_total, limit);
    f->memory_used = atoll_view_parse_limit(read_source(v, ATOLL_CGF_MEMORY_USED));
    f->memory_used = ATOLL_MIN(f->memory_used, f->memory_total);
    atoll_view_parse_memory(read_source(v, ATOLL_CGF_MEMORY_STAT), f);
}

/* The uptime is written as of the next update: ps subtracts a process's start time from it, and the
 * result must not be negative. It never decreases. */
static void read_clocks(struct atoll_agent_views *v, struct atoll_view_facts *f)
{
    struct timespec boot = {0}, now = {0};

    (void)clock_gettime(CLOCK_BOOTTIME, &boot);
    (void)clock_gettime(CLOCK_REALTIME, &now);
    f->uptime = (uint64_t)boot.tv_sec * 100 + (uint64_t)boot.tv_nsec / 10000000;
    f->uptime = v->uptime = ATOLL_MAX(v->uptime, f->uptime + (uint64_t)v->interval_ms / 10);
    f->boot_unix_s = (int64_t)now.tv_sec - (int64_t)boot.tv_sec;
}

/* Updates the load averages like the kernel, which samples every five seconds. Samples that were
 * missed while the agent slept count as 0. */
static void sample_load(struct atoll_agent_views *v, int64_t now_ms)
{
    int64_t missed = (now_ms - v->loaded_ms) / LOAD_MS - 1;
    struct atoll_agent_processes ps;
    uint32_t active = 0;

    if (v->loaded_ms == 0) { /* nothing has run yet */
        v->running = 1;
        v->processes = v->last_pid = 2;
        v->loaded_ms = now_ms;
    }
    if (missed < 0 || v->loaded_ms == now_ms)
        return;
    if (atoll_agent_processes_read(v->agent, &ps) < 0)
        return;
    v->last_pid = 1;
    for (size_t i = 0; i < ps.len; i++) {
        active += ps.items[i].state == 'R' || ps.items[i].state == 'D';
        v->last_pid = ATOLL_MAX(v->last_pid, (uint32_t)ps.items[i].pid);
    }
    /* The process that reads the file counts as running. */
    v->processes = ATOLL_MAX((uint32_t)ps.len + 1, 2u);
    v->running = ATOLL_MAX(active, 1u);
    atoll_agent_processes_done(&ps);
    for (int64_t i = 0; i < ATOLL_MIN(missed, (int64_t)LOADS_MAX); i++)
        atoll_view_add_load(v->load, 0);
    atoll_view_add_load(v->load, active);
    v->loaded_ms = now_ms;
}

static void write_view(struct atoll_agent_views *v, enum atoll_view view,
                       const struct atoll_view_facts *f)
{
    int fd = v->fds.file[view];
    size_t n;

    atoll_buf_clear(&v->text);
    if (fd < 0 || atoll_view_print(view, f, v->cpu, &v->text) < 0)
        return;
    n = atoll_buf_size(&v->text);
    /* If the disk is full, the old text stays until the next update. */
    if (pwrite(fd, atoll_buf_head(&v->text), n, 0) != (ssize_t)n)
        return;
    if (n < v->sizes[view] && ftruncate(fd, (off_t)n) < 0)
        return;
    v->sizes[view] = n;
}

static void look_at_cpu(struct atoll_agent_views *v)
{
    struct atoll_view_facts f = {0};

    atoll_view_parse_cpu(read_source(v, ATOLL_CGF_CPU_USED), &f);
    v->cpu_user = f.cpu_user;
    v->cpu_system = f.cpu_system;
    v->cpu_used = f.cpu_user + f.cpu_system;
}

static void refresh(struct atoll_agent_views *v)
{
    struct atoll_view_facts f = {
        .cpus = count_cpus(v), .cpu_user = v->cpu_user, .cpu_system = v->cpu_system};
    int64_t now_ms = atoll_clock_ms();

    read_memory(v, &f);
    read_clocks(v, &f);
    sample_load(v, now_ms);
    memcpy(f.load, v->load, sizeof(f.load));
    f.running = v->running;
    f.processes = v->processes;
    f.last_pid = v->last_pid;
    for (int view = 0; view < ATOLL_VIEW_CPUINFO; view++)
        write_view(v, (enum atoll_view)view, &f);
    if (v->cpus_shown != f.cpus)
        write_view(v, ATOLL_VIEW_CPUINFO, &f);
    v->cpus_shown = f.cpus;
    v->written_ms = now_ms;
}

/* As PID 1 the agent is the parent of all orphans, so without children there are no processes. */
static bool has_processes(void)
{
    siginfo_t info;

    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

static void tick(void *arg)
{
    struct atoll_agent_views *v = arg;
    uint64_t before = v->cpu_used;

    if (!has_processes())
        return;
    look_at_cpu(v);
    /* cpu_used is in hundredths of a second, interval_ms in milliseconds. */
    if ((v->cpu_used - before) * 1000 >= (uint64_t)v->interval_ms * BUSY_PERCENT)
        v->interval_ms = BUSY_MS;
    else
        v->interval_ms = ATOLL_MIN(v->interval_ms * 2, (int64_t)RESTING_MS);
    refresh(v);
    atoll_timer_set(&v->timer, v->agent->loop, v->interval_ms, tick, v);
}

void atoll_agent_views_touch(struct atoll_agent *a)
{
    struct atoll_agent_views *v = a->views;
    bool resting = v && v->interval_ms != BUSY_MS;

    if (!v)
        return;
    v->interval_ms = BUSY_MS;
    if (v->written_ms == 0 || atoll_clock_ms() - v->written_ms >= FRESH_MS) {
        look_at_cpu(v);
        refresh(v);
    }
    if (!v->timer.loop || resting)
        atoll_timer_set(&v->timer, a->loop, BUSY_MS, tick, v);
}

bool atoll_agent_views_pick_cpus(struct atoll_agent *a, cpu_set_t *ret)
{
    struct atoll_agent_views *v = a->views;
    int at = v ? sched_getcpu() : -1;
    unsigned left;

    if (at < 0 || v->cpus_shown == 0 || v->cpus_shown >= v->allowed_count)
        return false;
    /* Starts with the agent's current CPU, which the scheduler has just chosen as the least
     * busy. */
    CPU_ZERO(ret);
    left = v->cpus_shown;
    for (int i = 0; left > 0 && i < CPU_SETSIZE; i++) {
        int cpu = (at + i) % CPU_SETSIZE;
        if (CPU_ISSET(cpu, &v->allowed)) {
            CPU_SET(cpu, ret);
            left--;
        }
    }
    return true;
}

/* Runs once the agent is idle after its start, so that the first command need not wait for it. */
static void first_look(void *arg)
{
    struct atoll_agent_views *v = arg;

    look_at_cpu(v);
    refresh(v);
}

static void read_cpu(struct atoll_agent_views *v)
{
    ssize_t n = v->fds.file[ATOLL_VIEW_CPUINFO] < 0
                    ? 0
                    : pread(v->fds.file[ATOLL_VIEW_CPUINFO], v->cpu, sizeof(v->cpu) - 1, 0);

    v->cpu[n > 0 ? n : 0] = '\0';
    v->sizes[ATOLL_VIEW_CPUINFO] = n > 0 ? (size_t)n : 0;
}

void atoll_agent_views_open(struct atoll_agent *a, const struct atoll_view_fds *fds)
{
    struct atoll_agent_views *v = calloc(1, sizeof(*v));

    if (!v)
        abort();
    v->agent = a;
    v->fds = *fds;
    atoll_buf_init(&v->text, TEXT_MAX);
    if (sched_getaffinity(0, sizeof(v->allowed), &v->allowed) == 0)
        v->allowed_count = (unsigned)CPU_COUNT(&v->allowed);
    v->allowed_count = ATOLL_MAX(v->allowed_count, 1u);
    read_cpu(v);
    atoll_timer_set(&v->timer, a->loop, 0, first_look, v);
    a->views = v;
}

void atoll_agent_views_close(struct atoll_agent *a)
{
    struct atoll_agent_views *v = a->views;

    if (!v)
        return;
    atoll_timer_cancel(&v->timer);
    for (size_t i = 0; i < ATOLL_VIEW_COUNT; i++)
        if (v->fds.file[i] >= 0)
            (void)close(v->fds.file[i]);
    for (size_t i = 0; i < ATOLL_CGF_COUNT; i++)
        if (v->fds.source[i] >= 0)
            (void)close(v->fds.source[i]);
    atoll_buf_done(&v->text);
    free(v);
    a->views = NULL;
}

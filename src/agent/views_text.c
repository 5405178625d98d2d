/*
 * Formats views as the kernel does (fs/proc) and parses cgroup files of v1 and v2.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "agent/views.h"

/* The kernel's decay factors per five seconds for averages over 1, 5 and 15 minutes. */
static const uint64_t load_weight[3] = {1884, 2014, 2037};

#define PERIOD_US 100000u /* default period of CPU limits on v1 */

const char *const atoll_view_names[ATOLL_VIEW_COUNT] = {
    [ATOLL_VIEW_LOADAVG] = "loadavg", [ATOLL_VIEW_MEMINFO] = "meminfo", [ATOLL_VIEW_STAT] = "stat",
    [ATOLL_VIEW_UPTIME] = "uptime",   [ATOLL_VIEW_CPUINFO] = "cpuinfo",
};

bool atoll_view_is_possible(enum atoll_view view, const int source[ATOLL_CGF_COUNT])
{
    switch (view) {
    case ATOLL_VIEW_MEMINFO:
        return source[ATOLL_CGF_MEMORY_USED] >= 0 && source[ATOLL_CGF_MEMORY_STAT] >= 0 &&
               source[ATOLL_CGF_MEMORY_LIMIT] >= 0;
    case ATOLL_VIEW_STAT:
    case ATOLL_VIEW_UPTIME:
        return source[ATOLL_CGF_CPU_USED] >= 0;
    case ATOLL_VIEW_CPUINFO:
        return source[ATOLL_CGF_CPU_LIMIT] >= 0;
    default:
        return true;
    }
}

uint64_t atoll_view_parse_limit(const char *text)
{
    uint64_t value = strtoull(text, NULL, 10);

    /* v1 shows "no limit" as a number near the maximum, v2 as "max". */
    return *text < '0' || *text > '9' || value > UINT64_C(1) << 60 ? UINT64_MAX : value;
}

unsigned atoll_view_parse_cpus(const char *text)
{
    char *rest;
    uint64_t quota = strtoull(text, &rest, 10), period;

    if (*text < '0' || *text > '9' || quota == 0) /* "max", "-1" */
        return 0;
    period = strtoull(rest, NULL, 10);
    period = period ? period : PERIOD_US;
    return (unsigned)ATOLL_MIN((quota + period - 1) / period, UINT64_C(65536));
}

/* The number after `key` at the beginning of a line. */
static bool find(const char *text, const char *key, uint64_t *ret)
{
    size_t n = strlen(key);

    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, n) == 0 && line[n] == ' ') {
            *ret = strtoull(line + n + 1, NULL, 10);
            return true;
        }
    }
    return false;
}

void atoll_view_parse_memory(const char *text, struct atoll_view_facts *facts)
{
    const struct {
        const char *v1, *v2;
        uint64_t *to;
    } rows[] = {
        {"total_cache", "file", &facts->cache},
        {"total_shmem", "shmem", &facts->shmem},
        {"total_mapped_file", "file_mapped", &facts->mapped},
        {"total_active_anon", "active_anon", &facts->anon_active},
        {"total_inactive_anon", "inactive_anon", &facts->anon_inactive},
        {"total_active_file", "active_file", &facts->file_active},
        {"total_inactive_file", "inactive_file", &facts->file_inactive},
    };

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++)
        if (!find(text, rows[i].v1, rows[i].to))
            (void)find(text, rows[i].v2, rows[i].to);
}

void atoll_view_parse_cpu(const char *text, struct atoll_view_facts *facts)
{
    if (find(text, "user_usec", &facts->cpu_user) &&
        find(text, "system_usec", &facts->cpu_system)) {
        facts->cpu_user /= 10000;
        facts->cpu_system /= 10000;
    } else {
        (void)find(text, "user", &facts->cpu_user);
        (void)find(text, "system", &facts->cpu_system);
    }
}

void atoll_view_add_load(uint64_t load[3], uint32_t active)
{
    uint64_t now = (uint64_t)active * ATOLL_VIEW_LOAD_ONE;

    for (size_t i = 0; i < 3; i++) {
        uint64_t sum = load[i] * load_weight[i] + now * (ATOLL_VIEW_LOAD_ONE - load_weight[i]);
        /* Rounds up like the kernel; otherwise the average would never reach its final value. */
        load[i] = (sum + (now >= load[i] ? ATOLL_VIEW_LOAD_ONE - 1 : 0)) / ATOLL_VIEW_LOAD_ONE;
    }
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static int print_meminfo(const struct atoll_view_facts *f, struct atoll_buf *out)
{
    uint64_t unused = less(f->memory_total, f->memory_used);
    uint64_t files = less(f->cache, f->shmem);
    const struct {
        const char *name;
        uint64_t bytes;
    } rows[] = {
        {"MemTotal:", f->memory_total},
        {"MemFree:", unused},
        {"MemAvailable:", ATOLL_MIN(unused + files, f->memory_total)},
        {"Buffers:", 0},
        {"Cached:", f->cache},
        {"SwapCached:", 0},
        {"Active:", f->anon_active + f->file_active},
        {"Inactive:", f->anon_inactive + f->file_inactive},
        {"Active(anon):", f->anon_active},
        {"Inactive(anon):", f->anon_inactive},
        {"Active(file):", f->file_active},
        {"Inactive(file):", f->file_inactive},
        {"Unevictable:", 0},
        {"Mlocked:", 0},
        {"SwapTotal:", 0},
        {"SwapFree:", 0},
        {"Dirty:", 0},
        {"Writeback:", 0},
        {"AnonPages:", less(f->anon_active + f->anon_inactive, f->shmem)},
        {"Mapped:", f->mapped},
        {"Shmem:", f->shmem},
        {"Slab:", 0},
        {"SReclaimable:", 0},
        {"SUnreclaim:", 0},
        {"CommitLimit:", f->memory_total},
        {"Committed_AS:", f->memory_used},
    };
    int r = 0;

    for (size_t i = 0; r == 0 && i < ATOLL_ARRAY_LEN(rows); i++)
        r = atoll_buf_appendf(out, "%-15s %8llu kB\n", rows[i].name,
                              (unsigned long long)(rows[i].bytes / 1024));
    return r;
}

static uint64_t idle(const struct atoll_view_facts *f)
{
    return less(f->uptime * f->cpus, f->cpu_user + f->cpu_system);
}

static int print_cpu(struct atoll_buf *out, const char *name, uint64_t user, uint64_t system,
                     uint64_t unused)
{
    return atoll_buf_appendf(out, "%s %llu 0 %llu %llu 0 0 0 0 0 0\n", name,
                             (unsigned long long)user, (unsigned long long)system,
                             (unsigned long long)unused);
}

static int print_stat(const struct atoll_view_facts *f, struct atoll_buf *out)
{
    uint64_t n = ATOLL_MAX(f->cpus, 1u);
    int r = print_cpu(out, "cpu ", f->cpu_user, f->cpu_system, idle(f));
    char name[16];

    for (unsigned i = 0; r == 0 && i < f->cpus; i++) {
        (void)snprintf(name, sizeof(name), "cpu%u", i);
        r = print_cpu(out, name, f->cpu_user / n, f->cpu_system / n, idle(f) / n);
    }
    return r < 0 ? r
                 : atoll_buf_appendf(out,
                                     "intr 0\nctxt 0\nbtime %lld\nprocesses %u\nprocs_running %u\n"
                                     "procs_blocked 0\nsoftirq 0 0 0 0 0 0 0 0 0 0 0\n",
                                     (long long)f->boot_unix_s, f->last_pid, f->running);
}

static int print_loadavg(const struct atoll_view_facts *f, struct atoll_buf *out)
{
    unsigned long long part[6];

    for (size_t i = 0; i < 3; i++) {
        uint64_t rounded = f->load[i] + ATOLL_VIEW_LOAD_ONE / 200;
        part[2 * i] = rounded / ATOLL_VIEW_LOAD_ONE;
        part[2 * i + 1] = rounded % ATOLL_VIEW_LOAD_ONE * 100 / ATOLL_VIEW_LOAD_ONE;
    }
    return atoll_buf_appendf(out, "%llu.%02llu %llu.%02llu %llu.%02llu %u/%u %u\n", part[0],
                             part[1], part[2], part[3], part[4], part[5], f->running, f->processes,
                             f->last_pid);
}

static int print_uptime(const struct atoll_view_facts *f, struct atoll_buf *out)
{
    return atoll_buf_appendf(out, "%llu.%02llu %llu.%02llu\n", (unsigned long long)f->uptime / 100,
                             (unsigned long long)f->uptime % 100, (unsigned long long)idle(f) / 100,
                             (unsigned long long)idle(f) % 100);
}

/* Lines of /proc/cpuinfo whose value identifies a CPU or counts CPUs. */
static bool cpu_value(const char *line, size_t n, unsigned number, unsigned cpus, unsigned *ret)
{
    static const struct {
        const char *key;
        bool counts;
    } rows[] = {{"processor", false},      {"core id", false}, {"apicid", false},
                {"initial apicid", false}, {"siblings", true}, {"cpu cores", true}};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        size_t len = strlen(rows[i].key);
        if (n > len && strncmp(line, rows[i].key, len) == 0 && strchr("\t:", line[len])) {
            *ret = rows[i].counts ? cpus : number;
            return true;
        }
    }
    return false;
}

static int print_one_cpu(const char *cpu, unsigned number, unsigned cpus, struct atoll_buf *out)
{
    int r = 0;

    for (const char *line = cpu; r == 0 && *line;) {
        size_t n = strcspn(line, "\n"), colon = strcspn(line, ":\n");
        unsigned value;
        if (line[colon] == ':' && cpu_value(line, n, number, cpus, &value))
            r = atoll_buf_appendf(out, "%.*s: %u\n", (int)colon, line, value);
        else
            r = atoll_buf_appendf(out, "%.*s\n", (int)n, line);
        line += n + (line[n] == '\n');
    }
    return r < 0 ? r : atoll_buf_appends(out, "\n");
}

static int print_cpuinfo(const struct atoll_view_facts *f, const char *cpu, struct atoll_buf *out)
{
    int r = 0;

    for (unsigned i = 0; r == 0 && i < f->cpus; i++)
        r = print_one_cpu(cpu, i, f->cpus, out);
    return r;
}

int atoll_view_print(enum atoll_view view, const struct atoll_view_facts *facts, const char *cpu,
                     struct atoll_buf *out)
{
    switch (view) {
    case ATOLL_VIEW_LOADAVG:
        return print_loadavg(facts, out);
    case ATOLL_VIEW_MEMINFO:
        return print_meminfo(facts, out);
    case ATOLL_VIEW_STAT:
        return print_stat(facts, out);
    case ATOLL_VIEW_UPTIME:
        return print_uptime(facts, out);
    default:
        return print_cpuinfo(facts, cpu, out);
    }
}

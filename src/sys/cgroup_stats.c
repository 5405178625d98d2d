#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/fd.h"
#include "base/text.h"
#include "sys/cgroup.h"

/*
 * Usage of a group. A file holds either one number or lines of "key value"; the table says where
 * each figure is on v1 and on v2.
 */
struct source {
    size_t offset; /* into struct atoll_cgroup_stats */
    enum atoll_cgroup_controller controller;
    const char *v1_file, *v1_key; /* key NULL: the file holds one number */
    const char *v2_file, *v2_key;
    unsigned v1_divide;
};

#define STAT(field) offsetof(struct atoll_cgroup_stats, field)

static const struct source sources[] = {
    {STAT(memory_bytes), ATOLL_CG_MEMORY, "memory.usage_in_bytes", NULL, "memory.current", NULL, 1},
    {STAT(memory_peak_bytes), ATOLL_CG_MEMORY, "memory.max_usage_in_bytes", NULL, "memory.peak",
     NULL, 1},
    {STAT(memory_limit_bytes), ATOLL_CG_MEMORY, "memory.limit_in_bytes", NULL, "memory.max", NULL,
     1},
    {STAT(oom_kills), ATOLL_CG_MEMORY, "memory.oom_control", "oom_kill", "memory.events",
     "oom_kill", 1},
    {STAT(cpu_us), ATOLL_CG_CPUACCT, "cpuacct.usage", NULL, "cpu.stat", "usage_usec", 1000},
    {STAT(processes), ATOLL_CG_PIDS, "pids.current", NULL, "pids.current", NULL, 1},
    {STAT(processes_peak), ATOLL_CG_PIDS, "pids.peak", NULL, "pids.peak", NULL, 1},
};

static uint64_t leading_number(const char *text)
{
    char digits[24];
    size_t n = strspn(text, "0123456789");
    uint64_t value;

    if (n == 0 || n >= sizeof(digits))
        return 0;
    memcpy(digits, text, n);
    digits[n] = '\0';
    return atoll_text_u64(digits, 0, UINT64_MAX, &value) < 0 ? 0 : value;
}

static uint64_t find_value(const char *text, const char *key)
{
    size_t n = key ? strlen(key) : 0;

    if (!key)
        return leading_number(text);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, n) == 0 && line[n] == ' ')
            return leading_number(line + n + 1);
    }
    return 0;
}

int atoll_cgroup_read_stats(const struct atoll_cgroups *cg, const char *id,
                            struct atoll_cgroup_stats *ret)
{
    struct atoll_cgroup_stats stats = {0};
    int found = 0;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(sources); i++) {
        const struct source *s = &sources[i];
        char path[96], text[1024];
        int parent = cg->parent_fd[cg->version == 2 ? 0 : s->controller];
        uint64_t value;

        (void)snprintf(path, sizeof(path), "%s/%s", id, cg->version == 2 ? s->v2_file : s->v1_file);
        if (parent < 0 || atoll_fd_read_file(parent, path, text, sizeof(text)) < 0)
            continue;
        value = cg->version == 2 ? find_value(text, s->v2_key)
                                 : find_value(text, s->v1_key) / s->v1_divide;
        memcpy((char *)&stats + s->offset, &value, sizeof(value));
        found++;
    }
    if (found == 0)
        return -ENOENT;
    /* v1 shows "no limit" as a number near the maximum. */
    if (stats.memory_limit_bytes > UINT64_C(1) << 60)
        stats.memory_limit_bytes = 0;
    *ret = stats;
    return 0;
}

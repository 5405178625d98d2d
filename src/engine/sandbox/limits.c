#include <string.h>
#include "engine/engine_internal.h"

/*
 * Default limits, and the names of those that a request can waive.
 */
#define BYTES_PER_INODE 8192

struct atoll_limits atoll_limits_default(void)
{
    return (struct atoll_limits){
        .memory_bytes = UINT64_C(512) << 20,
        .cpu_millis = 1000,
        .pids = 256,
        .disk_bytes = UINT64_C(256) << 20,
        .inodes = 65536,
        .open_files = 4096,
    };
}

void atoll_limits_fill(struct atoll_limits *l)
{
    struct atoll_limits d = atoll_limits_default();

    /* Even an empty file uses kernel memory of the sandbox. Limit the number of files by the memory
     * limit, so that too many files give ENOSPC and not an out-of-memory kill. */
    d.inodes = ATOLL_MIN(d.inodes, (l->memory_bytes ?: d.memory_bytes) / BYTES_PER_INODE);
    atoll_limits_merge(l, &d);
}

static const struct {
    const char *name;
    uint32_t bit;
} limit_names[] = {{"memory", ATOLL_LIMIT_MEMORY}, {"cpu", ATOLL_LIMIT_CPU},
                   {"pids", ATOLL_LIMIT_PIDS},     {"disk", ATOLL_LIMIT_DISK},
                   {"io", ATOLL_LIMIT_IO},         {"all", ATOLL_LIMIT_ALL}};

uint32_t atoll_limit_by_name(const char *name)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(limit_names); i++)
        if (strcmp(name, limit_names[i].name) == 0)
            return limit_names[i].bit;
    return 0;
}

const char *atoll_limit_name(uint32_t limit)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(limit_names); i++)
        if (limit == limit_names[i].bit)
            return limit_names[i].name;
    return "unknown";
}

#include "sandbox/proc_parts.h"

#include "base/defs.h"

const char *atoll_proc_masked[] = {
    "acpi",        "asound",      "config.gz",  "cmdline",       "interrupts",    "iomem",
    "ioports",     "kallsyms",    "kcore",      "key-users",     "keys",          "kmsg",
    "kpagecgroup", "kpagecount",  "kpageflags", "latency_stats", "modules",       "pagetypeinfo",
    "sched_debug", "scsi",        "slabinfo",   "softirqs",      "sysrq-trigger", "timer_list",
    "timer_stats", "vmallocinfo", "zoneinfo",
};
const size_t atoll_proc_masked_count = ATOLL_ARRAY_LEN(atoll_proc_masked);

/* Each entry adds ten microseconds to a create, so files that only describe the kernel's build are
 * not listed. */
const char *atoll_proc_host_state[] = {
    "buddyinfo",
    "diskstats",
    "pressure",
    "schedstat",
    "swaps",
    "vmstat", /* load */
    "bus",
    "fs",
    "irq",
    "mdstat",
    "partitions", /* devices */
    "cgroups",
    "locks",
    "sys/fs/aio-nr", /* usage by other sandboxes */
    "sys/fs/dentry-state",
    "sys/fs/file-nr",
    "sys/fs/inode-nr",
    "sys/fs/inode-state",
    "sys/kernel/pty/nr",
};
const size_t atoll_proc_host_state_count = ATOLL_ARRAY_LEN(atoll_proc_host_state);

const char *atoll_proc_read_only[] = {"bus", "fs", "irq", "sys"};
const size_t atoll_proc_read_only_count = ATOLL_ARRAY_LEN(atoll_proc_read_only);

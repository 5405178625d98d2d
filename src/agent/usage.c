/*
 * Resource usage of the sandbox, as far as it is visible from inside.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include "agent/agent_internal.h"
#include "base/fd.h"

/* Columns of /proc/net/dev after the name: received bytes are the first, sent bytes the ninth. */
#define RX_COLUMN 0
#define TX_COLUMN 8
#define COLUMNS 9

static void add_interface(const char *numbers, struct atoll_am_usage *usage)
{
    uint64_t value[COLUMNS] = {0};

    for (int i = 0; i < COLUMNS; i++) {
        char *end;
        value[i] = strtoull(numbers, &end, 10);
        if (end == numbers)
            return;
        numbers = end;
    }
    usage->net_rx_bytes += value[RX_COLUMN];
    usage->net_tx_bytes += value[TX_COLUMN];
}

/* All interfaces except the loopback. */
static void read_network(struct atoll_agent *a, struct atoll_am_usage *usage)
{
    char *line = (char *)atoll_agent_scratch;

    if (atoll_fd_read_file(a->proc_fd, "self/net/dev", line, ATOLL_AGENT_SCRATCH) < 0)
        return;
    while (line && *line) {
        char *next = strchr(line, '\n');
        char *colon;
        if (next)
            *next++ = '\0';
        line += strspn(line, " ");
        colon = strchr(line, ':');
        if (colon && strncmp(line, "lo:", 3) != 0)
            add_interface(colon + 1, usage);
        line = next;
    }
}

static void add_disk(const struct statfs *fs, struct atoll_am_usage *usage)
{
    usage->disk_total_bytes += (uint64_t)fs->f_blocks * (uint64_t)fs->f_bsize;
    usage->disk_used_bytes += (uint64_t)(fs->f_blocks - fs->f_bfree) * (uint64_t)fs->f_bsize;
    usage->inodes_total += (uint64_t)fs->f_files;
    usage->inodes_used += (uint64_t)(fs->f_files - fs->f_ffree);
}

/* True if a line of /proc/mounts is a tmpfs that is part of the disk; terminates the line after its
 * mount point. */
static bool is_disk(const char *line, char **ret_place)
{
    static const char *const not_disk[] = {"/dev", "/proc", "/sys", "/.atoll"};
    char *place = strchr(line, ' '), *end = place ? strchr(place + 1, ' ') : NULL;

    if (!end || strncmp(end, " tmpfs rw", 9) != 0)
        return false;
    *end = '\0';
    *ret_place = ++place;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(not_disk); i++) {
        size_t len = strlen(not_disk[i]);
        if (strncmp(place, not_disk[i], len) == 0 && (place[len] == '/' || !place[len]))
            return false;
    }
    return true;
}

/* A container with a read-only root writes to several tmpfs mounts, which together are its disk;
 * the root file system belongs to the host and its usage is not the sandbox's. */
static void read_disk(struct atoll_agent *a, struct atoll_am_usage *usage)
{
    char *line = (char *)atoll_agent_scratch;
    struct statfs fs;

    if (statfs("/", &fs) < 0)
        return;
    if (!(fs.f_flags & ST_RDONLY) ||
        atoll_fd_read_file(a->proc_fd, "self/mounts", line, ATOLL_AGENT_SCRATCH) < 0) {
        add_disk(&fs, usage);
        return;
    }
    while (line && *line) {
        char *next = strchr(line, '\n'), *place;
        if (next)
            *next++ = '\0';
        if (is_disk(line, &place) && statfs(place, &fs) == 0)
            add_disk(&fs, usage);
        line = next;
    }
}

int atoll_agent_on_usage(struct atoll_agent *a, uint32_t request, const void *message,
                         struct atoll_error *err)
{
    struct atoll_am_usage usage = {0};
    struct atoll_agent_processes ps;
    struct atoll_agent_process self;
    int r = atoll_agent_processes_read(a, &ps);

    (void)message;
    if (r < 0)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, -r, "cannot read the processes");
    for (size_t i = 0; i < ps.len; i++) {
        usage.processes++;
        usage.rss_bytes += ps.items[i].rss_bytes;
        usage.cpu_us += ps.items[i].cpu_us;
    }
    atoll_agent_processes_done(&ps);
    /* The agent reaped the processes that ended, so its children's time includes theirs. */
    if (atoll_agent_process_read(a, a->pid, &self) == 0)
        usage.cpu_us += self.cpu_us;
    read_disk(a, &usage);
    read_network(a, &usage);
    atoll_agent_reply(a, request, &atoll_am_usage_desc, &usage);
    return ATOLL_AGENT_ANSWERED;
}

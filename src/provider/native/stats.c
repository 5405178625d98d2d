#include <errno.h>
#include <string.h>
#include "base/memory.h"
#include "provider/native/native_internal.h"
#include "sys/btrfs.h"

/*
 * What the host measures about a sandbox: its cgroup, and the quota group of a disk in the pool, whose file
 * system inside shows the figures of the whole pool. atoll-spawn, which has the pool mounted, names the group.
 */

/* A silent atoll-spawn must not delay the other figures for long. */
#define DISK_MS 5000

struct measuring {
    struct atoll_provider_stats stats;
    uint64_t limit_bytes;          /* of a disk in the pool */
    bool expected;                 /* a new sandbox with this spec has its disk in the pool */
    atoll_provider_stats_fn *done; /* NULL: told */
    void *arg;
    struct atoll_timer silence;
};

static void tell(struct measuring *m, bool in_pool, uint64_t used_bytes)
{
    if (in_pool) {
        m->stats.disk_limit_bytes = m->limit_bytes;
        m->stats.disk_bytes = used_bytes;
    }
    if (m->done)
        ATOLL_TAKE_PTR(m->done)(m->arg, &m->stats, NULL);
}

static void too_late(void *arg)
{
    struct measuring *m = arg;
    tell(m, m->expected, 0);
}

static int read_used(const struct atoll_frame *frame, uint64_t *ret_bytes)
{
    struct atoll_btrfs_group group;
    struct atoll_sm_disk msg;
    struct atoll_error err;
    int r = atoll_msg_decode(&atoll_sm_disk_desc, frame->payload, frame->len, &msg, &err);

    if (r < 0 || msg.file_system.len != sizeof(group.file_system))
        return -EPROTO;
    memcpy(group.file_system, msg.file_system.data, sizeof(group.file_system));
    group.subvolume = msg.subvolume;
    return atoll_btrfs_used(&group, ret_bytes);
}

static void on_disk(void *arg, const struct atoll_reply *answer)
{
    struct measuring *m = arg;
    uint64_t used = 0;

    atoll_timer_cancel(&m->silence);
    if (answer->error)
        tell(m, m->expected && answer->error->kind != ATOLL_ERR_NOT_FOUND, 0);
    else
        tell(m, true, read_used(answer->frame, &used) < 0 ? 0 : used);
    free(m);
}

static void measure_disk(struct atoll_native *n, const struct atoll_spec *spec,
                         const struct measuring *with)
{
    struct measuring *m = atoll_alloc(sizeof(*m));
    struct atoll_sm_ref ref = {.id = spec->id};
    struct atoll_error err;

    *m = *with;
    m->limit_bytes = spec->limits.disk_bytes + spec->history_bytes;
    m->expected = atoll_plan_wants_cow(&n->plan_host, spec);
    if (!n->rpc ||
        atoll_rpc_ask(n->rpc, ATOLL_SPAWN_DISK, &atoll_sm_ref_desc, &ref, on_disk, m, &err) < 0) {
        tell(m, m->expected, 0);
        free(m);
        return;
    }
    atoll_timer_set(&m->silence, n->loop, DISK_MS, too_late, m);
}

void atoll_native_stats(struct atoll_provider *p, const struct atoll_spec *spec,
                        atoll_provider_stats_fn *done, void *arg)
{
    struct atoll_native *n = atoll_native_of(p);
    struct measuring m = {.done = done, .arg = arg};
    struct atoll_cgroup_stats s;
    struct atoll_error err;
    int r = n->cgroups.version ? atoll_cgroup_read_stats(&n->cgroups, spec->id, &s) : -EOPNOTSUPP;

    if (r < 0) {
        (void)atoll_fail(&err, r == -ENOENT ? ATOLL_ERR_NOT_FOUND : ATOLL_ERR_UNIMPLEMENTED, -r,
                         "the host has no figures about sandbox %s", spec->id);
        done(arg, NULL, &err);
        return;
    }
    m.stats = (struct atoll_provider_stats){.memory_bytes = s.memory_bytes,
                                            .memory_peak_bytes = s.memory_peak_bytes,
                                            .memory_limit_bytes = s.memory_limit_bytes,
                                            .cpu_us = s.cpu_us,
                                            .processes = s.processes,
                                            .processes_peak = s.processes_peak};
    if (n->spawn.pool)
        measure_disk(n, spec, &m);
    else
        done(arg, &m.stats, NULL);
}

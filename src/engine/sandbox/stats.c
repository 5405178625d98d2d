#include <errno.h>
#include <string.h>
#include "base/clock.h"
#include "engine/engine_internal.h"
#include "engine/network/network.h"

/*
 * Live statistics: what the host measures about a sandbox (cgroup), and what can only be measured
 * inside (disk, network). Without a cgroup, sums over the processes inside are used. atoll-egress counts
 * the bytes of a network that it serves.
 */

struct asking {
    struct atoll_engine *engine;
    char id[ATOLL_ID_LEN + 1];
    struct atoll_am_usage inside;
    bool inside_only;
    bool outside_too;    /* if the agent does not answer, deliver the provider's part only */
    bool inside_unknown; /* the agent did not answer */
    struct atoll_sandbox_stats stats; /* complete but for the bytes of its network */
    atoll_stats_fn *done;
    void *arg;
};

static double cpu_percent(struct atoll_sandbox *s, uint64_t cpu_us)
{
    int64_t now = atoll_clock_ms();
    int64_t since = s->last_cpu_ms ? s->last_cpu_ms : s->created_ms;
    double percent = 0;

    if (now > since && cpu_us >= s->last_cpu_us)
        percent = (double)(cpu_us - s->last_cpu_us) / 10.0 / (double)(now - since);
    s->last_cpu_us = cpu_us;
    s->last_cpu_ms = now;
    return percent;
}

/* measured: NULL when the provider does not measure. silent: the provider did not answer; then CPU
 * time is unknown, since the sum over the present processes does not include those that have
 * ended. */
static void combine(struct atoll_sandbox *s, const struct atoll_am_usage *inside,
                    const struct atoll_provider_stats *measured, bool silent,
                    struct atoll_sandbox_stats *out)
{
    struct atoll_provider_stats outside = {.memory_bytes = inside->rss_bytes,
                                           .cpu_us = inside->cpu_us,
                                           .processes = inside->processes};
    uint64_t disk_limit;
    double percent = 0;

    if (measured)
        outside = *measured;
    if (outside.memory_bytes == 0)
        outside.memory_bytes = inside->rss_bytes;
    /* Without a disk limit, the size seen inside is that of the host's disk. */
    disk_limit = outside.disk_limit_bytes            ? outside.disk_limit_bytes
                 : s->spec.waived & ATOLL_LIMIT_DISK ? 0
                                                     : inside->disk_total_bytes;
    if (outside.cpu_us == 0)
        outside.cpu_us = inside->cpu_us;
    if (outside.processes == 0)
        outside.processes = inside->processes;
    if (silent && !(s->spec.waived & ATOLL_LIMIT_MEMORY))
        outside.memory_limit_bytes = s->spec.limits.memory_bytes;
    if (!silent)
        percent = cpu_percent(s, outside.cpu_us);
    *out = (struct atoll_sandbox_stats){
        .memory_bytes = outside.memory_bytes,
        .memory_peak_bytes = outside.memory_peak_bytes,
        .memory_limit_bytes = outside.memory_limit_bytes,
        .cpu_percent = outside.has_cpu_percent ? outside.cpu_percent : percent,
        .cpu_limit_millis = outside.cpu_limit_millis,
        .cpu_seconds = (double)outside.cpu_us / 1e6,
        .cpu_unknown = silent,
        .processes = outside.processes,
        .processes_peak = outside.processes_peak,
        .disk_bytes = outside.disk_limit_bytes ? outside.disk_bytes : inside->disk_used_bytes,
        .disk_limit_bytes = disk_limit,
        .inodes = inside->inodes_used,
        .inodes_limit = inside->inodes_total,
        .net_rx_bytes = inside->net_rx_bytes,
        .net_tx_bytes = inside->net_tx_bytes,
        .uptime_s = (double)(atoll_clock_ms() - s->created_ms) / 1000,
    };
}

static void on_counted(void *arg, uint64_t rx_bytes, uint64_t tx_bytes)
{
    struct asking *a = arg;

    a->stats.net_rx_bytes = rx_bytes;
    a->stats.net_tx_bytes = tx_bytes;
    a->done(a->arg, &a->stats, NULL);
    free(a);
}

static void on_measured(void *arg, const struct atoll_provider_stats *measured,
                        const struct atoll_error *error)
{
    struct asking *a = arg;
    struct atoll_sandbox *s = atoll_map_get(&a->engine->sandboxes, a->id);
    struct atoll_error gone;

    if (s && (measured || !a->inside_unknown)) {
        bool silent = error && error->kind != ATOLL_ERR_UNIMPLEMENTED;
        combine(s, &a->inside, measured, silent, &a->stats);
        a->stats.inside_unknown = a->inside_unknown;
        if (atoll_network_count(s, on_counted, a))
            return;
        a->done(a->arg, &a->stats, NULL);
    } else if (s) {
        a->done(a->arg, NULL, error);
    } else {
        (void)atoll_fail(&gone, ATOLL_ERR_NOT_FOUND, ENOENT, "sandbox %s is gone", a->id);
        a->done(a->arg, NULL, &gone);
    }
    free(a);
}

static bool is_silence(const struct atoll_error *error)
{
    return error->kind == ATOLL_ERR_DEADLINE_EXCEEDED || error->kind == ATOLL_ERR_UNAVAILABLE;
}

static void on_usage(void *arg, const struct atoll_reply *answer)
{
    struct asking *a = arg;
    struct atoll_sandbox *s = atoll_map_get(&a->engine->sandboxes, a->id);
    const struct atoll_error *error = answer->error;
    struct atoll_error err;

    if (!error && !s) {
        (void)atoll_fail(&err, ATOLL_ERR_NOT_FOUND, ENOENT, "sandbox %s is gone", a->id);
        error = &err;
    }
    if (!error && atoll_msg_decode(&atoll_am_usage_desc, answer->frame->payload, answer->frame->len,
                                   &a->inside, &err) < 0)
        error = &err;
    if (error && s && a->outside_too && is_silence(error)) {
        a->inside_unknown = true;
        error = NULL;
    }
    if (!error && !a->inside_only) {
        s->provider->ops->stats(s->provider, &s->spec, on_measured, a);
        return;
    }
    a->done(a->arg, NULL, error);
    free(a);
}

static void ask(struct atoll_engine *engine, const char *id, const struct asking *how)
{
    struct asking *a = calloc(1, sizeof(*a));
    struct atoll_reply refused = {0};
    struct atoll_sandbox *s;
    struct atoll_error err;
    int r;

    if (!a)
        abort(); /* a small fixed object: the daemon is crash-only */
    *a = *how;
    a->engine = engine;
    r = atoll_engine_look(engine, id, &s, &err);
    if (r < 0) {
        free(a);
        how->done(how->arg, NULL, &err);
        return;
    }
    memcpy(a->id, s->spec.id, sizeof(a->id));
    r = atoll_sandbox_ask(s, ATOLL_AGENT_USAGE, NULL, NULL, on_usage, a, &err);
    if (r < 0) {
        refused.error = &err;
        on_usage(a, &refused);
    }
}

void atoll_engine_stats(struct atoll_engine *engine, const char *id, atoll_stats_fn *done,
                        void *arg)
{
    ask(engine, id, &(struct asking){.done = done, .arg = arg});
}

void atoll_engine_figures(struct atoll_engine *engine, const char *id, atoll_stats_fn *done,
                          void *arg)
{
    ask(engine, id, &(struct asking){.outside_too = true, .done = done, .arg = arg});
}

void atoll_engine_ask_agent(struct atoll_engine *engine, const char *id, atoll_stats_fn *done,
                            void *arg)
{
    ask(engine, id, &(struct asking){.inside_only = true, .done = done, .arg = arg});
}

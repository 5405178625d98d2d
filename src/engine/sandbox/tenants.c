#include "engine/sandbox/tenants.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "base/metrics.h"
#include "engine/engine_internal.h"

static const struct {
    const char *what, *field, *option; /* in error texts; in requests; option of the daemon */
    double unit;                       /* factor from the field's unit to ours */
} promises[ATOLL_PROMISES] = {
    [ATOLL_PROMISE_MEMORY] = {"MiB of memory", "memoryMB", "memory", 1048576},
    [ATOLL_PROMISE_CPU] = {"CPUs", "cpuCores", "cpus", 1000},
    [ATOLL_PROMISE_DISK] = {"MiB of disk", "diskMB", "disk", 1048576},
};

/* Tenants. */

struct atoll_tenant *atoll_tenant_find(const struct atoll_engine *engine, const char *name)
{
    return atoll_map_get(&engine->tenants, name);
}

struct atoll_tenant *atoll_tenant_get(struct atoll_engine *engine, const char *name)
{
    struct atoll_tenant *t = atoll_tenant_find(engine, name);

    if (t)
        return t;
    t = atoll_alloc(sizeof(*t));
    t->engine = engine;
    (void)snprintf(t->name, sizeof(t->name), "%s", name);
    for (size_t k = 0; k < ATOLL_TURNS; k++)
        atoll_list_init(&t->queue[k]);
    atoll_map_init(&t->names);
    if (atoll_map_put(&engine->tenants, t->name, t) < 0)
        abort();
    return t;
}

static void tenant_free(struct atoll_tenant *t)
{
    atoll_list_remove(&t->turn);
    atoll_ordered_done(&t->sandboxes);
    atoll_map_done(&t->names);
    free(t);
}

void atoll_tenant_settle(struct atoll_tenant *t)
{
    if (t->held || t->sandboxes.count > 0)
        return;
    for (size_t k = 0; k < ATOLL_TURNS; k++)
        if (t->busy[k] > 0 || t->waiting[k] > 0)
            return;
    (void)atoll_map_remove(&t->engine->tenants, t->name);
    tenant_free(t);
}

void atoll_tenants_done(struct atoll_engine *engine)
{
    struct atoll_tenant *t;
    size_t pos = 0;

    while ((t = atoll_map_next(&engine->tenants, &pos)) != NULL)
        tenant_free(t);
    atoll_map_done(&engine->tenants);
    atoll_ordered_done(&engine->ordered);
}

/* Promises. */

/* What these limits promise of this machine: without waived limits and without sandboxes of remote
 * services. A CPU limit above the number of CPUs counts as all of them and is not an error: an
 * environment may ask for two CPUs on a machine that has one. */
static void promised_by(const struct atoll_provider_entry *entry, const struct atoll_spec *spec,
                        uint64_t ret[static ATOLL_PROMISES])
{
    bool here = !entry->provider->ops->caps(entry->provider)->remote;
    uint64_t cpus = entry->engine->config.quota.machine[ATOLL_PROMISE_CPU];

    ret[ATOLL_PROMISE_MEMORY] =
        here && !(spec->waived & ATOLL_LIMIT_MEMORY) ? spec->limits.memory_bytes : 0;
    ret[ATOLL_PROMISE_CPU] =
        here && !(spec->waived & ATOLL_LIMIT_CPU) ? spec->limits.cpu_millis : 0;
    if (cpus > 0)
        ret[ATOLL_PROMISE_CPU] = ATOLL_MIN(ret[ATOLL_PROMISE_CPU], cpus);
    ret[ATOLL_PROMISE_DISK] = here && !(spec->waived & ATOLL_LIMIT_DISK)
                                  ? spec->limits.disk_bytes + spec->history_bytes
                                  : 0;
}

static void count(struct atoll_sandbox *s, bool in)
{
    for (size_t i = 0; i < ATOLL_PROMISES; i++) {
        uint64_t n = s->promised[i];

        s->tenant->promised[i] += in ? n : -n;
        s->engine->promised[i] += in ? n : -n;
    }
}

static void refuse_count(const char *what)
{
    atoll_metric_add(ATOLL_METRIC_QUOTA_REFUSED, ATOLL_LABELS(what), 1);
}

/* The tenant's quota of a promise. */
static uint64_t most_of(const struct atoll_quota *q, const char *tenant, size_t promise)
{
    bool exempt = strcmp(tenant, ATOLL_OPERATOR_TENANT) == 0 && q->tenant_derived[promise];

    return exempt ? 0 : q->tenant_most[promise];
}

static bool exceeds(uint64_t most, uint64_t have, uint64_t more)
{
    return most > 0 && more > 0 && (have > most || more > most - have);
}

/* all: what the sandbox is promised; more: what it is promised in addition. */
static int admit(const struct atoll_engine *engine, const char *owner,
                 const uint64_t all[static ATOLL_PROMISES],
                 const uint64_t more[static ATOLL_PROMISES], struct atoll_error *err)
{
    const struct atoll_quota *q = &engine->config.quota;
    const struct atoll_tenant *t = atoll_tenant_find(engine, owner);

    for (size_t i = 0; i < ATOLL_PROMISES; i++) {
        uint64_t have = t ? t->promised[i] : 0;
        uint64_t most = most_of(q, owner, i);
        double unit = promises[i].unit;

        if (exceeds(q->machine[i], 0, all[i])) {
            refuse_count(promises[i].option);
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "%s: this machine has %.10g %s in all (got %.10g)", promises[i].field,
                              (double)q->machine[i] / unit, promises[i].what,
                              (double)all[i] / unit);
        }
        if (exceeds(most, have, more[i])) {
            refuse_count(promises[i].option);
            return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                              "the sandboxes of tenant %s have %.10g %s and may have %.10g in all "
                              "(--tenant-%s): destroy some, or ask for less %s",
                              owner, (double)have / unit, promises[i].what, (double)most / unit,
                              promises[i].option, promises[i].field);
        }
        if (exceeds(q->total_most[i], engine->promised[i], more[i])) {
            refuse_count(promises[i].option);
            return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                              "all sandboxes have %.10g %s and may have %.10g together "
                              "(--total-%s): destroy some, or ask for less %s",
                              (double)engine->promised[i] / unit, promises[i].what,
                              (double)q->total_most[i] / unit, promises[i].option,
                              promises[i].field);
        }
    }
    return 0;
}

int atoll_tenant_admit(struct atoll_engine *engine, const char *owner,
                       const struct atoll_provider_entry *entry, const struct atoll_spec *spec,
                       struct atoll_error *err)
{
    uint64_t all[ATOLL_PROMISES];

    promised_by(entry, spec, all);
    return admit(engine, owner, all, all, err);
}

int atoll_tenant_admit_change(const struct atoll_sandbox *s, const struct atoll_limits *limits,
                              struct atoll_error *err)
{
    uint64_t all[ATOLL_PROMISES], more[ATOLL_PROMISES];
    struct atoll_spec spec = s->spec;

    spec.limits = *limits;
    promised_by(s->entry, &spec, all);
    for (size_t i = 0; i < ATOLL_PROMISES; i++)
        more[i] = all[i] > s->promised[i] ? all[i] - s->promised[i] : 0;
    return admit(s->engine, s->spec.tenant, all, more, err);
}

/* Sandboxes. */

void atoll_tenant_enter(struct atoll_sandbox *s)
{
    s->tenant = atoll_tenant_get(s->engine, s->spec.tenant);
    atoll_ordered_add(&s->engine->ordered, s);
    atoll_ordered_add(&s->tenant->sandboxes, s);
    atoll_name_enter(s);
    promised_by(s->entry, &s->spec, s->promised);
    count(s, true);
}

void atoll_tenant_leave(struct atoll_sandbox *s)
{
    struct atoll_tenant *t = s->tenant;

    if (!t)
        return;
    count(s, false);
    atoll_ordered_remove(&s->engine->ordered, s);
    atoll_ordered_remove(&t->sandboxes, s);
    atoll_name_leave(s);
    s->tenant = NULL;
    atoll_tenant_settle(t);
}

void atoll_tenant_recount(struct atoll_sandbox *s)
{
    if (!s->tenant)
        return;
    count(s, false);
    promised_by(s->entry, &s->spec, s->promised);
    count(s, true);
}

/* Paging. */

static const struct atoll_ordered *list_of(const struct atoll_engine *engine, const char *tenant)
{
    static const struct atoll_ordered empty;
    const struct atoll_tenant *t = tenant ? atoll_tenant_find(engine, tenant) : NULL;

    if (!tenant)
        return &engine->ordered;
    return t ? &t->sandboxes : &empty;
}

struct atoll_sandbox *atoll_engine_after(struct atoll_engine *engine, const char *tenant,
                                         int64_t created_unix_ms, const char *id)
{
    const struct atoll_ordered *o = list_of(engine, tenant);
    size_t at = atoll_ordered_after(o, created_unix_ms, id);

    return at < o->count ? o->items[at] : NULL;
}

struct atoll_sandbox *atoll_engine_before(struct atoll_engine *engine, const char *tenant,
                                          int64_t created_unix_ms, const char *id)
{
    const struct atoll_ordered *o = list_of(engine, tenant);
    size_t at = atoll_ordered_from(o, created_unix_ms, id);

    return at > 0 ? o->items[at - 1] : NULL;
}

size_t atoll_engine_count(const struct atoll_engine *engine, const char *tenant,
                          const char *provider, size_t ret[static ATOLL_SANDBOX_STATES],
                          size_t *ret_silent)
{
    const struct atoll_ordered *o = list_of(engine, tenant);
    size_t n = 0, silent = 0;

    memset(ret, 0, ATOLL_SANDBOX_STATES * sizeof(*ret));
    for (size_t i = 0; i < o->count; i++) {
        const struct atoll_sandbox *s = o->items[i];

        bool mute = atoll_sandbox_expects(s) && atoll_rpc_silent_ms(s->agent) > 0;

        if (provider && strcmp(s->provider->ops->name, provider) != 0)
            continue;
        ret[mute ? ATOLL_SANDBOX_UNREACHABLE : atoll_sandbox_state(s)]++;
        silent += mute;
        n++;
    }
    if (ret_silent)
        *ret_silent = silent;
    return n;
}

/* Usage. */

static void usage_of(const struct atoll_tenant *t, struct atoll_usage *ret)
{
    ret->sandboxes = t->sandboxes.count;
    ret->creates = t->busy[ATOLL_TURN_CREATE];
    ret->execs = t->busy[ATOLL_TURN_EXEC];
    for (size_t k = 0; k < ATOLL_TURNS; k++)
        ret->waiting += t->waiting[k];
    memcpy(ret->promised, t->promised, sizeof(ret->promised));
}

void atoll_engine_usage(const struct atoll_engine *engine, const char *tenant,
                        struct atoll_usage *ret)
{
    const struct atoll_quota *q = &engine->config.quota;
    const struct atoll_tenant *t = tenant ? atoll_tenant_find(engine, tenant) : NULL;
    size_t creates, execs;

    *ret = (struct atoll_usage){.sandboxes_most = engine->config.max_sandboxes,
                                .creates_most = q->all_creates};
    if (!tenant) {
        atoll_engine_queue(engine, &creates, &execs);
        ret->sandboxes = engine->public_count;
        ret->creates = engine->creating;
        ret->waiting = creates + execs;
        memcpy(ret->promised, engine->promised, sizeof(ret->promised));
        memcpy(ret->promised_most, q->total_most, sizeof(ret->promised_most));
        return;
    }
    if (q->sandboxes > 0)
        ret->sandboxes_most = ATOLL_MIN(ret->sandboxes_most, (size_t)q->sandboxes);
    ret->creates_most = q->creates;
    ret->execs_most = q->execs;
    for (size_t i = 0; i < ATOLL_PROMISES; i++)
        ret->promised_most[i] = most_of(q, tenant, i);
    if (t)
        usage_of(t, ret);
}

void atoll_engine_largest(const struct atoll_engine *engine, uint64_t ret_promised[static 3])
{
    const struct atoll_tenant *t;

    memset(ret_promised, 0, ATOLL_PROMISES * sizeof(*ret_promised));
    for (size_t pos = 0; (t = atoll_map_next(&engine->tenants, &pos)) != NULL;)
        for (size_t i = 0; i < ATOLL_PROMISES; i++)
            ret_promised[i] = ATOLL_MAX(ret_promised[i], t->promised[i]);
}

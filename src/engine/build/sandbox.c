#include <errno.h>
#include <string.h>
#include "engine/build/build_internal.h"
#include "engine/template/versions.h"

/*
 * The sandbox of a step.
 */
#define MEMORY_DEFAULT (UINT64_C(2) << 30)
#define PIDS_DEFAULT 4096

static void fill_limits(struct atoll_limits *limits, const struct atoll_engine *engine)
{
    struct atoll_limits base = atoll_limits_default();

    base.memory_bytes = MEMORY_DEFAULT;
    base.pids = PIDS_DEFAULT;
    base.cpu_millis =
        engine->config.quota.cpus ? engine->config.quota.cpus * 1000 : base.cpu_millis;
    base.timeout_s = 0; /* that of a step is the command's */
    atoll_limits_merge(limits, &base);
}

struct atoll_sandbox *atoll_make_sandbox(struct atoll_engine *engine,
                                         const struct atoll_make_job *job, struct atoll_error *err)
{
    struct atoll_spec spec = {
        .limits = job->limits,
        .template_kind =
            job->builder == ATOLL_BUILDER_STEP ? ATOLL_TEMPLATE_ROOTFS : ATOLL_TEMPLATE_HOST,
        .layer_base = ATOLL_LAYER_BASE,
        .layers = job->layers,
        .builder = job->builder,
        .trees = job->trees,
        .tree_count = job->tree_count,
        .caches = job->caches,
        .cache_count = job->cache_count,
        .network = job->network,
    };
    struct atoll_sandbox *s;

    if (job->no_result ? atoll_room_admit(engine, err) < 0 : atoll_room_check(engine, err) < 0)
        return NULL;
    fill_limits(&spec.limits, engine);
    memcpy(spec.tenant, job->tenant, sizeof(spec.tenant));
    /* Its disk is a plain directory, which has no limit. */
    spec.waived = ATOLL_LIMIT_DISK | atoll_place_missing_limits(engine->builder->provider, &spec);
    s = atoll_sandbox_prepare(engine, &spec, engine->template_tables.host);
    if (!s) {
        (void)atoll_fail_errno(err, ENOMEM, "sandbox of a step");
        return NULL;
    }
    s->hidden = true;
    if (job->policy &&
        atoll_options_dup(&s->options, &(struct atoll_options){.network_json = job->policy}, err) <
            0) {
        atoll_sandbox_discard(s);
        return NULL;
    }
    return s;
}

#include <string.h>
#include "base/log.h"
#include "engine/build/cache_mounts.h"
#include "engine/engine_internal.h"

/*
 * The collector: removes versions that no name means and no sandbox uses, beyond the history of their
 * template, and cached steps beyond the maximum of the cache. Layers go with their last use.
 */

#define SOON_MS 10
#define RECOVERING_MS 1000
#define AGAIN_MS 60000 /* after a removal that the store refused */

/* Versions without a tag that a template keeps. An import is a whole tree, and an image is kept by its
 * provider: of these only what a name means is kept. Builds and pulls share most of their layers. */
static size_t history_of(const struct atoll_engine *engine, const struct atoll_version *v)
{
    bool shares_layers = v->kind == ATOLL_TEMPLATE_ROOTFS && strcmp(v->source, "import") != 0;
    return shares_layers && !atoll_version_is_temporary(v) ? engine->config.template_history : 0;
}

/* The version that a name without a tag means is not removed, except for that of a fork. */
static bool is_removable(struct atoll_engine *engine, const struct atoll_version *v)
{
    bool is_named = atoll_template_version(v->tmpl) == v && !atoll_version_is_temporary(v);

    return v->kind != ATOLL_TEMPLATE_HOST && !is_named && !atoll_version_has_tag(v) &&
           v->pins == 0 && atoll_version_sandboxes(engine, v) == 0;
}

/* False: a removal could not be stored. */
static bool collect_template(struct atoll_engine *engine, struct atoll_template *t, bool history)
{
    struct atoll_error err;
    size_t untagged = 0;
    bool ok = true, only;

    ATOLL_LIST_FOREACH (&t->versions, node) {
        struct atoll_version *v = ATOLL_CONTAINER_OF(node, struct atoll_version, node);

        if (!is_removable(engine, v) || (history && untagged++ < history_of(engine, v)))
            continue;
        only = t->versions.next == t->versions.prev;
        if (atoll_version_drop(engine, v, &err) < 0) {
            atoll_log(ATOLL_LOG_ERROR, "state not stored", "what", "removal of a version", "error",
                      err.text, NULL);
            ok = false;
        } else if (only) {
            break; /* the template was removed with it */
        }
    }
    return ok;
}

static void collect(void *arg)
{
    struct atoll_engine *engine = arg;
    struct atoll_timer *timer = &engine->template_tables.collector;
    struct atoll_template *t;
    size_t pos = 0;
    bool ok = true;

    if (engine->ending)
        return;
    if (engine->recovering) {
        atoll_timer_set(timer, engine->loop, RECOVERING_MS, collect, engine);
        return;
    }
    while ((t = atoll_map_next(&engine->template_tables.templates, &pos)) != NULL)
        ok = collect_template(engine, t, true) && ok;
    atoll_step_cache_fit(engine);
    if (!ok)
        atoll_timer_set(timer, engine->loop, AGAIN_MS, collect, engine);
}

void atoll_templates_collect_soon(struct atoll_engine *engine)
{
    struct atoll_timer *timer = &engine->template_tables.collector;

    if (!engine->template_tables.layers.is_open ||
        (timer->loop && timer->at_ms <= atoll_loop_now_ms(engine->loop) + SOON_MS))
        return;
    atoll_timer_set(timer, engine->loop, SOON_MS, collect, engine);
}

struct atoll_template_usage atoll_templates_usage(struct atoll_engine *engine)
{
    const struct atoll_template_tables *t = &engine->template_tables;

    return (struct atoll_template_usage){
        .versions = t->versions.used,
        .tags = t->tags,
        .layers = t->layers.count,
        .layer_bytes = t->layers.bytes,
        .steps = t->steps.map.used,
        .step_bytes = t->layers.step_bytes,
        .step_max_bytes = engine->config.template_cache_max_bytes,
        .mount_bytes = atoll_cache_mounts_bytes(engine),
        .mount_max_bytes = engine->config.build_caches_max_bytes,
        .removed_layers = t->layers.removed,
        .removed_bytes = t->layers.removed_bytes,
        .removed_steps = t->steps.removed,
        .removed_versions = t->removed_versions,
    };
}

struct atoll_template_usage atoll_templates_collect(struct atoll_engine *engine, const char *tenant,
                                                    bool steps)
{
    const struct atoll_template_usage before = atoll_templates_usage(engine);
    struct atoll_template_usage after;
    struct atoll_template *t;
    size_t pos = 0;

    while ((t = atoll_map_next(&engine->template_tables.templates, &pos)) != NULL)
        if (!tenant || strcmp(t->owner, tenant) == 0)
            (void)collect_template(engine, t, false);
    if (steps)
        (void)atoll_steps_drop(engine, tenant, NULL);
    after = atoll_templates_usage(engine);
    after.removed_layers -= before.removed_layers;
    after.removed_bytes -= before.removed_bytes;
    after.removed_steps -= before.removed_steps;
    after.removed_versions -= before.removed_versions;
    return after;
}

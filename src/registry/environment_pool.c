#include "registry/environment_pool.h"

#include "base/memory.h"
#include "base/text.h"
#include "engine/engine.h"
#include "registry/environment_build.h"
#include "registry/environment_options.h"

struct atoll_environment_pool {
    struct atoll_engine *engine;
    struct atoll_registry *registry;
};

/* One environment of the list that is being made. */
struct entry {
    struct atoll_environment_options options;
    char built[ATOLL_ENVIRONMENT_TEMPLATE_MAX];
    struct atoll_error error;
};

static void describe(struct atoll_engine *engine, const struct atoll_environment *e,
                     struct entry *entry, struct atoll_pool_declared *ret)
{
    const struct atoll_options request = {0};

    *ret = (struct atoll_pool_declared){.environment = e->name, .count = e->pool};
    if (atoll_environment_options_init(&entry->options, e, &request, engine, &entry->error) < 0) {
        ret->problem = entry->error.text;
        entry->options.sandbox.interpreter = e->language;
    } else if (atoll_environment_is_built(e)) {
        if (atoll_environment_built(engine, e, entry->built))
            entry->options.sandbox.template_name = entry->built;
        else
            ret->problem = "its template is built by its first session";
    }
    ret->options = entry->options.sandbox;
}

static void declare(void *arg)
{
    struct atoll_environment_pool *pool = arg;
    struct atoll_pool_declared list[ATOLL_POOL_DECLARED];
    struct entry *entries = atoll_alloc(ATOLL_POOL_DECLARED * sizeof(*entries));
    struct atoll_registry_item item;
    struct atoll_environment e;
    struct atoll_error ignored;
    size_t pos = 0, n = 0;

    while (n < ATOLL_POOL_DECLARED &&
           atoll_registry_next(pool->registry, ATOLL_REGISTRY_ENVIRONMENT, &pos, &item))
        if (atoll_environment_find(pool->registry, item.name, &e, &ignored) == 0 && e.pool > 0) {
            describe(pool->engine, &e, &entries[n], &list[n]);
            n++;
        }
    atoll_pool_declare(pool->engine, list, n);
    for (size_t i = 0; i < n; i++)
        atoll_environment_options_done(&entries[i].options);
    free(entries);
}

struct atoll_environment_pool *atoll_environment_pool_open(struct atoll_engine *engine,
                                                           struct atoll_registry *registry)
{
    struct atoll_environment_pool *pool = atoll_alloc(sizeof(*pool));
    const struct atoll_pool_source source = {declare, pool};

    *pool = (struct atoll_environment_pool){engine, registry};
    atoll_registry_on_change(registry, declare, pool);
    atoll_engine_set_pool_source(engine, &source);
    return pool;
}

struct atoll_environment_pool *atoll_environment_pool_close(struct atoll_environment_pool *pool)
{
    if (!pool)
        return NULL;
    atoll_registry_on_change(pool->registry, NULL, NULL);
    atoll_engine_set_pool_source(pool->engine, &(struct atoll_pool_source){0});
    free(pool);
    return NULL;
}

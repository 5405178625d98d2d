#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "base/text.h"
#include "engine/sandbox/pool_internal.h"

/*
 * Pool classes that environments of the registry declare: sandboxes as a request makes them that
 * names the environment only, with the interpreter of its language started and its modules
 * imported. They are made before anything is requested, within bounds for all of them together: a
 * number, and the memory that they have been measured to use.
 */

static struct atoll_pool_class *declared(struct atoll_engine *engine)
{
    return &engine->pool_classes[ATOLL_POOL_LEARNED];
}

/* The bounds. */

/* What one more is expected to use: the average of those that are ready. */
static uint64_t expected_bytes(const struct atoll_pool_class *c)
{
    return c->size ? c->memory_bytes / c->size : 0;
}

bool atoll_pool_fits(const struct atoll_pool_class *pool_class)
{
    struct atoll_engine *engine = pool_class->engine;
    uint64_t bytes = expected_bytes(pool_class), count = 1;

    for (size_t i = 0; i < ATOLL_POOL_DECLARED; i++) {
        const struct atoll_pool_class *c = &declared(engine)[i];
        count += c->size + c->making;
        bytes += c->memory_bytes + c->making * expected_bytes(c);
    }
    return count <= engine->config.pool_max && bytes <= engine->config.pool_memory_bytes;
}

struct measuring {
    struct atoll_engine *engine;
    char id[ATOLL_ID_LEN + 1];
};

static void on_measured(void *arg, const struct atoll_provider_stats *stats,
                        const struct atoll_error *error)
{
    struct measuring *m = arg;
    struct atoll_engine *engine = m->engine;
    struct atoll_sandbox *s = atoll_map_get(&engine->sandboxes, m->id);

    free(m);
    if (error || !s || !s->pool_node.next || s->pool_bytes)
        return;
    s->pool_bytes = stats->memory_bytes;
    s->pool_class->memory_bytes += stats->memory_bytes;
}

void atoll_pool_measure(struct atoll_sandbox *s)
{
    struct measuring *m;

    if (!s->provider->ops->caps(s->provider)->stats)
        return;
    m = atoll_alloc(sizeof(*m));
    m->engine = s->engine;
    memcpy(m->id, s->spec.id, sizeof(m->id));
    s->provider->ops->stats(s->provider, &s->spec, on_measured, m);
}

/* The list. */

static struct atoll_pool_class *find(struct atoll_engine *engine, const char *environment)
{
    for (size_t i = 0; i < ATOLL_POOL_DECLARED; i++)
        if (strcmp(declared(engine)[i].environment, environment) == 0)
            return &declared(engine)[i];
    return NULL;
}

static void drop(struct atoll_pool_class *c)
{
    atoll_pool_clear(c);
    atoll_options_free(&c->options);
    *c->environment = *c->problem = '\0';
    c->target = 0;
}

static int place(const struct atoll_pool_class *c, struct atoll_place *ret, struct atoll_error *err)
{
    const struct atoll_engine *engine = c->engine;
    int r = atoll_place(c->engine, &c->options, ret, err);

    if (r > 0)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ENOENT,
                          "its image is not here yet; the first session pulls it");
    if (r == 0 && (ret->entry != engine->builder || *ret->spec.image))
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ENOTSUP,
                          "its sandboxes are made by provider %s from an image; only provider %s "
                          "makes sandboxes ahead, from templates",
                          ret->entry->provider->ops->name, engine->builder->provider->ops->name);
    return r;
}

static bool is_same(const struct atoll_pool_class *c, const struct atoll_place *to)
{
    return strcmp(c->version_id, to->version->id) == 0 &&
           atoll_pool_can_become(&c->spec, &to->spec) &&
           strcmp(c->language, c->options.interpreter) == 0 &&
           atoll_pool_same_strings(c->env, c->options.env) &&
           atoll_pool_same_strings(c->warm, c->options.warm);
}

/* Finds out what its sandboxes are made from now. Those made from something else are destroyed. */
static void settle(struct atoll_pool_class *c, const char *problem)
{
    struct atoll_place to = {0};
    struct atoll_error err;
    int r = 0;

    if (problem)
        r = atoll_fail(&err, ATOLL_ERR_FAILED_PRECONDITION, ENOENT, "%s", problem);
    else
        r = place(c, &to, &err);
    if (r == 0 && is_same(c, &to))
        return;
    atoll_pool_clear(c);
    if (r < 0)
        (void)snprintf(c->problem, sizeof(c->problem), "%s", err.text);
    else
        (void)atoll_pool_define(c, to.version, &to.spec, c->options.interpreter, c->options.env,
                                c->options.warm);
}

static bool is_listed(const struct atoll_pool_declared *list, size_t n, const char *environment)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i].environment, environment) == 0)
            return true;
    return false;
}

/* What an environment wants has changed: what went wrong before may not any more. */
static bool has_changed(const struct atoll_pool_class *c, const struct atoll_options *options)
{
    return !c->options.interpreter || strcmp(c->options.interpreter, options->interpreter) != 0 ||
           !atoll_pool_same_strings((char *const *)c->options.warm, options->warm) ||
           !atoll_pool_same_strings((char *const *)c->options.env, options->env);
}

static void declare(struct atoll_engine *engine, const struct atoll_pool_declared *d)
{
    struct atoll_pool_class *c = find(engine, d->environment);
    struct atoll_options options;
    struct atoll_error err;

    c = c ? c : find(engine, "");
    if (!c || atoll_options_dup(&options, &d->options, &err) < 0)
        return;
    if (has_changed(c, &options))
        atoll_pool_clear(c);
    atoll_options_free(&c->options);
    c->options = options;
    c->target = d->count;
    (void)!atoll_text_copy(c->environment, sizeof(c->environment), d->environment);
    settle(c, d->problem);
}

void atoll_pool_declare(struct atoll_engine *engine, const struct atoll_pool_declared *list,
                        size_t n)
{
    for (size_t i = 0; i < ATOLL_POOL_DECLARED; i++) {
        struct atoll_pool_class *c = &declared(engine)[i];
        if (*c->environment && !is_listed(list, n, c->environment))
            drop(c);
    }
    for (size_t i = 0; i < n; i++)
        declare(engine, &list[i]);
    atoll_pool_refill_soon(engine);
}

void atoll_engine_set_pool_source(struct atoll_engine *engine,
                                  const struct atoll_pool_source *source)
{
    engine->pool_source = *source;
    if (source->declare)
        source->declare(source->arg);
}

/* Views. */

static void view(const struct atoll_pool_class *c, struct atoll_pool_view *ret)
{
    const struct atoll_engine *engine = c->engine;
    const struct atoll_version *v = atoll_map_get(&engine->template_tables.versions, c->version_id);
    uint32_t target = *c->environment ? c->target : engine->config.pool;
    bool full = *c->environment && c->size + c->making < target && !atoll_pool_fits(c);

    *ret = (struct atoll_pool_view){
        .environment = c->environment,
        .template_name = v && v->tmpl ? v->tmpl->name : "",
        .language = c->language,
        .warm = (const char *const *)c->warm,
        .target = target,
        .ready = c->size,
        .making = c->making,
        .memory_bytes = c->memory_bytes,
        .problem = *c->problem ? c->problem
                   : full      ? "the bounds of the pool are reached (--pool-max, --pool-memory)"
                               : "",
    };
}

bool atoll_pool_next(const struct atoll_engine *engine, size_t *pos, struct atoll_pool_view *ret)
{
    while (*pos < ATOLL_POOL_CLASSES) {
        const struct atoll_pool_class *c = &engine->pool_classes[(*pos)++];
        if (!*c->environment && (!*c->version_id || engine->config.pool == 0))
            continue;
        view(c, ret);
        return true;
    }
    return false;
}

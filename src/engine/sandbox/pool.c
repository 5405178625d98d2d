#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "engine/engine_internal.h"
#include "engine/network/network.h"
#include "engine/sandbox/pool_internal.h"
#include "sandbox/spec_layers.h"

/*
 * Sandboxes that are made ahead of requests, so that a create only hands one over. They are
 * refilled in the background, few at a time, so that real creates come first.
 *
 * They are grouped in pool classes. The first class has sandboxes of the host template with default
 * limits, which fit every request that differs only in what can still be changed. The other classes
 * are for kinds of sandboxes that were requested repeatedly, such as another template, a larger disk
 * or a disk that is kept; and, with a started interpreter, for those in which code ran repeatedly.
 * The interpreter has its environment already: requests with variables of their own do not get such
 * a sandbox. Neither do requests that do not announce code, so that a tenant never finds a process
 * that it did not ask for. The last classes are those that environments declare (pool_declared.c).
 */

#define FORGET_MS (10 * 60 * 1000)

/* Choosing the pool class. */

bool atoll_pool_same_strings(char *const *a, const char *const *b)
{
    size_t i = 0;

    for (; a && b && a[i] && b[i]; i++)
        if (strcmp(a[i], b[i]) != 0)
            return false;
    return !(a && a[i]) && !(b && b[i]);
}

static bool is_disk_in_memory(const struct atoll_limits *limits)
{
    return limits->memory_bytes / 2 >= limits->disk_bytes;
}

/* Whether a sandbox made from one spec can be changed to the other. */
bool atoll_pool_can_become(const struct atoll_spec *made, const struct atoll_spec *wanted)
{
    return wanted->persistent == made->persistent && !*wanted->image &&
           wanted->network == made->network && wanted->template_kind == made->template_kind &&
           strcmp(wanted->layers ?: "", made->layers ?: "") == 0 &&
           wanted->waived == made->waived && wanted->allow_sudo == made->allow_sudo &&
           wanted->limits.disk_bytes == made->limits.disk_bytes &&
           wanted->limits.inodes == made->limits.inodes &&
           wanted->limits.open_files == made->limits.open_files &&
           wanted->limits.io_bytes == made->limits.io_bytes &&
           is_disk_in_memory(&wanted->limits) == is_disk_in_memory(&made->limits);
}

/* The class for this kind, or NULL; one of an environment if there is one. language "": without an
 * interpreter; then it has neither env nor warm. */
static struct atoll_pool_class *find_class(struct atoll_engine *engine,
                                           const struct atoll_spec *spec, const char *language,
                                           const char *const *env, const char *const *warm)
{
    for (size_t i = ATOLL_POOL_CLASSES - 1; i > 0; i--) {
        struct atoll_pool_class *pool_class = &engine->pool_classes[i];
        if (atoll_pool_is_used(pool_class) && atoll_pool_can_become(&pool_class->spec, spec) &&
            strcmp(pool_class->language, language) == 0 &&
            atoll_pool_same_strings(pool_class->env, env) &&
            atoll_pool_same_strings(pool_class->warm, warm))
            return pool_class;
    }
    return NULL;
}

void atoll_pool_clear(struct atoll_pool_class *pool_class)
{
    struct atoll_sandbox *s;
    size_t pos = 0;

    *pool_class->version_id = *pool_class->language = *pool_class->problem = '\0';
    pool_class->env = atoll_strings_free(pool_class->env);
    pool_class->warm = atoll_strings_free(pool_class->warm);
    atoll_spec_free_layers(&pool_class->spec);
    pool_class->asked = pool_class->failures = 0;
    while ((s = atoll_map_next(&pool_class->engine->sandboxes, &pos)) != NULL)
        if (s->pool_class == pool_class && atoll_sandbox_would_move(s, ATOLL_ON_DESTROY)) {
            s->version = pool_class->engine->template_tables.host;
            atoll_sandbox_destroy(s, "the pool, which does not need it", NULL, NULL);
        }
}

static void tidy(void *arg)
{
    struct atoll_engine *engine = arg;
    int64_t now = atoll_clock_ms();
    bool more = false;

    for (size_t i = 1; i < ATOLL_POOL_LEARNED; i++) {
        struct atoll_pool_class *pool_class = &engine->pool_classes[i];
        if (atoll_pool_is_used(pool_class) && now - pool_class->asked_ms >= FORGET_MS)
            atoll_pool_clear(pool_class);
        more |= atoll_pool_is_used(pool_class);
    }
    if (more && !engine->ending)
        atoll_timer_set(&engine->pool_tidy, engine->loop, FORGET_MS / 2, tidy, engine);
}

static struct atoll_pool_class *longest_unasked(struct atoll_engine *engine)
{
    struct atoll_pool_class *found = &engine->pool_classes[1];

    for (size_t i = 1; i < ATOLL_POOL_LEARNED; i++) {
        struct atoll_pool_class *pool_class = &engine->pool_classes[i];
        if (!atoll_pool_is_used(pool_class))
            return pool_class;
        if (pool_class->asked_ms < found->asked_ms)
            found = pool_class;
    }
    return found;
}

bool atoll_pool_define(struct atoll_pool_class *pool_class, const struct atoll_version *version,
                       const struct atoll_spec *spec, const char *language, const char *const *env,
                       const char *const *warm)
{
    pool_class->env = env ? atoll_strings_dup(env) : NULL;
    pool_class->warm = warm ? atoll_strings_dup(warm) : NULL;
    if ((env && !pool_class->env) || (warm && !pool_class->warm)) {
        atoll_pool_clear(pool_class);
        return false;
    }
    memcpy(pool_class->version_id, version->id, sizeof(pool_class->version_id));
    (void)!atoll_text_copy(pool_class->language, sizeof(pool_class->language), language);
    pool_class->spec = (struct atoll_spec){.limits = spec->limits,
                                           .waived = spec->waived,
                                           .template_kind = spec->template_kind,
                                           .layer_base = spec->layer_base,
                                           .network = spec->network,
                                           .persistent = spec->persistent,
                                           .allow_sudo = spec->allow_sudo};
    pool_class->spec.layers = spec->layers;
    atoll_spec_own_layers(&pool_class->spec);
    return true;
}

static struct atoll_pool_class *set_up(struct atoll_engine *engine, const struct atoll_sandbox *s,
                                       const char *language, const char *const *env,
                                       const char *const *warm)
{
    struct atoll_pool_class *pool_class = longest_unasked(engine);

    atoll_pool_clear(pool_class);
    if (!atoll_pool_define(pool_class, s->version, &s->spec, language, env, warm))
        return NULL;
    atoll_timer_set(&engine->pool_tidy, engine->loop, FORGET_MS / 2, tidy, engine);
    return pool_class;
}

/* Whether sandboxes like this one can be made before they are asked for. */
static bool can_be_pooled(const struct atoll_sandbox *s)
{
    const struct atoll_engine *engine = s->engine;

    return engine->config.pool > 0 && s->entry == engine->builder && !*s->spec.image &&
           !atoll_version_is_temporary(s->version) && s->options.mount_count == 0 &&
           !s->options.read_only && atoll_options_disk(&s->options) == ATOLL_DISK_ANY &&
           (s->spec.network == ATOLL_NETWORK_NONE || atoll_network_serves(s));
}

/* One more request for sandboxes of this kind. language "": without an interpreter. */
static void note(const struct atoll_sandbox *s, const char *language, const char *const *env,
                 const char *const *warm)
{
    struct atoll_engine *engine = s->engine;
    struct atoll_pool_class *pool_class = find_class(engine, &s->spec, language, env, warm);

    if (!pool_class)
        pool_class = set_up(engine, s, language, env, warm);
    if (!pool_class)
        return;
    pool_class->asked++;
    pool_class->asked_ms = atoll_clock_ms();
    pool_class->failures = 0;
    atoll_pool_refill_soon(engine);
}

const char *const *atoll_engine_warm(struct atoll_engine *engine, const char *sandbox_id,
                                     const char *language)
{
    const struct atoll_sandbox *s = atoll_engine_peek(engine, sandbox_id);

    return s && s->options.warm && *s->options.warm && s->options.interpreter &&
                   strcmp(s->options.interpreter, language) == 0
               ? s->options.warm
               : NULL;
}

/* Its modules were imported: what kept the pool from it is repaired. */
static void forgive(const struct atoll_sandbox *s)
{
    struct atoll_pool_class *pool_class =
        find_class(s->engine, &s->spec, s->options.interpreter, s->options.env, s->options.warm);

    if (pool_class && *pool_class->problem) {
        *pool_class->problem = '\0';
        atoll_pool_refill_soon(s->engine);
    }
}

void atoll_engine_note_interpreter(struct atoll_engine *engine, const char *sandbox_id,
                                   const char *language)
{
    const struct atoll_sandbox *s = atoll_engine_find(engine, sandbox_id);

    if (s && s->options.warm)
        forgive(s);
    if (s && can_be_pooled(s) && s->options.env_is_common && s->options.interpreter &&
        strcmp(s->options.interpreter, language) == 0)
        note(s, language, s->options.env, s->options.warm);
}

void atoll_pool_note(const struct atoll_sandbox *s)
{
    const struct atoll_pool_source *source = &s->engine->pool_source;
    const char *language = s->options.interpreter;

    /* Its environment may have a pool whose template has changed, or was built for this request. */
    if (language && !s->pooled && source->declare)
        source->declare(source->arg);
    if (!can_be_pooled(s) || atoll_pool_can_become(&atoll_pool_first(s->engine)->spec, &s->spec))
        return;
    if (!language || !find_class(s->engine, &s->spec, language, s->options.env, s->options.warm))
        note(s, "", NULL, NULL);
}

void atoll_engine_set_interpreters(struct atoll_engine *engine,
                                   const struct atoll_interpreters *interpreters)
{
    engine->interpreters = *interpreters;
}

/* Taking a sandbox. */

/* Skips sandboxes that have died, which have no agent and stay until they are removed. */
static struct atoll_sandbox *first_alive(const struct atoll_pool_class *pool_class)
{
    ATOLL_LIST_FOREACH (&pool_class->ready, node) {
        struct atoll_sandbox *s = ATOLL_CONTAINER_OF(node, struct atoll_sandbox, pool_node);
        if (s->agent && s->phase == ATOLL_PHASE_RUNNING)
            return s;
    }
    return NULL;
}

struct atoll_sandbox *atoll_pool_take(struct atoll_engine *engine, const struct atoll_spec *spec,
                                      const struct atoll_options *create)
{
    bool common = create->env_is_common || !create->env || !*create->env;
    struct atoll_pool_class *pool_class =
        common && create->interpreter
            ? find_class(engine, spec, create->interpreter, create->env, create->warm)
            : NULL;
    struct atoll_sandbox *s = pool_class ? first_alive(pool_class) : NULL;

    atoll_pool_first(engine)->failures = 0;
    if (pool_class)
        pool_class->failures = 0;
    if (!s && atoll_pool_can_become(&atoll_pool_first(engine)->spec, spec))
        s = first_alive(atoll_pool_first(engine));
    if (!s && (pool_class = find_class(engine, spec, "", NULL, NULL)) != NULL)
        s = first_alive(pool_class);
    if (!s)
        return NULL;
    atoll_pool_forget(s);
    s->pool_class = NULL;
    s->hidden = false;
    engine->public_count++;
    atoll_pool_refill_soon(engine);
    return s;
}

void atoll_pool_forget(struct atoll_sandbox *s)
{
    if (!s->pool_node.next)
        return;
    atoll_list_remove(&s->pool_node);
    s->pool_class->size--;
    s->pool_class->memory_bytes -= s->pool_bytes;
    s->pool_bytes = 0;
}

void atoll_pool_leave_version(struct atoll_engine *engine, const struct atoll_version *v)
{
    for (size_t i = 1; i < ATOLL_POOL_CLASSES; i++)
        if (strcmp(engine->pool_classes[i].version_id, v->id) == 0)
            atoll_pool_clear(&engine->pool_classes[i]);
}

/* Start and end of the pool. */

void atoll_pool_init(struct atoll_engine *engine)
{
    struct atoll_pool_class *first = atoll_pool_first(engine);
    struct atoll_provider *provider = engine->builder->provider;

    for (size_t i = 0; i < ATOLL_POOL_CLASSES; i++) {
        engine->pool_classes[i].engine = engine;
        atoll_list_init(&engine->pool_classes[i].ready);
    }
    (void)!atoll_text_copy(first->version_id, sizeof(first->version_id), "host");
    first->spec = (struct atoll_spec){
        .limits = atoll_limits_default(), .template_kind = ATOLL_TEMPLATE_HOST, .allow_sudo = true};
    first->spec.limits.io_bytes = engine->config.io_bytes;
    first->spec.waived = atoll_place_missing_limits(provider, &first->spec) & engine->config.waived;
}

void atoll_pool_done(struct atoll_engine *engine)
{
    atoll_timer_cancel(&engine->pool_refill);
    atoll_timer_cancel(&engine->pool_tidy);
    for (size_t i = 0; i < ATOLL_POOL_CLASSES; i++) {
        engine->pool_classes[i].env = atoll_strings_free(engine->pool_classes[i].env);
        engine->pool_classes[i].warm = atoll_strings_free(engine->pool_classes[i].warm);
        atoll_options_free(&engine->pool_classes[i].options);
        atoll_spec_free_layers(&engine->pool_classes[i].spec);
    }
}

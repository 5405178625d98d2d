#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "base/memory.h"
#include "engine/sandbox/pool_internal.h"

/*
 * The refill of the pool: makes sandboxes in the background, few at a time, and warms them.
 */

#define MAKING_MAX 2
/* Making a sandbox competes for the CPUs with the clients that just took some. So the refill waits
 * until there was no create for a while, unless the pool is half empty. */
#define QUIET_MS 250
#define REFILL_MS 100
#define WARMING_MS 5000
#define FAILURES_MAX 3 /* consecutive: then the pool class is not refilled until the next create */
#define ASKED_MIN 2    /* requests before a class is made for their kind */

static void enter(struct atoll_sandbox *s)
{
    struct atoll_pool_class *pool_class = s->pool_class;

    pool_class->making--;
    atoll_list_push_back(&pool_class->ready, &s->pool_node);
    pool_class->size++;
    pool_class->failures = 0;
    if (*pool_class->environment)
        atoll_pool_measure(s);
    atoll_pool_refill(s->engine);
}

/*
 * Warming: runs a shell once, which fills the caches of the new root (names, pages of the shell and
 * its libraries). Otherwise the first command of a client would pay for that.
 */
struct warming {
    struct atoll_engine *engine;
    struct atoll_pool_class *pool_class;
    char id[ATOLL_ID_LEN + 1];
    struct atoll_reader *reader;
};

/* The sandbox, if it can still be used; otherwise it is no longer counted as being made, and w is
 * freed. */
static struct atoll_sandbox *still_wanted(struct warming *w)
{
    struct atoll_sandbox *s = atoll_map_get(&w->engine->sandboxes, w->id);

    w->reader = atoll_reader_close(w->reader);
    if (s && s->phase == ATOLL_PHASE_RUNNING)
        return s;
    w->pool_class->making--;
    free(w);
    return NULL;
}

/* An interpreter with a list of modules was not ready. What a module says about itself would be the
 * same in the next sandbox. */
static void note_problem(struct atoll_pool_class *pool_class, const struct atoll_error *error)
{
    pool_class->failures++;
    if (error->kind == ATOLL_ERR_FAILED_PRECONDITION)
        (void)snprintf(pool_class->problem, sizeof(pool_class->problem), "%s", error->text);
}

static void prepared(void *arg, const struct atoll_error *error)
{
    struct warming *w = arg;
    struct atoll_pool_class *pool_class = w->pool_class;
    struct atoll_sandbox *s = still_wanted(w);

    if (error)
        atoll_log(ATOLL_LOG_WARN, "pool", "environment", pool_class->environment, "error",
                  error->text, NULL);
    if (!s)
        return; /* and w is gone */
    if (error && pool_class->warm) {
        note_problem(pool_class, error);
        pool_class->making--;
        atoll_sandbox_destroy(s, "the pool, because its modules were not imported", NULL, NULL);
    } else {
        enter(s); /* without its interpreter it is still usable */
    }
    free(w);
}

static void warmed(struct warming *w)
{
    const struct atoll_interpreters *interpreters = &w->engine->interpreters;
    struct atoll_sandbox *s = still_wanted(w);

    if (!s)
        return;
    atoll_exec_drop_all(s); /* the tenant must not see the daemon's exec */
    atoll_map_init(&s->execs);
    if (*w->pool_class->language && interpreters->prepare) {
        interpreters->prepare(interpreters->arg, w->id, w->pool_class->language, prepared, w);
        return;
    }
    free(w);
    enter(s);
}

static void on_warm_output(void *arg)
{
    struct warming *w = arg;
    struct atoll_reader_item item;
    int r;

    while ((r = atoll_reader_next(w->reader, &item)) > 0)
        if (item.kind == ATOLL_READ_END)
            break;
    if (r != 0)
        warmed(w);
}

static void on_warm_started(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct warming *w = arg;
    struct atoll_error err;

    /* A root without that shell is used without warming. */
    if (error || atoll_reader_open(exec, 0, 0, on_warm_output, w, &w->reader, &err) < 0)
        warmed(w);
}

static void warm(struct atoll_sandbox *s)
{
    static const char *const argv[] = {"/bin/bash", "-l", "-c", "true", NULL};
    static const struct atoll_exec_start start = {.argv = argv, .timeout_ms = WARMING_MS};
    struct warming *w = atoll_alloc(sizeof(*w));

    w->engine = s->engine;
    w->pool_class = s->pool_class;
    memcpy(w->id, s->spec.id, sizeof(w->id));
    atoll_engine_exec_now(s->engine, w->id, &start, on_warm_started, w);
}

static void on_made(void *arg, struct atoll_sandbox *s, const struct atoll_error *error)
{
    struct atoll_pool_class *pool_class = arg;

    if (error) {
        pool_class->making--;
        pool_class->failures++;
        atoll_log(ATOLL_LOG_WARN, "pool", "error", error->text, NULL);
        return;
    }
    warm(s);
}

static uint32_t making(const struct atoll_engine *engine)
{
    uint32_t n = 0;

    for (size_t i = 0; i < ATOLL_POOL_CLASSES; i++)
        n += engine->pool_classes[i].making;
    return n;
}

static uint32_t target_of(const struct atoll_pool_class *pool_class)
{
    return *pool_class->environment ? pool_class->target : pool_class->engine->config.pool;
}

static bool is_wanted(const struct atoll_pool_class *pool_class)
{
    return *pool_class->environment ? atoll_pool_fits(pool_class)
                                    : pool_class == atoll_pool_first(pool_class->engine) ||
                                          pool_class->asked >= ASKED_MIN;
}

static bool has_room(const struct atoll_pool_class *pool_class)
{
    return atoll_pool_is_used(pool_class) && pool_class->failures < FAILURES_MAX &&
           !*pool_class->problem && pool_class->size + pool_class->making < target_of(pool_class) &&
           is_wanted(pool_class);
}

static bool is_low(const struct atoll_pool_class *pool_class)
{
    return has_room(pool_class) &&
           (pool_class->size + pool_class->making) * 2 < target_of(pool_class);
}

/* True when the creation of one more was started. */
static bool make_one(struct atoll_pool_class *pool_class)
{
    struct atoll_version *v =
        atoll_map_get(&pool_class->engine->template_tables.versions, pool_class->version_id);
    struct atoll_sandbox *s =
        v ? atoll_sandbox_prepare(pool_class->engine, &pool_class->spec, v) : NULL;

    if (!s)
        return false;
    s->hidden = true;
    s->pool_class = pool_class;
    /* Without memory for the environment, the interpreter is started without it. */
    if (pool_class->env)
        atoll_options_set_strings(&s->options.env,
                                  atoll_strings_dup((const char *const *)pool_class->env));
    if (pool_class->warm) {
        atoll_options_set_strings(&s->options.warm,
                                  atoll_strings_dup((const char *const *)pool_class->warm));
        atoll_options_set_text(&s->options.interpreter, strdup(pool_class->language));
    }
    pool_class->making++;
    atoll_sandbox_launch(s, on_made, pool_class);
    return true;
}

void atoll_pool_refill(struct atoll_engine *engine)
{
    for (size_t i = 0; i < ATOLL_POOL_CLASSES; i++)
        while (!engine->ending && !engine->recovering && making(engine) < MAKING_MAX &&
               has_room(&engine->pool_classes[i]))
            if (!make_one(&engine->pool_classes[i]))
                return;
}

static void refill_now(void *arg)
{
    atoll_pool_refill(arg);
}

void atoll_pool_refill_soon(struct atoll_engine *engine)
{
    bool low = false;

    for (size_t i = 0; i < ATOLL_POOL_CLASSES; i++)
        low |= is_low(&engine->pool_classes[i]);
    if (engine->ending || (low && engine->pool_hurry && engine->pool_refill.loop))
        return;
    engine->pool_hurry = low;
    atoll_timer_set(&engine->pool_refill, engine->loop, low ? REFILL_MS : QUIET_MS, refill_now,
                    engine);
}

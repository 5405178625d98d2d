#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "engine/engine_internal.h"

/*
 * Sandboxes of the host template made ahead, so that a create is only a hand-over. Refilled in the
 * background, few at a time, so that real creates come first.
 */

#define MAKING_MAX 2
/* Making one competes for the processors with what those do who just took some. So the pool waits for
 * a pause, unless half of it is gone. */
#define QUIET_MS 250
#define REFILL_MS 100
#define WARMING_MS 5000
#define FAILURES_MAX 3 /* in a row: then the pool rests until the next create */

static struct atoll_spec pool_spec(const struct atoll_engine *engine)
{
    struct atoll_spec spec = {
        .limits = atoll_limits_default(), .template_kind = ATOLL_TEMPLATE_HOST, .allow_sudo = true};

    spec.waived = engine->home->provider->ops->missing_limits(engine->home->provider, &spec) &
                  engine->config.waived;
    return spec;
}

static void enter(struct atoll_sandbox *s)
{
    struct atoll_engine *engine = s->engine;

    engine->pool_making--;
    atoll_list_push_back(&engine->pool, &s->pool_node);
    engine->pool_size++;
    atoll_pool_refill(engine);
}

/*
 * A shell that has run once leaves what the next one needs: names looked up in the new root, pages of
 * it and of its libraries. Without it the first command of a client would pay for that.
 */
struct warming {
    struct atoll_engine *engine;
    char id[ATOLL_ID_LEN + 1];
    struct atoll_reader *reader;
};

static void warmed(struct warming *w)
{
    struct atoll_sandbox *s = atoll_map_get(&w->engine->sandboxes, w->id);

    w->reader = atoll_reader_close(w->reader);
    if (s && s->state == ATOLL_SANDBOX_RUNNING && s->hidden) {
        atoll_exec_drop_all(s); /* nobody asked for it */
        atoll_map_init(&s->execs);
        enter(s);
    } else {
        w->engine->pool_making--;
    }
    free(w);
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

    /* A root without that shell is no worse for it. */
    if (error || atoll_reader_open(exec, 0, 0, on_warm_output, w, &w->reader, &err) < 0)
        warmed(w);
}

static void warm(struct atoll_sandbox *s)
{
    static const char *const argv[] = {"/bin/bash", "-l", "-c", "true", NULL};
    static const struct atoll_exec_start start = {.argv = argv, .timeout_ms = WARMING_MS};
    struct warming *w = calloc(1, sizeof(*w));

    if (!w)
        abort();
    w->engine = s->engine;
    memcpy(w->id, s->spec.id, sizeof(w->id));
    atoll_engine_exec_now(s->engine, w->id, &start, on_warm_started, w);
}

static void on_made(void *arg, struct atoll_sandbox *s, const struct atoll_error *error)
{
    struct atoll_engine *engine = arg;

    if (error) {
        engine->pool_making--;
        engine->pool_failures++;
        atoll_log(ATOLL_LOG_WARN, "pool", "error", error->text, NULL);
        return;
    }
    engine->pool_failures = 0;
    warm(s);
}

void atoll_pool_refill(struct atoll_engine *engine)
{
    while (!engine->ending && !engine->recovering &&
           engine->pool_size + engine->pool_making < engine->config.pool &&
           engine->pool_making < MAKING_MAX && engine->pool_failures < FAILURES_MAX) {
        struct atoll_template *t = atoll_map_get(&engine->templates, "host");
        struct atoll_spec spec = pool_spec(engine);
        struct atoll_sandbox *s = atoll_sandbox_prepare(engine, &spec, t);

        if (!s)
            return;
        s->hidden = true;
        engine->pool_making++;
        atoll_sandbox_launch(s, on_made, engine);
    }
}

static void refill_now(void *arg)
{
    atoll_pool_refill(arg);
}

void atoll_pool_refill_soon(struct atoll_engine *engine)
{
    bool low = (engine->pool_size + engine->pool_making) * 2 < engine->config.pool;

    if (engine->ending || (low && engine->pool_hurry && engine->pool_refill.loop))
        return;
    engine->pool_hurry = low;
    atoll_timer_set(&engine->pool_refill, engine->loop, low ? REFILL_MS : QUIET_MS, refill_now,
                    engine);
}

/* One that has died is there until nothing is left of it, and has lost its agent. */
static struct atoll_sandbox *first_alive(const struct atoll_engine *engine)
{
    ATOLL_LIST_FOREACH (&engine->pool, node) {
        struct atoll_sandbox *s = ATOLL_CONTAINER_OF(node, struct atoll_sandbox, pool_node);
        if (s->agent)
            return s;
    }
    return NULL;
}

struct atoll_sandbox *atoll_pool_take(struct atoll_engine *engine, const struct atoll_spec *spec)
{
    struct atoll_sandbox *s = first_alive(engine);

    engine->pool_failures = 0;
    if (!s || spec->persistent || *spec->image || spec->network != s->spec.network ||
        spec->template_kind != ATOLL_TEMPLATE_HOST || spec->waived != s->spec.waived ||
        spec->limits.disk_bytes != s->spec.limits.disk_bytes ||
        spec->limits.inodes != s->spec.limits.inodes ||
        spec->limits.open_files != s->spec.limits.open_files ||
        spec->limits.memory_bytes / 2 < spec->limits.disk_bytes)
        return NULL;
    atoll_pool_forget(s);
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
    s->engine->pool_size--;
}

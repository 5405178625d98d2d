#include "engine/state/retention.h"

#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "engine/state/capture.h"

/* How long, and how many, snapshots of a tenant are kept. */

#define PERIOD_MS (60 * 60 * 1000)
#define SOON_MS 100
#define DAY_MS INT64_C(86400000)

/* Newest first, those of a tenant together. */
static int by_tenant_and_age(const void *a, const void *b)
{
    const struct atoll_version *x = *(const struct atoll_version *const *)a;
    const struct atoll_version *y = *(const struct atoll_version *const *)b;
    int r = strcmp(x->tmpl->owner, y->tmpl->owner);

    if (r != 0 || x->created_unix_ms == y->created_unix_ms)
        return r != 0 ? r : strcmp(x->id, y->id);
    return x->created_unix_ms < y->created_unix_ms ? 1 : -1;
}

static size_t collect(struct atoll_engine *engine, struct atoll_version **found, size_t most)
{
    struct atoll_version *v;
    size_t pos = 0, n = 0;

    while ((v = atoll_map_next(&engine->template_tables.versions, &pos)) != NULL && n < most)
        if (strcmp(v->source, ATOLL_SOURCE_SNAPSHOT) == 0 &&
            !atoll_template_is_retired(v->tmpl->name))
            found[n++] = v;
    qsort(found, n, sizeof(*found), by_tenant_and_age);
    return n;
}

struct bounds {
    uint32_t days, count; /* 0: no bound */
};

static struct bounds bounds_of(const struct atoll_engine *engine, const char *tenant)
{
    struct bounds b = {0};

    (void)!atoll_retention(engine->config.snapshot_days ?: "", tenant, &b.days);
    (void)!atoll_retention(engine->config.snapshot_keep ?: "", tenant, &b.count);
    return b;
}

static bool is_beyond(const struct atoll_version *v, struct bounds b, size_t newer, int64_t now)
{
    return (b.days > 0 && v->created_unix_ms < now - b.days * DAY_MS) ||
           (b.count > 0 && newer >= b.count);
}

/* Puts those that are to be removed to the beginning of `all`. */
static size_t choose(struct atoll_engine *engine, struct atoll_version **all, size_t count)
{
    int64_t now = atoll_clock_unix_ms();
    struct bounds b = {0};
    size_t chosen = 0, newer = 0;
    const char *owner = NULL;

    for (size_t i = 0; i < count; i++) {
        struct atoll_version *v = all[i];

        if (!owner || strcmp(owner, v->tmpl->owner) != 0) {
            owner = v->tmpl->owner;
            b = bounds_of(engine, owner);
            newer = 0;
        }
        if (is_beyond(v, b, newer++, now) && v->pins == 0 &&
            atoll_version_sandboxes(engine, v) == 0)
            all[chosen++] = v;
    }
    return chosen;
}

static void expire(void *arg)
{
    struct atoll_engine *engine = arg;
    size_t most = engine->template_tables.versions.used;
    struct atoll_version **found = atoll_alloc((most + 1) * sizeof(struct atoll_version *));
    size_t n = choose(engine, found, collect(engine, found, most));
    struct atoll_error err;
    int r = 0;

    for (size_t i = 0; r == 0 && i < n; i++)
        r = atoll_version_drop(engine, found[i], &err);
    if (r < 0)
        atoll_log(ATOLL_LOG_ERROR, "state not stored", "what", "removal of a snapshot", "error",
                  err.text, NULL);
    free(found);
    atoll_timer_set(&engine->snapshot_expiry, engine->loop, PERIOD_MS, expire, engine);
}

static bool has_bounds(const struct atoll_engine *engine)
{
    return engine->config.snapshot_days || engine->config.snapshot_keep;
}

void atoll_snapshots_start(struct atoll_engine *engine)
{
    if (has_bounds(engine))
        expire(engine);
}

void atoll_snapshots_expire_soon(struct atoll_engine *engine)
{
    if (has_bounds(engine))
        atoll_timer_set(&engine->snapshot_expiry, engine->loop, SOON_MS, expire, engine);
}

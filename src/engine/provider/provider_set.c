#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "engine/engine_internal.h"

/*
 * Replaces providers while sandboxes exist. A provider that is replaced or removed is retired: it
 * gets no new sandboxes, and is freed when it has none left. If a new provider has the same name
 * and place, it is the successor: each sandbox moves to it as soon as no operation on the sandbox
 * is in progress, as it would after a restart of the daemon. A connection that ends with the old
 * provider is opened again by the new one (reattach.c).
 */
#define SWEEP_MS 200
#define SWEEP_SELDOM_MS \
    2000 /* without a successor: until the tenants have destroyed their sandboxes */

bool atoll_provider_entry_awaits(const struct atoll_provider_entry *entry)
{
    const struct atoll_engine *engine = entry->engine;

    for (size_t i = 0; i < engine->entry_count; i++)
        if (engine->entries[i]->successor == entry)
            return true;
    return false;
}

/* Whether no operation waits for the sandbox's provider. */
static bool can_move(const struct atoll_sandbox *s)
{
    return atoll_phase_facts(s->phase)->steady && !s->removing &&
           !atoll_sandbox_reattach_is_busy(s);
}

/* Moves sandboxes to the successor. Returns how many are left. */
static size_t move_sandboxes(struct atoll_provider_entry *entry)
{
    struct atoll_sandbox *s;
    size_t pos = 0, left = 0;

    while ((s = atoll_map_next(&entry->engine->sandboxes, &pos)) != NULL) {
        if (s->entry != entry)
            continue;
        if (entry->successor && can_move(s)) {
            s->entry = entry->successor;
            s->provider = entry->successor->provider;
        } else {
            left++;
        }
    }
    return left;
}

static void close_entry(struct atoll_engine *engine, size_t at)
{
    struct atoll_provider_entry *entry = engine->entries[at], *successor = entry->successor;
    const char *name = entry->provider->ops->name;

    atoll_log(ATOLL_LOG_INFO, "provider closed", "provider", name, NULL);
    if (!successor)
        atoll_metric_set(ATOLL_METRIC_PROVIDER_UP, ATOLL_LABELS(name), 0);
    for (size_t i = at + 1; i < engine->entry_count; i++)
        engine->entries[i - 1] = engine->entries[i];
    engine->entry_count--;
    (void)atoll_provider_entry_free(entry);
    if (successor && !successor->listed)
        atoll_provider_entry_check(successor);
}

static bool is_in_use(const struct atoll_provider_entry *entry)
{
    return entry->checking || entry->listing ||
           (entry->provider->ops->is_busy && entry->provider->ops->is_busy(entry->provider));
}

/* Frees retired entries that have no sandboxes left. */
static void sweep(void *arg)
{
    struct atoll_engine *engine = arg;
    int64_t again_ms = 0;

    for (size_t i = engine->entry_count; i-- > 0 && !engine->ending;) {
        struct atoll_provider_entry *entry = engine->entries[i];

        if (!entry->retired || entry == engine->builder)
            continue;
        if (move_sandboxes(entry) == 0 && !is_in_use(entry))
            close_entry(engine, i);
        else if (again_ms != SWEEP_MS)
            again_ms = entry->successor ? SWEEP_MS : SWEEP_SELDOM_MS;
    }
    if (again_ms > 0 && !engine->ending)
        atoll_timer_set(&engine->entry_sweep, engine->loop, again_ms, sweep, engine);
}

/* Makes `entry` the successor of retired entries with the same name and place. */
static void inherit(struct atoll_engine *engine, struct atoll_provider_entry *entry)
{
    for (size_t i = 0; i < engine->entry_count; i++) {
        struct atoll_provider_entry *old = engine->entries[i];
        bool absent = !*old->kind;

        if (old == entry || !old->retired ||
            strcmp(old->provider->ops->name, entry->provider->ops->name) != 0)
            continue;
        if (absent || (old->place && entry->place && strcmp(old->place, entry->place) == 0))
            old->successor = entry;
    }
}

static int check_set(struct atoll_engine *engine, const struct atoll_engine_provider *list,
                     size_t count, struct atoll_error *err)
{
    size_t fresh = 0;

    for (size_t i = 0; i < count; i++) {
        fresh += list[i].provider != NULL;
        if (!list[i].provider && !atoll_provider_entry_by_name(engine, list[i].name))
            return atoll_fail(err, ATOLL_ERR_INTERNAL, ENOENT, "there is no provider %.64s",
                              list[i].name);
    }
    if (engine->entry_count + fresh > ATOLL_PROVIDERS_MAX)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOBUFS,
                          "there are %zu providers, some of them only because they still have "
                          "sandboxes, and at most %d are possible",
                          engine->entry_count, ATOLL_PROVIDERS_MAX);
    return 0;
}

/* Sorts the entries in the order of the list; retired ones come last. */
static void sort(struct atoll_engine *engine, struct atoll_provider_entry *const *order,
                 size_t count)
{
    struct atoll_provider_entry *sorted[ATOLL_PROVIDERS_MAX];
    size_t n = 0;

    for (; n < count; n++)
        sorted[n] = order[n];
    for (size_t i = 0; i < engine->entry_count; i++)
        if (engine->entries[i]->retired)
            sorted[n++] = engine->entries[i];
    memcpy(engine->entries, sorted, n * sizeof(*sorted));
}

int atoll_engine_set_providers(struct atoll_engine *engine,
                               const struct atoll_engine_provider *list, size_t count,
                               struct atoll_error *err)
{
    struct atoll_provider_entry *order[ATOLL_PROVIDERS_MAX];
    int r = check_set(engine, list, count, err);

    if (r < 0) {
        for (size_t i = 0; i < count; i++)
            if (list[i].provider)
                (void)list[i].provider->ops->free(list[i].provider);
        return r;
    }
    /* Retires first: a replaced provider and its replacement have the same name. */
    for (size_t i = 0; i < engine->entry_count; i++) {
        struct atoll_provider_entry *entry = engine->entries[i];
        const char *name = entry->provider->ops->name;
        bool stays = false;

        for (size_t k = 0; k < count; k++)
            stays |= !list[k].provider && strcmp(list[k].name, name) == 0;
        entry->retired |= !stays;
    }
    for (size_t i = 0; i < count && r == 0; i++) {
        if (!list[i].provider) {
            order[i] = atoll_provider_entry_by_name(engine, list[i].name);
            r = atoll_provider_entry_configure(order[i], &list[i], err);
            continue;
        }
        r = atoll_provider_entry_add(engine, &list[i], &order[i], err);
        inherit(engine, order[i]);
        atoll_provider_entry_check(order[i]);
    }
    if (r < 0)
        abort(); /* small fixed objects; names were checked: the daemon is crash-only */
    sort(engine, order, count);
    atoll_provider_entries_choose_builder(engine);
    atoll_timer_set(&engine->entry_sweep, engine->loop, 0, sweep, engine);
    return 0;
}

void atoll_engine_set_placement(struct atoll_engine *engine, int placement)
{
    engine->placement = placement;
}

void atoll_engine_note_providers(struct atoll_engine *engine, const char *error)
{
    engine->providers_unix_ms = atoll_clock_unix_ms();
    (void)snprintf(engine->providers_error, sizeof(engine->providers_error), "%s",
                   error ? error : "");
}

int64_t atoll_providers_loaded(const struct atoll_engine *engine, const char **ret_error)
{
    *ret_error = engine->providers_error;
    return engine->providers_unix_ms;
}

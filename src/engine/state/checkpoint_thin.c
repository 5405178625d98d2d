#include "engine/state/checkpoint_thin.h"

#include <string.h>
#include "base/memory.h"
#include "base/metrics.h"

#define FULL_PARTS 8 /* a disk is almost full with less than one of these free */

static bool has_layer(const struct atoll_checkpoint *p)
{
    return p->before.stack || p->after.stack;
}

static struct atoll_checkpoint *oldest_kept(struct atoll_sandbox *s)
{
    ATOLL_LIST_FOREACH (&s->checkpoints->commands, node) {
        struct atoll_checkpoint *p = ATOLL_CONTAINER_OF(node, struct atoll_checkpoint, node);
        if (has_layer(p))
            return p;
    }
    return NULL;
}

static void drop(struct atoll_sandbox *s, struct atoll_checkpoint *p)
{
    atoll_metric_add(ATOLL_METRIC_CHECKPOINTS, ATOLL_LABELS("thinned"), 1);
    atoll_checkpoint_release(s, p);
    atoll_checkpoint_store(s, p);
}

/* The one whose neighbours are closest to each other for its age. */
static struct atoll_checkpoint *least_useful(struct atoll_sandbox *s)
{
    struct atoll_checkpoint *best = NULL, *before = NULL, *p = NULL;
    uint64_t newest = s->checkpoints->next - 1;
    double least = 0;

    ATOLL_LIST_FOREACH (&s->checkpoints->commands, node) {
        struct atoll_checkpoint *next = ATOLL_CONTAINER_OF(node, struct atoll_checkpoint, node);
        double score;

        if (!has_layer(next))
            continue;
        if (p && p->number + ATOLL_CHECKPOINTS_NEW <= newest) {
            score = (double)(next->number - (before ? before->number : p->number - 1)) /
                    (double)(newest - p->number);
            if (!best || score < least) {
                best = p;
                least = score;
            }
        }
        before = p;
        p = next;
    }
    return best;
}

/* The sandbox of the tenant that has the oldest checkpoint; *ret_bytes: of all of them. */
static struct atoll_sandbox *oldest_of_tenant(struct atoll_sandbox *own, uint64_t *ret_bytes)
{
    struct atoll_sandbox *s, *found = NULL;
    const struct atoll_checkpoint *p, *oldest = NULL;
    size_t pos = 0;

    *ret_bytes = 0;
    while ((s = atoll_map_next(&own->engine->sandboxes, &pos)) != NULL) {
        if (!s->checkpoints || strcmp(s->spec.tenant, own->spec.tenant) != 0)
            continue;
        *ret_bytes += s->checkpoints->bytes;
        p = oldest_kept(s);
        if (p && (!oldest || p->started_unix_ms < oldest->started_unix_ms)) {
            oldest = p;
            found = s;
        }
    }
    return found;
}

/* Disks in the pool count what only checkpoints have still. */

struct measuring {
    struct atoll_engine *engine;
    char id[ATOLL_ID_LEN + 1];
};

/* Half of them, and another half after the next command if that was not enough. */
bool atoll_checkpoints_halve(struct atoll_sandbox *s)
{
    const struct atoll_checkpoints *c = s->checkpoints;
    size_t left = ATOLL_MAX(c->kept / 2, (size_t)1);
    bool any = c->kept > left;

    while (c->kept > left)
        drop(s, oldest_kept(s));
    return any;
}

void atoll_checkpoints_disk_full(struct atoll_engine *engine, const char *sandbox_id)
{
    struct atoll_sandbox *s = atoll_map_get(&engine->sandboxes, sandbox_id);

    if (s && s->checkpoints && s->options.disk_choice != ATOLL_DISK_IN_MEMORY &&
        s->options.disk_choice != ATOLL_DISK_AS_IMAGE)
        (void)atoll_checkpoints_halve(s);
}

static void on_measured(void *arg, const struct atoll_provider_stats *stats,
                        const struct atoll_error *error)
{
    struct measuring *m = arg;
    struct atoll_sandbox *s = atoll_map_get(&m->engine->sandboxes, m->id);

    if (!error && s && s->checkpoints && stats->disk_limit_bytes > 0 &&
        stats->disk_bytes > stats->disk_limit_bytes / FULL_PARTS * (FULL_PARTS - 1))
        (void)atoll_checkpoints_halve(s);
    free(m);
}

void atoll_checkpoints_thin_full(struct atoll_sandbox *s)
{
    struct measuring *m;

    if (!s->provider->ops->stats || s->checkpoints->kept < 2)
        return;
    m = atoll_alloc(sizeof(*m));
    m->engine = s->engine;
    memcpy(m->id, s->spec.id, sizeof(m->id));
    s->provider->ops->stats(s->provider, &s->spec, on_measured, m);
}

void atoll_checkpoints_thin(struct atoll_sandbox *s)
{
    const struct atoll_checkpoints *c = s->checkpoints;
    struct atoll_checkpoint *p;
    struct atoll_sandbox *other;
    uint64_t bytes;

    while (c->kept > ATOLL_CHECKPOINTS_MAX && (p = least_useful(s)) != NULL)
        drop(s, p);
    while (c->bytes > ATOLL_CHECKPOINT_BYTES && c->kept > 1)
        drop(s, oldest_kept(s));
    while ((other = oldest_of_tenant(s, &bytes)) != NULL && bytes > ATOLL_CHECKPOINT_TENANT_BYTES)
        drop(other, oldest_kept(other));
}

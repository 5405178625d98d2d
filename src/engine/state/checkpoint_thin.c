#include "engine/state/checkpoint_thin.h"

#include <string.h>
#include "base/memory.h"
#include "base/metrics.h"

#define FULL_PARTS 8 /* a disk is almost full with less than one of these free */
/* Blocks of removed layers are not free at once. */
#define ROOM_CHECK_MS 100
#define ROOM_CHECKS_MAX 50  /* five seconds */
#define ROOM_CHECKS_EACH 10 /* then more checkpoints go */

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

static void check_room(void *arg);

/* The oldest ones; and when only the newest command is left, what its undo would need. */
static bool drop_some(struct atoll_sandbox *s)
{
    struct atoll_checkpoint *p;

    if (atoll_checkpoints_halve(s))
        return true;
    p = oldest_kept(s);
    if (!p || !p->before.stack)
        return false;
    atoll_checkpoint_release_before(s, p);
    return true;
}

/* What may be used when a command starts: then it can remove and write almost as much as the disk is large. */
static uint64_t room_target(const struct atoll_sandbox *s)
{
    uint64_t disk = s->spec.limits.disk_bytes, history = s->spec.history_bytes;

    return ATOLL_MAX(disk / FULL_PARTS * (FULL_PARTS - 1),
                     s->checkpoints->live_bytes + history / FULL_PARTS / 2);
}

static void on_measured(void *arg, const struct atoll_provider_stats *stats,
                        const struct atoll_error *error)
{
    struct measuring *m = arg;
    struct atoll_sandbox *s = atoll_map_get(&m->engine->sandboxes, m->id);
    struct atoll_checkpoints *c = s ? s->checkpoints : NULL;

    free(m);
    if (!c)
        return;
    if (error || stats->disk_limit_bytes == 0 || stats->disk_bytes <= room_target(s) ||
        c->room_checks == ROOM_CHECKS_MAX || !atoll_list_empty(&s->stoppers) ||
        (c->room_checks >= c->room_next && !drop_some(s))) {
        c->room_done(s);
        return;
    }
    if (c->room_checks >= c->room_next)
        c->room_next = c->room_checks + ROOM_CHECKS_EACH;
    c->room_checks++;
    atoll_timer_set(&c->room, s->engine->loop, ROOM_CHECK_MS, check_room, s);
}

static void check_room(void *arg)
{
    struct atoll_sandbox *s = arg;
    struct measuring *m = atoll_alloc(sizeof(*m));

    m->engine = s->engine;
    memcpy(m->id, s->spec.id, sizeof(m->id));
    s->provider->ops->stats(s->provider, &s->spec, on_measured, m);
}

void atoll_checkpoints_make_room(struct atoll_sandbox *s, atoll_checkpoints_room_fn *done)
{
    s->checkpoints->room_checks = s->checkpoints->room_next = 0;
    s->checkpoints->room_done = done;
    check_room(s);
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

#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/memory.h"
#include "base/metrics.h"
#include "engine/engine_internal.h"

/*
 * Quotas of the output of all commands on the daemon's disk: per sandbox, per tenant and in total,
 * and how long it is kept. Beyond a quota, journals of ended commands are dropped, oldest first. If
 * that is not enough, the journal of the running command ends there, as at its own maximum.
 * Following readers get everything in any case; other readers get a gap.
 *
 * When the disk is almost full, no output is written: the rest is for the daemon's own records.
 * Following readers are then served from memory.
 */

#define BLOCK_BYTES 4096 /* allocation unit: the least that a file uses */
#define TOTAL_MAX ((uint64_t)16 << 30)
#define TOTAL_PART 8 /* 1/8 of the file system, if that is less */
#define FLOOR_MAX ((uint64_t)64 << 20)
#define FLOOR_PART 32
#define LOOK_BYTES ((uint64_t)1 << 20) /* output between two checks of free space */
#define MEMORY_MAX ((size_t)64 << 20)
#define EXPIRE_EVERY_MS (INT64_C(3600) * 1000)
#define DAY_MS (INT64_C(24) * 3600 * 1000)

struct atoll_journal_owner {
    char name[65];
    uint64_t bytes;
    /* Of struct atoll_exec.charge.node, oldest first: ended execs with bytes on disk. */
    struct atoll_list ended;
};

/* Limits. */

void atoll_journals_open(struct atoll_engine *engine)
{
    struct atoll_journals *all = &engine->journals;
    struct atoll_output_quota *q = &engine->config.output;
    uint64_t disk = atoll_room_size(engine->journal_fd);

    if (!q->total_bytes)
        q->total_bytes = ATOLL_MIN(TOTAL_MAX, disk / TOTAL_PART);
    q->tenant_bytes = q->tenant_bytes ? q->tenant_bytes : q->total_bytes / 2;
    q->sandbox_bytes = q->sandbox_bytes ? q->sandbox_bytes : q->total_bytes / 8;
    all->floor_bytes = ATOLL_MIN(FLOOR_MAX, disk / FLOOR_PART);
    atoll_map_init(&all->owners);
}

void atoll_journals_done(struct atoll_engine *engine)
{
    struct atoll_journal_owner *owner;

    atoll_timer_cancel(&engine->journals.expiry);
    for (size_t pos = 0; (owner = atoll_map_next(&engine->journals.owners, &pos)) != NULL;)
        free(owner);
    atoll_map_done(&engine->journals.owners);
}

void atoll_journals_view(const struct atoll_engine *engine, struct atoll_disk_view *ret)
{
    ret->journal_bytes = engine->journals.bytes;
    ret->journal_max_bytes = engine->config.output.total_bytes;
    ret->held_bytes = engine->journals.memory;
    ret->held_max_bytes = MEMORY_MAX;
}

/* Accounts. */

static struct atoll_journal_owner *owner_get(struct atoll_journals *all, const char *name)
{
    struct atoll_journal_owner *owner = atoll_map_get(&all->owners, name);

    if (owner)
        return owner;
    owner = atoll_alloc(sizeof(*owner));
    (void)snprintf(owner->name, sizeof(owner->name), "%s", name);
    atoll_list_init(&owner->ended);
    if (atoll_map_put(&all->owners, owner->name, owner) < 0)
        abort();
    return owner;
}

static void leave_owner(struct atoll_exec *x)
{
    struct atoll_journals *all = &x->engine->journals;
    struct atoll_journal_owner *owner = x->charge.owner;

    if (!owner)
        return;
    if (x->charge.listed)
        atoll_list_remove(&x->charge.node);
    x->charge.listed = false;
    x->charge.owner = NULL;
    owner->bytes -= x->charge.bytes;
    all->bytes -= x->charge.bytes;
    if (x->sandbox)
        x->sandbox->journal_bytes -= x->charge.bytes;
    x->charge.bytes = 0;
    if (owner->bytes > 0)
        return;
    (void)atoll_map_remove(&all->owners, owner->name);
    free(owner);
}

static void charge_disk(struct atoll_exec *x, uint64_t bytes)
{
    struct atoll_journals *all = &x->engine->journals;

    if (bytes == 0) {
        leave_owner(x);
        return;
    }
    if (!x->charge.owner)
        x->charge.owner = owner_get(all, x->sandbox ? x->sandbox->spec.tenant : "");
    x->charge.owner->bytes += bytes - x->charge.bytes;
    all->bytes += bytes - x->charge.bytes;
    if (x->sandbox)
        x->sandbox->journal_bytes += bytes - x->charge.bytes;
    x->charge.bytes = bytes;
}

void atoll_journals_charge(struct atoll_exec *x)
{
    const uint64_t file = atoll_journal_file_bytes(&x->journal);
    const size_t memory = atoll_buf_size(&x->journal.memory);

    x->engine->journals.memory += memory - x->charge.memory;
    x->charge.memory = memory;
    /* A kept one is counted with the output of ended sandboxes; ended_output.c. */
    charge_disk(x, x->kept ? 0 : (file + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES);
    if (x->ended && x->charge.owner && !x->charge.listed) {
        atoll_list_push_back(&x->charge.owner->ended, &x->charge.node);
        x->charge.listed = true;
    }
}

void atoll_journals_leave_sandbox(struct atoll_exec *x)
{
    x->sandbox->journal_bytes -= x->charge.bytes;
}

void atoll_journals_move(struct atoll_exec *x)
{
    leave_owner(x);
    atoll_journals_charge(x);
}

void atoll_journals_release(struct atoll_exec *x)
{
    x->engine->journals.memory -= x->charge.memory;
    x->charge.memory = 0;
    leave_owner(x);
}

/* Dropping journals. */

static void give_way(struct atoll_exec *x, const char *why)
{
    atoll_metric_add(ATOLL_METRIC_JOURNALS_REMOVED, ATOLL_LABELS(why), 1);
    atoll_journal_discard(&x->journal);
    atoll_journals_charge(x);
}

/* A journal with a following reader is still needed. */
static bool is_droppable(const struct atoll_exec *x)
{
    return x->ended && x->charge.bytes > 0 && x->followers == 0;
}

static bool sandbox_gives_way(struct atoll_sandbox *s)
{
    ATOLL_LIST_FOREACH (&s->exec_list, node) {
        struct atoll_exec *x = ATOLL_CONTAINER_OF(node, struct atoll_exec, node);
        if (is_droppable(x)) {
            give_way(x, "sandbox");
            return true;
        }
    }
    return false;
}

static struct atoll_exec *oldest(const struct atoll_journal_owner *owner)
{
    ATOLL_LIST_FOREACH (&owner->ended, node) {
        struct atoll_exec *x = ATOLL_CONTAINER_OF(node, struct atoll_exec, charge.node);
        if (is_droppable(x))
            return x;
    }
    return NULL;
}

static bool tenant_gives_way(const struct atoll_journal_owner *owner)
{
    struct atoll_exec *x = owner ? oldest(owner) : NULL;

    if (x)
        give_way(x, "tenant");
    return x != NULL;
}

/* Drops a journal of the tenant that has the most, so that a tenant does not lose output to a
 * larger one. */
static bool drop_of_largest(struct atoll_journals *all)
{
    struct atoll_journal_owner *owner, *most = NULL;
    struct atoll_exec *x = NULL;

    for (size_t pos = 0; (owner = atoll_map_next(&all->owners, &pos)) != NULL;)
        if ((!most || owner->bytes > most->bytes) && oldest(owner))
            most = owner;
    if (most)
        x = oldest(most);
    if (x)
        give_way(x, "total");
    return x != NULL;
}

static uint64_t tenant_bytes(struct atoll_exec *x)
{
    const struct atoll_journal_owner *owner =
        atoll_map_get(&x->engine->journals.owners, x->sandbox->spec.tenant);

    return owner ? owner->bytes : 0;
}

static bool fits(struct atoll_exec *x, uint64_t n)
{
    const struct atoll_output_quota *q = &x->engine->config.output;
    struct atoll_journals *all = &x->engine->journals;
    bool room = true;

    while (room && x->sandbox->journal_bytes + n > q->sandbox_bytes)
        room = sandbox_gives_way(x->sandbox);
    while (room && tenant_bytes(x) + n > q->tenant_bytes)
        room = tenant_gives_way(atoll_map_get(&all->owners, x->sandbox->spec.tenant));
    while (room && all->bytes + n > q->total_bytes)
        room = drop_of_largest(all);
    return room;
}

static bool disk_is_low(struct atoll_engine *engine, uint64_t n)
{
    struct atoll_journals *all = &engine->journals;

    all->unseen_bytes += n;
    if (all->low || all->unseen_bytes >= LOOK_BYTES) {
        all->unseen_bytes = 0;
        all->low = atoll_room_free(engine->journal_fd) < all->floor_bytes;
    }
    return all->low;
}

void atoll_journals_make_room(struct atoll_exec *x, size_t n)
{
    struct atoll_journals *all = &x->engine->journals;
    struct atoll_journal *j = &x->journal;
    size_t others = all->memory - x->charge.memory;

    /* Only the head counts: the tail is temporary, has its own limit, and its followers block the
     * command. */
    if (!j->full && !fits(x, n + BLOCK_BYTES))
        j->full = true;
    j->no_disk = disk_is_low(x->engine, n);
    j->memory_max = others < MEMORY_MAX ? MEMORY_MAX - others : 0;
}

/* Expiry. */

static void expire(void *arg)
{
    struct atoll_engine *engine = arg;
    const int64_t before = atoll_clock_unix_ms() - engine->config.output.days * DAY_MS;
    struct atoll_journal_owner *owner;
    struct atoll_exec *x;
    size_t pos = 0;

    while ((owner = atoll_map_next(&engine->journals.owners, &pos)) != NULL) {
        x = oldest(owner);
        if (x && x->started_unix_ms + x->result.duration_ms < before) {
            give_way(x, "age");
            pos = 0; /* the map may have changed */
        }
    }
    atoll_timer_set(&engine->journals.expiry, engine->loop, EXPIRE_EVERY_MS, expire, engine);
}

void atoll_journals_expire(struct atoll_engine *engine)
{
    if (engine->config.output.days > 0)
        expire(engine);
}

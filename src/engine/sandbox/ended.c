#include "engine/sandbox/ended.h"

#include <stdio.h>
#include "base/clock.h"
#include "base/log.h"
#include "engine/engine_internal.h"
#include "engine/network/network.h"

#define EXECS_KEPT 64                   /* the newest commands of each */
#define BYTES_MAX ((uint64_t)256 << 20) /* of all records */
#define DAY_MS (INT64_C(24) * 3600 * 1000)
#define LOOK_MS (INT64_C(3600) * 1000) /* how often their age is checked */
#define PRUNE_EVERY 64 /* records that are added between two checks of their number */

/* Removal. */

static void record_gone(void *arg, const char *id)
{
    struct atoll_engine *engine = arg;

    atoll_ended_output_drop(engine, id);
    if (engine->network)
        atoll_network_drop_journal(engine->network, id);
}

static void prune(void *arg)
{
    struct atoll_engine *engine = arg;
    const struct atoll_store_ended_sum most = {engine->config.ended_max, BYTES_MAX};
    int64_t days = engine->config.ended_days;
    int64_t before = days ? atoll_clock_unix_ms() - days * DAY_MS : INT64_MIN;
    struct atoll_error err;
    int r = atoll_store_prune_ended(engine->config.store, before, &most, record_gone, engine, &err);

    if (r < 0)
        atoll_log(ATOLL_LOG_ERROR, "records of ended sandboxes not removed", "error", err.text,
                  NULL);
    atoll_ended_output_expire(engine);
    engine->ended_added = 0;
    atoll_timer_set(&engine->ended_prune, engine->loop, r > 0 ? 0 : LOOK_MS, prune, engine);
}

void atoll_ended_start(struct atoll_engine *engine)
{
    atoll_timer_set(&engine->ended_prune, engine->loop, 0, prune, engine);
}

void atoll_ended_sum(const struct atoll_engine *engine, struct atoll_disk_view *ret)
{
    struct atoll_store_ended_sum sum = {0};
    struct atoll_error err;

    (void)!atoll_store_sum_ended(engine->config.store, &sum, &err); /* 0 if it cannot be read */
    ret->ended_count = sum.count;
    ret->ended_bytes = sum.bytes;
    ret->ended_max_bytes = BYTES_MAX;
}

/* Adding. */

static int64_t execs_from(const struct atoll_sandbox *s)
{
    const struct atoll_list *node = &s->exec_list;

    for (int i = 0; i < EXECS_KEPT && node->prev != &s->exec_list; i++)
        node = node->prev;
    return node == &s->exec_list
               ? 0
               : ATOLL_CONTAINER_OF(node, const struct atoll_exec, node)->started_unix_ms;
}

bool atoll_ended_describe(struct atoll_sandbox *s, struct atoll_store_end *ret)
{
    struct atoll_error err;

    s->life.execs_from_unix_ms = INT64_MAX;
    /* What is left of a nearly full disk is for the destroys themselves. */
    if (s->boot_ms <= 0 || s->engine->config.ended_max == 0 ||
        atoll_room_admit(s->engine, &err) < 0)
        return false;
    s->life.execs_from_unix_ms = execs_from(s);
    *ret = (struct atoll_store_end){
        .end = s->life.failure[0] ? ATOLL_ENDED_FAILED
               : s->life.cause    ? s->life.cause
                                  : ATOLL_ENDED_REQUEST,
        .ended_by = s->life.ended_by,
        .cause = s->life.failure,
        .unix_ms = atoll_clock_unix_ms(),
    };
    return true;
}

void atoll_ended_note(struct atoll_sandbox *s, const char *who, enum atoll_sandbox_state was,
                      const char *cause)
{
    if (s->life.ended_by[0])
        return; /* a destroy that is tried again */
    (void)snprintf(s->life.ended_by, sizeof(s->life.ended_by), "%s", who);
    if (was == ATOLL_SANDBOX_FAILED)
        (void)snprintf(s->life.failure, sizeof(s->life.failure), "%s", *cause ? cause : "unknown");
}

void atoll_ended_added(struct atoll_engine *engine)
{
    if (++engine->ended_added >= PRUNE_EVERY)
        atoll_timer_set(&engine->ended_prune, engine->loop, 0, prune, engine);
}

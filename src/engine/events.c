#include "store/events.h"
#include <errno.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/metrics.h"
#include "base/text.h"
#include "engine/engine_internal.h"

/*
 * Events: the last EVENTS_KEPT are kept in a ring and in the store, and every subscriber has its
 * own position in the ring. A subscriber that is too slow misses overwritten events; the gap in the
 * ids shows it.
 *
 * An event is delivered only after it is stored, so that an id that a client has seen is never used
 * for another event, even if the daemon dies. Events are stored in batches, a few milliseconds
 * late. Events of commands wait longer while there is no subscriber, because storing each would
 * cost as much as storing the command itself.
 */

#define EVENTS_KEPT 4096
#define STORE_AFTER_MS 10
#define STORE_COMMANDS_AFTER_MS 250 /* only events of commands, and no subscriber */
#define STORE_AGAIN_MS 1000         /* pause after a failed write */
#define STORE_AT_ONCE 256           /* rows of one transaction */

struct kept {
    uint64_t id;
    int64_t unix_ms;
    char kind[32];
    char sandbox_id[ATOLL_ID_LEN + 1];
    char owner[65];
    char exec_id[17];
    char detail[120];
};

struct atoll_events {
    struct kept ring[EVENTS_KEPT];
    uint64_t last;   /* id of the newest; 0: none yet */
    uint64_t stored; /* id of the last stored one */
    struct atoll_loop *loop;
    struct atoll_store *store; /* borrowed */
    struct atoll_list subscriptions;
    struct atoll_timer wake;  /* delivers to subscribers */
    struct atoll_timer write; /* writes to the store */
    bool unhurried;           /* `write` is set, with the long delay for events of commands */
};

struct atoll_subscription {
    struct atoll_list node;
    uint64_t seen; /* id of the last delivered event */
    void (*fn)(void *arg, const struct atoll_event *event);
    void *arg;
};

static struct kept *slot(struct atoll_events *events, uint64_t id)
{
    return &events->ring[id % EVENTS_KEPT];
}

static int load(void *arg, const struct atoll_store_event *row, struct atoll_error *err)
{
    struct atoll_events *events = arg;
    struct kept *k = slot(events, row->id);

    *k = (struct kept){.id = row->id, .unix_ms = row->unix_ms};
    if (row->id <= events->last || atoll_text_copy(k->kind, sizeof(k->kind), row->kind) < 0 ||
        atoll_text_copy(k->sandbox_id, sizeof(k->sandbox_id), row->sandbox_id) < 0 ||
        atoll_text_copy(k->owner, sizeof(k->owner), row->owner) < 0 ||
        atoll_text_copy(k->exec_id, sizeof(k->exec_id), row->exec_id) < 0 ||
        atoll_text_copy(k->detail, sizeof(k->detail), row->detail) < 0)
        return atoll_fail(err, ATOLL_ERR_DATA_LOSS, EBADMSG, "a stored event is malformed");
    events->last = events->stored = row->id;
    return 0;
}

int atoll_events_new(struct atoll_loop *loop, struct atoll_store *store, struct atoll_events **ret,
                     struct atoll_error *err)
{
    struct atoll_events *events = calloc(1, sizeof(*events));
    int r;

    if (!events)
        return atoll_fail_errno(err, ENOMEM, "events");
    events->loop = loop;
    events->store = store;
    atoll_list_init(&events->subscriptions);
    r = atoll_store_each_event(store, load, events, err);
    if (r < 0) {
        free(events);
        return r;
    }
    *ret = events;
    return 0;
}

static void deliver(void *arg);

static int store_some(struct atoll_events *events, struct atoll_error *err)
{
    struct atoll_store_event rows[STORE_AT_ONCE];
    uint64_t oldest = events->last > EVENTS_KEPT ? events->last - EVENTS_KEPT : 0;
    uint64_t from = ATOLL_MAX(events->stored, oldest);
    size_t count = (size_t)ATOLL_MIN(events->last - from, (uint64_t)STORE_AT_ONCE);
    int r;

    for (size_t i = 0; i < count; i++) {
        const struct kept *k = slot(events, from + 1 + i);
        rows[i] = (struct atoll_store_event){k->id,    k->unix_ms, k->kind,  k->sandbox_id,
                                             k->owner, k->exec_id, k->detail};
    }
    r = atoll_store_put_events(events->store, rows, count, oldest, err);
    if (r == 0)
        events->stored = from + count;
    return r;
}

static void store_all(void *arg)
{
    struct atoll_events *events = arg;
    struct atoll_error err;
    int r = 0;

    while (r == 0 && events->stored < events->last)
        r = store_some(events, &err);
    if (r < 0) {
        atoll_log(ATOLL_LOG_ERROR, "state not stored", "what", "events", "error", err.text, NULL);
        events->unhurried = false;
        atoll_timer_set(&events->write, events->loop, STORE_AGAIN_MS, store_all, events);
    }
    if (!atoll_list_empty(&events->subscriptions))
        atoll_timer_set(&events->wake, events->loop, 0, deliver, events);
}

struct atoll_events *atoll_events_free(struct atoll_events *events)
{
    struct atoll_error err;

    if (!events)
        return NULL;
    atoll_timer_cancel(&events->wake);
    atoll_timer_cancel(&events->write);
    while (events->stored < events->last && store_some(events, &err) == 0)
        ;
    free(events);
    return NULL;
}

/* Delivers the next event after s->seen. */
static void give_next(struct atoll_events *events, struct atoll_subscription *s)
{
    const struct kept *k;

    if (events->last > EVENTS_KEPT && s->seen < events->last - EVENTS_KEPT)
        s->seen = events->last - EVENTS_KEPT;
    do /* after a restart, events that could not be stored are missing in the ring */
        k = slot(events, ++s->seen);
    while (k->id != s->seen && s->seen < events->stored);
    if (k->id != s->seen || s->seen > events->stored)
        return;
    s->fn(s->arg, &(struct atoll_event){k->id, k->unix_ms, k->kind, k->sandbox_id, k->owner,
                                        k->exec_id, k->detail});
}

/* Delivers one event at a time, because a callback may remove any subscription. */
static void deliver(void *arg)
{
    struct atoll_events *events = arg;
    bool again = true;

    while (again) {
        again = false;
        ATOLL_LIST_FOREACH (&events->subscriptions, node) {
            struct atoll_subscription *s =
                ATOLL_CONTAINER_OF(node, struct atoll_subscription, node);
            if (s->seen >= events->stored)
                continue;
            give_next(events, s);
            again = true;
            break; /* the list may have changed */
        }
    }
}

static void store_soon(struct atoll_events *events, bool unhurried)
{
    if (events->write.loop && (unhurried || !events->unhurried))
        return;
    events->unhurried = unhurried;
    atoll_timer_set(&events->write, events->loop,
                    unhurried ? STORE_COMMANDS_AFTER_MS : STORE_AFTER_MS, store_all, events);
}

void atoll_events_emit(struct atoll_engine *engine, const char *kind, const struct atoll_sandbox *s,
                       const char *exec_id, const char *detail)
{
    struct atoll_events *events = engine->events;
    struct kept *k;

    if (s->hidden)
        return;
    atoll_metric_add(ATOLL_METRIC_EVENTS, ATOLL_LABELS(kind), 1);
    k = slot(events, ++events->last);
    *k = (struct kept){.id = events->last, .unix_ms = atoll_clock_unix_ms()};
    (void)strncpy(k->kind, kind, sizeof(k->kind) - 1);
    memcpy(k->sandbox_id, s->spec.id, sizeof(k->sandbox_id));
    memcpy(k->owner, s->spec.tenant, sizeof(k->owner));
    (void)strncpy(k->exec_id, exec_id, sizeof(k->exec_id) - 1);
    (void)strncpy(k->detail, detail, sizeof(k->detail) - 1);
    store_soon(events, *exec_id && atoll_list_empty(&events->subscriptions));
}

void atoll_engine_emit(struct atoll_engine *engine, const char *sandbox_id, const char *kind,
                       const char *detail)
{
    const struct atoll_sandbox *s = atoll_engine_find(engine, sandbox_id);

    if (s)
        atoll_events_emit(engine, kind, s, "", detail);
}

struct atoll_subscription *atoll_events_subscribe(struct atoll_engine *engine, uint64_t after,
                                                  void (*fn)(void *arg,
                                                             const struct atoll_event *event),
                                                  void *arg)
{
    struct atoll_events *events = engine->events;
    struct atoll_subscription *s = atoll_alloc(sizeof(*s));

    s->seen = ATOLL_MIN(after, events->last);
    s->fn = fn;
    s->arg = arg;
    atoll_list_push_back(&events->subscriptions, &s->node);
    if (events->write.loop)
        store_soon(events, false);
    atoll_timer_set(&events->wake, engine->loop, 0, deliver, events);
    return s;
}

struct atoll_subscription *atoll_events_unsubscribe(struct atoll_subscription *s)
{
    if (!s)
        return NULL;
    atoll_list_remove(&s->node);
    free(s);
    return NULL;
}

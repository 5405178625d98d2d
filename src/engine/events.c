#include <errno.h>
#include <string.h>
#include "base/clock.h"
#include "base/metrics.h"
#include "engine/engine_internal.h"

/*
 * Events: the last EVENTS_KEPT are kept in a ring, and every subscriber has its own place in it. A
 * subscriber that is too slow misses what fell out of the ring, and sees that by the ids.
 */

#define EVENTS_KEPT 4096

struct kept {
    uint64_t id;
    int64_t unix_ms;
    const char *kind; /* static */
    char sandbox_id[ATOLL_ID_LEN + 1];
    char owner[65];
    char exec_id[17];
    char detail[120];
};

struct atoll_events {
    struct kept ring[EVENTS_KEPT];
    uint64_t last; /* id of the newest, 0: none yet */
    struct atoll_list subscriptions;
    struct atoll_timer wake;
};

struct atoll_subscription {
    struct atoll_list node;
    uint64_t seen; /* id of the last that was given */
    void (*fn)(void *arg, const struct atoll_event *event);
    void *arg;
};

int atoll_events_new(struct atoll_events **ret, struct atoll_error *err)
{
    *ret = calloc(1, sizeof(**ret));
    if (!*ret)
        return atoll_fail_errno(err, ENOMEM, "events");
    atoll_list_init(&(*ret)->subscriptions);
    return 0;
}

struct atoll_events *atoll_events_free(struct atoll_events *events)
{
    if (events)
        atoll_timer_cancel(&events->wake);
    free(events);
    return NULL;
}

static const struct kept *slot(const struct atoll_events *events, uint64_t id)
{
    return &events->ring[id % EVENTS_KEPT];
}

static void give_next(struct atoll_events *events, struct atoll_subscription *s)
{
    const struct kept *k;

    if (events->last > EVENTS_KEPT && s->seen < events->last - EVENTS_KEPT)
        s->seen = events->last - EVENTS_KEPT;
    k = slot(events, ++s->seen);
    s->fn(s->arg, &(struct atoll_event){k->id, k->unix_ms, k->kind, k->sandbox_id, k->owner,
                                        k->exec_id, k->detail});
}

/* One event for each who waits, round after round; a callback may unsubscribe anybody. */
static void deliver(void *arg)
{
    struct atoll_events *events = arg;
    bool again = true;

    while (again) {
        again = false;
        ATOLL_LIST_FOREACH (&events->subscriptions, node) {
            struct atoll_subscription *s =
                ATOLL_CONTAINER_OF(node, struct atoll_subscription, node);
            if (s->seen >= events->last)
                continue;
            give_next(events, s);
            again = true;
            break; /* the list may have changed */
        }
    }
}

void atoll_events_emit(struct atoll_engine *engine, const char *kind, const struct atoll_sandbox *s,
                       const char *exec_id, const char *detail)
{
    struct atoll_events *events = engine->events;
    struct kept *k;

    if (s->hidden)
        return;
    atoll_metric_add(ATOLL_METRIC_EVENTS, ATOLL_LABELS(kind), 1);
    k = &events->ring[++events->last % EVENTS_KEPT];
    *k = (struct kept){.id = events->last, .unix_ms = atoll_clock_unix_ms(), .kind = kind};
    memcpy(k->sandbox_id, s->spec.id, sizeof(k->sandbox_id));
    memcpy(k->owner, s->owner, sizeof(k->owner));
    (void)strncpy(k->exec_id, exec_id, sizeof(k->exec_id) - 1);
    (void)strncpy(k->detail, detail, sizeof(k->detail) - 1);
    if (!atoll_list_empty(&events->subscriptions))
        atoll_timer_set(&events->wake, engine->loop, 0, deliver, events);
}

struct atoll_subscription *atoll_events_subscribe(struct atoll_engine *engine, uint64_t after,
                                                  void (*fn)(void *arg,
                                                             const struct atoll_event *event),
                                                  void *arg)
{
    struct atoll_events *events = engine->events;
    struct atoll_subscription *s = calloc(1, sizeof(*s));

    if (!s)
        abort(); /* a small fixed object: the daemon is crash-only */
    s->seen = ATOLL_MIN(after, events->last);
    s->fn = fn;
    s->arg = arg;
    atoll_list_push_back(&events->subscriptions, &s->node);
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

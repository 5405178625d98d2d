/*
 * GET /api/events: events of sandboxes and commands, from now on or replayed from an id. If the id
 * is too old to replay from, the stream begins with a "truncated" event.
 */
#include <stdio.h>
#include <string.h>
#include "api/kit/feed.h"
#include "api/rest/rest_internal.h"
#include "base/text.h"

struct listener {
    struct atoll_feed feed;
    struct atoll_subscription *subscription; /* owned */
    uint64_t last;                           /* id of the last event sent; UINT64_MAX: none yet */
    char sandbox_id[33];                     /* "" for all */
    char tenant[65];                         /* whose events are sent */
    bool all;                                /* events of every tenant */
};

static void gone(void *arg)
{
    struct listener *l = arg;

    if (l->subscription)
        (void)atoll_events_unsubscribe(l->subscription);
    free(l);
}

static void tell_missing(struct listener *l, uint64_t from, uint64_t to)
{
    struct atoll_json_out out = atoll_feed_begin(&l->feed);

    atoll_json_open(&out, "truncated", '{');
    atoll_json_u64(&out, "from", from);
    atoll_json_u64(&out, "to", to);
    atoll_json_close(&out, '}');
    atoll_feed_send(&l->feed, &out, "truncated", NULL);
}

static void tell(struct listener *l, const struct atoll_event *event)
{
    struct atoll_json_out out = atoll_feed_begin(&l->feed);
    char id[24];

    (void)snprintf(id, sizeof(id), "%llu", (unsigned long long)event->id);
    atoll_json_u64(&out, "id", event->id);
    atoll_json_time(&out, "time", event->unix_ms);
    atoll_json_text(&out, "kind", event->kind);
    atoll_json_text(&out, "sandbox_id", event->sandbox_id);
    if (*event->exec_id)
        atoll_json_text(&out, "exec_id", event->exec_id);
    if (*event->detail)
        atoll_json_text(&out, "detail", event->detail);
    atoll_feed_send(&l->feed, &out, event->kind, id);
}

static void happened(void *arg, const struct atoll_event *event)
{
    struct listener *l = arg;

    if (l->last != UINT64_MAX && event->id > l->last + 1)
        tell_missing(l, l->last + 1, event->id - 1);
    l->last = event->id;
    if ((l->all || strcmp(l->tenant, event->owner) == 0) &&
        (!l->sandbox_id[0] || strcmp(l->sandbox_id, event->sandbox_id) == 0))
        tell(l, event);
}

/* The start position: ?after=, or Last-Event-ID after a browser reconnects. */
static int take_place(const struct atoll_api_call *call, uint64_t *ret_after,
                      struct atoll_error *err)
{
    const char *last = atoll_http_header(call->req, "last-event-id");

    *ret_after = UINT64_MAX;
    if (last && atoll_text_u64(last, 0, INT64_MAX, ret_after) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, 0,
                          "Last-Event-ID must be the id of an event (got \"%.48s\")", last);
    return atoll_api_query_u64(call, "after", 0, INT64_MAX, ret_after, err);
}

static int take_sandbox(const struct atoll_api_call *call, char *out, size_t cap,
                        struct atoll_error *err)
{
    const char *id = atoll_http_query(call->req, "sandbox");

    if (!id)
        return 0;
    if (!atoll_text_is_id(id))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, 0,
                          "?sandbox= must be the id of a sandbox (got \"%.48s\")", id);
    return atoll_text_copy(out, cap, id);
}

void atoll_rest_events(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                       size_t n ATOLL_UNUSED)
{
    struct listener *l = atoll_api_alloc(sizeof(*l));
    struct atoll_engine *engine = call->engine;
    struct atoll_error error;
    uint64_t after;
    int r = take_place(call, &after, &error);

    if (r == 0)
        r = take_sandbox(call, l->sandbox_id, sizeof(l->sandbox_id), &error);
    if (r < 0) {
        free(l);
        atoll_api_fail(call, &error);
        return;
    }
    l->last = after;
    l->all = call->all;
    (void)snprintf(l->tenant, sizeof(l->tenant), "%s", call->caller.tenant);
    /* Subscribe first: opening the feed may end it. No event is delivered inside this call. */
    l->subscription = atoll_events_subscribe(engine, after, happened, l);
    atoll_feed_open(&l->feed, call, gone, l);
}

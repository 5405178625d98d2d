/*
 * The state of the facade: events of the engine for clients, the last use of sandboxes, and what
 * happens to sandboxes after some time.
 */
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/daytona/builds.h"
#include "api/daytona/socketio.h"
#include "api/daytona/storage.h"
#include "base/clock.h"
#include "base/log.h"
#include "engine/json_memory.h"

#define SWEEP_MS 10000
#define MINUTE_MS INT64_C(60000)
#define USED "used" /* fact: the time of the last use that is stored */

struct activity {
    char id[65];
    int64_t unix_ms, stored_unix_ms; /* 0: not used yet */
    bool backing_up;
};

struct atoll_daytona *atoll_daytona_of(const struct atoll_api *api)
{
    return atoll_api_facade_state(api, &atoll_daytona_facade);
}

/* Uses. */

/* The facts of other facades are theirs: uses of their sandboxes are not stored. This is no change in the sense
 * of updatedAt. */
static void store_use(const struct atoll_api *api, struct activity *a)
{
    const struct atoll_sandbox *sandbox = atoll_engine_find(api->config.engine, a->id);
    ATOLL_AUTOFREE char *text = NULL;
    struct atoll_sandbox_view view;
    struct atoll_error ignored;
    json_t *facts;

    if (!sandbox)
        return;
    atoll_sandbox_get(sandbox, &view);
    facts = atoll_daytona_facts(sandbox);
    if (!a->stored_unix_ms)
        a->stored_unix_ms = atoll_fact_number(facts, USED, view.created_unix_ms);
    if (!atoll_facts_are_foreign(facts) && a->unix_ms - a->stored_unix_ms >= MINUTE_MS) {
        a->stored_unix_ms = a->unix_ms;
        (void)json_object_set_new(facts, USED, json_integer(a->unix_ms));
        text = atoll_json_dump(facts, JSON_COMPACT);
        /* It fails for a sandbox that stops at this moment. */
        if (text)
            (void)!atoll_engine_set_facade(api->config.engine, a->id, text, &ignored);
    }
    json_decref(facts);
}

static struct activity *get_activity(const struct atoll_api *api, const char *sandbox_id)
{
    struct atoll_daytona *daytona = atoll_daytona_of(api);
    struct activity *a = atoll_map_get(&daytona->activities, sandbox_id);

    if (!a) {
        a = atoll_api_alloc(sizeof(*a));
        (void)snprintf(a->id, sizeof(a->id), "%s", sandbox_id);
        if (atoll_map_put(&daytona->activities, a->id, a) < 0)
            abort();
    }
    return a;
}

bool atoll_daytona_is_backing_up(const struct atoll_api *api, const char *sandbox_id)
{
    const struct activity *a = atoll_map_get(&atoll_daytona_of(api)->activities, sandbox_id);

    return a && a->backing_up;
}

void atoll_daytona_set_backing_up(const struct atoll_api *api, const char *sandbox_id, bool on)
{
    /* There is no entry of a sandbox that has ended meanwhile. */
    if (on || atoll_map_get(&atoll_daytona_of(api)->activities, sandbox_id))
        get_activity(api, sandbox_id)->backing_up = on;
}

void atoll_daytona_touch(const struct atoll_api *api, const char *sandbox_id)
{
    struct activity *a = get_activity(api, sandbox_id);

    a->unix_ms = atoll_clock_unix_ms();
    if (!a->stored_unix_ms || a->unix_ms - a->stored_unix_ms >= MINUTE_MS)
        store_use(api, a);
    atoll_engine_touch(api->config.engine, sandbox_id);
}

int64_t atoll_daytona_last_activity(const struct atoll_api *api,
                                    const struct atoll_sandbox_view *view, const json_t *facts)
{
    const struct activity *a = atoll_map_get(&atoll_daytona_of(api)->activities, view->id);

    return a && a->unix_ms ? a->unix_ms : atoll_fact_number(facts, USED, view->created_unix_ms);
}

/* Events. */

static const struct {
    const char *kind, *old_state, *new_state;
} rows[] = {
    {"sandbox.started", "starting", "started"},      {"sandbox.resumed", "resuming", "started"},
    {"sandbox.recreated", "restoring", "started"},   {"sandbox.stopped", "stopping", "stopped"},
    {"sandbox.failed", "started", "error"},          {"sandbox.paused", "pausing", "paused"},
    {"sandbox.destroyed", "destroying", "destroyed"}};

static void on_event(void *arg, const struct atoll_event *event)
{
    struct atoll_daytona *daytona = arg;

    if (strcmp(event->kind, "sandbox.created") == 0)
        atoll_daytona_tell_created(daytona, event->owner, event->sandbox_id);
    if (strcmp(event->kind, "sandbox.destroyed") == 0) {
        free(atoll_map_remove(&daytona->activities, event->sandbox_id));
        atoll_daytona_drop_backup(daytona->api->config.engine, event->owner, event->sandbox_id);
    }
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++)
        if (strcmp(rows[i].kind, event->kind) == 0)
            atoll_daytona_tell(daytona, event->owner, event->sandbox_id, rows[i].old_state,
                               rows[i].new_state);
}

/* Intervals. */

static void forgotten(void *arg ATOLL_UNUSED, const struct atoll_error *error ATOLL_UNUSED)
{
}

static bool is_over(int64_t since_unix_ms, int64_t minutes, int64_t now)
{
    return since_unix_ms > 0 && now - since_unix_ms >= minutes * MINUTE_MS;
}

static void archive(struct atoll_daytona *daytona, const struct atoll_sandbox_view *v)
{
    struct atoll_error error;

    if (atoll_daytona_change(daytona->api->config.engine, v->id, "archived", json_true(), &error) <
        0)
        atoll_log(ATOLL_LOG_WARN, "sandbox not archived", "sandbox", v->id, "error", error.text,
                  NULL);
    else
        atoll_daytona_tell(daytona, v->owner, v->id, "archiving", "archived");
}

/* Whether the sandbox is to be destroyed now; archives it if that is due. */
static bool look_at(struct atoll_daytona *daytona, const struct atoll_sandbox *sandbox, int64_t now)
{
    json_t *facts = atoll_daytona_facts(sandbox);
    struct atoll_sandbox_view v;
    int64_t destroy_at = atoll_fact_number(facts, "destroyAt", 0);
    int64_t destroy = atoll_fact_number(facts, ATOLL_DAYTONA_AUTO_DELETE, -1);
    int64_t archived = atoll_fact_number(facts, ATOLL_DAYTONA_AUTO_ARCHIVE, 0);
    bool stands, over;

    atoll_sandbox_get(sandbox, &v);
    stands = v.state == ATOLL_SANDBOX_STOPPED ||
             (v.state == ATOLL_SANDBOX_PAUSED && atoll_fact_flag(facts, "halted"));
    over = atoll_fact_flag(facts, "destroyed") || (destroy_at > 0 && now >= destroy_at) ||
           (stands && destroy >= 0 && is_over(v.paused_unix_ms, destroy, now));
    if (!over && stands && archived > 0 && !atoll_fact_flag(facts, "archived") &&
        is_over(v.paused_unix_ms, archived, now))
        archive(daytona, &v);
    /* The engine itself tries again to remove what could not be removed. */
    over = over && !atoll_facts_are_foreign(facts) && v.state != ATOLL_SANDBOX_STOPPING &&
           !(v.state == ATOLL_SANDBOX_FAILED && atoll_fact_flag(facts, "destroyed"));
    json_decref(facts);
    return over;
}

static void sweep(void *arg)
{
    struct atoll_daytona *daytona = arg;
    struct atoll_engine *engine = daytona->api->config.engine;
    struct atoll_sandbox_view view;
    struct atoll_sandbox *sandbox;
    int64_t now = atoll_clock_unix_ms();
    char id[ATOLL_ID_LEN + 1] = "";
    bool soon;

    for (size_t pos = 0; (sandbox = atoll_engine_next(engine, &pos));)
        if (look_at(daytona, sandbox, now)) {
            atoll_sandbox_get(sandbox, &view);
            (void)snprintf(id, sizeof(id), "%s", view.id);
            atoll_engine_destroy(engine, id, "its auto-delete interval", forgotten, NULL);
            break; /* the order of the others may have changed: continue with the next sweep */
        }
    /* Soon, if that one is on its way out. */
    if (sandbox && (sandbox = atoll_engine_find(engine, id)))
        atoll_sandbox_get(sandbox, &view);
    soon = *id && (!sandbox || view.state == ATOLL_SANDBOX_STOPPING);
    /* A sandbox that was made from it may have used it when its own sandbox ended. */
    if (!soon)
        atoll_daytona_drop_orphaned_backup(engine);
    atoll_timer_set(&daytona->sweep, daytona->api->config.loop, soon ? 1 : SWEEP_MS, sweep,
                    daytona);
}

/* Open and close. */

void *atoll_daytona_open(struct atoll_api *api, const uint32_t *options ATOLL_UNUSED)
{
    struct atoll_daytona *daytona = atoll_api_alloc(sizeof(*daytona));
    struct atoll_error error;

    daytona->api = api;
    atoll_list_init(&daytona->sockets);
    atoll_list_init(&daytona->waiting);
    atoll_list_init(&daytona->uploads);
    atoll_list_init(&daytona->untold);
    atoll_shares_init(&daytona->untold_bytes, ATOLL_DAYTONA_UNTOLD_BYTES_MAX);
    atoll_map_init(&daytona->activities);
    daytona->events = atoll_events_subscribe(api->config.engine, UINT64_MAX, on_event, daytona);
    if (atoll_daytona_waiting_load(daytona, &error) < 0)
        atoll_log(ATOLL_LOG_ERROR, "waiting sandboxes not loaded", "error", error.text, NULL);
    if (api->config.loop)
        atoll_timer_set(&daytona->sweep, api->config.loop, SWEEP_MS, sweep, daytona);
    return daytona;
}

void atoll_daytona_close(void *state)
{
    struct atoll_daytona *daytona = state;
    struct activity *a;

    atoll_timer_cancel(&daytona->sweep);
    atoll_daytona_waiting_done(daytona);
    atoll_daytona_parts_done(daytona);
    ATOLL_LIST_FOREACH (&daytona->untold, node)
        atoll_list_remove(node);
    atoll_shares_done(&daytona->untold_bytes);
    daytona->events = atoll_events_unsubscribe(daytona->events);
    for (size_t pos = 0; (a = atoll_map_next(&daytona->activities, &pos));)
        free(a);
    atoll_map_done(&daytona->activities);
    free(daytona);
}

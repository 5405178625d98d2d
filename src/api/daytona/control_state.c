/*
 * Operations on one sandbox: get, delete, start, stop, pause, archive, recover.
 */
#include <stdio.h>
#include <string.h>
#include "api/daytona/builds.h"
#include "api/daytona/socketio.h"

/* The sandbox of the path, with its view and facts (a new reference). NULL: the call has been
 * answered. */
static const struct atoll_sandbox *find(struct atoll_api_call *call, struct atoll_sandbox_view *v,
                                        json_t **ret_facts)
{
    const struct atoll_sandbox *sandbox = atoll_engine_find(call->engine, call->params.id);
    json_t *facts = sandbox ? atoll_daytona_facts(sandbox) : NULL;

    if (!sandbox || atoll_fact_flag(facts, "destroyed")) {
        json_decref(facts);
        atoll_daytona_no_sandbox(call);
        return NULL;
    }
    atoll_sandbox_get(sandbox, v);
    *ret_facts = facts;
    return sandbox;
}

/* The same, with its state. NULL: the call has been answered. */
static const char *find_state(struct atoll_api_call *call, struct atoll_sandbox_view *v)
{
    const char *state;
    json_t *facts;

    if (!find(call, v, &facts))
        return NULL;
    state = atoll_daytona_state(v, facts);
    json_decref(facts);
    return state;
}

static bool is(const char *state, const char *name)
{
    return strcmp(state, name) == 0;
}

static void refuse_change(struct atoll_api_call *call)
{
    atoll_daytona_refuse(call, 409, NULL, "Sandbox state change in progress");
}

static bool is_changing(const char *state)
{
    return is(state, "creating") || is(state, "starting") || is(state, "stopping");
}

/* Answers for a sandbox that waits for its build; remove: cancels it. False: the path names no such
 * sandbox. */
static bool reply_waiting(struct atoll_api_call *call, bool remove)
{
    struct atoll_daytona_waiting *w =
        atoll_daytona_waiting_find(call->api, call->caller.tenant, call->params.id);
    char origin[ATOLL_ORIGIN_MAX];
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (!w || atoll_engine_find(call->engine, call->params.id))
        return false;
    atoll_origin(call->api, call->req, origin);
    atoll_api_reply_init(&buf, &out);
    atoll_daytona_waiting_view(&out, w, origin, atoll_daytona_detail_for(call));
    if (remove)
        atoll_daytona_waiting_drop(w);
    atoll_api_reply(call, 200, &out);
    return true;
}

void atoll_daytona_get(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                       size_t n ATOLL_UNUSED)
{
    struct atoll_sandbox_view v;

    if (!reply_waiting(call, false) && find_state(call, &v))
        atoll_daytona_reply_sandbox(call, 200, v.id);
}

static void forgotten(void *arg ATOLL_UNUSED, const struct atoll_error *error ATOLL_UNUSED)
{
}

/* Answers before the cleanup has finished. At that point these clients do not find the sandbox any
 * more, and its end is stored, so that a crash cannot bring it back. */
static void destroy(struct atoll_api_call *call)
{
    char id[sizeof(call->params.id)], owner[65];
    struct atoll_daytona *daytona = atoll_daytona_of(call->api);
    struct atoll_engine *engine = call->engine;
    struct atoll_daytona_waiting *waiting;
    struct atoll_error error;

    (void)snprintf(id, sizeof(id), "%s", call->params.id);
    (void)snprintf(owner, sizeof(owner), "%s", atoll_api_owner_of(engine, id));
    waiting = atoll_daytona_waiting_find(call->api, owner, id);
    if (waiting) /* it is being made: neither this daemon nor the next one makes it again */
        atoll_daytona_waiting_drop(waiting);
    /* The view shows the end. Without it, in a sandbox that stops already, the destroy waits. */
    (void)!atoll_daytona_change(engine, id, "destroyed", json_true(), &error);
    atoll_daytona_reply_sandbox(call, 200, id);
    (void)!atoll_engine_set_name(engine, id, "", &error); /* another sandbox can have it now */
    atoll_engine_destroy(engine, id, ATOLL_DAYTONA_WHO, forgotten, NULL);
    atoll_daytona_tell(daytona, owner, id, "destroying", "destroyed");
}

void atoll_daytona_remove(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                          size_t n ATOLL_UNUSED)
{
    struct atoll_sandbox_view v;

    if (!reply_waiting(call, true) && find_state(call, &v))
        destroy(call);
}

/* Starting. */

static int clear_marks(struct atoll_api_call *call, struct atoll_error *err)
{
    json_t *facts = atoll_daytona_facts(atoll_engine_find(call->engine, call->params.id));
    bool marked = atoll_fact_flag(facts, "archived") || atoll_fact_flag(facts, "halted");
    int r = 0;

    (void)json_object_del(facts, "archived");
    (void)json_object_del(facts, "halted");
    if (marked)
        r = atoll_daytona_facts_store(call->engine, call->params.id, facts, err);
    json_decref(facts);
    return r;
}

static void begin_start(struct atoll_api_call *call)
{
    struct atoll_error error;

    if (clear_marks(call, &error) < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    atoll_daytona_touch(call->api, call->params.id);
    atoll_engine_resume(call->engine, call->params.id, atoll_daytona_done, call);
}

void atoll_daytona_start(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                         size_t n ATOLL_UNUSED)
{
    struct atoll_sandbox_view v;
    const char *state = find_state(call, &v);

    if (!state)
        return;
    if (is(state, "started"))
        atoll_daytona_reply_sandbox(call, 200, v.id);
    else if (is(state, "stopped") || is(state, "archived") || is(state, "paused"))
        begin_start(call);
    else if (is_changing(state))
        refuse_change(call);
    else
        atoll_daytona_refuse(call, 400, NULL, "Sandbox is not in valid state");
}

/* Stopping. */

static void halted(void *arg, const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;
    struct atoll_error failure;

    if (!error &&
        atoll_daytona_change(call->engine, call->params.id, "halted", json_true(), &failure) < 0)
        error = &failure;
    atoll_daytona_done(call, error);
}

void atoll_daytona_stop(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                        size_t n ATOLL_UNUSED)
{
    struct atoll_sandbox_view v;
    json_t *facts;
    const char *state;
    bool ephemeral;

    if (!find(call, &v, &facts))
        return;
    state = atoll_daytona_state(&v, facts);
    ephemeral = atoll_fact_number(facts, ATOLL_DAYTONA_AUTO_DELETE, -1) == 0;
    json_decref(facts);
    if (is_changing(state))
        refuse_change(call);
    else if (!is(state, "started") && !is(state, "paused"))
        atoll_daytona_refuse(call, 400, NULL, "Sandbox is not in a stoppable state");
    else if (ephemeral)
        destroy(call);
    else if (v.options.lifetime.persistent)
        atoll_engine_stop(call->engine, v.id, ATOLL_DAYTONA_WHO, ATOLL_STOP_WRITTEN,
                          atoll_daytona_done, call);
    else
        atoll_engine_pause(call->engine, v.id, false, ATOLL_DAYTONA_WHO, halted, call);
}

void atoll_daytona_pause(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                         size_t n ATOLL_UNUSED)
{
    struct atoll_sandbox_view v;
    const char *state = find_state(call, &v);

    if (!state)
        return;
    if (is_changing(state))
        refuse_change(call);
    else if (!is(state, "started"))
        atoll_daytona_refuse(call, 400, NULL, "Sandbox is not started");
    else
        atoll_engine_pause(call->engine, v.id, true, ATOLL_DAYTONA_WHO, atoll_daytona_done, call);
}

/* Archives: a stopped sandbox is its disk, which is all that an archive keeps. */

static void mark_archived(struct atoll_api_call *call)
{
    struct atoll_error error;

    if (atoll_daytona_change(call->engine, call->params.id, "archived", json_true(), &error) < 0)
        atoll_api_fail(call, &error);
    else
        atoll_daytona_reply_sandbox(call, 200, call->params.id);
}

void atoll_daytona_archive(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                           size_t n ATOLL_UNUSED)
{
    struct atoll_sandbox_view v;
    const char *state = find_state(call, &v);

    if (!state)
        return;
    if (is(state, "archived"))
        atoll_daytona_reply_sandbox(call, 200, v.id);
    else if (!is(state, "stopped"))
        atoll_daytona_refuse(call, 400, NULL, "Sandbox is not stopped");
    else
        mark_archived(call);
}

/* A failed persistent sandbox becomes a stopped one, and is started again. */
static void recovered(void *arg, const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;

    if (error)
        atoll_api_fail(call, error);
    else
        begin_start(call);
}

void atoll_daytona_recover(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                           size_t n ATOLL_UNUSED)
{
    struct atoll_sandbox_view v;
    struct atoll_error error;
    const char *state = find_state(call, &v);
    bool skip = false;

    if (!state)
        return;
    if (atoll_api_query_flag(call, "skipStart", &skip, &error) < 0)
        atoll_api_fail(call, &error);
    else if (!atoll_daytona_is_recoverable(&v))
        atoll_daytona_refuse(call, 400, NULL, "Sandbox is not in error state");
    else if (v.state == ATOLL_SANDBOX_STOPPED && skip)
        atoll_daytona_reply_sandbox(call, 200, v.id);
    else if (v.state == ATOLL_SANDBOX_STOPPED)
        begin_start(call);
    else
        atoll_engine_stop(call->engine, v.id, ATOLL_DAYTONA_WHO, ATOLL_STOP_WRITTEN,
                          skip ? atoll_daytona_done : recovered, call);
}

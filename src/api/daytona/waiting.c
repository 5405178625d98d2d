/*
 * Sandboxes that wait for their builds. Each has a row of the store from the answer to its client on until
 * the engine has the sandbox, which has the same id. A new daemon reads the request of the row again, and
 * watches the build, which continues by itself.
 */
#include "engine/build/waiting.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/daytona/builds.h"
#include "api/daytona/socketio.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/rand.h"
#include "engine/json_memory.h"

#define TEMPLATE ATOLL_DAYTONA_BUILD_TEMPLATE
#define BUILD_FAILED "build_failed"
#define FAILED "error"

struct atoll_daytona_waiting {
    struct atoll_list node;
    struct atoll_daytona *daytona;
    char id[ATOLL_ID_LEN + 1];
    char build[ATOLL_VERSION_ID_LEN + 1];
    char *request;                /* as the client sent it */
    struct atoll_options options; /* owned */
    struct atoll_make_watch *watch;
    const char *state;
    char reason[ATOLL_ERROR_TEXT_MAX];
    int64_t created_unix_ms;
    bool creating; /* the engine makes the sandbox: it must not be freed */
    bool dropped;  /* meanwhile */
};

static const char *owner_of(const struct atoll_daytona_waiting *w)
{
    return w->options.owner;
}

static struct atoll_engine *engine_of(const struct atoll_daytona_waiting *w)
{
    return w->daytona->api->config.engine;
}

static struct atoll_daytona_waiting *waiting_new(struct atoll_daytona *daytona)
{
    struct atoll_daytona_waiting *w = atoll_api_alloc(sizeof(*w));

    w->daytona = daytona;
    w->state = "pending_build";
    atoll_list_push_back(&daytona->waiting, &w->node);
    atoll_metric_add(ATOLL_METRIC_DAYTONA, ATOLL_LABELS("waiting_sandboxes"), 1);
    return w;
}

static void waiting_free(struct atoll_daytona_waiting *w)
{
    atoll_list_remove(&w->node);
    atoll_metric_add(ATOLL_METRIC_DAYTONA, ATOLL_LABELS("waiting_sandboxes"), -1);
    atoll_make_unwatch(w->watch);
    atoll_options_free(&w->options);
    free(w->request);
    free(w);
}

static bool has_ended(const struct atoll_daytona_waiting *w)
{
    return strcmp(w->state, BUILD_FAILED) == 0 || strcmp(w->state, FAILED) == 0;
}

/* The row. */

static int store(const struct atoll_daytona_waiting *w, struct atoll_error *err)
{
    const struct atoll_store_waiting row = {
        .id = w->id,
        .tenant = owner_of(w),
        .build = w->build,
        .request = w->request,
        .state = has_ended(w) ? w->state : "",
        .reason = w->reason,
        .created_unix_ms = w->created_unix_ms,
    };

    return atoll_make_waiting_put(engine_of(w), &row, err);
}

static void store_again(const struct atoll_daytona_waiting *w)
{
    struct atoll_error error;

    if (store(w, &error) < 0)
        atoll_log(ATOLL_LOG_WARN, "waiting sandbox not stored", "sandbox", w->id, "error",
                  error.text, NULL);
}

/* A row that stays is dropped by the next daemon, if the sandbox exists by then. */
static void drop_row(const struct atoll_daytona_waiting *w)
{
    struct atoll_error error;

    if (atoll_make_waiting_drop(engine_of(w), w->id, &error) < 0)
        atoll_log(ATOLL_LOG_WARN, "waiting sandbox not dropped", "sandbox", w->id, "error",
                  error.text, NULL);
}

static void forget(struct atoll_daytona_waiting *w)
{
    drop_row(w);
    waiting_free(w);
}

/* From the build to the sandbox. */

static void enter(struct atoll_daytona_waiting *w, const char *state, const char *reason)
{
    const char *old = w->state;

    if (strcmp(old, state) == 0)
        return;
    w->state = state;
    (void)snprintf(w->reason, sizeof(w->reason), "%s", reason);
    if (has_ended(w))
        store_again(w);
    /* SDKs take only the state from an event: they get the reason of a failure when they ask. */
    if (!*reason)
        atoll_daytona_tell(w->daytona, owner_of(w), w->id, old, state);
}

static void forgotten(void *arg ATOLL_UNUSED, const struct atoll_error *error ATOLL_UNUSED)
{
}

static void created(void *arg, struct atoll_sandbox *sandbox ATOLL_UNUSED,
                    const struct atoll_error *error)
{
    struct atoll_daytona_waiting *w = arg;

    w->creating = false;
    if (!error && w->dropped)
        atoll_engine_destroy(engine_of(w), w->id, ATOLL_DAYTONA_WHO, forgotten, NULL);
    if (error && !w->dropped)
        enter(w, FAILED, error->text);
    else
        forget(w);
}

/* The build is done. */
static void create_sandbox(struct atoll_daytona_waiting *w, const struct atoll_make_view *made)
{
    struct atoll_options options = w->options;
    char reference[200];

    (void)snprintf(reference, sizeof(reference), TEMPLATE "@sha256:%s", made->digest);
    options.id = w->id;
    options.template_name = reference;
    w->creating = true;
    w->watch = atoll_make_unwatch(w->watch);
    enter(w, "creating", "");
    atoll_engine_create(engine_of(w), &options, created, w);
}

static void on_build(void *arg)
{
    struct atoll_daytona_waiting *w = arg;
    struct atoll_make_view view;
    struct atoll_error error;

    if (atoll_make_find(engine_of(w), NULL, w->build, &view, &error) < 0) {
        w->watch = atoll_make_unwatch(w->watch);
        enter(w, BUILD_FAILED, error.text);
        return;
    }
    switch (view.state) {
    case ATOLL_MAKE_WAITING:
        return;
    case ATOLL_MAKE_RUNNING:
        enter(w, "building_snapshot", "");
        return;
    case ATOLL_MAKE_READY:
        create_sandbox(w, &view);
        return;
    case ATOLL_MAKE_FAILED:
    case ATOLL_MAKE_CANCELED:
        w->watch = atoll_make_unwatch(w->watch);
        enter(w, BUILD_FAILED, view.error->text);
        return;
    }
}

/* Views. */

struct atoll_daytona_waiting *atoll_daytona_waiting_find(const struct atoll_api *api,
                                                         const char *tenant, const char *text)
{
    /* Clients of other APIs can give the name to a sandbox meanwhile. */
    if (atoll_engine_find_name(api->config.engine, tenant, text))
        return NULL;
    ATOLL_LIST_FOREACH (&atoll_daytona_of(api)->waiting, node) {
        struct atoll_daytona_waiting *w =
            ATOLL_CONTAINER_OF(node, struct atoll_daytona_waiting, node);
        if (!w->dropped && strcmp(owner_of(w), tenant) == 0 &&
            (strcmp(w->id, text) == 0 || (w->options.name && strcmp(w->options.name, text) == 0)))
            return w;
    }
    return NULL;
}

int atoll_daytona_check_name(const struct atoll_api_call *call, const char *name,
                             struct atoll_error *err)
{
    const char *tenant = call->caller.tenant;

    if (!name || !*name ||
        (!atoll_engine_find_name(call->engine, tenant, name) &&
         !atoll_daytona_waiting_find(call->api, tenant, name)))
        return 0;
    return atoll_fail(err, ATOLL_ERR_ALREADY_EXISTS, EEXIST, "Sandbox with name %s already exists",
                      name);
}

const char *atoll_daytona_waiting_id(const struct atoll_daytona_waiting *w)
{
    return w->id;
}

const char *atoll_daytona_waiting_build(const struct atoll_daytona_waiting *w)
{
    return w->build;
}

/* The facts are a new reference. */
static json_t *get(const struct atoll_daytona_waiting *w, struct atoll_sandbox_view *ret)
{
    json_t *facts = atoll_json_load_own(w->options.facade_json);

    *ret = (struct atoll_sandbox_view){.id = w->id,
                                       .owner = owner_of(w),
                                       .template_name = TEMPLATE,
                                       .provider = "",
                                       .options = w->options,
                                       .state = ATOLL_SANDBOX_CREATING,
                                       .cause = w->reason,
                                       .created_unix_ms = w->created_unix_ms};
    (void)json_object_set_new(facts, "state", json_string(w->state));
    return facts;
}

void atoll_daytona_waiting_each(const struct atoll_api *api, const char *tenant,
                                atoll_daytona_waiting_fn *fn, void *arg)
{
    ATOLL_LIST_FOREACH (&atoll_daytona_of(api)->waiting, node) {
        const struct atoll_daytona_waiting *w =
            ATOLL_CONTAINER_OF(node, struct atoll_daytona_waiting, node);
        struct atoll_sandbox_view view;
        json_t *facts;
        if (w->dropped || (tenant && strcmp(owner_of(w), tenant) != 0) ||
            atoll_engine_find(engine_of(w), w->id))
            continue;
        facts = get(w, &view);
        fn(arg, w, &view, facts);
        json_decref(facts);
    }
}

int atoll_daytona_waiting_refuse(const struct atoll_daytona_waiting *w, struct atoll_error *err)
{
    if (has_ended(w))
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EBUSY,
                          "sandbox %s was not made (%s): delete it", w->id, w->state);
    return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EBUSY,
                      "sandbox %s waits for its build (%s): try again when it is started, or "
                      "delete it",
                      w->id, w->state);
}

void atoll_daytona_waiting_view(struct atoll_json_out *out, const struct atoll_daytona_waiting *w,
                                const char *origin, enum atoll_daytona_detail detail)
{
    struct atoll_sandbox_view v;
    json_t *facts = get(w, &v);

    atoll_daytona_view_of(out, NULL, w->daytona->api, origin, &v, facts, detail);
    json_decref(facts);
}

void atoll_daytona_waiting_drop(struct atoll_daytona_waiting *w)
{
    struct atoll_error ignored;

    (void)!atoll_make_cancel(engine_of(w), w->build, ATOLL_DAYTONA_WHO, &ignored);
    if (w->creating) {
        w->dropped = true;
        drop_row(w);
    } else {
        forget(w);
    }
}

void atoll_daytona_waiting_done(struct atoll_daytona *daytona)
{
    atoll_timer_cancel(&daytona->resume);
    ATOLL_LIST_FOREACH (&daytona->waiting, node)
        waiting_free(ATOLL_CONTAINER_OF(node, struct atoll_daytona_waiting, node));
}

/* Beginning to wait. */

/* Copies the options, with the id of the build in the facts. */
static int take_options(struct atoll_daytona_waiting *w, const struct atoll_options *options,
                        struct atoll_error *err)
{
    json_t *facts;
    char *text;
    int r = atoll_options_dup(&w->options, options, err);

    if (r < 0)
        return r;
    facts = atoll_json_load_own(w->options.facade_json);
    (void)json_object_set_new(facts, "buildId", json_string(w->build));
    text = atoll_json_dump(facts, JSON_COMPACT);
    json_decref(facts);
    if (!text)
        return atoll_fields_no_memory(err);
    atoll_options_set_text(&w->options.facade_json, text);
    return 0;
}

static int begin(struct atoll_daytona_waiting *w, const struct atoll_api_call *call,
                 const struct atoll_daytona_create *q, const struct atoll_options *options,
                 struct atoll_error *err)
{
    const struct atoll_daytona_definition definition = {
        .dockerfile = q->dockerfile,
        .hashes = q->hashes && q->hashes[0] ? q->hashes : NULL,
        .name = TEMPLATE,
    };
    struct atoll_error ignored;
    int r = atoll_daytona_build_start(call, &definition, w->build, err);

    if (r < 0)
        return r;
    w->request = strndup(q->text, q->text_len);
    r = w->request ? take_options(w, options, err) : atoll_fields_no_memory(err);
    if (r == 0)
        r = atoll_make_watch(call->engine, w->build, on_build, w, &w->watch, err);
    if (r == 0)
        r = store(w, err);
    if (r < 0)
        (void)!atoll_make_cancel(call->engine, w->build, ATOLL_DAYTONA_WHO, &ignored);
    return r;
}

/* The number of waiting sandboxes of the tenant, and the oldest of them that has ended. tenant NULL:
 * of all tenants. */
static size_t count_waiting(const struct atoll_daytona *daytona, const char *tenant,
                            struct atoll_daytona_waiting **ret_ended)
{
    size_t count = 0;

    *ret_ended = NULL;
    ATOLL_LIST_FOREACH (&daytona->waiting, node) {
        struct atoll_daytona_waiting *w =
            ATOLL_CONTAINER_OF(node, struct atoll_daytona_waiting, node);
        if (tenant && strcmp(owner_of(w), tenant) != 0)
            continue;
        count++;
        if (!*ret_ended && has_ended(w))
            *ret_ended = w;
    }
    return count;
}

/* Whether one more sandbox of the tenant may wait; ended ones give way, the oldest first. */
static bool make_room(struct atoll_daytona *daytona, const char *tenant)
{
    struct atoll_daytona_waiting *ended;

    if (count_waiting(daytona, tenant, &ended) >= ATOLL_DAYTONA_TENANT_WAITING_MAX) {
        if (!ended)
            return false;
        forget(ended);
    }
    if (count_waiting(daytona, NULL, &ended) >= ATOLL_DAYTONA_WAITING_MAX) {
        if (!ended)
            return false;
        forget(ended);
    }
    return true;
}

void atoll_daytona_wait_for_build(struct atoll_api_call *call, const struct atoll_daytona_create *q,
                                  const struct atoll_options *options)
{
    struct atoll_daytona *daytona = atoll_daytona_of(call->api);
    struct atoll_daytona_waiting *w;
    char origin[ATOLL_ORIGIN_MAX];
    struct atoll_error error;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (!make_room(daytona, call->caller.tenant)) {
        atoll_metric_add(ATOLL_METRIC_QUOTA_REFUSED, ATOLL_LABELS("waiting_sandboxes"), 1);
        atoll_daytona_refuse(call, 429, NULL, "too many sandboxes wait for their builds");
        return;
    }
    w = waiting_new(daytona);
    w->created_unix_ms = q->asked_unix_ms;
    atoll_rand_id(w->id, ATOLL_ID_LEN);
    if (begin(w, call, q, options, &error) < 0) {
        waiting_free(w);
        atoll_api_fail(call, &error);
        return;
    }
    atoll_origin(call->api, call->req, origin);
    atoll_api_reply_init(&buf, &out);
    atoll_daytona_waiting_view(&out, w, origin, atoll_daytona_detail_for(call));
    atoll_api_reply(call, 200, &out);
}

/* After a restart. */

static int load_request(struct atoll_daytona_waiting *w, const struct atoll_store_waiting *row,
                        struct atoll_error *err)
{
    struct atoll_api *api = w->daytona->api;
    struct atoll_api_call call = {.api = api, .engine = api->config.engine};
    struct atoll_daytona_create q = {0};
    struct atoll_options options;
    struct atoll_body body;
    int r;

    (void)snprintf(call.caller.tenant, sizeof(call.caller.tenant), "%s", row->tenant);
    r = atoll_daytona_create_decode(&call, row->request, strlen(row->request), row->created_unix_ms,
                                    &body, &q, &options, err);
    if (r == 0)
        r = take_options(w, &options, err);
    atoll_body_done(&body);
    return r;
}

static int load_row(void *arg, const struct atoll_store_waiting *row, struct atoll_error *err)
{
    struct atoll_daytona_waiting *w = waiting_new(arg);
    int r;

    (void)snprintf(w->id, sizeof(w->id), "%s", row->id);
    (void)snprintf(w->build, sizeof(w->build), "%s", row->build);
    (void)snprintf(w->reason, sizeof(w->reason), "%s", row->reason);
    w->created_unix_ms = row->created_unix_ms;
    if (*row->state)
        w->state = strcmp(row->state, BUILD_FAILED) == 0 ? BUILD_FAILED : FAILED;
    w->request = row->request ? strdup(row->request) : NULL;
    r = w->request ? load_request(w, row, err) : atoll_fields_no_memory(err);
    if (r == 0)
        return 0;
    atoll_log(ATOLL_LOG_ERROR, "waiting sandbox not loaded", "sandbox", row->id, "error", err->text,
              NULL);
    waiting_free(w);
    return 0;
}

static void resume_one(struct atoll_daytona_waiting *w)
{
    struct atoll_error error;

    if (atoll_engine_find(engine_of(w), w->id)) {
        forget(w);
    } else if (!has_ended(w)) {
        if (atoll_make_watch(engine_of(w), w->build, on_build, w, &w->watch, &error) < 0)
            enter(w, BUILD_FAILED, error.text);
        else
            on_build(w);
    }
}

static void resume_all(void *arg)
{
    struct atoll_daytona *daytona = arg;

    ATOLL_LIST_FOREACH (&daytona->waiting, node) {
        struct atoll_daytona_waiting *w =
            ATOLL_CONTAINER_OF(node, struct atoll_daytona_waiting, node);
        if (!w->watch && !w->creating)
            resume_one(w);
    }
}

int atoll_daytona_waiting_load(struct atoll_daytona *daytona, struct atoll_error *err)
{
    const struct atoll_api_config *config = &daytona->api->config;
    int r = atoll_make_waiting_each(config->engine, load_row, daytona, err);

    if (!atoll_list_empty(&daytona->waiting))
        atoll_timer_set(&daytona->resume, config->loop, 1, resume_all, daytona);
    return r;
}

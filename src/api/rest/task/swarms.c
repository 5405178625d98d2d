/* Swarms (task/swarm.h): start, list, get, cancel, memory. */
#include <errno.h>
#include <stdio.h>
#include "api/api_internal.h"
#include "api/idempotency.h"
#include "api/kit/json_value.h"
#include "api/rest/rest_internal.h"
#include "api/rest/task/end_wait.h"
#include "api/rest/task/tasks.h"
#include "base/rand.h"
#include "base/text.h"
#include "engine/json_memory.h"
#include "network/placeholder.h"
#include "task/swarm.h"

#define MEMBERS_FILES_MAX (4 * ATOLL_VIEW_FILES_MAX) /* of all members together */

static struct atoll_swarms *swarms_of(const struct atoll_api_call *call)
{
    return call->api->config.swarms;
}

static int find(struct atoll_api_call *call, struct atoll_swarm_view *ret, struct atoll_error *err)
{
    int r = atoll_swarms_find(swarms_of(call), NULL, call->params.name, ret, err);

    if (r == 0 && !atoll_api_sees(call, ret->tenant))
        r = atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "swarm %.64s does not exist",
                       call->params.name);
    return r;
}

/* --- views --- */

/* Sums over the members. */
static const char *const figures[] = {"wall_seconds", "cpu_seconds",   "network_bytes",
                                      "input_tokens", "output_tokens", "cost_usd"};
struct totals {
    double sums[ATOLL_ARRAY_LEN(figures)];
    size_t room; /* for contents of files */
};

static void add_usage(struct totals *totals, const json_t *usage)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(figures); i++)
        totals->sums[i] += json_number_value(json_object_get(usage, figures[i]));
}

static void view_usage(struct atoll_json_out *out, const struct totals *totals)
{
    json_t *usage = json_object();

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(figures); i++)
        (void)json_object_set_new(usage, figures[i], json_real(totals->sums[i]));
    atoll_json_value(out, "usage", usage);
    json_decref(usage);
}

static void view_member(struct atoll_json_out *out, const struct atoll_api_call *call,
                        const json_t *member, struct totals *totals)
{
    static const char *const names[] = {"name", "state", "task_id", "error"};
    const char *id = json_string_value(json_object_get(member, "task_id"));
    struct atoll_task_view view;
    struct atoll_error error;

    atoll_json_open(out, NULL, '{');
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(names); i++)
        if (json_object_get(member, names[i]))
            atoll_json_value(out, names[i], json_object_get(member, names[i]));
    if (id && atoll_tasks_find(call->api->config.tasks, NULL, id, &view, &error) == 0) {
        atoll_view_task(out, "task", call->engine, &view, &totals->room);
        add_usage(totals, json_object_get(view.facts, "usage"));
    }
    atoll_json_close(out, '}');
}

/* whole: with the tasks of the members. */
static void view_swarm(struct atoll_json_out *out, const struct atoll_api_call *call,
                       const struct atoll_swarm_view *view, bool whole)
{
    struct totals totals = {.room = MEMBERS_FILES_MAX};

    atoll_json_open(out, NULL, '{');
    atoll_json_text(out, "id", view->id);
    atoll_json_text(out, "tenant", view->tenant);
    atoll_json_text(out, "state", atoll_task_state_name(view->state));
    atoll_json_time(out, "created_at", view->created_unix_ms);
    atoll_json_time(out, "ended_at", view->ended_unix_ms);
    if (view->lease_unix_ms > 0)
        atoll_json_time(out, "lease_ends_at", view->lease_unix_ms);
    if (whole) {
        atoll_json_open(out, "members", '[');
        for (size_t i = 0; i < json_array_size(view->members); i++)
            view_member(out, call, json_array_get(view->members, i), &totals);
        atoll_json_close(out, ']');
        view_usage(out, &totals);
        atoll_json_value(out, "memory", view->memory);
    } else {
        atoll_json_value(out, "members", view->members);
    }
    atoll_json_close(out, '}');
}

static void reply_view(struct atoll_api_call *call, int status, const char *id)
{
    struct atoll_swarm_view view;
    struct atoll_error error;
    struct atoll_buf buf;
    struct atoll_json_out out;
    int r = atoll_swarms_find(swarms_of(call), NULL, id, &view, &error);

    if (!atoll_api_reply_begin(call, r < 0 ? &error : NULL, &buf, &out))
        return;
    view_swarm(&out, call, &view, true);
    atoll_api_reply(call, status, &out);
}

/* --- waiting for the end --- */

static bool has_ended(const struct atoll_api_call *call, const char *id)
{
    struct atoll_swarm_view view;
    struct atoll_error error;

    return atoll_swarms_find(swarms_of(call), NULL, id, &view, &error) < 0 ||
           view.state >= ATOLL_TASK_SUCCEEDED;
}

static int watch_swarm(const struct atoll_api_call *call, const char *id, void (*fn)(void *arg),
                       void *arg, void **ret_watch, struct atoll_error *err)
{
    struct atoll_swarm_watch *watch = NULL;
    int r = atoll_swarms_watch(swarms_of(call), id, fn, arg, &watch, err);

    *ret_watch = watch;
    return r;
}

static void unwatch_swarm(void *watch)
{
    (void)atoll_swarms_unwatch(watch);
}

static const struct atoll_end_source end_source = {has_ended, watch_swarm, unwatch_swarm,
                                                   reply_view};

/* --- start --- */

struct request {
    const json_t *tasks, *memory;
    uint32_t lease, lifetime;
    bool has_hub;
    struct {
        const char *url, *swarm, *secret;
    } hub;
    uint32_t concurrency;
    bool fail_fast;
};

#define HUB(member) (offsetof(struct request, hub.member) - offsetof(struct request, hub))
static const struct atoll_field hub_fields[] = {
    {"url", ATOLL_FIELD_STRING, HUB(url), 1, ATOLL_HUB_URL_MAX, NULL, 0},
    {"swarm", ATOLL_FIELD_STRING, HUB(swarm), 1, 64, NULL, 0},
    {"secret", ATOLL_FIELD_STRING, HUB(secret), 1, 64, NULL, 0},
    {0},
};
#undef HUB

#define AT(member) offsetof(struct request, member)
static const struct atoll_field fields[] = {
    {"leaseSeconds", ATOLL_FIELD_U32, AT(lease), 1, 7 * 86400, NULL, 0},
    {"lifetimeSeconds", ATOLL_FIELD_U32, AT(lifetime), 1, 31 * 86400, NULL, 0},
    {"hub", ATOLL_FIELD_OBJECT, AT(hub), 0, 0, hub_fields, 0},
    {"tasks", ATOLL_FIELD_JSON, AT(tasks), 0, 0, NULL, 0},
    {"memory", ATOLL_FIELD_JSON, AT(memory), 0, 0, NULL, 0},
    {"concurrency", ATOLL_FIELD_U32, AT(concurrency), 1, ATOLL_SWARM_MEMBERS_MAX, NULL, 0},
    {"failFast", ATOLL_FIELD_BOOL, AT(fail_fast), 0, 0, NULL, 0},
    {0},
};
#undef AT

static int check_names(const json_t *member, const char *where, struct atoll_error *err)
{
    const json_t *name = json_object_get(member, "name");
    const json_t *needs = json_object_get(member, "dependsOn");

    if (name && !json_is_string(name))
        return atoll_fields_refuse(err, where, "name", name, "a text");
    if (needs && !json_is_array(needs))
        return atoll_fields_refuse(err, where, "dependsOn", needs, "an array of names");
    if (json_array_size(needs) > ATOLL_SWARM_MEMBERS_MAX)
        return atoll_fields_refuse(err, where, "dependsOn", needs, "an array of at most 100 names");
    for (size_t i = 0; i < json_array_size(needs); i++)
        if (!json_is_string(json_array_get(needs, i)))
            return atoll_fields_refuse(err, where, "dependsOn", needs, "an array of names");
    return 0;
}

/* A member is a task with a name and dependencies, which the check of tasks does not know. */
static int check_member(json_t *member, size_t i, struct atoll_error *err)
{
    struct atoll_body scratch = {0}; /* holds what is decoded for the check */
    json_t *task;
    char where[32];
    int r;

    (void)snprintf(where, sizeof(where), "tasks[%zu]", i);
    if (!json_is_object(member))
        return atoll_fields_refuse(err, "", where, member, "an object: the request of a task");
    r = check_names(member, where, err);
    if (r < 0)
        return r;
    task = json_copy(member);
    (void)json_object_del(task, "name");
    (void)json_object_del(task, "dependsOn");
    r = atoll_rest_task_check(&scratch, task, where, err);
    atoll_body_done(&scratch);
    if (r == 0) {
        const json_t *name = json_object_get(member, "name");
        const json_t *needs = json_object_get(member, "dependsOn");
        if (name)
            (void)json_object_set(task, "name", (json_t *)(uintptr_t)name);
        if (needs)
            (void)json_object_set(task, "dependsOn", (json_t *)(uintptr_t)needs);
        (void)json_object_clear(member);
        (void)json_object_update(member, task);
    }
    json_decref(task);
    return r;
}

static int check_hub(const struct request *q, struct atoll_error *err)
{
    if (!q->hub.url || !q->hub.swarm || !atoll_text_is_id(q->hub.swarm))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "hub must have the \"url\" of another Atoll, and \"swarm\": the id of a "
                          "swarm there");
    if (q->hub.secret && !atoll_secret_is_name(q->hub.secret))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "hub.secret must be the name of a secret, with a key of the hub");
    return atoll_hub_check_url(q->hub.url, err);
}

static int check(const struct request *q, struct atoll_error *err)
{
    size_t n = json_array_size(q->tasks);
    int r = 0;

    if (!json_is_array(q->tasks) || (n == 0 && !q->lease) || n > ATOLL_SWARM_MEMBERS_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "tasks must be an array of 1 to %d requests for tasks; it may be empty "
                          "if there is a leaseSeconds",
                          ATOLL_SWARM_MEMBERS_MAX);
    if (q->memory && !json_is_object(q->memory))
        return atoll_fields_refuse(err, "", "memory", q->memory, "an object");
    if (q->memory && json_dumpb(q->memory, NULL, 0, JSON_COMPACT) > ATOLL_SWARM_MEMORY_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG,
                          "the memory of a swarm has at most %zu KiB",
                          ATOLL_SWARM_MEMORY_MAX / 1024);
    if (q->has_hub)
        r = check_hub(q, err);
    for (size_t i = 0; r == 0 && i < n; i++)
        r = check_member(json_array_get(q->tasks, i), i, err);
    return r;
}

void atoll_rest_swarm_create(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct request q = {0};
    struct atoll_body body;
    struct atoll_error error;
    char id[ATOLL_ID_LEN + 1];
    bool wait = false;
    int r;

    if (atoll_idempotency_check(call, bytes, n))
        return;
    r = atoll_body_decode(&body, bytes, n, fields, &q, &error);
    q.has_hub = r == 0 && json_is_object(json_object_get(body.root, "hub"));
    if (r == 0)
        r = check(&q, &error);
    if (r == 0)
        r = atoll_api_query_flag(call, "wait", &wait, &error);
    if (r == 0)
        r = atoll_swarms_start(swarms_of(call), call->caller.tenant, json_incref(body.root), id,
                               &error);
    if (r < 0)
        atoll_api_fail(call, &error);
    else if (wait)
        atoll_rest_wait_end(call, &end_source, id);
    else
        reply_view(call, 201, id);
    atoll_body_done(&body);
}

/* --- the others --- */

void atoll_rest_swarm_list(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                           size_t n ATOLL_UNUSED)
{
    struct atoll_swarm_view view;
    struct atoll_buf buf;
    struct atoll_json_out out;
    view = (struct atoll_swarm_view){.created_unix_ms = INT64_MAX, .id = ""};
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_open(&out, "swarms", '[');
    while (atoll_swarms_before(swarms_of(call), view.created_unix_ms, view.id, &view))
        if (atoll_api_sees(call, view.tenant))
            view_swarm(&out, call, &view, false);
    atoll_json_close(&out, ']');
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

void atoll_rest_swarm_get(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                          size_t n ATOLL_UNUSED)
{
    struct atoll_swarm_view view;
    struct atoll_error error;
    bool wait = false;

    if (find(call, &view, &error) < 0 || atoll_api_query_flag(call, "wait", &wait, &error) < 0)
        atoll_api_fail(call, &error);
    else if (wait)
        atoll_rest_wait_end(call, &end_source, call->params.name);
    else
        reply_view(call, 200, call->params.name);
}

void atoll_rest_swarm_cancel(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                             size_t n ATOLL_UNUSED)
{
    struct atoll_swarm_view view;
    struct atoll_error error;

    if (find(call, &view, &error) < 0 ||
        atoll_swarms_cancel(swarms_of(call), call->params.name, &error) < 0)
        atoll_api_fail(call, &error);
    else
        reply_view(call, 202, call->params.name);
}

void atoll_rest_swarm_heartbeat(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                size_t n ATOLL_UNUSED)
{
    struct atoll_swarm_view view;
    struct atoll_error error;

    if (find(call, &view, &error) < 0 ||
        atoll_swarms_heartbeat(swarms_of(call), call->params.name, &error) < 0)
        atoll_api_fail(call, &error);
    else
        reply_view(call, 200, call->params.name);
}

static void reply_memory(struct atoll_api_call *call)
{
    struct atoll_swarm_view view;
    struct atoll_error error;
    struct atoll_buf buf;
    struct atoll_json_out out;
    int r = find(call, &view, &error);

    if (!atoll_api_reply_begin(call, r < 0 ? &error : NULL, &buf, &out))
        return;
    atoll_json_value(&out, NULL, view.memory);
    atoll_api_reply(call, 200, &out);
}

void atoll_rest_swarm_memory_get(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                 size_t n ATOLL_UNUSED)
{
    reply_memory(call);
}

void atoll_rest_swarm_memory_set(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct atoll_swarm_view view;
    struct atoll_body body;
    struct atoll_error error;
    int r = atoll_body_parse(&body, bytes, n, &error);

    if (r == 0)
        r = find(call, &view, &error);
    if (r == 0)
        r = atoll_swarms_remember(swarms_of(call), call->params.name, body.root, &error);
    if (r < 0)
        atoll_api_fail(call, &error);
    else
        reply_memory(call);
    atoll_body_done(&body);
}

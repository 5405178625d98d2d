#include "task/swarm.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/rand.h"
#include "engine/json_memory.h"
#include "store/tasks.h"
#include "task/swarm_internal.h"

#define CONCURRENCY 8 /* unless the request says */
#define REQUEST_MAX ((size_t)4 << 20)

struct atoll_swarm_watch {
    struct atoll_list node;
    void (*fn)(void *arg);
    void *arg;
};

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "";
}

bool atoll_swarm_has_ended(const struct atoll_swarm *s)
{
    return s->state >= ATOLL_TASK_SUCCEEDED;
}

/* --- rows --- */

static int store(struct atoll_swarm *s, struct atoll_error *err)
{
    json_t *facts = json_pack("{s:O, s:O, s:b, s:b, s:b, s:I}", "members", s->members, "memory",
                              s->memory, "stopping", s->stopping, "canceled", s->canceled,
                              "expired", s->expired, "lease", (json_int_t)s->lease_unix_ms);
    char *request = atoll_json_dump(s->request, JSON_COMPACT);
    char *text = facts ? atoll_json_dump(facts, JSON_COMPACT) : NULL;
    const struct atoll_store_task row = {
        .id = s->id,
        .tenant = s->tenant,
        .kind = ATOLL_STORE_SWARM,
        .state = atoll_task_state_name(s->state),
        .step = "",
        .attempt = 1,
        .request = request,
        .facts = text,
        .error_kind = "",
        .error = "",
        .created_unix_ms = s->created_unix_ms,
        .ended_unix_ms = s->ended_unix_ms,
    };
    int r = request && text ? atoll_store_put_task(s->swarms->store, &row, err)
                            : atoll_fail_errno(err, ENOMEM, "a swarm");

    if (request)
        explicit_bzero(request, strlen(request));
    free(request);
    free(text);
    json_decref(facts);
    return r;
}

static void tell(void *arg)
{
    struct atoll_swarm *s = arg;

    ATOLL_LIST_FOREACH (&s->watches, node) {
        struct atoll_swarm_watch *watch = ATOLL_CONTAINER_OF(node, struct atoll_swarm_watch, node);
        watch->fn(watch->arg);
    }
}

void atoll_swarm_save(struct atoll_swarm *s)
{
    struct atoll_error error;

    if (store(s, &error) < 0)
        atoll_log(ATOLL_LOG_ERROR, "swarm is not stored", "swarm", s->id, "error", error.text,
                  NULL);
    if (!atoll_list_empty(&s->watches) && !s->telling.loop)
        atoll_timer_set(&s->telling, s->swarms->tasks->config.loop, 0, tell, s);
}

static struct atoll_swarm *swarm_new(struct atoll_swarms *swarms, const char *id,
                                     const char *tenant)
{
    struct atoll_swarm *s = atoll_alloc(sizeof(*s));

    s->swarms = swarms;
    s->state = ATOLL_TASK_RUNNING;
    (void)snprintf(s->id, sizeof(s->id), "%s", id);
    (void)snprintf(s->tenant, sizeof(s->tenant), "%s", tenant);
    atoll_list_init(&s->watches);
    return s;
}

static void swarm_free(struct atoll_swarm *s)
{
    atoll_timer_cancel(&s->telling);
    atoll_timer_cancel(&s->expiry);
    while (!atoll_list_empty(&s->watches)) {
        struct atoll_swarm_watch *watch =
            ATOLL_CONTAINER_OF(s->watches.next, struct atoll_swarm_watch, node);
        atoll_list_remove(&watch->node);
        watch->fn(watch->arg); /* which finds no swarm */
    }
    json_decref(s->request);
    json_decref(s->members);
    json_decref(s->memory);
    free(s);
}

static int load_row(void *arg, const struct atoll_store_task *row, struct atoll_error *err)
{
    struct atoll_swarms *swarms = arg;
    struct atoll_swarm *s = swarm_new(swarms, row->id, row->tenant);
    json_t *facts = atoll_json_load_own(row->facts);

    s->request = atoll_json_load_own(row->request);
    s->members = json_incref(json_object_get(facts, "members"));
    s->memory = json_incref(json_object_get(facts, "memory"));
    s->stopping = json_is_true(json_object_get(facts, "stopping"));
    s->canceled = json_is_true(json_object_get(facts, "canceled"));
    s->expired = json_is_true(json_object_get(facts, "expired"));
    s->lease_unix_ms = json_integer_value(json_object_get(facts, "lease"));
    json_decref(facts);
    s->created_unix_ms = row->created_unix_ms;
    s->ended_unix_ms = row->ended_unix_ms;
    if (!s->request)
        s->request = json_object();
    if (!atoll_task_state_by_name(row->state, &s->state) || !json_is_array(s->members) ||
        !json_is_object(s->memory) || atoll_map_put(&swarms->by_id, s->id, s) < 0) {
        swarm_free(s);
        return atoll_fail_errno(err, EBADMSG, "a swarm in the store");
    }
    return 0;
}

/* --- members --- */

static json_t *member_of(const struct atoll_swarm *s, size_t i)
{
    return json_array_get(s->members, i);
}

static const json_t *request_of(const struct atoll_swarm *s, size_t i)
{
    return json_array_get(json_object_get(s->request, "tasks"), i);
}

static void set_state(json_t *member, const char *state)
{
    (void)json_object_set_new(member, "state", json_string(state));
}

static bool is_state(const json_t *member, const char *state)
{
    return strcmp(text_of(member, "state"), state) == 0;
}

static size_t index_of(const struct atoll_swarm *s, const char *name)
{
    size_t i = 0;

    while (i < json_array_size(s->members) && strcmp(text_of(member_of(s, i), "name"), name) != 0)
        i++;
    return i;
}

/* 1: all that it depends on has succeeded; -1: one of them cannot; 0: not yet. */
static int may_begin(const struct atoll_swarm *s, size_t i)
{
    const json_t *needs = json_object_get(request_of(s, i), "dependsOn");
    int result = 1;

    for (size_t k = 0; k < json_array_size(needs); k++) {
        const json_t *other =
            member_of(s, index_of(s, json_string_value(json_array_get(needs, k))));
        if (is_state(other, "failed") || is_state(other, "canceled") || is_state(other, "skipped"))
            return -1;
        if (!is_state(other, "succeeded"))
            result = 0;
    }
    return result;
}

/* The task of a member: its request without what is the swarm's. */
static void begin(struct atoll_swarm *s, size_t i)
{
    json_t *request = json_deep_copy(request_of(s, i)), *member = member_of(s, i);
    char id[ATOLL_ID_LEN + 1];
    struct atoll_error error;

    (void)json_object_del(request, "name");
    (void)json_object_del(request, "dependsOn");
    (void)json_object_set_new(request, "swarmId", json_string(s->id));
    (void)json_object_set_new(request, "swarmMember", json_string(text_of(member, "name")));
    set_state(member, "running");
    if (atoll_tasks_start(s->swarms->tasks, s->tenant, request, id, &error) < 0) {
        set_state(member, "failed");
        (void)json_object_set_new(member, "error", json_string(error.text));
    } else {
        (void)json_object_set_new(member, "task_id", json_string(id));
    }
}

/* Takes over the states of tasks that have ended. */
static void look(struct atoll_swarm *s)
{
    for (size_t i = 0; i < json_array_size(s->members); i++) {
        json_t *member = member_of(s, i);
        struct atoll_task_view view;
        struct atoll_error error;

        if (!is_state(member, "running"))
            continue;
        if (atoll_tasks_find(s->swarms->tasks, NULL, text_of(member, "task_id"), &view, &error) < 0)
            set_state(member,
                      "failed"); /* a client has removed it, or the daemon died in between */
        else if (view.state >= ATOLL_TASK_SUCCEEDED)
            set_state(member, atoll_task_state_name(view.state));
        if (is_state(member, "failed") && json_is_true(json_object_get(s->request, "failFast")))
            s->stopping = true;
    }
}

static void stop_members(struct atoll_swarm *s, const char *who)
{
    struct atoll_error error;

    for (size_t i = 0; i < json_array_size(s->members); i++) {
        json_t *member = member_of(s, i);
        if (is_state(member, "running"))
            (void)!atoll_tasks_cancel(s->swarms->tasks, text_of(member, "task_id"), who, &error);
        else if (is_state(member, "pending"))
            set_state(member, "skipped");
    }
}

static size_t count(const struct atoll_swarm *s, const char *state)
{
    size_t n = 0;

    for (size_t i = 0; i < json_array_size(s->members); i++)
        n += is_state(member_of(s, i), state);
    return n;
}

static void begin_some(struct atoll_swarm *s)
{
    const json_t *given = json_object_get(s->request, "concurrency");
    size_t most = given ? (size_t)json_integer_value(given) : CONCURRENCY;
    bool changed;

    do { /* a member that is skipped may decide about others */
        changed = false;
        for (size_t i = 0; i < json_array_size(s->members); i++) {
            int may = is_state(member_of(s, i), "pending") ? may_begin(s, i) : 0;
            if (may < 0)
                set_state(member_of(s, i), "skipped");
            else if (may > 0 && count(s, "running") < most)
                begin(s, i);
            else
                continue;
            changed = true;
        }
    } while (changed);
}

static void conclude(struct atoll_swarm *s)
{
    /* A swarm without members is a memory, which is there until its lease ends. */
    if (count(s, "running") + count(s, "pending") > 0 ||
        (json_array_size(s->members) == 0 && !s->canceled))
        return;
    s->state = s->canceled                                            ? ATOLL_TASK_CANCELED
               : count(s, "succeeded") == json_array_size(s->members) ? ATOLL_TASK_SUCCEEDED
                                                                      : ATOLL_TASK_FAILED;
    s->ended_unix_ms = atoll_clock_unix_ms();
}

/* A member that runs again: those that were skipped because of it, or with it, wait for it anew. */
static void reopen(struct atoll_swarm *s, json_t *member)
{
    set_state(member, "running");
    (void)json_object_del(member, "error");
    for (size_t i = 0; i < json_array_size(s->members); i++)
        if (is_state(member_of(s, i), "skipped"))
            set_state(member_of(s, i), "pending");
    s->stopping = false;
    s->state = ATOLL_TASK_RUNNING;
    s->ended_unix_ms = 0;
}

/* Tasks may end while others are begun: then this is called again from within. */
static void advance(struct atoll_swarm *s)
{
    if (atoll_swarm_has_ended(s) || s->advancing)
        return;
    s->advancing = true;
    look(s);
    if (s->stopping)
        stop_members(s,
                     s->canceled ? "a client, with its swarm" : "its swarm, since another failed");
    else
        begin_some(s);
    look(s);
    s->advancing = false;
    conclude(s);
    atoll_swarm_save(s);
    if (s->expired)
        atoll_swarm_lease_arm(s);
}

static void task_ended(void *arg, const char *id)
{
    struct atoll_swarms *swarms = arg;
    struct atoll_task_view view;
    struct atoll_error error;
    struct atoll_swarm *s;

    if (atoll_tasks_find(swarms->tasks, NULL, id, &view, &error) < 0)
        return;
    s = atoll_map_get(&swarms->by_id, text_of(view.request, "swarmId"));
    if (s)
        advance(s);
}

/* The member that a task is; NULL: another task has taken its place. */
static json_t *member_of_task(const struct atoll_swarm *s, const struct atoll_task_view *view)
{
    json_t *member = member_of(s, index_of(s, text_of(view->request, "swarmMember")));

    return member && strcmp(text_of(member, "task_id"), view->id) == 0 ? member : NULL;
}

void atoll_swarms_task_again(struct atoll_swarms *swarms, const char *task_id)
{
    struct atoll_task_view view;
    struct atoll_error error;
    struct atoll_swarm *s;
    json_t *member;

    if (atoll_tasks_find(swarms->tasks, NULL, task_id, &view, &error) < 0)
        return;
    s = atoll_map_get(&swarms->by_id, text_of(view.request, "swarmId"));
    member = s ? member_of_task(s, &view) : NULL;
    if (!member || s->canceled)
        return;
    reopen(s, member);
    advance(s);
}

/* --- requests --- */

static int refuse(struct atoll_error *err, const char *text, const char *name)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s%.64s", text, name);
}

/* Names the members: "name" of a task, or its number from 0. */
static int make_members(struct atoll_swarm *s, struct atoll_error *err)
{
    const json_t *tasks = json_object_get(s->request, "tasks");

    s->members = json_array();
    for (size_t i = 0; i < json_array_size(tasks); i++) {
        const char *given = text_of(json_array_get(tasks, i), "name");
        char number[24];

        (void)snprintf(number, sizeof(number), "%zu", i);
        if (index_of(s, *given ? given : number) < i)
            return refuse(err, "two tasks have the name ", *given ? given : number);
        (void)json_array_append_new(
            s->members,
            json_pack("{s:s, s:s}", "name", *given ? given : number, "state", "pending"));
    }
    return 0;
}

/* Whether each dependency exists and none leads back: every round must find a member all of whose
 * dependencies were found before. */
static int check_dependencies(const struct atoll_swarm *s, struct atoll_error *err)
{
    bool found[ATOLL_SWARM_MEMBERS_MAX] = {false};
    size_t n = json_array_size(s->members), left = n;

    for (size_t round = 0; left > 0 && round <= n; round++)
        for (size_t i = 0; i < n; i++) {
            const json_t *needs = json_object_get(request_of(s, i), "dependsOn");
            bool ready = !found[i];
            for (size_t k = 0; k < json_array_size(needs); k++) {
                const char *name = json_string_value(json_array_get(needs, k));
                size_t other = name ? index_of(s, name) : n;
                if (other == n)
                    return refuse(err, "dependsOn names no task of the swarm: ", name ? name : "?");
                ready = ready && found[other];
            }
            found[i] = found[i] || ready;
            left -= ready;
        }
    return left == 0 ? 0 : refuse(err, "tasks of the swarm depend on each other in a circle", "");
}

int atoll_swarm_forget(struct atoll_swarm *s, struct atoll_error *err)
{
    if (atoll_store_drop_task(s->swarms->store, s->id, err) < 0)
        return -EIO;
    (void)atoll_map_remove(&s->swarms->by_id, s->id);
    swarm_free(s);
    return 0;
}

static int make_room(struct atoll_swarms *swarms, const char *tenant, struct atoll_error *err)
{
    struct atoll_swarm *s, *oldest = NULL;
    size_t pos = 0, n = 0;

    while ((s = atoll_map_next(&swarms->by_id, &pos))) {
        if (strcmp(s->tenant, tenant) != 0)
            continue;
        n++;
        if (atoll_swarm_has_ended(s) && (!oldest || s->created_unix_ms < oldest->created_unix_ms))
            oldest = s;
    }
    if (n < ATOLL_SWARMS_MAX)
        return 0;
    if (!oldest)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                          "%d swarms are running; try again when one has ended", ATOLL_SWARMS_MAX);
    return atoll_swarm_forget(oldest, err);
}

int atoll_swarms_start(struct atoll_swarms *swarms, const char *tenant, json_t *request,
                       char *ret_id, struct atoll_error *err)
{
    char id[ATOLL_ID_LEN + 1];
    struct atoll_swarm *s;
    int r = make_room(swarms, tenant, err);

    if (r == 0 && json_dumpb(request, NULL, 0, JSON_COMPACT) > REQUEST_MAX)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG,
                       "the request of a swarm has at most %zu MiB", REQUEST_MAX >> 20);
    if (r < 0) {
        json_decref(request);
        return r;
    }
    atoll_rand_id(id, ATOLL_ID_LEN);
    s = swarm_new(swarms, id, tenant);
    s->request = request;
    s->created_unix_ms = atoll_clock_unix_ms();
    s->memory = json_deep_copy(json_object_get(request, "memory"));
    s->memory = s->memory ? s->memory : json_object();
    atoll_swarm_lease_begin(s);
    r = make_members(s, err);
    if (r == 0)
        r = check_dependencies(s, err);
    if (r == 0)
        r = store(s, err);
    if (r == 0 && atoll_map_put(&swarms->by_id, s->id, s) < 0)
        r = atoll_fail_errno(err, ENOMEM, "a swarm");
    if (r < 0) {
        swarm_free(s);
        return r;
    }
    memcpy(ret_id, s->id, sizeof(s->id));
    atoll_swarm_lease_arm(s);
    advance(s);
    return 0;
}

struct atoll_swarm *atoll_swarm_get(struct atoll_swarms *swarms, const char *tenant, const char *id,
                                    struct atoll_error *err)
{
    struct atoll_swarm *s = atoll_map_get(&swarms->by_id, id);

    if (s && (!tenant || strcmp(s->tenant, tenant) == 0))
        return s;
    (void)atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "swarm %.64s does not exist", id);
    return NULL;
}

static void view_of(const struct atoll_swarm *s, struct atoll_swarm_view *ret)
{
    *ret = (struct atoll_swarm_view){
        s->id,     s->tenant,          s->state,         s->members,
        s->memory, s->created_unix_ms, s->ended_unix_ms, s->lease_unix_ms};
}

int atoll_swarms_find(struct atoll_swarms *swarms, const char *tenant, const char *id,
                      struct atoll_swarm_view *ret, struct atoll_error *err)
{
    const struct atoll_swarm *s = atoll_swarm_get(swarms, tenant, id, err);

    if (!s)
        return -ENOENT;
    view_of(s, ret);
    return 0;
}

static bool is_older(const struct atoll_swarm *s, int64_t created_unix_ms, const char *id)
{
    return s->created_unix_ms < created_unix_ms ||
           (s->created_unix_ms == created_unix_ms && strcmp(s->id, id) < 0);
}

bool atoll_swarms_before(struct atoll_swarms *swarms, int64_t created_unix_ms, const char *id,
                         struct atoll_swarm_view *ret)
{
    const struct atoll_swarm *s, *found = NULL;
    size_t pos = 0;

    while ((s = atoll_map_next(&swarms->by_id, &pos)))
        if (is_older(s, created_unix_ms, id) &&
            (!found || !is_older(s, found->created_unix_ms, found->id)))
            found = s;
    if (found)
        view_of(found, ret);
    return found != NULL;
}

void atoll_swarm_stop(struct atoll_swarm *s)
{
    s->stopping = s->canceled = true;
    advance(s);
}

int atoll_swarms_cancel(struct atoll_swarms *swarms, const char *id, struct atoll_error *err)
{
    struct atoll_swarm *s = atoll_swarm_get(swarms, NULL, id, err);

    if (!s)
        return -ENOENT;
    if (!atoll_swarm_has_ended(s))
        atoll_swarm_stop(s);
    return 0;
}

int atoll_swarms_remember(struct atoll_swarms *swarms, const char *id, const json_t *changes,
                          struct atoll_error *err)
{
    struct atoll_swarm *s = atoll_swarm_get(swarms, NULL, id, err);
    json_t *memory, *value;
    const char *name;

    if (!s)
        return -ENOENT;
    memory = json_copy(s->memory);
    json_object_foreach((json_t *)(uintptr_t)changes, name, value)
    {
        if (json_is_null(value))
            (void)json_object_del(memory, name);
        else
            (void)json_object_set(memory, name, value);
    }
    if (json_dumpb(memory, NULL, 0, JSON_COMPACT) > ATOLL_SWARM_MEMORY_MAX) {
        json_decref(memory);
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EFBIG,
                          "the memory of a swarm has at most %zu KiB",
                          ATOLL_SWARM_MEMORY_MAX / 1024);
    }
    json_decref(s->memory);
    s->memory = memory;
    atoll_swarm_save(s);
    return 0;
}

int atoll_swarms_watch(struct atoll_swarms *swarms, const char *id, void (*fn)(void *arg),
                       void *arg, struct atoll_swarm_watch **ret, struct atoll_error *err)
{
    struct atoll_swarm *s = atoll_swarm_get(swarms, NULL, id, err);
    struct atoll_swarm_watch *watch;

    if (!s)
        return -ENOENT;
    watch = atoll_alloc(sizeof(*watch));
    watch->fn = fn;
    watch->arg = arg;
    atoll_list_push_back(&s->watches, &watch->node);
    *ret = watch;
    return 0;
}

struct atoll_swarm_watch *atoll_swarms_unwatch(struct atoll_swarm_watch *watch)
{
    if (watch)
        atoll_list_remove(&watch->node);
    free(watch);
    return NULL;
}

/* --- life --- */

int atoll_swarms_new(struct atoll_tasks *tasks, struct atoll_store *store_of,
                     struct atoll_swarms **ret, struct atoll_error *err)
{
    struct atoll_swarms *swarms = atoll_alloc(sizeof(*swarms));
    int r;

    swarms->tasks = tasks;
    swarms->store = store_of;
    atoll_map_init(&swarms->by_id);
    r = atoll_store_each_task(store_of, ATOLL_STORE_SWARM, load_row, swarms, err);
    if (r == 0)
        r = atoll_hubs_new(swarms, &swarms->hubs, err);
    if (r < 0) {
        (void)atoll_swarms_free(swarms);
        return r;
    }
    atoll_tasks_on_end(tasks, task_ended, swarms);
    tasks->swarms = swarms;
    *ret = swarms;
    return 0;
}

/* A daemon may have died after it started a task of a member, and before it stored that. */
static void adopt(struct atoll_swarms *swarms)
{
    struct atoll_task_view view = {.created_unix_ms = INT64_MAX, .id = ""};

    while (atoll_tasks_before(swarms->tasks, NULL, view.created_unix_ms, view.id, &view)) {
        struct atoll_swarm *s = atoll_map_get(&swarms->by_id, text_of(view.request, "swarmId"));
        json_t *member = s ? member_of(s, index_of(s, text_of(view.request, "swarmMember"))) : NULL;

        if (member && is_state(member, "pending")) {
            set_state(member, "running");
            (void)json_object_set_new(member, "task_id", json_string(view.id));
        }
        /* Likewise when it began a retry. */
        if (member && view.state < ATOLL_TASK_SUCCEEDED && !s->canceled &&
            !is_state(member, "running") && member_of_task(s, &view))
            reopen(s, member);
    }
}

void atoll_swarms_resume(struct atoll_swarms *swarms)
{
    struct atoll_swarm *s;
    size_t pos = 0;

    adopt(swarms);
    while ((s = atoll_map_next(&swarms->by_id, &pos))) {
        advance(s);
        atoll_swarm_lease_arm(s);
    }
}

struct atoll_swarms *atoll_swarms_free(struct atoll_swarms *swarms)
{
    struct atoll_swarm *s;
    size_t pos = 0;

    if (!swarms)
        return NULL;
    atoll_tasks_on_end(swarms->tasks, NULL, NULL);
    (void)atoll_hubs_free(swarms->hubs);
    while ((s = atoll_map_next(&swarms->by_id, &pos)))
        swarm_free(s);
    atoll_map_done(&swarms->by_id);
    free(swarms);
    return NULL;
}

#include "task/oauth.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "task/connectors.h"
#include "task/oauth_internal.h"

/*
 * Renewals of access tokens: one request for a connector at a time, whatever number of tasks waits for it. While tasks
 * run that use a token, it is renewed before it ends.
 */
#define AGAIN_MS 30000 /* after a renewal for running tasks that failed */

/* A task that waits. */
struct waiter {
    struct atoll_list node;
    char task_id[ATOLL_ID_LEN + 1];
};

struct flight {
    struct atoll_job job;
    struct atoll_oauth *oauth;
    char key[ATOLL_OAUTH_KEY_MAX], tenant[65], name[65];
    struct atoll_list waiters;
    struct atoll_oauth_form form;
    struct atoll_oauth_tokens tokens; /* the answer */
    struct atoll_error error;
    bool failed;
    bool stale; /* the connector has changed meanwhile */
};

const char *atoll_oauth_key(const char *tenant, const char *name,
                            char out[static ATOLL_OAUTH_KEY_MAX])
{
    (void)snprintf(out, ATOLL_OAUTH_KEY_MAX, "%.64s/%.64s", tenant, name);
    return out;
}

static void flight_free(struct flight *f)
{
    ATOLL_LIST_FOREACH (&f->waiters, node) {
        free(ATOLL_CONTAINER_OF(node, struct waiter, node));
    }
    atoll_oauth_form_done(&f->form);
    atoll_oauth_tokens_done(&f->tokens);
    free(f);
}

/* --- how a token is --- */

bool atoll_oauth_is_fresh(const struct atoll_oauth *oauth, const char *tenant, const char *name)
{
    int64_t expires, due;

    return atoll_oauth_times(oauth, tenant, name, &expires, &due) && atoll_clock_unix_ms() < due;
}

void atoll_oauth_look(const struct atoll_oauth *oauth, const char *tenant, const char *name,
                      const json_t *definition, struct atoll_oauth_view *ret)
{
    const json_t *o = json_object_get(definition, "oauth");
    const char *refused = json_string_value(json_object_get(o, "refused"));
    int64_t expires = 0, due;
    bool usable =
        atoll_oauth_times(oauth, tenant, name, &expires, &due) && atoll_clock_unix_ms() < expires;
    bool renewable = json_object_get(o, "refreshToken") || atoll_oauth_is(o, "client_credentials");

    *ret = (struct atoll_oauth_view){.state = refused     ? "refused"
                                              : usable    ? "ready"
                                              : renewable ? "idle"
                                                          : "login",
                                     .reason = refused,
                                     .expires_unix_ms = expires};
}

/* --- the end of a renewal --- */

static int explain(struct flight *f, const json_t *oauth, struct atoll_error *err)
{
    if (atoll_oauth_is(oauth, "client_credentials") || strcmp(f->tokens.refused, "invalid_grant"))
        return atoll_fail(
            err, ATOLL_ERR_FAILED_PRECONDITION, EACCES,
            "the token server of the MCP server %s refuses the client (%s): check "
            "clientId, clientSecret, clientAuth and scopes of the connector, or log in "
            "again with `atoll connector login %s`",
            f->name, f->tokens.refused, f->name);
    return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EACCES,
                      "the token server of the MCP server %s does not renew its access any more "
                      "(%s): log in again with `atoll connector login %s`",
                      f->name, f->tokens.refused, f->name);
}

static void note_refusal(struct flight *f, json_t *definition)
{
    json_t *o = json_object_get(definition, "oauth");
    struct atoll_error error;

    (void)json_object_set_new(o, "refused", json_string(f->tokens.refused));
    if (atoll_connectors_put(f->oauth->tasks->config.store, f->tenant, f->name, definition, true,
                             &error) < 0)
        atoll_log(ATOLL_LOG_ERROR, "connector is not stored", "connector", f->name, "error",
                  error.text, NULL);
}

/* Takes the answer. */
static int settle(struct flight *f, struct atoll_error *err)
{
    struct atoll_connector_view view;
    json_t *definition = NULL;
    int r = atoll_connectors_find(f->oauth->tasks->config.store, f->tenant, f->name, &view,
                                  &definition, err);

    if (r == 0 && (f->stale || !json_object_get(definition, "oauth")))
        r = atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EAGAIN,
                       "the connector %s was changed while its access was renewed", f->name);
    else if (r == 0 && *f->tokens.refused) {
        r = explain(f, json_object_get(definition, "oauth"), err);
        note_refusal(f, definition);
    } else if (r == 0 && f->failed) {
        *err = f->error;
        r = atoll_wrap(err, "the MCP server %s", f->name);
    } else if (r == 0) {
        r = atoll_oauth_keep(f->oauth, f->tenant, f->name, definition, false, &f->tokens, err);
    }
    json_decref(definition);
    return r;
}

static bool uses(const struct atoll_task *task, const char *name)
{
    const json_t *names = json_object_get(task->facts, ATOLL_TASK_OAUTH);

    for (size_t i = 0; i < json_array_size(names); i++)
        if (strcmp(json_string_value(json_array_get(names, i)), name) == 0)
            return true;
    return false;
}

/* The logs of tasks that run with a token which was not renewed. */
static void tell_running(struct flight *f, const struct atoll_error *error)
{
    struct atoll_task *task;
    size_t pos = 0;

    while ((task = atoll_map_next(&f->oauth->tasks->by_id, &pos)))
        if (task->state == ATOLL_TASK_RUNNING && strcmp(task->tenant, f->tenant) == 0 &&
            uses(task, f->name))
            atoll_task_log(task, "error", "%s", error->text);
}

static void tell_waiters(struct flight *f, const struct atoll_error *error)
{
    while (!atoll_list_empty(&f->waiters)) {
        struct waiter *w = ATOLL_CONTAINER_OF(f->waiters.next, struct waiter, node);

        atoll_list_remove(&w->node);
        atoll_task_oauth_got(f->oauth->tasks, w->task_id, error);
        free(w);
    }
}

static void ended(struct atoll_job *job)
{
    struct flight *f = ATOLL_CONTAINER_OF(job, struct flight, job);
    struct atoll_oauth *oauth = f->oauth;
    struct atoll_error error;
    int r;

    if (oauth->closing) { /* the next daemon gets it */
        flight_free(f);
        return;
    }
    (void)atoll_map_remove(&oauth->flights, f->key);
    r = settle(f, &error);
    atoll_log(r < 0 ? ATOLL_LOG_WARN : ATOLL_LOG_INFO, "access token of a connector", "tenant",
              f->tenant, "connector", f->name, "result", r < 0 ? error.text : "renewed", NULL);
    if (r < 0 && atoll_list_empty(&f->waiters))
        tell_running(f, &error);
    tell_waiters(f, r < 0 ? &error : NULL);
    flight_free(f);
    if (r == 0)
        atoll_oauth_tend(oauth);
}

/* --- its beginning --- */

/* On a worker. */
static void run(struct atoll_job *job)
{
    struct flight *f = ATOLL_CONTAINER_OF(job, struct flight, job);

    f->failed = atoll_oauth_ask(f->oauth->outgoing, f->tenant, &f->form, &f->tokens, &f->error) < 0;
}

static int fill_form(struct flight *f, const json_t *definition, const json_t *client,
                     struct atoll_error *err)
{
    const json_t *o = json_object_get(definition, "oauth");
    const char *refresh = json_string_value(json_object_get(client, "refreshToken"));
    char resource[ATOLL_OAUTH_URL_MAX + 1];
    bool machine = atoll_oauth_is(o, "client_credentials");
    int r = atoll_oauth_form_init(&f->form, client, err);

    if (r < 0)
        return r;
    atoll_oauth_resource(definition, resource);
    r = atoll_oauth_form_add(&f->form, "grant_type",
                             machine ? "client_credentials" : "refresh_token");
    if (r == 0 && !machine)
        r = atoll_oauth_form_add(&f->form, "refresh_token", refresh);
    if (r == 0)
        r = atoll_oauth_form_scopes(&f->form, json_object_get(o, "scopes"));
    if (r == 0 && *resource)
        r = atoll_oauth_form_add(&f->form, "resource", resource);
    return r < 0 ? atoll_fail_errno(err, -r, "a request for an access token") : 0;
}

static int prepare(struct flight *f, struct atoll_error *err)
{
    struct atoll_connector_view view;
    json_t *definition = NULL, *client = NULL;
    const json_t *o;
    int r = atoll_connectors_find(f->oauth->tasks->config.store, f->tenant, f->name, &view,
                                  &definition, err);

    o = json_object_get(definition, "oauth");
    if (r == 0 && !o)
        r = atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EINVAL,
                       "the connector %s has no oauth any more", f->name);
    else if (r == 0 && !json_object_get(o, "refreshToken") &&
             !atoll_oauth_is(o, "client_credentials"))
        r = atoll_oauth_no_login(f->name, err);
    if (r == 0)
        r = atoll_oauth_client(f->oauth, f->tenant, f->name, definition, &client, err);
    if (r == 0)
        r = fill_form(f, definition, client, err);
    json_decref(client);
    json_decref(definition);
    return r;
}

int atoll_oauth_no_login(const char *name, struct atoll_error *err)
{
    return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EACCES,
                      "no user has logged in at the MCP server %s: `atoll connector login %s`",
                      name, name);
}

static int begin(struct atoll_oauth *oauth, const char *tenant, const char *name,
                 struct flight **ret, struct atoll_error *err)
{
    struct flight *f = atoll_alloc(sizeof(*f));
    int r;

    atoll_list_init(&f->waiters);
    f->job = (struct atoll_job){.run = run, .done = ended, .owner = f->tenant};
    f->oauth = oauth;
    (void)atoll_oauth_key(tenant, name, f->key);
    (void)snprintf(f->tenant, sizeof(f->tenant), "%s", tenant);
    (void)snprintf(f->name, sizeof(f->name), "%s", name);
    r = prepare(f, err);
    if (r == 0 && atoll_map_put(&oauth->flights, f->key, f) < 0)
        r = atoll_fail_errno(err, ENOMEM, "an access token");
    if (r == 0) {
        r = atoll_outgoing_submit(oauth->outgoing, &f->job, err);
        if (r < 0)
            (void)atoll_map_remove(&oauth->flights, f->key);
    }
    if (r < 0)
        flight_free(f);
    else
        *ret = f;
    return r;
}

int atoll_oauth_get(struct atoll_oauth *oauth, const char *tenant, const char *name,
                    const char *task_id, struct atoll_error *err)
{
    char key[ATOLL_OAUTH_KEY_MAX];
    struct flight *f = atoll_map_get(&oauth->flights, atoll_oauth_key(tenant, name, key));
    struct waiter *w;
    int r = f ? 0 : begin(oauth, tenant, name, &f, err);

    if (r < 0)
        return r;
    w = atoll_alloc(sizeof(*w));
    (void)snprintf(w->task_id, sizeof(w->task_id), "%s", task_id);
    atoll_list_push_back(&f->waiters, &w->node);
    return 0;
}

/* --- while tasks run --- */

static void tend_now(void *arg)
{
    atoll_oauth_tend(arg);
}

static bool was_refused(const struct atoll_oauth *oauth, const char *tenant, const char *name)
{
    struct atoll_connector_view view;
    json_t *definition = NULL;
    struct atoll_error error;
    bool refused = atoll_connectors_find(oauth->tasks->config.store, tenant, name, &view,
                                         &definition, &error) < 0 ||
                   json_object_get(json_object_get(definition, "oauth"), "refused");

    json_decref(definition);
    return refused;
}

/* Begins a renewal if it is time. Returns when to look again. */
static int64_t tend_one(struct atoll_oauth *oauth, const char *tenant, const char *name)
{
    char key[ATOLL_OAUTH_KEY_MAX];
    struct atoll_error error;
    struct flight *f;
    int64_t expires, due, now = atoll_clock_unix_ms();

    if (atoll_oauth_times(oauth, tenant, name, &expires, &due) && now < due)
        return due - now;
    if (!atoll_map_get(&oauth->flights, atoll_oauth_key(tenant, name, key)) &&
        !was_refused(oauth, tenant, name))
        (void)!begin(oauth, tenant, name, &f, &error);
    return AGAIN_MS;
}

void atoll_oauth_tend(struct atoll_oauth *oauth)
{
    int64_t next = INT64_MAX;
    struct atoll_task *task;
    size_t pos = 0;

    atoll_timer_cancel(&oauth->timer);
    while ((task = atoll_map_next(&oauth->tasks->by_id, &pos))) {
        const json_t *names = json_object_get(task->facts, ATOLL_TASK_OAUTH);
        for (size_t i = 0; task->state == ATOLL_TASK_RUNNING && i < json_array_size(names); i++)
            next = ATOLL_MIN(
                next, tend_one(oauth, task->tenant, json_string_value(json_array_get(names, i))));
    }
    if (next < INT64_MAX)
        atoll_timer_set(&oauth->timer, oauth->tasks->config.loop, next + 1, tend_now, oauth);
}

/* --- life --- */

void atoll_oauth_forget(struct atoll_oauth *oauth, const char *tenant, const char *name)
{
    char key[ATOLL_OAUTH_KEY_MAX];
    struct flight *f = atoll_map_get(&oauth->flights, atoll_oauth_key(tenant, name, key));

    if (f)
        f->stale = true;
    atoll_oauth_login_forget(oauth, key);
    atoll_oauth_drop(oauth, tenant, name);
}

int atoll_oauth_new(struct atoll_tasks *tasks, struct atoll_oauth **ret, struct atoll_error *err)
{
    struct atoll_oauth *oauth = atoll_alloc(sizeof(*oauth));
    int r;

    oauth->tasks = tasks;
    atoll_map_init(&oauth->flights);
    atoll_map_init(&oauth->logins);
    r = atoll_outgoing_new(tasks->config.loop, &atoll_oauth_service, &oauth->outgoing, err);
    if (r < 0) {
        (void)atoll_oauth_free(oauth);
        return r;
    }
    *ret = oauth;
    return 0;
}

struct atoll_oauth *atoll_oauth_free(struct atoll_oauth *oauth)
{
    struct atoll_oauth_login *login;
    size_t pos = 0;

    if (!oauth)
        return NULL;
    oauth->closing = true;
    atoll_timer_cancel(&oauth->timer);
    (void)atoll_outgoing_free(oauth->outgoing);
    while ((login = atoll_map_next(&oauth->logins, &pos)))
        (void)atoll_oauth_login_free(login);
    atoll_map_done(&oauth->flights);
    atoll_map_done(&oauth->logins);
    free(oauth);
    return NULL;
}

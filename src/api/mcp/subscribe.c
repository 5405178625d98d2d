#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/kit/sse.h"
#include "api/mcp/mcp_internal.h"

/*
 * Subscriptions to resources: a file is watched through its directory, so that it may come, go and be replaced;
 * a log through a reader of its command. Changes within SETTLE_MS are one notification.
 *
 * With the version 2026-07-28 a client asks for notifications with one request, subscriptions/listen, whose
 * answer is the stream; it is a session that ends with its connection.
 */
#define SETTLE_MS 50

struct subscription {
    struct atoll_list node; /* in the session; unlinked: it is being given up */
    struct atoll_mcp_session *session;
    struct atoll_mcp_request *req;  /* that waits for the watch; NULL: answered */
    struct atoll_file_watch *watch; /* owned */
    struct atoll_reader *reader;    /* owned */
    bool starting;
    struct atoll_timer settle;
    const char *file; /* the last part of the path */
    struct atoll_mcp_resource resource;
    char uri[];
};

static void subscription_free(struct subscription *s)
{
    if (s->session) {
        atoll_list_remove(&s->node);
        s->session->subscription_count--;
        s->session = NULL;
    }
    atoll_timer_cancel(&s->settle);
    s->reader = s->reader ? atoll_reader_close(s->reader) : NULL;
    s->watch = atoll_files_unwatch(s->watch);
    if (!s->starting)
        free(s); /* else when the watch has started */
}

/* Notifications. */

static void tell(void *arg)
{
    struct subscription *s = arg;
    json_t *note = json_pack("{s:s, s:s, s:{s:s}}", "jsonrpc", "2.0", "method",
                             "notifications/resources/updated", "params", "uri", s->uri);
    json_t *params = json_object_get(note, "params");
    char *text;

    if (s->session->listen_id)
        (void)json_object_set_new(
            params, "_meta",
            json_pack("{s:O}", "io.modelcontextprotocol/subscriptionId", s->session->listen_id));
    text = note ? json_dumps(note, JSON_COMPACT) : NULL;
    if (text)
        atoll_mcp_session_send(s->session, text);
    free(text);
    json_decref(note);
}

static void changed(struct subscription *s)
{
    if (!s->settle.loop)
        atoll_timer_set(&s->settle, s->session->api->config.loop, SETTLE_MS, tell, s);
}

static void file_changed(void *arg, enum atoll_watch_kind kind, const char *name)
{
    struct subscription *s = arg;

    if (kind == ATOLL_WATCH_OVERFLOW || strcmp(name, s->file) == 0)
        changed(s);
}

static void file_gone(void *arg)
{
    changed(arg);
}

static void log_changed(void *arg)
{
    struct subscription *s = arg;
    struct atoll_reader_item item;
    int r;

    while ((r = atoll_reader_next(s->reader, &item)) > 0 && item.kind != ATOLL_READ_END)
        ;
    if (r != 0)
        s->reader = atoll_reader_close(s->reader);
    changed(s);
}

/* Starting. */

static void answer(struct subscription *s, const struct atoll_error *error)
{
    struct atoll_mcp_request *req = ATOLL_TAKE_PTR(s->req);

    if (req && error)
        atoll_mcp_fail(req, error);
    else if (req)
        atoll_mcp_answer(req, json_object());
}

static void started(void *arg, struct atoll_file_watch *watch, const struct atoll_error *error)
{
    struct subscription *s = arg;

    s->starting = false;
    s->watch = watch;
    answer(s, error);
    if (error || !s->session)
        subscription_free(s);
}

static const struct atoll_file_watch_events watch_events = {started, file_changed, file_gone};

static void start_file(struct subscription *s, struct atoll_engine *engine)
{
    char directory[ATOLL_TOOL_PATH_MAX];
    char *slash;

    (void)snprintf(directory, sizeof(directory), "%s", s->resource.path);
    slash = strrchr(directory, '/');
    s->file = s->resource.path + (slash - directory) + 1;
    slash[slash == directory] = '\0';
    s->starting = true;
    atoll_files_watch(engine, s->resource.sandbox_id, NULL, directory, false, &watch_events, s);
}

static void start_log(struct subscription *s, struct atoll_engine *engine)
{
    struct atoll_sandbox *sandbox = atoll_engine_find(engine, s->resource.sandbox_id);
    struct atoll_exec *exec = sandbox ? atoll_sandbox_find_exec(sandbox, s->resource.path) : NULL;
    struct atoll_error error;
    int r;

    if (exec)
        r = atoll_reader_open(exec, ATOLL_READ_FROM_END, ATOLL_READ_FROM_END, log_changed, s,
                              &s->reader, &error);
    else
        r = atoll_fail(&error, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no command with the id %.40s",
                       s->resource.path);
    answer(s, r < 0 ? &error : NULL);
    if (r < 0)
        subscription_free(s);
}

static struct subscription *find(const struct atoll_mcp_session *session, const char *uri)
{
    ATOLL_LIST_FOREACH ((struct atoll_list *)&session->subscriptions, at) {
        struct subscription *s = ATOLL_CONTAINER_OF(at, struct subscription, node);

        if (strcmp(s->uri, uri) == 0)
            return s;
    }
    return NULL;
}

/* req: is answered when the subscription is in force; NULL: it is not answered. */
static void add(struct atoll_mcp_session *session, const char *uri,
                const struct atoll_mcp_resource *resource, struct atoll_engine *engine,
                struct atoll_mcp_request *req)
{
    size_t n = strlen(uri) + 1;
    struct subscription *s = atoll_api_alloc(sizeof(*s) + n);

    memcpy(s->uri, uri, n);
    s->resource = *resource;
    s->session = session;
    s->req = req;
    atoll_list_push_back(&session->subscriptions, &s->node);
    session->subscription_count++;
    if (resource->is_log)
        start_log(s, engine);
    else
        start_file(s, engine);
}

static int check_room(const struct atoll_mcp_session *session, struct atoll_error *err)
{
    return session->subscription_count < ATOLL_MCP_SUBSCRIPTIONS_MAX
               ? 0
               : atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EMFILE,
                            "a session has at most %d subscriptions", ATOLL_MCP_SUBSCRIPTIONS_MAX);
}

/* Requests. */

void atoll_mcp_subscribe(struct atoll_mcp_request *req)
{
    const char *uri = json_string_value(json_object_get(req->message.params, "uri"));
    struct atoll_mcp_session *session = NULL;
    struct atoll_mcp_resource resource;
    struct atoll_error error;
    int r = 0;

    if (!*req->session)
        r = atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "subscriptions need a session: send the header Mcp-Session-Id");
    if (r == 0)
        r = atoll_mcp_resource_find(req, uri, &resource, &error);
    if (r == 0)
        r = atoll_mcp_session_get(req->state, req->api, req->tenant, req->session, &session,
                                  &error);
    if (r == 0 && find(session, uri)) {
        atoll_mcp_answer(req, json_object());
        return;
    }
    if (r == 0)
        r = check_room(session, &error);
    if (r < 0)
        atoll_mcp_fail(req, &error);
    else
        add(session, uri, &resource, req->engine, req);
}

void atoll_mcp_unsubscribe(struct atoll_mcp_request *req)
{
    const char *uri = json_string_value(json_object_get(req->message.params, "uri"));
    struct atoll_mcp_session *session =
        atoll_mcp_session_find(req->state, req->tenant, req->session);
    struct subscription *s = session && uri ? find(session, uri) : NULL;

    if (!uri) {
        atoll_mcp_refuse(req, ATOLL_MCP_INVALID_PARAMS, "uri is missing");
        return;
    }
    if (s && !s->req)
        subscription_free(s);
    atoll_mcp_answer(req, json_object());
}

void atoll_mcp_unsubscribe_all(struct atoll_mcp_session *session)
{
    while (!atoll_list_empty(&session->subscriptions))
        subscription_free(
            ATOLL_CONTAINER_OF(session->subscriptions.next, struct subscription, node));
}

/* The list of what is granted goes first; what cannot be subscribed to is left out. */
static json_t *acknowledge(const json_t *id, const json_t *granted)
{
    return json_pack("{s:s, s:s, s:{s:{s:O}, s:{s:O}}}", "jsonrpc", "2.0", "method",
                     "notifications/subscriptions/acknowledged", "params", "notifications",
                     "resourceSubscriptions", granted, "_meta",
                     "io.modelcontextprotocol/subscriptionId", id);
}

static json_t *grant(const struct atoll_mcp_request *req, const json_t *uris)
{
    json_t *granted = json_array();
    struct atoll_mcp_resource resource;
    struct atoll_error error;

    for (size_t i = 0; i < json_array_size(uris) && i < ATOLL_MCP_SUBSCRIPTIONS_MAX; i++)
        if (atoll_mcp_resource_find(req, json_string_value(json_array_get(uris, i)), &resource,
                                    &error) == 0)
            (void)json_array_append(granted, json_array_get(uris, i));
    return granted;
}

/* The session of a request subscriptions/listen: its own stream is the answer. */
static int open_listening(struct atoll_mcp_request *req, struct atoll_mcp_session **ret,
                          struct atoll_error *err)
{
    struct atoll_mcp_session *session;
    int r = atoll_mcp_session_get(req->state, req->api, req->tenant, "", &session, err);

    if (r < 0)
        return r;
    session->listen_id = json_deep_copy(req->message.id);
    *ret = session;
    return atoll_mcp_session_attach(session, ATOLL_TAKE_PTR(req->call), NULL, err);
}

void atoll_mcp_listen(struct atoll_mcp_request *req)
{
    const json_t *wanted = json_object_get(req->message.params, "notifications");
    struct atoll_mcp_session *session;
    struct atoll_mcp_resource resource;
    struct atoll_error error;
    json_t *granted, *note;
    char *text;

    if (!atoll_sse_wanted(req->call->req)) {
        atoll_mcp_refuse(req, ATOLL_MCP_INVALID_REQUEST,
                         "the answer is a stream: send Accept: text/event-stream");
        return;
    }
    granted = grant(req, json_object_get(wanted, "resourceSubscriptions"));
    if (open_listening(req, &session, &error) < 0) {
        json_decref(granted);
        atoll_mcp_fail(req, &error);
        return;
    }
    note = acknowledge(req->message.id, granted);
    text = note ? json_dumps(note, JSON_COMPACT) : NULL;
    if (text)
        atoll_mcp_session_send(session, text);
    free(text);
    json_decref(note);
    for (size_t i = 0; i < json_array_size(granted); i++) {
        const char *uri = json_string_value(json_array_get(granted, i));

        if (!find(session, uri) && atoll_mcp_resource_find(req, uri, &resource, &error) == 0)
            add(session, uri, &resource, req->engine, NULL);
    }
    json_decref(granted);
    atoll_mcp_request_free(req);
}

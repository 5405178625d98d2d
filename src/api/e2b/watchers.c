/*
 * Polled watchers: events are buffered in memory until the client fetches them.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/e2b/filesystem.h"
#include "api/e2b/plane.h"
#include "base/rand.h"

/* Per sandbox: the maximum of the agent. */
#define WATCHERS_MAX 32
/* Bytes of buffered events of one watcher, as JSON; further events are lost. */
#define QUEUE_MAX ((size_t)1024 * 1024)

struct watcher {
    struct atoll_list node; /* in plane->watchers */
    struct atoll_e2b_plane *plane;
    struct atoll_api_call *call;       /* NULL after the watch has started */
    struct atoll_watch_source *source; /* owned */
    char id[18], sandbox_id[ATOLL_ID_LEN + 1];
    char user[ATOLL_ENVD_USER_MAX];
    struct atoll_buf events; /* objects separated by commas */
};

static void watcher_free(struct watcher *w)
{
    atoll_list_remove(&w->node);
    w->source = atoll_watch_source_close(w->source);
    atoll_buf_done(&w->events);
    free(w);
}

void atoll_watchers_drop(struct atoll_e2b_plane *plane, const char *sandbox_id)
{
    ATOLL_LIST_FOREACH (&plane->watchers, node) {
        struct watcher *w = ATOLL_CONTAINER_OF(node, struct watcher, node);
        /* A watcher that is still starting is freed by started(). */
        if (!w->call && (!sandbox_id || strcmp(w->sandbox_id, sandbox_id) == 0))
            watcher_free(w);
    }
}

static void reply_id(struct atoll_api_call *call, const char *id)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_text(&out, "watcherId", id);
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

static void started(void *arg, struct atoll_watch_source *source, const struct atoll_error *error)
{
    struct watcher *w = arg;
    struct atoll_api_call *call = ATOLL_TAKE_PTR(w->call);
    struct atoll_error shown;

    w->source = source;
    if (error) {
        atoll_fs_explain(error, w->user, &shown);
        watcher_free(w);
        atoll_api_fail(call, &shown);
    } else {
        reply_id(call, w->id);
    }
}

static void changed(void *arg, enum atoll_watch_kind kind, const char *name,
                    const struct atoll_am_entry *entry)
{
    struct watcher *w = arg;
    size_t before = w->events.len;
    struct atoll_json_out out;

    atoll_json_out_init(&out, &w->events);
    out.comma = atoll_buf_size(&w->events) > 0;
    atoll_json_open(&out, NULL, '{');
    atoll_watch_event_write(&out, kind, name, entry);
    atoll_json_close(&out, '}');
    if (out.error < 0)
        w->events.len = before; /* drop an incomplete event */
}

static void ended(void *arg)
{
    watcher_free(arg);
}

static const struct atoll_watch_source_events source_events = {started, changed, ended};

static int check_count(const struct atoll_e2b_plane *plane, const char *sandbox_id,
                       struct atoll_error *err)
{
    size_t count = 0;

    ATOLL_LIST_FOREACH (&plane->watchers, node)
        count +=
            strcmp(ATOLL_CONTAINER_OF(node, struct watcher, node)->sandbox_id, sandbox_id) == 0;
    if (count > WATCHERS_MAX)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EMFILE,
                          "the sandbox has %d watchers already, remove one first", WATCHERS_MAX);
    return 0;
}

void atoll_envd_watcher_create(struct atoll_api_call *call, const uint8_t *body, size_t n)
{
    struct atoll_e2b_plane *plane = atoll_e2b_plane_of(call->api);
    struct atoll_watch_request request;
    struct atoll_error error;
    struct watcher *w;
    json_t *message;
    int r;

    if (!atoll_connect_unary(call, body, n, &message))
        return;
    w = atoll_api_alloc(sizeof(*w));
    w->plane = plane;
    w->call = call;
    w->id[0] = 'w';
    atoll_rand_id(w->id + 1, sizeof(w->id) - 2);
    (void)snprintf(w->sandbox_id, sizeof(w->sandbox_id), "%.26s", call->params.id);
    atoll_buf_init(&w->events, QUEUE_MAX);
    atoll_list_push_back(&plane->watchers, &w->node);
    r = check_count(plane, w->sandbox_id, &error);
    if (r == 0)
        r = atoll_watch_request_take(call, message, w->user, &request, &error);
    if (r < 0) {
        watcher_free(w);
        atoll_api_fail(call, &error);
    } else {
        atoll_watch_source_open(call->engine, call->params.id, &request, &source_events, w);
    }
    json_decref(message);
}

/* NULL: the call has been answered. */
static struct watcher *find(struct atoll_api_call *call, const uint8_t *body, size_t n)
{
    struct atoll_e2b_plane *plane = atoll_e2b_plane_of(call->api);
    struct watcher *found = NULL;
    struct atoll_error error;
    const char *id = "";
    json_t *message;
    int r;

    if (!atoll_connect_unary(call, body, n, &message))
        return NULL;
    r = atoll_connect_text(message, "watcherId", &id, &error);
    ATOLL_LIST_FOREACH (&plane->watchers, node) {
        struct watcher *w = ATOLL_CONTAINER_OF(node, struct watcher, node);
        if (!w->call && strcmp(w->sandbox_id, call->params.id) == 0 && strcmp(w->id, id) == 0)
            found = w;
    }
    if (!found && r == 0)
        (void)atoll_fail(&error, ATOLL_ERR_NOT_FOUND, ENOENT, "watcher with id %.64s not found",
                         id);
    if (!found)
        atoll_api_fail(call, &error);
    json_decref(message);
    return found;
}

void atoll_envd_watcher_events(struct atoll_api_call *call, const uint8_t *body, size_t n)
{
    struct watcher *w = find(call, body, n);
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (!w)
        return;
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_open(&out, "events", '[');
    if (atoll_buf_size(&w->events) > 0)
        atoll_json_raw(&out, NULL, atoll_buf_str(&w->events));
    atoll_json_close(&out, ']');
    atoll_json_close(&out, '}');
    atoll_buf_clear(&w->events);
    atoll_api_reply(call, 200, &out);
}

void atoll_envd_watcher_remove(struct atoll_api_call *call, const uint8_t *body, size_t n)
{
    struct watcher *w = find(call, body, n);

    if (!w)
        return;
    watcher_free(w);
    atoll_connect_reply_empty(call);
}

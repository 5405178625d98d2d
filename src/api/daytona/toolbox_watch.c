/*
 * GET /files/watch: changes in a directory, as Server-Sent Events or messages of a WebSocket. The response
 * begins when the watch is active, so that no later change is missed. Daytona has no such route.
 */
#include <string.h>
#include "api/daytona/toolbox_internal.h"
#include "api/kit/feed.h"

struct watcher {
    struct atoll_feed feed;
    struct atoll_api_call *call;    /* NULL after the feed took it */
    struct atoll_file_watch *watch; /* owned */
};

static const char *const kinds[] = {
    [ATOLL_WATCH_CREATE] = "create", [ATOLL_WATCH_WRITE] = "write",
    [ATOLL_WATCH_REMOVE] = "remove", [ATOLL_WATCH_RENAME] = "rename",
    [ATOLL_WATCH_CHMOD] = "chmod",   [ATOLL_WATCH_OVERFLOW] = "overflow",
};

static void gone(void *arg)
{
    struct watcher *w = arg;

    w->watch = atoll_files_unwatch(w->watch);
    free(w);
}

static void tell(struct watcher *w, const char *kind, const char *name)
{
    struct atoll_json_out out = atoll_feed_begin(&w->feed);

    atoll_json_text(&out, "type", kind);
    if (name)
        atoll_json_bytes(&out, "name", name, strlen(name));
    atoll_feed_send(&w->feed, &out, kind, NULL);
}

static void started(void *arg, struct atoll_file_watch *watch, const struct atoll_error *error)
{
    struct watcher *w = arg;
    struct atoll_api_call *call = ATOLL_TAKE_PTR(w->call);

    if (error) {
        free(w);
        atoll_toolbox_path_fail(call, error);
    } else if (!call->req) {
        free(w);
        (void)atoll_files_unwatch(watch);
        atoll_api_drop(call);
    } else {
        w->watch = watch;
        atoll_feed_open(&w->feed, call, gone, w);
    }
}

static void changed(void *arg, enum atoll_watch_kind kind, const char *name)
{
    tell(arg, kinds[kind], kind == ATOLL_WATCH_OVERFLOW ? NULL : name);
}

static void ended(void *arg)
{
    struct watcher *w = arg;

    tell(w, "end", NULL);
    atoll_feed_end(&w->feed);
}

static const struct atoll_file_watch_events watch_events = {started, changed, ended};

void atoll_daytona_file_watch(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                              size_t n ATOLL_UNUSED)
{
    const char *path = atoll_toolbox_query(call, "path");
    struct atoll_error error;
    bool recursive = false;
    struct watcher *w;

    if (!path)
        return;
    if (atoll_api_query_flag(call, "recursive", &recursive, &error) < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    w = atoll_api_alloc(sizeof(*w));
    w->call = call;
    atoll_files_watch(call->engine, call->params.id, NULL, path, recursive, &watch_events, w);
}

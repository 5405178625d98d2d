#include "api/kit/watch_feed.h"

#include <string.h>
#include "api/kit/feed.h"

struct watcher {
    struct atoll_watch_feed form; /* without the texts of the request */
    struct atoll_feed feed;
    struct atoll_api_call *call;    /* NULL after the feed took it */
    struct atoll_file_watch *watch; /* owned */
};

static const char *kind_name(enum atoll_watch_kind kind)
{
    static const char *const names[] = {
        [ATOLL_WATCH_CREATE] = "create", [ATOLL_WATCH_WRITE] = "write",
        [ATOLL_WATCH_REMOVE] = "remove", [ATOLL_WATCH_RENAME] = "rename",
        [ATOLL_WATCH_CHMOD] = "chmod",   [ATOLL_WATCH_OVERFLOW] = "overflow",
    };
    return names[kind];
}

static void gone(void *arg)
{
    struct watcher *w = arg;

    w->watch = atoll_files_unwatch(w->watch);
    free(w);
}

static void tell(struct watcher *w, const char *kind, const char *name)
{
    struct atoll_json_out out = atoll_feed_begin(&w->feed);

    atoll_json_text(&out, w->form.kind, kind);
    if (name)
        atoll_json_bytes(&out, "name", name, strlen(name));
    atoll_feed_send(&w->feed, &out, kind, NULL);
}

static void started(void *arg, struct atoll_file_watch *watch, const struct atoll_error *error)
{
    struct watcher *w = arg;
    struct atoll_api_call *call = ATOLL_TAKE_PTR(w->call);
    void (*fail)(struct atoll_api_call * call, const struct atoll_error *error) = w->form.fail;

    if (error) {
        free(w);
        fail(call, error);
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
    tell(arg, kind_name(kind), kind == ATOLL_WATCH_OVERFLOW ? NULL : name);
}

static void ended(void *arg)
{
    struct watcher *w = arg;

    tell(w, "end", NULL);
    atoll_feed_end(&w->feed);
}

static const struct atoll_file_watch_events watch_events = {started, changed, ended};

void atoll_watch_feed_send(struct atoll_api_call *call, const struct atoll_watch_feed *request)
{
    struct atoll_error error;
    struct watcher *w;
    bool recursive = false;

    if (atoll_api_query_flag(call, "recursive", &recursive, &error) < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    w = atoll_api_alloc(sizeof(*w));
    w->form = (struct atoll_watch_feed){.kind = request->kind, .fail = request->fail};
    w->call = call;
    atoll_files_watch(call->engine, call->params.id, request->user, request->path, recursive,
                      &watch_events, w);
}

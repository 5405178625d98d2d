#include "api/kit/watch_source.h"

#include <stdio.h>
#include <string.h>
#include "api/call.h"
#include "base/list.h"

#define EVENTS_MAX 4096

struct pending {
    struct atoll_list node;
    enum atoll_watch_kind kind;
    char name[];
};

struct atoll_watch_source {
    struct atoll_engine *engine;
    char sandbox_id[ATOLL_ID_LEN + 1];
    char user[ATOLL_WATCH_USER_CAP];
    char path[ATOLL_WATCH_PATH_CAP];
    bool include_entry;
    const char *attributes;
    struct atoll_file_watch *watch; /* owned */
    const struct atoll_watch_source_events *events;
    void *arg;
    struct atoll_list pending; /* the entry of the first one is being read */
    size_t pending_count;
    bool looking, advancing, delivering, closed;
};

static void pending_pop(struct atoll_watch_source *s)
{
    struct pending *p = ATOLL_CONTAINER_OF(s->pending.next, struct pending, node);

    atoll_list_remove(&p->node);
    s->pending_count--;
    free(p);
}

static void source_free(struct atoll_watch_source *s)
{
    while (!atoll_list_empty(&s->pending))
        pending_pop(s);
    free(s);
}

static bool has_entry(enum atoll_watch_kind kind)
{
    return kind == ATOLL_WATCH_CREATE || kind == ATOLL_WATCH_WRITE || kind == ATOLL_WATCH_CHMOD;
}

static void deliver(struct atoll_watch_source *s, const struct atoll_am_entry *entry)
{
    struct pending *p = ATOLL_CONTAINER_OF(s->pending.next, struct pending, node);

    s->delivering = true;
    s->events->changed(s->arg, p->kind, p->name, entry);
    s->delivering = false;
    if (!s->closed)
        pending_pop(s);
}

static void advance(struct atoll_watch_source *s);

static void on_looked(void *arg, const struct atoll_am_entry *entry,
                      const struct atoll_error *error)
{
    struct atoll_watch_source *s = arg;

    s->looking = false;
    if (!s->closed) /* an error means that the file vanished; the event is still valid */
        deliver(s, error ? NULL : entry);
    if (!s->advancing)
        advance(s);
}

/* Delivers pending events in order. Frees the source if it was closed meanwhile. */
static void advance(struct atoll_watch_source *s)
{
    char path[2 * ATOLL_WATCH_PATH_CAP];
    const struct pending *p;

    s->advancing = true;
    while (!s->looking && !s->closed && !atoll_list_empty(&s->pending)) {
        p = ATOLL_CONTAINER_OF(s->pending.next, struct pending, node);
        if (!has_entry(p->kind)) {
            deliver(s, NULL);
            continue;
        }
        (void)snprintf(path, sizeof(path), "%s/%s", s->path, p->name);
        s->looking = true;
        atoll_files_look(s->engine, s->sandbox_id, s->user, path, s->attributes, on_looked, s);
    }
    s->advancing = false;
    if (s->closed && !s->looking)
        source_free(s);
}

static void on_started(void *arg, struct atoll_file_watch *watch, const struct atoll_error *error)
{
    struct atoll_watch_source *s = arg;
    const struct atoll_watch_source_events *events = s->events;
    void *owner = s->arg;

    if (error) {
        source_free(s);
        events->started(owner, NULL, error);
    } else {
        s->watch = watch;
        events->started(owner, s, NULL);
    }
}

static void on_changed(void *arg, enum atoll_watch_kind kind, const char *name)
{
    struct atoll_watch_source *s = arg;
    size_t n = strlen(name) + 1;
    struct pending *p;

    /* Clients get no events about the directory itself, nor about lost events. */
    if (kind == ATOLL_WATCH_OVERFLOW || n == 1 || s->pending_count >= EVENTS_MAX)
        return;
    if (!s->include_entry) {
        s->events->changed(s->arg, kind, name, NULL);
        return;
    }
    p = atoll_api_alloc(sizeof(*p) + n);
    p->kind = kind;
    memcpy(p->name, name, n);
    atoll_list_push_back(&s->pending, &p->node);
    s->pending_count++;
    if (!s->looking && !s->advancing && !s->delivering)
        advance(s);
}

static void on_ended(void *arg)
{
    struct atoll_watch_source *s = arg;
    s->events->ended(s->arg);
}

static const struct atoll_file_watch_events watch_events = {on_started, on_changed, on_ended};

void atoll_watch_source_open(struct atoll_engine *engine, const char *sandbox_id,
                             const struct atoll_watch_request *request,
                             const struct atoll_watch_source_events *events, void *arg)
{
    struct atoll_watch_source *s = atoll_api_alloc(sizeof(*s));

    s->engine = engine;
    s->events = events;
    s->arg = arg;
    s->include_entry = request->include_entry;
    s->attributes = request->attributes;
    (void)snprintf(s->sandbox_id, sizeof(s->sandbox_id), "%s", sandbox_id);
    (void)snprintf(s->user, sizeof(s->user), "%s", request->user);
    (void)snprintf(s->path, sizeof(s->path), "%s", request->path);
    atoll_list_init(&s->pending);
    atoll_files_watch(engine, sandbox_id, s->user, s->path, request->recursive, &watch_events, s);
}

struct atoll_watch_source *atoll_watch_source_close(struct atoll_watch_source *s)
{
    if (!s)
        return NULL;
    s->watch = atoll_files_unwatch(s->watch);
    s->closed = true;
    if (!s->looking && !s->advancing && !s->delivering)
        source_free(s);
    return NULL;
}

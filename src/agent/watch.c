/*
 * Watches directories: one inotify instance per watch, whose kernel queue is also the buffer while
 * the daemon reads slowly. Watches belong to the connection.
 */
#include <errno.h>
#include <string.h>
#include <sys/inotify.h>
#include "agent/watch_internal.h"

#define WATCHES_MAX 32

struct atoll_agent_watches {
    struct atoll_agent_watch *items[WATCHES_MAX]; /* owned */
    uint32_t serial;
};

void atoll_agent_watch_forget(struct atoll_agent_watch *w)
{
    struct atoll_agent_watches *ws = w->agent->watches;

    for (size_t i = 0; i < WATCHES_MAX; i++)
        if (ws->items[i] == w)
            ws->items[i] = NULL;
    atoll_agent_watch_free(w);
}

void atoll_agent_watches_drop(struct atoll_agent *a)
{
    if (!a->watches)
        return;
    for (size_t i = 0; i < WATCHES_MAX; i++)
        if (a->watches->items[i])
            atoll_agent_watch_free(a->watches->items[i]);
    free(ATOLL_TAKE_PTR(a->watches));
}

void atoll_agent_watch_tell(const struct atoll_agent_watch *w, uint8_t kind, const char *name)
{
    struct atoll_am_watch_event msg = {.handle = w->handle, .kind = kind, .name = name};
    atoll_agent_event(w->agent, ATOLL_AGENT_WATCH_EVENT, &atoll_am_watch_event_desc, &msg);
}

static uint8_t kind_of(uint32_t mask)
{
    static const struct {
        uint32_t mask;
        uint8_t kind;
    } kinds[] = {
        {IN_CREATE | IN_MOVED_TO, ATOLL_WATCH_CREATE},
        {IN_MOVED_FROM | IN_MOVE_SELF, ATOLL_WATCH_RENAME},
        {IN_DELETE | IN_DELETE_SELF, ATOLL_WATCH_REMOVE},
        {IN_MODIFY, ATOLL_WATCH_WRITE},
        {IN_ATTRIB, ATOLL_WATCH_CHMOD},
    };

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(kinds); i++)
        if (mask & kinds[i].mask)
            return kinds[i].kind;
    return 0;
}

static void handle_event(struct atoll_agent_watch *w, const struct inotify_event *ev)
{
    struct atoll_agent_watch_dir *d = atoll_agent_watch_dir_of(w, ev->wd);
    char path[ATOLL_AGENT_WATCH_PATH_MAX];
    uint8_t kind = kind_of(ev->mask);

    if (ev->mask & IN_Q_OVERFLOW) {
        atoll_agent_watch_tell(w, ATOLL_WATCH_OVERFLOW, "");
        if (w->recursive) /* events about new directories may be lost */
            (void)!atoll_agent_watch_add(w, "", false, NULL);
        return;
    }
    if (!d || !d->path)
        return;
    if (ev->mask & IN_IGNORED) {
        free(ATOLL_TAKE_PTR(d->path));
        return;
    }
    /* Events about a directory itself come from its parent's watch, except for the root. */
    if (kind == 0 || (ev->len == 0 && *d->path) ||
        !atoll_agent_watch_join(d->path, ev->len ? ev->name : "", path))
        return;
    atoll_agent_watch_tell(w, kind, path);
    if (!w->recursive || !(ev->mask & IN_ISDIR))
        return;
    if (kind == ATOLL_WATCH_RENAME && ev->len > 0)
        atoll_agent_watch_drop_below(w, path);
    else if (kind == ATOLL_WATCH_CREATE && atoll_agent_watch_add(w, path, true, NULL) < 0)
        atoll_agent_watch_tell(w, ATOLL_WATCH_OVERFLOW, "");
}

static void events_ready(void *arg, uint32_t events)
{
    struct atoll_agent_watch *w = arg;
    char *buf = (char *)atoll_agent_scratch;
    ssize_t n;

    (void)events;
    if (!atoll_agent_conn_has_room(w->agent)) {
        atoll_watch_close(&w->ready); /* atoll_agent_watches_resume() opens it again */
        return;
    }
    n = read(w->fd, buf, ATOLL_AGENT_WATCH_CHUNK);
    for (ssize_t at = 0; at < n;) {
        const struct inotify_event *ev = (const void *)(buf + at);
        handle_event(w, ev);
        at += (ssize_t)(sizeof(*ev) + ev->len);
    }
}

void atoll_agent_watches_resume(struct atoll_agent *a)
{
    if (!a->watches)
        return;
    for (size_t i = 0; i < WATCHES_MAX; i++) {
        struct atoll_agent_watch *w = a->watches->items[i];
        if (w && !w->failed && !w->ready.loop &&
            atoll_watch_open(&w->ready, a->loop, w->fd, EPOLLIN, events_ready, w) < 0)
            atoll_agent_watch_tell(w, ATOLL_WATCH_OVERFLOW, "");
    }
}

static struct atoll_agent_watch *watch_new(struct atoll_agent *a, const struct atoll_agent_path *p,
                                           const struct atoll_am_watch *msg)
{
    struct atoll_agent_watch *w = calloc(1, sizeof(*w));

    if (!w)
        return NULL;
    w->agent = a;
    w->recursive = msg->recursive;
    w->fd = w->scan_fd = ATOLL_NO_FD;
    w->last = &w->first;
    w->user = p->user;
    return w;
}

static int slot_for(struct atoll_agent *a, struct atoll_agent_watch ***ret_slot,
                    struct atoll_error *err)
{
    if (!a->watches)
        a->watches = calloc(1, sizeof(*a->watches));
    for (size_t i = 0; a->watches && i < WATCHES_MAX; i++)
        if (!a->watches->items[i]) {
            *ret_slot = &a->watches->items[i];
            return 0;
        }
    return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EMFILE,
                      "%d watches are open, stop one first", WATCHES_MAX);
}

static int start(struct atoll_agent_watch *w, const char *path, uint32_t request,
                 struct atoll_error *err)
{
    int r = atoll_agent_watch_find_root(w, path);

    if (r < 0)
        return atoll_agent_path_fail(err, -r, path);
    w->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (w->fd < 0)
        return atoll_agent_watch_explain(w, err, -errno);
    r = atoll_watch_open(&w->ready, w->agent->loop, w->fd, EPOLLIN, events_ready, w);
    if (r < 0)
        return atoll_agent_watch_explain(w, err, r);
    w->request = request;
    return atoll_agent_watch_add(w, "", false, err);
}

int atoll_agent_on_watch_start(struct atoll_agent *a, uint32_t request, const void *message,
                               struct atoll_error *err)
{
    const struct atoll_am_watch *msg = message;
    ATOLL_AGENT_AUTO_PATH struct atoll_agent_path p;
    struct atoll_agent_watch **slot = NULL, *w;
    int r = atoll_agent_path_init(&p, a, msg->user, msg->path, err);

    if (r == 0)
        r = slot_for(a, &slot, err);
    if (r < 0)
        return r;
    w = watch_new(a, &p, msg);
    if (!w)
        return atoll_agent_path_fail(err, ENOMEM, p.text);
    r = start(w, p.text, request, err);
    if (r < 0) {
        atoll_agent_watch_free(w);
        return r;
    }
    w->handle = ++a->watches->serial;
    *slot = w;
    return ATOLL_AGENT_ANSWERED;
}

int atoll_agent_on_watch_stop(struct atoll_agent *a, uint32_t request, const void *message,
                              struct atoll_error *err)
{
    const struct atoll_am_handle *msg = message;

    (void)request;
    for (size_t i = 0; a->watches && i < WATCHES_MAX; i++) {
        struct atoll_agent_watch *w = a->watches->items[i];
        if (!w || w->handle != msg->handle || w->request != 0)
            continue;
        atoll_watch_close(&w->ready);
        if (w->working)
            w->failed = true; /* its job frees it */
        else
            atoll_agent_watch_forget(w);
        return 0;
    }
    return atoll_fail(err, ATOLL_ERR_NOT_FOUND, EBADF, "there is no watch %u", msg->handle);
}

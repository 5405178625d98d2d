#include <errno.h>
#include <string.h>
#include "base/memory.h"
#include "engine/engine_internal.h"

/*
 * Watches on directories of a sandbox. The agent has the inotify instance; this file passes its
 * events to the callers. A watch is owned by the caller that requested it and ends with the
 * connection to the agent.
 */

struct atoll_file_watch {
    struct atoll_list node;        /* in sandbox->watches */
    struct atoll_sandbox *sandbox; /* NULL after its end */
    uint32_t handle;               /* chosen by the agent, which is not trusted */
    bool answered;                 /* the agent has answered: handle is valid */
    bool dropped;                  /* unwatched by the caller while the answer is pending */
    const struct atoll_file_watch_events *events;
    void *arg;
};

static void leave(struct atoll_file_watch *w)
{
    if (w->sandbox)
        atoll_list_remove(&w->node);
    w->sandbox = NULL;
}

static void ignore(void *arg, const struct atoll_reply *answer)
{
    (void)arg;
    (void)answer;
}

static void stop(const struct atoll_file_watch *w)
{
    struct atoll_am_handle msg = {w->handle};
    struct atoll_error err;

    if (w->sandbox && w->answered)
        (void)!atoll_sandbox_ask(w->sandbox, ATOLL_AGENT_WATCH_STOP, &atoll_am_handle_desc, &msg,
                                 ignore, NULL, &err);
}

static void on_watching(void *arg, const struct atoll_reply *answer)
{
    struct atoll_file_watch *w = arg;
    const struct atoll_error *error = answer->error;
    struct atoll_am_handle msg;
    struct atoll_error err;

    if (!error && atoll_msg_decode(&atoll_am_handle_desc, answer->frame->payload,
                                   answer->frame->len, &msg, &err) < 0)
        error = &err;
    if (!error) {
        w->handle = msg.handle;
        w->answered = true;
    }
    if (w->dropped) {
        stop(w);
        leave(w);
        free(w);
    } else if (error) {
        const struct atoll_file_watch_events *events = w->events;
        void *owner = w->arg;
        leave(w);
        free(w);
        events->started(owner, NULL, error);
    } else {
        w->events->started(w->arg, w, NULL);
    }
}

void atoll_files_watch(struct atoll_engine *e, const char *id, const char *user, const char *path,
                       bool recursive, const struct atoll_file_watch_events *events, void *arg)
{
    struct atoll_am_watch msg = {.user = user, .path = path, .recursive = recursive};
    struct atoll_file_watch *w = atoll_alloc(sizeof(*w));
    struct atoll_error err;
    int r;

    w->events = events;
    w->arg = arg;
    r = atoll_engine_running(e, id, &w->sandbox, &err);
    if (r == 0) {
        atoll_list_push_back(&w->sandbox->watches, &w->node);
        r = atoll_sandbox_ask(w->sandbox, ATOLL_AGENT_WATCH_START, &atoll_am_watch_desc, &msg,
                              on_watching, w, &err);
    }
    if (r < 0) {
        leave(w);
        free(w);
        events->started(arg, NULL, &err);
    }
}

struct atoll_file_watch *atoll_files_unwatch(struct atoll_file_watch *w)
{
    if (!w)
        return NULL;
    if (w->sandbox && !w->answered) {
        w->dropped = true; /* on_watching() frees it */
        return NULL;
    }
    stop(w);
    leave(w);
    free(w);
    return NULL;
}

int atoll_file_watch_on_event(struct atoll_sandbox *s, const struct atoll_frame *frame)
{
    struct atoll_am_watch_event event;
    struct atoll_error err;

    if (atoll_msg_decode(&atoll_am_watch_event_desc, frame->payload, frame->len, &event, &err) <
            0 ||
        event.kind < ATOLL_WATCH_CREATE || event.kind > ATOLL_WATCH_OVERFLOW)
        return -EBADMSG;
    ATOLL_LIST_FOREACH (&s->watches, node) {
        struct atoll_file_watch *w = ATOLL_CONTAINER_OF(node, struct atoll_file_watch, node);
        if (w->answered && w->handle == event.handle && !w->dropped) {
            w->events->changed(w->arg, (enum atoll_watch_kind)event.kind, event.name);
            break;
        }
    }
    return 0;
}

void atoll_file_watch_end_all(struct atoll_sandbox *s)
{
    while (!atoll_list_empty(&s->watches)) {
        struct atoll_file_watch *w =
            ATOLL_CONTAINER_OF(s->watches.next, struct atoll_file_watch, node);
        leave(w);
        /* A watch without a handle waits for its answer, which fails and calls started(). */
        if (w->answered && !w->dropped)
            w->events->ended(w->arg);
    }
}

#include <errno.h>
#include <stdio.h>
#include <sys/inotify.h>
#include "registry/registry_internal.h"

/* Editors write, rename and remove in one sequence: reload when no event came for this long. */
#define SETTLE_MS 100

#define CHANGES                                                                         \
    (IN_CLOSE_WRITE | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | \
     IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)

static void settled(void *arg)
{
    struct atoll_registry_watch *w = arg;
    w->fn(w->arg);
}

static void changed(void *arg, uint32_t events)
{
    struct atoll_registry_watch *w = arg;
    char buf[4096] __attribute__((aligned(__alignof__(struct inotify_event))));

    (void)events;
    /* The content of the events does not matter, nor does an overflow: a reload reads all files. */
    while (read(w->fd, buf, sizeof(buf)) > 0)
        ;
    if (!w->settle.loop)
        atoll_timer_set(&w->settle, w->watch.loop, SETTLE_MS, settled, w);
}

/* A folder that does not exist yet is reported by the watch of its parent when it is created. */
static void add(const struct atoll_registry_watch *w, const char *dir, const char *folder)
{
    char path[4200];

    (void)snprintf(path, sizeof(path), "%s/%s", dir, folder);
    (void)inotify_add_watch(w->fd, path, CHANGES);
}

int atoll_registry_watch_open(struct atoll_registry_watch *w, struct atoll_loop *loop,
                              const char *dir, void (*fn)(void *arg), void *arg)
{
    int r = 0;

    if (!w->watch.loop) {
        *w = (struct atoll_registry_watch){.fn = fn, .arg = arg};
        w->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
        if (w->fd < 0)
            return -errno;
        r = atoll_watch_open(&w->watch, loop, w->fd, EPOLLIN, changed, w);
        if (r < 0) {
            (void)close(w->fd);
            return r;
        }
    }
    add(w, dir, "");
    for (int kind = 0; kind < ATOLL_REGISTRY_KINDS; kind++)
        add(w, dir, atoll_registry_kind_name((enum atoll_registry_kind)kind));
    return 0;
}

void atoll_registry_watch_close(struct atoll_registry_watch *w)
{
    if (!w->watch.loop)
        return;
    atoll_watch_close(&w->watch);
    atoll_timer_cancel(&w->settle);
    (void)close(w->fd);
}

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "provider/sync_internal.h"

/*
 * The operations that are not calls; sync.c runs the calls.
 */

static const struct atoll_provider_caps *caps(struct atoll_provider *p)
{
    struct atoll_sync *s = atoll_sync_of(p);

    s->caps = s->inner->ops->caps;
    if (s->inner->ops->networks)
        s->caps.networks = s->inner->ops->networks(s->inner);
    return &s->caps;
}

static uint32_t missing_limits(struct atoll_provider *p, const struct atoll_spec *spec)
{
    const struct atoll_sync *s = atoll_sync_of(p);
    return s->inner->ops->missing_limits(s->inner, spec);
}

static void cancel(struct atoll_provider *p, const struct atoll_spec *spec)
{
    ATOLL_LIST_FOREACH (&atoll_sync_of(p)->callee.calls, node) {
        const struct atoll_sync_work *w = atoll_sync_work_of(node);
        if (w->call.op == ATOLL_OP_CREATE && strcmp(w->call.spec.id, spec->id) == 0)
            atoll_sync_cancel(w);
    }
}

static void cancel_build(struct atoll_provider *p, const char *image)
{
    ATOLL_LIST_FOREACH (&atoll_sync_of(p)->callee.calls, node) {
        const struct atoll_sync_work *w = atoll_sync_work_of(node);
        if (w->call.op == ATOLL_OP_BUILD && strcmp(w->call.image, image) == 0)
            atoll_sync_cancel(w);
    }
}

static bool public_host(struct atoll_provider *p, const struct atoll_spec *spec, char *out,
                        size_t cap)
{
    const struct atoll_sync *s = atoll_sync_of(p);
    return s->inner->ops->public_host(s->inner, spec, out, cap);
}

static int keeper(struct atoll_provider *p)
{
    const struct atoll_sync *s = atoll_sync_of(p);
    return s->inner->ops->keeper(s->inner);
}

/* Cancels the operations in progress; their `done` is not called. */
static struct atoll_provider *sync_free(struct atoll_provider *p)
{
    struct atoll_sync *s = p ? atoll_sync_of(p) : NULL;

    if (!s)
        return NULL;
    atoll_sync_orphan(s);
    return NULL;
}

/* Operations that the inner provider lacks are NULL, so that checked.h refuses them. */
static void choose_ops(struct atoll_provider_ops *ops, const struct atoll_sync_ops *inner)
{
    const struct atoll_provider_ops calls = *ops;

#define OPERATION(NAME, member, ...) ops->member = NULL;
#define BLOCKING(NAME, member, ...) ops->member = inner->member ? calls.member : NULL;
#include "provider/operations.def"
    ops->adopt = calls.adopt; /* by dial() */
    ops->caps = caps;
    ops->missing_limits = missing_limits;
    ops->cancel = cancel;
    ops->free = sync_free;
    ops->cancel_build = inner->build ? cancel_build : NULL;
    ops->public_host = inner->public_host ? public_host : NULL;
    ops->keeper = inner->keeper ? keeper : NULL;
}

int atoll_sync_wrap(struct atoll_loop *loop, struct atoll_workers *workers,
                    struct atoll_sync_provider *p, struct atoll_provider **ret,
                    struct atoll_error *err)
{
    struct atoll_sync *s = calloc(1, sizeof(*s));
    int r;

    if (s)
        s->said_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    r = !s ? -ENOMEM : s->said_fd < 0 ? -errno : 0;
    if (r == 0)
        r = atoll_watch_open(&s->said, loop, s->said_fd, EPOLLIN, atoll_sync_hear, s);
    if (r < 0) {
        if (s && s->said_fd >= 0)
            (void)close(s->said_fd);
        free(s);
        (void)p->ops->free(p);
        return atoll_fail_errno(err, -r, "provider");
    }
    (void)pthread_mutex_init(&s->lock, NULL);
    s->workers = workers;
    s->inner = p;
    atoll_callee_init(&s->callee, p->ops->name, sizeof(struct atoll_sync_work), atoll_sync_begin);
    choose_ops(&s->callee.ops, p->ops);
    *ret = &s->callee.base;
    return 0;
}

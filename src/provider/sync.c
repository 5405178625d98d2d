#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "base/clock.h"
#include "provider/sync_internal.h"

#define LIST_MAX 65536        /* sandboxes of one provider */
#define VOLUMES_MAX 1024      /* of one tenant */
#define SAID_MAX (256 * 1024) /* of one operation, not told yet */

/* How long each may take, waiting for a worker included. Making one may mean fetching an image. */
static const int deadlines_ms[] = {
    [OP_CREATE] = 600000,     [OP_DIAL] = 20000,       [OP_ADOPT] = 20000,
    [OP_LOOK] = 10000,        [OP_LIST] = 30000,       [OP_DESTROY] = 60000,
    [OP_PAUSE] = 60000,       [OP_RESUME] = 60000,     [OP_STATS] = 10000,
    [OP_HEALTH] = 10000,      [OP_SET_LIMITS] = 20000, [OP_BUILD] = 3600000,
    [OP_SNAPSHOT] = 600000,   [OP_DROP_IMAGE] = 60000, [OP_LIST_VOLUMES] = 20000,
    [OP_DROP_VOLUME] = 30000,
};

int atoll_sync_left_ms(const struct atoll_sync_call *call)
{
    int64_t left = call->deadline_ms - atoll_clock_ms();

    return left <= 0 ? 0 : left > INT32_MAX ? INT32_MAX : (int)left;
}

bool atoll_sync_cancelled(const struct atoll_sync_call *call)
{
    struct pollfd pfd = {.fd = call->cancel_fd, .events = POLLIN};

    return call->cancel_fd >= 0 && poll(&pfd, 1, 0) > 0;
}

/* On the worker. */

void atoll_sync_say(const struct atoll_sync_call *call, const char *text)
{
    if (call->say)
        call->say(call->say_arg, text);
}

static void keep_said(void *arg, const char *text)
{
    struct atoll_sync_work *c = arg;
    const uint64_t one = 1;

    (void)pthread_mutex_lock(&c->sync->lock);
    if (atoll_buf_append(&c->said, text, strlen(text) + 1) < 0)
        c->unsaid++;
    (void)pthread_mutex_unlock(&c->sync->lock);
    (void)!write(c->sync->said_fd, &one, sizeof(one));
}

static void keep_volume(void *arg, const struct atoll_provider_volume *volume)
{
    struct atoll_sync_work *c = arg;
    struct atoll_provider_volume *volumes =
        c->volume_count < VOLUMES_MAX
            ? realloc(c->volumes, (c->volume_count + 1) * sizeof(*volumes))
            : NULL;

    if (!volumes)
        return; /* nobody has that many */
    c->volumes = volumes;
    c->volumes[c->volume_count++] = *volume;
}

static void keep_row(void *arg, const char *id, const char *handle, bool alive)
{
    struct atoll_sync_work *c = arg;
    struct atoll_sync_row *rows = c->rows;
    size_t cap = c->row_cap;

    if (c->result < 0 || strlen(id) != ATOLL_ID_LEN || strlen(handle) >= sizeof(rows->handle))
        return; /* none of ours can look like that */
    if (c->row_count == cap) {
        cap = cap ? 2 * cap : 64;
        rows = cap > LIST_MAX ? NULL : realloc(c->rows, cap * sizeof(*rows));
        if (!rows) {
            c->result = -ENOBUFS;
            return;
        }
        c->rows = rows;
        c->row_cap = cap;
    }
    rows[c->row_count].alive = alive;
    memcpy(rows[c->row_count].id, id, ATOLL_ID_LEN + 1);
    memcpy(rows[c->row_count++].handle, handle, strlen(handle) + 1);
}

static int run_list(struct atoll_sync_work *c)
{
    struct atoll_sync_provider *p = c->sync->inner;
    int r = p->ops->list(p, &c->how, keep_row, c, &c->error);

    if (r == 0 && c->result < 0)
        r = atoll_fail(&c->error, ATOLL_ERR_RESOURCE_EXHAUSTED, -c->result,
                       "the provider has too many sandboxes to list");
    return r;
}

static int run_op(struct atoll_sync_work *c)
{
    struct atoll_sync_provider *p = c->sync->inner;
    const struct atoll_sync_ops *ops = p->ops;

    switch (c->op) {
    case OP_CREATE:
        return ops->create(p, &c->how, &c->spec, &c->fd, &c->error);
    case OP_DIAL:
    case OP_ADOPT:
        return ops->dial(p, &c->how, &c->spec, &c->fd, &c->error);
    case OP_LOOK:
        return ops->look(p, &c->how, &c->spec, &c->look, &c->error);
    case OP_LIST:
        return run_list(c);
    case OP_DESTROY:
        return ops->destroy(p, &c->how, &c->spec, &c->error);
    case OP_PAUSE:
        return ops->pause(p, &c->how, &c->spec, &c->error);
    case OP_RESUME:
        return ops->resume(p, &c->how, &c->spec, &c->error);
    case OP_SET_LIMITS:
        return ops->set_limits(p, &c->how, &c->spec, &c->limits, &c->error);
    case OP_STATS:
        return ops->stats(p, &c->how, &c->spec, &c->stats, &c->error);
    case OP_BUILD:
        return ops->build(p, &c->how, &c->build, &c->made, &c->error);
    case OP_SNAPSHOT:
        return ops->snapshot(p, &c->how, &c->spec, c->image, &c->made, &c->error);
    case OP_DROP_IMAGE:
        return ops->drop_image(p, &c->how, c->image, &c->error);
    case OP_LIST_VOLUMES:
        return ops->list_volumes(p, &c->how, c->tenant, keep_volume, c, &c->error);
    case OP_DROP_VOLUME:
        return ops->drop_volume(p, &c->how, c->tenant, c->volume, &c->error);
    case OP_HEALTH:
        return ops->health(p, &c->how, c->detail, sizeof(c->detail), &c->error);
    }
    return atoll_fail(&c->error, ATOLL_ERR_INTERNAL, EINVAL, "operation %d", (int)c->op);
}

static void run(struct atoll_job *job)
{
    struct atoll_sync_work *c = ATOLL_CONTAINER_OF(job, struct atoll_sync_work, job);
    int64_t began_us = atoll_clock_us();

    c->ran = true;
    if (atoll_sync_cancelled(&c->how))
        c->result =
            atoll_fail(&c->error, ATOLL_ERR_ABORTED, ECANCELED, "nobody wants the result any more");
    else if (atoll_sync_left_ms(&c->how) == 0)
        c->result = atoll_fail(&c->error, ATOLL_ERR_DEADLINE_EXCEEDED, ETIMEDOUT,
                               "provider %s: no worker became free in time", c->sync->ops.name);
    else
        c->result = run_op(c);
    c->took_us = (uint64_t)(atoll_clock_us() - began_us);
}

/* On the loop. */

static void hear_one(struct atoll_sync_work *c, const char *text)
{
    const struct atoll_provider *p = &c->sync->base;

    if (c->op == OP_BUILD)
        c->hear(c->arg, text);
    else if (p->events && p->events->progress)
        p->events->progress(p->events_arg, c->spec.id, text);
}

/* Whoever hears it may end anything but this operation. */
static void hear(struct atoll_sync_work *c)
{
    struct atoll_buf said;
    size_t unsaid;

    (void)pthread_mutex_lock(&c->sync->lock);
    said = c->said;
    unsaid = c->unsaid;
    c->unsaid = 0;
    atoll_buf_init(&c->said, SAID_MAX);
    (void)pthread_mutex_unlock(&c->sync->lock);
    while (atoll_buf_size(&said) > 0) {
        const char *text = (const char *)atoll_buf_head(&said);
        hear_one(c, text);
        atoll_buf_consume(&said, strlen(text) + 1);
    }
    if (unsaid > 0)
        hear_one(c, "[some lines are left out: they came too fast]");
    atoll_buf_done(&said);
}

void atoll_sync_hear(void *arg, uint32_t events)
{
    struct atoll_sync *s = arg;
    uint64_t count;

    (void)events;
    (void)!read(s->said_fd, &count, sizeof(count));
    for (struct atoll_list *node = s->calls.next; node != &s->calls; node = node->next)
        hear(ATOLL_CONTAINER_OF(node, struct atoll_sync_work, node));
}

static void tell(struct atoll_sync_work *c, const struct atoll_error *error)
{
    switch (c->op) {
    case OP_CREATE:
        if (!error)
            memcpy(c->ret_spec->handle, c->spec.handle, sizeof(c->spec.handle));
        c->done.created(c->arg, c->fd, c->took_us, error);
        break;
    case OP_ADOPT:
        c->done.created(c->arg, c->fd, c->took_us, error);
        break;
    case OP_DIAL:
        c->done.dialed(c->arg, c->fd, error);
        break;
    case OP_LOOK:
        c->done.looked(c->arg, error ? NULL : &c->look, error);
        break;
    case OP_STATS:
        c->done.stats(c->arg, error ? NULL : &c->stats, error);
        break;
    case OP_HEALTH:
        c->done.health(c->arg, c->detail, error);
        break;
    case OP_LIST:
        for (size_t i = 0; !error && i < c->row_count; i++)
            c->each(c->arg, c->rows[i].id, c->rows[i].handle, c->rows[i].alive);
        c->done.plain(c->arg, error);
        break;
    case OP_BUILD:
    case OP_SNAPSHOT:
        c->done.image(c->arg, error ? NULL : &c->made, error);
        break;
    case OP_LIST_VOLUMES:
        for (size_t i = 0; !error && i < c->volume_count; i++)
            c->each_volume(c->arg, &c->volumes[i]);
        c->done.plain(c->arg, error);
        break;
    case OP_DESTROY:
    case OP_PAUSE:
    case OP_RESUME:
    case OP_SET_LIMITS:
    case OP_DROP_IMAGE:
    case OP_DROP_VOLUME:
        c->done.plain(c->arg, error);
        break;
    }
}

static void release(struct atoll_sync *s)
{
    if (!s->orphaned || !atoll_list_empty(&s->calls))
        return;
    (void)s->inner->ops->free(s->inner);
    (void)close(s->said_fd);
    (void)pthread_mutex_destroy(&s->lock);
    free(s);
}

static void call_free(struct atoll_sync_work *c)
{
    struct atoll_sync *s = c->sync;

    atoll_list_remove(&c->node);
    if (c->how.cancel_fd >= 0)
        (void)close(c->how.cancel_fd);
    for (char **v = c->env; v && *v; v++)
        free(*v);
    free(c->env);
    free(c->metadata_json);
    if (c->login)
        explicit_bzero(c->login, sizeof(*c->login));
    free(c->login);
    free(c->mounts);
    if (c->op == OP_BUILD && c->build.context_fd >= 0)
        (void)close(c->build.context_fd);
    atoll_buf_done(&c->said);
    free(c->volumes);
    free(c->rows);
    free(c);
    release(s);
}

static void ended(struct atoll_job *job)
{
    struct atoll_sync_work *c = ATOLL_CONTAINER_OF(job, struct atoll_sync_work, job);

    if (!c->ran)
        c->result = atoll_fail(&c->error, ATOLL_ERR_ABORTED, ESHUTDOWN, "the daemon is ending");
    if (c->result < 0)
        c->fd = ATOLL_NO_FD;
    if (c->sync->orphaned) {
        if (c->fd >= 0)
            (void)close(c->fd);
    } else {
        hear(c);
        tell(c, c->result < 0 ? &c->error : NULL);
    }
    call_free(c);
}

struct atoll_sync_work *atoll_sync_work_new(struct atoll_provider *p, enum atoll_sync_op op,
                                            const struct atoll_spec *spec, void *arg)
{
    struct atoll_sync_work *c = calloc(1, sizeof(*c));

    if (!c)
        abort(); /* a small fixed object: the daemon is crash-only */
    c->job = (struct atoll_job){run, ended, NULL};
    c->sync = atoll_sync_of(p);
    c->op = op;
    if (spec)
        c->spec = *spec;
    c->arg = arg;
    /* Lent for the making alone: sync_ops.c copies it there. */
    c->spec.mounts = NULL;
    c->spec.mount_count = 0;
    c->spec.login = NULL;
    atoll_buf_init(&c->said, SAID_MAX);
    c->how.say = keep_said;
    c->how.say_arg = c;
    c->fd = ATOLL_NO_FD;
    c->how.deadline_ms = atoll_clock_ms() + deadlines_ms[op];
    c->how.origin = *atoll_origin_get();
    c->how.cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); /* without one: no cancelling */
    atoll_list_push_back(&c->sync->calls, &c->node);
    return c;
}

void atoll_sync_submit(struct atoll_sync_work *c)
{
    struct atoll_error err;

    if (atoll_workers_submit(c->sync->workers, &c->job, &err) == 0)
        return;
    tell(c, &err);
    call_free(c);
}

void atoll_sync_cancel(const struct atoll_sync_work *c)
{
    const uint64_t one = 1;

    if (c->how.cancel_fd >= 0)
        (void)!write(c->how.cancel_fd, &one, sizeof(one));
}

void atoll_sync_orphan(struct atoll_sync *s)
{
    s->orphaned = true;
    atoll_watch_close(&s->said);
    ATOLL_LIST_FOREACH (&s->calls, node)
        atoll_sync_cancel(ATOLL_CONTAINER_OF(node, struct atoll_sync_work, node));
    release(s);
}

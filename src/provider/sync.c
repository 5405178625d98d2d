#include "provider/sync.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/list.h"

#define LIST_MAX 65536 /* sandboxes of one provider */

/* The provider the engine sees. */
struct sync {
    struct atoll_provider base;
    struct atoll_provider_ops ops; /* those of ours that the inner one can serve */
    struct atoll_workers *workers; /* borrowed */
    struct atoll_sync_provider *inner;
    struct atoll_list calls; /* of struct call: under way */
    bool orphaned;           /* freed by its owner; goes with the last call */
};

struct row {
    char id[ATOLL_ID_LEN + 1];
    char handle[129];
    bool alive;
};

enum op {
    OP_CREATE,
    OP_DIAL,
    OP_ADOPT,
    OP_LOOK,
    OP_LIST,
    OP_DESTROY,
    OP_PAUSE,
    OP_RESUME,
    OP_SET_LIMITS,
    OP_STATS,
    OP_HEALTH,
};

/* How long each may take, waiting for a worker included. Making one may mean fetching an image. */
static const int deadlines_ms[] = {
    [OP_CREATE] = 600000, [OP_DIAL] = 20000,    [OP_ADOPT] = 20000,      [OP_LOOK] = 10000,
    [OP_LIST] = 30000,    [OP_DESTROY] = 60000, [OP_PAUSE] = 60000,      [OP_RESUME] = 60000,
    [OP_STATS] = 10000,   [OP_HEALTH] = 10000,  [OP_SET_LIMITS] = 20000,
};

union done {
    atoll_provider_created_fn *created;
    atoll_provider_dialed_fn *dialed;
    atoll_provider_looked_fn *looked;
    atoll_provider_stats_fn *stats;
    atoll_provider_health_fn *health;
    atoll_provider_done_fn *plain;
};

struct call {
    struct atoll_job job;
    struct atoll_list node;
    struct sync *sync;
    enum op op;
    struct atoll_sync_call how;
    struct atoll_spec spec;      /* a copy: the worker's while it runs */
    struct atoll_spec *ret_spec; /* CREATE: the engine's */
    struct atoll_limits limits;
    atoll_provider_each_fn *each;
    union done done;
    void *arg;
    /* what run() leaves */
    bool ran;
    int fd;
    uint64_t took_us;
    struct row *rows; /* owned */
    size_t row_count, row_cap;
    struct atoll_provider_look look;
    struct atoll_provider_stats stats;
    char detail[200];
    int result;
    struct atoll_error error;
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

static void keep_row(void *arg, const char *id, const char *handle, bool alive)
{
    struct call *c = arg;
    struct row *rows = c->rows;
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

static int run_list(struct call *c)
{
    struct atoll_sync_provider *p = c->sync->inner;
    int r = p->ops->list(p, &c->how, keep_row, c, &c->error);

    if (r == 0 && c->result < 0)
        r = atoll_fail(&c->error, ATOLL_ERR_RESOURCE_EXHAUSTED, -c->result,
                       "the provider has too many sandboxes to list");
    return r;
}

static int run_op(struct call *c)
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
    case OP_HEALTH:
        return ops->health(p, &c->how, c->detail, sizeof(c->detail), &c->error);
    }
    return atoll_fail(&c->error, ATOLL_ERR_INTERNAL, EINVAL, "operation %d", (int)c->op);
}

static void run(struct atoll_job *job)
{
    struct call *c = ATOLL_CONTAINER_OF(job, struct call, job);
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

static void tell(struct call *c, const struct atoll_error *error)
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
    case OP_DESTROY:
    case OP_PAUSE:
    case OP_RESUME:
    case OP_SET_LIMITS:
        c->done.plain(c->arg, error);
        break;
    }
}

static void release(struct sync *s)
{
    if (!s->orphaned || !atoll_list_empty(&s->calls))
        return;
    (void)s->inner->ops->free(s->inner);
    free(s);
}

static void call_free(struct call *c)
{
    struct sync *s = c->sync;

    atoll_list_remove(&c->node);
    if (c->how.cancel_fd >= 0)
        (void)close(c->how.cancel_fd);
    free(c->rows);
    free(c);
    release(s);
}

static void ended(struct atoll_job *job)
{
    struct call *c = ATOLL_CONTAINER_OF(job, struct call, job);

    if (!c->ran)
        c->result = atoll_fail(&c->error, ATOLL_ERR_ABORTED, ESHUTDOWN, "the daemon is ending");
    if (c->result < 0)
        c->fd = ATOLL_NO_FD;
    if (!c->sync->orphaned)
        tell(c, c->result < 0 ? &c->error : NULL);
    else if (c->fd >= 0)
        (void)close(c->fd);
    call_free(c);
}

static struct sync *sync_of(struct atoll_provider *p)
{
    return ATOLL_CONTAINER_OF(p, struct sync, base);
}

static struct call *call_new(struct atoll_provider *p, enum op op, const struct atoll_spec *spec,
                             void *arg)
{
    struct call *c = calloc(1, sizeof(*c));

    if (!c)
        abort(); /* a small fixed object: the daemon is crash-only */
    c->job = (struct atoll_job){run, ended, NULL};
    c->sync = sync_of(p);
    c->op = op;
    if (spec)
        c->spec = *spec;
    c->arg = arg;
    c->fd = ATOLL_NO_FD;
    c->how.deadline_ms = atoll_clock_ms() + deadlines_ms[op];
    c->how.cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); /* without one: no cancelling */
    atoll_list_push_back(&c->sync->calls, &c->node);
    return c;
}

static void submit(struct call *c)
{
    struct atoll_error err;

    if (atoll_workers_submit(c->sync->workers, &c->job, &err) == 0)
        return;
    tell(c, &err);
    call_free(c);
}

static void cancel_call(const struct call *c)
{
    const uint64_t one = 1;

    if (c->how.cancel_fd >= 0)
        (void)!write(c->how.cancel_fd, &one, sizeof(one));
}

/* The operations of provider.h. */

static const struct atoll_provider_caps *caps(struct atoll_provider *p)
{
    return &sync_of(p)->inner->ops->caps;
}

static uint32_t missing_limits(struct atoll_provider *p, const struct atoll_spec *spec)
{
    const struct sync *s = sync_of(p);
    return s->inner->ops->missing_limits(s->inner, spec);
}

static void create(struct atoll_provider *p, struct atoll_spec *spec,
                   atoll_provider_created_fn *done, void *arg)
{
    struct call *c = call_new(p, OP_CREATE, spec, arg);

    c->ret_spec = spec;
    c->done.created = done;
    submit(c);
}

static void cancel(struct atoll_provider *p, const struct atoll_spec *spec)
{
    ATOLL_LIST_FOREACH (&sync_of(p)->calls, node) {
        const struct call *c = ATOLL_CONTAINER_OF(node, struct call, node);
        if (c->op == OP_CREATE && strcmp(c->spec.id, spec->id) == 0)
            cancel_call(c);
    }
}

static void adopt(struct atoll_provider *p, const struct atoll_spec *spec,
                  atoll_provider_created_fn *done, void *arg)
{
    struct call *c = call_new(p, OP_ADOPT, spec, arg);

    c->done.created = done;
    submit(c);
}

static void dial(struct atoll_provider *p, const struct atoll_spec *spec,
                 atoll_provider_dialed_fn *done, void *arg)
{
    struct call *c = call_new(p, OP_DIAL, spec, arg);

    c->done.dialed = done;
    submit(c);
}

static void look(struct atoll_provider *p, const struct atoll_spec *spec,
                 atoll_provider_looked_fn *done, void *arg)
{
    struct call *c = call_new(p, OP_LOOK, spec, arg);

    c->done.looked = done;
    submit(c);
}

static void list(struct atoll_provider *p, atoll_provider_each_fn *each,
                 atoll_provider_done_fn *done, void *arg)
{
    struct call *c = call_new(p, OP_LIST, NULL, arg);

    c->each = each;
    c->done.plain = done;
    submit(c);
}

static void plain(struct atoll_provider *p, enum op op, const struct atoll_spec *spec,
                  atoll_provider_done_fn *done, void *arg)
{
    struct call *c = call_new(p, op, spec, arg);

    c->done.plain = done;
    submit(c);
}

static void destroy(struct atoll_provider *p, const struct atoll_spec *spec,
                    atoll_provider_done_fn *done, void *arg)
{
    plain(p, OP_DESTROY, spec, done, arg);
}

static void pause_it(struct atoll_provider *p, const struct atoll_spec *spec,
                     atoll_provider_done_fn *done, void *arg)
{
    plain(p, OP_PAUSE, spec, done, arg);
}

static void resume(struct atoll_provider *p, const struct atoll_spec *spec,
                   atoll_provider_done_fn *done, void *arg)
{
    plain(p, OP_RESUME, spec, done, arg);
}

static void set_limits(struct atoll_provider *p, const struct atoll_spec *spec,
                       const struct atoll_limits *limits, atoll_provider_done_fn *done, void *arg)
{
    struct call *c = call_new(p, OP_SET_LIMITS, spec, arg);

    c->limits = *limits;
    c->done.plain = done;
    submit(c);
}

static void stats(struct atoll_provider *p, const struct atoll_spec *spec,
                  atoll_provider_stats_fn *done, void *arg)
{
    struct call *c = call_new(p, OP_STATS, spec, arg);

    c->done.stats = done;
    submit(c);
}

static void health(struct atoll_provider *p, atoll_provider_health_fn *done, void *arg)
{
    struct call *c = call_new(p, OP_HEALTH, NULL, arg);

    c->done.health = done;
    submit(c);
}

/* Those under way are told to give up, and nobody is told how they ended. */
static struct atoll_provider *sync_free(struct atoll_provider *p)
{
    struct sync *s = p ? sync_of(p) : NULL;

    if (!s)
        return NULL;
    s->orphaned = true;
    ATOLL_LIST_FOREACH (&s->calls, node)
        cancel_call(ATOLL_CONTAINER_OF(node, struct call, node));
    release(s);
    return NULL;
}

int atoll_sync_wrap(struct atoll_loop *loop ATOLL_UNUSED, struct atoll_workers *workers,
                    struct atoll_sync_provider *p, struct atoll_provider **ret,
                    struct atoll_error *err)
{
    struct sync *s = calloc(1, sizeof(*s));

    if (!s) {
        (void)p->ops->free(p);
        return atoll_fail_errno(err, ENOMEM, "provider");
    }
    s->workers = workers;
    s->inner = p;
    atoll_list_init(&s->calls);
    s->ops = (struct atoll_provider_ops){
        .name = p->ops->name,
        .caps = caps,
        .missing_limits = missing_limits,
        .create = create,
        .cancel = cancel,
        .dial = dial,
        .look = look,
        .list = list,
        .adopt = adopt,
        .destroy = destroy,
        .pause = p->ops->pause ? pause_it : NULL,
        .resume = p->ops->resume ? resume : NULL,
        .set_limits = p->ops->set_limits ? set_limits : NULL,
        .stats = p->ops->stats ? stats : NULL,
        .health = health,
        .free = sync_free,
    };
    s->base.ops = &s->ops;
    *ret = &s->base;
    return 0;
}

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "base/clock.h"
#include "provider/sync_internal.h"

#define LIST_MAX 65536        /* sandboxes of one provider, volumes of one tenant */
#define SAID_MAX (256 * 1024) /* bytes of undelivered text of one operation */

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

static struct atoll_sync_work *work_of(struct atoll_job *job)
{
    return ATOLL_CONTAINER_OF(job, struct atoll_sync_work, job);
}

static struct atoll_sync *sync_of(const struct atoll_sync_work *w)
{
    return ATOLL_CONTAINER_OF(w->call.callee, struct atoll_sync, callee);
}

/* On the worker: */

void atoll_sync_say(const struct atoll_sync_call *call, const char *text)
{
    if (call->say)
        call->say(call->say_arg, text);
}

static void keep_said(void *arg, const char *text)
{
    struct atoll_sync_work *w = arg;
    const uint64_t one = 1;

    (void)pthread_mutex_lock(&sync_of(w)->lock);
    if (atoll_buf_append(&w->said, text, strlen(text) + 1) < 0)
        w->unsaid++;
    (void)pthread_mutex_unlock(&sync_of(w)->lock);
    (void)!write(sync_of(w)->said_fd, &one, sizeof(one));
}

static void keep_volume(void *arg, const struct atoll_provider_volume *volume)
{
    struct atoll_sync_work *w = arg;
    struct atoll_provider_volume *volumes = w->volumes;
    size_t cap = w->volume_cap;

    if (w->volume_count == cap) {
        cap = cap ? 2 * cap : 64;
        volumes = cap > LIST_MAX ? NULL : realloc(volumes, cap * sizeof(*volumes));
        if (!volumes) {
            w->too_many =
                "there are too many volumes to list; one whose name is known can be removed";
            return;
        }
        w->volumes = volumes;
        w->volume_cap = cap;
    }
    volumes[w->volume_count++] = *volume;
}

static void keep_row(void *arg, const char *id, const char *handle, bool alive)
{
    struct atoll_sync_work *w = arg;
    struct atoll_sync_row *rows = w->rows;
    size_t cap = w->row_cap;

    if (w->too_many || strlen(id) != ATOLL_ID_LEN || strlen(handle) >= sizeof(rows->handle))
        return; /* not the id of one of our sandboxes */
    if (w->row_count == cap) {
        cap = cap ? 2 * cap : 64;
        rows = cap > LIST_MAX ? NULL : realloc(w->rows, cap * sizeof(*rows));
        if (!rows) {
            w->too_many = "the provider has too many sandboxes to list";
            return;
        }
        w->rows = rows;
        w->row_cap = cap;
    }
    rows[w->row_count].alive = alive;
    memcpy(rows[w->row_count].id, id, ATOLL_ID_LEN + 1);
    memcpy(rows[w->row_count++].handle, handle, strlen(handle) + 1);
}

static int run_op(struct atoll_sync_work *w)
{
    struct atoll_sync_provider *p = sync_of(w)->inner;
    struct atoll_call *c = &w->call;
    int r = -ENOSYS;

    /* A blocking provider adopts a sandbox by dialing its agent. */
    switch (c->op == ATOLL_OP_ADOPT ? ATOLL_OP_DIAL : c->op) {
#define BLOCKING(NAME, member, parameters, pass) \
    case ATOLL_OP_##NAME:                        \
        r = p->ops->member pass;                 \
        break;
#include "provider/operations.def"
    default:
        return atoll_fail(&w->error, ATOLL_ERR_INTERNAL, EINVAL, "operation %d", (int)c->op);
    }
    return r == 0 && w->too_many
               ? atoll_fail(&w->error, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOBUFS, "%s", w->too_many)
               : r;
}

/* The error does not count against the provider, which was not asked: else a tenant that pulls
 * slow images could make it unavailable for all tenants. */
static int fail_in_queue(struct atoll_sync_work *w)
{
    int r = atoll_fail(&w->error, ATOLL_ERR_DEADLINE_EXCEEDED, EBUSY,
                       "provider %s: no worker became free in time", w->call.callee->ops.name);

    w->error.another = true;
    return r;
}

static void run(struct atoll_job *job)
{
    struct atoll_sync_work *w = work_of(job);
    int64_t began_us = atoll_clock_us();

    w->ran = true;
    if (atoll_sync_cancelled(&w->how))
        w->result =
            atoll_fail(&w->error, ATOLL_ERR_ABORTED, ECANCELED, "the request was cancelled");
    else if (atoll_sync_left_ms(&w->how) == 0)
        w->result = fail_in_queue(w);
    else
        w->result = run_op(w);
    w->took_us = (uint64_t)(atoll_clock_us() - began_us);
}

/* On the loop's thread: */

static void deliver_text(struct atoll_sync_work *w, const char *text)
{
    const struct atoll_provider *p = &w->call.callee->base;

    if (w->call.op == ATOLL_OP_BUILD)
        w->call.said(w->call.arg, text);
    else if (p->events && p->events->progress)
        p->events->progress(p->events_arg, w->call.spec.id, text);
}

/* The callback may end anything except this operation. */
static void deliver(struct atoll_sync_work *w)
{
    struct atoll_buf said;
    size_t unsaid;

    (void)pthread_mutex_lock(&sync_of(w)->lock);
    said = w->said;
    unsaid = w->unsaid;
    w->unsaid = 0;
    atoll_buf_init(&w->said, SAID_MAX);
    (void)pthread_mutex_unlock(&sync_of(w)->lock);
    while (atoll_buf_size(&said) > 0) {
        const char *text = (const char *)atoll_buf_head(&said);
        deliver_text(w, text);
        atoll_buf_consume(&said, strlen(text) + 1);
    }
    if (unsaid > 0)
        deliver_text(w, "[some lines are missing: they came too fast]");
    atoll_buf_done(&said);
}

void atoll_sync_hear(void *arg, uint32_t events)
{
    struct atoll_sync *s = arg;
    uint64_t count;

    (void)events;
    (void)!read(s->said_fd, &count, sizeof(count));
    for (struct atoll_list *node = s->callee.calls.next; node != &s->callee.calls;
         node = node->next)
        deliver(atoll_sync_work_of(node));
}

static void tell(struct atoll_sync_work *w, const struct atoll_error *error)
{
    const struct atoll_call *c = &w->call;

    if (!error && c->op == ATOLL_OP_CREATE) {
        memcpy(c->ret_spec->handle, c->spec.handle, sizeof(c->spec.handle));
        memcpy(c->ret_spec->warning, c->spec.warning, sizeof(c->spec.warning));
    }
    for (size_t i = 0; !error && i < w->row_count; i++)
        c->each(c->arg, w->rows[i].id, w->rows[i].handle, w->rows[i].alive);
    for (size_t i = 0; !error && i < w->volume_count; i++)
        c->each_volume(c->arg, &w->volumes[i]);
    atoll_call_tell(c,
                    &(struct atoll_call_outcome){.fd = w->fd,
                                                 .dns_fd = w->dns_fd,
                                                 .boot_us = w->took_us,
                                                 .inspect = &w->inspection,
                                                 .stats = &w->stats,
                                                 .detail = w->detail,
                                                 .image = &w->made,
                                                 .layer = &w->layer},
                    error);
}

static void release(struct atoll_sync *s)
{
    if (!s->orphaned || !atoll_list_empty(&s->callee.calls))
        return;
    (void)s->inner->ops->free(s->inner);
    (void)close(s->said_fd);
    (void)pthread_mutex_destroy(&s->lock);
    free(s);
}

static void work_free(struct atoll_sync_work *w)
{
    struct atoll_sync *s = sync_of(w);

    if (w->how.cancel_fd >= 0)
        (void)close(w->how.cancel_fd);
    for (char **v = w->env; v && *v; v++)
        free(*v);
    free(w->env);
    free(w->metadata_json);
    free(w->region);
    if (w->login)
        explicit_bzero(w->login, sizeof(*w->login));
    free(w->login);
    free(w->mounts);
    free(w->layers);
    free(w->network_json);
    atoll_buf_done(&w->said);
    free(w->volumes);
    free(w->rows);
    atoll_call_free(&w->call);
    release(s);
}

static void ended(struct atoll_job *job)
{
    struct atoll_sync_work *w = work_of(job);

    if (!w->ran)
        w->result = atoll_fail(&w->error, ATOLL_ERR_ABORTED, ESHUTDOWN, "the daemon is stopping");
    if (w->result < 0)
        w->fd = w->dns_fd = ATOLL_NO_FD;
    if (sync_of(w)->orphaned) {
        if (w->fd >= 0)
            (void)close(w->fd);
        if (w->dns_fd >= 0)
            (void)close(w->dns_fd);
    } else {
        deliver(w);
        tell(w, w->result < 0 ? &w->error : NULL);
    }
    work_free(w);
}

/* Copies what the spec borrows: it may change while the worker runs. */
static void copy_borrowed(struct atoll_sync_work *w, const struct atoll_spec *borrowed)
{
    size_t n = 0;

    while (borrowed->env && borrowed->env[n])
        n++;
    w->env = calloc(n + 1, sizeof(*w->env));
    for (size_t i = 0; w->env && i < n; i++)
        if (!(w->env[i] = strdup(borrowed->env[i])))
            abort();
    if (borrowed->metadata_json)
        w->metadata_json = strdup(borrowed->metadata_json);
    if (borrowed->region)
        w->region = strdup(borrowed->region);
    if (borrowed->layers)
        w->layers = strdup(borrowed->layers);
    if (borrowed->network_json)
        w->network_json = strdup(borrowed->network_json);
    if (!w->env || (borrowed->network_json && !w->network_json) ||
        (borrowed->metadata_json && !w->metadata_json) || (borrowed->region && !w->region) ||
        (borrowed->layers && !w->layers))
        abort(); /* small objects: the daemon is crash-only */
    if (borrowed->mount_count > 0) {
        w->mounts = calloc(borrowed->mount_count, sizeof(*w->mounts));
        if (!w->mounts)
            abort();
        memcpy(w->mounts, borrowed->mounts, borrowed->mount_count * sizeof(*w->mounts));
    }
    if (borrowed->login) {
        w->login = malloc(sizeof(*w->login));
        if (!w->login)
            abort();
        *w->login = *borrowed->login;
    }
    w->call.spec.mounts = w->mounts;
    w->call.spec.mount_count = borrowed->mount_count;
    w->call.spec.login = w->login;
    w->call.spec.env = (const char *const *)w->env;
    w->call.spec.metadata_json = w->metadata_json;
    w->call.spec.region = w->region;
    w->call.spec.layers = w->layers;
    w->call.spec.network_json = w->network_json;
}

void atoll_sync_begin(struct atoll_call *call)
{
    struct atoll_sync_work *w = ATOLL_CONTAINER_OF(call, struct atoll_sync_work, call);
    struct atoll_error err;

    w->job = (struct atoll_job){.run = run, .done = ended};
    if (call->op == ATOLL_OP_CREATE || call->op == ATOLL_OP_SNAPSHOT ||
        call->op == ATOLL_OP_SNAPSHOT_LAYER)
        /* A fair share for each tenant: creates may take minutes. */
        w->job.owner = call->spec.tenant;
    atoll_buf_init(&w->said, SAID_MAX);
    w->how.say = keep_said;
    w->how.say_arg = w;
    w->how.deadline_ms = atoll_clock_ms() + atoll_op_facts[call->op].deadline_ms;
    w->how.origin = *atoll_origin_get();
    w->how.cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); /* -1: it cannot be cancelled */
    w->fd = w->dns_fd = ATOLL_NO_FD;
    if (call->op == ATOLL_OP_CREATE)
        copy_borrowed(w, call->ret_spec);
    if (atoll_workers_submit(sync_of(w)->workers, &w->job, &err) == 0)
        return;
    tell(w, &err);
    work_free(w);
}

void atoll_sync_cancel(const struct atoll_sync_work *w)
{
    const uint64_t one = 1;

    if (w->how.cancel_fd >= 0)
        (void)!write(w->how.cancel_fd, &one, sizeof(one));
}

void atoll_sync_orphan(struct atoll_sync *s)
{
    s->orphaned = true;
    atoll_watch_close(&s->said);
    ATOLL_LIST_FOREACH (&s->callee.calls, node)
        atoll_sync_cancel(atoll_sync_work_of(node));
    release(s);
}

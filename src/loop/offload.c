#include "loop/offload_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct atoll_offload {
    struct atoll_workers *workers; /* owned */
    struct atoll_shares held;      /* descriptors, by tenant */
};

int atoll_offload_new(struct atoll_loop *loop, struct atoll_offload **ret, struct atoll_error *err)
{
    struct atoll_offload *o = calloc(1, sizeof(*o));
    int r;

    if (!o)
        return atoll_fail_errno(err, ENOMEM, "workers for files");
    atoll_shares_init(&o->held, ATOLL_OFFLOAD_MAX);
    /* What waits is bounded by what is held. */
    r = atoll_workers_new(loop, ATOLL_OFFLOAD_THREADS, SIZE_MAX / 2, &o->workers, err);
    if (r == 0)
        r = atoll_workers_start(o->workers, err);
    if (r < 0) {
        (void)atoll_offload_free(o);
        return r;
    }
    *ret = o;
    return 0;
}

void atoll_offload_stop(struct atoll_offload *o)
{
    struct atoll_workers *workers = o ? ATOLL_TAKE_PTR(o->workers) : NULL;

    (void)atoll_workers_free(workers);
}

struct atoll_offload *atoll_offload_free(struct atoll_offload *o)
{
    if (o) {
        atoll_offload_stop(o);
        atoll_shares_done(&o->held);
        free(o);
    }
    return NULL;
}

int atoll_offload_check(const struct atoll_offload *o, const struct atoll_lane *lane,
                        struct atoll_error *err)
{
    if (!o || atoll_shares_fits(&o->held, lane->tenant, 1))
        return 0;
    return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                      "%zu files and connections of sandboxes are in use already; try again",
                      o->held.used);
}

void atoll_offload_add(struct atoll_offload *o, const struct atoll_lane *lane)
{
    if (o)
        atoll_shares_add(&o->held, lane->tenant, 1);
}

void atoll_offload_drop(struct atoll_offload *o, const struct atoll_lane *lane)
{
    if (o)
        atoll_shares_drop(&o->held, lane->tenant, 1);
}

struct atoll_offload_counts atoll_offload_count(struct atoll_offload *o)
{
    struct atoll_offload_counts counts = {.held = o->held.used};

    if (o->workers)
        atoll_workers_count(o->workers, &counts.waiting, &counts.running);
    return counts;
}

void atoll_offload_submit(struct atoll_offload *o, const struct atoll_lane *lane,
                          struct atoll_job *job)
{
    struct atoll_error err;

    if (!o) {
        job->run(job);
        job->done(job);
        return;
    }
    job->owner = lane->tenant;
    job->lane = *lane->sandbox ? lane->sandbox : NULL;
    /* There is a thread and no end of the queue: only a pool that was stopped refuses. */
    if (!o->workers || atoll_workers_submit(o->workers, job, &err) < 0)
        job->done(job);
}

void atoll_offload_close_now(int fd)
{
    const struct linger off = {0};

    /* Fails for what is no socket. One that a process inside still has could be changed again: that
     * blocks this thread alone. */
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &off, sizeof(off));
    (void)close(fd);
}

struct closing {
    struct atoll_job job;
    struct atoll_offload *offload;
    struct atoll_lane lane;
    int fd; /* owned */
};

static void run_close(struct atoll_job *job)
{
    struct closing *c = ATOLL_CONTAINER_OF(job, struct closing, job);

    atoll_offload_close_now(ATOLL_TAKE_FD(c->fd));
}

/* The exit of the process closes descriptors of jobs that never ran: if that blocks, no request
 * waits for it. */
static void close_done(struct atoll_job *job)
{
    struct closing *c = ATOLL_CONTAINER_OF(job, struct closing, job);

    atoll_offload_drop(c->offload, &c->lane);
    free(c);
}

void atoll_offload_close(struct atoll_offload *o, const struct atoll_lane *lane, int fd)
{
    struct closing *c;

    if (!o) {
        atoll_offload_close_now(fd);
        return;
    }
    c = malloc(sizeof(*c));
    if (!c)
        abort(); /* a small fixed object: the daemon is crash-only */
    *c = (struct closing){
        .job = {.run = run_close, .done = close_done}, .offload = o, .lane = *lane, .fd = fd};
    atoll_offload_add(o, lane);
    atoll_offload_submit(o, &c->lane, &c->job);
}

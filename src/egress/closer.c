#include "egress/closer.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/memory.h"
#include "loop/workers.h"

#define THREADS 2
#define QUEUE_MAX 65536

struct atoll_closer {
    struct atoll_workers *workers;
};

struct closing {
    struct atoll_job job;
    int fd; /* owned */
    bool reset;
};

int atoll_closer_new(struct atoll_loop *loop, struct atoll_closer **ret, struct atoll_error *err)
{
    struct atoll_closer *closer = atoll_alloc(sizeof(*closer));
    int r = atoll_workers_new(loop, THREADS, QUEUE_MAX, &closer->workers, err);

    if (r < 0)
        free(closer);
    else
        *ret = closer;
    return r;
}

struct atoll_closer *atoll_closer_free(struct atoll_closer *closer)
{
    if (!closer)
        return NULL;
    closer->workers = atoll_workers_free(closer->workers);
    free(closer);
    return NULL;
}

static void close_now(struct atoll_job *job)
{
    struct closing *c = ATOLL_CONTAINER_OF(job, struct closing, job);
    const struct linger linger = {.l_onoff = c->reset, .l_linger = 0};

    (void)setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    (void)close(ATOLL_TAKE_FD(c->fd));
}

static void closed(struct atoll_job *job)
{
    struct closing *c = ATOLL_CONTAINER_OF(job, struct closing, job);

    if (c->fd >= 0)
        (void)close(c->fd); /* it never ran: the process ends */
    free(c);
}

void atoll_closer_close(struct atoll_closer *closer, int fd, bool reset)
{
    struct closing *c;
    struct atoll_error err;

    if (fd < 0)
        return;
    c = atoll_alloc(sizeof(*c));
    *c = (struct closing){.job = {.run = close_now, .done = closed}, .fd = fd, .reset = reset};
    if (!closer || atoll_workers_submit(closer->workers, &c->job, &err) < 0) {
        close_now(&c->job);
        free(c);
    }
}

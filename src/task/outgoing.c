#include "task/outgoing.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/memory.h"
#include "engine/engine.h"
#include "network/policy.h"

#define THREADS 4
#define WAITING_MAX 256

struct atoll_outgoing {
    struct atoll_workers *workers;
    struct atoll_remote_http *any, *public; /* for the operator; for other tenants */
    int cancel_fds[2];                      /* the first is readable when requests are to end */
};

int atoll_outgoing_new(struct atoll_loop *loop, const struct atoll_remote_service *service,
                       struct atoll_outgoing **ret, struct atoll_error *err)
{
    struct atoll_outgoing *o = atoll_alloc(sizeof(*o));
    struct atoll_remote_http_config config = {.service = service};
    int r;

    o->cancel_fds[0] = o->cancel_fds[1] = -1;
    r = pipe2(o->cancel_fds, O_CLOEXEC) < 0 ? atoll_fail_errno(err, errno, "pipe of requests") : 0;
    if (r == 0)
        r = atoll_workers_new(loop, THREADS, WAITING_MAX, &o->workers, err);
    if (r == 0)
        r = atoll_remote_http_new(&config, &o->any, err);
    config.may_connect = atoll_network_is_public;
    config.direct = true; /* a proxy would connect to what tenants may not */
    if (r == 0)
        r = atoll_remote_http_new(&config, &o->public, err);
    if (r < 0) {
        (void)atoll_outgoing_free(o);
        return r;
    }
    *ret = o;
    return 0;
}

struct atoll_outgoing *atoll_outgoing_free(struct atoll_outgoing *o)
{
    if (!o)
        return NULL;
    if (o->cancel_fds[1] >= 0)
        (void)close(o->cancel_fds[1]);
    if (o->workers)
        (void)atoll_workers_free(o->workers);
    (void)atoll_remote_http_free(o->any);
    (void)atoll_remote_http_free(o->public);
    if (o->cancel_fds[0] >= 0)
        (void)close(o->cancel_fds[0]);
    free(o);
    return NULL;
}

int atoll_outgoing_submit(struct atoll_outgoing *o, struct atoll_job *job, struct atoll_error *err)
{
    return atoll_workers_submit(o->workers, job, err);
}

int atoll_outgoing_ask(struct atoll_outgoing *o, const char *tenant,
                       const struct atoll_remote_request *request, struct atoll_remote_answer *ret,
                       struct atoll_error *err)
{
    const struct atoll_sync_call call = {
        .deadline_ms = atoll_clock_ms() + ATOLL_OUTGOING_TIMEOUT_MS, .cancel_fd = o->cancel_fds[0]};
    bool any = strcmp(tenant, ATOLL_OPERATOR_TENANT) == 0;

    return atoll_remote_http_ask(any ? o->any : o->public, &call, request, ret, err);
}

bool atoll_outgoing_pause(const struct atoll_outgoing *o, int ms)
{
    struct pollfd pfd = {.fd = o->cancel_fds[0], .events = POLLIN};

    return poll(&pfd, 1, ms) == 0;
}

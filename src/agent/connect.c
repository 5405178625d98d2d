/*
 * CONNECT: connects to a port or unix socket inside the sandbox and passes the connected socket to
 * the daemon. Previews work this way without a network between host and sandbox. If the transport
 * cannot pass descriptors, a tunnel is used (tunnel.c).
 */
#include <errno.h>
#include "agent/agent_internal.h"

struct attempt {
    struct atoll_agent *agent;
    uint32_t request; /* 0: free */
    struct atoll_agent_dial dial;
};

struct atoll_agent_connects {
    struct attempt items[ATOLL_AGENT_CONNECTS_MAX];
};

void atoll_agent_connects_drop(struct atoll_agent *a)
{
    if (!a->connects)
        return;
    for (size_t i = 0; i < ATOLL_AGENT_CONNECTS_MAX; i++)
        atoll_agent_dial_cancel(&a->connects->items[i].dial);
    free(ATOLL_TAKE_PTR(a->connects));
}

static void dialed(void *arg, int fd, const struct atoll_error *error)
{
    struct attempt *t = arg;
    uint32_t request = t->request;

    t->request = 0;
    if (error) {
        atoll_agent_error(t->agent, request, error);
        return;
    }
    atoll_agent_reply_fd(t->agent, request, NULL, NULL, fd);
    (void)close(fd);
}

int atoll_agent_on_connect(struct atoll_agent *a, uint32_t request, const void *msg,
                           struct atoll_error *err)
{
    if (!a->conn.fds)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EOPNOTSUPP,
                          "this kind of sandbox cannot pass connections to the daemon");
    atoll_agent_views_touch(a); /* an idle server is about to run */
    if (!a->connects)
        a->connects = calloc(1, sizeof(*a->connects));
    if (!a->connects)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM, "no memory to connect");
    for (size_t i = 0; i < ATOLL_AGENT_CONNECTS_MAX; i++) {
        struct attempt *t = &a->connects->items[i];
        if (t->request != 0)
            continue;
        t->agent = a;
        t->request = request;
        atoll_agent_dial_start(&t->dial, a, msg, dialed, t);
        return ATOLL_AGENT_ANSWERED;
    }
    return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EBUSY,
                      "%d connection attempts are already in progress", ATOLL_AGENT_CONNECTS_MAX);
}

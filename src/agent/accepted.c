/*
 * Accepted connections whose purpose is not known yet. The first frame decides: HELLO makes it the
 * daemon's connection, which replaces the previous one; TUNNEL makes it a byte stream to a port.
 * After any other frame, or a timeout, it is closed.
 */
#include <errno.h>
#include <string.h>
#include "agent/agent_internal.h"

#define TIMEOUT_MS 10000
#define ACCEPTED_MAX 32
/* Output queue of such a connection, which is sent errors only. */
#define QUEUE_MAX (64 * 1024)

struct accepted {
    struct atoll_list node; /* in agent.accepted, oldest first */
    struct atoll_agent *agent;
    struct atoll_channel channel;
    struct atoll_watch watch;
    struct atoll_timer timeout;
    /* Its first frame, which stays in the channel: */
    uint16_t type; /* 0: not received yet */
    uint32_t id;
    size_t len;
};

/* Frees the record; the caller owns the channel from now on. */
static void accepted_release(struct accepted *c)
{
    atoll_list_remove(&c->node);
    c->agent->accepted_count--;
    atoll_timer_cancel(&c->timeout);
    atoll_watch_close(&c->watch);
    free(c);
}

static void accepted_free(struct accepted *c)
{
    atoll_channel_done(&c->channel);
    accepted_release(c);
}

void atoll_agent_accepted_drop_all(struct atoll_agent *a)
{
    ATOLL_LIST_FOREACH (&a->accepted, node)
        accepted_free(ATOLL_CONTAINER_OF(node, struct accepted, node));
}

static void timed_out(void *arg)
{
    accepted_free(arg);
}

/* Examines the first frame and leaves it in the channel for its next owner. */
static int first_frame(void *arg, struct atoll_frame *frame)
{
    struct accepted *c = arg;

    for (size_t i = 0; i < frame->nfds; i++)
        (void)close(frame->fds[i]);
    if (frame->nfds > 0 || frame->id == 0)
        return -EBADMSG;
    c->type = frame->type;
    c->id = frame->id;
    c->len = frame->len;
    return -ECANCELED;
}

static void accepted_ready(void *arg, uint32_t events)
{
    struct accepted *c = arg;
    struct atoll_agent *a = c->agent;
    struct atoll_channel channel;
    uint16_t type;
    uint32_t id;
    size_t len;
    int r = atoll_channel_receive(&c->channel, first_frame, c);

    (void)events;
    if (r == 0)
        return;
    if (r != -ECANCELED || (c->type != ATOLL_AGENT_HELLO && c->type != ATOLL_AGENT_TUNNEL)) {
        accepted_free(c);
        return;
    }
    type = c->type;
    id = c->id;
    len = c->len;
    channel = c->channel;
    accepted_release(c);
    if (type == ATOLL_AGENT_HELLO)
        atoll_agent_conn_take(a, &channel);
    else
        atoll_agent_tunnel_take(a, &channel, id, len);
}

void atoll_agent_accepted_open(struct atoll_agent *a, int fd)
{
    struct accepted *c = calloc(1, sizeof(*c));

    if (!c) {
        (void)close(fd);
        return;
    }
    if (a->accepted_count >= ACCEPTED_MAX)
        accepted_free(ATOLL_CONTAINER_OF(a->accepted.next, struct accepted, node));
    c->agent = a;
    a->accepted_count++;
    atoll_list_push_back(&a->accepted, &c->node);
    if (atoll_channel_init(&c->channel, fd, QUEUE_MAX) < 0 ||
        atoll_watch_open(&c->watch, a->loop, fd, EPOLLIN, accepted_ready, c) < 0) {
        accepted_free(c); /* the daemon sees the close and reconnects */
        return;
    }
    atoll_timer_set(&c->timeout, a->loop, TIMEOUT_MS, timed_out, c);
}

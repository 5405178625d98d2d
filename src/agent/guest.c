/*
 * New connections whose purpose is not known yet ("guests"). The first frame decides: HELLO makes
 * it the daemon's connection, which replaces the previous one; TUNNEL makes it a byte stream to a
 * port. After any other frame, or a timeout, it is closed.
 */
#include <errno.h>
#include <string.h>
#include "agent/agent_internal.h"

#define PATIENCE_MS 10000
#define GUESTS_MAX 32
/* Output queue of a guest, which is sent errors only. */
#define QUEUE_MAX (64 * 1024)

struct guest {
    struct atoll_list node; /* in agent.guests, oldest first */
    struct atoll_agent *agent;
    struct atoll_channel channel;
    struct atoll_watch watch;
    struct atoll_timer patience;
    /* Its first frame, which stays in the channel: */
    uint16_t type; /* 0: not received yet */
    uint32_t id;
    size_t len;
};

/* Removes the guest; the caller owns the channel from now on. */
static void guest_leave(struct guest *g)
{
    atoll_list_remove(&g->node);
    g->agent->guest_count--;
    atoll_timer_cancel(&g->patience);
    atoll_watch_close(&g->watch);
    free(g);
}

static void guest_free(struct guest *g)
{
    atoll_channel_done(&g->channel);
    guest_leave(g);
}

void atoll_agent_guests_drop(struct atoll_agent *a)
{
    ATOLL_LIST_FOREACH (&a->guests, node)
        guest_free(ATOLL_CONTAINER_OF(node, struct guest, node));
}

static void out_of_patience(void *arg)
{
    guest_free(arg);
}

/* Examines the first frame and leaves it in the channel for its next owner. */
static int first_frame(void *arg, struct atoll_frame *frame)
{
    struct guest *g = arg;

    for (size_t i = 0; i < frame->nfds; i++)
        (void)close(frame->fds[i]);
    if (frame->nfds > 0 || frame->id == 0)
        return -EBADMSG;
    g->type = frame->type;
    g->id = frame->id;
    g->len = frame->len;
    return -ECANCELED;
}

static void guest_ready(void *arg, uint32_t events)
{
    struct guest *g = arg;
    struct atoll_agent *a = g->agent;
    struct atoll_channel channel;
    uint16_t type;
    uint32_t id;
    size_t len;
    int r = atoll_channel_receive(&g->channel, first_frame, g);

    (void)events;
    if (r == 0)
        return;
    if (r != -ECANCELED || (g->type != ATOLL_AGENT_HELLO && g->type != ATOLL_AGENT_TUNNEL)) {
        guest_free(g);
        return;
    }
    type = g->type;
    id = g->id;
    len = g->len;
    channel = g->channel;
    guest_leave(g);
    if (type == ATOLL_AGENT_HELLO)
        atoll_agent_conn_take(a, &channel);
    else
        atoll_agent_tunnel_take(a, &channel, id, len);
}

void atoll_agent_guest_open(struct atoll_agent *a, int fd)
{
    struct guest *g = calloc(1, sizeof(*g));

    if (!g) {
        (void)close(fd);
        return;
    }
    if (a->guest_count >= GUESTS_MAX)
        guest_free(ATOLL_CONTAINER_OF(a->guests.next, struct guest, node));
    g->agent = a;
    a->guest_count++;
    atoll_list_push_back(&a->guests, &g->node);
    if (atoll_channel_init(&g->channel, fd, QUEUE_MAX) < 0 ||
        atoll_watch_open(&g->watch, a->loop, fd, EPOLLIN, guest_ready, g) < 0) {
        guest_free(g); /* the daemon sees the close and reconnects */
        return;
    }
    atoll_timer_set(&g->patience, a->loop, PATIENCE_MS, out_of_patience, g);
}

#include "provider/rpc.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define OUT_MAX (8 * 1024 * 1024)
#define WAITING_MAX 4096

struct atoll_rpc {
    struct atoll_channel channel;
    struct atoll_watch watch;
    struct atoll_pending pending;
    const struct atoll_rpc_protocol *protocol;
    const struct atoll_rpc_events *events;
    void *arg;
    bool over;   /* the connection has ended */
    bool busy;   /* inside receive: free later */
    bool closed; /* atoll_rpc_close() was called while busy */
};

static void release(struct atoll_rpc *rpc)
{
    atoll_watch_close(&rpc->watch);
    atoll_channel_done(&rpc->channel);
    atoll_pending_done(&rpc->pending);
    free(rpc);
}

struct atoll_rpc *atoll_rpc_close(struct atoll_rpc *rpc)
{
    if (!rpc)
        return NULL;
    rpc->closed = rpc->over = true;
    if (!rpc->busy)
        release(rpc);
    return NULL;
}

void atoll_rpc_fail_all(struct atoll_rpc *rpc, const char *why)
{
    struct atoll_error error;

    if (!rpc)
        return;
    rpc->over = true;
    (void)atoll_fail(&error, ATOLL_ERR_UNAVAILABLE, EPIPE, "%s", why);
    atoll_pending_fail_all(&rpc->pending, &error);
}

static void end(struct atoll_rpc *rpc, const char *why)
{
    atoll_watch_close(&rpc->watch);
    atoll_rpc_fail_all(rpc, why);
    if (!rpc->closed)
        rpc->events->lost(rpc->arg, why);
}

/* But for those that were taken. */
static void close_fds(struct atoll_frame *frame)
{
    for (size_t i = 0; i < frame->nfds; i++)
        if (frame->fds[i] >= 0)
            (void)close(ATOLL_TAKE_FD(frame->fds[i]));
}

static int answer_error(struct atoll_rpc *rpc, struct atoll_frame *frame)
{
    struct atoll_error error, bad;
    struct atoll_answer answer = {.error = &error};
    int r = rpc->protocol->decode_error(frame, &error, &bad);

    if (r < 0 || !atoll_pending_answer(&rpc->pending, frame->id, &answer))
        return -EBADMSG;
    return 0;
}

/* The peer is not trusted: an answer nobody asked for ends the connection, and so does a part of one
 * that has none, which its callback would take for the whole. */
static int on_frame(void *arg, struct atoll_frame *frame)
{
    struct atoll_rpc *rpc = arg;
    struct atoll_answer answer = {.more = frame->type == rpc->protocol->part, .frame = frame};
    int r = 0;

    if (frame->id == 0)
        r = rpc->events->event(rpc->arg, frame);
    else if (frame->type == rpc->protocol->error)
        r = answer_error(rpc, frame);
    else if ((frame->type != rpc->protocol->reply && !answer.more) ||
             !atoll_pending_answer(&rpc->pending, frame->id, &answer))
        r = -EBADMSG;
    close_fds(frame); /* a peer can send some with anything */
    return rpc->closed ? -ECANCELED : r;
}

static void ready(void *arg, uint32_t events)
{
    struct atoll_rpc *rpc = arg;
    int r = 0;

    rpc->busy = true;
    if (events & EPOLLOUT)
        r = atoll_channel_flush(&rpc->channel);
    if (r > 0) /* only then: more than answers may be under way */
        r = atoll_watch_set(&rpc->watch, EPOLLIN);
    if (r >= 0 && events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        r = atoll_channel_receive(&rpc->channel, on_frame, rpc);
    if (r < 0 && !rpc->closed)
        end(rpc, r == -EPIPE     ? "the connection was closed"
                 : r == -EBADMSG ? "the peer broke the protocol"
                                 : strerror(-r));
    rpc->busy = false;
    if (rpc->closed)
        release(rpc);
}

int atoll_rpc_open(struct atoll_loop *loop, int fd, const struct atoll_rpc_protocol *protocol,
                   const struct atoll_rpc_events *events, void *arg, struct atoll_rpc **ret,
                   struct atoll_error *err)
{
    struct atoll_rpc *rpc = calloc(1, sizeof(*rpc));
    int r;

    if (!rpc) {
        (void)close(fd);
        return atoll_fail_errno(err, ENOMEM, "connection");
    }
    rpc->protocol = protocol;
    rpc->events = events;
    rpc->arg = arg;
    atoll_pending_init(&rpc->pending, WAITING_MAX);
    r = atoll_channel_init(&rpc->channel, fd, OUT_MAX);
    if (r == 0)
        r = atoll_watch_open(&rpc->watch, loop, fd, EPOLLIN, ready, rpc);
    if (r < 0) {
        release(rpc);
        return atoll_fail_errno(err, -r, "watch connection");
    }
    *ret = rpc;
    return 0;
}

static int send_frame(struct atoll_rpc *rpc, uint16_t type, uint32_t id,
                      const struct atoll_msg_desc *desc, const void *msg)
{
    int r = rpc->over ? -EPIPE : atoll_channel_send(&rpc->channel, type, id, desc, msg, NULL, 0);

    if (r < 0)
        return r;
    r = atoll_channel_flush(&rpc->channel);
    /* A broken connection shows at the next round of the loop, not here in the caller's back. */
    if (r <= 0)
        r = atoll_watch_set(&rpc->watch, EPOLLIN | EPOLLOUT);
    return r < 0 ? r : 0;
}

static bool is_list(const struct atoll_rpc *rpc, uint16_t type)
{
    for (const uint16_t *list = rpc->protocol->lists; *list; list++)
        if (*list == type)
            return true;
    return false;
}

int atoll_rpc_ask(struct atoll_rpc *rpc, uint16_t type, const struct atoll_msg_desc *desc,
                  const void *msg, atoll_answer_fn *fn, void *arg, struct atoll_error *err)
{
    uint32_t id;
    int r = atoll_pending_add(&rpc->pending, fn, arg, is_list(rpc, type), &id);

    if (r == 0) {
        r = send_frame(rpc, type, id, desc, msg);
        if (r < 0)
            atoll_pending_forget(&rpc->pending, id);
    }
    if (r == -ENOBUFS || r == -EMSGSIZE)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, -r,
                          r == -EMSGSIZE ? "the request is too large"
                                         : "too many requests wait for this sandbox; try again");
    return r < 0 ? atoll_fail(err, ATOLL_ERR_UNAVAILABLE, -r, "the connection is closed") : 0;
}

int atoll_rpc_tell(struct atoll_rpc *rpc, uint16_t type, const struct atoll_msg_desc *desc,
                   const void *msg)
{
    return send_frame(rpc, type, 0, desc, msg);
}

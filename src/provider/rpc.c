#include "provider/rpc.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/metrics.h"
#include "sys/unix_socket.h"

#define OUT_MAX (8 * 1024 * 1024)
#define WAITING_MAX 4096

struct atoll_rpc {
    struct atoll_channel channel;
    struct atoll_watch watch;
    struct atoll_pending pending;
    const struct atoll_rpc_protocol *protocol;
    const struct atoll_rpc_events *events;
    void *arg;
    struct atoll_offload *offload; /* with lane: see atoll_rpc_guard() */
    struct atoll_lane lane;
    bool over;   /* the connection has ended */
    bool busy;   /* inside receive or a tick: close later */
    bool closed; /* atoll_rpc_close() was called while busy */

    struct atoll_loop *loop;
    struct atoll_timer tick;
    int64_t ticked_ms; /* atoll_clock_ms() of the last tick */
    bool ticking;      /* ticks once a second because a request waits; false: heartbeat interval */
    bool pinged;       /* a ping is not answered yet */
    bool silent;
    int64_t unheard_ms, silent_since_ms;
};

/* A daemon that was stopped for a minute has read nothing for a minute, so a tick never counts
 * as much more than its period. */
#define TICK_MS 1000
#define TICK_MAX_MS 1500
#define HEARTBEAT_MS 30000

static void release(struct atoll_rpc *rpc)
{
    atoll_watch_close(&rpc->watch);
    atoll_timer_cancel(&rpc->tick);
    atoll_channel_done(&rpc->channel);
    atoll_pending_done(&rpc->pending);
    free(rpc);
}

struct atoll_rpc *atoll_rpc_close(struct atoll_rpc *rpc)
{
    if (!rpc)
        return NULL;
    rpc->closed = rpc->over = true;
    atoll_timer_cancel(&rpc->tick);
    atoll_pending_done(&rpc->pending); /* also ends a walk over the requests */
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
    atoll_timer_cancel(&rpc->tick);
    atoll_rpc_fail_all(rpc, why);
    if (!rpc->closed)
        rpc->events->lost(rpc->arg, why);
}

static void discard(void *arg, int fd)
{
    struct atoll_rpc *rpc = arg;
    atoll_offload_close(rpc->offload, &rpc->lane, fd);
}

void atoll_rpc_guard(struct atoll_rpc *rpc, struct atoll_offload *offload,
                     const struct atoll_lane *lane)
{
    rpc->offload = offload;
    rpc->lane = *lane;
    rpc->channel.discard = discard;
    rpc->channel.discard_arg = rpc;
}

/* Closes the descriptors that no callback took. */
static void close_fds(struct atoll_rpc *rpc, struct atoll_frame *frame)
{
    for (size_t i = 0; i < frame->nfds; i++)
        if (frame->fds[i] >= 0)
            discard(rpc, ATOLL_TAKE_FD(frame->fds[i]));
}

static int answer_error(struct atoll_rpc *rpc, struct atoll_frame *frame)
{
    struct atoll_error error, bad;
    struct atoll_reply answer = {.error = &error};
    int r = rpc->protocol->decode_error(frame, &error, &bad);

    if (r < 0 || !atoll_pending_answer(&rpc->pending, frame->id, &answer))
        return -EBADMSG;
    return 0;
}

/* Whether the frame answers a request that has expired. */
static bool answer_late(struct atoll_rpc *rpc, const struct atoll_frame *frame)
{
    uint16_t type =
        atoll_pending_late(&rpc->pending, frame->id, frame->type != rpc->protocol->part);

    if (type != 0 && frame->type == rpc->protocol->reply)
        rpc->events->late(rpc->arg, type, frame);
    return type != 0;
}

/* The peer is not trusted. An answer without a request ends the connection. So does a part of an
 * answer that should have none: the callback would take it for the whole answer. */
static int on_frame(void *arg, struct atoll_frame *frame)
{
    struct atoll_rpc *rpc = arg;
    struct atoll_reply answer = {.more = frame->type == rpc->protocol->part, .frame = frame};
    int r = 0;

    /* Only answers may carry descriptors, so the number of those waiting to be closed is bounded
     * by our requests. */
    if (frame->nfds > 0 && (frame->id == 0 || frame->type == rpc->protocol->error || answer.more))
        r = -EBADMSG;
    else if (frame->id == 0)
        r = rpc->events->event(rpc->arg, frame);
    else if (answer_late(rpc, frame))
        r = 0;
    else if (frame->type == rpc->protocol->error)
        r = answer_error(rpc, frame);
    else if ((frame->type != rpc->protocol->reply && !answer.more) ||
             !atoll_pending_answer(&rpc->pending, frame->id, &answer))
        r = -EBADMSG;
    close_fds(rpc, frame);
    return rpc->closed ? -ECANCELED : r;
}

static void heard(struct atoll_rpc *rpc)
{
    rpc->unheard_ms = 0;
    if (!rpc->silent)
        return;
    rpc->silent = false;
    rpc->events->silence(rpc->arg, false);
}

static void ready(void *arg, uint32_t events)
{
    struct atoll_rpc *rpc = arg;
    int r = 0;

    rpc->busy = true;
    if (events & EPOLLIN)
        heard(rpc);
    if (events & EPOLLOUT)
        r = atoll_channel_flush(&rpc->channel);
    if (r > 0) /* everything is sent */
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

/* Deadlines. */

static void on_tick(void *arg);

static void set_tick(struct atoll_rpc *rpc, bool ticking)
{
    rpc->ticking = ticking;
    rpc->ticked_ms = atoll_clock_ms();
    atoll_timer_set(&rpc->tick, rpc->loop, ticking ? TICK_MS : HEARTBEAT_MS, on_tick, rpc);
}

static void on_pong(void *arg, const struct atoll_reply *answer)
{
    struct atoll_rpc *rpc = arg;

    (void)answer;
    rpc->pinged = false;
}

static void ping(struct atoll_rpc *rpc)
{
    struct atoll_error err;

    if (!rpc->pinged &&
        atoll_rpc_ask_patiently(rpc, rpc->protocol->ping, NULL, NULL, on_pong, rpc, &err) == 0)
        rpc->pinged = true;
}

static const char *peer_name(const struct atoll_rpc *rpc)
{
    return rpc->protocol->peer ? rpc->protocol->peer : "the agent";
}

static void count_deadlines(size_t n, const char *why)
{
    if (n > 0)
        atoll_metric_add(ATOLL_METRIC_AGENT_DEADLINES, ATOLL_LABELS(why), (double)n);
}

static void become_silent(struct atoll_rpc *rpc)
{
    struct atoll_error error;

    rpc->silent = true;
    rpc->silent_since_ms = atoll_clock_ms() - rpc->unheard_ms;
    rpc->events->silence(rpc->arg, true);
    (void)atoll_fail(&error, ATOLL_ERR_DEADLINE_EXCEEDED, ETIMEDOUT,
                     "%s has not answered for %lld s; the request may still be carried out when it "
                     "continues",
                     peer_name(rpc), (long long)rpc->unheard_ms / 1000);
    count_deadlines(atoll_pending_expire(&rpc->pending, true, &error), "silence");
}

static void expire_overdue(struct atoll_rpc *rpc)
{
    struct atoll_error error;

    (void)atoll_fail(&error, ATOLL_ERR_DEADLINE_EXCEEDED, ETIMEDOUT,
                     "%s did not answer this request in time; the request may still be done",
                     peer_name(rpc));
    count_deadlines(atoll_pending_expire(&rpc->pending, false, &error), "limit");
}

/* A live peer may leave a request unanswered for long, for example while a command does not read
 * its input. So a ping is sent before the peer counts as silent. */
static void check_silence(struct atoll_rpc *rpc, int64_t passed_ms)
{
    int64_t silence_ms = rpc->protocol->silence_ms;

    rpc->pending.now_ms += passed_ms;
    rpc->unheard_ms += passed_ms;
    if (rpc->unheard_ms >= silence_ms / 3)
        ping(rpc);
    if (!rpc->silent && rpc->pinged && rpc->unheard_ms >= silence_ms)
        become_silent(rpc);
    else
        expire_overdue(rpc);
}

static void on_tick(void *arg)
{
    struct atoll_rpc *rpc = arg;
    int64_t passed_ms = ATOLL_MIN(atoll_clock_ms() - rpc->ticked_ms, (int64_t)TICK_MAX_MS);

    rpc->busy = true;
    if (rpc->ticking && rpc->pending.count > 0 && rpc->events->expects(rpc->arg))
        check_silence(rpc, passed_ms);
    else if (!rpc->ticking && rpc->events->heartbeat(rpc->arg))
        ping(rpc);
    if (!rpc->closed)
        set_tick(rpc, rpc->pending.count > 0);
    rpc->busy = false;
    if (rpc->closed)
        release(rpc);
}

int64_t atoll_rpc_silent_ms(const struct atoll_rpc *rpc)
{
    return rpc && rpc->silent ? ATOLL_MAX(atoll_clock_ms() - rpc->silent_since_ms, (int64_t)1) : 0;
}

int atoll_rpc_peer_pidfd(const struct atoll_rpc *rpc)
{
    return atoll_unix_peer_pidfd(rpc->channel.fd);
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
    rpc->loop = loop;
    rpc->protocol = protocol;
    rpc->events = events;
    rpc->arg = arg;
    atoll_pending_init(&rpc->pending, protocol->waiting_max ? protocol->waiting_max : WAITING_MAX);
    r = atoll_channel_init(&rpc->channel, fd, OUT_MAX);
    if (r == 0)
        r = atoll_watch_open(&rpc->watch, loop, fd, EPOLLIN, ready, rpc);
    if (r < 0) {
        release(rpc);
        return atoll_fail_errno(err, -r, "watch connection");
    }
    if (protocol->silence_ms > 0)
        set_tick(rpc, false);
    *ret = rpc;
    return 0;
}

/* What a request sends. */
struct content {
    const struct atoll_msg_desc *desc;
    const void *msg;
    const int *fds;
    size_t nfds;
};

static int send_frame(struct atoll_rpc *rpc, uint16_t type, uint32_t id, const struct content *what)
{
    int r = rpc->over ? -EPIPE
                      : atoll_channel_send(&rpc->channel, type, id, what->desc, what->msg,
                                           what->fds, what->nfds);

    if (r < 0)
        return r;
    r = atoll_channel_flush(&rpc->channel);
    /* A broken connection is reported on the next turn of the loop, not from inside this call. */
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

static int ask(struct atoll_rpc *rpc, const struct atoll_pending_request *request,
               const struct content *what, struct atoll_error *err)
{
    uint16_t type = request->type;
    uint32_t id;
    int r = atoll_pending_add(&rpc->pending, request, &id);

    if (r == 0 && rpc->protocol->silence_ms > 0 && !rpc->ticking) {
        rpc->unheard_ms = 0;
        set_tick(rpc, true);
    }
    if (r == 0) {
        r = send_frame(rpc, type, id, what);
        if (r < 0)
            atoll_pending_forget(&rpc->pending, id);
    }
    if (r == -ENOBUFS || r == -EMSGSIZE)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, -r,
                          r == -EMSGSIZE ? "the request is too large"
                                         : "too many requests wait for an answer; try again");
    return r < 0 ? atoll_fail(err, ATOLL_ERR_UNAVAILABLE, -r, "the connection is closed") : 0;
}

int atoll_rpc_ask(struct atoll_rpc *rpc, uint16_t type, const struct atoll_msg_desc *desc,
                  const void *msg, atoll_answer_fn *fn, void *arg, struct atoll_error *err)
{
    return atoll_rpc_ask_with(rpc, type, desc, msg, NULL, 0, fn, arg, err);
}

int atoll_rpc_ask_with(struct atoll_rpc *rpc, uint16_t type, const struct atoll_msg_desc *desc,
                       const void *msg, const int *fds, size_t nfds, atoll_answer_fn *fn, void *arg,
                       struct atoll_error *err)
{
    const struct content what = {desc, msg, fds, nfds};
    bool watched = rpc->protocol->silence_ms > 0;
    const struct atoll_pending_request request = {
        .fn = fn,
        .arg = arg,
        .type = type,
        .takes_parts = is_list(rpc, type),
        .limit_ms = watched ? rpc->protocol->limit_ms(type) : ATOLL_LIMIT_NEVER};

    if (rpc->silent && request.limit_ms != ATOLL_LIMIT_NEVER)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, ETIMEDOUT,
                          "%s has not answered for %lld s; try again later", peer_name(rpc),
                          (long long)atoll_rpc_silent_ms(rpc) / 1000);
    return ask(rpc, &request, &what, err);
}

int atoll_rpc_ask_patiently(struct atoll_rpc *rpc, uint16_t type, const struct atoll_msg_desc *desc,
                            const void *msg, atoll_answer_fn *fn, void *arg,
                            struct atoll_error *err)
{
    const struct atoll_pending_request request = {.fn = fn,
                                                  .arg = arg,
                                                  .type = type,
                                                  .takes_parts = is_list(rpc, type),
                                                  .limit_ms = ATOLL_LIMIT_NEVER};

    return ask(rpc, &request, &(struct content){.desc = desc, .msg = msg}, err);
}

int atoll_rpc_tell(struct atoll_rpc *rpc, uint16_t type, const struct atoll_msg_desc *desc,
                   const void *msg)
{
    return send_frame(rpc, type, 0, &(struct content){.desc = desc, .msg = msg});
}

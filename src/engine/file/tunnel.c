#include "engine/file/tunnel.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include "base/memory.h"
#include "base/text.h"
#include "engine/engine_internal.h"

/* The agent itself gives up after 5 seconds. */
#define TIME_LIMIT_MS 15000
/* Maximum size of the answer: enough for an error text. */
#define ANSWER_MAX 4096
#define REQUEST 1

/* Since Linux 6.16: the peer cannot pass descriptors, which the kernel would close on the thread
 * that reads. */
#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

struct opening {
    struct atoll_engine *engine;
    char sandbox_id[ATOLL_ID_LEN + 1];
    struct atoll_channel
        channel; /* only for sending; ready() reads the answer itself, see tunnel.h */
    struct atoll_watch watch;
    struct atoll_timer timer;
    uint8_t answer[ATOLL_FRAME_HEADER + ANSWER_MAX];
    size_t got;
    atoll_connected_fn *done;
    void *arg;
};

static void end(struct opening *o, const struct atoll_error *error)
{
    atoll_connected_fn *done = o->done;
    void *arg = o->arg;
    int fd = ATOLL_TAKE_FD(o->channel.fd);

    atoll_timer_cancel(&o->timer);
    atoll_watch_close(&o->watch);
    if (error)
        atoll_engine_discard(o->engine, o->sandbox_id, ATOLL_TAKE_FD(fd));
    atoll_channel_done(&o->channel);
    free(o);
    done(arg, fd, error);
}

static void end_errno(struct opening *o, int errnum)
{
    struct atoll_error err;

    (void)atoll_fail(&err, ATOLL_ERR_UNAVAILABLE, errnum,
                     "the connection into the sandbox was lost: %s",
                     errnum == EPIPE ? "closed" : strerror(errnum));
    end(o, &err);
}

static void time_is_up(void *arg)
{
    struct atoll_error err;

    (void)atoll_fail(&err, ATOLL_ERR_UNAVAILABLE, ETIMEDOUT,
                     "the sandbox did not answer within %d seconds", TIME_LIMIT_MS / 1000);
    end(arg, &err);
}

/* The size of the answer, as far as it is known from the bytes received; 0: malformed. */
static size_t answer_size(const struct opening *o)
{
    uint32_t len;

    if (o->got < ATOLL_FRAME_HEADER)
        return ATOLL_FRAME_HEADER;
    memcpy(&len, o->answer, sizeof(len));
    return le32toh(len) <= ANSWER_MAX ? ATOLL_FRAME_HEADER + le32toh(len) : 0;
}

static void answered(struct opening *o)
{
    struct atoll_frame frame = {.payload = o->answer + ATOLL_FRAME_HEADER,
                                .len = o->got - ATOLL_FRAME_HEADER};
    struct atoll_error error, err;

    memcpy(&frame.type, o->answer + 4, sizeof(frame.type));
    frame.type = le16toh(frame.type);
    if (frame.type == ATOLL_AGENT_REPLY)
        end(o, NULL);
    else if (frame.type != ATOLL_AGENT_ERROR)
        end_errno(o, EBADMSG);
    else
        end(o, atoll_agent_protocol.decode_error(&frame, &error, &err) < 0 ? &err : &error);
}

static void ready(void *arg, uint32_t events)
{
    struct opening *o = arg;
    size_t want = 1;
    ssize_t n;
    int r = 0;

    if (events & EPOLLOUT)
        r = atoll_channel_flush(&o->channel);
    if (r > 0)
        r = atoll_watch_set(&o->watch, EPOLLIN);
    while (r >= 0 && o->got < (want = answer_size(o))) {
        n = recv(o->channel.fd, o->answer + o->got, want - o->got, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0)
            r = n < 0 ? -errno : -EPIPE;
        else
            o->got += (size_t)n;
    }
    if (r < 0 || want == 0)
        end_errno(o, r < 0 ? -r : EBADMSG);
    else
        answered(o);
}

void atoll_tunnel_open(struct atoll_engine *engine, const char *sandbox_id, int fd, uint16_t port,
                       atoll_connected_fn *done, void *arg)
{
    const struct atoll_am_connect msg = {.port = port};
    const int off = 0;
    struct opening *o = atoll_alloc(sizeof(*o));
    int r;

    (void)setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof(off));
    o->engine = engine;
    (void)!atoll_text_copy(o->sandbox_id, sizeof(o->sandbox_id), sandbox_id);
    o->done = done;
    o->arg = arg;
    r = atoll_channel_init(&o->channel, fd, ATOLL_FRAME_PAYLOAD_MAX);
    if (r == 0)
        r = atoll_channel_send(&o->channel, ATOLL_AGENT_TUNNEL, REQUEST, &atoll_am_connect_desc,
                               &msg, NULL, 0);
    if (r == 0)
        r = atoll_watch_open(&o->watch, engine->loop, fd, EPOLLIN | EPOLLOUT, ready, o);
    if (r < 0) {
        end_errno(o, -r);
        return;
    }
    atoll_timer_set(&o->timer, engine->loop, TIME_LIMIT_MS, time_is_up, o);
}

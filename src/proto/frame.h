#pragma once
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "proto/msg.h"

/*
 * Frames on a byte stream, with descriptors beside them where the stream is a unix socket.
 * Header, 12 bytes little-endian: u32 payload length, u16 type, u16 descriptor count, u32 id.
 * The same framing carries the agent protocol and the spawn protocol.
 * Blocking: none here; the channel works on non-blocking sockets and says when to poll.
 */
#define ATOLL_FRAME_HEADER 12
#define ATOLL_FRAME_PAYLOAD_MAX (256 * 1024)

struct atoll_frame {
    uint16_t type;
    uint32_t id;
    const uint8_t *payload; /* borrowed until the handler returns */
    size_t len;
    int fds[ATOLL_FD_PASS_MAX]; /* owned by the handler once delivered */
    size_t nfds;
};

/*
 * One end of a framed connection. Input is delivered frame by frame; output is queued up to a
 * maximum and written as the socket takes it.
 */
struct atoll_channel {
    int fd; /* owned */
    struct atoll_buf in, out;
    int in_fds[4 * ATOLL_FD_PASS_MAX]; /* received, not yet claimed by a frame */
    size_t in_nfds;
    struct {
        size_t at; /* distance from the front of `out` to the frame they belong to */
        int fd;    /* owned */
    } out_fds[4 * ATOLL_FD_PASS_MAX];
    size_t out_nfds;
    /* Closes what a peer that is not trusted passed, and the connection; NULL: close(2). */
    void (*discard)(void *arg, int fd);
    void *discard_arg;
};

/* Takes fd over (made non-blocking). out_max bounds what may wait to be sent. */
int atoll_channel_init(struct atoll_channel *c, int fd, size_t out_max) ATOLL_MUST_CHECK;
void atoll_channel_done(struct atoll_channel *c);

/* Queues a frame whose payload is `msg` by `desc` (desc NULL: empty payload). Descriptors are
 * duplicated, the caller keeps its own. -ENOBUFS when the queue is full; nothing is queued then. */
int atoll_channel_send(struct atoll_channel *c, uint16_t type, uint32_t id,
                       const struct atoll_msg_desc *desc, const void *msg, const int *fds,
                       size_t nfds) ATOLL_MUST_CHECK;
/* Writes what the socket takes. 1: all gone, 0: wait for EPOLLOUT, -errno: broken. */
int atoll_channel_flush(struct atoll_channel *c) ATOLL_MUST_CHECK;
static inline size_t atoll_channel_pending(const struct atoll_channel *c)
{
    return atoll_buf_size(&c->out);
}

/* Reads once (not at all while a whole frame waits already) and hands each whole frame to fn; fn
 * returns < 0 to stop: that code is returned and a frame without descriptors is delivered again by
 * the next call. fn may free the channel only if it then returns < 0. 0: go on, -EPIPE: the peer closed,
 * -EBADMSG: garbage, -errno. */
int atoll_channel_receive(struct atoll_channel *c, int (*fn)(void *arg, struct atoll_frame *frame),
                          void *arg) ATOLL_MUST_CHECK;

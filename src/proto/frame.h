#pragma once
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "proto/msg.h"

/*
 * Frames on a byte stream; on a unix socket a frame can also carry file descriptors.
 * Header, 12 bytes little-endian: u32 payload length, u16 type, u16 descriptor count, u32 id.
 * The same framing carries the agent protocol and the spawn protocol.
 * Blocking: never; the channel works on non-blocking sockets and its return codes say when to poll.
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
    /* Closes the connection and descriptors received from an untrusted peer, where close(2) can
     * block. NULL: close(2). */
    void (*discard)(void *arg, int fd);
    void *discard_arg;
};

/* Takes ownership of fd and makes it non-blocking. out_max bounds the output queue in bytes. */
int atoll_channel_init(struct atoll_channel *c, int fd, size_t out_max) ATOLL_MUST_CHECK;
void atoll_channel_done(struct atoll_channel *c);

/* Queues a frame whose payload is `msg` encoded by `desc` (desc NULL: empty payload). Descriptors
 * are duplicated; the caller keeps its own. -ENOBUFS if the queue is full; then nothing is
 * queued. */
int atoll_channel_send(struct atoll_channel *c, uint16_t type, uint32_t id,
                       const struct atoll_msg_desc *desc, const void *msg, const int *fds,
                       size_t nfds) ATOLL_MUST_CHECK;
/* Writes as much as the socket accepts. 1: the queue is empty, 0: wait for EPOLLOUT, -errno: the
 * connection is broken. */
int atoll_channel_flush(struct atoll_channel *c) ATOLL_MUST_CHECK;
static inline size_t atoll_channel_pending(const struct atoll_channel *c)
{
    return atoll_buf_size(&c->out);
}

/* Reads from the socket once (not if a complete frame is buffered already) and passes each complete
 * frame to fn. fn returns < 0 to stop: that code is returned, and a frame without descriptors is
 * delivered again by the next call. fn may free the channel only if it then returns < 0.
 * 0: success, -EPIPE: the peer closed, -EBADMSG: malformed input, -errno. */
int atoll_channel_receive(struct atoll_channel *c, int (*fn)(void *arg, struct atoll_frame *frame),
                          void *arg) ATOLL_MUST_CHECK;

#pragma once
#include <sys/uio.h>
#include "loop/loop.h"

/*
 * One connected, non-blocking byte stream on the loop: input by callback, output through a bounded queue
 * that is bypassed while the socket takes everything at once.
 * A const table (struct atoll_stream_ops) does the I/O: plain sockets here, TLS in net/tls.h.
 *
 * Blocking: nothing here blocks.
 * Thread: the loop's.
 * Ownership: the stream owns its descriptor and transport; atoll_stream_free() closes both, and may
 * be called from any callback. No callback is made from inside a call of the owner: a write to a peer
 * that is gone returns -EPIPE, and on_close is called later from the loop.
 */
struct atoll_stream;

/* The transport. Results as of recv/sendmsg, but -errno; -EAGAIN instead of waiting.
 * A transport that buffers input sets `buffers`: epoll does not report that input, so recv is called
 * again whenever it filled the whole buffer it was given. */
struct atoll_stream_ops {
    ssize_t (*recv)(void *transport, int fd, void *buf, size_t n);
    ssize_t (*sendv)(void *transport, int fd, const struct iovec *iov, int count);
    int (*shutdown)(void *transport, int fd); /* ends the sending side */
    bool (*wants_out)(void *transport);       /* recv must send first (a handshake); may be NULL */
    void (*free)(void *transport);            /* may be NULL */
    bool buffers;
};

/* Plain TCP and unix sockets; transport is NULL. */
extern const struct atoll_stream_ops atoll_stream_socket_ops;

struct atoll_stream_callbacks {
    /* Bytes arrived; returns how many were consumed. The rest is buffered and offered again after
     * atoll_stream_resume(): an owner that consumes less than n must pause first. */
    size_t (*on_input)(void *arg, const uint8_t *bytes, size_t n);
    /* The queue fell below the high-water mark after having been above it, or is empty after
     * atoll_stream_await_empty(). May be NULL. */
    void (*on_drain)(void *arg);
    /* The peer will send no more: called once, after all input was consumed. Writing may still work.
     * While paused it is called even if input is left, so that a disconnected peer is noticed.
     * NULL: on_close(arg, 0) is called instead. */
    void (*on_eof)(void *arg);
    /* The stream failed (-errno) or is closed completely (0): called once, as the last callback. The
     * owner still has to free the stream. */
    void (*on_close)(void *arg, int error);
    /* Report the peer's end only after all input, even while paused. For an owner that relays all
     * bytes. */
    bool ends_in_order;
};

struct atoll_stream_limits {
    size_t queue_bytes;      /* most bytes in the output queue */
    size_t high_water_bytes; /* see on_drain */
};

/* Takes ownership of fd (non-blocking, close-on-exec) even on failure, and of transport on success. */
int atoll_stream_new(struct atoll_loop *loop, int fd, const struct atoll_stream_ops *ops,
                     void *transport, const struct atoll_stream_limits *limits,
                     const struct atoll_stream_callbacks *callbacks, void *arg,
                     struct atoll_stream **ret_stream, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Drops queued bytes and closes. Accepts NULL; returns NULL. */
struct atoll_stream *atoll_stream_free(struct atoll_stream *s);

/* Passes the stream to another owner, for example on an upgrade to WebSocket. Input that the old owner
 * did not consume is offered to the new one after atoll_stream_resume(). */
void atoll_stream_set_owner(struct atoll_stream *s, const struct atoll_stream_callbacks *callbacks,
                            void *arg);

/* Sends what the socket takes and queues the rest. Accepts all bytes or none: -ENOBUFS beyond
 * queue_bytes, -EPIPE if the stream failed or was shut down. */
int atoll_stream_write(struct atoll_stream *s, const void *bytes, size_t n) ATOLL_MUST_CHECK;
int atoll_stream_writev(struct atoll_stream *s, const struct iovec *iov,
                        int count) ATOLL_MUST_CHECK;
/* The same without the limit queue_bytes: for a message that the caller has in memory anyway. */
int atoll_stream_writev_whole(struct atoll_stream *s, const struct iovec *iov,
                              int count) ATOLL_MUST_CHECK;
/* While corked (calls nest) bytes are only queued; the last uncork sends them together. */
void atoll_stream_cork(struct atoll_stream *s);
void atoll_stream_uncork(struct atoll_stream *s);
/* Bytes accepted but not yet taken by the kernel. */
size_t atoll_stream_pending(const struct atoll_stream *s);
/* Calls on_drain once more when the queue is empty. Requires queued bytes. */
void atoll_stream_await_empty(struct atoll_stream *s);
/* Half-close: the peer sees end of file after the last queued byte. Idempotent. */
void atoll_stream_shutdown(struct atoll_stream *s);
/* Sends queued bytes, half-closes, drops input until the peer ends too or a second has passed, then
 * calls on_close(arg, 0). Closing immediately while the peer still sends would reset the connection,
 * which could destroy the last bytes in flight (RFC 9112 section 9.6). */
void atoll_stream_close_after_flush(struct atoll_stream *s);

/* Back-pressure: no on_input until resumed. Buffered input is then offered from the loop, not from
 * inside atoll_stream_resume(). */
void atoll_stream_pause(struct atoll_stream *s);
void atoll_stream_resume(struct atoll_stream *s);

/* When bytes were last sent or received, or waiting for them began (reading was resumed, the queue
 * started to fill), in terms of atoll_loop_now_ms(). For the owner's idle timeout. */
int64_t atoll_stream_active_ms(const struct atoll_stream *s);
struct atoll_loop *atoll_stream_loop(const struct atoll_stream *s);
int atoll_stream_fd(const struct atoll_stream *s);

#pragma once
#include <sys/uio.h>
#include "loop/loop.h"

/*
 * One connected, non-blocking byte stream on the loop: bytes in by callback, bytes out through a
 * bounded queue that is bypassed while the socket takes everything at once.
 * Reading and writing go through a small const table: plain sockets here, TLS in net/tls.h.
 *
 * Blocking: nothing here blocks.
 * Thread: the loop's.
 * Ownership: the stream owns its descriptor and transport; atoll_stream_free() closes both, and may
 * be called from inside any callback. No callback is ever made from inside a call the owner makes:
 * a write that finds the peer gone returns -EPIPE and on_close follows from the loop.
 */
struct atoll_stream;

/* What moves the bytes. Results as in recv/sendmsg, but -errno; -EAGAIN when nothing moves now.
 * A transport that keeps input of its own says so with `buffers`: the kernel does not report that
 * input again, so whenever recv filled all it was given, it is called again. */
struct atoll_stream_ops {
    ssize_t (*recv)(void *transport, int fd, void *buf, size_t n);
    ssize_t (*sendv)(void *transport, int fd, const struct iovec *iov, int count);
    int (*shutdown)(void *transport, int fd); /* no more bytes from us */
    bool (*wants_out)(void *transport);       /* recv must send first (a handshake); may be NULL */
    void (*free)(void *transport);            /* NULL when there is nothing to free */
    bool buffers;
};

/* Plain tcp and unix sockets; has no transport object. */
extern const struct atoll_stream_ops atoll_stream_socket_ops;

struct atoll_stream_callbacks {
    /* Bytes arrived; returns how many were taken. The rest is kept and offered again after
     * atoll_stream_resume(), so whoever takes less than n pauses first. */
    size_t (*on_input)(void *arg, const uint8_t *bytes, size_t n);
    /* The queue fell below the high-water mark after having been above it, or is empty and somebody
     * waits for that. May be NULL. */
    void (*on_drain)(void *arg);
    /* The peer will send no more: once, after all input was taken. Writing may still work. While
     * paused this is reported even with input left, since otherwise nobody would notice a peer
     * that hung up. NULL: treated as on_close(arg, 0). */
    void (*on_eof)(void *arg);
    /* The stream is broken (-errno) or has been closed in full: once, and nothing follows. The
     * owner still has to free it. */
    void (*on_close)(void *arg, int error);
    /* The peer's end waits for all input, also while paused: for whoever passes everything on. */
    bool ends_in_order;
};

struct atoll_stream_limits {
    size_t queue_bytes;      /* most bytes waiting to go out */
    size_t high_water_bytes; /* see on_drain */
};

/* Takes fd (non-blocking, close-on-exec) and, on success only, transport. */
int atoll_stream_new(struct atoll_loop *loop, int fd, const struct atoll_stream_ops *ops,
                     void *transport, const struct atoll_stream_limits *limits,
                     const struct atoll_stream_callbacks *callbacks, void *arg,
                     struct atoll_stream **ret_stream, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Drops what is queued and closes. Accepts NULL; returns NULL. */
struct atoll_stream *atoll_stream_free(struct atoll_stream *s);

/* Hands the stream to another owner, as an upgrade to WebSocket does. Input the old owner did not
 * take is offered to the new one after atoll_stream_resume(). */
void atoll_stream_set_owner(struct atoll_stream *s, const struct atoll_stream_callbacks *callbacks,
                            void *arg);

/* Sends at once what the socket takes and queues the rest. All or nothing is accepted: -ENOBUFS
 * past queue_bytes, -EPIPE when the stream is broken or was shut down. */
int atoll_stream_write(struct atoll_stream *s, const void *bytes, size_t n) ATOLL_MUST_CHECK;
int atoll_stream_writev(struct atoll_stream *s, const struct iovec *iov,
                        int count) ATOLL_MUST_CHECK;
/* The same, whatever queue_bytes says: for a message its maker already holds in memory whole. */
int atoll_stream_writev_whole(struct atoll_stream *s, const struct iovec *iov,
                              int count) ATOLL_MUST_CHECK;
/* While corked (calls nest) bytes are only queued; the last uncork sends them in one go. */
void atoll_stream_cork(struct atoll_stream *s);
void atoll_stream_uncork(struct atoll_stream *s);
/* Bytes accepted but not yet taken by the kernel. */
size_t atoll_stream_pending(const struct atoll_stream *s);
/* Calls on_drain once more when nothing is queued any more; something is. */
void atoll_stream_await_empty(struct atoll_stream *s);
/* Half-close: the peer sees the end after the last queued byte. Idempotent. */
void atoll_stream_shutdown(struct atoll_stream *s);
/* Sends what is queued, says so (half-close), drops input until the peer ends too or a second has
 * passed, then calls on_close(arg, 0). To close at once while the peer still sends would reset the
 * connection and could destroy the last bytes on their way to it (RFC 9112 section 9.6). */
void atoll_stream_close_after_flush(struct atoll_stream *s);

/* Back-pressure: no on_input until resumed. Kept input is then offered from the loop, never from
 * inside atoll_stream_resume(). */
void atoll_stream_pause(struct atoll_stream *s);
void atoll_stream_resume(struct atoll_stream *s);

/* When bytes last moved in either direction, or waiting for them began (reading was resumed, the
 * queue started to fill), in atoll_loop_now_ms(): the owner decides what is idle. */
int64_t atoll_stream_active_ms(const struct atoll_stream *s);
struct atoll_loop *atoll_stream_loop(const struct atoll_stream *s);
int atoll_stream_fd(const struct atoll_stream *s);

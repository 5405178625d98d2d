#pragma once
#include <nghttp2/nghttp2.h>
#include "net/http_internal.h"

/*
 * What the files of HTTP/2 share. nghttp2 handles frames, HPACK, windows and the state of each stream;
 * we pass received bytes to it and send the bytes it produces. Both call back into our code. A callback
 * may submit frames but must not send: sending happens after the input was processed, or in a timer of
 * the session (atoll_http2_wake()). So no call of a handler ends the request of another stream.
 */

#define HTTP2_STREAMS_MAX 128
/* Receive window of a stream before the handler asks for the body, and while it reads the body. */
#define HTTP2_WINDOW_START (64 * 1024)
#define HTTP2_WINDOW_READING (1024 * 1024)
#define HTTP2_WINDOW_CONN (1024 * 1024)
/* Most body bytes buffered for the handlers of one connection; above it the client gets no credit. */
#define HTTP2_HELD_MAX ((size_t)4 * 1024 * 1024)

/* A connection. */
struct atoll_http2 {
    struct atoll_list node; /* of server->sessions */
    struct atoll_http_server *server;
    struct atoll_stream *stream; /* owned */
    nghttp2_session *lib;        /* owned */
    struct atoll_http_peer peer;
    struct atoll_list streams;     /* of struct atoll_http_conn.node */
    struct atoll_list close_hooks; /* of struct atoll_http_close_hook.node */
    struct atoll_timer kick;       /* sends, from the loop */
    unsigned depth;                /* callbacks running; the memory is freed after they return */
    bool dead;
    bool busy;     /* input is being processed; frames are sent after it */
    bool closing;  /* the last bytes are being sent; there are no streams any more */
    bool too_much; /* the client has exceeded one of its budgets */

    size_t held;           /* bytes in the `in` of all streams */
    size_t since_frame;    /* input since a frame other than CONTINUATION */
    int64_t head_since_ms; /* when an incomplete header block began; 0: there is none */
    int64_t refilled_ms;   /* see atoll_http2_charge() */
    int resets, noise;     /* budgets */
};

/* A request, from its HEADERS to the end of the stream. */
struct atoll_http2_stream {
    struct atoll_http_conn conn; /* first: both are freed as one */
    struct atoll_http2 *session;
    int32_t id;
    int method; /* -1: unknown */
    uint32_t path, authority;
    bool has_path, has_authority, bad_scheme;
    struct atoll_buf cookie; /* may be split into several fields (RFC 9113 section 8.2.3) */

    struct atoll_buf in;  /* body the handler has not taken yet */
    size_t owed;          /* of these, bytes not yet returned to the window of the connection */
    struct atoll_buf out; /* of the answer, not yet in frames */
    int64_t active_ms;    /* when bytes were last sent or received, or we began to wait for them */
    bool remote_ended;    /* the client has sent END_STREAM */
    bool ended;           /* the answer is complete in `out` */
    bool deferred;        /* nghttp2 waits for more of it */
    bool above;           /* `out` has exceeded the high-water mark */
    bool awaited;         /* call on_drain when `out` is empty (atoll_http_await_empty()) */
};

enum atoll_http2_cost { HTTP2_COST_RESET, HTTP2_COST_NOISE };

/* http2_session.c */
/* Sends soon what has been submitted. */
void atoll_http2_wake(struct atoll_http2 *h);
/* Charges a budget; a client that exceeds it is disconnected. */
void atoll_http2_charge(struct atoll_http2 *h, enum atoll_http2_cost cost);

/* http2_stream.c */
struct atoll_http2_stream *atoll_http2_stream_new(struct atoll_http2 *h, int32_t id);
/* Calls the handler's on_close, if it still has the request, and frees the stream. nghttp2 has already
 * closed the stream, or its session is about to be freed. */
void atoll_http2_stream_lost(struct atoll_http2_stream *st);
void atoll_http2_stream_field(struct atoll_http2_stream *st, const char *name, size_t name_len,
                              const char *value, size_t value_len);
/* The head is complete; ended: there is no body. */
void atoll_http2_stream_head(struct atoll_http2_stream *st, bool ended);
void atoll_http2_stream_data(struct atoll_http2_stream *st, const uint8_t *bytes, size_t n);
void atoll_http2_stream_end(struct atoll_http2_stream *st);
/* Delivers buffered body bytes, unless the handler has paused, and then the end of the body. */
void atoll_http2_stream_pump(struct atoll_http2_stream *st);
void atoll_http2_stream_reset(struct atoll_http2_stream *st, uint32_t code);
/* For an answer that is sent while the client still sends its body. */
void atoll_http2_stream_linger(struct atoll_http2_stream *st);
/* Restarts the idle timeout of the stream. */
static inline void atoll_http2_stream_touch(struct atoll_http2_stream *st)
{
    st->active_ms = atoll_loop_now_ms(st->conn.server->loop);
}
bool atoll_http2_is(const char *text, size_t n, const char *what);
bool atoll_http2_stream_is_expired(const struct atoll_http2_stream *st, int64_t now_ms);
void atoll_http2_stream_expire(struct atoll_http2_stream *st);

/* http2_answer.c */
extern const struct atoll_http_wire atoll_http2_wire;

#pragma once
#include <nghttp2/nghttp2.h>
#include "net/http_internal.h"

/*
 * What the files of HTTP/2 share. nghttp2 knows frames, HPACK, windows and the state of each
 * stream; we give it bytes and take bytes from it. It calls back from inside both, and from there
 * everything may be submitted but nothing sent: so sending is always left to the end of the input
 * or to a timer of the session (atoll_http2_wake()), and no handler ever sees a request of another
 * stream end inside a call it makes.
 */

#define HTTP2_STREAMS_MAX 128
/* A body nobody asked for yet may fill this much of our memory; one that is read, this much. */
#define HTTP2_WINDOW_START (64 * 1024)
#define HTTP2_WINDOW_READING (1024 * 1024)
#define HTTP2_WINDOW_CONN (1024 * 1024)
/* Bodies held for paused handlers of one connection: past that it is given no further credit. */
#define HTTP2_HELD_MAX ((size_t)4 * 1024 * 1024)

/* A connection. */
struct atoll_http2 {
    struct atoll_list node; /* of server->sessions */
    struct atoll_http_server *server;
    struct atoll_stream *stream; /* owned */
    nghttp2_session *lib;        /* owned */
    struct atoll_http_peer peer;
    struct atoll_list streams;   /* of struct atoll_http_conn.node */
    struct atoll_list farewells; /* of struct atoll_http_farewell.node */
    struct atoll_timer kick;     /* sends from the loop */
    unsigned depth;              /* callbacks running; memory stays until they return */
    bool dead;
    bool busy;     /* input is being read: sending follows anyway */
    bool closing;  /* the last bytes are on their way; there are no streams any more */
    bool too_much; /* the client has used up one of its budgets */

    size_t held;           /* bytes in the `in` of all streams */
    size_t since_frame;    /* input since a frame other than CONTINUATION */
    int64_t head_since_ms; /* a header block is incomplete since then; 0: none is */
    int64_t refilled_ms;   /* see atoll_http2_charge() */
    int resets, noise;     /* budgets */
};

/* A request, from its HEADERS to the end of the stream. */
struct atoll_http2_stream {
    struct atoll_http_conn conn; /* first: both are freed as one */
    struct atoll_http2 *session;
    int32_t id;
    int method; /* -1: none we know */
    uint32_t path, authority;
    bool has_path, has_authority, bad_scheme;
    struct atoll_buf cookie; /* RFC 9113 section 8.2.3: may come in pieces */

    struct atoll_buf in;  /* body the handler has not taken yet */
    size_t owed;          /* of it: not yet given back to the window of the connection */
    struct atoll_buf out; /* of the answer, not yet in frames */
    int64_t active_ms;    /* when bytes last moved, or waiting for them began */
    bool remote_ended;    /* the client's last byte is here */
    bool ended;           /* the answer is complete in `out` */
    bool deferred;        /* nghttp2 waits for more of it */
    bool above;           /* `out` has exceeded the high-water mark */
    bool awaited;         /* somebody waits until it is empty */
};

enum atoll_http2_cost { HTTP2_COST_RESET, HTTP2_COST_NOISE };

/* http2_session.c */
/* Sends soon what has been submitted. */
void atoll_http2_wake(struct atoll_http2 *h);
/* Takes one from a budget; a client that overdraws it is disconnected. */
void atoll_http2_charge(struct atoll_http2 *h, enum atoll_http2_cost cost);

/* http2_stream.c */
struct atoll_http2_stream *atoll_http2_stream_new(struct atoll_http2 *h, int32_t id);
/* Tells the handler, if it still has the request, and frees. The library knows the stream no more,
 * or is about to be freed itself. */
void atoll_http2_stream_lost(struct atoll_http2_stream *st);
void atoll_http2_stream_field(struct atoll_http2_stream *st, const char *name, size_t name_len,
                              const char *value, size_t value_len);
/* The head is complete; ended: there is no body. */
void atoll_http2_stream_head(struct atoll_http2_stream *st, bool ended);
void atoll_http2_stream_data(struct atoll_http2_stream *st, const uint8_t *bytes, size_t n);
void atoll_http2_stream_end(struct atoll_http2_stream *st);
/* Hands out what is kept of the body, as far as the handler wants it, and the end behind it. */
void atoll_http2_stream_pump(struct atoll_http2_stream *st);
void atoll_http2_stream_reset(struct atoll_http2_stream *st, uint32_t code);
/* The answer is out, but the client still sends its body. */
void atoll_http2_stream_linger(struct atoll_http2_stream *st);
/* Waiting begins anew. */
static inline void atoll_http2_stream_touch(struct atoll_http2_stream *st)
{
    st->active_ms = atoll_loop_now_ms(st->conn.server->loop);
}
bool atoll_http2_is(const char *text, size_t n, const char *what);
bool atoll_http2_stream_is_expired(const struct atoll_http2_stream *st, int64_t now_ms);
void atoll_http2_stream_expire(struct atoll_http2_stream *st);

/* http2_answer.c */
extern const struct atoll_http_wire atoll_http2_wire;

#pragma once
#include <llhttp.h>
#include "base/buf.h"
#include "base/list.h"
#include "base/shares.h"
#include "net/http_server.h"
#include "net/listener.h"
#include "net/stream.h"

/*
 * What the files of the HTTP server share.
 *   http_server.c     server, connections, timeouts
 *   http_head.c       rules for a request head in every version
 *   http_request.c    the request as handlers see it; its body
 *   http_response.c   answers, in every version
 *   http_close_hook.c callbacks for the end of a connection
 *   http1_head.c      HTTP/1: rejects what llhttp accepts and we do not
 *   http1_input.c     HTTP/1: from bytes to requests
 *   http1_output.c    HTTP/1: from answers to bytes
 *   http2_session.c   HTTP/2: one connection, its frames and its limits
 *   http2_stream.c    HTTP/2: one request and its body
 *   http2_answer.c    HTTP/2: from answers to frames
 * A connection embeds the one request it can have at a time: a request needs no allocation once the
 * connection's buffers are large enough. In HTTP/2 each stream is such a connection, without a parser
 * and a byte stream of its own. struct atoll_http_wire hides the differences.
 */

struct atoll_http_conn;

/* The operations that differ between HTTP/1 and HTTP/2. */
struct atoll_http_wire {
    /* length: the Content-Length, -1 if unknown. */
    void (*begin)(struct atoll_http_request *req, int status, const char *content_type,
                  int64_t length);
    int (*write)(struct atoll_http_request *req, const void *bytes, size_t n);
    /* The answer is complete. */
    void (*end)(struct atoll_http_request *req);
    /* begin, all bytes and end in one. */
    void (*respond)(struct atoll_http_request *req, int status, const char *content_type,
                    const void *bytes, size_t n);
    /* Aborts, so that the client cannot take a partial answer for a complete one. */
    void (*cut)(struct atoll_http_conn *c);
    size_t (*pending)(const struct atoll_http_conn *c);
    void (*await_empty)(struct atoll_http_conn *c);
    /* Sends an informational response. fields: "Name: value\r\n" lines. */
    void (*inform)(struct atoll_http_conn *c, int status, struct atoll_buf *fields);
    void (*pause)(struct atoll_http_conn *c);
    void (*resume)(struct atoll_http_conn *c);
    /* Called from the loop after atoll_http_conn_kick(). */
    void (*kicked)(struct atoll_http_conn *c);
};

enum atoll_http_phase {
    PHASE_HANDSHAKE, /* TLS: the version is not known yet */
    PHASE_IDLE,      /* between requests, no byte of the next one seen */
    PHASE_HEAD,      /* reading a head */
    PHASE_SERVING,   /* the handler has the request; its body may still be arriving */
    PHASE_DRAIN,     /* answered; dropping the rest of its body */
    PHASE_CLOSING,   /* sending the last bytes */
};

enum atoll_http_body_mode {
    BODY_UNREAD, /* the handler has not asked for it yet */
    BODY_COLLECT,
    BODY_STREAM,
};

/* A header: offsets into conn->head of two NUL-terminated strings. */
struct atoll_http_header_field {
    uint32_t name, value;
};

/* State of the checks that llhttp does not make: line ends and the syntax of the request line. */
struct atoll_http_lines {
    uint8_t last;   /* previous byte */
    uint8_t spaces; /* seen in the request line */
    bool past_request_line;
    bool after_chunk; /* the next framing byte follows chunk data */
};

struct atoll_http_request {
    struct atoll_http_conn *conn;
    enum atoll_http_method method;
    uint32_t path, target;     /* offsets into conn->head */
    uint32_t query, query_len; /* "name\0value\0" pairs in conn->head */
    int64_t content_length;    /* -1: chunked */
    bool http10, http2, keep_alive, expect_continue, has_encoded_slash;
    void *user;

    enum atoll_http_body_mode body_mode;
    bool body_done;    /* its last byte has been parsed */
    bool body_told;    /* `done` or on_end has been called */
    bool body_paused;  /* by the handler */
    size_t body_max;   /* COLLECT */
    uint64_t body_got; /* bytes parsed so far */
    void (*on_body)(void *arg, struct atoll_http_request *req, const uint8_t *bytes, size_t n);
    void (*on_end)(void *arg, struct atoll_http_request *req);
    void (*on_too_large)(void *arg, struct atoll_http_request *req); /* COLLECT; or NULL */
    void *body_arg;

    char reason[ATOLL_HTTP_REASON_MAX + 1]; /* of the status line; "": the default */
    char date[32];                          /* "": now */
    bool begun, chunked, no_body;           /* no_body: HEAD, 204, 304 */
    int64_t left; /* bytes left of the Content-Length, -1 if there is none */
    void (*on_drain)(void *arg, struct atoll_http_request *req);
    void *drain_arg;
    void (*on_close)(void *arg, struct atoll_http_request *req);
    void *close_arg;
};

struct atoll_http_conn {
    struct atoll_list node; /* of the server, or of the HTTP/2 connection */
    struct atoll_http_server *server;
    const struct atoll_http_wire *wire;
    struct atoll_stream *stream; /* owned; NULL in HTTP/2, and once handed to a WebSocket */
    struct atoll_tls_conn *tls;  /* the stream's; NULL without TLS */
    struct atoll_http_peer peer;
    enum atoll_http_phase phase;
    unsigned depth; /* callbacks running; the memory is freed after they return */
    bool dead;

    llhttp_t parser;
    struct atoll_http_lines lines;
    struct atoll_buf head; /* strings of the request */
    size_t head_bytes;     /* of the head, or of chunk framing and trailers, so far */
    int64_t head_since_ms;
    struct atoll_http_header_field *fields; /* owned */
    size_t field_count, field_cap;
    int reject_status; /* set by a parser callback together with reject_text */
    const char *reject_text;
    bool head_done, message_done;
    bool dispatching;    /* on_request is running; the body is delivered after it */
    const uint8_t *span; /* body bytes found by the last parser step */
    size_t span_len;

    struct atoll_http_request req;
    struct atoll_buf body;         /* COLLECT, if it arrives in several pieces */
    struct atoll_buf extra;        /* response headers set by the handler, then trailers */
    struct atoll_list close_hooks; /* of struct atoll_http_close_hook.node; HTTP/1 only */
    bool corked;                   /* more pipelined requests follow: send their answers together */
    bool held;                     /* a head or small pieces are held back to be sent together */
    struct atoll_timer kick;       /* delivers the body, or sends what is held, from the loop */
};

#define HTTP_MAX_LISTENERS 8

/* One address a server listens on. */
struct atoll_http_port {
    struct atoll_http_server *server;
    struct atoll_listener *listener; /* owned */
    struct atoll_tls *tls;           /* owned; NULL: plain */
};

struct atoll_http_server {
    struct atoll_loop *loop;
    struct atoll_http_limits limits;
    void (*on_request)(void *arg, struct atoll_http_request *req);
    void *arg;
    struct atoll_list conns;
    struct atoll_list upgraded;      /* of http_upgrade.node */
    struct atoll_list sessions;      /* of HTTP/2 */
    struct atoll_shares connections; /* all connections, counted by peer.source */
    struct atoll_http_port ports[HTTP_MAX_LISTENERS];
    size_t port_count;
    struct atoll_timer sweep;      /* checks timeouts while there are connections */
    struct atoll_list close_hooks; /* of closed connections; to be called */
    struct atoll_timer hook_timer; /* runs `close_hooks` */
    int64_t date_s;                /* the second of `date` */
    char date[32];
};

/* A connection that was upgraded (WebSocket, tunnel) still counts against the server's maximum. */
struct atoll_http_upgrade {
    struct atoll_list node;
    struct atoll_list close_hooks;    /* of the connection */
    struct atoll_http_server *server; /* NULL once the server is freed */
    char source[64];
};

/* http_server.c */
void atoll_http_conn_close(struct atoll_http_conn *c);
/* Calls on_close of the unanswered request of a connection that is about to be closed. */
void atoll_http_conn_lost(struct atoll_http_conn *c);
/* Takes the byte stream out of a connection, which ends the request. */
struct atoll_stream *atoll_http_conn_upgrade(struct atoll_http_conn *c,
                                             struct atoll_http_upgrade *upgrade);
void atoll_http_upgrade_done(struct atoll_http_upgrade *upgrade);

/* http_close_hook.c */
/* Initialises `to` and moves all of `from` to it. */
void atoll_http_close_hooks_move(struct atoll_list *from, struct atoll_list *to);
/* The connection is closed: schedules its close hooks. */
void atoll_http_close_hooks_release(struct atoll_http_server *s, struct atoll_list *from);
/* Calls the scheduled close hooks immediately. */
void atoll_http_close_hooks_run(struct atoll_http_server *s);

/* http_request.c */
/* Calls the handler with a request whose head is complete. */
void atoll_http_request_serve(struct atoll_http_conn *c);
/* Passes a piece of the body to the handler, or stores it (COLLECT). */
void atoll_http_request_piece(struct atoll_http_conn *c, const uint8_t *bytes, size_t n);
/* Delivers buffered body bytes and the end of the body, unless the handler has paused. */
void atoll_http_request_deliver(struct atoll_http_conn *c);
void atoll_http_conn_kick(struct atoll_http_conn *c);

/* http_head.c */
/* Whether the text is a token, such as a header name (RFC 9110 section 5.6.2). */
bool atoll_http_is_token(const char *text, size_t n);
/* Ensures that fields[field_count] exists; if not, sets c->reject_* and returns false. */
bool atoll_http_head_room(struct atoll_http_conn *c);
bool atoll_http_head_append(struct atoll_http_conn *c, const void *bytes, size_t n);
/* Sets c->reject_* for a head that could not be stored (r: -ENOBUFS, -ENOMEM); returns false. */
bool atoll_http_head_refuse(struct atoll_http_conn *c, int r);
/* Sets req.path and req.query from the target at that offset of c->head, and checks the headers that
 * define destination and framing. The caller has set req.method and req.http*. On failure sets
 * c->reject_* and returns false. */
bool atoll_http_head_check(struct atoll_http_conn *c, uint32_t target);
bool atoll_http_reject_with(struct atoll_http_conn *c, int status, const char *text);

/* http_response.c */
/* Answers a request that the handler does not have (any more), and closes the connection. */
void atoll_http_conn_reject(struct atoll_http_conn *c, int status, const char *text);
/* "OK", "Not Found" …; never NULL. */
const char *atoll_http_reason(int status);
bool atoll_http_is_field_value(const char *text);
/* The Date header of an answer: the one that was set, or the current time. Borrowed. */
const char *atoll_http_date(struct atoll_http_request *req);

/* http1_input.c */
extern const llhttp_settings_t atoll_http1_parser_settings;
size_t atoll_http1_input(struct atoll_http_conn *c, const uint8_t *bytes, size_t n);

/* http1_output.c */
extern const struct atoll_http_wire atoll_http1_wire;
/* The complete answer for a client beyond limits.connections; needs no connection object. */
extern const char atoll_http1_busy_answer[];
int atoll_http_respond_upgrade(struct atoll_http_request *req, const char *fields);

/* http1_head.c */
/* Checks framing bytes; false if another parser could interpret them differently. */
bool atoll_http1_lines_check(struct atoll_http_lines *lines, const uint8_t *bytes, size_t n);
/* Fills c->req from a complete head. On failure sets c->reject_* and returns false. */
bool atoll_http1_head_finish(struct atoll_http_conn *c);

/* http2_session.c */
struct atoll_http2;
/* Makes an HTTP/2 session of the byte stream of c, from which nothing has been read, and frees c.
 * NULL without memory; the connection is then closed. */
struct atoll_http2 *atoll_http2_take_over(struct atoll_http_conn *c);
size_t atoll_http2_input(struct atoll_http2 *h, const uint8_t *bytes, size_t n);
/* Ends expired sessions and streams. */
void atoll_http2_sweep(struct atoll_http_server *s);
/* Closes all sessions; calls on_close of open requests. */
void atoll_http2_close_all(struct atoll_http_server *s);

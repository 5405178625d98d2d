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
 *   http_head.c       what a request must look like in any version
 *   http_request.c    the request as handlers see it; its body
 *   http_response.c   answers, whatever the version
 *   http_farewell.c   who is told when a connection is closed
 *   http1_head.c      HTTP/1: what llhttp tolerates and we do not
 *   http1_input.c     HTTP/1: from bytes to requests
 *   http1_output.c    HTTP/1: from answers to bytes
 *   http2_session.c   HTTP/2: one connection, its frames and its limits
 *   http2_stream.c    HTTP/2: one request and its body
 *   http2_answer.c    HTTP/2: from answers to frames
 * A connection embeds the one request it can have at a time: a request costs no allocation once the
 * connection's buffers have grown to the usual size. In HTTP/2 each stream is such a connection; it
 * has no parser and no byte stream of its own. What differs is behind struct atoll_http_wire.
 */

struct atoll_http_conn;

/* What HTTP/1 and HTTP/2 do differently. */
struct atoll_http_wire {
    /* length is what Content-Length promises, -1 for unknown. */
    void (*begin)(struct atoll_http_request *req, int status, const char *content_type,
                  int64_t length);
    int (*write)(struct atoll_http_request *req, const void *bytes, size_t n);
    /* The answer is complete. */
    void (*end)(struct atoll_http_request *req);
    /* begin, all bytes and end in one. */
    void (*respond)(struct atoll_http_request *req, int status, const char *content_type,
                    const void *bytes, size_t n);
    /* Breaks off, so that the client cannot take what it got for the whole. */
    void (*cut)(struct atoll_http_conn *c);
    size_t (*pending)(const struct atoll_http_conn *c);
    void (*await_empty)(struct atoll_http_conn *c);
    /* Says 100 Continue. */
    void (*go_on)(struct atoll_http_conn *c);
    void (*pause)(struct atoll_http_conn *c);
    void (*resume)(struct atoll_http_conn *c);
    /* From the loop, after atoll_http_conn_kick(). */
    void (*kicked)(struct atoll_http_conn *c);
};

enum atoll_http_phase {
    PHASE_HANDSHAKE, /* TLS: the version is not known yet */
    PHASE_IDLE,      /* between requests, no byte of the next one seen */
    PHASE_HEAD,      /* reading a head */
    PHASE_SERVING,   /* the handler has the request; its body may still be coming */
    PHASE_DRAIN,     /* answered; dropping the rest of its body */
    PHASE_CLOSING,   /* sending the last bytes */
};

enum atoll_http_body_mode {
    BODY_UNREAD, /* nobody asked for it yet */
    BODY_COLLECT,
    BODY_STREAM,
};

/* A header: offsets into conn->head of two NUL-terminated strings. */
struct atoll_http_header_field {
    uint32_t name, value;
};

/* State of the check that llhttp leaves to us: line ends and the shape of the request line. */
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
    bool body_told;    /* done or on_end has been called */
    bool body_paused;  /* by the handler */
    size_t body_max;   /* COLLECT */
    uint64_t body_got; /* bytes parsed so far */
    void (*on_body)(void *arg, struct atoll_http_request *req, const uint8_t *bytes, size_t n);
    void (*on_end)(void *arg, struct atoll_http_request *req);
    void (*on_too_large)(void *arg, struct atoll_http_request *req); /* COLLECT; or NULL */
    void *body_arg;

    char reason[ATOLL_HTTP_REASON_MAX + 1]; /* of the status line; "": the usual one */
    bool begun, chunked, no_body;           /* no_body: HEAD, 204, 304 */
    int64_t left; /* of a promised Content-Length, -1 when there is none */
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
    unsigned depth; /* callbacks running; memory stays until they return */
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
    bool dispatching;    /* on_request is running: deliver() follows anyway */
    const uint8_t *span; /* body bytes found by the last parser step */
    size_t span_len;

    struct atoll_http_request req;
    struct atoll_buf body;       /* COLLECT, when it does not come in one piece */
    struct atoll_buf extra;      /* response headers set by the handler */
    struct atoll_list farewells; /* of struct atoll_http_farewell.node; HTTP/1 only */
    size_t drained;              /* bytes of an unwanted body dropped so far */
    bool corked;                 /* more requests follow in this input: answer them in one send */
    bool held;                   /* a head or small pieces wait for more */
    struct atoll_timer kick;     /* deliver(), or release what is held, from the loop */
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
    struct atoll_shares connections; /* all of them, by peer.source */
    struct atoll_http_port ports[HTTP_MAX_LISTENERS];
    size_t port_count;
    struct atoll_timer sweep;    /* looks for timeouts while there are connections */
    struct atoll_list farewells; /* of connections that are closed, to be called */
    struct atoll_timer parting;  /* calls them */
    int64_t date_s;              /* second that `date` shows */
    char date[32];
};

/* A connection that became something else still counts against the server's maximum. */
struct atoll_http_upgrade {
    struct atoll_list node;
    struct atoll_list farewells;      /* of the connection */
    struct atoll_http_server *server; /* NULL when gone before us */
    char source[64];
};

/* http_server.c */
void atoll_http_conn_close(struct atoll_http_conn *c);
/* Ends an unanswered request of a connection that is to be closed. */
void atoll_http_conn_lost(struct atoll_http_conn *c);
/* Takes the stream out of a connection whose request ends with that. */
struct atoll_stream *atoll_http_conn_upgrade(struct atoll_http_conn *c,
                                             struct atoll_http_upgrade *upgrade);
void atoll_http_upgrade_done(struct atoll_http_upgrade *upgrade);

/* http_farewell.c */
/* All of `from` go to `to`, which is empty. */
void atoll_http_farewells_move(struct atoll_list *from, struct atoll_list *to);
/* Their connection is closed: they are called soon. */
void atoll_http_farewells_release(struct atoll_http_server *s, struct atoll_list *from);
/* Calls those that wait, at once. */
void atoll_http_farewells_say(struct atoll_http_server *s);

/* http_request.c */
/* Calls the handler with a request whose head is complete. */
void atoll_http_request_serve(struct atoll_http_conn *c);
/* Hands a piece of the body to whoever asked for it. */
void atoll_http_request_piece(struct atoll_http_conn *c, const uint8_t *bytes, size_t n);
/* Tells the handler what it may be told by now about the body. */
void atoll_http_request_deliver(struct atoll_http_conn *c);
void atoll_http_conn_kick(struct atoll_http_conn *c);

/* http_head.c */
/* Whether it can be the name of a header (RFC 9110 section 5.6.2). */
bool atoll_http_is_token(const char *text, size_t n);
/* Makes sure that fields[field_count] exists; false sets c->reject_*. */
bool atoll_http_head_room(struct atoll_http_conn *c);
bool atoll_http_head_append(struct atoll_http_conn *c, const void *bytes, size_t n);
/* Its head found no room, because of r; false. */
bool atoll_http_head_refuse(struct atoll_http_conn *c, int r);
/* Fills in req.path and req.query from the target at that offset of c->head, and checks the fields
 * that matter for where the request goes and ends. req.method and req.http* are set before. False
 * sets c->reject_*. */
bool atoll_http_head_check(struct atoll_http_conn *c, uint32_t target);
bool atoll_http_reject_with(struct atoll_http_conn *c, int status, const char *text);

/* http_response.c */
/* Answers a request that is not (or no longer) the handler's, and closes. */
void atoll_http_conn_reject(struct atoll_http_conn *c, int status, const char *text);
/* "OK", "Not Found" …; never NULL. */
const char *atoll_http_reason(int status);
bool atoll_http_is_field_value(const char *text);
/* Now, as the Date header wants it. */
const char *atoll_http_date(struct atoll_http_server *s);

/* http1_input.c */
extern const llhttp_settings_t atoll_http1_parser_settings;
size_t atoll_http1_input(struct atoll_http_conn *c, const uint8_t *bytes, size_t n);

/* http1_output.c */
extern const struct atoll_http_wire atoll_http1_wire;
/* The one answer that needs no connection object. */
extern const char atoll_http1_busy_answer[];
int atoll_http_respond_upgrade(struct atoll_http_request *req, const char *fields);

/* http1_head.c */
/* Checks framing bytes; false when another parser could read them differently. */
bool atoll_http1_lines_check(struct atoll_http_lines *lines, const uint8_t *bytes, size_t n);
/* Fills c->req from a complete head; false sets c->reject_*. */
bool atoll_http1_head_finish(struct atoll_http_conn *c);

/* http2_session.c */
struct atoll_http2;
/* Goes on with the stream of c, of which nothing has been read, as HTTP/2; c is gone after that.
 * NULL when there is no memory: then everything is closed. */
struct atoll_http2 *atoll_http2_take_over(struct atoll_http_conn *c);
size_t atoll_http2_input(struct atoll_http2 *h, const uint8_t *bytes, size_t n);
/* Ends what is overdue in any of the server's sessions. */
void atoll_http2_sweep(struct atoll_http_server *s);
/* Closes all of them, calling on_close of open requests. */
void atoll_http2_close_all(struct atoll_http_server *s);

#pragma once
#include <llhttp.h>
#include "base/buf.h"
#include "base/list.h"
#include "net/http_server.h"
#include "net/listener.h"
#include "net/stream.h"

/*
 * What the files of the HTTP server share.
 *   http_server.c    server, connections, timeouts
 *   http_request.c   from bytes to a request and its body
 *   http_head.c      what a request head must look like; its accessors
 *   http_response.c  from answers to bytes
 * A connection embeds the one request it can have at a time: a request costs no allocation once the
 * connection's buffers have grown to the usual size.
 */

enum atoll_http_phase {
    PHASE_IDLE,    /* between requests, no byte of the next one seen */
    PHASE_HEAD,    /* reading a head */
    PHASE_SERVING, /* the handler has the request; its body may still be coming */
    PHASE_DRAIN,   /* answered; dropping the rest of its body */
    PHASE_CLOSING, /* sending the last bytes */
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
    bool http10, keep_alive, expect_continue;
    void *user;

    enum atoll_http_body_mode body_mode;
    bool body_done;    /* its last byte has been parsed */
    bool body_told;    /* done or on_end has been called */
    bool body_paused;  /* by the handler */
    size_t body_max;   /* COLLECT */
    uint64_t body_got; /* bytes parsed so far */
    void (*on_body)(void *arg, struct atoll_http_request *req, const uint8_t *bytes, size_t n);
    void (*on_end)(void *arg, struct atoll_http_request *req);
    void *body_arg;

    bool begun, chunked, no_body; /* no_body: HEAD, 204, 304 */
    int64_t left;                 /* of a promised Content-Length, -1 when there is none */
    void (*on_drain)(void *arg, struct atoll_http_request *req);
    void *drain_arg;
    void (*on_close)(void *arg, struct atoll_http_request *req);
    void *close_arg;
};

struct atoll_http_conn {
    struct atoll_list node;
    struct atoll_http_server *server;
    struct atoll_stream *stream; /* owned; NULL once handed to a WebSocket */
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
    struct atoll_buf body;   /* COLLECT, when it does not come in one piece */
    struct atoll_buf extra;  /* response headers set by the handler */
    size_t drained;          /* bytes of an unwanted body dropped so far */
    bool corked;             /* more requests follow in this input: answer them in one send */
    bool held;               /* a response head waits for its first piece */
    struct atoll_timer kick; /* deliver(), or release what is held, from the loop */
};

#define HTTP_MAX_LISTENERS 8

struct atoll_http_server {
    struct atoll_loop *loop;
    struct atoll_http_limits limits;
    void (*on_request)(void *arg, struct atoll_http_request *req);
    void *arg;
    struct atoll_list conns;
    struct atoll_list upgraded;                           /* of http_upgrade.node */
    size_t connections;                                   /* both */
    struct atoll_listener *listeners[HTTP_MAX_LISTENERS]; /* owned */
    size_t listener_count;
    struct atoll_timer sweep; /* looks for timeouts while there are connections */
    int64_t date_s;           /* second that `date` shows */
    char date[32];
};

/* A connection that became something else still counts against the server's maximum. */
struct atoll_http_upgrade {
    struct atoll_list node;
    struct atoll_http_server *server; /* NULL when gone before us */
};

/* http_server.c */
void atoll_http_conn_close(struct atoll_http_conn *c);
/* Ends an unanswered request of a connection that is to be closed. */
void atoll_http_conn_lost(struct atoll_http_conn *c);
/* Takes the stream out of a connection whose request ends with that. */
struct atoll_stream *atoll_http_conn_upgrade(struct atoll_http_conn *c,
                                             struct atoll_http_upgrade *upgrade);
void atoll_http_upgrade_done(struct atoll_http_upgrade *upgrade);

/* http_request.c */
size_t atoll_http_conn_input(struct atoll_http_conn *c, const uint8_t *bytes, size_t n);
void atoll_http_request_start(struct atoll_http_conn *c);
/* Tells the handler what it may be told by now about the body. */
void atoll_http_request_deliver(struct atoll_http_conn *c);
void atoll_http_conn_kick(struct atoll_http_conn *c);

/* http_head.c */
/* Whether it can be the name of a header (RFC 9110 section 5.6.2). */
bool atoll_http_is_token(const char *text, size_t n);
extern const llhttp_settings_t atoll_http_parser_settings;
/* Checks framing bytes; false when another parser could read them differently. */
bool atoll_http_lines_check(struct atoll_http_lines *lines, const uint8_t *bytes, size_t n);
/* Fills c->req from a complete head; false sets c->reject_*. */
bool atoll_http_head_finish(struct atoll_http_conn *c);
bool atoll_http_reject_with(struct atoll_http_conn *c, int status, const char *text);

/* http_response.c */
/* Answers a request that is not (or no longer) the handler's, and closes. */
void atoll_http_conn_reject(struct atoll_http_conn *c, int status, const char *text);
void atoll_http_conn_release(struct atoll_http_conn *c);
/* The one answer that needs no connection object. */
extern const char atoll_http_busy_answer[];
int atoll_http_respond_upgrade(struct atoll_http_request *req, const char *fields);

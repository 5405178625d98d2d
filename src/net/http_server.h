#pragma once
#include <sys/stat.h>
#include <sys/types.h>
#include "base/list.h"
#include "loop/loop.h"

/*
 * HTTP server on the loop: 1.0 and 1.1 (keep-alive, pipelining, chunked bodies both ways), and 2
 * over TLS for clients that ask for it. Handlers need not know which; bodies have back-pressure
 * both ways, in HTTP/2 through the windows of each stream. Strict by choice: whatever two parsers
 * could read differently (RFC 9112 section 11.2) is answered with one 400 and the connection is
 * closed; in HTTP/2 the stream is answered 400 or reset (RFC 9113 section 8.1.1).
 *
 * Blocking: nothing here blocks. Thread: the loop's.
 * Lifetime of a request: it begins with on_request and ends exactly once, in one of two ways.
 *   - By the handler: atoll_http_respond(), atoll_http_end(), atoll_http_abort() or a successful
 *     atoll_ws_accept(). The pointer is dead when the call returns; on_close is NOT called.
 *   - Otherwise: the client went away, its body was malformed or too large (answered here), or the
 *     server is being freed. Then on_close is called, and the pointer is dead when that returns.
 * on_close and the body callbacks are never made from inside a call the handler makes, so a handler
 * need not fear that `req` vanishes in the middle of a function.
 * A handler that works asynchronously therefore registers atoll_http_on_close().
 */
struct atoll_http_server;
struct atoll_http_request;
struct atoll_tls_config; /* net/tls.h */

enum atoll_http_method {
    ATOLL_GET,
    ATOLL_HEAD,
    ATOLL_POST,
    ATOLL_PUT,
    ATOLL_PATCH,
    ATOLL_DELETE,
    ATOLL_OPTIONS,
};

/* A field of 0 means its default. */
struct atoll_http_limits {
    size_t header_bytes; /* request line and headers together: 16 KiB */
    size_t header_count; /* 100 */
    size_t target_bytes; /* 8 KiB */
    int64_t header_ms;   /* from the first byte of a request to the end of its headers: 10 s */
    int64_t idle_ms;     /* no byte moved though one side waits for the other: 60 s */
    size_t connections;  /* 1024 of all sources; see base/shares.h. 503 for one that does not fit */
    size_t pending_bytes; /* most bytes of one response waiting for the client: 16 MiB */
};

struct atoll_http_peer {
    bool is_unix;
    uid_t uid; /* of the connecting process; (uid_t)-1 on TCP */
    gid_t gid;
    pid_t pid;        /* 0 on TCP */
    char address[64]; /* "unix", "127.0.0.1:4711", "[::1]:4711" */
    char source[64];  /* the same without the port, and of IPv6 the /64 */
    bool is_tls;      /* https:// */
};

/* A response above this many pending bytes calls on_drain when it falls below again. */
#define ATOLL_HTTP_HIGH_WATER ((size_t)64 * 1024)
/* A body nobody wants is dropped up to this much to keep the connection; else it closes. */
#define ATOLL_HTTP_DRAIN_MAX ((size_t)64 * 1024)

/* limits may be NULL. on_request is called when the headers are complete, before the body. */
int atoll_http_server_new(struct atoll_loop *loop, const struct atoll_http_limits *limits,
                          void (*on_request)(void *arg, struct atoll_http_request *req), void *arg,
                          struct atoll_http_server **ret_server,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* Closes listeners and connections (calling on_close of open requests); WebSockets that were
 * accepted live on with their owners. Not from inside a callback of the server. */
struct atoll_http_server *atoll_http_server_free(struct atoll_http_server *server);

/* Errors as in net/listener.h. A server may listen on several addresses. */
int atoll_http_server_listen_unix(struct atoll_http_server *server, const char *path, mode_t mode,
                                  struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_http_server_listen_tcp(struct atoll_http_server *server, const char *host_port,
                                 uint16_t *ret_port, struct atoll_error *err) ATOLL_MUST_CHECK;
/* The same with TLS, and with HTTP/2 for clients that want it. Errors as in net/tls.h too. */
int atoll_http_server_listen_tls(struct atoll_http_server *server, const char *host_port,
                                 const struct atoll_tls_config *config, uint16_t *ret_port,
                                 struct atoll_error *err) ATOLL_MUST_CHECK;
/* Serves a connected stream socket; takes fd in every case. For tests and socket activation. */
int atoll_http_server_adopt(struct atoll_http_server *server, int fd,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* The same for a client that speaks HTTP/2 from the first byte, without TLS. */
int atoll_http_server_adopt_h2(struct atoll_http_server *server, int fd,
                               struct atoll_error *err) ATOLL_MUST_CHECK;
/* Open connections, WebSockets included. An HTTP/2 connection counts once. */
size_t atoll_http_server_connections(const struct atoll_http_server *server);

/* The request. Strings are borrowed until it ends. */

enum atoll_http_method atoll_http_method(const struct atoll_http_request *req);
const char *atoll_http_method_name(enum atoll_http_method method);
/* Percent-decoded, without the query, always starts with '/' (or is "*" for OPTIONS). Bad escapes,
 * NUL, control bytes and "." and ".." segments never get this far; encoded slashes stay "%2F". */
const char *atoll_http_path(const struct atoll_http_request *req);
/* Whether a "%2F" in the path was a slash in the target, and not a percent sign. */
bool atoll_http_has_encoded_slash(const struct atoll_http_request *req);
/* As it was sent, query included; for logs and proxies. */
const char *atoll_http_target(const struct atoll_http_request *req);
/* Decoded value of the first parameter of that name, "" when it has none, NULL when absent. */
const char *atoll_http_query(const struct atoll_http_request *req, const char *name);
/* The values of all parameters of that name: start with *pos = 0; NULL at the end. */
const char *atoll_http_query_next(const struct atoll_http_request *req, const char *name,
                                  size_t *pos);
/* The names of all parameters, likewise. */
const char *atoll_http_query_name(const struct atoll_http_request *req, size_t *pos);
/* Value of the first header of that name in any case, NULL when absent. */
const char *atoll_http_header(const struct atoll_http_request *req, const char *name);
/* The i-th header; false past the last. */
bool atoll_http_header_at(const struct atoll_http_request *req, size_t i, const char **ret_name,
                          const char **ret_value);
/* Of the body: -1 when it is not known before its end, 0 when there is none. */
int64_t atoll_http_content_length(const struct atoll_http_request *req);
const struct atoll_http_peer *atoll_http_peer(const struct atoll_http_request *req);
struct atoll_loop *atoll_http_loop(const struct atoll_http_request *req);
void atoll_http_set_user(struct atoll_http_request *req, void *user);
void *atoll_http_user(const struct atoll_http_request *req);

/* The body. At most one of the two; until one is called nothing is read. An expected 100 Continue
 * is sent by either. After the response no body callback is made any more. */

/* Gathers the whole body and calls done once (with n = 0 for none); bytes are borrowed for that
 * call. A body longer than max is for too_large to answer, at once; where that is NULL it is answered
 * 413 here and ends the request. */
void atoll_http_body_collect(struct atoll_http_request *req, size_t max,
                             void (*done)(void *arg, struct atoll_http_request *req,
                                          const uint8_t *bytes, size_t n),
                             void (*too_large)(void *arg, struct atoll_http_request *req),
                             void *arg);
/* Hands out the body as it comes, then on_end once. */
void atoll_http_body_stream(struct atoll_http_request *req,
                            void (*on_data)(void *arg, struct atoll_http_request *req,
                                            const uint8_t *bytes, size_t n),
                            void (*on_end)(void *arg, struct atoll_http_request *req), void *arg);
/* Stops reading the socket: no on_data and no on_end until resumed. */
void atoll_http_body_pause(struct atoll_http_request *req);
void atoll_http_body_resume(struct atoll_http_request *req);

/* The response. */

/* Adds a header to the response. -EINVAL for a name or value that HTTP does not allow (CR, LF, …)
 * and for the framing headers this module writes itself; such a header is not sent. -ENOBUFS. */
int atoll_http_set_header(struct atoll_http_request *req, const char *name, const char *value);
/* What HTTP/1 says behind the status instead of the usual words, for clients that show nothing else.
 * It is cut at that many bytes; what is not printable ASCII becomes a space or "?". */
#define ATOLL_HTTP_REASON_MAX 160
void atoll_http_set_reason(struct atoll_http_request *req, const char *text);
/* A whole response in one call; content_type may be NULL. Ends the request. After
 * atoll_http_begin() it is too late for another answer: then this is atoll_http_abort(). */
void atoll_http_respond(struct atoll_http_request *req, int status, const char *content_type,
                        const void *bytes, size_t n);
/* {"error":{"code":…,"message":…,"hint":…}}; hint may be NULL. Ends the request. */
void atoll_http_respond_error(struct atoll_http_request *req, int status, const char *code,
                              const char *message, const char *hint);

/* A response in pieces; content_length -1 when unknown (chunked). Its head and small pieces leave
 * together at the end of the loop's round, or earlier when they are many. */
void atoll_http_begin(struct atoll_http_request *req, int status, const char *content_type,
                      int64_t content_length);
/* -EPIPE when the client is gone (on_close follows), -ENOBUFS past limits.pending_bytes,
 * -EOVERFLOW past content_length; nothing of this piece is sent then. */
int atoll_http_write(struct atoll_http_request *req, const void *bytes, size_t n) ATOLL_MUST_CHECK;
/* Bytes of this connection the client has not taken yet. */
size_t atoll_http_pending(const struct atoll_http_request *req);
/* Called when pending falls below ATOLL_HTTP_HIGH_WATER after having exceeded it. */
void atoll_http_on_drain(struct atoll_http_request *req,
                         void (*fn)(void *arg, struct atoll_http_request *req), void *arg);
/* With something pending: calls it also when nothing is pending any more, once. */
void atoll_http_await_empty(struct atoll_http_request *req);
/* Ends the request. Fewer bytes than content_length promised: the connection is cut. */
void atoll_http_end(struct atoll_http_request *req);
/* Cuts the connection (HTTP/2: resets the stream), so that the client cannot take what it got for
 * the whole. Ends the request. on_close is not called. */
void atoll_http_abort(struct atoll_http_request *req);
/* True between atoll_http_begin() and the end. */
bool atoll_http_begun(const struct atoll_http_request *req);

/* Whether the client has hung up, which on_close may still have to tell: for answers that somebody has
 * to get. */
bool atoll_http_is_hung_up(const struct atoll_http_request *req);

/* See "Lifetime of a request". fn NULL unregisters. */
void atoll_http_on_close(struct atoll_http_request *req,
                         void (*fn)(void *arg, struct atoll_http_request *req), void *arg);

/* Called once, from the loop, when the connection that a request came on is closed, however many
 * requests later: in HTTP/2 the connection, not the stream; one that became a WebSocket, when that
 * ends. Until then the connection is not closed for being idle, and a peer that is gone without a
 * word is found out by TCP keepalive. The storage is the caller's until it was called or cancelled. */
struct atoll_http_farewell {
    struct atoll_list node;
    void (*fn)(void *arg);
    void *arg;
};
void atoll_http_on_connection_close(struct atoll_http_request *req,
                                    struct atoll_http_farewell *farewell, void (*fn)(void *arg),
                                    void *arg);
/* Safe on a zeroed one, and on one that was called. */
void atoll_http_farewell_cancel(struct atoll_http_farewell *farewell);

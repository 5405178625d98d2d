#pragma once
#include <sys/stat.h>
#include <sys/types.h>
#include "base/list.h"
#include "loop/loop.h"

/*
 * HTTP server on the loop: 1.0 and 1.1 (keep-alive, pipelining, chunked bodies both ways), and 2
 * over TLS for clients that ask for it. Handlers need not know the version. Bodies have back-pressure
 * both ways, in HTTP/2 through the windows of each stream. Strict by choice: a message that two parsers
 * could interpret differently (RFC 9112 section 11.2) is answered with one 400 and the connection is
 * closed; in HTTP/2 the stream is answered 400 or reset (RFC 9113 section 8.1.1).
 *
 * Blocking: nothing here blocks. Thread: the loop's.
 * Lifetime of a request: it begins with on_request and ends exactly once, in one of two ways.
 *   - By the handler: atoll_http_respond(), atoll_http_end(), atoll_http_abort() or a successful
 *     atoll_ws_accept(). The pointer is invalid when the call returns; on_close is NOT called.
 *   - Otherwise: the client disconnected, its body was malformed or too large (answered here), or the
 *     server is being freed. Then on_close is called, and the pointer is invalid when that returns.
 * on_close and the body callbacks are never called from inside a call the handler makes, so `req` stays
 * valid within a function of the handler.
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
    size_t header_bytes;  /* request line and headers together: 16 KiB */
    size_t header_count;  /* 100 */
    size_t target_bytes;  /* 8 KiB */
    int64_t header_ms;    /* from the first byte of a request to the end of its headers: 10 s */
    int64_t idle_ms;      /* without progress while we wait for the client: 60 s */
    size_t connections;   /* 1024, shared by all sources (base/shares.h); 503 beyond that */
    size_t pending_bytes; /* most bytes of one response that are queued for the client: 16 MiB */
    /* For a proxy that forwards targets as they are: atoll_http_path() and queries are not decoded and
     * must not be used. */
    bool any_target;
};

struct atoll_http_peer {
    bool is_unix;
    uid_t uid; /* of the connecting process; (uid_t)-1 on TCP */
    gid_t gid;
    pid_t pid;        /* 0 on TCP */
    char address[64]; /* "unix", "127.0.0.1:4711", "[::1]:4711" */
    char source[64];  /* the address without the port; for IPv6 its /64 */
    bool is_tls;      /* https:// */
    uint64_t tag;     /* of atoll_http_server_adopt_as(); 0 for others */
};

/* on_drain is called when the pending bytes of a response fall below this after exceeding it. */
#define ATOLL_HTTP_HIGH_WATER ((size_t)64 * 1024)
/* An unread body with a Content-Length up to this is read and dropped, to keep the connection; else the
 * answer says that it is closed. */
#define ATOLL_HTTP_DRAIN_MAX ((size_t)64 * 1024)

/* limits may be NULL. on_request is called when the headers are complete, before the body. */
int atoll_http_server_new(struct atoll_loop *loop, const struct atoll_http_limits *limits,
                          void (*on_request)(void *arg, struct atoll_http_request *req), void *arg,
                          struct atoll_http_server **ret_server,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* Closes listeners and connections (calls on_close of open requests). Accepted WebSockets stay open;
 * their owners free them. Must not be called from a callback of the server. */
struct atoll_http_server *atoll_http_server_free(struct atoll_http_server *server);

/* Errors as in net/listener.h. A server may listen on several addresses. */
int atoll_http_server_listen_unix(struct atoll_http_server *server, const char *path, mode_t mode,
                                  struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_http_server_listen_tcp(struct atoll_http_server *server, const char *host_port,
                                 uint16_t *ret_port, struct atoll_error *err) ATOLL_MUST_CHECK;
/* The same with TLS, and with HTTP/2 for clients that ask for it. Also errors of net/tls.h. */
int atoll_http_server_listen_tls(struct atoll_http_server *server, const char *host_port,
                                 const struct atoll_tls_config *config, uint16_t *ret_port,
                                 struct atoll_error *err) ATOLL_MUST_CHECK;
/* Serves a connected stream socket; takes ownership of fd, even on failure. For tests and socket
 * activation. */
int atoll_http_server_adopt(struct atoll_http_server *server, int fd,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* The same for a connection that the caller knows by `tag` (struct atoll_http_peer). tls: its transport,
 * such as of net/tls_issuer.h; takes ownership, even on failure. NULL: plain. */
struct atoll_tls_conn;
int atoll_http_server_adopt_as(struct atoll_http_server *server, int fd, struct atoll_tls_conn *tls,
                               uint64_t tag, struct atoll_error *err) ATOLL_MUST_CHECK;
/* The same for a client that uses HTTP/2 from the first byte, without TLS. */
int atoll_http_server_adopt_h2(struct atoll_http_server *server, int fd,
                               struct atoll_error *err) ATOLL_MUST_CHECK;
/* Open connections, WebSockets included. An HTTP/2 connection counts once. */
size_t atoll_http_server_connections(const struct atoll_http_server *server);

/* The request. Strings are borrowed until it ends. */

enum atoll_http_method atoll_http_method(const struct atoll_http_request *req);
const char *atoll_http_method_name(enum atoll_http_method method);
/* Percent-decoded, without the query; starts with '/' (or is "*" for OPTIONS). Requests with bad
 * escapes, NUL, control bytes or "." and ".." segments are rejected before; encoded slashes stay "%2F". */
const char *atoll_http_path(const struct atoll_http_request *req);
/* Whether a "%2F" in the path is an encoded slash of the target (and not from "%252F"). */
bool atoll_http_has_encoded_slash(const struct atoll_http_request *req);
/* The target as the client sent it, with the query; for logs and proxies. */
const char *atoll_http_target(const struct atoll_http_request *req);
/* Decoded value of the first query parameter of that name, "" if it has no value, NULL if absent. */
const char *atoll_http_query(const struct atoll_http_request *req, const char *name);
/* The values of all parameters of that name: start with *pos = 0; NULL at the end. */
const char *atoll_http_query_next(const struct atoll_http_request *req, const char *name,
                                  size_t *pos);
/* The names of all parameters: start with *pos = 0; NULL at the end. */
const char *atoll_http_query_name(const struct atoll_http_request *req, size_t *pos);
/* Value of the first header of that name (case-insensitive), NULL if absent. */
const char *atoll_http_header(const struct atoll_http_request *req, const char *name);
/* The i-th header; false past the last. */
bool atoll_http_header_at(const struct atoll_http_request *req, size_t i, const char **ret_name,
                          const char **ret_value);
/* Length of the body: -1 if it is not known in advance, 0 if there is no body. */
int64_t atoll_http_content_length(const struct atoll_http_request *req);
const struct atoll_http_peer *atoll_http_peer(const struct atoll_http_request *req);
struct atoll_loop *atoll_http_loop(const struct atoll_http_request *req);
void atoll_http_set_user(struct atoll_http_request *req, void *user);
void *atoll_http_user(const struct atoll_http_request *req);

/* The body. Call at most one of the two functions; until then the body is not read. Both send an
 * expected 100 Continue. After the response no body callback is made any more. */

/* Collects the whole body and calls done once (n = 0: no body); bytes are borrowed for that call. If
 * the body is longer than max, calls too_large, which must answer the request; if that is NULL, the
 * server answers 413 and ends the request. */
void atoll_http_body_collect(struct atoll_http_request *req, size_t max,
                             void (*done)(void *arg, struct atoll_http_request *req,
                                          const uint8_t *bytes, size_t n),
                             void (*too_large)(void *arg, struct atoll_http_request *req),
                             void *arg);
/* Calls on_data for each piece of the body as it arrives, then on_end once. */
void atoll_http_body_stream(struct atoll_http_request *req,
                            void (*on_data)(void *arg, struct atoll_http_request *req,
                                            const uint8_t *bytes, size_t n),
                            void (*on_end)(void *arg, struct atoll_http_request *req), void *arg);
/* Stops reading the socket: no on_data and no on_end until resumed. */
void atoll_http_body_pause(struct atoll_http_request *req);
void atoll_http_body_resume(struct atoll_http_request *req);

/* The response. */

/* Adds a header to the response; after atoll_http_begin() a trailer, which is dropped if the answer has a
 * Content-Length, and for clients of HTTP/1.0. -EINVAL for a name or value that HTTP does not allow (CR,
 * LF, …) and for the framing headers this module writes itself; such a header is not sent. -ENOBUFS. */
int atoll_http_set_header(struct atoll_http_request *req, const char *name, const char *value);
/* Replaces the reason phrase of the status line (HTTP/1 only), for clients that show nothing else. It
 * is cut to ATOLL_HTTP_REASON_MAX bytes; bytes that are not printable ASCII become a space or "?". */
#define ATOLL_HTTP_REASON_MAX 160
void atoll_http_set_reason(struct atoll_http_request *req, const char *text);
/* Replaces the Date header. A longer text than a date is ignored. */
void atoll_http_set_date(struct atoll_http_request *req, const char *text);
/* Sends an informational response (102 … 199) with the headers set so far, which are then forgotten. Not
 * sent to clients of HTTP/1.0, nor after atoll_http_begin(). */
void atoll_http_inform(struct atoll_http_request *req, int status);
/* Sends a whole response; content_type may be NULL. Ends the request. After atoll_http_begin() it is
 * too late for another answer: then this is the same as atoll_http_abort(). */
void atoll_http_respond(struct atoll_http_request *req, int status, const char *content_type,
                        const void *bytes, size_t n);
/* {"error":{"code":…,"message":…,"hint":…}}; hint may be NULL. Ends the request. */
void atoll_http_respond_error(struct atoll_http_request *req, int status, const char *code,
                              const char *message, const char *hint);

/* Begins a response in pieces; content_length -1 if unknown (chunked). Its head and small pieces are
 * sent together at the end of the loop iteration, or earlier if there are many. */
void atoll_http_begin(struct atoll_http_request *req, int status, const char *content_type,
                      int64_t content_length);
/* Sends a piece, or nothing of it: -EPIPE if the client is gone (on_close follows), -ENOBUFS beyond
 * limits.pending_bytes, -EOVERFLOW beyond content_length. */
int atoll_http_write(struct atoll_http_request *req, const void *bytes, size_t n) ATOLL_MUST_CHECK;
/* Bytes that are queued for the client on this connection. */
size_t atoll_http_pending(const struct atoll_http_request *req);
/* Called when pending falls below ATOLL_HTTP_HIGH_WATER after having exceeded it. */
void atoll_http_on_drain(struct atoll_http_request *req,
                         void (*fn)(void *arg, struct atoll_http_request *req), void *arg);
/* Calls on_drain once more when nothing is pending any more. Requires pending bytes. */
void atoll_http_await_empty(struct atoll_http_request *req);
/* Ends the request. If fewer bytes than content_length were written, resets the connection. */
void atoll_http_end(struct atoll_http_request *req);
/* Resets the connection (HTTP/2: the stream), so that the client cannot take a partial answer for a
 * complete one. Ends the request. on_close is not called. */
void atoll_http_abort(struct atoll_http_request *req);
/* True between atoll_http_begin() and the end. */
bool atoll_http_begun(const struct atoll_http_request *req);

/* Whether the client has disconnected, even if on_close was not called yet. For answers that must not be
 * lost: check before giving one. */
bool atoll_http_is_hung_up(const struct atoll_http_request *req);

/* See "Lifetime of a request". fn NULL unregisters. */
void atoll_http_on_close(struct atoll_http_request *req,
                         void (*fn)(void *arg, struct atoll_http_request *req), void *arg);

/* A callback for the end of a connection: called once, from the loop, when the connection that carried a
 * request is closed, however many requests later. In HTTP/2 that is the connection, not the stream; for
 * a WebSocket it is the end of the WebSocket. Until then the connection has no idle timeout; TCP
 * keepalive detects a dead peer. The caller owns the storage, which must stay valid until the callback
 * was called or cancelled. */
struct atoll_http_close_hook {
    struct atoll_list node;
    void (*fn)(void *arg);
    void *arg;
};
void atoll_http_on_connection_close(struct atoll_http_request *req,
                                    struct atoll_http_close_hook *hook, void (*fn)(void *arg),
                                    void *arg);
/* Allowed on a zeroed hook, and after it was called. */
void atoll_http_close_hook_cancel(struct atoll_http_close_hook *hook);

/* For proxies. */

/* Whether the header is not forwarded: it concerns one connection, or the sender of a forwarded message writes
 * it anew. */
bool atoll_http_is_hop(const char *name);
/* Whether `list`, the value of a Connection header, contains the token. */
bool atoll_http_list_has(const char *list, const char *token);
/* Whether a Connection header of the request lists the name, so that it is not forwarded, either. */
bool atoll_http_is_listed(const struct atoll_http_request *req, const char *name);
/* The protocol that the client asks to upgrade to, or NULL. HTTP/2 is refused: its requests would bypass
 * the proxy. */
const char *atoll_http_wanted_upgrade(const struct atoll_http_request *req);

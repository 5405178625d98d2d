/*
 * One request of HTTP/2, translated to the server's common form: the pseudo headers become method,
 * target and Host (RFC 9113 section 8.3.1), and the same rules as in HTTP/1 apply. The body waits in a
 * buffer, bounded by the window of the stream: the client gets no credit while the handler pauses.
 */
#include <errno.h>
#include <string.h>
#include <strings.h>
#include "base/text.h"
#include "net/http2_internal.h"

#define PIECE_BYTES ((size_t)64 * 1024)
#define KEEP_BYTES ((size_t)64 * 1024) /* an empty buffer larger than this is freed */
#define LINGER_MS 1000
#define FIELD_COST 32 /* what RFC 9113 section 6.5.2 adds for each field */

/* Beginning and end. */

struct atoll_http2_stream *atoll_http2_stream_new(struct atoll_http2 *h, int32_t id)
{
    const struct atoll_http_limits *l = &h->server->limits;
    struct atoll_http2_stream *st = calloc(1, sizeof(*st));

    if (!st || nghttp2_session_set_stream_user_data(h->lib, id, st) != 0) {
        free(st);
        return NULL;
    }
    st->session = h;
    st->id = id;
    st->method = -1;
    st->conn.server = h->server;
    st->conn.peer = h->peer;
    st->conn.wire = &atoll_http2_wire;
    st->conn.phase = PHASE_HEAD;
    st->conn.req.http2 = true;
    atoll_buf_init(&st->conn.head,
                   l->header_bytes + 2 * l->header_count + 4 * l->target_bytes + 16);
    atoll_buf_init(&st->conn.extra, l->header_bytes);
    atoll_buf_init(&st->cookie, l->header_bytes);
    atoll_buf_init(&st->in, (size_t)HTTP2_WINDOW_READING + HTTP2_WINDOW_START);
    atoll_buf_init(&st->out, SIZE_MAX / 2); /* writers check limits.pending_bytes first */
    atoll_http2_stream_touch(st);
    atoll_list_push_back(&h->streams, &st->conn.node);
    return st;
}

/* Frees everything except the memory of the stream itself. */
static void release(struct atoll_http2_stream *st)
{
    struct atoll_http_conn *c = &st->conn;

    c->dead = true;
    st->session->held -= atoll_buf_size(&st->in);
    if (st->owed > 0)
        (void)!nghttp2_session_consume_connection(st->session->lib, st->owed);
    atoll_list_remove(&c->node);
    atoll_timer_cancel(&c->kick);
    atoll_buf_done(&c->head);
    atoll_buf_done(&c->body);
    atoll_buf_done(&c->extra);
    atoll_buf_done(&st->cookie);
    atoll_buf_done(&st->in);
    atoll_buf_done(&st->out);
    free(c->fields);
}

/* Calls on_close, if the handler still has the request. */
static void tell_close(struct atoll_http_conn *c)
{
    bool serving = c->phase == PHASE_SERVING;

    c->phase = PHASE_CLOSING;
    if (serving && c->req.on_close)
        c->req.on_close(c->req.close_arg, &c->req);
    c->req.on_close = NULL;
}

void atoll_http2_stream_lost(struct atoll_http2_stream *st)
{
    st->conn.depth++;
    tell_close(&st->conn);
    release(st);
    if (--st->conn.depth == 0)
        free(st);
}

void atoll_http2_stream_reset(struct atoll_http2_stream *st, uint32_t code)
{
    (void)!nghttp2_submit_rst_stream(st->session->lib, NGHTTP2_FLAG_NONE, st->id, code);
    atoll_http2_wake(st->session);
}

static void linger_over(void *arg)
{
    atoll_http2_stream_reset(arg, NGHTTP2_NO_ERROR);
}

/* The rest of the body is not needed; a reset tells the client so (RFC 9113 section 8.1). But not
 * immediately: some clients drop an unread answer when the stream is reset. Until then the client gets
 * no credit. */
void atoll_http2_stream_linger(struct atoll_http2_stream *st)
{
    atoll_timer_set(&st->conn.kick, st->conn.server->loop, LINGER_MS, linger_over, st);
}

static bool waits_for_body(const struct atoll_http2_stream *st)
{
    const struct atoll_http_request *req = &st->conn.req;

    return st->conn.phase == PHASE_SERVING && req->body_mode != BODY_UNREAD && !req->body_done &&
           !req->body_paused && atoll_buf_size(&st->in) == 0;
}

/* A stream expires only while we wait for the client, not for the handler. */
bool atoll_http2_stream_is_expired(const struct atoll_http2_stream *st, int64_t now_ms)
{
    if (now_ms - st->active_ms < st->conn.server->limits.idle_ms)
        return false;
    return waits_for_body(st) || atoll_buf_size(&st->out) > 0;
}

void atoll_http2_stream_expire(struct atoll_http2_stream *st)
{
    atoll_http2_stream_touch(st); /* so that it does not expire again immediately */
    if (atoll_buf_size(&st->out) == 0) {
        atoll_http_conn_reject(&st->conn, 408, "the request took too long to arrive");
        return;
    }
    atoll_buf_done(&st->out);
    st->conn.depth++;
    tell_close(&st->conn);
    atoll_http2_stream_reset(st, NGHTTP2_CANCEL);
    st->conn.depth--;
}

/* The head. */

static bool put_text(struct atoll_http_conn *c, const char *text, size_t n, uint32_t *ret_offset)
{
    *ret_offset = (uint32_t)c->head.len;
    return atoll_http_head_append(c, text, n) && atoll_http_head_append(c, "", 1);
}

static void add_field(struct atoll_http_conn *c, const char *name, size_t name_len,
                      const char *value, size_t value_len)
{
    struct atoll_http_header_field f;

    if (atoll_http_head_room(c) && put_text(c, name, name_len, &f.name) &&
        put_text(c, value, value_len, &f.value))
        c->fields[c->field_count++] = f;
}

bool atoll_http2_is(const char *text, size_t n, const char *what)
{
    return n == strlen(what) && memcmp(text, what, n) == 0;
}

static void take_method(struct atoll_http2_stream *st, const char *value, size_t n)
{
    for (int m = ATOLL_GET; m <= ATOLL_OPTIONS; m++)
        if (atoll_http2_is(value, n, atoll_http_method_name((enum atoll_http_method)m)))
            st->method = m;
}

/* nghttp2 ensures that each pseudo header comes at most once, and before all other headers. */
static void pseudo_field(struct atoll_http2_stream *st, const char *name, size_t name_len,
                         const char *value, size_t n)
{
    struct atoll_http_conn *c = &st->conn;

    if (atoll_http2_is(name, name_len, ":method")) {
        take_method(st, value, n);
    } else if (atoll_http2_is(name, name_len, ":scheme")) {
        st->bad_scheme = !atoll_http2_is(value, n, "https") && !atoll_http2_is(value, n, "http");
    } else if (atoll_http2_is(name, name_len, ":authority")) {
        st->has_authority = put_text(c, value, n, &st->authority);
    } else if (atoll_http2_is(name, name_len, ":path")) {
        if (n > c->server->limits.target_bytes)
            (void)atoll_http_reject_with(c, 414, "the request target is too long");
        else
            st->has_path = put_text(c, value, n, &st->path);
    }
}

static void cookie_field(struct atoll_http2_stream *st, const char *value, size_t n)
{
    int r = atoll_buf_size(&st->cookie) > 0 ? atoll_buf_appends(&st->cookie, "; ") : 0;

    if (r == 0)
        r = atoll_buf_append(&st->cookie, value, n);
    if (r < 0)
        (void)atoll_http_head_refuse(&st->conn, r);
}

void atoll_http2_stream_field(struct atoll_http2_stream *st, const char *name, size_t name_len,
                              const char *value, size_t value_len)
{
    struct atoll_http_conn *c = &st->conn;

    c->head_bytes += name_len + value_len + FIELD_COST;
    if (c->head_bytes >
        c->server->limits.header_bytes + FIELD_COST * c->server->limits.header_count)
        (void)atoll_http_reject_with(c, 431, "the request head is too large");
    if (c->reject_status != 0)
        return;
    if (name[0] == ':')
        pseudo_field(st, name, name_len, value, value_len);
    else if (atoll_http2_is(name, name_len, "cookie"))
        cookie_field(st, value, value_len);
    else
        add_field(c, name, name_len, value, value_len);
}

/* :authority is the Host of HTTP/2; if a client sends both, they must be equal. */
static bool merge_authority(struct atoll_http2_stream *st)
{
    struct atoll_http_conn *c = &st->conn;
    const char *host = atoll_http_header(&c->req, "host");
    ATOLL_AUTOFREE char *authority = NULL;

    if (!st->has_authority)
        return true;
    /* A copy: adding a field may move the buffer that contains it. */
    authority = strdup((const char *)c->head.data + st->authority);
    if (!authority)
        return atoll_http_reject_with(c, 500, "out of memory");
    if (host && strcasecmp(host, authority) != 0)
        return atoll_http_reject_with(c, 400, "\":authority\" and \"host\" differ");
    if (!host)
        add_field(c, "host", 4, authority, strlen(authority));
    return c->reject_status == 0;
}

/* Whether the path has only characters that HTTP/1 allows: the proxy forwards it to HTTP/1 servers. */
static bool path_is_plain(const struct atoll_http2_stream *st)
{
    const unsigned char *p = st->conn.head.data + st->path;

    for (; *p; p++)
        if (*p <= 0x20 || *p >= 0x7f)
            return false;
    return true;
}

static bool take_length(struct atoll_http_conn *c, bool ended)
{
    struct atoll_http_request *req = &c->req;
    const char *text = atoll_http_header(req, "content-length");
    uint64_t length;

    req->content_length = ended ? 0 : -1;
    if (!ended && text) {
        if (atoll_text_u64(text, 0, INT64_MAX, &length) < 0)
            return atoll_http_reject_with(c, 400, "the Content-Length is too large");
        req->content_length = (int64_t)length;
    }
    req->body_done = req->content_length == 0;
    return true;
}

static bool finish_head(struct atoll_http2_stream *st, bool ended)
{
    struct atoll_http_conn *c = &st->conn;

    c->req = (struct atoll_http_request){
        .conn = c, .left = -1, .http2 = true, .keep_alive = true, .body_done = ended};
    if (c->reject_status != 0)
        return false;
    if (st->method < 0)
        return atoll_http_reject_with(c, 501, "the request method is not supported");
    c->req.method = (enum atoll_http_method)st->method;
    if (!st->has_path || st->bad_scheme || !path_is_plain(st))
        return atoll_http_reject_with(c, 400, "the request target is not a path");
    if (atoll_buf_size(&st->cookie) > 0)
        add_field(c, "cookie", 6, (const char *)atoll_buf_head(&st->cookie),
                  atoll_buf_size(&st->cookie));
    return merge_authority(st) && c->reject_status == 0 && atoll_http_head_check(c, st->path) &&
           take_length(c, ended);
}

void atoll_http2_stream_head(struct atoll_http2_stream *st, bool ended)
{
    struct atoll_http_conn *c = &st->conn;

    c->head_done = true;
    st->remote_ended = ended;
    c->depth++;
    if (finish_head(st, ended))
        atoll_http_request_serve(c);
    else
        atoll_http_conn_reject(c, c->reject_status, c->reject_text);
    c->depth--;
}

/* The body. */

/* Returns consumed bytes to the windows of the stream and the connection. */
static void give_back(struct atoll_http2_stream *st, size_t n)
{
    nghttp2_session *lib = st->session->lib;
    size_t of_conn = ATOLL_MIN(n, st->owed);

    st->owed -= of_conn;
    if (of_conn > 0)
        (void)!nghttp2_session_consume_connection(lib, of_conn);
    (void)!nghttp2_session_consume_stream(lib, st->id, n);
}

void atoll_http2_stream_pump(struct atoll_http2_stream *st)
{
    struct atoll_http_conn *c = &st->conn;
    struct atoll_http_request *req = &c->req;

    while (c->phase == PHASE_SERVING && req->body_mode != BODY_UNREAD && !req->body_paused &&
           atoll_buf_size(&st->in) > 0) {
        size_t n = ATOLL_MIN(atoll_buf_size(&st->in), PIECE_BYTES);
        atoll_http_request_piece(c, atoll_buf_head(&st->in), n);
        atoll_buf_consume(&st->in, n);
        st->session->held -= n;
        give_back(st, n);
    }
    if (atoll_buf_size(&st->in) == 0) {
        if (st->in.cap > KEEP_BYTES)
            atoll_buf_done(&st->in);
        req->body_done |= st->remote_ended;
    }
    atoll_http_request_deliver(c);
}

static void keep(struct atoll_http2_stream *st, const uint8_t *bytes, size_t n)
{
    struct atoll_http2 *h = st->session;

    /* The windows bound the size, so this fails only without memory. */
    if (atoll_buf_append(&st->in, bytes, n) < 0) {
        (void)!nghttp2_session_consume_connection(h->lib, n);
        atoll_http2_stream_reset(st, NGHTTP2_INTERNAL_ERROR);
        return;
    }
    h->held += n;
    if (h->held <= HTTP2_HELD_MAX)
        (void)!nghttp2_session_consume_connection(h->lib, n);
    else
        st->owed += n;
}

void atoll_http2_stream_data(struct atoll_http2_stream *st, const uint8_t *bytes, size_t n)
{
    struct atoll_http_conn *c = &st->conn;

    atoll_http2_stream_touch(st);
    c->depth++;
    if (c->phase != PHASE_SERVING) {
        /* Already answered: drop the bytes, and give the stream no credit for more. */
        (void)!nghttp2_session_consume_connection(st->session->lib, n);
    } else if (waits_for_body(st)) {
        (void)!nghttp2_session_consume(st->session->lib, st->id, n);
        atoll_http_request_piece(c, bytes, n);
    } else {
        keep(st, bytes, n);
    }
    c->depth--;
}

void atoll_http2_stream_end(struct atoll_http2_stream *st)
{
    st->remote_ended = true;
    st->conn.depth++;
    if (atoll_buf_size(&st->in) == 0)
        atoll_http2_stream_pump(st);
    st->conn.depth--;
}

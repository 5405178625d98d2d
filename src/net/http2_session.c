/*
 * One HTTP/2 connection. Work that a client can cause without complete requests is bounded:
 *   - header blocks by limits.header_bytes (431), by time, and, whatever they are made of, by the
 *     input since the last frame that is no CONTINUATION;
 *   - requests that the client resets before their answer (CVE-2023-44487), and streams that it makes
 *     us reset, by a budget that refills with time;
 *   - PING, SETTINGS, PRIORITY and empty DATA by a second budget;
 *   - answers that the client does not read: we stop reading from it.
 */
#include <errno.h>
#include <string.h>
#include "net/http2_internal.h"

#define UNFRAMED_MAX ((size_t)128 * 1024)
#define RESETS_MAX 256
#define RESETS_PER_S 32
#define NOISE_MAX 1024
#define NOISE_PER_S 128

static void refill(int *budget, int64_t n, int max)
{
    *budget = (int)ATOLL_MIN((int64_t)max, *budget + n);
}

void atoll_http2_charge(struct atoll_http2 *h, enum atoll_http2_cost cost)
{
    int64_t seconds = (atoll_loop_now_ms(h->server->loop) - h->refilled_ms) / 1000;

    if (seconds > 0) {
        seconds = ATOLL_MIN(seconds, (int64_t)1000);
        h->refilled_ms += seconds * 1000;
        refill(&h->resets, seconds * RESETS_PER_S, RESETS_MAX);
        refill(&h->noise, seconds * NOISE_PER_S, NOISE_MAX);
    }
    if (--*(cost == HTTP2_COST_RESET ? &h->resets : &h->noise) < 0)
        h->too_much = true;
}

/* Callbacks of the library. */

static int on_begin_frame(nghttp2_session *lib, const nghttp2_frame_hd *hd, void *arg)
{
    struct atoll_http2 *h = arg;

    (void)lib;
    if (hd->type != NGHTTP2_CONTINUATION) {
        h->since_frame = 0;
        h->head_since_ms = 0;
    }
    return 0;
}

static int on_begin_headers(nghttp2_session *lib, const nghttp2_frame *frame, void *arg)
{
    struct atoll_http2 *h = arg;

    h->head_since_ms = atoll_loop_now_ms(h->server->loop);
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    (void)lib;
    return atoll_http2_stream_new(h, frame->hd.stream_id) ? 0
                                                          : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static int on_header(nghttp2_session *lib, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *arg)
{
    struct atoll_http2_stream *st = nghttp2_session_get_stream_user_data(lib, frame->hd.stream_id);

    (void)flags;
    (void)arg;
    if (st && !st->conn.head_done) /* after the head these are trailers, which are ignored */
        atoll_http2_stream_field(st, (const char *)name, name_len, (const char *)value, value_len);
    return 0;
}

/* By default nghttp2 drops an invalid header. Reject the request instead: an upstream might interpret it
 * differently. */
static int on_invalid_header(nghttp2_session *lib, const nghttp2_frame *frame, const uint8_t *name,
                             size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                             void *arg)
{
    (void)name;
    (void)name_len;
    (void)value;
    (void)value_len;
    (void)flags;
    (void)arg;
    (void)!nghttp2_submit_rst_stream(lib, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
                                     NGHTTP2_PROTOCOL_ERROR);
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static int on_frame(nghttp2_session *lib, const nghttp2_frame *frame, void *arg)
{
    struct atoll_http2 *h = arg;
    struct atoll_http2_stream *st = nghttp2_session_get_stream_user_data(lib, frame->hd.stream_id);
    bool ended = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;

    h->head_since_ms = 0;
    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
        if (st && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
            atoll_http2_stream_head(st, ended);
        else if (st && ended)
            atoll_http2_stream_end(st);
        break;
    case NGHTTP2_DATA:
        if (frame->hd.length == 0 && !ended)
            atoll_http2_charge(h, HTTP2_COST_NOISE);
        if (st && ended)
            atoll_http2_stream_end(st);
        break;
    case NGHTTP2_SETTINGS:
    case NGHTTP2_PING:
    case NGHTTP2_PRIORITY:
        atoll_http2_charge(h, HTTP2_COST_NOISE);
        break;
    default:
        break;
    }
    return 0;
}

static int on_data(nghttp2_session *lib, uint8_t flags, int32_t id, const uint8_t *bytes, size_t n,
                   void *arg)
{
    struct atoll_http2_stream *st = nghttp2_session_get_stream_user_data(lib, id);

    (void)flags;
    (void)arg;
    if (st)
        atoll_http2_stream_data(st, bytes, n);
    else
        (void)!nghttp2_session_consume_connection(lib, n);
    return 0;
}

static int on_stream_close(nghttp2_session *lib, int32_t id, uint32_t code, void *arg)
{
    struct atoll_http2_stream *st = nghttp2_session_get_stream_user_data(lib, id);
    struct atoll_http2 *h = arg;

    (void)code;
    if (!st)
        return 0;
    if (st->conn.phase != PHASE_CLOSING)
        atoll_http2_charge(h, HTTP2_COST_RESET);
    if (st->conn.phase == PHASE_HEAD)
        h->head_since_ms = 0; /* refused: on_frame_recv will not be called for it */
    atoll_http2_stream_lost(st);
    return 0;
}

static int on_frame_sent(nghttp2_session *lib, const nghttp2_frame *frame, void *arg)
{
    bool data = frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS;
    struct atoll_http2_stream *st;

    (void)arg;
    if (!data || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
        return 0;
    st = nghttp2_session_get_stream_user_data(lib, frame->hd.stream_id);
    if (st && !st->remote_ended)
        atoll_http2_stream_linger(st);
    return 0;
}

/* Making and ending. */

static nghttp2_session *make_session(struct atoll_http2 *h)
{
    nghttp2_session_callbacks *cb = NULL;
    nghttp2_option *option = NULL;
    nghttp2_session *lib = NULL;

    if (nghttp2_session_callbacks_new(&cb) == 0 && nghttp2_option_new(&option) == 0) {
        nghttp2_session_callbacks_set_on_begin_frame_callback(cb, on_begin_frame);
        nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
        nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
        nghttp2_session_callbacks_set_on_invalid_header_callback(cb, on_invalid_header);
        nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
        nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_stream_close);
        nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_frame_sent);
        /* The window grows when a handler has consumed the bytes, not when they arrive. */
        nghttp2_option_set_no_auto_window_update(option, 1);
        nghttp2_option_set_no_closed_streams(option, 1);
        if (nghttp2_session_server_new2(&lib, cb, h, option) != 0)
            lib = NULL;
    }
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(cb);
    return lib;
}

static int submit_settings(struct atoll_http2 *h)
{
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, HTTP2_STREAMS_MAX},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, HTTP2_WINDOW_START},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (uint32_t)h->server->limits.header_bytes},
    };

    if (nghttp2_submit_settings(h->lib, NGHTTP2_FLAG_NONE, settings, ATOLL_ARRAY_LEN(settings)) ||
        nghttp2_session_set_local_window_size(h->lib, NGHTTP2_FLAG_NONE, 0, HTTP2_WINDOW_CONN))
        return -ENOMEM;
    return 0;
}

static void leave(struct atoll_http2 *h)
{
    if (--h->depth == 0 && h->dead)
        free(h);
}

static void lose_streams(struct atoll_http2 *h)
{
    while (!atoll_list_empty(&h->streams))
        atoll_http2_stream_lost(
            ATOLL_CONTAINER_OF(h->streams.next, struct atoll_http2_stream, conn.node));
}

/* Closes and frees the connection immediately. */
static void drop(struct atoll_http2 *h)
{
    if (h->dead)
        return;
    h->dead = h->closing = true;
    h->depth++;
    lose_streams(h);
    atoll_http_close_hooks_release(h->server, &h->close_hooks);
    atoll_list_remove(&h->node);
    atoll_shares_drop(&h->server->connections, h->peer.source, 1);
    h->stream = atoll_stream_free(h->stream);
    atoll_timer_cancel(&h->kick);
    nghttp2_session_del(h->lib);
    h->lib = NULL;
    leave(h);
}

/* Closes the connection after sending what is queued in the stream. */
static void close_soon(struct atoll_http2 *h)
{
    if (h->closing)
        return;
    h->closing = true;
    lose_streams(h);
    atoll_stream_close_after_flush(h->stream);
}

/* Sending. */

static void send_frames(struct atoll_http2 *h)
{
    ssize_t n = 0;

    atoll_stream_cork(h->stream);
    while (atoll_stream_pending(h->stream) <= ATOLL_HTTP_HIGH_WATER) {
        const uint8_t *bytes;
        struct iovec iov;
        n = nghttp2_session_mem_send(h->lib, &bytes);
        if (n <= 0)
            break;
        iov = (struct iovec){(void *)bytes, (size_t)n};
        /* A failure is reported by on_close of the stream. */
        (void)!atoll_stream_writev_whole(h->stream, &iov, 1);
    }
    atoll_stream_uncork(h->stream);
    if (n < 0)
        drop(h);
}

/* Sends pending frames; then closes the connection if it is over, or stops reading if the client does not
 * take our output. */
static void flush(struct atoll_http2 *h)
{
    if (h->dead || h->closing)
        return;
    if (h->too_much)
        (void)!nghttp2_session_terminate_session(h->lib, NGHTTP2_ENHANCE_YOUR_CALM);
    send_frames(h);
    if (h->dead)
        return;
    if (h->too_much || (!nghttp2_session_want_read(h->lib) && !nghttp2_session_want_write(h->lib)))
        close_soon(h);
    else if (atoll_stream_pending(h->stream) > ATOLL_HTTP_HIGH_WATER)
        atoll_stream_pause(h->stream);
    else
        atoll_stream_resume(h->stream);
}

static void kicked(void *arg)
{
    struct atoll_http2 *h = arg;

    h->depth++;
    flush(h);
    leave(h);
}

void atoll_http2_wake(struct atoll_http2 *h)
{
    if (!h->busy && !h->closing && !h->kick.loop)
        atoll_timer_set(&h->kick, h->server->loop, 0, kicked, h);
}

/* The stream. */

size_t atoll_http2_input(struct atoll_http2 *h, const uint8_t *bytes, size_t n)
{
    ssize_t used;

    h->depth++;
    h->busy = true;
    h->since_frame += n;
    used = nghttp2_session_mem_recv(h->lib, bytes, n);
    h->busy = false;
    if (h->since_frame > UNFRAMED_MAX)
        h->too_much = true;
    if (used < 0 && used != NGHTTP2_ERR_FLOODED)
        drop(h);
    else
        h->too_much |= used < 0;
    flush(h);
    leave(h);
    return n;
}

static size_t stream_input(void *arg, const uint8_t *bytes, size_t n)
{
    return atoll_http2_input(arg, bytes, n);
}

static void stream_over(void *arg)
{
    struct atoll_http2 *h = arg;

    h->depth++;
    drop(h);
    leave(h);
}

static void stream_closed(void *arg, int error)
{
    (void)error;
    stream_over(arg);
}

static const struct atoll_stream_callbacks stream_callbacks = {
    .on_input = stream_input,
    .on_drain = kicked,
    .on_eof = stream_over,
    .on_close = stream_closed,
};

/* Takes the byte stream from the connection object that was made before the version was known. */
static struct atoll_stream *take_stream(struct atoll_http_conn *c)
{
    struct atoll_stream *stream = ATOLL_TAKE_PTR(c->stream);

    atoll_http_conn_close(c);
    return stream;
}

struct atoll_http2 *atoll_http2_take_over(struct atoll_http_conn *c)
{
    struct atoll_http_server *s = c->server;
    struct atoll_http2 *h = calloc(1, sizeof(*h));

    if (h) {
        h->server = s;
        h->peer = c->peer;
        h->resets = RESETS_MAX;
        h->noise = NOISE_MAX;
        h->refilled_ms = h->head_since_ms = atoll_loop_now_ms(s->loop);
        atoll_list_init(&h->streams);
        atoll_list_init(&h->close_hooks);
        h->lib = make_session(h);
    }
    if (!h || !h->lib || submit_settings(h) < 0) {
        if (h)
            nghttp2_session_del(h->lib);
        free(h);
        atoll_http_conn_close(c);
        return NULL;
    }
    h->stream = take_stream(c);
    atoll_stream_set_owner(h->stream, &stream_callbacks, h);
    atoll_list_push_back(&s->sessions, &h->node);
    atoll_shares_add(&s->connections, h->peer.source, 1);
    return h;
}

/* Timeouts. */

static bool expire_session(struct atoll_http2 *h, int64_t now)
{
    const struct atoll_http_limits *l = &h->server->limits;
    bool idle = now - atoll_stream_active_ms(h->stream) >= l->idle_ms;
    bool stuck = idle && atoll_stream_pending(h->stream) > 0;

    if (stuck || (h->head_since_ms != 0 && now - h->head_since_ms >= l->header_ms)) {
        drop(h);
        return true;
    }
    if (idle && atoll_list_empty(&h->streams) && atoll_list_empty(&h->close_hooks) && !h->closing) {
        (void)!nghttp2_session_terminate_session(h->lib, NGHTTP2_NO_ERROR);
        send_frames(h);
        if (!h->dead)
            close_soon(h);
        return true;
    }
    return false;
}

static bool expire_streams(struct atoll_http2 *h, int64_t now)
{
    ATOLL_LIST_FOREACH (&h->streams, node) {
        struct atoll_http2_stream *st =
            ATOLL_CONTAINER_OF(node, struct atoll_http2_stream, conn.node);
        if (atoll_http2_stream_is_expired(st, now)) {
            atoll_http2_stream_expire(st);
            return true;
        }
    }
    return false;
}

/* Ends one expired session or stream. True if one was ended: its callbacks may have changed the lists, so
 * the caller starts again. */
static bool expire_one(struct atoll_http_server *s)
{
    int64_t now = atoll_loop_now_ms(s->loop);

    ATOLL_LIST_FOREACH (&s->sessions, node) {
        struct atoll_http2 *h = ATOLL_CONTAINER_OF(node, struct atoll_http2, node);
        bool ended;
        h->depth++;
        ended = expire_session(h, now) || expire_streams(h, now);
        leave(h);
        if (ended)
            return true;
    }
    return false;
}

void atoll_http2_sweep(struct atoll_http_server *s)
{
    while (expire_one(s))
        ;
}

void atoll_http2_close_all(struct atoll_http_server *s)
{
    while (!atoll_list_empty(&s->sessions))
        drop(ATOLL_CONTAINER_OF(s->sessions.next, struct atoll_http2, node));
}

/*
 * A server that speaks HTTP/2: one connection for many requests. nghttp2 handles frames, HPACK, windows and
 * the state of each stream. Its callbacks may submit frames but must not send: sending happens after the
 * input was processed, or from the calls of exchanges.
 *
 * The bytes that a client does not take are bounded by the windows: bytes are returned to them when the
 * client has taken what is queued.
 */
#include <errno.h>
#include <string.h>
#include "base/text.h"
#include "egress/intercept_internal.h"
#include "net/stream.h"

#define STREAMS_MAX 100 /* at most; a server may permit fewer */
#define WINDOW_STREAM (256 * 1024)
#define WINDOW_CONN (1024 * 1024)
#define HEADER_LIST_MAX (64 * 1024)
#define UNFRAMED_MAX ((size_t)128 * 1024) /* a header block with its CONTINUATION frames */

static const struct atoll_buf no_fields;

/* Sending. */

static void flush(struct atoll_upstream *up)
{
    const uint8_t *bytes;
    struct iovec iov;
    ssize_t n = 0;

    if (up->receiving || up->freed)
        return;
    up->receiving = true; /* no nested call from the callbacks of nghttp2 */
    atoll_stream_cork(up->stream);
    while (atoll_stream_pending(up->stream) <= ATOLL_HTTP_HIGH_WATER &&
           (n = nghttp2_session_mem_send(up->lib, &bytes)) > 0) {
        iov = (struct iovec){(void *)bytes, (size_t)n};
        /* A failure is reported by on_close of the stream. */
        (void)!atoll_stream_writev_whole(up->stream, &iov, 1);
    }
    atoll_stream_uncork(up->stream);
    up->receiving = false;
}

/* Ends all exchanges of the connection, and frees it. */
static void close_all(struct atoll_upstream *up)
{
    struct atoll_intercept *i = up->intercept;
    struct atoll_list lost;

    up->depth++;
    atoll_list_init(&lost);
    ATOLL_LIST_FOREACH (&i->exchanges, node) {
        struct atoll_exchange *x = ATOLL_CONTAINER_OF(node, struct atoll_exchange, node);
        if (x->up == up) {
            x->up = NULL;
            atoll_list_remove(&x->node);
            atoll_list_push_back(&lost, &x->node);
        }
    }
    atoll_upstream_free(up);
    while (!atoll_list_empty(&lost)) {
        struct atoll_exchange *x = ATOLL_CONTAINER_OF(lost.next, struct atoll_exchange, node);
        atoll_list_remove(&x->node);
        atoll_list_push_back(&i->exchanges, &x->node);
        atoll_exchange_lost(x, x->begun, false);
    }
    atoll_upstream_leave(up);
}

/* The request. */

/* Headers under construction. */
struct list {
    nghttp2_nv *nv;
    size_t count;
};

static void add(struct list *l, const char *name, const char *value, uint8_t flags)
{
    l->nv[l->count++] =
        (nghttp2_nv){(uint8_t *)name, (uint8_t *)value, strlen(name), strlen(value), flags};
}

/* HTTP/2 has names in lower case. */
static void lower_names(struct atoll_buf *fields)
{
    const char *name, *value;

    for (size_t at = 0; atoll_intercept_next_field(fields, &at, &name, &value);)
        for (char *p = (char *)name; *p; p++)
            *p |= *p >= 'A' && *p <= 'Z' ? 0x20 : 0;
}

static size_t count_fields(const struct atoll_buf *fields)
{
    const char *name, *value;
    size_t n = 0;

    for (size_t at = 0; atoll_intercept_next_field(fields, &at, &name, &value);)
        n++;
    return n;
}

static ssize_t read_body(nghttp2_session *lib, int32_t id, uint8_t *buf, size_t cap,
                         uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    struct atoll_exchange *x = nghttp2_session_get_stream_user_data(lib, id);
    size_t n = x ? ATOLL_MIN(atoll_buf_size(&x->out), cap) : 0;

    (void)source;
    (void)arg;
    if (!x)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    if (n == 0 && !x->body_ended) {
        x->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (n > 0) {
        memcpy(buf, atoll_buf_head(&x->out), n);
        atoll_buf_consume(&x->out, n);
    }
    if (atoll_buf_size(&x->out) == 0 && x->body_ended)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (atoll_buf_size(&x->out) < ATOLL_HTTP_HIGH_WATER)
        atoll_exchange_drained(x);
    return (ssize_t)n;
}

/* Values of rules are secrets: HPACK must not keep them in its table (RFC 7541 section 7.1.3), from which a
 * client could guess them by the size of later requests. */
static int submit(struct atoll_upstream *up, struct atoll_exchange *x)
{
    nghttp2_data_provider source = {.read_callback = read_body};
    int64_t length = atoll_http_content_length(x->req);
    nghttp2_nv *nv = calloc(count_fields(&x->fields) + 6, sizeof(*nv));
    struct list l = {nv, 0};
    const char *name, *value;
    char digits[24];
    int32_t id;

    if (!nv)
        return -ENOMEM;
    lower_names(&x->fields);
    add(&l, ":method", atoll_http_method_name(atoll_http_method(x->req)), NGHTTP2_NV_FLAG_NONE);
    add(&l, ":scheme", x->place.tls ? "https" : "http", NGHTTP2_NV_FLAG_NONE);
    add(&l, ":authority", atoll_buf_str(&x->authority), NGHTTP2_NV_FLAG_NONE);
    add(&l, ":path", atoll_buf_str(&x->target), NGHTTP2_NV_FLAG_NONE);
    for (size_t at = 0; atoll_intercept_next_field(&x->fields, &at, &name, &value);)
        add(&l, name, value, NGHTTP2_NV_FLAG_NO_INDEX);
    if (x->wants_trailers)
        add(&l, "te", "trailers", NGHTTP2_NV_FLAG_NONE);
    if (length > 0) {
        (void)snprintf(digits, sizeof(digits), "%lld", (long long)length);
        add(&l, "content-length", digits, NGHTTP2_NV_FLAG_NONE);
    }
    id = nghttp2_submit_request(up->lib, NULL, nv, l.count, length == 0 ? NULL : &source, x);
    free(nv);
    if (id < 0)
        return -EPROTO;
    x->stream_id = id;
    return 0;
}

static void ask(struct atoll_upstream *up, struct atoll_exchange *x)
{
    x->status = 0;
    atoll_buf_clear(&x->answer);
    if (submit(up, x) < 0) {
        up->going_away = true;
        atoll_exchange_fail(x, "out of memory for the request");
        return;
    }
    atoll_exchange_go(x);
    flush(up);
}

static void more_body(struct atoll_exchange *x)
{
    if (x->deferred) {
        x->deferred = false;
        (void)!nghttp2_session_resume_data(x->up->lib, x->stream_id);
    }
    flush(x->up);
}

static void write_body(struct atoll_exchange *x, const uint8_t *bytes, size_t n)
{
    /* The client is paused at the high-water mark, so this fails only without memory. */
    if (atoll_buf_append(&x->out, bytes, n) < 0)
        (void)!nghttp2_submit_rst_stream(x->up->lib, NGHTTP2_FLAG_NONE, x->stream_id,
                                         NGHTTP2_INTERNAL_ERROR);
    more_body(x);
}

static void end_body(struct atoll_exchange *x)
{
    more_body(x);
}

static size_t pending(const struct atoll_exchange *x)
{
    return atoll_buf_size(&x->out);
}

/* The answer: callbacks of nghttp2. */

static struct atoll_exchange *exchange_of(nghttp2_session *lib, int32_t id)
{
    return id > 0 ? nghttp2_session_get_stream_user_data(lib, id) : NULL;
}

static void reset(struct atoll_exchange *x, const char *what)
{
    (void)!nghttp2_submit_rst_stream(x->up->lib, NGHTTP2_FLAG_NONE, x->stream_id,
                                     NGHTTP2_PROTOCOL_ERROR);
    atoll_exchange_fail(x, "%s %s", x->place.host, what);
}

static int on_begin_frame(nghttp2_session *lib, const nghttp2_frame_hd *hd, void *arg)
{
    struct atoll_upstream *up = arg;

    (void)lib;
    if (hd->type != NGHTTP2_CONTINUATION)
        up->since_frame = 0;
    return 0;
}

static int on_header(nghttp2_session *lib, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *arg)
{
    struct atoll_exchange *x = exchange_of(lib, frame->hd.stream_id);
    uint64_t status;

    (void)flags;
    (void)arg;
    if (!x)
        return 0;
    if (name[0] == ':') {
        if (strcmp((const char *)name, ":status") == 0 &&
            atoll_text_u64((const char *)value, 100, 599, &status) == 0)
            x->status = (int)status;
        return 0;
    }
    if (memchr(value, '\0', value_len) || atoll_buf_append(&x->answer, name, name_len + 1) < 0 ||
        atoll_buf_append(&x->answer, value, value_len + 1) < 0)
        reset(x, "sent too large a head");
    return 0;
}

static int64_t length_of(const struct atoll_buf *fields)
{
    const char *name, *value;
    uint64_t length;

    for (size_t at = 0; atoll_intercept_next_field(fields, &at, &name, &value);)
        if (strcmp(name, "content-length") == 0 &&
            atoll_text_u64(value, 0, INT64_MAX, &length) == 0)
            return (int64_t)length;
    return -1;
}

static void head_complete(struct atoll_exchange *x, bool ended)
{
    bool passed;

    if (x->status < 200 && x->status != 101 && x->status >= 100 && !ended) {
        if (x->status > 100)
            atoll_exchange_inform(x, x->status, &x->answer);
        x->status = 0;
        atoll_buf_clear(&x->answer);
        return;
    }
    if (x->status < 200) {
        reset(x, "sent a malformed answer");
        return;
    }
    passed = ended ? atoll_exchange_only_head(x, x->status, &x->answer, length_of(&x->answer))
                   : atoll_exchange_head(x, x->status, "", &x->answer, length_of(&x->answer));
    if (!passed)
        reset(x, "sent a malformed answer");
    else if (!ended)
        atoll_buf_clear(&x->answer); /* from now on for trailers */
}

static int on_frame(nghttp2_session *lib, const nghttp2_frame *frame, void *arg)
{
    struct atoll_exchange *x = exchange_of(lib, frame->hd.stream_id);
    bool ended = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
    struct atoll_upstream *up = arg;

    if (frame->hd.type == NGHTTP2_GOAWAY)
        up->going_away = true;
    if (!x || (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA))
        return 0;
    if (frame->hd.type == NGHTTP2_HEADERS && !x->begun)
        head_complete(x, ended);
    else if (ended)
        atoll_exchange_end(x, frame->hd.type == NGHTTP2_HEADERS ? &x->answer : &no_fields);
    return 0;
}

/* Returns bytes that the client has taken to the windows. */
static void give_back(struct atoll_exchange *x)
{
    if (x->owed > 0)
        (void)!nghttp2_session_consume(x->up->lib, x->stream_id, x->owed);
    x->owed = 0;
}

static int on_data(nghttp2_session *lib, uint8_t flags, int32_t id, const uint8_t *bytes, size_t n,
                   void *arg)
{
    struct atoll_exchange *x = exchange_of(lib, id);
    bool full;

    (void)flags;
    (void)arg;
    if (!x) {
        (void)!nghttp2_session_consume_connection(lib, n);
        return 0;
    }
    x->owed += n;
    if (!atoll_exchange_body(x, bytes, n, &full))
        reset(x, "sent a malformed answer");
    else if (!full)
        give_back(x);
    return 0;
}

static int on_stream_close(nghttp2_session *lib, int32_t id, uint32_t code, void *arg)
{
    struct atoll_exchange *x = exchange_of(lib, id);

    (void)arg;
    if (!x)
        return 0;
    x->up->wire->leave(x, false);
    x->up = NULL;
    atoll_exchange_lost(x, x->begun, code == NGHTTP2_REFUSED_STREAM);
    return 0;
}

/* The connection. */

static size_t on_input(void *arg, const uint8_t *bytes, size_t n)
{
    struct atoll_upstream *up = arg;
    ssize_t used;

    up->depth++;
    up->since_frame += n;
    up->receiving = true;
    used = nghttp2_session_mem_recv(up->lib, bytes, n);
    up->receiving = false;
    if (!up->freed)
        flush(up);
    if (!up->freed &&
        (used < 0 || up->since_frame > UNFRAMED_MAX ||
         (!nghttp2_session_want_read(up->lib) && !nghttp2_session_want_write(up->lib))))
        close_all(up);
    atoll_upstream_leave(up);
    return n;
}

static void on_drain(void *arg)
{
    flush(arg);
}

static void on_close(void *arg, int error)
{
    (void)error;
    close_all(arg);
}

static const struct atoll_stream_callbacks callbacks = {
    .on_input = on_input,
    .on_drain = on_drain,
    .on_close = on_close,
    .ends_in_order = true,
};

static nghttp2_session *make_session(struct atoll_upstream *up)
{
    nghttp2_session_callbacks *cb = NULL;
    nghttp2_option *option = NULL;
    nghttp2_session *lib = NULL;

    if (nghttp2_session_callbacks_new(&cb) == 0 && nghttp2_option_new(&option) == 0) {
        nghttp2_session_callbacks_set_on_begin_frame_callback(cb, on_begin_frame);
        nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
        nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
        nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_stream_close);
        /* The window grows when the client has taken the bytes, not when they arrive. */
        nghttp2_option_set_no_auto_window_update(option, 1);
        nghttp2_option_set_no_closed_streams(option, 1);
        if (nghttp2_session_client_new2(&lib, cb, up, option) != 0)
            lib = NULL;
    }
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(cb);
    return lib;
}

static int open_wire(struct atoll_upstream *up)
{
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW_STREAM},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEADER_LIST_MAX},
    };

    up->lib = make_session(up);
    if (!up->lib ||
        nghttp2_submit_settings(up->lib, NGHTTP2_FLAG_NONE, settings, ATOLL_ARRAY_LEN(settings)) ||
        nghttp2_session_set_local_window_size(up->lib, NGHTTP2_FLAG_NONE, 0, WINDOW_CONN))
        return -ENOMEM;
    return atoll_upstream_open_stream(up, &callbacks);
}

static bool has_room(const struct atoll_upstream *up)
{
    uint32_t theirs =
        nghttp2_session_get_remote_settings(up->lib, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
    size_t n = 0;

    if (up->going_away || !nghttp2_session_check_request_allowed(up->lib))
        return false;
    ATOLL_LIST_FOREACH (&up->intercept->exchanges, node)
        n += ATOLL_CONTAINER_OF(node, struct atoll_exchange, node)->up == up;
    return n < ATOLL_MIN(theirs, (uint32_t)STREAMS_MAX);
}

static void resume(struct atoll_exchange *x)
{
    give_back(x);
    flush(x->up);
}

static void leave(struct atoll_exchange *x, bool complete)
{
    struct atoll_upstream *up = x->up;

    give_back(x);
    (void)!nghttp2_session_set_stream_user_data(up->lib, x->stream_id, NULL);
    if (!complete || !x->body_ended)
        (void)!nghttp2_submit_rst_stream(up->lib, NGHTTP2_FLAG_NONE, x->stream_id, NGHTTP2_CANCEL);
    flush(up);
}

static void free_wire(struct atoll_upstream *up)
{
    nghttp2_session_del(up->lib);
    up->lib = NULL;
}

const struct atoll_upstream_wire atoll_upstream_http2 = {
    .open = open_wire,
    .has_room = has_room,
    .ask = ask,
    .write = write_body,
    .end_body = end_body,
    .pending = pending,
    .resume = resume,
    .leave = leave,
    .free = free_wire,
};

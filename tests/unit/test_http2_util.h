#pragma once
#include <nghttp2/nghttp2.h>
#include "test_http_util.h"

/*
 * A client of HTTP/2 on one end of a socket pair, by nghttp2; the other end belongs to a server
 * whose loop the test turns by hand. What nghttp2 would not send is sent as raw frames.
 */
#define H2_STREAMS 400

struct h2_reply {
    int status;
    char fields[2048]; /* "name: value\n" each */
    struct atoll_buf body;
    bool closed;
    uint32_t code;
    /* What to send. */
    const uint8_t *send;
    size_t left;
};

struct h2 {
    struct rig rig;
    nghttp2_session *lib;
    struct h2_reply replies[H2_STREAMS]; /* by stream id / 2 */
    bool hold;                           /* bytes received give the server no new credit */
    bool went_away;
    uint32_t goaway_code;
    size_t sent; /* bytes of bodies */
};

static inline struct h2_reply *h2_reply(struct h2 *c, int32_t id)
{
    assert_true(id > 0 && id / 2 < H2_STREAMS);
    return &c->replies[id / 2];
}

static int h2_on_header(nghttp2_session *lib, const nghttp2_frame *frame, const uint8_t *name,
                        size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                        void *arg)
{
    struct h2_reply *r = h2_reply(arg, frame->hd.stream_id);
    size_t at = strlen(r->fields);

    (void)lib;
    (void)flags;
    if (name_len == 7 && memcmp(name, ":status", 7) == 0)
        r->status = atoi((const char *)value);
    snprintf(r->fields + at, sizeof(r->fields) - at, "%.*s: %.*s\n", (int)name_len, name,
             (int)value_len, value);
    return 0;
}

static int h2_on_data(nghttp2_session *lib, uint8_t flags, int32_t id, const uint8_t *bytes,
                      size_t n, void *arg)
{
    struct h2 *c = arg;

    (void)flags;
    assert_int_equal(atoll_buf_append(&h2_reply(c, id)->body, bytes, n), 0);
    if (!c->hold)
        assert_int_equal(nghttp2_session_consume(lib, id, n), 0);
    return 0;
}

static int h2_on_close(nghttp2_session *lib, int32_t id, uint32_t code, void *arg)
{
    (void)lib;
    h2_reply(arg, id)->closed = true;
    h2_reply(arg, id)->code = code;
    return 0;
}

static int h2_on_frame(nghttp2_session *lib, const nghttp2_frame *frame, void *arg)
{
    struct h2 *c = arg;

    (void)lib;
    if (frame->hd.type == NGHTTP2_GOAWAY) {
        c->went_away = true;
        c->goaway_code = frame->goaway.error_code;
    }
    return 0;
}

static ssize_t h2_read_body(nghttp2_session *lib, int32_t id, uint8_t *buf, size_t cap,
                            uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    struct h2 *c = arg;
    struct h2_reply *r = h2_reply(c, id);
    size_t n = ATOLL_MIN(cap, r->left);

    (void)lib;
    (void)source;
    if (n > 0) {
        memcpy(buf, r->send, n);
        r->send += n;
    }
    r->left -= n;
    c->sent += n;
    if (r->left == 0)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n;
}

static inline void h2_open(struct h2 *c, const struct atoll_http_limits *limits,
                           void (*on_request)(void *arg, struct atoll_http_request *req), void *arg)
{
    nghttp2_session_callbacks *cb;
    nghttp2_option *option;
    int pair[2];

    memset(c, 0, sizeof(*c));
    for (size_t i = 0; i < H2_STREAMS; i++)
        atoll_buf_init(&c->replies[i].body, 64 * 1024 * 1024);
    rig_open(&c->rig, limits, on_request, arg);
    close(c->rig.fd);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    assert_int_equal(atoll_http_server_adopt_h2(c->rig.server, pair[0], NULL), 0);
    c->rig.fd = pair[1];
    assert_int_equal(nghttp2_session_callbacks_new(&cb), 0);
    nghttp2_session_callbacks_set_on_header_callback(cb, h2_on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, h2_on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, h2_on_close);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, h2_on_frame);
    assert_int_equal(nghttp2_option_new(&option), 0);
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_no_http_messaging(option, 1);
    assert_int_equal(nghttp2_session_client_new2(&c->lib, cb, c, option), 0);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(cb);
    assert_int_equal(nghttp2_submit_settings(c->lib, 0, NULL, 0), 0);
}

static inline void h2_close(struct h2 *c)
{
    nghttp2_session_del(c->lib);
    rig_close(&c->rig);
    for (size_t i = 0; i < H2_STREAMS; i++)
        atoll_buf_done(&c->replies[i].body);
}

/* Sends what the socket takes; true when something moved. */
static inline bool h2_send(struct h2 *c)
{
    const uint8_t *bytes;
    ssize_t n;
    bool moved = false;

    while (atoll_buf_size(&c->rig.got) == 0 && (n = nghttp2_session_mem_send(c->lib, &bytes)) > 0) {
        rig_send(&c->rig, bytes, (size_t)n);
        moved = true;
    }
    return moved;
}

static inline bool h2_receive(struct h2 *c)
{
    size_t n;

    rig_read(&c->rig);
    n = atoll_buf_size(&c->rig.got);
    if (n == 0)
        return false;
    assert_int_equal(nghttp2_session_mem_recv(c->lib, atoll_buf_head(&c->rig.got), n), n);
    atoll_buf_clear(&c->rig.got);
    return true;
}

/* Turns everything until nothing happens for some rounds. */
static inline void h2_turn(struct h2 *c)
{
    for (int quiet = 0; quiet < 5; quiet++) {
        bool moved = h2_send(c);
        assert_int_equal(atoll_loop_step(c->rig.loop, 1, NULL), 0);
        if (h2_receive(c) || moved)
            quiet = 0;
    }
}

static inline nghttp2_nv h2_nv(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)name, (uint8_t *)value, strlen(name), strlen(value), 0};
}

/* fields: "name", "value", …, NULL. Returns the stream. */
static inline int32_t h2_submit(struct h2 *c, const char *const *fields, const void *body, size_t n,
                                bool has_body)
{
    nghttp2_data_provider source = {.read_callback = h2_read_body};
    int32_t id = (int32_t)nghttp2_session_get_next_stream_id(c->lib);
    nghttp2_nv nv[200];
    size_t count = 0;

    for (; fields[0]; fields += 2)
        nv[count++] = h2_nv(fields[0], fields[1]);
    h2_reply(c, id)->send = body;
    h2_reply(c, id)->left = n;
    assert_int_equal(nghttp2_submit_request(c->lib, NULL, nv, count, has_body ? &source : NULL, c),
                     id);
    return id;
}

static inline int32_t h2_ask(struct h2 *c, const char *method, const char *path)
{
    const char *const fields[] = {":method", method,  ":scheme", "https", ":authority",
                                  "a.test",  ":path", path,      NULL};
    return h2_submit(c, fields, NULL, 0, false);
}

static inline int32_t h2_post(struct h2 *c, const char *path, const void *body, size_t n)
{
    const char *const fields[] = {":method", "POST",  ":scheme", "https", ":authority",
                                  "a.test",  ":path", path,      NULL};
    return h2_submit(c, fields, body, n, true);
}

/* A frame as bytes, whatever it holds. */
static inline void h2_raw(struct h2 *c, uint8_t type, uint8_t flags, uint32_t id, const void *bytes,
                          size_t n)
{
    uint8_t head[9] = {
        (uint8_t)(n >> 16),  (uint8_t)(n >> 8),   (uint8_t)n,         type,       flags,
        (uint8_t)(id >> 24), (uint8_t)(id >> 16), (uint8_t)(id >> 8), (uint8_t)id};

    rig_send(&c->rig, head, sizeof(head));
    rig_send(&c->rig, bytes, n);
}

static inline uint8_t *h2_string(uint8_t *p, const char *text)
{
    size_t n = strlen(text);

    assert_true(n < 127);
    *p++ = (uint8_t)n;
    memcpy(p, text, n);
    return p + n;
}

/* A header block without compression state: literals, never indexed. */
static inline size_t h2_block(const char *const *fields, uint8_t *out)
{
    uint8_t *p = out;

    for (; fields[0]; fields += 2) {
        *p++ = 0x10;
        p = h2_string(p, fields[0]);
        p = h2_string(p, fields[1]);
    }
    return (size_t)(p - out);
}

#include "net/ws_codec.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <wslay/wslay.h>
#include "base/base64.h"
#include "base/rand.h"
#include "base/sha1.h"
#include "base/text.h"

#define CODE_PROTOCOL 1002
#define CODE_NO_STATUS 1005
#define CODE_NOT_UTF8 1007
#define CODE_TOO_BIG 1009
#define CODE_INTERNAL 1011
#define CONTROL_MAX 125

struct atoll_ws_codec {
    wslay_frame_context_ptr frames; /* owned */
    bool is_server;
    const uint8_t *in; /* bytes passed to decode() and not consumed yet */
    size_t in_len;
    size_t max_message;
    struct atoll_buf message; /* fragments so far */
    bool in_message;          /* a data frame without FIN arrived; a continuation must follow */
    uint8_t message_opcode;
    uint8_t control[CONTROL_MAX];
    size_t control_len;
    bool in_frame;         /* header seen, payload incomplete */
    bool clear_message;    /* the last delivered message can be cleared */
    uint64_t frame_left;   /* payload bytes still to arrive */
    struct atoll_buf *out; /* mask(): destination of the frame; NULL: header() */
    uint8_t *header;
    size_t header_len;
};

static ssize_t give_input(uint8_t *buf, size_t len, int flags, void *arg)
{
    struct atoll_ws_codec *c = arg;
    size_t n = ATOLL_MIN(len, c->in_len);

    (void)flags;
    if (n == 0)
        return -1;
    memcpy(buf, c->in, n);
    c->in += n;
    c->in_len -= n;
    return (ssize_t)n;
}

/* Receives the bytes of a frame that wslay makes. For header() only the first piece is stored. */
static ssize_t take_output(const uint8_t *data, size_t len, int flags, void *arg)
{
    struct atoll_ws_codec *c = arg;

    (void)flags;
    if (c->out)
        return atoll_buf_append(c->out, data, len) < 0 ? -1 : (ssize_t)len;
    if (c->header_len == 0) {
        memcpy(c->header, data, len);
        c->header_len = len;
    }
    return (ssize_t)len;
}

static int make_mask(uint8_t *buf, size_t len, void *arg)
{
    (void)arg;
    atoll_rand_bytes(buf, len);
    return 0;
}

int atoll_ws_codec_new(bool is_server, size_t max_message, struct atoll_ws_codec **ret_codec)
{
    static const struct wslay_frame_callbacks callbacks = {take_output, give_input, make_mask};
    struct atoll_ws_codec *c = calloc(1, sizeof(*c));

    if (!c || wslay_frame_context_init(&c->frames, &callbacks, c) != 0) {
        free(c);
        return -ENOMEM;
    }
    c->is_server = is_server;
    c->max_message = max_message;
    atoll_buf_init(&c->message, max_message);
    *ret_codec = c;
    return 0;
}

struct atoll_ws_codec *atoll_ws_codec_free(struct atoll_ws_codec *c)
{
    if (c) {
        wslay_frame_context_free(c->frames);
        atoll_buf_done(&c->message);
        free(c);
    }
    return NULL;
}

bool atoll_ws_is_utf8(const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t len;
        if (bytes[i] < 0x80) {
            i++;
            continue;
        }
        len = atoll_text_utf8_len(bytes + i, n - i);
        if (len == 0)
            return false;
        i += len;
    }
    return true;
}

static bool is_close_code(uint16_t code)
{
    return (code >= 1000 && code <= 1014 && code != 1004 && code != CODE_NO_STATUS &&
            code != 1006) ||
           (code >= 3000 && code <= 4999);
}

/* Checks whether this frame is allowed now. Returns the close code to fail with, or 0. */
static uint16_t begin_frame(struct atoll_ws_codec *c, const struct wslay_frame_iocb *f)
{
    if (f->rsv != 0 || (f->mask != 0) != c->is_server)
        return CODE_PROTOCOL;
    switch (f->opcode) {
    case ATOLL_WS_CLOSE:
    case ATOLL_WS_PING:
    case ATOLL_WS_PONG:
        c->control_len = 0; /* wslay has checked FIN and length */
        break;
    case WSLAY_CONTINUATION_FRAME:
    case ATOLL_WS_TEXT:
    case ATOLL_WS_BINARY:
        if ((f->opcode == WSLAY_CONTINUATION_FRAME) != c->in_message)
            return CODE_PROTOCOL;
        if (f->payload_length > c->max_message - atoll_buf_size(&c->message))
            return CODE_TOO_BIG;
        if (!c->in_message)
            c->message_opcode = f->opcode;
        c->in_message = true;
        break;
    default:
        return CODE_PROTOCOL;
    }
    c->in_frame = true;
    c->frame_left = f->payload_length;
    return 0;
}

static uint16_t finish_close(struct atoll_ws_codec *c, struct atoll_ws_event *ev)
{
    ev->code = CODE_NO_STATUS;
    if (ev->n == 0)
        return 0;
    if (ev->n == 1)
        return CODE_PROTOCOL;
    ev->code = (uint16_t)(c->control[0] << 8 | c->control[1]);
    ev->bytes += 2;
    ev->n -= 2;
    if (!is_close_code(ev->code))
        return CODE_PROTOCOL;
    return atoll_ws_is_utf8(ev->bytes, ev->n) ? 0 : CODE_NOT_UTF8;
}

/* A frame is complete. Returns 1 if that completes an event, 0 if not, -EPROTO. */
static int finish_frame(struct atoll_ws_codec *c, const struct wslay_frame_iocb *f, bool direct,
                        struct atoll_ws_event *ev, uint16_t *code)
{
    c->in_frame = false;
    *code = 0;
    if (wslay_is_ctrl_frame(f->opcode)) {
        *ev =
            (struct atoll_ws_event){(enum atoll_ws_opcode)f->opcode, c->control, c->control_len, 0};
        if (f->opcode == ATOLL_WS_CLOSE)
            *code = finish_close(c, ev);
        return *code ? -EPROTO : 1;
    }
    if (!f->fin)
        return 0;
    c->in_message = false;
    c->clear_message = true;
    *ev = (struct atoll_ws_event){
        .opcode = (enum atoll_ws_opcode)c->message_opcode,
        .bytes = direct ? f->data : atoll_buf_head(&c->message),
        .n = direct ? f->data_length : atoll_buf_size(&c->message),
    };
    if (ev->opcode == ATOLL_WS_TEXT && !atoll_ws_is_utf8(ev->bytes, ev->n)) {
        *code = CODE_NOT_UTF8;
        return -EPROTO;
    }
    return 1;
}

/* Stores a piece of payload. Returns the same as finish_frame(). */
static int take_piece(struct atoll_ws_codec *c, const struct wslay_frame_iocb *f,
                      struct atoll_ws_event *ev, uint16_t *code)
{
    /* A small message that arrived whole is delivered from wslay's buffer, without a copy. */
    bool direct = f->fin && f->data_length == f->payload_length && atoll_buf_size(&c->message) == 0;

    c->frame_left -= f->data_length;
    if (wslay_is_ctrl_frame(f->opcode)) {
        if (f->data_length > sizeof(c->control) - c->control_len) {
            *code = CODE_PROTOCOL;
            return -EPROTO;
        }
        if (f->data_length > 0)
            memcpy(c->control + c->control_len, f->data, f->data_length);
        c->control_len += f->data_length;
    } else if (!direct && atoll_buf_append(&c->message, f->data, f->data_length) < 0) {
        *code = CODE_INTERNAL;
        return -EPROTO;
    }
    return c->frame_left == 0 ? finish_frame(c, f, direct, ev, code) : 0;
}

static void clear_message(struct atoll_ws_codec *c)
{
    c->clear_message = false;
    if (c->message.cap > 64 * 1024)
        atoll_buf_done(&c->message);
    else
        atoll_buf_clear(&c->message);
}

int atoll_ws_codec_decode(struct atoll_ws_codec *c, const uint8_t **bytes, size_t *n,
                          struct atoll_ws_event *ret_event, uint16_t *ret_code)
{
    int r = 0;

    if (c->clear_message)
        clear_message(c);
    c->in = *bytes;
    c->in_len = *n;
    while (r == 0) {
        struct wslay_frame_iocb f = {0};
        ssize_t got = wslay_frame_recv(c->frames, &f);
        if (got == WSLAY_ERR_WANT_READ) {
            if (c->in_len == 0)
                break;
            continue; /* the header was split at the end of wslay's buffer */
        }
        *ret_code = got < 0 ? CODE_PROTOCOL : c->in_frame ? 0 : begin_frame(c, &f);
        r = *ret_code ? -EPROTO : take_piece(c, &f, ret_event, ret_code);
    }
    *bytes = c->in;
    *n = c->in_len;
    return r;
}

size_t atoll_ws_codec_header(struct atoll_ws_codec *c, enum atoll_ws_opcode opcode, size_t n,
                             uint8_t header[ATOLL_WS_HEADER_MAX])
{
    struct wslay_frame_iocb f = {.fin = 1, .opcode = (uint8_t)opcode, .payload_length = n};

    c->out = NULL;
    c->header = header;
    c->header_len = 0;
    /* Pass the payload length, so that wslay is ready for the next frame; the bytes are not used. */
    f.data = header;
    f.data_length = n;
    (void)!wslay_frame_send(c->frames, &f);
    return c->header_len;
}

int atoll_ws_codec_mask(struct atoll_ws_codec *c, enum atoll_ws_opcode opcode, const void *bytes,
                        size_t n, struct atoll_buf *out)
{
    struct wslay_frame_iocb f = {
        .fin = 1,
        .opcode = (uint8_t)opcode,
        .payload_length = n,
        .mask = 1,
        .data = bytes,
        .data_length = n,
    };
    uint8_t *tail;
    int r = atoll_buf_reserve(out, n + ATOLL_WS_HEADER_MAX, &tail);

    if (r < 0)
        return r;
    c->out = out;
    (void)!wslay_frame_send(c->frames, &f);
    return 0;
}

size_t atoll_ws_close_payload(uint16_t code, const char *reason, uint8_t payload[125])
{
    size_t n = 2;

    if (code == CODE_NO_STATUS)
        return 0;
    payload[0] = (uint8_t)(code >> 8);
    payload[1] = (uint8_t)code;
    for (const char *p = reason; p && *p;) {
        size_t len = atoll_text_utf8_len((const uint8_t *)p, strlen(p));
        if (len == 0 || n + len > CONTROL_MAX)
            break;
        memcpy(payload + n, p, len);
        n += len;
        p += len;
    }
    return n;
}

int atoll_ws_accept_key(const char *key, char out[29])
{
    static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"; /* RFC 6455 section 1.3 */
    uint8_t digest[ATOLL_SHA1_BYTES];
    char text[128];
    int n = snprintf(text, sizeof(text), "%s%s", key, guid);

    if (n < 0 || (size_t)n >= sizeof(text))
        return -EINVAL;
    atoll_sha1(text, (size_t)n, digest);
    atoll_base64_text(out, digest, sizeof(digest));
    return 0;
}

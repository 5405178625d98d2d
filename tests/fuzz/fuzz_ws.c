/*
 * WebSocket frames through the codec of either end. The first byte chooses the end and the size of
 * the pieces. Whatever comes out must keep the promises of ws_codec.h, and must not depend on how
 * the bytes were cut.
 */
#include <errno.h>
#include <string.h>
#include "base/buf.h"
#include "fuzz.h"
#include "net/ws_codec.h"

#define MAX_MESSAGE 1000

/* What a run of the decoder said, in order. */
struct transcript {
    struct atoll_buf text;
    uint16_t failure;
};

static void note(struct transcript *t, const void *bytes, size_t n)
{
    FUZZ_CHECK(atoll_buf_append(&t->text, bytes, n) == 0);
}

static void check_event(const struct atoll_ws_event *ev)
{
    switch (ev->opcode) {
    case ATOLL_WS_TEXT:
        FUZZ_CHECK(atoll_ws_is_utf8(ev->bytes, ev->n));
        /* fall through */
    case ATOLL_WS_BINARY:
        FUZZ_CHECK(ev->n <= MAX_MESSAGE);
        break;
    case ATOLL_WS_CLOSE:
        FUZZ_CHECK(ev->n <= 123);
        FUZZ_CHECK(ev->code >= 1000 && ev->code < 5000);
        break;
    case ATOLL_WS_PING:
    case ATOLL_WS_PONG:
        FUZZ_CHECK(ev->n <= 125);
        break;
    default:
        FUZZ_CHECK(false);
    }
}

static void run(bool is_server, const uint8_t *data, size_t size, size_t piece,
                struct transcript *t)
{
    struct atoll_ws_codec *codec;

    atoll_buf_init(&t->text, (size_t)64 * 1024 * 1024);
    t->failure = 0;
    FUZZ_CHECK(atoll_ws_codec_new(is_server, MAX_MESSAGE, &codec) == 0);
    for (size_t at = 0; at < size && t->failure == 0; at += piece) {
        const uint8_t *bytes = data + at;
        size_t n = size - at < piece ? size - at : piece;
        struct atoll_ws_event ev;
        int r;
        while ((r = atoll_ws_codec_decode(codec, &bytes, &n, &ev, &t->failure)) == 1) {
            uint8_t head[4] = {(uint8_t)ev.opcode, (uint8_t)ev.n, (uint8_t)(ev.n >> 8), 0};
            check_event(&ev);
            note(t, head, sizeof(head));
            note(t, ev.bytes, ev.n);
        }
        FUZZ_CHECK(r == 0 ? n == 0 : r == -EPROTO && t->failure >= 1002);
    }
    (void)atoll_ws_codec_free(codec);
}

/* What one end makes, the other end understands. */
static void round_trip(const uint8_t *data, size_t size)
{
    struct atoll_ws_codec *client, *server;
    struct atoll_buf wire;
    struct atoll_ws_event ev;
    const uint8_t *bytes;
    size_t n;
    uint16_t code;

    size = size < MAX_MESSAGE ? size : MAX_MESSAGE;
    atoll_buf_init(&wire, 4096);
    FUZZ_CHECK(atoll_ws_codec_new(false, MAX_MESSAGE, &client) == 0);
    FUZZ_CHECK(atoll_ws_codec_new(true, MAX_MESSAGE, &server) == 0);
    FUZZ_CHECK(atoll_ws_codec_mask(client, ATOLL_WS_BINARY, data, size, &wire) == 0);
    bytes = atoll_buf_head(&wire);
    n = atoll_buf_size(&wire);
    FUZZ_CHECK(atoll_ws_codec_decode(server, &bytes, &n, &ev, &code) == 1);
    FUZZ_CHECK(ev.n == size && (size == 0 || memcmp(ev.bytes, data, size) == 0));
    (void)atoll_ws_codec_free(client);
    (void)atoll_ws_codec_free(server);
    atoll_buf_done(&wire);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct transcript cut, whole;
    bool is_server;

    if (size < 1)
        return 0;
    is_server = data[0] & 1;
    run(is_server, data + 1, size - 1, (size_t)(data[0] >> 1) + 1, &cut);
    run(is_server, data + 1, size - 1, size, &whole);
    FUZZ_CHECK(cut.failure == whole.failure);
    FUZZ_CHECK(atoll_buf_size(&cut.text) == atoll_buf_size(&whole.text));
    FUZZ_CHECK(atoll_buf_size(&cut.text) == 0 ||
               memcmp(atoll_buf_head(&cut.text), atoll_buf_head(&whole.text),
                      atoll_buf_size(&cut.text)) == 0);
    atoll_buf_done(&cut.text);
    atoll_buf_done(&whole.text);
    round_trip(data, size);
    return 0;
}

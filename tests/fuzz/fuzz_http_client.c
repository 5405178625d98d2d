/*
 * What a server answers to our HTTP/1.1 client, and says in a WebSocket to our end of it. The first
 * byte chooses the kind of request, and how much comes with the answer that opens a WebSocket, on which
 * nothing may depend.
 */
#include "fuzz_line.h"

#define MAX_REPLY 2000
#define MAX_MESSAGE 1000

/* What the client made of it. */
struct transcript {
    struct atoll_buf text;
};

static void note(struct transcript *t, const void *bytes, size_t n)
{
    FUZZ_CHECK(atoll_buf_append(&t->text, bytes, n) == 0);
}

static int on_piece(void *arg, const void *bytes, size_t n)
{
    note(arg, bytes, n);
    return 0;
}

static struct atoll_http_client *new_client(void)
{
    struct atoll_http_client *client;

    FUZZ_CHECK(atoll_http_client_open("unix:/nowhere", &client, NULL) == 0);
    return client;
}

static void check_answer(const struct atoll_http_reply *reply)
{
    const uint8_t *head = atoll_buf_head(&reply->head);
    size_t n = atoll_buf_size(&reply->head), strings = 0;

    FUZZ_CHECK(reply->status >= 100 && reply->status <= 999);
    FUZZ_CHECK(n == 0 || head[n - 1] == '\0');
    for (size_t i = 0; i < n; i++)
        strings += head[i] == '\0';
    FUZZ_CHECK(strings % 2 == 0); /* pairs */
    (void)atoll_http_reply_header(reply, "content-type");
}

static void note_error(struct transcript *t, const struct atoll_error *err)
{
    FUZZ_CHECK(err->kind == ATOLL_ERR_UNAVAILABLE || err->kind == ATOLL_ERR_DATA_LOSS ||
               err->kind == ATOLL_ERR_RESOURCE_EXHAUSTED);
    FUZZ_CHECK(strnlen(err->text, sizeof(err->text)) < sizeof(err->text));
    note(t, &err->kind, sizeof(err->kind));
}

static void run_request(const char *method, bool streams, const uint8_t *data, size_t size,
                        struct transcript *t)
{
    struct atoll_http_transfer transfer = {.length = -1, .write = on_piece, .arg = t};
    struct atoll_http_reply reply;
    struct atoll_http_client *client = new_client();
    struct atoll_error err = {0};
    int r, server = line_with(client, data, size);

    r = streams ? atoll_http_client_stream(client, method, "/", NULL, &transfer, MAX_REPLY, &reply,
                                           &err)
                : atoll_http_client_request(client, method, "/", NULL, NULL, 0, MAX_REPLY, &reply,
                                            &err);
    if (r == 0) {
        check_answer(&reply);
        FUZZ_CHECK(atoll_buf_size(&reply.body) <= MAX_REPLY);
        note(t, &reply.status, sizeof(reply.status));
        note(t, atoll_buf_head(&reply.head), atoll_buf_size(&reply.head));
        note(t, atoll_buf_head(&reply.body), atoll_buf_size(&reply.body));
        atoll_http_reply_done(&reply);
    } else {
        note_error(t, &err);
    }
    (void)atoll_http_client_close(client);
    (void)close(server);
}

static void run_websocket(const uint8_t *data, size_t size, size_t early, struct transcript *t)
{
    struct atoll_http_client *client = new_client();
    struct atoll_wsc *ws;
    int r, server = websocket_with(client, data, size, early, MAX_MESSAGE, &ws);
    struct atoll_error err = {0};
    const uint8_t *bytes;
    bool binary;
    size_t n;

    while ((r = atoll_wsc_recv(ws, 0, &binary, &bytes, &n, &err)) == 1) {
        FUZZ_CHECK(n <= MAX_MESSAGE && (binary || atoll_ws_is_utf8(bytes, n)));
        note(t, &n, sizeof(n));
        note(t, bytes, n);
    }
    FUZZ_CHECK(r == -EPIPE && err.kind == ATOLL_ERR_UNAVAILABLE);
    FUZZ_CHECK(atoll_wsc_close_code(ws) >= 1000 && atoll_wsc_close_code(ws) < 5000);
    note(t, &(uint16_t){atoll_wsc_close_code(ws)}, sizeof(uint16_t));
    (void)atoll_wsc_free(ws);
    (void)atoll_http_client_close(client);
    (void)close(server);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const methods[] = {"GET", "HEAD", "POST", "GET"};
    struct transcript one, two;
    size_t kind;

    if (size < 1 || size > 100 * 1024)
        return 0;
    kind = data[0] % 5;
    atoll_buf_init(&one.text, (size_t)4 * 1024 * 1024);
    atoll_buf_init(&two.text, (size_t)4 * 1024 * 1024);
    if (kind < 4) {
        run_request(methods[kind], kind == 3, data + 1, size - 1, &one);
    } else {
        run_websocket(data + 1, size - 1, 0, &one);
        run_websocket(data + 1, size - 1, data[0], &two);
        FUZZ_CHECK(atoll_buf_size(&one.text) == atoll_buf_size(&two.text));
        FUZZ_CHECK(memcmp(atoll_buf_head(&one.text), atoll_buf_head(&two.text),
                          atoll_buf_size(&one.text)) == 0);
    }
    atoll_buf_done(&one.text);
    atoll_buf_done(&two.text);
    return 0;
}

/*
 * What a server inside a sandbox answers to a visitor of its preview: the proxy between a client that
 * behaves and an upstream that does not. The first byte chooses the client's request, the second the
 * pieces in which the upstream's bytes arrive; "\n~\n" in them makes it hang up there.
 */
#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include "base/buf.h"
#include "fuzz.h"
#include "net/proxy.h"

static const char *const requests[] = {
    "GET /a HTTP/1.1\r\nHost: x\r\n\r\n",
    "HEAD /a HTTP/1.1\r\nHost: x\r\n\r\n",
    "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
    "GET /a HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    "GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET /a HTTP/1.0\r\n\r\n",
};

static struct {
    struct atoll_loop *loop;
    struct atoll_http_server *server;
    struct atoll_proxy *proxy;
    int client, upstream;
    int begun, ended;
    struct atoll_buf seen; /* by the client */
} world;

static void dial(void *arg, const char *key, atoll_proxy_dialed_fn *done, void *ctx)
{
    int pair[2];

    (void)arg;
    (void)key;
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    if (world.upstream >= 0)
        (void)close(world.upstream);
    world.upstream = pair[1];
    done(ctx, pair[0], NULL);
}

static bool pass_header(void *arg, const char *name, const char **value)
{
    (void)arg;
    FUZZ_CHECK(strlen(name) + strlen(*value) < (size_t)64 * 1024);
    return strcasecmp(name, "x-drop") != 0;
}

static int failed(void *arg, struct atoll_http_request *req, const struct atoll_error *error)
{
    (void)arg;
    FUZZ_CHECK(error->kind == ATOLL_ERR_UNAVAILABLE || error->kind == ATOLL_ERR_DATA_LOSS);
    atoll_http_respond(req, 502, "text/plain", "failed", 6);
    return 502;
}

static void done(void *arg, const struct atoll_proxy_outcome *outcome)
{
    (void)arg;
    FUZZ_CHECK(outcome->status >= 100 && outcome->status <= 599);
    world.ended++;
}

static const struct atoll_proxy_hooks hooks = {pass_header, pass_header, failed, done};

static void serve(void *arg, struct atoll_http_request *req)
{
    const struct atoll_proxy_request request = {.key = "up",
                                                .owner = "somebody",
                                                .target = atoll_http_target(req),
                                                .host = "inside",
                                                .scheme = "http",
                                                .extra = "",
                                                .hooks = &hooks};

    (void)arg;
    world.begun++;
    atoll_proxy_forward(world.proxy, req, &request);
}

static void turn(void)
{
    static uint8_t bytes[64 * 1024];
    ssize_t n;

    for (int i = 0; i < 3; i++) {
        FUZZ_CHECK(atoll_loop_step(world.loop, 0, NULL) == 0);
        while ((n = recv(world.client, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
            FUZZ_CHECK(atoll_buf_append(&world.seen, bytes, (size_t)n) == 0);
        while (world.upstream >= 0 && recv(world.upstream, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
            ;
    }
}

static void say(const uint8_t *data, size_t size, size_t piece)
{
    for (size_t at = 0; at < size && world.upstream >= 0; at += piece) {
        if (send(world.upstream, data + at, ATOLL_MIN(piece, size - at), MSG_NOSIGNAL) < 0)
            break;
        turn();
    }
}

static void hang_up(void)
{
    if (world.upstream >= 0)
        (void)close(ATOLL_TAKE_FD(world.upstream));
    turn();
}

static void open_world(void)
{
    struct atoll_proxy_config config = {.dial = dial, .answer_ms = 60000};
    int pair[2];

    world.upstream = ATOLL_NO_FD;
    world.begun = world.ended = 0;
    atoll_buf_init(&world.seen, (size_t)16 * 1024 * 1024);
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    world.client = pair[1];
    FUZZ_CHECK(atoll_loop_new(&world.loop, NULL) == 0);
    FUZZ_CHECK(atoll_http_server_new(world.loop, NULL, serve, NULL, &world.server, NULL) == 0);
    FUZZ_CHECK(atoll_http_server_adopt(world.server, pair[0], NULL) == 0);
    config.loop = world.loop;
    world.proxy = atoll_proxy_new(&config);
    FUZZ_CHECK(world.proxy);
}

static void close_world(void)
{
    (void)close(world.client);
    turn();
    world.server = atoll_http_server_free(world.server);
    world.proxy = atoll_proxy_free(world.proxy);
    FUZZ_CHECK(world.begun == world.ended); /* each request ends exactly once */
    if (world.upstream >= 0)
        (void)close(world.upstream);
    atoll_buf_done(&world.seen);
    world.loop = atoll_loop_free(world.loop);
}

/* Whatever the upstream did, the client sees answers, and the first of them is HTTP: lines with names,
 * and no line that an upstream could have smuggled in. */
static void check_seen(void)
{
    const char *line = atoll_buf_str(&world.seen);

    if (!*line)
        return;
    FUZZ_CHECK(strncmp(line, "HTTP/1.1 ", 9) == 0);
    while ((line = strstr(line, "\r\n")) && strncmp(line, "\r\n\r\n", 4) != 0) {
        size_t n = strcspn(line + 2, ":\r\n");
        line += 2;
        FUZZ_CHECK(n > 0 && line[n] == ':' && strcspn(line, " \t") > n);
        FUZZ_CHECK(strcspn(line, "\n") == strcspn(line, "\r") + 1);
    }
    FUZZ_CHECK(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *request;
    size_t piece;

    if (size < 2)
        return 0;
    request = requests[data[0] % ATOLL_ARRAY_LEN(requests)];
    piece = data[1] == 0 ? size : data[1];
    open_world();
    FUZZ_CHECK(send(world.client, request, strlen(request), 0) == (ssize_t)strlen(request));
    turn();
    for (data += 2, size -= 2; size > 0;) {
        const uint8_t *end = memmem(data, size, "\n~\n", 3);
        size_t n = end ? (size_t)(end - data) : size;
        say(data, n, piece);
        if (end)
            hang_up();
        data += n + (end ? 3 : 0);
        size -= n + (end ? 3 : 0);
    }
    hang_up();
    check_seen();
    close_world();
    return 0;
}

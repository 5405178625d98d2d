/*
 * Header rules between a program in a sandbox and a server on the internet; either is hostile. The first byte
 * chooses who: the client (0), a server of HTTP/1.1 (1), or one of HTTP/2 (2); in the last two cases it also
 * chooses the client's request. The second byte is the size of the pieces in which the bytes arrive; "\n~\n"
 * in them makes their sender hang up there.
 */
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include "egress/intercept_internal.h"
#include "fuzz.h"

#define HOST "Host: one.test\r\n"

static const char *const requests[] = {
    "GET /a HTTP/1.1\r\n" HOST "\r\n",
    "HEAD /a HTTP/1.1\r\n" HOST "\r\n",
    "POST /a HTTP/1.1\r\n" HOST "TE: trailers\r\nContent-Length: 3\r\n\r\nabc",
    "GET /a HTTP/1.1\r\n" HOST "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    "GET /a HTTP/1.1\r\n" HOST "\r\nGET /b HTTP/1.1\r\n" HOST "\r\n",
    "POST /a HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
};

static struct {
    struct atoll_loop *loop;
    struct atoll_interceptor *shared; /* made once: it has keys */
    struct atoll_intercept *intercept;
    int client, server;
    size_t dials;
    struct atoll_buf seen;  /* by the client */
    struct atoll_buf asked; /* of the servers */
} world;

struct dial {
    struct atoll_timer timer;
    void (*done)(void *ctx, int fd);
    void *ctx;
};

static const struct atoll_network_transform *transform(
    void *arg, const struct atoll_network_message *message ATOLL_UNUSED)
{
    static struct atoll_network_transform t = {.header_count = 1};

    (void)arg;
    t.headers[0].name = (char *)(uintptr_t) "X-Key";
    t.headers[0].value = (char *)(uintptr_t) "${secret.key}";
    return &t;
}

static const char *secret(void *arg, const char *name)
{
    (void)arg;
    return strcmp(name, "key") == 0 ? "the-secret" : NULL;
}

static void dialled(void *arg)
{
    struct dial *d = arg;
    int pair[2];

    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    if (world.server >= 0)
        (void)close(world.server);
    world.server = pair[1];
    d->done(d->ctx, pair[0]);
    free(d);
}

static void *dial(void *arg, const char *host, uint16_t port, void (*done)(void *ctx, int fd),
                  void *ctx)
{
    struct dial *d = calloc(1, sizeof(*d));

    (void)arg;
    FUZZ_CHECK(d && !host && port == 80);
    d->done = done;
    d->ctx = ctx;
    world.dials++;
    atoll_timer_set(&d->timer, world.loop, 0, dialled, d);
    return d;
}

static void cancel(void *arg, void *handle)
{
    struct dial *d = handle;

    (void)arg;
    atoll_timer_cancel(&d->timer);
    free(d);
}

static void release(void *arg)
{
    (void)arg;
}

static const struct atoll_intercept_hooks hooks = {transform, secret, dial, cancel,
                                                   release,   NULL,   NULL};

static void read_all(int fd, struct atoll_buf *into)
{
    static uint8_t bytes[64 * 1024];
    ssize_t n;

    while (fd >= 0 && (n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
        if (into)
            FUZZ_CHECK(atoll_buf_append(into, bytes, (size_t)n) == 0);
}

static void turn(void)
{
    for (int i = 0; i < 4; i++) {
        FUZZ_CHECK(atoll_loop_step(world.loop, 0, NULL) == 0);
        read_all(world.client, &world.seen);
        read_all(world.server, &world.asked);
    }
}

static void say(int *fd, const uint8_t *data, size_t size, size_t piece)
{
    for (size_t at = 0; at < size && *fd >= 0; at += piece) {
        if (send(*fd, data + at, ATOLL_MIN(piece, size - at), MSG_NOSIGNAL) < 0)
            break;
        turn();
    }
}

static void hang_up(int *fd)
{
    if (*fd >= 0)
        (void)close(ATOLL_TAKE_FD(*fd));
    turn();
}

static void make_shared(void)
{
    char dir[] = "/tmp/atoll-fuzz-XXXXXX";
    int fd;

    FUZZ_CHECK(atoll_loop_new(&world.loop, NULL) == 0 && mkdtemp(dir));
    fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    FUZZ_CHECK(atoll_interceptor_open(world.loop, fd, &world.shared, NULL) == 0);
    world.shared->plain_secrets = true;
    FUZZ_CHECK(unlinkat(fd, "egress-ca.pem", 0) == 0 && unlinkat(fd, "egress-ca-key.pem", 0) == 0);
    (void)close(fd);
    FUZZ_CHECK(rmdir(dir) == 0);
}

static void open_world(bool http2)
{
    const struct atoll_intercept_site site = {false, "one.test", 80};

    if (!world.shared)
        make_shared();
    world.shared->plain_http2 = http2;
    world.server = ATOLL_NO_FD;
    world.dials = 0;
    atoll_buf_init(&world.seen, (size_t)16 * 1024 * 1024);
    atoll_buf_init(&world.asked, (size_t)16 * 1024 * 1024);
    FUZZ_CHECK(atoll_intercept_new(world.shared, &site, &hooks, NULL, &world.intercept,
                                   &world.client) == 0);
}

static void close_world(void)
{
    hang_up(&world.client);
    world.intercept = atoll_intercept_close(world.intercept);
    hang_up(&world.server);
    FUZZ_CHECK(atoll_http_server_connections(world.shared->server) == 0);
    atoll_buf_done(&world.seen);
    atoll_buf_done(&world.asked);
}

/* The client sees answers whose first one is HTTP, and never the secret, unless one side said it. */
static void check_seen(const uint8_t *said, size_t n)
{
    const char *text = atoll_buf_str(&world.seen);

    FUZZ_CHECK(!*text || strncmp(text, "HTTP/1.1 ", 9) == 0);
    FUZZ_CHECK(!strstr(text, "secret") || memmem(said, n, "secret", 6));
}

/* Each request to the server has the secret, for the right host, and exactly one of each. */
static void check_asked(void)
{
    const char *text = atoll_buf_str(&world.asked);

    while (*text) {
        const char *end = strstr(text, "\r\n\r\n"), *host = strcasestr(text, "\r\nHost: one.test");
        const char *key = strstr(text, "\r\nX-Key: the-secret\r\n");
        FUZZ_CHECK(end && host && host < end && key && key < end);
        return; /* a body may follow */
    }
}

static void play(int *fd, const uint8_t *data, size_t size, size_t piece)
{
    while (size > 0) {
        const uint8_t *end = memmem(data, size, "\n~\n", 3);
        size_t n = end ? (size_t)(end - data) : size;
        say(fd, data, n, piece);
        if (end)
            hang_up(fd);
        data += n + (end ? 3 : 0);
        size -= n + (end ? 3 : 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *request;
    size_t piece;
    int who;

    if (size < 2)
        return 0;
    who = data[0] % 3;
    request = requests[data[0] / 3 % ATOLL_ARRAY_LEN(requests)];
    piece = data[1] == 0 ? size : data[1];
    open_world(who == 2);
    if (who > 0) {
        FUZZ_CHECK(send(world.client, request, strlen(request), 0) == (ssize_t)strlen(request));
        turn();
    }
    play(who == 0 ? &world.client : &world.server, data + 2, size - 2, piece);
    check_seen(data, size);
    if (who < 2)
        check_asked();
    close_world();
    return 0;
}

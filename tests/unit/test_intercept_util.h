#pragma once
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/stat.h>
#include "egress/intercept_internal.h"
#include "test_http_util.h"

/*
 * An interception between a client and servers that the test plays. The client's end is a socket; each
 * dial makes a pair of sockets, unless the test has given a port to connect to.
 */
#define LINES_MAX 8

struct icept {
    struct atoll_loop *loop;
    char dir[64];
    int state_fd;
    struct atoll_interceptor *shared;
    struct atoll_intercept *intercept;
    int client;           /* the test's end */
    struct atoll_buf got; /* by the client */
    bool ended;           /* the client has seen the end */
    struct atoll_network_transform transform;
    bool no_transform;

    int servers[LINES_MAX]; /* the test's ends, in the order of the dials */
    size_t dials;
    struct atoll_buf asked; /* of one server */
    uint16_t port;          /* not 0: dials connect to it on 127.0.0.1 */
    int refuse;             /* not 0: -errno of dials */
    char dialled_host[300]; /* the last one; "": where the client wanted */
    uint16_t dialled_port;
    size_t open_dials;
    size_t unreleased; /* dials whose connection has not ended */
    uint64_t route;
    bool reroute;                     /* the route changes during the next dial */
    struct atoll_egress_cache *cache; /* NULL: absent */
};

struct icept_dial {
    struct icept *w;
    struct atoll_timer timer;
    void (*done)(void *ctx, int fd);
    void *ctx;
};

static inline const struct atoll_network_transform *icept_transform(
    void *arg, const struct atoll_network_message *message ATOLL_UNUSED)
{
    struct icept *w = arg;
    return w->no_transform ? NULL : &w->transform;
}

static inline const char *icept_secret(void *arg, const char *name)
{
    (void)arg;
    if (strcmp(name, "broken") == 0)
        return "a\r\nX-Smuggled: 1";
    return strcmp(name, "token") == 0 ? "s3cr3t" : NULL;
}

static inline int icept_connect(struct icept *w)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(w->port)};
    int pair[2], fd;

    if (w->refuse)
        return w->refuse;
    if (w->port == 0) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair),
                         0);
        assert_true(w->dials < LINES_MAX);
        w->servers[w->dials++] = pair[1];
        return pair[0];
    }
    w->dials++;
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

static inline void icept_dialled(void *arg)
{
    struct icept_dial *d = arg;

    d->w->open_dials--;
    d->w->route += d->w->reroute;
    d->w->reroute = false;
    d->done(d->ctx, icept_connect(d->w));
    free(d);
}

static inline void *icept_dial(void *arg, const char *host, uint16_t port,
                               void (*done)(void *ctx, int fd), void *ctx)
{
    struct icept_dial *d = calloc(1, sizeof(*d));
    struct icept *w = arg;

    d->w = w;
    d->done = done;
    d->ctx = ctx;
    w->open_dials++;
    w->unreleased++;
    snprintf(w->dialled_host, sizeof(w->dialled_host), "%s", host ? host : "");
    w->dialled_port = port;
    atoll_timer_set(&d->timer, w->loop, 0, icept_dialled, d);
    return d;
}

static inline void icept_cancel(void *arg, void *handle)
{
    struct icept_dial *d = handle;

    (void)arg;
    d->w->open_dials--;
    atoll_timer_cancel(&d->timer);
    free(d);
}

static inline void icept_release(void *arg)
{
    struct icept *w = arg;

    assert_true(w->unreleased > 0);
    w->unreleased--;
}

static inline struct atoll_egress_cache *icept_cache(void *arg, const char **ret_tenant)
{
    struct icept *w = arg;

    *ret_tenant = "t";
    return w->cache;
}

static inline uint64_t icept_route(void *arg)
{
    struct icept *w = arg;
    return w->route;
}

static const struct atoll_intercept_hooks icept_hooks = {
    icept_transform, icept_secret, icept_dial,  icept_cancel,
    icept_release,   icept_cache,  icept_route,
};

/* A new connection of the client, to api.example.test. */
static inline void icept_again(struct icept *w, bool tls, uint16_t port)
{
    const struct atoll_intercept_site site = {tls, "api.example.test", port};

    w->intercept = atoll_intercept_close(w->intercept);
    if (w->client >= 0)
        close(w->client);
    assert_int_equal(
        atoll_intercept_new(w->shared, &site, &icept_hooks, w, &w->intercept, &w->client), 0);
    atoll_buf_clear(&w->got);
    w->ended = false;
}

static inline void icept_open(struct icept *w)
{
    memset(w, 0, sizeof(*w));
    w->client = -1;
    for (size_t i = 0; i < LINES_MAX; i++)
        w->servers[i] = -1;
    strcpy(w->dir, "/tmp/atoll-test-intercept-XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    w->state_fd = open(w->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(atoll_loop_new(&w->loop, NULL), 0);
    atoll_buf_init(&w->got, 64 * 1024 * 1024);
    atoll_buf_init(&w->asked, 64 * 1024 * 1024);
    w->transform.headers[0].name = (char *)"Authorization";
    w->transform.headers[0].value = (char *)"Bearer ${secret.token}";
    w->transform.header_count = 1;
}

static inline void icept_close(struct icept *w)
{
    struct atoll_error err;

    w->intercept = atoll_intercept_close(w->intercept);
    if (w->client >= 0)
        close(w->client);
    for (size_t i = 0; i < LINES_MAX; i++)
        if (w->servers[i] >= 0)
            close(w->servers[i]);
    assert_int_equal(atoll_loop_step(w->loop, 0, &err), 0);
    assert_int_equal(w->open_dials, 0);
    assert_int_equal(w->unreleased, 0);
    w->shared = atoll_interceptor_close(w->shared);
    w->loop = atoll_loop_free(w->loop);
    atoll_buf_done(&w->got);
    atoll_buf_done(&w->asked);
    (void)unlinkat(w->state_fd, "egress-ca.pem", 0);
    (void)unlinkat(w->state_fd, "egress-ca-key.pem", 0);
    (void)unlinkat(w->state_fd, "tls/cert.pem", 0);
    (void)unlinkat(w->state_fd, "tls/key.pem", 0);
    (void)unlinkat(w->state_fd, "tls/ca.pem", 0);
    (void)unlinkat(w->state_fd, "tls/ca-key.pem", 0);
    (void)unlinkat(w->state_fd, "tls", AT_REMOVEDIR);
    close(w->state_fd);
    assert_int_equal(rmdir(w->dir), 0);
}

/* Reads what is there; false at the end. */
static inline bool icept_read(int fd, struct atoll_buf *buf)
{
    uint8_t *tail;
    ssize_t n;

    for (;;) {
        assert_int_equal(atoll_buf_reserve(buf, 65536, &tail), 0);
        n = recv(fd, tail, 65536, MSG_DONTWAIT);
        if (n <= 0)
            return n < 0 && errno == EAGAIN;
        atoll_buf_commit(buf, (size_t)n);
    }
}

/* Turns the loop until nothing happens for some rounds. */
static inline void icept_turn(struct icept *w)
{
    for (int quiet = 0; quiet < 5; quiet++) {
        size_t before = atoll_buf_size(&w->got);
        assert_int_equal(atoll_loop_step(w->loop, 1, NULL), 0);
        if (!w->ended && !icept_read(w->client, &w->got))
            w->ended = true;
        if (atoll_buf_size(&w->got) != before)
            quiet = 0;
    }
}

/* What the client sees after it has sent that. */
static inline const char *icept_ask(struct icept *w, const char *text)
{
    atoll_buf_clear(&w->got);
    assert_int_equal(send(w->client, text, strlen(text), MSG_NOSIGNAL), strlen(text));
    icept_turn(w);
    return atoll_buf_str(&w->got);
}

/* What the server of that dial has been asked since the last call. */
static inline const char *icept_asked(struct icept *w, size_t server)
{
    atoll_buf_clear(&w->asked);
    assert_true(server < w->dials);
    (void)icept_read(w->servers[server], &w->asked);
    return atoll_buf_str(&w->asked);
}

/* The server of that dial answers; returns what the client sees. */
static inline const char *icept_answer(struct icept *w, size_t server, const char *text)
{
    atoll_buf_clear(&w->got);
    assert_int_equal(send(w->servers[server], text, strlen(text), MSG_NOSIGNAL), strlen(text));
    icept_turn(w);
    return atoll_buf_str(&w->got);
}

static inline void icept_hang_up(struct icept *w, size_t server)
{
    close(w->servers[server]);
    w->servers[server] = -1;
    icept_turn(w);
}

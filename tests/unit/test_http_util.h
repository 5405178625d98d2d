#pragma once
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/clock.h"
#include "net/http_server.h"

/*
 * An HTTP server on a loop of its own, and raw ends of socket pairs that play the client. The test
 * turns the loop by hand, so that it decides what happens in which order.
 */
struct rig {
    struct atoll_loop *loop;
    struct atoll_http_server *server;
    int fd;               /* the client's end, non-blocking */
    struct atoll_buf got; /* what the client has received */
    bool ended;           /* the client has seen the end */
};

static inline void rig_connect(struct rig *r)
{
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    assert_int_equal(atoll_http_server_adopt(r->server, pair[0], NULL), 0);
    if (r->fd >= 0)
        close(r->fd);
    r->fd = pair[1];
    r->ended = false;
    atoll_buf_clear(&r->got);
}

static inline void rig_open(struct rig *r, const struct atoll_http_limits *limits,
                            void (*on_request)(void *arg, struct atoll_http_request *req),
                            void *arg)
{
    *r = (struct rig){.fd = -1};
    atoll_buf_init(&r->got, 64 * 1024 * 1024);
    assert_int_equal(atoll_loop_new(&r->loop, NULL), 0);
    assert_int_equal(atoll_http_server_new(r->loop, limits, on_request, arg, &r->server, NULL), 0);
    rig_connect(r);
}

static inline void rig_close(struct rig *r)
{
    if (r->fd >= 0)
        close(r->fd);
    r->server = atoll_http_server_free(r->server);
    r->loop = atoll_loop_free(r->loop);
    atoll_buf_done(&r->got);
}

/* Reads what is there without turning the loop. */
static inline void rig_read(struct rig *r)
{
    uint8_t *tail;
    ssize_t n;

    while (!r->ended) {
        assert_int_equal(atoll_buf_reserve(&r->got, 65536, &tail), 0);
        n = recv(r->fd, tail, 65536, 0);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0)
            r->ended = true;
        else
            atoll_buf_commit(&r->got, (size_t)n);
    }
}

/* Turns the loop until nothing happens for some rounds. */
static inline void rig_turn(struct rig *r)
{
    for (int quiet = 0; quiet < 5; quiet++) {
        size_t before = atoll_buf_size(&r->got);
        bool ended = r->ended;
        assert_int_equal(atoll_loop_step(r->loop, 1, NULL), 0);
        rig_read(r);
        if (atoll_buf_size(&r->got) != before || ended != r->ended)
            quiet = 0;
    }
}

static inline void rig_turn_ms(struct rig *r, int64_t ms)
{
    int64_t until = atoll_clock_ms() + ms;

    while (atoll_clock_ms() < until) {
        assert_int_equal(atoll_loop_step(r->loop, 5, NULL), 0);
        rig_read(r);
    }
}

static inline void rig_send(struct rig *r, const void *bytes, size_t n)
{
    size_t sent = 0;

    while (sent < n) {
        ssize_t k = send(r->fd, (const uint8_t *)bytes + sent, n - sent, MSG_NOSIGNAL);
        if (k > 0) {
            sent += (size_t)k;
            continue;
        }
        if (errno != EAGAIN)
            return; /* the server has closed: what it said before is what the test looks at */
        assert_int_equal(atoll_loop_step(r->loop, 1, NULL), 0);
        rig_read(r);
    }
}

/* Sends, turns, and returns all that came back since the last call. */
static inline const char *rig_ask(struct rig *r, const char *text)
{
    atoll_buf_clear(&r->got);
    rig_send(r, text, strlen(text));
    rig_turn(r);
    return atoll_buf_str(&r->got);
}

static inline const char *rig_text(struct rig *r)
{
    return atoll_buf_str(&r->got);
}

static inline size_t count_of(const char *text, const char *what)
{
    size_t n = 0;

    for (const char *p = text; (p = strstr(p, what)); p += strlen(what))
        n++;
    return n;
}

#define assert_contains(text, what)                        \
    do {                                                   \
        if (!strstr((text), (what)))                       \
            fail_msg("no \"%s\" in:\n%s", (what), (text)); \
    } while (0)

#define assert_starts(text, what)                                      \
    do {                                                               \
        if (strncmp((text), (what), strlen(what)) != 0)                \
            fail_msg("not at the start, \"%s\":\n%s", (what), (text)); \
    } while (0)

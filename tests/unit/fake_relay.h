#pragma once
/*
 * A relay of the agent over HTTP, for tests of providers that use one: it prints what it reads, and "!" cuts
 * the connection. And what such a provider must do with it: the sandbox is "h".
 */
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include "base/clock.h"
#include "fake_http.h"
#include "provider/sync.h"

#define FAKE_RELAY_TOKEN "0123456789abcdefghijklmnopqrstuv"

typedef void fake_relay_serve_fn(struct fake_request *q);
typedef struct atoll_sync_provider *fake_relay_provider_fn(struct fake_http *h);

static int send_frame(struct fake_request *q, uint8_t type, const void *bytes, size_t n)
{
    uint32_t length = htobe32((uint32_t)n);
    uint8_t head[5] = {type};
    char size[16];
    int len = snprintf(size, sizeof(size), "%zx\r\n", n + 5);

    memcpy(head + 1, &length, 4);
    if (atoll_fd_write_all(q->fd, size, (size_t)len) < 0 ||
        atoll_fd_write_all(q->fd, head, 5) < 0 || atoll_fd_write_all(q->fd, bytes, n) < 0)
        return -EPIPE;
    return atoll_fd_write_all(q->fd, "\r\n", 2);
}

#define ENDED (-1)

static void serve_open(struct fake_request *q)
{
    static const char head[] = "HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n";
    struct fake_http *h = q->http;
    static char piece[sizeof(h->state)];
    size_t n;

    if (atoll_fd_write_all(q->fd, head, sizeof(head) - 1) < 0 || send_frame(q, 1, "", 0) < 0)
        return;
    for (;;) {
        (void)pthread_mutex_lock(&h->lock);
        while (h->state_len == 0 && h->counter >= 0)
            (void)pthread_cond_wait(&h->changed, &h->lock);
        n = h->state_len;
        memcpy(piece, h->state, n);
        h->state_len = 0;
        (void)pthread_cond_broadcast(&h->changed);
        (void)pthread_mutex_unlock(&h->lock);
        if (n == 0 || memchr(piece, '!', n) || send_frame(q, 2, piece, n) < 0)
            break;
    }
    if (n == 0 && send_frame(q, 4, "", 0) == 0)
        (void)!atoll_fd_write_all(q->fd, "0\r\n\r\n", 5);
}

/* Takes bytes only at the offset that is due. */
static void serve_input(struct fake_request *q)
{
    static uint64_t due;
    struct fake_http *h = q->http;
    uint64_t offset;

    memcpy(&offset, q->body, 8);
    (void)pthread_mutex_lock(&h->lock);
    if (h->counter++ == 0)
        due = 0;
    if (h->counter == 2) { /* the second one is asked to come again */
        (void)pthread_mutex_unlock(&h->lock);
        fake_reply(q, 503, "", "{}");
        return;
    }
    if (be64toh(offset) == due) {
        memcpy(h->state, q->body + 8, q->body_len - 8);
        h->state_len = q->body_len - 8;
        due += h->state_len;
        (void)pthread_cond_broadcast(&h->changed);
        while (h->state_len > 0 && h->counter >= 0)
            (void)pthread_cond_wait(&h->changed, &h->lock);
    }
    (void)pthread_mutex_unlock(&h->lock);
    fake_reply(q, be64toh(offset) + q->body_len - 8 <= due ? 204 : 409, "", "");
}

static void fake_relay_end(struct fake_http *h)
{
    (void)pthread_mutex_lock(&h->lock);
    h->counter = ENDED;
    (void)pthread_cond_broadcast(&h->changed);
    (void)pthread_mutex_unlock(&h->lock);
}

/* The verb and what follows it in the path, with the token already checked. */
static void fake_relay_serve(struct fake_request *q, const char *verb)
{
    if (strncmp(verb, "open/", 5) == 0)
        serve_open(q);
    else if (strncmp(verb, "input/", 6) == 0)
        serve_input(q);
    else {
        fake_relay_end(q->http);
        fake_reply(q, 204, "", "");
    }
}

static int fake_relay_dial(struct atoll_sync_provider *p)
{
    struct atoll_spec spec = {.id = "x", .handle = "h"};
    struct atoll_sync_call call = {.deadline_ms = atoll_clock_ms() + 10000, .cancel_fd = -1};
    struct atoll_error error;
    int fd = -1;

    assert_int_equal(p->ops->dial(p, &call, &spec, &fd, &error), 0);
    return fd;
}

static void fake_relay_check_bytes(fake_relay_serve_fn *serve, fake_relay_provider_fn *provider_at)
{
    struct fake_http *h = fake_http_new(serve);
    struct atoll_sync_provider *p = provider_at(h);
    enum { TOTAL = 600000 };
    static uint8_t sent[TOTAL], got[TOTAL + 1];
    size_t at = 0, have = 0;
    int fd = fake_relay_dial(p);

    for (size_t i = 0; i < TOTAL; i++)
        sent[i] = (uint8_t)("abcdefg"[i % 7] + (i / 1000) % 13);
    assert_int_equal(atoll_fd_set_nonblock(fd, true), 0);
    while (have < TOTAL) {
        struct pollfd pfd = {.fd = fd, .events = (short)(POLLIN | (at < TOTAL ? POLLOUT : 0))};
        ssize_t n;

        assert_true(poll(&pfd, 1, 20000) > 0);
        if (pfd.revents & POLLOUT && (n = write(fd, sent + at, TOTAL - at)) > 0)
            at += (size_t)n;
        if (pfd.revents & POLLIN) {
            n = read(fd, got + have, sizeof(got) - have);
            assert_true(n > 0);
            have += (size_t)n;
        }
    }
    assert_memory_equal(sent, got, TOTAL);
    assert_int_equal(atoll_fd_set_nonblock(fd, false), 0);
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    assert_int_equal(read(fd, got, 1), 0);
    assert_int_equal(fake_asked(h, "/end/"), 1);
    (void)close(fd);
    p->ops->free(p);
    fake_http_free(h);
}

static void fake_relay_check_cut(fake_relay_serve_fn *serve, fake_relay_provider_fn *provider_at)
{
    struct fake_http *h = fake_http_new(serve);
    struct atoll_sync_provider *p = provider_at(h);
    int fd = fake_relay_dial(p);
    char byte;

    assert_int_equal(write(fd, "!", 1), 1);
    assert_int_equal(read(fd, &byte, 1), 0);
    (void)close(fd);
    p->ops->free(p);
    fake_relay_end(h);
    fake_http_free(h);
}

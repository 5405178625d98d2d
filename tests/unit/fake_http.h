#pragma once
/*
 * An HTTP server for tests of clients: a thread for each connection, one request each, and whatever the
 * test answers. It remembers what was asked.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/fd.h"

#define FAKE_HEAD_MAX 16384
#define FAKE_BODY_MAX (4 * 1024 * 1024)

struct fake_request {
    struct fake_http *http;
    int fd;
    char method[16], path[1024];
    char head[FAKE_HEAD_MAX];
    char *body;
    size_t body_len;
};

struct fake_http {
    void (*serve)(struct fake_request *q);
    int listen_fd;
    char url[64];
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int connections;   /* open; locked */
    char asked[65536]; /* "METHOD PATH\n" …; locked */
    char state[65536]; /* the test's; locked */
    size_t state_len;
    int counter; /* the test's; locked */
};

static inline void fake_reply(struct fake_request *q, int status, const char *headers,
                              const char *body)
{
    char head[2048];
    int n = snprintf(head, sizeof(head),
                     "HTTP/1.1 %d X\r\nContent-Length: %zu\r\nConnection: close\r\n%s\r\n", status,
                     strlen(body), headers);

    if (atoll_fd_write_all(q->fd, head, (size_t)n) == 0)
        (void)!atoll_fd_write_all(q->fd, body, strlen(body));
}

static inline bool fake_read(struct fake_request *q)
{
    size_t have = 0;
    char *end = NULL;
    const char *length;

    while (!end && have < FAKE_HEAD_MAX - 1) {
        ssize_t n = read(q->fd, q->head + have, FAKE_HEAD_MAX - 1 - have);
        if (n <= 0)
            return false;
        have += (size_t)n;
        q->head[have] = '\0';
        end = strstr(q->head, "\r\n\r\n");
    }
    if (!end || sscanf(q->head, "%15s %1023s", q->method, q->path) != 2)
        return false;
    length = strcasestr(q->head, "content-length:");
    q->body_len = length && length < end ? strtoul(length + 15, NULL, 10) : 0;
    if (q->body_len > FAKE_BODY_MAX)
        return false;
    q->body = calloc(1, q->body_len + 1);
    have -= (size_t)(end + 4 - q->head);
    have = have < q->body_len ? have : q->body_len;
    memcpy(q->body, end + 4, have);
    end[2] = '\0';
    return atoll_fd_read_all(q->fd, q->body + have, q->body_len - have) == 0;
}

static inline void *fake_connection(void *arg)
{
    struct fake_request *q = arg;
    struct fake_http *h = q->http;

    if (fake_read(q)) {
        (void)pthread_mutex_lock(&h->lock);
        size_t at = strlen(h->asked);
        (void)snprintf(h->asked + at, sizeof(h->asked) - at, "%s %s\n", q->method, q->path);
        (void)pthread_cond_broadcast(&h->changed);
        (void)pthread_mutex_unlock(&h->lock);
        h->serve(q);
    }
    (void)close(q->fd);
    free(q->body);
    free(q);
    (void)pthread_mutex_lock(&h->lock);
    h->connections--;
    (void)pthread_cond_broadcast(&h->changed);
    (void)pthread_mutex_unlock(&h->lock);
    return NULL;
}

static inline void *fake_accept(void *arg)
{
    struct fake_http *h = arg;
    int fd;

    while ((fd = accept(h->listen_fd, NULL, NULL)) >= 0) {
        struct fake_request *q = calloc(1, sizeof(*q));
        pthread_t thread;
        q->http = h;
        q->fd = fd;
        (void)pthread_mutex_lock(&h->lock);
        h->connections++;
        (void)pthread_mutex_unlock(&h->lock);
        if (pthread_create(&thread, NULL, fake_connection, q) != 0)
            abort();
        (void)pthread_detach(thread);
    }
    return NULL;
}

static inline struct fake_http *fake_http_new(void (*serve)(struct fake_request *q))
{
    struct fake_http *h = calloc(1, sizeof(*h));
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(at);

    h->serve = serve;
    (void)pthread_mutex_init(&h->lock, NULL);
    (void)pthread_cond_init(&h->changed, NULL);
    h->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(h->listen_fd, (struct sockaddr *)&at, n) < 0 || listen(h->listen_fd, 16) < 0 ||
        getsockname(h->listen_fd, (struct sockaddr *)&at, &n) < 0)
        abort();
    (void)snprintf(h->url, sizeof(h->url), "http://127.0.0.1:%d", ntohs(at.sin_port));
    if (pthread_create(&h->thread, NULL, fake_accept, h) != 0)
        abort();
    return h;
}

/* After the client is gone: waits for the connections to end. */
static inline void fake_http_free(struct fake_http *h)
{
    (void)shutdown(h->listen_fd, SHUT_RDWR);
    (void)pthread_join(h->thread, NULL);
    (void)close(h->listen_fd);
    (void)pthread_mutex_lock(&h->lock);
    while (h->connections > 0)
        (void)pthread_cond_wait(&h->changed, &h->lock);
    (void)pthread_mutex_unlock(&h->lock);
    (void)pthread_mutex_destroy(&h->lock);
    (void)pthread_cond_destroy(&h->changed);
    free(h);
}

/* How often something was asked that contains `text`. */
static inline int fake_asked(struct fake_http *h, const char *text)
{
    int count = 0;

    (void)pthread_mutex_lock(&h->lock);
    for (const char *p = h->asked; (p = strstr(p, text)); p++)
        count++;
    (void)pthread_mutex_unlock(&h->lock);
    return count;
}

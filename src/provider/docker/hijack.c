/*
 * A request whose connection becomes a byte stream. libcurl makes the connection (unix, TCP or TLS)
 * and reads and writes it; we send the request's header ourselves and parse the engine's chunks. A
 * thread per stream copies between the connection and the caller's socket, and ends when either
 * side does.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include "base/fd.h"
#include "provider/docker/http_internal.h"
#include "provider/docker/stream.h"
#include "sys/thread.h"

#define STREAMS_MAX 512
#define HEAD_MAX (16 * 1024)
#define PIECE (64 * 1024)
#define THREAD_STACK (256 * 1024)

static atomic_uint streams;

struct pipe {
    const struct atoll_remote_http *http; /* only until the stream is open */
    CURL *easy;                           /* owned */
    curl_socket_t sock;
    int fd; /* owned: our end of the socket pair */
    struct atoll_docker_demux demux;
    size_t early; /* bytes of the stream that came with the header */
    uint8_t in[PIECE], out[PIECE];
    size_t out_len, out_off; /* bytes from fd that are not sent to the engine yet */
};

static void pipe_free(struct pipe *p)
{
    curl_easy_cleanup(p->easy);
    if (p->fd >= 0)
        (void)close(p->fd);
    free(p);
    (void)atomic_fetch_sub(&streams, 1);
}

/* Writes the relay's output to the caller's socket; its stderr is discarded. Blocks while the
 * caller is slow: the engine then waits too. */
static int deliver(struct pipe *p, const uint8_t *bytes, size_t n)
{
    while (n > 0) {
        int stream, r = 0;
        size_t len;
        ssize_t used = atoll_docker_demux_next(&p->demux, bytes, n, &stream, &len);
        if (used < 0)
            return (int)used;
        if (len > 0 && stream == ATOLL_DOCKER_STDOUT)
            r = atoll_fd_write_all(p->fd, bytes + used - len, len);
        if (r < 0)
            return r;
        bytes += used;
        n -= (size_t)used;
    }
    return 0;
}

/* Reads everything libcurl has; < 0 at the end. */
static int pump_in(struct pipe *p)
{
    for (;;) {
        size_t n = 0;
        CURLcode code = curl_easy_recv(p->easy, p->in, sizeof(p->in), &n);
        if (code == CURLE_AGAIN)
            return 0;
        if (code != CURLE_OK || n == 0 || deliver(p, p->in, n) < 0)
            return -EPIPE;
    }
}

static int pump_out(struct pipe *p)
{
    if (p->out_len == p->out_off) {
        ssize_t n = recv(p->fd, p->out, sizeof(p->out), MSG_DONTWAIT);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR ? 0 : -errno;
        if (n == 0)
            return -EPIPE;
        p->out_off = 0;
        p->out_len = (size_t)n;
    }
    while (p->out_off < p->out_len) {
        size_t n = 0;
        CURLcode code = curl_easy_send(p->easy, p->out + p->out_off, p->out_len - p->out_off, &n);
        if (code == CURLE_AGAIN)
            return 0;
        if (code != CURLE_OK)
            return -EPIPE;
        p->out_off += n;
    }
    return 0;
}

static void *pump(void *arg)
{
    struct pipe *p = arg;
    int r;

    atoll_thread_enter();
    r = deliver(p, p->in, p->early);
    while (r == 0) {
        bool sending = p->out_off < p->out_len;
        struct pollfd fds[2] = {
            {.fd = p->sock, .events = (short)(POLLIN | (sending ? POLLOUT : 0))},
            {.fd = p->fd, .events = sending ? 0 : POLLIN}};
        r = pump_in(p); /* TLS may hold bytes that poll() does not see */
        if (r == 0 && poll(fds, 2, -1) < 0 && errno != EINTR)
            r = -errno;
        if (r == 0 && fds[1].revents & (POLLERR | POLLHUP) && !(fds[1].revents & POLLIN))
            r = -EPIPE;
        if (r == 0 && (fds[1].revents & POLLIN || fds[0].revents & POLLOUT))
            r = pump_out(p);
    }
    pipe_free(p);
    return NULL;
}

static int broken(const struct pipe *p, CURLcode code, const struct atoll_sync_call *call,
                  struct atoll_error *err)
{
    if (atoll_sync_left_ms(call) == 0 || atoll_sync_cancelled(call))
        return atoll_remote_http_given_up(p->http, call, NULL, err);
    return atoll_remote_http_broken(p->http, code, NULL, err);
}

static int wait_for(struct pipe *p, short events, const struct atoll_sync_call *call,
                    struct atoll_error *err)
{
    struct pollfd fds[2] = {{.fd = p->sock, .events = events},
                            {.fd = call->cancel_fd, .events = POLLIN}};

    (void)poll(fds, 2, atoll_sync_left_ms(call));
    if (atoll_sync_left_ms(call) == 0 || atoll_sync_cancelled(call))
        return atoll_remote_http_given_up(p->http, call, NULL, err);
    return 0;
}

static int send_head(struct pipe *p, const struct atoll_sync_call *call, const char *text,
                     struct atoll_error *err)
{
    size_t len = strlen(text), n = 0;
    int r = 0;

    while (r == 0 && len > 0) {
        CURLcode code = curl_easy_send(p->easy, text, len, &n);
        if (code == CURLE_AGAIN)
            r = wait_for(p, POLLOUT, call, err);
        else if (code != CURLE_OK)
            r = broken(p, code, call, err);
        else
            text += n, len -= n;
    }
    return r;
}

/* Reads until the header is complete and returns its status; the bytes after it move to the
 * front of p->in. */
static int read_head(struct pipe *p, const struct atoll_sync_call *call, struct atoll_error *err)
{
    size_t len = 0, n;
    unsigned status = 0;
    char *end = NULL;
    int r = 0;

    while (r == 0 && !end) {
        CURLcode code = curl_easy_recv(p->easy, p->in + len, HEAD_MAX - len, &n);
        if (code == CURLE_AGAIN) {
            r = wait_for(p, POLLIN, call, err);
            continue;
        }
        if (code != CURLE_OK || n == 0)
            return broken(p, code ? code : CURLE_GOT_NOTHING, call, err);
        len += n;
        end = memmem(p->in, len, "\r\n\r\n", 4);
        if (!end && len == HEAD_MAX)
            return broken(p, CURLE_WEIRD_SERVER_REPLY, call, err);
    }
    if (r < 0)
        return r;
    end += 4;
    p->early = len - (size_t)(end - (char *)p->in);
    if (sscanf((const char *)p->in, "HTTP/1.%*c %3u", &status) != 1)
        return broken(p, CURLE_WEIRD_SERVER_REPLY, call, err);
    memmove(p->in, end, p->early);
    if (status != 101 && status != 200)
        return atoll_docker_http_refused((long)status, (const char *)p->in, p->early, err);
    return 0;
}

/* libcurl connects synchronously here, so the deadline is passed as an option. */
static int connect_engine(const struct atoll_docker_http *h, struct pipe *p,
                          const struct atoll_sync_call *call, struct atoll_error *err)
{
    CURLcode code;

    p->http = h->remote;
    p->easy = curl_easy_init();
    if (!p->easy)
        return atoll_fail_errno(err, ENOMEM, "connection");
    atoll_remote_http_aim(h->remote, p->easy);
    (void)curl_easy_setopt(p->easy, CURLOPT_URL, h->base);
    (void)curl_easy_setopt(p->easy, CURLOPT_CONNECT_ONLY, 1L);
    /* 0 would mean no timeout. */
    (void)curl_easy_setopt(p->easy, CURLOPT_TIMEOUT_MS,
                           (long)ATOLL_MAX(atoll_sync_left_ms(call), 1));
    code = curl_easy_perform(p->easy);
    if (code == CURLE_OK)
        code = curl_easy_getinfo(p->easy, CURLINFO_ACTIVESOCKET, &p->sock);
    return code == CURLE_OK ? 0 : broken(p, code, call, err);
}

static int start_thread(struct pipe *p)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, old;
    int r;

    (void)pthread_attr_init(&attr);
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    (void)pthread_attr_setstacksize(&attr, THREAD_STACK);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &old);
    r = pthread_create(&thread, &attr, pump, p);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    (void)pthread_attr_destroy(&attr);
    return -r;
}

static int upgrade(struct atoll_docker_http *h, struct pipe *p, const struct atoll_sync_call *call,
                   const char *path, const char *body, struct atoll_error *err)
{
    ATOLL_AUTOFREE char *head = NULL;
    char version[16];
    int r = atoll_docker_http_version(h, call, version, err);

    if (r == 0 && asprintf(&head,
                           "POST /v%s%s HTTP/1.1\r\nHost: docker\r\n"
                           "Content-Type: application/json\r\nContent-Length: %zu\r\n"
                           "Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n%s",
                           version, path, strlen(body), body) < 0) {
        head = NULL;
        r = atoll_fail_errno(err, ENOMEM, "request");
    }
    if (r == 0)
        r = connect_engine(h, p, call, err);
    if (r == 0)
        r = send_head(p, call, head, err);
    return r < 0 ? r : read_head(p, call, err);
}

int atoll_docker_http_hijack(struct atoll_docker_http *h, const struct atoll_sync_call *call,
                             const char *path, const char *body, int *ret_fd,
                             struct atoll_error *err)
{
    struct pipe *p;
    int pair[2], r;

    if (atomic_fetch_add(&streams, 1) >= STREAMS_MAX) {
        (void)atomic_fetch_sub(&streams, 1);
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EMFILE,
                          "too many streams to the Docker engine");
    }
    p = calloc(1, sizeof(*p));
    if (!p) {
        (void)atomic_fetch_sub(&streams, 1);
        return atoll_fail_errno(err, ENOMEM, "stream");
    }
    p->fd = ATOLL_NO_FD;
    r = upgrade(h, p, call, path, body, err);
    if (r == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        r = atoll_fail_errno(err, errno, "socketpair");
    if (r < 0) {
        pipe_free(p);
        return r;
    }
    p->fd = pair[0];
    r = start_thread(p);
    if (r < 0) {
        pipe_free(p);
        (void)close(pair[1]);
        return atoll_fail_errno(err, -r, "thread");
    }
    *ret_fd = pair[1];
    return 0;
}

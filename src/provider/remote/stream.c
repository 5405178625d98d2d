/*
 * One stream of the pump: the process at the service on one side, our end of a socket pair on the
 * other.
 *
 *   engine → socket → requests with input, one after the other → the process
 *   the process → the answer to its start → `out` → socket → engine
 *
 * When the engine has closed its end, what it wrote before is still sent. Then the process is
 * killed: the service would leave it running after its stream is closed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include "base/clock.h"
#include "base/metrics.h"
#include "base/rand.h"
#include "provider/remote/pump_internal.h"
#include "provider/remote/retry.h"

#define INPUT_MAX ((size_t)64 * 1024)
#define INPUT_BODY_MAX (2 * INPUT_MAX)
#define HIGH_WATER ((size_t)256 * 1024)
#define OUT_MAX (HIGH_WATER + (size_t)1024 * 1024)
#define START_BODY_MAX ((size_t)1024 * 1024)
#define REFUSAL_MAX ((size_t)16 * 1024)
#define INPUT_TIMEOUT_MS 60000
#define INPUT_TRIES 6
#define WHAT "dial the agent"

static void settle(struct atoll_remote_stream *s, const struct atoll_error *error)
{
    (void)pthread_mutex_lock(&s->pump->lock);
    if (s->dialing) {
        if (error)
            s->dialing->error = *error;
        (void)eventfd_write(s->dialing->event_fd, 1);
        s->dialing = NULL;
    }
    (void)pthread_mutex_unlock(&s->pump->lock);
}

/* From the service. */

void atoll_remote_stream_opened(struct atoll_remote_stream *s)
{
    s->opened = true;
    settle(s, NULL);
}

int atoll_remote_stream_output(struct atoll_remote_stream *s, const void *bytes, size_t n)
{
    if (!s->spoke)
        atoll_remote_leases_set_silent(s->pump->config.leases, s->handle, false);
    s->spoke = true;
    return s->hung_up ? 0 : atoll_buf_append(&s->out, bytes, n);
}

void atoll_remote_stream_exited(struct atoll_remote_stream *s, int code)
{
    s->exited = true;
    s->exit_code = code;
}

void atoll_remote_stream_failed(struct atoll_remote_stream *s, enum atoll_error_kind kind,
                                const char *text)
{
    struct atoll_error error;

    (void)atoll_fail(&error, kind, EREMOTEIO, WHAT ": %.200s", text);
    settle(s, &error);
}

static int on_bytes(void *arg, const void *bytes, size_t n)
{
    struct atoll_remote_stream *s = arg;

    s->heard_ms = atoll_clock_ms();
    if (atoll_buf_size(&s->out) >= HIGH_WATER) {
        s->stalled = true;
        return 1;
    }
    return s->ops->decode(s->state, s, bytes, n) < 0 ? -1 : 0;
}

/* The answer to the start has ended: the stream ends when the engine has read all output. */
static void on_start_done(struct atoll_remote_transfer *t, CURLcode code)
{
    struct atoll_remote_stream *s = ATOLL_CONTAINER_OF(t, struct atoll_remote_stream, start);
    const struct atoll_remote_pump_config *c = &s->pump->config;
    const struct atoll_remote_answer *a = &t->answer;
    struct atoll_error error;

    s->over = true;
    if (a->status != 0 && a->status / 100 != 2)
        (void)atoll_remote_refused(&error, c->service, WHAT, a->status,
                                   (const char *)atoll_buf_head(&a->body), atoll_buf_size(&a->body),
                                   a->retry_after_s, c->secret);
    else if (atoll_remote_transfer_result(c->http, t, code, &error) == 0)
        (void)atoll_fail(&error, ATOLL_ERR_UNAVAILABLE, EPROTO,
                         WHAT ": the answer of %s is not the stream of a process",
                         c->service->name);
    settle(s, &error);
    /* A relay that ends so could not connect: the agent does not listen. */
    if (s->exited && s->exit_code != 0 && !s->spoke)
        atoll_remote_leases_set_silent(c->leases, s->handle, true);
}

/* From the engine. */

static void send_body(struct atoll_remote_stream *s)
{
    int which = s->told_eof ? ATOLL_REMOTE_END : ATOLL_REMOTE_INPUT;

    s->input.request = (struct atoll_remote_request){
        .method = s->to[which].method,
        .url = s->to[which].url,
        .headers = s->headers,
        .body = atoll_buf_head(&s->input_body),
        .body_len = atoll_buf_size(&s->input_body),
        .timeout_ms = INPUT_TIMEOUT_MS,
    };
    s->input_at_ms = 0;
    s->input_tries++;
    if (atoll_remote_transfer_begin(s->pump, &s->input) < 0)
        s->dead = true;
}

static void send_end(struct atoll_remote_stream *s)
{
    s->told_eof = true;
    if (!s->to[ATOLL_REMOTE_END].url)
        return;
    atoll_buf_clear(&s->input_body);
    if (s->ops->end_input(s->state, &s->input_body) < 0)
        s->dead = true;
    else
        send_body(s);
}

static void send_input(struct atoll_remote_stream *s)
{
    uint8_t bytes[INPUT_MAX];
    ssize_t n = recv(s->fd, bytes, sizeof(bytes), MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        s->eof = true;
        return;
    }
    atoll_buf_clear(&s->input_body);
    if (s->ops->input(s->state, &s->input_body, bytes, (size_t)n) < 0)
        s->dead = true;
    else
        send_body(s);
}

/* Only an answer confirms that the bytes arrived. Answers that mean "later" are retried; after
 * any other the stream is broken, and the engine opens another. */
static void on_input_done(struct atoll_remote_transfer *t, CURLcode code)
{
    struct atoll_remote_stream *s = ATOLL_CONTAINER_OF(t, struct atoll_remote_stream, input);
    long status = t->answer.status;
    uint32_t random;

    if (code == CURLE_OK && status / 100 == 2) {
        s->input_tries = 0;
    } else if (code == CURLE_OK && atoll_remote_is_later(status) && s->input_tries < INPUT_TRIES) {
        atoll_metric_note(ATOLL_METRIC_REMOTE_LIMITED, s->pump->config.service->label, 1);
        atoll_metric_note(ATOLL_METRIC_REMOTE_RETRIES, s->pump->config.service->label, 1);
        atoll_rand_bytes(&random, sizeof(random));
        s->input_at_ms = atoll_clock_ms() +
                         atoll_remote_delay_ms(s->input_tries, t->answer.retry_after_s, random);
    } else if (code == CURLE_OK && status == 404) {
        /* The process has ended; the rest of its output is still to come. */
        s->eof = s->told_eof = true;
    } else {
        s->dead = true;
    }
}

/* Turns. */

static void flush(struct atoll_remote_stream *s)
{
    while (!s->hung_up && atoll_buf_size(&s->out) > 0) {
        ssize_t n = send(s->fd, atoll_buf_head(&s->out), atoll_buf_size(&s->out),
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0)
            s->hung_up = true;
        else
            atoll_buf_consume(&s->out, (size_t)n);
    }
    if (s->hung_up)
        atoll_buf_clear(&s->out);
    if (s->stalled && atoll_buf_size(&s->out) < HIGH_WATER / 2) {
        s->stalled = false;
        s->heard_ms = atoll_clock_ms();
        (void)curl_easy_pause(s->start.easy, CURLPAUSE_CONT);
    }
}

static void feed(struct atoll_remote_stream *s, int64_t now_ms)
{
    if (s->over || !s->opened || s->input.busy)
        return;
    if (s->input_at_ms > 0) {
        if (s->input_at_ms <= now_ms)
            send_body(s);
        return;
    }
    if (!s->eof)
        send_input(s);
    if (s->eof && !s->told_eof && !s->hung_up && !s->dead)
        send_end(s);
}

static void watch(struct atoll_remote_stream *s)
{
    bool can_take = s->opened && !s->over && !s->eof && !s->input.busy && s->input_at_ms == 0;
    uint32_t wanted = (can_take ? EPOLLIN : 0u) | (atoll_buf_size(&s->out) > 0 ? EPOLLOUT : 0u);
    struct epoll_event event = {.events = wanted, .data.ptr = s};

    /* A hung-up descriptor would be reported for ever, so it is not watched; transfers drive the
     * rest. */
    if (s->hung_up) {
        if (s->watched != UINT32_MAX)
            (void)epoll_ctl(s->pump->epoll_fd, EPOLL_CTL_DEL, s->fd, NULL);
        s->watched = UINT32_MAX;
    } else if (s->watched != wanted) {
        (void)epoll_ctl(s->pump->epoll_fd, EPOLL_CTL_MOD, s->fd, &event);
        s->watched = wanted;
    }
}

void atoll_remote_stream_turn(struct atoll_remote_stream *s, uint32_t events, int64_t now_ms)
{
    if (s->dead)
        return;
    if (events & (EPOLLHUP | EPOLLERR))
        s->hung_up = true;
    flush(s);
    feed(s, now_ms);
    if (s->over && atoll_buf_size(&s->out) == 0)
        s->dead = true;
    if (s->hung_up && (s->eof || !s->opened))
        s->dead = true;
    if (!s->over && !s->stalled && now_ms - s->heard_ms > s->silence_ms)
        s->dead = true;
    if (!s->dead)
        watch(s);
}

int64_t atoll_remote_stream_wait_ms(const struct atoll_remote_stream *s, int64_t now_ms)
{
    int64_t at_ms = s->heard_ms + s->silence_ms + 1;

    if (s->input_at_ms > 0)
        at_ms = ATOLL_MIN(at_ms, s->input_at_ms);
    /* A hung-up descriptor is read without being watched: see watch(). */
    if (s->hung_up && !s->input.busy && s->input_at_ms == 0)
        return 0;
    return s->over || s->stalled ? s->silence_ms : ATOLL_MAX(at_ms - now_ms, INT64_C(0));
}

/* Open and free. */

static bool prepare(struct atoll_remote_stream *s, const struct atoll_remote_open *open)
{
    (void)snprintf(s->handle, sizeof(s->handle), "%s", open->handle);
    for (size_t i = 0; i < ATOLL_REMOTE_REQUESTS; i++) {
        s->to[i].method = open->to[i].method ? open->to[i].method : "POST";
        s->to[i].url = open->to[i].url ? strdup(open->to[i].url) : NULL;
        if (open->to[i].url && !s->to[i].url)
            return false;
    }
    s->start = (struct atoll_remote_transfer){.easy = curl_easy_init(), .done = on_start_done};
    s->input = (struct atoll_remote_transfer){.easy = curl_easy_init(), .done = on_input_done};
    return s->start.easy && s->input.easy &&
           atoll_buf_append(&s->start_body, open->start_body, open->start_body_len) == 0 &&
           atoll_remote_headers(&s->start_headers, open->start_headers, NULL) == 0 &&
           atoll_remote_headers(&s->headers, open->headers, NULL) == 0;
}

int atoll_remote_stream_new(struct atoll_remote_pump *p, const struct atoll_remote_open *open,
                            int fd, struct atoll_remote_stream **ret, struct atoll_error *err)
{
    struct atoll_remote_stream *s = calloc(1, sizeof(*s));

    if (!s) {
        open->ops->free(open->state);
        return atoll_fail_errno(err, ENOMEM, "stream");
    }
    s->pump = p;
    s->ops = open->ops;
    s->state = open->state;
    s->silence_ms = open->silence_ms;
    s->running = open->running;
    s->fd = ATOLL_NO_FD;
    s->heard_ms = atoll_clock_ms();
    atoll_buf_init(&s->start_body, START_BODY_MAX);
    atoll_buf_init(&s->input_body, INPUT_BODY_MAX);
    atoll_buf_init(&s->out, OUT_MAX);
    if (!prepare(s, open)) {
        (void)atoll_remote_stream_free(s);
        return atoll_fail_errno(err, ENOMEM, "stream");
    }
    s->fd = fd;
    *ret = s;
    return 0;
}

void atoll_remote_stream_begin(struct atoll_remote_stream *s)
{
    struct epoll_event event = {.events = 0, .data.ptr = s};
    size_t body_len = atoll_buf_size(&s->start_body);

    s->start.request = (struct atoll_remote_request){
        .what = WHAT,
        .method = s->to[ATOLL_REMOTE_START].method,
        .url = s->to[ATOLL_REMOTE_START].url,
        .headers = s->start_headers,
        .body = body_len > 0 ? atoll_buf_head(&s->start_body) : NULL,
        .body_len = body_len,
        .sink = on_bytes,
        .sink_arg = s,
        .answer_max = REFUSAL_MAX,
    };
    if (epoll_ctl(s->pump->epoll_fd, EPOLL_CTL_ADD, s->fd, &event) < 0 ||
        atoll_remote_transfer_begin(s->pump, &s->start) < 0)
        s->dead = true;
    else if (s->running)
        atoll_remote_stream_opened(s);
}

struct atoll_remote_stream *atoll_remote_stream_free(struct atoll_remote_stream *s)
{
    struct atoll_error error;

    (void)atoll_fail(&error, ATOLL_ERR_UNAVAILABLE, EPIPE, WHAT ": the stream was closed");
    settle(s, &error);
    if (s->opened && !s->exited)
        atoll_remote_background_kill(s->pump, s);
    atoll_list_remove(&s->node);
    atoll_remote_transfer_end(s->pump, &s->start);
    atoll_remote_transfer_end(s->pump, &s->input);
    curl_easy_cleanup(s->start.easy);
    curl_easy_cleanup(s->input.easy);
    curl_slist_free_all(s->headers);
    curl_slist_free_all(s->start_headers);
    atoll_remote_answer_done(&s->start.answer);
    atoll_remote_answer_done(&s->input.answer);
    s->ops->free(s->state);
    atoll_buf_done(&s->start_body);
    atoll_buf_done(&s->input_body);
    atoll_buf_done(&s->out);
    if (s->fd >= 0)
        (void)close(s->fd); /* takes it out of epoll as well */
    for (size_t i = 0; i < ATOLL_REMOTE_REQUESTS; i++)
        free(s->to[i].url);
    free(s);
    return NULL;
}

/*
 * One stream of the pump: the process at the service on one side, our end of a socket pair on the
 * other.
 *
 *   engine → socket → SendInput, one after the other, then CloseStdin → the process
 *   the process → the answer to Start → `out` → socket → engine
 *
 * When the engine has closed its end, what it wrote before is still sent. Then the process is
 * killed: the service would leave it running after its stream is closed.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include "base/clock.h"
#include "provider/e2b/pump_internal.h"

#define INPUT_MAX ((size_t)64 * 1024)
#define INPUT_BODY_MAX (INPUT_MAX / 3 * 4 + 1024)
#define HIGH_WATER ((size_t)256 * 1024)
#define OUT_MAX (HIGH_WATER + ATOLL_E2B_MESSAGE_MAX)
#define REFUSAL_MAX ((size_t)16 * 1024)
#define KEEPALIVE_S 30
#define KEEPALIVE_HEADER "Keepalive-Ping-Interval: " ATOLL_STRINGIFY(KEEPALIVE_S)
#define SILENCE_MS (3 * KEEPALIVE_S * 1000)
#define INPUT_TIMEOUT_MS 60000L
#define INPUT_TRIES 5
#define INPUT_DELAY_MS 250
#define WHAT "dial the agent"

static void settle(struct atoll_e2b_stream *s, const struct atoll_error *error)
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

static int on_event(void *arg, const struct atoll_e2b_event *event)
{
    struct atoll_e2b_stream *s = arg;
    struct atoll_error error;

    switch (event->type) {
    case ATOLL_E2B_EVENT_START:
        s->pid = event->pid;
        settle(s, NULL);
        break;
    case ATOLL_E2B_EVENT_STDOUT:
        if (!s->spoke)
            atoll_e2b_remotes_set_silent(s->pump->config.remotes, s->handle, false);
        s->spoke = true;
        return s->hung_up ? 0 : atoll_buf_append(&s->out, event->bytes, event->len);
    case ATOLL_E2B_EVENT_EXIT:
        s->exited = true;
        s->exit_code = event->code;
        break;
    case ATOLL_E2B_EVENT_END:
        if (event->kind != ATOLL_ERR_NONE) {
            (void)atoll_fail(&error, event->kind, EREMOTEIO, WHAT ": %.200s", event->text);
            settle(s, &error);
        }
        break;
    case ATOLL_E2B_EVENT_STDERR:
    case ATOLL_E2B_EVENT_ALIVE:
        break;
    }
    return 0;
}

static size_t on_bytes(char *bytes, size_t size, size_t n, void *arg)
{
    struct atoll_e2b_stream *s = arg;
    long status = 0;

    s->heard_ms = atoll_clock_ms();
    (void)curl_easy_getinfo(s->start.easy, CURLINFO_RESPONSE_CODE, &status);
    if (status != 200)
        return atoll_buf_append(&s->refusal, bytes, size * n) < 0 ? 0 : size * n;
    if (atoll_buf_size(&s->out) >= HIGH_WATER) {
        s->stalled = true;
        return CURL_WRITEFUNC_PAUSE;
    }
    return atoll_e2b_events_feed(&s->events, bytes, size * n, on_event, s) < 0 ? 0 : size * n;
}

/* The answer to Start has ended: the stream ends when the engine has read all output. */
static void on_start_done(struct atoll_e2b_transfer *t, CURLcode code, long status)
{
    struct atoll_e2b_stream *s = ATOLL_CONTAINER_OF(t, struct atoll_e2b_stream, start);
    struct atoll_error error;

    s->over = true;
    if (status != 0 && status != 200)
        (void)atoll_e2b_refusal(&error, WHAT, status, (const char *)atoll_buf_head(&s->refusal),
                                atoll_buf_size(&s->refusal), 0, s->pump->config.key);
    else if (code != CURLE_OK && code != CURLE_WRITE_ERROR)
        (void)atoll_e2b_http_broken(code, WHAT, &error);
    else
        (void)atoll_fail(&error, ATOLL_ERR_UNAVAILABLE, EPROTO,
                         WHAT ": the E2B service's answer is not the stream of a process");
    settle(s, &error);
    /* A relay that ends so could not connect: the agent does not listen. */
    if (s->exited && s->exit_code != 0 && !s->spoke)
        atoll_e2b_remotes_set_silent(s->pump->config.remotes, s->handle, true);
}

/* From the engine. */

static void send_body(struct atoll_e2b_stream *s, const char *url)
{
    s->input.ask = (struct atoll_e2b_ask){.method = "POST",
                                          .url = url,
                                          .ca = s->pump->config.ca,
                                          .headers = s->headers,
                                          .body = atoll_buf_head(&s->input_body),
                                          .body_len = atoll_buf_size(&s->input_body)};
    s->input_at_ms = 0;
    atoll_e2b_answer_done(&s->input_answer);
    atoll_e2b_http_prepare(s->input.easy, &s->input.ask);
    atoll_e2b_http_collect(s->input.easy, &s->input_answer);
    (void)curl_easy_setopt(s->input.easy, CURLOPT_TIMEOUT_MS, INPUT_TIMEOUT_MS);
    if (atoll_e2b_transfer_begin(s->pump, &s->input) < 0)
        s->dead = true;
}

static void send_again(struct atoll_e2b_stream *s)
{
    send_body(s, s->told_eof ? s->close_url : s->input_url);
}

static void send_end(struct atoll_e2b_stream *s)
{
    char *text = atoll_e2b_dump(atoll_e2b_close_message(s->pid));

    s->told_eof = true;
    atoll_buf_clear(&s->input_body);
    if (!text || atoll_buf_appends(&s->input_body, text) < 0)
        s->dead = true;
    else
        send_body(s, s->close_url);
    free(text);
}

static void send_input(struct atoll_e2b_stream *s)
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
    if (atoll_e2b_input_message(&s->input_body, s->pid, bytes, (size_t)n) < 0)
        s->dead = true;
    else
        send_body(s, s->input_url);
}

/* Only an answer confirms that the bytes arrived. Answers that mean "later" are retried; after
 * any other the stream is broken, and the engine opens another. */
static void on_input_done(struct atoll_e2b_transfer *t, CURLcode code, long status)
{
    struct atoll_e2b_stream *s = ATOLL_CONTAINER_OF(t, struct atoll_e2b_stream, input);
    int64_t after_ms = (int64_t)s->input_answer.retry_after_s * 1000;

    if (code == CURLE_OK && status == 200) {
        s->input_tries = 0;
    } else if (code == CURLE_OK && (status == 429 || status == 503) &&
               s->input_tries < INPUT_TRIES) {
        after_ms = ATOLL_MAX(after_ms, (int64_t)INPUT_DELAY_MS << s->input_tries++);
        s->input_at_ms = atoll_clock_ms() + after_ms;
    } else if (code == CURLE_OK && status == 404) {
        /* The process has ended; the rest of its output is still to come. */
        s->eof = s->told_eof = true;
    } else {
        s->dead = true;
    }
}

/* Turns. */

static void flush(struct atoll_e2b_stream *s)
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

static void feed(struct atoll_e2b_stream *s, int64_t now_ms)
{
    if (s->over || s->pid == 0 || s->input.busy)
        return;
    if (s->input_at_ms > 0) {
        if (s->input_at_ms <= now_ms)
            send_again(s);
        return;
    }
    if (!s->eof)
        send_input(s);
    if (s->eof && !s->told_eof && !s->hung_up && !s->dead)
        send_end(s);
}

static void watch(struct atoll_e2b_stream *s)
{
    bool can_take = s->pid > 0 && !s->over && !s->eof && !s->input.busy && s->input_at_ms == 0;
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

void atoll_e2b_stream_turn(struct atoll_e2b_stream *s, uint32_t events, int64_t now_ms)
{
    if (s->dead)
        return;
    if (events & (EPOLLHUP | EPOLLERR))
        s->hung_up = true;
    flush(s);
    feed(s, now_ms);
    if (s->over && atoll_buf_size(&s->out) == 0)
        s->dead = true;
    if (s->hung_up && (s->eof || s->pid == 0))
        s->dead = true;
    if (!s->over && !s->stalled && now_ms - s->heard_ms > SILENCE_MS)
        s->dead = true;
    if (!s->dead)
        watch(s);
}

int64_t atoll_e2b_stream_wait_ms(const struct atoll_e2b_stream *s, int64_t now_ms)
{
    int64_t at_ms = s->heard_ms + SILENCE_MS + 1;

    if (s->input_at_ms > 0)
        at_ms = ATOLL_MIN(at_ms, s->input_at_ms);
    /* A hung-up descriptor is read without being watched: see watch(). */
    if (s->hung_up && !s->input.busy && s->input_at_ms == 0)
        return 0;
    return s->over || s->stalled ? SILENCE_MS : ATOLL_MAX(at_ms - now_ms, INT64_C(0));
}

/* Open and free. */

static struct curl_slist *copy_headers(const struct curl_slist *from)
{
    struct curl_slist *copy = NULL;

    for (; from; from = from->next) {
        struct curl_slist *more = curl_slist_append(copy, from->data);
        if (!more) {
            curl_slist_free_all(copy);
            return NULL;
        }
        copy = more;
    }
    return copy;
}

static char *join(const char *url, const char *method)
{
    char *whole;

    return asprintf(&whole, "%s/process.Process/%s", url, method) < 0 ? NULL : whole;
}

/* Sets the headers of unary calls and of streams. */
static bool set_headers(struct atoll_e2b_stream *s, const struct curl_slist *headers)
{
    static const char *const of_stream[] = {"Content-Type: application/connect+json",
                                            "Connect-Protocol-Version: 1", KEEPALIVE_HEADER};
    struct curl_slist *more;

    s->start_headers = copy_headers(headers);
    s->headers = copy_headers(headers);
    for (size_t i = 0; s->start_headers && i < ATOLL_ARRAY_LEN(of_stream); i++) {
        more = curl_slist_append(s->start_headers, of_stream[i]);
        if (!more)
            return false;
        s->start_headers = more;
    }
    more = s->headers ? curl_slist_append(s->headers, "Content-Type: application/json") : NULL;
    s->headers = more ? more : s->headers;
    return s->start_headers && more;
}

static bool prepare(struct atoll_e2b_stream *s, const struct atoll_e2b_open *open)
{
    char *message = atoll_e2b_dump(atoll_e2b_start_message(open->cmd, open->args, true));
    bool good = message && atoll_e2b_envelope(&s->start_body, message) == 0;

    free(message);
    (void)snprintf(s->handle, sizeof(s->handle), "%s", open->handle);
    s->start_url = join(open->url, "Start");
    s->input_url = join(open->url, "SendInput");
    s->close_url = join(open->url, "CloseStdin");
    s->kill_url = join(open->url, "SendSignal");
    s->start = (struct atoll_e2b_transfer){.easy = curl_easy_init(), .done = on_start_done};
    s->input = (struct atoll_e2b_transfer){.easy = curl_easy_init(), .done = on_input_done};
    return good && set_headers(s, open->headers) && s->start_url && s->input_url && s->close_url &&
           s->kill_url && s->start.easy && s->input.easy;
}

int atoll_e2b_stream_new(struct atoll_e2b_pump *p, const struct atoll_e2b_open *open, int fd,
                         struct atoll_e2b_stream **ret, struct atoll_error *err)
{
    struct atoll_e2b_stream *s = calloc(1, sizeof(*s));

    if (!s)
        return atoll_fail_errno(err, ENOMEM, "E2B stream");
    s->pump = p;
    s->fd = ATOLL_NO_FD;
    s->heard_ms = atoll_clock_ms();
    atoll_buf_init(&s->start_body, ATOLL_E2B_MESSAGE_MAX);
    atoll_buf_init(&s->input_body, INPUT_BODY_MAX);
    atoll_buf_init(&s->out, OUT_MAX);
    atoll_buf_init(&s->refusal, REFUSAL_MAX);
    atoll_e2b_events_init(&s->events);
    if (!prepare(s, open)) {
        (void)atoll_e2b_stream_free(s);
        return atoll_fail_errno(err, ENOMEM, "E2B stream");
    }
    s->fd = fd;
    *ret = s;
    return 0;
}

void atoll_e2b_stream_begin(struct atoll_e2b_stream *s)
{
    struct epoll_event event = {.events = 0, .data.ptr = s};

    s->start.ask = (struct atoll_e2b_ask){.method = "POST",
                                          .url = s->start_url,
                                          .ca = s->pump->config.ca,
                                          .headers = s->start_headers,
                                          .body = atoll_buf_head(&s->start_body),
                                          .body_len = atoll_buf_size(&s->start_body)};
    atoll_e2b_http_prepare(s->start.easy, &s->start.ask);
    (void)curl_easy_setopt(s->start.easy, CURLOPT_WRITEFUNCTION, on_bytes);
    (void)curl_easy_setopt(s->start.easy, CURLOPT_WRITEDATA, s);
    if (epoll_ctl(s->pump->epoll_fd, EPOLL_CTL_ADD, s->fd, &event) < 0 ||
        atoll_e2b_transfer_begin(s->pump, &s->start) < 0)
        s->dead = true;
}

struct atoll_e2b_stream *atoll_e2b_stream_free(struct atoll_e2b_stream *s)
{
    struct atoll_error error;

    (void)atoll_fail(&error, ATOLL_ERR_UNAVAILABLE, EPIPE, WHAT ": the stream was closed");
    settle(s, &error);
    if (s->pid > 0 && !s->exited)
        atoll_e2b_background_kill(s->pump, s);
    atoll_list_remove(&s->node);
    atoll_e2b_transfer_end(s->pump, &s->start);
    atoll_e2b_transfer_end(s->pump, &s->input);
    curl_easy_cleanup(s->start.easy);
    curl_easy_cleanup(s->input.easy);
    curl_slist_free_all(s->headers);
    curl_slist_free_all(s->start_headers);
    atoll_e2b_answer_done(&s->input_answer);
    atoll_e2b_events_done(&s->events);
    atoll_buf_done(&s->start_body);
    atoll_buf_done(&s->input_body);
    atoll_buf_done(&s->out);
    atoll_buf_done(&s->refusal);
    if (s->fd >= 0)
        (void)close(s->fd); /* takes it out of epoll as well */
    free(s->start_url);
    free(s->input_url);
    free(s->close_url);
    free(s->kill_url);
    free(s);
    return NULL;
}

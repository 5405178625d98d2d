#include "provider/e2b/http.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "base/clock.h"
#include "base/text.h"

/*
 * libcurl. Each easy handle has a multi handle of its own, which can wait for the transfer and for
 * a cancellation at the same time; the connection is kept with it.
 */
#define KEPT_MAX 16 /* idle connections; the number in use is that of the workers */
#define CONNECT_MS 10000L
#define WAIT_MS 1000
#define REQUEST_MS 60000 /* timeout of one request of a longer operation */

struct line {
    CURL *easy;
    CURLM *multi;
};

struct atoll_e2b_http {
    pthread_mutex_t lock;
    size_t kept;
    struct line lines[KEPT_MAX];
};

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void init_curl(void)
{
    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
}

int atoll_e2b_http_new(struct atoll_e2b_http **ret, struct atoll_error *err)
{
    struct atoll_e2b_http *h = calloc(1, sizeof(*h));

    if (!h)
        return atoll_fail_errno(err, ENOMEM, "HTTP client");
    (void)pthread_once(&once, init_curl);
    (void)pthread_mutex_init(&h->lock, NULL);
    *ret = h;
    return 0;
}

static void line_done(struct line *line)
{
    curl_easy_cleanup(line->easy);
    (void)curl_multi_cleanup(line->multi);
    *line = (struct line){0};
}

struct atoll_e2b_http *atoll_e2b_http_free(struct atoll_e2b_http *h)
{
    if (!h)
        return NULL;
    while (h->kept > 0)
        line_done(&h->lines[--h->kept]);
    (void)pthread_mutex_destroy(&h->lock);
    free(h);
    return NULL;
}

static int line_take(struct atoll_e2b_http *h, struct line *ret, struct atoll_error *err)
{
    struct line line = {0};

    (void)pthread_mutex_lock(&h->lock);
    if (h->kept > 0)
        line = h->lines[--h->kept];
    (void)pthread_mutex_unlock(&h->lock);
    if (!line.easy) {
        line = (struct line){curl_easy_init(), curl_multi_init()};
        if (!line.easy || !line.multi) {
            line_done(&line);
            return atoll_fail_errno(err, ENOMEM, "HTTP client");
        }
    }
    *ret = line;
    return 0;
}

static void line_give(struct atoll_e2b_http *h, struct line *line)
{
    curl_easy_reset(line->easy);
    (void)pthread_mutex_lock(&h->lock);
    if (h->kept < KEPT_MAX) {
        h->lines[h->kept++] = *line;
        *line = (struct line){0};
    }
    (void)pthread_mutex_unlock(&h->lock);
    line_done(line);
}

/* Transfers. */

static size_t on_read(char *out, size_t size, size_t n, void *arg)
{
    struct atoll_e2b_ask *ask = arg;
    size_t some = ATOLL_MIN(size * n, ask->body_len - ask->sent);

    memcpy(out, (const char *)ask->body + ask->sent, some);
    ask->sent += some;
    return some;
}

void atoll_e2b_http_prepare(CURL *easy, struct atoll_e2b_ask *ask)
{
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    (void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_USERAGENT, "atoll/" ATOLL_VERSION);
    (void)curl_easy_setopt(easy, CURLOPT_URL, ask->url);
    if (ask->ca)
        (void)curl_easy_setopt(easy, CURLOPT_CAINFO, ask->ca);
    (void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, ask->headers);
    /* The body is given by a read function that cannot rewind. Otherwise libcurl would resend
     * the request when a kept connection breaks before the answer, and could create an object
     * twice. */
    ask->sent = 0;
    if (ask->body) {
        (void)curl_easy_setopt(easy, CURLOPT_POST, 1L);
        (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)ask->body_len);
        (void)curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_read);
        (void)curl_easy_setopt(easy, CURLOPT_READDATA, ask);
    }
    (void)curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, ask->method);
}

static size_t on_body(char *bytes, size_t size, size_t n, void *arg)
{
    struct atoll_e2b_answer *answer = arg;

    return atoll_buf_append(&answer->body, bytes, size * n) < 0 ? 0 : size * n;
}

/* The trimmed value of `line` if it is the header `name`, else false. */
static bool take_header(const char *line, size_t n, const char *name, char *out, size_t cap)
{
    size_t len = strlen(name);

    if (n <= len || line[len] != ':' || strncasecmp(line, name, len) != 0)
        return false;
    for (line += len + 1, n -= len + 1; n > 0 && strchr(" \t", *line); n--)
        line++;
    while (n > 0 && strchr(" \t\r\n", line[n - 1]))
        n--;
    (void)snprintf(out, cap, "%.*s", n < cap ? (int)n : 0, line);
    return true;
}

static size_t on_header(char *line, size_t size, size_t n, void *arg)
{
    struct atoll_e2b_answer *answer = arg;
    uint64_t seconds;
    char text[24];

    if (take_header(line, size * n, "retry-after", text, sizeof(text))) {
        if (atoll_text_u64(text, 0, 3600, &seconds) == 0)
            answer->retry_after_s = (uint32_t)seconds;
    } else {
        (void)take_header(line, size * n, "x-next-token", answer->next_token,
                          sizeof(answer->next_token));
    }
    return size * n;
}

void atoll_e2b_http_collect(CURL *easy, struct atoll_e2b_answer *answer)
{
    *answer = (struct atoll_e2b_answer){0};
    atoll_buf_init(&answer->body, ATOLL_E2B_ANSWER_MAX);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, answer);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERDATA, answer);
}

void atoll_e2b_answer_done(struct atoll_e2b_answer *answer)
{
    atoll_buf_done(&answer->body);
}

int atoll_e2b_http_broken(CURLcode code, const char *what, struct atoll_error *err)
{
    switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
        return atoll_fail(err, ATOLL_ERR_DEADLINE_EXCEEDED, ETIMEDOUT,
                          "%s: the E2B service did not answer in time", what);
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EPROTO,
                          "%s: the certificate of the E2B service is not trusted", what);
    case CURLE_URL_MALFORMAT:
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EINVAL,
                          "%s: the address of the E2B service is not a URL", what);
    case CURLE_WRITE_ERROR:
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EMSGSIZE,
                          "%s: the E2B service's answer is too long", what);
    case CURLE_SEND_FAIL_REWIND:
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, ECONNRESET,
                          "%s: the connection to the E2B service broke", what);
    default:
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, ECONNREFUSED,
                          "%s: the E2B service cannot be reached: %s", what,
                          curl_easy_strerror(code));
    }
}

/* Runs one transfer to its end. */
static int drive(struct line *line, const struct atoll_sync_call *call, const char *what,
                 struct atoll_error *err)
{
    struct curl_waitfd cancel = {.fd = call->cancel_fd, .events = CURL_WAIT_POLLIN};
    unsigned extra = call->cancel_fd >= 0 ? 1 : 0;
    int running = 1, queued;
    CURLMsg *message;

    for (;;) {
        if (curl_multi_perform(line->multi, &running) != CURLM_OK)
            return atoll_fail(err, ATOLL_ERR_INTERNAL, EIO, "%s: HTTP client", what);
        if (!running)
            break;
        if (atoll_sync_cancelled(call))
            return atoll_fail(err, ATOLL_ERR_ABORTED, ECANCELED, "%s: the request was cancelled",
                              what);
        if (atoll_sync_left_ms(call) == 0)
            return atoll_e2b_http_broken(CURLE_OPERATION_TIMEDOUT, what, err);
        (void)curl_multi_poll(line->multi, extra ? &cancel : NULL, extra,
                              ATOLL_MIN(WAIT_MS, atoll_sync_left_ms(call)), NULL);
    }
    while ((message = curl_multi_info_read(line->multi, &queued)))
        if (message->msg == CURLMSG_DONE && message->data.result != CURLE_OK)
            return atoll_e2b_http_broken(message->data.result, what, err);
    return 0;
}

int atoll_e2b_http_ask(struct atoll_e2b_http *h, const struct atoll_sync_call *call,
                       const char *what, const struct atoll_e2b_ask *ask,
                       struct atoll_e2b_answer *ret, struct atoll_error *err)
{
    struct atoll_sync_call part = *call;
    struct atoll_e2b_ask own = *ask;
    struct line line;
    int r;

    *ret = (struct atoll_e2b_answer){0};
    part.deadline_ms = ATOLL_MIN(part.deadline_ms, atoll_clock_ms() + REQUEST_MS);
    r = line_take(h, &line, err);
    if (r < 0)
        return r;
    atoll_e2b_http_prepare(line.easy, &own);
    atoll_e2b_http_collect(line.easy, ret);
    if (curl_multi_add_handle(line.multi, line.easy) != CURLM_OK)
        r = atoll_fail(err, ATOLL_ERR_INTERNAL, EIO, "%s: HTTP client", what);
    else
        r = drive(&line, &part, what, err);
    (void)curl_easy_getinfo(line.easy, CURLINFO_RESPONSE_CODE, &ret->status);
    (void)curl_multi_remove_handle(line.multi, line.easy);
    line_give(h, &line);
    return r;
}

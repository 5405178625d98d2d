#include "provider/remote/http.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "base/clock.h"
#include "base/metrics.h"
#include "base/rand.h"
#include "base/text.h"
#include "provider/remote/retry.h"

/*
 * libcurl. Each easy handle has a multi handle of its own, which can wait for the transfer and for
 * a cancellation at the same time; the connection is kept with it.
 */
#define KEPT_MAX 32 /* idle connections */
#define CONNECT_MS 10000L
#define KEEPALIVE_S 30L
#define WAIT_MS 1000
#define WAIT_FREE_MS 50      /* interval in which a call that waits for a connection is checked */
#define RETRY_AFTER_MAX 3600 /* seconds */

struct line {
    CURL *easy;
    CURLM *multi;
};

struct atoll_remote_http {
    struct atoll_remote_http_config config; /* its strings are owned */
    pthread_mutex_t lock;
    pthread_cond_t freed;
    unsigned used; /* connections that count against config.connections */
    size_t kept;
    struct line lines[KEPT_MAX];
    int64_t held_until_ms; /* the service asked for a pause until then */
};

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void init_curl(void)
{
    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
}

static bool dup_text(const char **text)
{
    bool given = *text && **text;

    *text = given ? strdup(*text) : NULL;
    return *text || !given;
}

int atoll_remote_http_new(const struct atoll_remote_http_config *config,
                          struct atoll_remote_http **ret, struct atoll_error *err)
{
    struct atoll_remote_http *h = calloc(1, sizeof(*h));
    struct atoll_remote_http_config *c;
    pthread_condattr_t monotonic;
    bool good;

    if (!h)
        return atoll_fail_errno(err, ENOMEM, "HTTP client");
    (void)pthread_once(&once, init_curl);
    (void)pthread_mutex_init(&h->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&h->freed, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    h->config = *config;
    c = &h->config;
    good = dup_text(&c->socket_path);
    if (!c->ca) /* libcurl leaves this variable to programs */
        c->ca = getenv("SSL_CERT_FILE");
    good = dup_text(&c->ca) && good;
    good = dup_text(&c->cert) && good;
    good = dup_text(&c->key) && good;
    if (!good) {
        (void)atoll_remote_http_free(h);
        return atoll_fail_errno(err, ENOMEM, "HTTP client");
    }
    *ret = h;
    return 0;
}

static void line_done(struct line *line)
{
    curl_easy_cleanup(line->easy);
    (void)curl_multi_cleanup(line->multi);
    *line = (struct line){0};
}

struct atoll_remote_http *atoll_remote_http_free(struct atoll_remote_http *h)
{
    if (!h)
        return NULL;
    while (h->kept > 0)
        line_done(&h->lines[--h->kept]);
    (void)pthread_mutex_destroy(&h->lock);
    (void)pthread_cond_destroy(&h->freed);
    free((char *)(uintptr_t)h->config.socket_path);
    free((char *)(uintptr_t)h->config.ca);
    free((char *)(uintptr_t)h->config.cert);
    free((char *)(uintptr_t)h->config.key);
    free(h);
    return NULL;
}

/* Errors. */

int atoll_remote_http_broken(const struct atoll_remote_http *h, CURLcode code, const char *what,
                             struct atoll_error *err)
{
    const char *name = h->config.service->name, *colon = what ? ": " : "";

    what = what ? what : "";
    switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
        return atoll_fail(err, ATOLL_ERR_DEADLINE_EXCEEDED, ETIMEDOUT,
                          "%s%s%s did not answer in time", what, colon, name);
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EPROTO,
                          "%s%sthe certificate of %s is not trusted", what, colon, name);
    case CURLE_URL_MALFORMAT:
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EINVAL,
                          "%s%sthe address of %s is not a URL", what, colon, name);
    case CURLE_SEND_FAIL_REWIND:
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, ECONNRESET, "%s%sthe connection to %s broke",
                          what, colon, name);
    default:
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, ECONNREFUSED, "%s%s%s cannot be reached: %s",
                          what, colon, name, curl_easy_strerror(code));
    }
}

int atoll_remote_http_given_up(const struct atoll_remote_http *h,
                               const struct atoll_sync_call *call, const char *what,
                               struct atoll_error *err)
{
    if (atoll_sync_cancelled(call))
        return atoll_fail(err, ATOLL_ERR_ABORTED, ECANCELED, "%s%sthe request was cancelled",
                          what ? what : "", what ? ": " : "");
    return atoll_remote_http_broken(h, CURLE_OPERATION_TIMEDOUT, what, err);
}

int atoll_remote_transfer_result(const struct atoll_remote_http *h,
                                 const struct atoll_remote_transfer *t, CURLcode code,
                                 struct atoll_error *err)
{
    const char *what = t->request.what ? t->request.what : "";
    const char *colon = t->request.what ? ": " : "";

    if (t->too_long)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EFBIG,
                          "%s%sthe answer of %s is too long", what, colon, h->config.service->name);
    if (t->read_failed)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EIO,
                          "%s%sthe body of the request ended early", what, colon);
    if (t->kept_out && code == CURLE_COULDNT_CONNECT)
        return atoll_fail(err, ATOLL_ERR_PERMISSION_DENIED, EACCES,
                          "%s%s%s has an address that may not be connected to", what, colon,
                          h->config.service->name);
    return code == CURLE_OK || t->sink_ended
               ? 0
               : atoll_remote_http_broken(h, code, t->request.what, err);
}

/* Connections. */

/* Locked. Waits in short intervals, so that a cancelled call does not wait on. */
static bool wait_free(struct atoll_remote_http *h, const struct atoll_sync_call *call)
{
    while (h->config.connections > 0 && h->used >= h->config.connections) {
        struct timespec until;
        if (atoll_sync_left_ms(call) == 0 || atoll_sync_cancelled(call))
            return false;
        (void)clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += WAIT_FREE_MS * 1000 * 1000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        (void)pthread_cond_timedwait(&h->freed, &h->lock, &until);
    }
    h->used++;
    return true;
}

static void line_give(struct atoll_remote_http *h, struct line *line, bool counted)
{
    if (line->easy)
        curl_easy_reset(line->easy);
    (void)pthread_mutex_lock(&h->lock);
    if (line->easy && line->multi && h->kept < KEPT_MAX) {
        h->lines[h->kept++] = *line;
        *line = (struct line){0};
    }
    if (counted) {
        h->used--;
        (void)pthread_cond_signal(&h->freed);
    }
    (void)pthread_mutex_unlock(&h->lock);
    line_done(line);
}

static int line_take(struct atoll_remote_http *h, const struct atoll_sync_call *call,
                     const struct atoll_remote_request *request, struct line *ret,
                     struct atoll_error *err)
{
    struct line line = {0};
    bool free_one;

    (void)pthread_mutex_lock(&h->lock);
    free_one = request->slow || wait_free(h, call);
    if (free_one && h->kept > 0)
        line = h->lines[--h->kept];
    (void)pthread_mutex_unlock(&h->lock);
    if (!free_one)
        return atoll_remote_http_given_up(h, call, request->what, err);
    if (!line.easy)
        line = (struct line){curl_easy_init(), curl_multi_init()};
    if (!line.easy || !line.multi) {
        line_give(h, &line, !request->slow);
        return atoll_fail_errno(err, ENOMEM, "HTTP client");
    }
    *ret = line;
    return 0;
}

/* Transfers. */

void atoll_remote_http_aim(const struct atoll_remote_http *h, CURL *easy)
{
    const struct atoll_remote_http_config *c = &h->config;

    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    (void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
    /* Without keepalives a stream to a service whose host is gone would hang for ever. */
    (void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, KEEPALIVE_S);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, KEEPALIVE_S / 3);
    (void)curl_easy_setopt(easy, CURLOPT_USERAGENT, "atoll/" ATOLL_VERSION);
    if (c->direct)
        (void)curl_easy_setopt(easy, CURLOPT_PROXY, "");
    (void)curl_easy_setopt(easy, CURLOPT_HTTP_VERSION,
                           (long)(c->http1 ? CURL_HTTP_VERSION_1_1 : CURL_HTTP_VERSION_2TLS));
    if (c->always_proxy)
        (void)curl_easy_setopt(easy, CURLOPT_NOPROXY, "");
    if (c->unverified) {
        (void)curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
        (void)curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
    }
    if (c->socket_path)
        (void)curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, c->socket_path);
    if (c->ca)
        (void)curl_easy_setopt(easy, CURLOPT_CAINFO, c->ca);
    if (c->cert)
        (void)curl_easy_setopt(easy, CURLOPT_SSLCERT, c->cert);
    if (c->key)
        (void)curl_easy_setopt(easy, CURLOPT_SSLKEY, c->key);
}

static size_t on_read(char *out, size_t size, size_t n, void *arg)
{
    struct atoll_remote_transfer *t = arg;
    const struct atoll_remote_request *request = &t->request;
    size_t some = ATOLL_MIN(size * n, request->body_len - t->sent);
    ssize_t got;

    if (request->read) {
        got = request->read(request->read_arg, out, size * n);
        t->read_failed = got < 0;
        return got < 0 ? CURL_READFUNC_ABORT : (size_t)got;
    }
    memcpy(out, (const char *)request->body + t->sent, some);
    t->sent += some;
    return some;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *arg)
{
    struct atoll_remote_transfer *t = arg;
    long status = 0;
    int r;

    (void)curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    if (t->request.sink && status / 100 == 2) {
        r = t->request.sink(t->request.sink_arg, bytes, size * n);
        t->sink_ended = r < 0;
        return r < 0 ? 0 : r > 0 ? CURL_WRITEFUNC_PAUSE : size * n;
    }
    t->too_long = atoll_buf_append(&t->answer.body, bytes, size * n) < 0;
    return t->too_long ? 0 : size * n;
}

bool atoll_remote_take_header(const char *line, size_t n, const char *name, char *out, size_t cap)
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
    struct atoll_remote_transfer *t = arg;
    uint64_t seconds;
    char text[24];

    if (atoll_remote_take_header(line, size * n, "retry-after", text, sizeof(text)) &&
        atoll_text_u64(text, 0, RETRY_AFTER_MAX, &seconds) == 0)
        t->answer.retry_after_s = (uint32_t)seconds;
    if (t->request.header)
        (void)atoll_remote_take_header(line, size * n, t->request.header, t->answer.header,
                                       sizeof(t->answer.header));
    if (t->request.head)
        t->request.head(t->request.head_arg, line, size * n);
    return size * n;
}

/* The body is given by a read function that cannot rewind. Otherwise libcurl would resend the
 * request when a kept connection breaks before the answer, and could create an object twice. */
static void set_body(struct atoll_remote_transfer *t)
{
    t->sent = 0;
    if (t->request.read) {
        (void)curl_easy_setopt(t->easy, CURLOPT_UPLOAD, 1L);
        if (t->request.read_len)
            (void)curl_easy_setopt(t->easy, CURLOPT_INFILESIZE_LARGE,
                                   (curl_off_t)*t->request.read_len);
    } else if (t->request.body) {
        (void)curl_easy_setopt(t->easy, CURLOPT_POST, 1L);
        (void)curl_easy_setopt(t->easy, CURLOPT_POSTFIELDSIZE_LARGE,
                               (curl_off_t)t->request.body_len);
    }
    if (t->request.read || t->request.body) {
        (void)curl_easy_setopt(t->easy, CURLOPT_READFUNCTION, on_read);
        (void)curl_easy_setopt(t->easy, CURLOPT_READDATA, t);
    }
    if (strcmp(t->request.method, "HEAD") == 0)
        (void)curl_easy_setopt(t->easy, CURLOPT_NOBODY, 1L);
    (void)curl_easy_setopt(t->easy, CURLOPT_CUSTOMREQUEST, t->request.method);
}

static curl_socket_t on_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct atoll_remote_transfer *t = arg;

    (void)purpose;
    if (t->may_connect(&address->addr))
        return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    t->kept_out = true;
    return CURL_SOCKET_BAD;
}

static void set_bounds(const struct atoll_remote_http *h, struct atoll_remote_transfer *t)
{
    t->kept_out = false;
    t->may_connect = h->config.may_connect;
    if (t->may_connect) {
        (void)curl_easy_setopt(t->easy, CURLOPT_OPENSOCKETFUNCTION, on_socket);
        (void)curl_easy_setopt(t->easy, CURLOPT_OPENSOCKETDATA, t);
    }
    if (t->request.stall_s > 0) {
        (void)curl_easy_setopt(t->easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
        (void)curl_easy_setopt(t->easy, CURLOPT_LOW_SPEED_TIME, (long)t->request.stall_s);
    }
}

void atoll_remote_transfer_prepare(const struct atoll_remote_http *h,
                                   struct atoll_remote_transfer *t)
{
    atoll_remote_answer_done(&t->answer);
    t->answer = (struct atoll_remote_answer){0};
    atoll_buf_init(&t->answer.body,
                   t->request.answer_max ? t->request.answer_max : ATOLL_REMOTE_ANSWER_MAX);
    t->sink_ended = t->too_long = t->read_failed = false;
    curl_easy_reset(t->easy);
    atoll_remote_http_aim(h, t->easy);
    (void)curl_easy_setopt(t->easy, CURLOPT_URL, t->request.url);
    (void)curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, t->request.headers);
    (void)curl_easy_setopt(t->easy, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(t->easy, CURLOPT_WRITEDATA, t);
    (void)curl_easy_setopt(t->easy, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(t->easy, CURLOPT_HEADERDATA, t);
    set_bounds(h, t);
    set_body(t);
}

void atoll_remote_answer_done(struct atoll_remote_answer *answer)
{
    atoll_buf_done(&answer->body);
}

/* Runs one transfer to its end. */
static int drive(struct atoll_remote_http *h, CURLM *multi, const struct atoll_sync_call *call,
                 const struct atoll_remote_transfer *t, struct atoll_error *err)
{
    struct curl_waitfd cancel = {.fd = call->cancel_fd, .events = CURL_WAIT_POLLIN};
    unsigned extra = call->cancel_fd >= 0 ? 1 : 0;
    CURLcode code = CURLE_FAILED_INIT;
    int running = 1, queued;
    CURLMsg *message;

    for (;;) {
        if (curl_multi_perform(multi, &running) != CURLM_OK || !running)
            break;
        if (atoll_sync_cancelled(call) || atoll_sync_left_ms(call) == 0)
            return atoll_remote_http_given_up(h, call, t->request.what, err);
        (void)curl_multi_poll(multi, extra ? &cancel : NULL, extra,
                              ATOLL_MIN(WAIT_MS, atoll_sync_left_ms(call)), NULL);
    }
    while ((message = curl_multi_info_read(multi, &queued)))
        if (message->msg == CURLMSG_DONE)
            code = message->data.result;
    return atoll_remote_transfer_result(h, t, code, err);
}

static int ask_once(struct atoll_remote_http *h, const struct atoll_sync_call *call,
                    const struct atoll_remote_request *request, struct atoll_remote_answer *ret,
                    struct atoll_error *err)
{
    struct atoll_sync_call part = *call;
    struct atoll_remote_transfer t = {.request = *request};
    struct line line;
    int r = line_take(h, call, request, &line, err);

    if (r < 0)
        return r;
    if (request->timeout_ms > 0)
        part.deadline_ms = ATOLL_MIN(part.deadline_ms, atoll_clock_ms() + request->timeout_ms);
    t.easy = line.easy;
    atoll_remote_transfer_prepare(h, &t);
    if (curl_multi_add_handle(line.multi, line.easy) != CURLM_OK)
        r = atoll_fail_errno(err, ENOMEM, "HTTP client");
    else
        r = drive(h, line.multi, &part, &t, err);
    (void)curl_easy_getinfo(line.easy, CURLINFO_RESPONSE_CODE, &t.answer.status);
    (void)curl_multi_remove_handle(line.multi, line.easy);
    line_give(h, &line, !request->slow);
    *ret = t.answer;
    return r;
}

/* Retries. */

/* Waits until that time; false if the call ends before it. */
static bool wait_until(const struct atoll_remote_http *h, const struct atoll_sync_call *call,
                       int64_t at_ms)
{
    struct pollfd pfd = {.fd = call->cancel_fd, .events = POLLIN};
    const int64_t began_ms = atoll_clock_ms();
    int64_t left_ms = at_ms - began_ms;

    if (at_ms >= call->deadline_ms)
        return false;
    while (left_ms > 0 && !atoll_sync_cancelled(call)) {
        (void)poll(&pfd, 1, (int)left_ms);
        left_ms = at_ms - atoll_clock_ms();
    }
    if (at_ms > began_ms)
        atoll_metric_note(ATOLL_METRIC_REMOTE_PAUSES, h->config.service->label,
                          (double)(atoll_clock_ms() - began_ms) / 1e3);
    return left_ms <= 0;
}

/* A pause that the service asked one request for holds for all that can wait. */
static int64_t held_until(struct atoll_remote_http *h, int64_t until_ms)
{
    int64_t held;

    (void)pthread_mutex_lock(&h->lock);
    held = h->held_until_ms = ATOLL_MAX(h->held_until_ms, until_ms);
    (void)pthread_mutex_unlock(&h->lock);
    return held;
}

int atoll_remote_http_ask(struct atoll_remote_http *h, const struct atoll_sync_call *call,
                          const struct atoll_remote_request *request,
                          struct atoll_remote_answer *ret, struct atoll_error *err)
{
    uint32_t random;
    int64_t delay;
    int r;

    *ret = (struct atoll_remote_answer){0};
    if (request->tries > 1 && !wait_until(h, call, held_until(h, 0)) && atoll_sync_cancelled(call))
        return atoll_remote_http_given_up(h, call, request->what, err);
    for (unsigned tries = 1;; tries++) {
        r = ask_once(h, call, request, ret, err);
        if (r < 0 || !atoll_remote_is_later(ret->status))
            return r;
        atoll_metric_note(ATOLL_METRIC_REMOTE_LIMITED, h->config.service->label, 1);
        atoll_rand_bytes(&random, sizeof(random));
        delay = atoll_remote_delay_ms(tries, ret->retry_after_s, random);
        if (ret->retry_after_s > 0)
            (void)held_until(h, atoll_clock_ms() + (int64_t)ret->retry_after_s * 1000);
        if (tries >= request->tries)
            return 0;
        if (!wait_until(h, call, atoll_clock_ms() + delay))
            return atoll_sync_cancelled(call)
                       ? atoll_remote_http_given_up(h, call, request->what, err)
                       : 0;
        atoll_metric_note(ATOLL_METRIC_REMOTE_RETRIES, h->config.service->label, 1);
        atoll_remote_answer_done(ret);
        *ret = (struct atoll_remote_answer){0};
    }
}

/* Headers. */

int atoll_remote_header(struct curl_slist **list, struct atoll_error *err, const char *fmt, ...)
{
    struct curl_slist *more = NULL;
    char *line = NULL;
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vasprintf(&line, fmt, ap);
    va_end(ap);
    if (n >= 0) {
        more = curl_slist_append(*list, line);
        free(line);
    }
    if (!more) {
        curl_slist_free_all(*list);
        *list = NULL;
        return atoll_fail_errno(err, ENOMEM, "headers");
    }
    *list = more;
    return 0;
}

int atoll_remote_headers(struct curl_slist **list, const struct curl_slist *more,
                         struct atoll_error *err)
{
    int r = 0;

    for (; r == 0 && more; more = more->next)
        r = atoll_remote_header(list, err, "%s", more->data);
    return r;
}

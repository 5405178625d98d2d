#include "provider/docker/http_internal.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/text.h"

/*
 * libcurl with one easy handle per connection. Each has a multi handle of its own, which can wait
 * for the transfer and for a cancellation at the same time.
 */

#define ANSWER_MAX (8 * 1024 * 1024)
#define PATH_MAX_BYTES 4096
#define CONNECT_MS 10000
#define LOOK_MS 10000 /* deadline of a GET; other requests have that of their operation */
#define KEEPALIVE_S 30L

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void init_curl(void)
{
    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
}

static char *dup_or_null(const char *text)
{
    return text && *text ? strdup(text) : NULL;
}

static int set_address(struct atoll_docker_http *h, const struct atoll_docker_http_config *c,
                       struct atoll_error *err)
{
    bool tls = h->ca || h->cert || h->key;
    int n;

    if (strncmp(c->host, "unix://", 7) == 0 && c->host[7] == '/') {
        h->socket_path = strdup(c->host + 7);
        h->base = strdup("http://docker");
        return h->socket_path && h->base ? 0 : atoll_fail_errno(err, ENOMEM, "address");
    }
    if (strncmp(c->host, "tcp://", 6) != 0 || strpbrk(c->host + 6, "/?#@ "))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "the Docker host must be unix:///PATH or tcp://HOST:PORT");
    n = asprintf(&h->base, "%s://%s", tls ? "https" : "http", c->host + 6);
    if (n < 0)
        h->base = NULL;
    return n < 0 ? atoll_fail_errno(err, ENOMEM, "address") : 0;
}

int atoll_docker_http_new(const struct atoll_docker_http_config *config,
                          struct atoll_docker_http **ret, struct atoll_error *err)
{
    struct atoll_docker_http *h = calloc(1, sizeof(*h));
    pthread_condattr_t monotonic;
    int r;

    (void)pthread_once(&once, init_curl);
    if (!h)
        return atoll_fail_errno(err, ENOMEM, "Docker client");
    h->count =
        config->connections ? ATOLL_MIN(config->connections, ATOLL_DOCKER_CONNECTIONS_MAX) : 8;
    (void)pthread_mutex_init(&h->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&h->freed, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    (void)snprintf(h->version, sizeof(h->version), ATOLL_DOCKER_API);
    h->ca = dup_or_null(config->ca);
    h->cert = dup_or_null(config->cert);
    h->key = dup_or_null(config->key);
    r = set_address(h, config, err);
    if (r < 0)
        h = atoll_docker_http_free(h);
    *ret = h;
    return r;
}

static void line_open(struct atoll_docker_line *line)
{
    if (!line->easy)
        line->easy = curl_easy_init();
    if (!line->multi)
        line->multi = curl_multi_init();
}

static void line_close(struct atoll_docker_line *line)
{
    curl_easy_cleanup(line->easy);
    (void)curl_multi_cleanup(line->multi);
}

struct atoll_docker_http *atoll_docker_http_free(struct atoll_docker_http *h)
{
    if (!h)
        return NULL;
    for (unsigned i = 0; i < h->count; i++)
        line_close(&h->lines[i]);
    (void)pthread_mutex_destroy(&h->lock);
    (void)pthread_cond_destroy(&h->freed);
    free(h->base);
    free(h->socket_path);
    free(h->ca);
    free(h->cert);
    free(h->key);
    free(h);
    return NULL;
}

void atoll_docker_http_aim(const struct atoll_docker_http *h, CURL *easy)
{
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    /* Without keepalives a stream to an engine whose host is gone would hang for ever. */
    (void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, KEEPALIVE_S);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, KEEPALIVE_S / 3);
    (void)curl_easy_setopt(easy, CURLOPT_PROXY, "");
    (void)curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    if (h->socket_path)
        (void)curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, h->socket_path);
    if (h->ca)
        (void)curl_easy_setopt(easy, CURLOPT_CAINFO, h->ca);
    if (h->cert)
        (void)curl_easy_setopt(easy, CURLOPT_SSLCERT, h->cert);
    if (h->key)
        (void)curl_easy_setopt(easy, CURLOPT_SSLKEY, h->key);
}

/* --- connections --- */

/* Waits for a free connection in short intervals, so that a cancelled call does not wait on. */
static int line_take(struct atoll_docker_http *h, const struct atoll_sync_call *call,
                     struct atoll_docker_line **ret, struct atoll_error *err)
{
    struct atoll_docker_line *line = NULL;

    (void)pthread_mutex_lock(&h->lock);
    for (;;) {
        struct timespec until;
        for (unsigned i = 0; i < h->count && !line; i++)
            if (!h->lines[i].busy)
                line = &h->lines[i];
        if (line || atoll_sync_left_ms(call) == 0 || atoll_sync_cancelled(call))
            break;
        (void)clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += 50 * 1000 * 1000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        (void)pthread_cond_timedwait(&h->freed, &h->lock, &until);
    }
    if (line)
        line->busy = true;
    (void)pthread_mutex_unlock(&h->lock);
    if (!line)
        return atoll_docker_http_broken(CURLE_OPERATION_TIMEDOUT, call, err);
    *ret = line;
    return 0;
}

static void line_give(struct atoll_docker_http *h, struct atoll_docker_line *line)
{
    if (line->is_own) {
        line_close(line);
        return;
    }
    (void)pthread_mutex_lock(&h->lock);
    line->busy = false;
    (void)pthread_cond_signal(&h->freed);
    (void)pthread_mutex_unlock(&h->lock);
}

/* --- one transfer --- */

struct transfer {
    const struct atoll_docker_ask *ask;
    CURL *easy;
    const char *text; /* the body, if it is not a stream */
    size_t sent;
    struct atoll_buf body;
    char api_version[16];
    bool sink_gave_up, too_long;
};

static size_t on_body(char *bytes, size_t size, size_t n, void *arg)
{
    struct transfer *t = arg;
    long status = 0;

    (void)curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    if (t->ask->sink && status / 100 == 2) {
        t->sink_gave_up = t->ask->sink(t->ask->sink_arg, bytes, size * n) < 0;
        return t->sink_gave_up ? 0 : size * n;
    }
    t->too_long = atoll_buf_append(&t->body, bytes, size * n) < 0;
    return t->too_long ? 0 : size * n;
}

static size_t on_header(char *bytes, size_t size, size_t n, void *arg)
{
    static const char name[] = "Api-Version:";
    struct transfer *t = arg;
    size_t len = size * n;

    if (len > sizeof(name) && strncasecmp(bytes, name, sizeof(name) - 1) == 0) {
        bytes += sizeof(name) - 1;
        len -= sizeof(name) - 1;
        while (len > 0 && *bytes == ' ')
            bytes++, len--;
        while (len > 0 && (bytes[len - 1] == '\r' || bytes[len - 1] == '\n'))
            len--;
        (void)snprintf(t->api_version, sizeof(t->api_version), "%.*s", (int)ATOLL_MIN(len, 15u),
                       bytes);
    }
    return size * n;
}

static size_t on_read(char *out, size_t size, size_t n, void *arg)
{
    const struct transfer *t = arg;
    ssize_t r = t->ask->read(t->ask->read_arg, out, size * n);
    return r < 0 ? CURL_READFUNC_ABORT : (size_t)r;
}

static size_t on_read_text(char *out, size_t size, size_t n, void *arg)
{
    struct transfer *t = arg;
    size_t some = ATOLL_MIN(size * n, strlen(t->text + t->sent));

    memcpy(out, t->text + t->sent, some);
    t->sent += some;
    return some;
}

static CURLcode run(struct atoll_docker_line *line, const struct atoll_sync_call *call)
{
    struct curl_waitfd cancel = {.fd = call->cancel_fd, .events = CURL_WAIT_POLLIN};
    CURLcode code = CURLE_OPERATION_TIMEDOUT;
    int running = 1, left;

    if (curl_multi_add_handle(line->multi, line->easy) != CURLM_OK)
        return CURLE_FAILED_INIT;
    while (curl_multi_perform(line->multi, &running) == CURLM_OK && running) {
        if (atoll_sync_left_ms(call) == 0 || atoll_sync_cancelled(call))
            break;
        (void)curl_multi_poll(line->multi, &cancel, call->cancel_fd >= 0 ? 1 : 0,
                              atoll_sync_left_ms(call), NULL);
    }
    for (CURLMsg *m; (m = curl_multi_info_read(line->multi, &left));)
        if (m->msg == CURLMSG_DONE)
            code = m->data.result;
    (void)curl_multi_remove_handle(line->multi, line->easy);
    return code;
}

/* Clears `Expect:`: the engine accepts bodies without it. */
static struct curl_slist *headers_of(const struct atoll_docker_ask *ask)
{
    struct curl_slist *list = curl_slist_append(NULL, "Expect:");

    if (ask->json)
        list = curl_slist_append(list, "Content-Type: application/json");
    else if (ask->read)
        list = curl_slist_append(list, "Content-Type: application/x-tar");
    if (ask->read)
        list = curl_slist_append(list, "Transfer-Encoding: chunked");
    if (ask->header)
        list = curl_slist_append(list, ask->header);
    return list;
}

/* The body is given by a read function that cannot rewind. Otherwise libcurl would resend the
 * request when a kept connection breaks before the answer, and could create an object twice. */
static void set_body(struct transfer *t, const char *text)
{
    t->text = text;
    t->sent = 0;
    if (t->ask->read) {
        (void)curl_easy_setopt(t->easy, CURLOPT_UPLOAD, 1L);
        (void)curl_easy_setopt(t->easy, CURLOPT_READFUNCTION, on_read);
        (void)curl_easy_setopt(t->easy, CURLOPT_READDATA, t);
    } else if (strcmp(t->ask->method, "GET") != 0) {
        (void)curl_easy_setopt(t->easy, CURLOPT_POST, 1L);
        (void)curl_easy_setopt(t->easy, CURLOPT_POSTFIELDSIZE, (long)strlen(text));
        (void)curl_easy_setopt(t->easy, CURLOPT_READFUNCTION, on_read_text);
        (void)curl_easy_setopt(t->easy, CURLOPT_READDATA, t);
    }
    (void)curl_easy_setopt(t->easy, CURLOPT_CUSTOMREQUEST, t->ask->method);
}

/* Sends one request; any HTTP status is a success. */
static int transfer(struct atoll_docker_http *h, const struct atoll_sync_call *call,
                    const char *version, const char *body, struct transfer *t, long *ret_status,
                    struct atoll_error *err)
{
    struct atoll_docker_line own = {.is_own = true}, *line = &own;
    struct atoll_sync_call bounded = *call;
    char url[PATH_MAX_BYTES];
    struct curl_slist *headers;
    CURLcode code;
    int r = t->ask->slow ? 0 : line_take(h, call, &line, err);

    if (r < 0)
        return r;
    line_open(line);
    /* Operations start with GET requests: their short deadline detects an engine that does not
     * answer. */
    if (strcmp(t->ask->method, "GET") == 0)
        bounded.deadline_ms = ATOLL_MIN(call->deadline_ms, atoll_clock_ms() + LOOK_MS);
    t->easy = line->easy;
    if ((size_t)snprintf(url, sizeof(url), "%s%s%s%s", h->base, *version ? "/v" : "", version,
                         t->ask->path) >= sizeof(url)) {
        line_give(h, line);
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG, "request is too long");
    }
    headers = headers_of(t->ask);
    curl_easy_reset(line->easy);
    atoll_docker_http_aim(h, line->easy);
    (void)curl_easy_setopt(line->easy, CURLOPT_URL, url);
    (void)curl_easy_setopt(line->easy, CURLOPT_HTTPHEADER, headers);
    (void)curl_easy_setopt(line->easy, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(line->easy, CURLOPT_WRITEDATA, t);
    (void)curl_easy_setopt(line->easy, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(line->easy, CURLOPT_HEADERDATA, t);
    set_body(t, body);
    code = run(line, &bounded);
    (void)curl_easy_getinfo(line->easy, CURLINFO_RESPONSE_CODE, ret_status);
    curl_slist_free_all(headers);
    line_give(h, line);
    if (t->too_long)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EFBIG,
                          "the Docker engine's answer is too long");
    return code == CURLE_OK || t->sink_gave_up ? 0 : atoll_docker_http_broken(code, &bounded, err);
}

int atoll_docker_http_broken(CURLcode code, const struct atoll_sync_call *call,
                             struct atoll_error *err)
{
    if (atoll_sync_cancelled(call))
        return atoll_fail(err, ATOLL_ERR_ABORTED, ECANCELED, "the request was cancelled");
    if (atoll_sync_left_ms(call) == 0)
        return atoll_fail(err, ATOLL_ERR_DEADLINE_EXCEEDED, ETIMEDOUT,
                          "the Docker engine did not answer in time");
    if (code == CURLE_SEND_FAIL_REWIND)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, ECONNRESET,
                          "the connection to the Docker engine broke");
    if (code == CURLE_ABORTED_BY_CALLBACK)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EIO, "the archive ended early");
    return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, ECONNREFUSED,
                      "the Docker engine is not available: %s", curl_easy_strerror(code));
}

static const struct {
    long status;
    enum atoll_error_kind kind;
    int errnum;
} kinds[] = {
    {400, ATOLL_ERR_INVALID_ARGUMENT, EINVAL},    {401, ATOLL_ERR_PERMISSION_DENIED, EACCES},
    {403, ATOLL_ERR_PERMISSION_DENIED, EACCES},   {404, ATOLL_ERR_NOT_FOUND, ENOENT},
    {409, ATOLL_ERR_FAILED_PRECONDITION, EEXIST}, {429, ATOLL_ERR_UNAVAILABLE, EAGAIN},
    {502, ATOLL_ERR_UNAVAILABLE, EAGAIN},         {503, ATOLL_ERR_UNAVAILABLE, EAGAIN},
    {504, ATOLL_ERR_UNAVAILABLE, EAGAIN},
};

int atoll_docker_http_refused(long status, const char *body, size_t n, struct atoll_error *err)
{
    ATOLL_DOCKER_AUTOJSON json_t *json = n > 0 ? json_loadb(body, n, 0, NULL) : NULL;
    const char *message = json_string_value(json_object_get(json, "message"));
    enum atoll_error_kind kind = ATOLL_ERR_INTERNAL;
    int errnum = EIO;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(kinds); i++)
        if (kinds[i].status == status) {
            kind = kinds[i].kind;
            errnum = kinds[i].errnum;
        }
    return atoll_fail(err, kind, errnum, "Docker: %.300s", message ? message : "no reason given");
}

/* --- versions --- */

/* "1.41" as 1041; 0 if malformed. */
static unsigned version_number(const char *text)
{
    unsigned major, minor;
    return sscanf(text, "%3u.%3u", &major, &minor) == 2 ? major * 1000 + minor : 0;
}

int atoll_docker_http_version(struct atoll_docker_http *h, const struct atoll_sync_call *call,
                              char version[16], struct atoll_error *err)
{
    struct atoll_docker_ask ask = {.method = "GET", .path = "/_ping"};
    struct transfer t = {.ask = &ask};
    bool known;
    long status = 0;
    int r;

    (void)pthread_mutex_lock(&h->lock);
    known = h->negotiated;
    memcpy(version, h->version, sizeof(h->version));
    (void)pthread_mutex_unlock(&h->lock);
    if (known)
        return 0;
    atoll_buf_init(&t.body, ANSWER_MAX);
    r = transfer(h, call, "", "", &t, &status, err);
    if (r == 0 && status != 200)
        r = atoll_docker_http_refused(status, (const char *)atoll_buf_head(&t.body),
                                      atoll_buf_size(&t.body), err);
    if (r == 0 && version_number(t.api_version) < version_number(ATOLL_DOCKER_API))
        r = atoll_fail(err, ATOLL_ERR_UNIMPLEMENTED, EPROTO,
                       "this Docker engine is too old: it speaks API %s, " ATOLL_DOCKER_API
                       " (Engine 20.10) is needed",
                       *t.api_version ? t.api_version : "of unknown version");
    atoll_buf_done(&t.body);
    if (r < 0)
        return r;
    (void)pthread_mutex_lock(&h->lock);
    h->negotiated = true;
    (void)pthread_mutex_unlock(&h->lock);
    return 0;
}

/* Newer engines have dropped old API versions, and name the oldest they accept. */
static bool take_newer(struct atoll_docker_http *h, struct atoll_buf *body, char version[16])
{
    static const char words[] = "Minimum supported API version is ";
    const char *at = strstr(atoll_buf_str(body), words);
    unsigned major, minor;

    if (!at || sscanf(at + sizeof(words) - 1, "%3u.%3u", &major, &minor) != 2 ||
        major * 1000 + minor <= version_number(version))
        return false;
    (void)snprintf(version, 16, "%u.%u", major, minor);
    (void)pthread_mutex_lock(&h->lock);
    memcpy(h->version, version, sizeof(h->version));
    (void)pthread_mutex_unlock(&h->lock);
    return true;
}

static int converse(struct atoll_docker_http *h, const struct atoll_sync_call *call,
                    const char *body, struct transfer *t, json_t **ret_json,
                    struct atoll_error *err)
{
    char version[16];
    long status = 0;
    int r = atoll_docker_http_version(h, call, version, err);

    if (r == 0)
        r = transfer(h, call, version, body, t, &status, err);
    if (r == 0 && status == 400 && !t->ask->read && take_newer(h, &t->body, version)) {
        atoll_buf_clear(&t->body);
        r = transfer(h, call, version, body, t, &status, err);
    }
    if (r < 0)
        return r;
    if (status / 100 != 2 && status != 304)
        return atoll_docker_http_refused(status, (const char *)atoll_buf_head(&t->body),
                                         atoll_buf_size(&t->body), err);
    if (ret_json)
        *ret_json = atoll_buf_size(&t->body) > 0
                        ? json_loadb((const char *)atoll_buf_head(&t->body),
                                     atoll_buf_size(&t->body), 0, NULL)
                        : NULL;
    return (int)status;
}

int atoll_docker_http_ask(struct atoll_docker_http *h, const struct atoll_sync_call *call,
                          const struct atoll_docker_ask *ask, json_t **ret_json,
                          struct atoll_error *err)
{
    ATOLL_DOCKER_AUTOJSON json_t *json = ask->json;
    ATOLL_AUTOFREE char *body = json ? json_dumps(json, JSON_COMPACT) : strdup("");
    struct transfer t = {.ask = ask};
    int r;

    if (!body)
        return atoll_fail_errno(err, ENOMEM, "request");
    atoll_buf_init(&t.body, ANSWER_MAX);
    r = converse(h, call, body, &t, ret_json, err);
    atoll_buf_done(&t.body);
    return r;
}

int atoll_docker_http_askf(struct atoll_docker_http *h, const struct atoll_sync_call *call,
                           json_t **ret_json, struct atoll_error *err, const char *method,
                           const char *path, ...)
{
    ATOLL_AUTOFREE char *text = NULL;
    struct atoll_docker_ask ask = {.method = method};
    va_list args;
    int n;

    va_start(args, path);
    n = vasprintf(&text, path, args);
    va_end(args);
    if (n < 0) {
        text = NULL;
        return atoll_fail_errno(err, ENOMEM, "request");
    }
    ask.path = text;
    return atoll_docker_http_ask(h, call, &ask, ret_json, err);
}

char *atoll_docker_escape(const char *text)
{
    char *escaped = curl_easy_escape(NULL, text, 0);
    char *copy = escaped ? strdup(escaped) : NULL;

    curl_free(escaped);
    return copy;
}

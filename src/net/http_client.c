/*
 * One request at a time: sends head and body while watching for an early reply, then reads the reply.
 * The socket is non-blocking; every wait is atoll_http_client_wait(), which applies the timeout.
 */
#include "net/http_client.h"

#include <errno.h>
#include <llhttp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/uio.h>
#include "net/http_client_internal.h"

#define HEAD_MAX ((size_t)64 * 1024)

/* A request being made. */
struct exchange {
    struct atoll_http_client *client;
    const struct atoll_http_transfer *transfer; /* may be NULL */
    struct atoll_http_reply reply;
    llhttp_t parser;
    bool is_head;
    bool head_done; /* of the final reply, not a 1xx */
    bool done;
    bool keep_alive;
    bool body_sent;
    int failure; /* -errno that a parser callback set, together with *err */
    struct atoll_error *err;
    size_t rest_at, rest; /* bytes in client->in after the reply */
};

/* Parser callbacks. */

static int fail_exchange(struct exchange *x, int r)
{
    x->failure = r;
    return HPE_USER;
}

static int append_head(struct exchange *x, const char *at, size_t n)
{
    if (atoll_buf_append(&x->reply.head, at, n) < 0)
        return fail_exchange(x, atoll_fail(x->err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOBUFS,
                                           "the head of the server's reply is too large"));
    return 0;
}

static int on_text(llhttp_t *p, const char *at, size_t n)
{
    return append_head(p->data, at, n);
}

static int on_text_complete(llhttp_t *p)
{
    return append_head(p->data, "", 1);
}

static int on_headers_complete(llhttp_t *p)
{
    struct exchange *x = p->data;

    x->reply.status = p->status_code;
    x->head_done = p->status_code >= 200 || p->status_code == 101;
    return x->is_head ? 1 : 0;
}

static int on_body(llhttp_t *p, const char *at, size_t n)
{
    struct exchange *x = p->data;
    const struct atoll_http_transfer *t = x->transfer;
    int r;

    if (t && t->write && x->reply.status / 100 == 2) {
        r = t->write(t->arg, at, n);
        if (r < 0)
            return fail_exchange(x, atoll_fail(x->err, ATOLL_ERR_CANCELED, -r,
                                               "cannot store the reply: %s", strerror(-r)));
        return 0;
    }
    if (atoll_buf_append(&x->reply.body, at, n) < 0)
        return fail_exchange(x, atoll_fail(x->err, ATOLL_ERR_RESOURCE_EXHAUSTED, EFBIG,
                                           "the server's reply is larger than %zu bytes",
                                           x->reply.body.max));
    return 0;
}

static int on_message_complete(llhttp_t *p)
{
    struct exchange *x = p->data;

    if (!x->head_done) { /* a 1xx: the real reply follows */
        atoll_buf_clear(&x->reply.head);
        return 0;
    }
    x->done = true;
    x->keep_alive = llhttp_should_keep_alive(p);
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_header_field = on_text,
    .on_header_field_complete = on_text_complete,
    .on_header_value = on_text,
    .on_header_value_complete = on_text_complete,
    .on_headers_complete = on_headers_complete,
    .on_body = on_body,
    .on_message_complete = on_message_complete,
};

/* Receiving. */

static int not_http(struct exchange *x)
{
    return atoll_fail(x->err, ATOLL_ERR_DATA_LOSS, EBADMSG,
                      "the server at %.200s does not speak HTTP (%s)", x->client->where,
                      llhttp_get_error_reason(&x->parser));
}

static int parse(struct exchange *x, size_t n)
{
    const char *in = (const char *)x->client->in;
    llhttp_errno_t e = llhttp_execute(&x->parser, in, n);

    if (x->failure < 0)
        return x->failure;
    if (x->done) {
        x->rest_at = (size_t)(llhttp_get_error_pos(&x->parser) - in);
        x->rest = n - x->rest_at;
        return 0;
    }
    return e == HPE_OK ? 0 : not_http(x);
}

/* One recv without waiting. Returns 1 if there may be more. */
static int receive_some(struct exchange *x)
{
    ssize_t n = atoll_http_line_recv(&x->client->line, x->client->in, CLIENT_READ_BYTES);
    int r;

    if (n == -EAGAIN)
        return 0;
    if (n < 0)
        return atoll_http_client_lost(x->client, (int)-n, x->err);
    if (n == 0) {
        /* Only the body of an HTTP/1.0 reply may end with the connection. */
        if (x->head_done && llhttp_finish(&x->parser) == HPE_OK && x->done)
            return 0;
        return x->failure < 0 ? x->failure : atoll_http_client_lost(x->client, EPIPE, x->err);
    }
    r = parse(x, (size_t)n);
    return r < 0 ? r : 1;
}

/* Receives before it waits: poll() does not see bytes that TLS has already buffered. */
static int receive_reply(struct exchange *x)
{
    const struct atoll_http_client *client = x->client;

    while (!x->done) {
        int r = receive_some(x);
        if (r == 0 && !x->done)
            r = atoll_http_client_wait(client->line.fd, atoll_http_line_events(&client->line),
                                       client->timeout_ms, x->err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Sending. */

static void advance(struct iovec **iov, int *count, size_t n)
{
    while (*count > 0 && n >= (*iov)->iov_len) {
        n -= (*iov)->iov_len;
        (*iov)++;
        (*count)--;
    }
    if (*count > 0) {
        (*iov)->iov_base = (uint8_t *)(*iov)->iov_base + n;
        (*iov)->iov_len -= n;
    }
}

/* The socket buffer is full, or (broken) sending has failed: reads the server's reply meanwhile. */
static int wait_to_send(struct exchange *x, bool broken)
{
    short events = (short)(broken ? POLLIN : POLLIN | POLLOUT);
    int r = atoll_http_client_wait(x->client->line.fd, events, x->client->timeout_ms, x->err);

    if (r >= 0 && r & (POLLIN | POLLHUP | POLLERR))
        r = receive_some(x);
    return ATOLL_MIN(r, 0);
}

/* Sends all bytes, or returns 0 early if the final reply has begun. */
static int send_all(struct exchange *x, struct iovec *iov, int count)
{
    bool broken = false;

    advance(&iov, &count, 0);
    while (count > 0 && !x->head_done) {
        ssize_t n = broken ? -EPIPE : atoll_http_line_sendv(&x->client->line, iov, count);
        int r;
        if (n >= 0) {
            advance(&iov, &count, (size_t)n);
            continue;
        }
        broken = broken || n != -EAGAIN; /* the server may have replied before it closed */
        r = wait_to_send(x, broken);
        if (r < 0)
            return r;
    }
    x->body_sent = x->body_sent && count == 0;
    return 0;
}

/* Reads a reply that comes before the body is sent. Called before each piece: if the server replies and
 * closes, sending fails, and after a failed send TLS receives nothing more. */
static int hear_early(struct exchange *x)
{
    struct pollfd p = {.fd = x->client->line.fd, .events = POLLIN};
    int r = poll(&p, 1, 0) > 0 ? receive_some(x) : 0;
    return ATOLL_MIN(r, 0);
}

/* Sends the request body from transfer->read, chunked or with known length. */
static int send_transfer(struct exchange *x)
{
    const struct atoll_http_transfer *t = x->transfer;
    ATOLL_AUTOFREE uint8_t *piece = malloc(CLIENT_READ_BYTES);
    bool chunked = t->length < 0;
    uint64_t left = chunked ? UINT64_MAX : (uint64_t)t->length;
    char size[24];

    if (!piece)
        return atoll_fail_errno(x->err, ENOMEM, "request body");
    while (left > 0 && !x->head_done) {
        ssize_t n = t->read(t->arg, piece, ATOLL_MIN(left, (uint64_t)CLIENT_READ_BYTES));
        struct iovec iov[3] = {{size, 0}, {piece, 0}, {(void *)"\r\n", chunked ? 2 : 0}};
        int r;
        if (n < 0 || (n == 0 && !chunked))
            return atoll_fail(x->err, ATOLL_ERR_CANCELED, n < 0 ? (int)-n : EPIPE,
                              "cannot read the request body: %s",
                              n < 0 ? strerror((int)-n) : "it ended too early");
        if (chunked)
            iov[0].iov_len = (size_t)snprintf(size, sizeof(size), "%zx\r\n", (size_t)n);
        iov[1].iov_len = (size_t)n;
        r = hear_early(x);
        if (r == 0)
            r = send_all(x, iov, 3);
        if (r < 0)
            return r;
        if (n == 0)
            return 0;
        left -= chunked ? 0 : (uint64_t)n;
    }
    x->body_sent = x->body_sent && left == 0;
    return 0;
}

/* The request head. */

static bool is_clean(const char *text, unsigned char lowest)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        if (*p < lowest || *p == 0x7f)
            return false;
    return true;
}

static int append_fields(struct atoll_buf *head, const struct atoll_http_field *f)
{
    int r = 0;

    for (; f && f->name && r == 0; f++)
        r = is_clean(f->name, '!') && is_clean(f->value, ' ')
                ? atoll_buf_appendf(head, "%s: %s\r\n", f->name, f->value)
                : -EINVAL;
    return r;
}

static int make_head(struct exchange *x, const char *method, const char *target,
                     const struct atoll_http_field *headers, const struct atoll_http_field *own,
                     int64_t length, struct atoll_buf *head)
{
    int r = -EINVAL;

    if (is_clean(target, '!') && *target == '/' && is_clean(method, '!'))
        r = atoll_buf_appendf(head, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, target,
                              x->client->host);
    if (r == 0)
        r = append_fields(head, headers);
    if (r == 0)
        r = append_fields(head, own);
    if (r == 0 && x->transfer && x->transfer->accept)
        r = atoll_buf_appendf(head, "Accept: %s\r\n", x->transfer->accept);
    if (r == 0 && length < 0)
        r = atoll_buf_appends(head, "Transfer-Encoding: chunked\r\n");
    else if (r == 0 && (length > 0 || strcmp(method, "GET") != 0))
        r = atoll_buf_appendf(head, "Content-Length: %lld\r\n", (long long)length);
    if (r == 0)
        r = atoll_buf_appends(head, "\r\n");
    if (r < 0)
        return atoll_fail(x->err, ATOLL_ERR_INVALID_ARGUMENT, -r,
                          "the request has a header or target that HTTP does not allow");
    return 0;
}

static int run(struct exchange *x, struct atoll_buf *head, const void *body, size_t n)
{
    struct iovec iov[2] = {{(void *)atoll_buf_head(head), atoll_buf_size(head)}, {(void *)body, n}};
    int r = atoll_http_client_connect(x->client, x->err);

    if (r == 0)
        r = send_all(x, iov, n > 0 ? 2 : 1);
    if (r == 0 && x->transfer && x->transfer->read)
        r = send_transfer(x);
    if (r == 0)
        r = receive_reply(x);
    return r;
}

static int exchange(struct atoll_http_client *client, const char *method, const char *target,
                    const struct atoll_http_field *headers, const struct atoll_http_field *own,
                    const struct atoll_http_transfer *transfer, const void *body, size_t n,
                    size_t max_reply, struct exchange *x, struct atoll_error *err)
{
    struct atoll_buf head;
    int64_t length = transfer && transfer->read ? transfer->length : (int64_t)n;
    int r;

    *x = (struct exchange){
        .client = client,
        .transfer = transfer,
        .is_head = strcmp(method, "HEAD") == 0,
        .body_sent = true,
        .err = err,
    };
    atoll_buf_init(&x->reply.head, HEAD_MAX);
    atoll_buf_init(&x->reply.body, max_reply);
    llhttp_init(&x->parser, HTTP_RESPONSE, &settings);
    x->parser.data = x;
    atoll_buf_init(&head, HEAD_MAX);
    r = make_head(x, method, target, headers, own, length, &head);
    if (r == 0)
        r = run(x, &head, body, n);
    atoll_buf_done(&head);
    if (r < 0)
        atoll_http_reply_done(&x->reply);
    return r;
}

/* Keeps the connection only if request and reply are complete and no further bytes arrived. */
static int conclude(struct exchange *x, int r, struct atoll_http_reply *reply)
{
    if (r < 0 || !x->keep_alive || !x->body_sent || x->rest > 0)
        atoll_http_client_disconnect(x->client);
    if (r == 0)
        *reply = x->reply;
    return r;
}

int atoll_http_client_request(struct atoll_http_client *client, const char *method,
                              const char *target, const struct atoll_http_field *headers,
                              const void *body, size_t n, size_t max_reply,
                              struct atoll_http_reply *reply, struct atoll_error *err)
{
    struct exchange x;
    int r = exchange(client, method, target, headers, NULL, NULL, body, n, max_reply, &x, err);
    return conclude(&x, r, reply);
}

int atoll_http_client_stream(struct atoll_http_client *client, const char *method,
                             const char *target, const struct atoll_http_field *headers,
                             const struct atoll_http_transfer *transfer, size_t max_reply,
                             struct atoll_http_reply *reply, struct atoll_error *err)
{
    struct exchange x;
    int r = exchange(client, method, target, headers, NULL, transfer, NULL, 0, max_reply, &x, err);
    return conclude(&x, r, reply);
}

int atoll_http_client_upgrade(struct atoll_http_client *client, const char *target,
                              const struct atoll_http_field *headers,
                              const struct atoll_http_field *own, struct atoll_http_reply *reply,
                              size_t *ret_at, size_t *ret_rest, struct atoll_error *err)
{
    struct exchange x;
    int r = exchange(client, "GET", target, headers, own, NULL, NULL, 0, HEAD_MAX, &x, err);

    if (r == 0 && x.reply.status == 101) {
        *reply = x.reply;
        *ret_at = x.rest_at;
        *ret_rest = x.rest;
        return 0;
    }
    return conclude(&x, r, reply);
}

const char *atoll_http_reply_header(const struct atoll_http_reply *reply, const char *name)
{
    const char *head = (const char *)reply->head.data; /* NULL for a reply without headers */

    for (size_t at = 0; at < reply->head.len;) {
        const char *value = head + at + strlen(head + at) + 1;
        if (strcasecmp(head + at, name) == 0)
            return value;
        at = (size_t)(value - head) + strlen(value) + 1;
    }
    return NULL;
}

void atoll_http_reply_done(struct atoll_http_reply *reply)
{
    atoll_buf_done(&reply->head);
    atoll_buf_done(&reply->body);
}

/* The client. */

static const struct {
    const char *prefix;
    bool is_tls;
    const char *port;
} schemes[] = {{"http://", false, "80"}, {"https://", true, "443"}};

static int set_unix(struct atoll_http_client *c, const char *path, struct atoll_error *err)
{
    c->unix_path = strdup(path);
    c->host = "atoll";
    return c->unix_path ? 0 : atoll_fail_errno(err, ENOMEM, "http client");
}

static int set_host(struct atoll_http_client *c, const char *host, const char *port,
                    struct atoll_error *err)
{
    int n = (int)strcspn(host, "/");
    const char *colon = memrchr(host, ':', (size_t)n);
    bool has_port = colon && !memchr(colon, ']', (size_t)(host + n - colon));

    if (asprintf(&c->host_port, "%.*s%s%s", n, host, has_port ? "" : ":", has_port ? "" : port) <
        0) {
        c->host_port = NULL;
        return atoll_fail_errno(err, ENOMEM, "http client");
    }
    c->host = c->host_port;
    return 0;
}

static int set_address(struct atoll_http_client *c, const char *where, struct atoll_error *err)
{
    static const char unix_prefix[] = "unix:";

    if (strncmp(where, unix_prefix, sizeof(unix_prefix) - 1) == 0)
        return set_unix(c, where + sizeof(unix_prefix) - 1, err);
    if (strchr(where, '/') && !strstr(where, "://"))
        return set_unix(c, where, err);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(schemes); i++) {
        size_t n = strlen(schemes[i].prefix);
        if (strncmp(where, schemes[i].prefix, n) == 0) {
            c->is_tls = schemes[i].is_tls;
            return set_host(c, where + n, schemes[i].port, err);
        }
    }
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                      "\"%.200s\" is not an address of atolld; use the path of its socket, "
                      "http://HOST:PORT or https://HOST:PORT",
                      where);
}

int atoll_http_client_open(const char *where, struct atoll_http_client **ret_client,
                           struct atoll_error *err)
{
    struct atoll_http_client *c = calloc(1, sizeof(*c));
    int r;

    if (!c)
        return atoll_fail_errno(err, ENOMEM, "http client");
    c->line.fd = ATOLL_NO_FD;
    c->timeout_ms = 60 * 1000;
    c->where = strdup(where);
    c->in = malloc(CLIENT_READ_BYTES);
    r = c->where && c->in ? set_address(c, where, err)
                          : atoll_fail_errno(err, ENOMEM, "http client");
    if (r < 0) {
        (void)atoll_http_client_close(c);
        return r;
    }
    *ret_client = c;
    return 0;
}

struct atoll_http_client *atoll_http_client_close(struct atoll_http_client *c)
{
    if (c) {
        atoll_http_client_disconnect(c);
        free(c->where);
        free(c->unix_path);
        free(c->host_port);
        free(c->ca_file);
        (void)atoll_tls_free(c->tls);
        free(c->in);
        free(c);
    }
    return NULL;
}

void atoll_http_client_set_timeout(struct atoll_http_client *c, int timeout_ms)
{
    c->timeout_ms = timeout_ms;
}

int atoll_http_client_set_trust(struct atoll_http_client *c, const char *ca_file, bool insecure,
                                struct atoll_error *err)
{
    char *copy = ca_file && *ca_file ? strdup(ca_file) : NULL;

    if (ca_file && *ca_file && !copy)
        return atoll_fail_errno(err, ENOMEM, "http client");
    atoll_http_client_disconnect(c);
    c->tls = atoll_tls_free(c->tls);
    free(c->ca_file);
    c->ca_file = copy;
    c->insecure = insecure;
    return 0;
}

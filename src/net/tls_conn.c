/*
 * OpenSSL reads and writes the socket through our own BIO: its socket BIO uses write(2), which raises
 * SIGPIPE, and blocks on a blocking socket.
 * Read-ahead is enabled: one recv gets several records. Reading continues until OpenSSL has no more data
 * or the caller's buffer is full; in the second case data stays in OpenSSL (see ops.buffers).
 */
#include "net/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include "net/tls_internal.h"

#define RECORD_BYTES (16 * 1024)
#define READ_AHEAD_BYTES (32 * 1024)
#define SEND_BYTES ((size_t)256 * 1024) /* most bytes encrypted per call, for fairness */

/* The BIO. */

static int bio_result(BIO *bio, ssize_t r)
{
    BIO_clear_retry_flags(bio);
    return r < 0 ? -1 : (int)r;
}

static int bio_read(BIO *bio, char *buf, int n)
{
    const struct atoll_tls_conn *c = BIO_get_data(bio);
    ssize_t r = recv(c->fd, buf, (size_t)n, MSG_DONTWAIT);
    int result = bio_result(bio, r);

    if (r < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_read(bio);
    return result;
}

static int bio_write(BIO *bio, const char *buf, int n)
{
    const struct atoll_tls_conn *c = BIO_get_data(bio);
    ssize_t r = send(c->fd, buf, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
    int result = bio_result(bio, r);

    if (r < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_write(bio);
    return result;
}

static long bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH ? 1 : 0;
}

/* Created once and never freed: connections outlive their context, and a BIO refers to its method until
 * the end. Several threads may create it at the same time; the first one that stores it wins. */
static const BIO_METHOD *bio_method(void)
{
    static BIO_METHOD *_Atomic method;
    BIO_METHOD *m = atomic_load(&method), *none = NULL;

    if (m)
        return m;
    m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "atoll stream");
    if (m && BIO_meth_set_read(m, bio_read) && BIO_meth_set_write(m, bio_write) &&
        BIO_meth_set_ctrl(m, bio_ctrl) && atomic_compare_exchange_strong(&method, &none, m))
        return m;
    BIO_meth_free(m);
    return none;
}

/* Contexts: settings of both sides. */

int atoll_tls_configure(SSL_CTX *ctx)
{
    /* For TLS 1.2 only ciphers that RFC 9113 appendix A does not prohibit. */
    if (!SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) ||
        !SSL_CTX_set_cipher_list(ctx, "ECDHE+AESGCM:ECDHE+CHACHA20"))
        return -EIO;
    (void)SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    /* A write that returned -EAGAIN is repeated from the queue, which may have moved and grown. */
    (void)SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE |
                                    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    /* Sessions are resumed with tickets, which need no memory on the server. */
    (void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_read_ahead(ctx, 1);
    SSL_CTX_set_default_read_buffer_len(ctx, READ_AHEAD_BYTES);
    return 0;
}

struct atoll_tls *atoll_tls_free(struct atoll_tls *tls)
{
    if (tls) {
        SSL_CTX_free(tls->ctx);
        free(tls);
    }
    return NULL;
}

/* Connections. */

static void conn_free(void *transport)
{
    struct atoll_tls_conn *c = transport;

    SSL_free(c->ssl);
    free(c);
}

int atoll_tls_conn_new(struct atoll_tls *tls, int fd, struct atoll_tls_conn **ret_conn)
{
    struct atoll_tls_conn *c = calloc(1, sizeof(*c));
    const BIO_METHOD *method = bio_method();
    SSL *ssl = c ? SSL_new(tls->ctx) : NULL;
    BIO *bio = ssl && method ? BIO_new(method) : NULL;

    if (!bio) {
        SSL_free(ssl);
        free(c);
        return -ENOMEM;
    }
    c->ssl = ssl;
    c->fd = fd;
    BIO_set_data(bio, c);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio);
    *ret_conn = c;
    return 0;
}

/* Answers a client that sent plain HTTP to the TLS port, in plain HTTP. */
static void answer_plain_http(const struct atoll_tls_conn *c)
{
    static const char answer[] =
        "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: application/json\r\n\r\n"
        "{\"error\":{\"code\":\"invalid_argument\",\"message\":\"this port speaks TLS: use "
        "https:// instead of http://\"}}\n";

    (void)!send(c->fd, answer, sizeof(answer) - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Translates a failed OpenSSL call: -EAGAIN, 0 for an orderly end, or -errno. */
static ssize_t explain(struct atoll_tls_conn *c, int r)
{
    switch (SSL_get_error(c->ssl, r)) {
    case SSL_ERROR_WANT_READ:
        return -EAGAIN;
    case SSL_ERROR_WANT_WRITE:
        c->wants_out = true;
        return -EAGAIN;
    case SSL_ERROR_ZERO_RETURN:
        return 0;
    default:
        if (ERR_GET_REASON(ERR_peek_error()) == SSL_R_HTTP_REQUEST)
            answer_plain_http(c);
        c->broken = true;
        ERR_clear_error();
        return -ECONNRESET;
    }
}

int atoll_tls_handshake(struct atoll_tls_conn *c)
{
    ssize_t e;
    int r;

    c->wants_out = false;
    ERR_clear_error();
    r = SSL_do_handshake(c->ssl);
    if (r == 1)
        return 0;
    e = explain(c, r);
    return e == 0 ? -ECONNRESET : (int)e;
}

static ssize_t tls_recv(void *transport, int fd, void *buf, size_t n)
{
    struct atoll_tls_conn *c = transport;
    size_t got = 0;

    (void)fd;
    if (c->deaf)
        return -ECONNRESET;
    c->wants_out = false;
    while (got < n) {
        size_t part;
        int r;
        ERR_clear_error();
        r = SSL_read_ex(c->ssl, (uint8_t *)buf + got, n - got, &part);
        /* Return the bytes first; the next call reports the end or the error again. */
        if (r <= 0 && got > 0)
            break;
        if (r <= 0) {
            ssize_t e = explain(c, r);
            c->deaf = e < 0 && e != -EAGAIN;
            return e;
        }
        got += part;
        if (!SSL_has_pending(c->ssl))
            break;
    }
    return (ssize_t)got;
}

/* Copies small pieces into one record. */
static size_t gather(const struct iovec *iov, int count, size_t skip, uint8_t *record)
{
    size_t n = 0;

    for (int i = 0; i < count && n < RECORD_BYTES; i++) {
        size_t cut = ATOLL_MIN(skip, iov[i].iov_len);
        size_t part = ATOLL_MIN(iov[i].iov_len - cut, RECORD_BYTES - n);
        skip -= cut;
        if (part > 0)
            memcpy(record + n, (const uint8_t *)iov[i].iov_base + cut, part);
        n += part;
    }
    return n;
}

static ssize_t tls_sendv(void *transport, int fd, const struct iovec *iov, int count)
{
    static _Thread_local uint8_t record[RECORD_BYTES];
    struct atoll_tls_conn *c = transport;
    size_t sent = 0;

    (void)fd;
    if (c->broken)
        return -EPIPE;
    while (sent < SEND_BYTES) {
        const uint8_t *bytes = record;
        size_t part, n;
        int r;
        if (count == 1) {
            bytes = (const uint8_t *)iov->iov_base + sent;
            n = ATOLL_MIN(iov->iov_len - sent, (size_t)RECORD_BYTES);
        } else {
            n = gather(iov, count, sent, record);
        }
        if (n == 0)
            break;
        ERR_clear_error();
        r = SSL_write_ex(c->ssl, bytes, n, &part);
        if (r <= 0 && sent == 0) {
            ssize_t e = explain(c, r);
            c->wants_out = false; /* the stream itself waits until the socket is writable */
            return e == 0 ? -EPIPE : e;
        }
        if (r <= 0)
            break;
        sent += part;
    }
    return (ssize_t)sent;
}

static int tls_shutdown(void *transport, int fd)
{
    struct atoll_tls_conn *c = transport;

    /* Best effort: without room for close_notify the connection just ends. */
    if (!c->broken && SSL_is_init_finished(c->ssl)) {
        ERR_clear_error();
        (void)SSL_shutdown(c->ssl);
        ERR_clear_error();
    }
    return shutdown(fd, SHUT_WR) < 0 ? -errno : 0;
}

static bool tls_wants_out(void *transport)
{
    const struct atoll_tls_conn *c = transport;
    return c->wants_out;
}

const struct atoll_stream_ops atoll_tls_ops = {
    .recv = tls_recv,
    .sendv = tls_sendv,
    .shutdown = tls_shutdown,
    .wants_out = tls_wants_out,
    .free = conn_free,
    .buffers = true,
};

bool atoll_tls_is_ready(const struct atoll_tls_conn *c)
{
    return SSL_is_init_finished(c->ssl);
}

bool atoll_tls_is_h2(const struct atoll_tls_conn *c)
{
    const unsigned char *name;
    unsigned n;

    SSL_get0_alpn_selected(c->ssl, &name, &n);
    return n == 2 && memcmp(name, "h2", 2) == 0;
}

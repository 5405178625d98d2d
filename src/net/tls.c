/*
 * OpenSSL sits between the stream and the socket through a BIO of our own: its socket BIO uses
 * write(2), which raises SIGPIPE, and blocks on a blocking socket.
 * Reading ahead is on: one recv fetches several records. What OpenSSL then holds is handed out
 * until it is empty or the caller's buffer is full; the latter is what ops.buffers is about.
 */
#include "net/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/socket.h>
#include "net/tls_cert.h"

#define RECORD_BYTES (16 * 1024)
#define READ_AHEAD_BYTES (32 * 1024)
#define SEND_BYTES ((size_t)256 * 1024) /* encrypted per call: others get their turn */

struct atoll_tls {
    SSL_CTX *ctx; /* owned */
};

struct atoll_tls_conn {
    SSL *ssl; /* owned */
    int fd;   /* borrowed */
    bool wants_out;
    bool broken; /* OpenSSL allows no further call, not even a farewell */
};

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

/* Made once and kept: connections outlive their context, and a BIO refers to it to the last. */
static const BIO_METHOD *bio_method(void)
{
    static BIO_METHOD *method;
    BIO_METHOD *m = method;

    if (m)
        return m;
    m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "atoll stream");
    if (m && BIO_meth_set_read(m, bio_read) && BIO_meth_set_write(m, bio_write) &&
        BIO_meth_set_ctrl(m, bio_ctrl))
        return method = m;
    BIO_meth_free(m);
    return NULL;
}

/* The context. */

/* Ours in our order. A client that names only other protocols is refused, as RFC 7301 asks: what it
 * would send next is not HTTP. */
static int select_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                           const unsigned char *in, unsigned in_len, void *arg)
{
    static const unsigned char ours[] = "\x02h2\x08http/1.1";
    unsigned char *chosen;

    (void)ssl;
    (void)arg;
    if (SSL_select_next_proto(&chosen, out_len, ours, sizeof(ours) - 1, in, in_len) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static int configure(SSL_CTX *ctx)
{
    static const unsigned char id[] = "atoll";

    /* With 1.2, only what RFC 9113 appendix A leaves over. */
    if (!SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) ||
        !SSL_CTX_set_cipher_list(ctx, "ECDHE+AESGCM:ECDHE+CHACHA20") ||
        !SSL_CTX_set_session_id_context(ctx, id, sizeof(id) - 1) ||
        !SSL_CTX_set_num_tickets(ctx, 1))
        return -EIO;
    (void)SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    /* A write that has to wait is repeated from the stream's queue, with more behind it. */
    (void)SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE |
                                    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    /* Sessions are resumed by tickets, which cost us no memory. */
    (void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_read_ahead(ctx, 1);
    SSL_CTX_set_default_read_buffer_len(ctx, READ_AHEAD_BYTES);
    SSL_CTX_set_alpn_select_cb(ctx, select_protocol, NULL);
    return 0;
}

int atoll_tls_new(const struct atoll_tls_config *config, struct atoll_tls **ret_tls,
                  struct atoll_error *err)
{
    struct atoll_tls *tls;
    int r;

    if (!config->cert_file != !config->key_file)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "a TLS certificate and its key go together; give both or neither");
    tls = calloc(1, sizeof(*tls));
    if (!tls)
        return atoll_fail_errno(err, ENOMEM, "TLS");
    tls->ctx = SSL_CTX_new(TLS_server_method());
    if (!tls->ctx || !bio_method() || configure(tls->ctx) < 0)
        r = atoll_fail(err, ATOLL_ERR_INTERNAL, EIO, "OpenSSL cannot be set up for TLS");
    else if (config->cert_file)
        r = atoll_tls_cert_given(tls->ctx, config->cert_file, config->key_file, err);
    else
        r = atoll_tls_cert_own(tls->ctx, config->state_fd, err);
    if (r < 0)
        (void)atoll_tls_free(tls);
    else
        *ret_tls = tls;
    return r;
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

int atoll_tls_accept(struct atoll_tls *tls, int fd, struct atoll_tls_conn **ret_conn)
{
    struct atoll_tls_conn *c = calloc(1, sizeof(*c));
    SSL *ssl = c ? SSL_new(tls->ctx) : NULL;
    BIO *bio = ssl ? BIO_new(bio_method()) : NULL;

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
    SSL_set_accept_state(ssl);
    *ret_conn = c;
    return 0;
}

/* Someone speaks plain HTTP to us: the one answer it understands. */
static void answer_plain_http(const struct atoll_tls_conn *c)
{
    static const char answer[] =
        "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: application/json\r\n\r\n"
        "{\"error\":{\"code\":\"invalid_argument\",\"message\":\"this port speaks TLS\","
        "\"hint\":\"use https:// instead of http://\"}}\n";

    (void)!send(c->fd, answer, sizeof(answer) - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* What a failed call means: -EAGAIN, 0 for an orderly end, or -errno. */
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

static ssize_t tls_recv(void *transport, int fd, void *buf, size_t n)
{
    struct atoll_tls_conn *c = transport;
    size_t got = 0;

    (void)fd;
    if (c->broken)
        return -ECONNRESET;
    c->wants_out = false;
    while (got < n) {
        size_t part;
        int r;
        ERR_clear_error();
        r = SSL_read_ex(c->ssl, (uint8_t *)buf + got, n - got, &part);
        /* After something was read, the end or the error comes up again in the next call. */
        if (r <= 0)
            return got > 0 ? (ssize_t)got : explain(c, r);
        got += part;
        if (!SSL_has_pending(c->ssl))
            break;
    }
    return (ssize_t)got;
}

/* Small pieces share a record. */
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
            c->wants_out = false; /* the stream waits for room by itself */
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

    /* Best effort: when the farewell does not fit, the end of the connection has to do. */
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

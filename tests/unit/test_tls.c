/* TLS under the HTTP server: handshake, certificates, versions, WebSocket, big bodies. */
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <sys/stat.h>
#include "net/tls.h"
#include "net/tls_cert.h"
#include "net/tls_issuer.h"
#include "net/websocket.h"
#include "test_http_util.h"

struct world {
    struct atoll_loop *loop;
    struct atoll_http_server *server;
    char dir[64];
    int state_fd;
    uint16_t port;
    SSL_CTX *ctx; /* the client's */
    int fd;
    SSL *ssl;
    size_t requests;
    struct atoll_ws *ws;
};

static void step(struct world *w)
{
    assert_int_equal(atoll_loop_step(w->loop, 1, NULL), 0);
}

static void on_message(void *arg, struct atoll_ws *ws, bool binary, const uint8_t *bytes, size_t n)
{
    (void)arg;
    assert_int_equal(atoll_ws_send(ws, binary, bytes, n), 0);
}

static void on_ws_close(void *arg, struct atoll_ws *ws, uint16_t code)
{
    struct world *w = arg;

    (void)code;
    w->ws = atoll_ws_free(ws);
}

static void echo_data(void *arg, struct atoll_http_request *req, const uint8_t *bytes, size_t n)
{
    (void)arg;
    assert_int_equal(atoll_http_write(req, bytes, n), 0);
    if (atoll_http_pending(req) > ATOLL_HTTP_HIGH_WATER)
        atoll_http_body_pause(req);
}

static void echo_drain(void *arg, struct atoll_http_request *req)
{
    (void)arg;
    atoll_http_body_resume(req);
}

static void echo_end(void *arg, struct atoll_http_request *req)
{
    (void)arg;
    atoll_http_end(req);
}

static void on_request(void *arg, struct atoll_http_request *req)
{
    static const struct atoll_ws_callbacks callbacks = {on_message, NULL, on_ws_close};
    struct world *w = arg;

    w->requests++;
    assert_true(atoll_http_peer(req)->is_tls);
    if (atoll_ws_wanted(req)) {
        assert_int_equal(atoll_ws_accept(req, &callbacks, w, 1000, &w->ws, NULL), 0);
    } else if (atoll_http_method(req) == ATOLL_POST) {
        atoll_http_begin(req, 200, NULL, atoll_http_content_length(req));
        atoll_http_on_drain(req, echo_drain, w);
        atoll_http_body_stream(req, echo_data, echo_end, w);
    } else {
        atoll_http_respond(req, 200, "text/plain", "hello", 5);
    }
}

static void open_world(struct world *w, const struct atoll_http_limits *limits)
{
    struct atoll_tls_config config = {0};

    *w = (struct world){.fd = -1};
    strcpy(w->dir, "/tmp/atoll-test-tls-XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    w->state_fd = open(w->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    config.state_fd = w->state_fd;
    assert_int_equal(atoll_loop_new(&w->loop, NULL), 0);
    assert_int_equal(atoll_http_server_new(w->loop, limits, on_request, w, &w->server, NULL), 0);
    assert_int_equal(
        atoll_http_server_listen_tls(w->server, "127.0.0.1:0", &config, &w->port, NULL), 0);
    w->ctx = SSL_CTX_new(TLS_client_method());
}

static void disconnect(struct world *w)
{
    SSL_free(w->ssl);
    w->ssl = NULL;
    if (w->fd >= 0)
        close(w->fd);
    w->fd = -1;
}

static void close_world(struct world *w)
{
    disconnect(w);
    SSL_CTX_free(w->ctx);
    w->server = atoll_http_server_free(w->server);
    w->ws = atoll_ws_free(w->ws);
    w->loop = atoll_loop_free(w->loop);
    (void)unlinkat(w->state_fd, "tls/cert.pem", 0);
    (void)unlinkat(w->state_fd, "tls/key.pem", 0);
    (void)unlinkat(w->state_fd, "tls/ca.pem", 0);
    (void)unlinkat(w->state_fd, "tls/ca-key.pem", 0);
    (void)unlinkat(w->state_fd, "tls", AT_REMOVEDIR);
    close(w->state_fd);
    assert_int_equal(rmdir(w->dir), 0);
}

static void dial(struct world *w)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(w->port)};

    disconnect(w);
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    w->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(w->fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    assert_int_equal(fcntl(w->fd, F_SETFL, O_NONBLOCK), 0);
}

/* Whether OpenSSL only has to wait; turns the loop meanwhile. */
static bool wait_for(struct world *w, int r)
{
    int e = SSL_get_error(w->ssl, r);

    if (e != SSL_ERROR_WANT_READ && e != SSL_ERROR_WANT_WRITE)
        return false;
    step(w);
    return true;
}

/* alpn in wire format. False: refused. */
static bool shake_hands(struct world *w, const char *alpn)
{
    int r;

    dial(w);
    w->ssl = SSL_new(w->ctx);
    SSL_set_fd(w->ssl, w->fd);
    if (alpn)
        SSL_set_alpn_protos(w->ssl, (const uint8_t *)alpn, (unsigned)strlen(alpn));
    do
        r = SSL_connect(w->ssl);
    while (r <= 0 && wait_for(w, r));
    ERR_clear_error();
    return r == 1;
}

static void put(struct world *w, const void *bytes, size_t n)
{
    int r;

    do
        r = SSL_write(w->ssl, bytes, (int)n);
    while (r <= 0 && wait_for(w, r));
    assert_int_equal(r, n);
}

/* Until `until` is in it, or the end. */
static void get(struct world *w, char *out, size_t cap, const char *until)
{
    size_t n = 0;

    *out = '\0';
    while (n < cap - 1 && !strstr(out, until)) {
        int r = SSL_read(w->ssl, out + n, (int)(cap - 1 - n));
        if (r > 0)
            out[n += (size_t)r] = '\0';
        else if (!wait_for(w, r))
            break;
    }
}

static void ask(struct world *w, const char *request, char *out, size_t cap, const char *until)
{
    put(w, request, strlen(request));
    get(w, out, cap, until);
}

#define GET_ROOT "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"

static void test_http1(void **state)
{
    struct world w;
    char text[1000];
    const uint8_t *alpn;
    unsigned n;

    (void)state;
    open_world(&w, NULL);
    assert_true(shake_hands(&w, "\x08http/1.1"));
    SSL_get0_alpn_selected(w.ssl, &alpn, &n);
    assert_int_equal(n, 8);
    for (int i = 0; i < 3; i++) {
        ask(&w, GET_ROOT, text, sizeof(text), "hello");
        assert_starts(text, "HTTP/1.1 200 OK\r\n");
    }
    assert_true(shake_hands(&w, NULL));
    ask(&w, GET_ROOT, text, sizeof(text), "hello");
    assert_starts(text, "HTTP/1.1 200 OK\r\n");
    assert_int_equal(w.requests, 4);
    close_world(&w);
}

static void test_versions(void **state)
{
    struct world w;
    const uint8_t *alpn;
    unsigned n;

    (void)state;
    open_world(&w, NULL);
    assert_true(shake_hands(&w, "\x08http/1.1\x02h2"));
    SSL_get0_alpn_selected(w.ssl, &alpn, &n);
    assert_int_equal(n, 2);
    assert_int_equal(SSL_version(w.ssl), TLS1_3_VERSION);
    assert_false(shake_hands(&w, "\x03"
                                 "ftp"));
    SSL_CTX_set_max_proto_version(w.ctx, TLS1_2_VERSION);
    assert_true(shake_hands(&w, "\x02h2"));
    SSL_CTX_set_security_level(w.ctx, 0);
    SSL_CTX_set_min_proto_version(w.ctx, TLS1_VERSION);
    SSL_CTX_set_max_proto_version(w.ctx, TLS1_1_VERSION);
    assert_false(shake_hands(&w, NULL));
    close_world(&w);
}

static void test_big_bodies(void **state)
{
    const size_t size = 5 * 1024 * 1024 + 17;
    uint8_t *sent = malloc(size), *got = malloc(size);
    size_t out = 0, in = 0;
    struct world w;
    char text[400];

    (void)state;
    for (size_t i = 0; i < size; i++)
        sent[i] = (uint8_t)(i * 7 + i / 1000);
    open_world(&w, NULL);
    assert_true(shake_hands(&w, NULL));
    SSL_set_mode(w.ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    snprintf(text, sizeof(text), "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n", size);
    put(&w, text, strlen(text));
    /* The head comes alone at first: nothing of the body is here yet. */
    get(&w, text, sizeof(text), "\r\n\r\n");
    assert_starts(text, "HTTP/1.1 200 OK\r\n");
    while (in < size) {
        int r = out < size ? SSL_write(w.ssl, sent + out, (int)(size - out)) : 0;
        out += r > 0 ? (size_t)r : 0;
        ERR_clear_error();
        step(&w);
        /* A slow reader: the server has to wait for it. */
        r = SSL_read(w.ssl, got + in, (int)ATOLL_MIN(size - in, (size_t)100000));
        in += r > 0 ? (size_t)r : 0;
        ERR_clear_error();
    }
    assert_memory_equal(sent, got, size);
    free(sent);
    free(got);
    close_world(&w);
}

static void test_websocket(void **state)
{
    static const uint8_t frame[] = {0x82, 0x83, 0, 0, 0, 0, 'a', 'b', 'c'};
    struct world w;
    char text[1000];

    (void)state;
    open_world(&w, NULL);
    assert_true(shake_hands(&w, "\x08http/1.1"));
    ask(&w,
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n",
        text, sizeof(text), "\r\n\r\n");
    assert_starts(text, "HTTP/1.1 101 ");
    put(&w, frame, sizeof(frame));
    get(&w, text, sizeof(text), "abc");
    assert_memory_equal(text,
                        "\x82\x03"
                        "abc",
                        5);
    close_world(&w);
}

static void test_bad_clients(void **state)
{
    const struct atoll_http_limits limits = {.header_ms = 100, .idle_ms = 300};
    struct world w;
    char text[1000] = "";

    (void)state;
    open_world(&w, &limits);
    dial(&w);
    assert_int_equal(send(w.fd, GET_ROOT, strlen(GET_ROOT), 0), strlen(GET_ROOT));
    for (int i = 0; i < 20; i++)
        step(&w);
    assert_true(recv(w.fd, text, sizeof(text) - 1, 0) > 0);
    assert_contains(text, "use https://");

    /* A handshake that does not go on. */
    dial(&w);
    assert_int_equal(send(w.fd, "\x16\x03\x01", 3, 0), 3);
    for (int64_t until = atoll_clock_ms() + 250; atoll_clock_ms() < until;)
        step(&w);
    assert_int_equal(atoll_http_server_connections(w.server), 0);
    /* One that is garbage. */
    dial(&w);
    assert_int_equal(send(w.fd, "\x16\x03\x01\x00\x05hello", 10, 0), 10);
    for (int i = 0; i < 20; i++)
        step(&w);
    assert_int_equal(atoll_http_server_connections(w.server), 0);
    /* The connection breaks off in the middle. */
    assert_true(shake_hands(&w, NULL));
    put(&w, "GET / HTTP", 10);
    disconnect(&w);
    for (int i = 0; i < 20; i++)
        step(&w);
    assert_int_equal(atoll_http_server_connections(w.server), 0);
    assert_int_equal(w.requests, 0);
    close_world(&w);
}

/* Certificates. */

static X509 *read_cert(const struct world *w)
{
    char path[100];
    FILE *f;
    X509 *cert;

    snprintf(path, sizeof(path), "%s/tls/cert.pem", w->dir);
    f = fopen(path, "r");
    assert_non_null(f);
    cert = PEM_read_X509(f, NULL, NULL, NULL);
    fclose(f);
    assert_non_null(cert);
    return cert;
}

/* Opens a context anew and returns whether the certificate is still the same. */
static bool is_kept(const struct world *w)
{
    const struct atoll_tls_config config = {.state_fd = w->state_fd};
    struct atoll_tls *tls;
    X509 *before = read_cert(w), *after;
    bool same;

    assert_int_equal(atoll_tls_new(&config, &tls, NULL), 0);
    (void)atoll_tls_free(tls);
    after = read_cert(w);
    same = X509_cmp(before, after) == 0;
    X509_free(before);
    X509_free(after);
    return same;
}

/* Writes the certificate again as one that ended a minute ago. */
static void let_expire(const struct world *w)
{
    X509 *cert = read_cert(w);
    char path[100];
    EVP_PKEY *key;
    FILE *f;

    snprintf(path, sizeof(path), "%s/tls/key.pem", w->dir);
    f = fopen(path, "r");
    key = PEM_read_PrivateKey(f, NULL, NULL, NULL);
    fclose(f);
    X509_gmtime_adj(X509_getm_notAfter(cert), -60);
    assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
    snprintf(path, sizeof(path), "%s/tls/cert.pem", w->dir);
    f = fopen(path, "w");
    assert_true(PEM_write_X509(f, cert));
    fclose(f);
    X509_free(cert);
    EVP_PKEY_free(key);
}

static void test_own_certificate(void **state)
{
    struct world w;
    struct stat st;
    char path[100];
    X509 *cert;

    (void)state;
    open_world(&w, NULL);
    cert = read_cert(&w);
    assert_int_equal(X509_check_host(cert, "localhost", 0, 0, NULL), 1);
    assert_int_equal(X509_check_ip_asc(cert, "127.0.0.1", 0), 1);
    assert_int_equal(X509_check_ip_asc(cert, "::1", 0), 1);
    assert_int_equal(X509_check_host(cert, "elsewhere.test", 0, 0, NULL), 0);
    X509_free(cert);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fstatat(w.state_fd, i ? "tls/key.pem" : "tls/cert.pem", &st, 0), 0);
        assert_int_equal(st.st_mode & 07777, 0600);
    }
    /* A client that trusts it has nothing to complain about. */
    snprintf(path, sizeof(path), "%s/tls/cert.pem", w.dir);
    assert_int_equal(SSL_CTX_load_verify_locations(w.ctx, path, NULL), 1);
    SSL_CTX_set_verify(w.ctx, SSL_VERIFY_PEER, NULL);
    assert_true(shake_hands(&w, NULL));

    assert_true(is_kept(&w));
    let_expire(&w);
    assert_false(is_kept(&w));
    assert_int_equal(unlinkat(w.state_fd, "tls/key.pem", 0), 0);
    assert_false(is_kept(&w));
    assert_true(is_kept(&w));
    close_world(&w);
}

static X509 *own_cert(struct world *w, const char *domain)
{
    const struct atoll_tls_config config = {.state_fd = w->state_fd, .domain = domain};
    struct atoll_tls *tls;

    assert_int_equal(atoll_tls_new(&config, &tls, NULL), 0);
    (void)atoll_tls_free(tls);
    return read_cert(w);
}

/* Clients trust the authority once; certificates for other names come from it as well. */
static void test_a_domain_gets_a_certificate_of_the_same_authority(void **state)
{
    struct world w;
    struct stat st;
    char path[100];
    X509 *first, *second, *again;

    (void)state;
    open_world(&w, NULL);
    first = read_cert(&w);
    second = own_cert(&w, "boxes.example.test");
    assert_int_equal(X509_check_host(first, "boxes.example.test", 0, 0, NULL), 0);
    assert_int_equal(X509_check_host(second, "boxes.example.test", 0, 0, NULL), 1);
    assert_int_equal(X509_check_host(second, "3000-abc.boxes.example.test", 0, 0, NULL), 1);
    assert_int_equal(X509_NAME_cmp(X509_get_issuer_name(first), X509_get_issuer_name(second)), 0);
    again = own_cert(&w, "boxes.example.test");
    assert_int_equal(X509_cmp(again, second), 0);
    assert_int_equal(fstatat(w.state_fd, "tls/ca-key.pem", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    snprintf(path, sizeof(path), "%s/tls/ca.pem", w.dir);
    assert_int_equal(SSL_CTX_load_verify_locations(w.ctx, path, NULL), 1);
    SSL_CTX_set_verify(w.ctx, SSL_VERIFY_PEER, NULL);
    assert_true(shake_hands(&w, NULL));
    X509_free(first);
    X509_free(second);
    X509_free(again);
    close_world(&w);
}

static void test_given_certificate(void **state)
{
    struct world w;
    struct atoll_tls_config config = {.cert_file = "/nonexistent"};
    struct atoll_error error;
    struct atoll_tls *tls;
    char cert[100], key[100];

    (void)state;
    open_world(&w, NULL);
    snprintf(cert, sizeof(cert), "%s/tls/cert.pem", w.dir);
    snprintf(key, sizeof(key), "%s/tls/key.pem", w.dir);
    assert_true(atoll_tls_new(&config, &tls, &error) < 0);
    assert_contains(error.text, "both or neither");
    config.key_file = key;
    assert_true(atoll_tls_new(&config, &tls, &error) < 0);
    assert_int_equal(error.kind, ATOLL_ERR_INVALID_ARGUMENT);
    assert_contains(error.text, "No such file");
    config.cert_file = cert;
    assert_int_equal(atoll_tls_new(&config, &tls, NULL), 0);
    (void)atoll_tls_free(tls);
    config.key_file = cert;
    assert_true(atoll_tls_new(&config, &tls, &error) < 0);
    assert_contains(error.text, "key");
    close_world(&w);
}

/* The certificate that a client gets for a name, from an issuer that ends TLS for it. */
static X509 *issued(struct atoll_tls_issuer *issuer, const char *name)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    SSL *ssl = SSL_new(ctx);
    struct atoll_tls_conn *conn;
    X509 *cert;
    int pair[2], done = 0;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    assert_int_equal(atoll_tls_issuer_accept(issuer, name, pair[0], &conn), 0);
    SSL_set_fd(ssl, pair[1]);
    for (int i = 0; i < 10 && done != 1; i++) {
        done = SSL_connect(ssl);
        (void)!atoll_tls_handshake(conn);
    }
    assert_int_equal(done, 1);
    cert = SSL_get1_peer_certificate(ssl);
    SSL_free(ssl);
    SSL_CTX_free(ctx);
    atoll_tls_ops.free(conn);
    close(pair[0]);
    close(pair[1]);
    return cert;
}

static void test_issuer(void **state)
{
    struct atoll_tls_issuer *issuer, *next;
    struct atoll_tls_conn *conn;
    EVP_PKEY *key;
    X509 *authority, *first, *again, *other;
    char name[40];
    struct stat st;
    struct world w;

    (void)state;
    open_world(&w, NULL);
    assert_int_equal(atoll_tls_issuer_new(w.state_fd, &issuer, NULL), 0);
    assert_int_equal(atoll_tls_cert_egress(w.state_fd, &authority, &key, NULL), 0);
    assert_int_equal(fstatat(w.state_fd, "egress-ca-key.pem", &st, 0), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    first = issued(issuer, "api.example.test");
    assert_int_equal(X509_check_host(first, "api.example.test", 0, 0, NULL), 1);
    assert_int_equal(X509_check_host(first, "example.test", 0, 0, NULL), 0);
    assert_int_equal(X509_verify(first, X509_get0_pubkey(authority)), 1);
    again = issued(issuer, "api.example.test");
    assert_int_equal(X509_cmp(first, again), 0);
    for (int i = 0; i < ATOLL_TLS_ISSUER_KEPT; i++) {
        snprintf(name, sizeof(name), "n%d.example.test", i);
        X509_free(issued(issuer, name));
    }
    assert_int_equal(atoll_tls_issuer_kept(issuer), ATOLL_TLS_ISSUER_KEPT);
    other = issued(issuer, "api.example.test"); /* made anew */
    assert_int_not_equal(X509_cmp(first, other), 0);
    assert_int_equal(atoll_tls_issuer_accept(issuer, "a,DNS:b.test", 0, &conn), -EINVAL);
    assert_int_equal(atoll_tls_issuer_accept(issuer, "", 0, &conn), -EINVAL);
    X509_free(again);
    X509_free(other);
    /* A second process has the same authority, and another key. */
    assert_int_equal(atoll_tls_issuer_new(w.state_fd, &next, NULL), 0);
    again = issued(next, "api.example.test");
    assert_int_equal(X509_verify(again, X509_get0_pubkey(authority)), 1);
    assert_int_equal(EVP_PKEY_eq(X509_get0_pubkey(first), X509_get0_pubkey(again)), 0);
    X509_free(first);
    X509_free(again);
    X509_free(authority);
    EVP_PKEY_free(key);
    (void)atoll_tls_issuer_free(issuer);
    (void)atoll_tls_issuer_free(next);
    (void)unlinkat(w.state_fd, "egress-ca.pem", 0);
    (void)unlinkat(w.state_fd, "egress-ca-key.pem", 0);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_http1),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_big_bodies),
        cmocka_unit_test(test_websocket),
        cmocka_unit_test(test_bad_clients),
        cmocka_unit_test(test_own_certificate),
        cmocka_unit_test(test_a_domain_gets_a_certificate_of_the_same_authority),
        cmocka_unit_test(test_given_certificate),
        cmocka_unit_test(test_issuer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

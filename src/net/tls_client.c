/* The client's side: trust and server names. */
#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include "net/tls_internal.h"

static int load_trusted(SSL_CTX *ctx, const struct atoll_tls_trust *trust, struct atoll_error *err)
{
    bool given = trust->ca_file && *trust->ca_file;
    int ok;

    if (trust->insecure) {
        SSL_CTX_set_verify(ctx, SSL_VERIFY_NONE, NULL);
        return 0;
    }
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    /* A certificate in ca_file is trusted even if it is not a root. */
    (void)X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(ctx), X509_V_FLAG_PARTIAL_CHAIN);
    ok = given ? SSL_CTX_load_verify_locations(ctx, trust->ca_file, NULL)
               : SSL_CTX_set_default_verify_paths(ctx);
    ERR_clear_error();
    if (ok != 1)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "%.200s contains no certificate to trust",
                          given ? trust->ca_file : "OpenSSL");
    return 0;
}

int atoll_tls_client_new(const struct atoll_tls_trust *trust, struct atoll_tls **ret_tls,
                         struct atoll_error *err)
{
    static const unsigned char protocols[] = "\x02h2\x08http/1.1";
    size_t skipped = trust->http2 ? 0 : 3;
    struct atoll_tls *tls = calloc(1, sizeof(*tls));
    int r;

    if (!tls)
        return atoll_fail_errno(err, ENOMEM, "TLS");
    tls->ctx = SSL_CTX_new(TLS_client_method());
    /* SSL_CTX_set_alpn_protos() returns 0 for success. */
    if (!tls->ctx || atoll_tls_configure(tls->ctx) < 0 ||
        SSL_CTX_set_alpn_protos(tls->ctx, protocols + skipped,
                                (unsigned)(sizeof(protocols) - 1 - skipped)) != 0)
        r = atoll_fail(err, ATOLL_ERR_INTERNAL, EIO, "OpenSSL cannot be set up for TLS");
    else
        r = load_trusted(tls->ctx, trust, err);
    if (r < 0)
        (void)atoll_tls_free(tls);
    else
        *ret_tls = tls;
    return r;
}

static bool is_address(const char *host)
{
    struct in6_addr any;
    return inet_pton(AF_INET, host, &any) == 1 || inet_pton(AF_INET6, host, &any) == 1;
}

int atoll_tls_connect(struct atoll_tls *tls, int fd, const char *host,
                      struct atoll_tls_conn **ret_conn)
{
    struct atoll_tls_conn *c;
    int r = atoll_tls_conn_new(tls, fd, &c), ok;

    if (r < 0)
        return r;
    /* SNI carries host names, not addresses (RFC 6066 section 3). */
    if (is_address(host))
        ok = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(c->ssl), host);
    else
        ok = SSL_set_tlsext_host_name(c->ssl, host) && SSL_set1_host(c->ssl, host);
    if (!ok) {
        atoll_tls_ops.free(c);
        return -ENOMEM;
    }
    SSL_set_connect_state(c->ssl);
    *ret_conn = c;
    return 0;
}

const char *atoll_tls_distrust(const struct atoll_tls_conn *c)
{
    long result = SSL_get_verify_result(c->ssl);

    if (result == X509_V_OK || SSL_get_verify_mode(c->ssl) == SSL_VERIFY_NONE)
        return NULL;
    return X509_verify_cert_error_string(result);
}

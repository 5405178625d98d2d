/* The server's side: its certificate, and the protocols it offers. */
#include "net/tls.h"

#include <errno.h>
#include "net/tls_cert.h"
#include "net/tls_internal.h"

/* Selects a protocol by the server's preference. A client that offers only other protocols is refused,
 * as RFC 7301 requires: it would not speak HTTP. */
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

    if (atoll_tls_configure(ctx) < 0 || !SSL_CTX_set_session_id_context(ctx, id, sizeof(id) - 1) ||
        !SSL_CTX_set_num_tickets(ctx, 1))
        return -EIO;
    SSL_CTX_set_alpn_select_cb(ctx, select_protocol, NULL);
    return 0;
}

int atoll_tls_server_new(struct atoll_tls **ret_tls, struct atoll_error *err)
{
    struct atoll_tls *tls = calloc(1, sizeof(*tls));

    if (!tls)
        return atoll_fail_errno(err, ENOMEM, "TLS");
    tls->ctx = SSL_CTX_new(TLS_server_method());
    if (!tls->ctx || configure(tls->ctx) < 0) {
        (void)atoll_tls_free(tls);
        return atoll_fail(err, ATOLL_ERR_INTERNAL, EIO, "OpenSSL cannot be set up for TLS");
    }
    *ret_tls = tls;
    return 0;
}

int atoll_tls_new(const struct atoll_tls_config *config, struct atoll_tls **ret_tls,
                  struct atoll_error *err)
{
    struct atoll_tls *tls;
    int r;

    if (!config->cert_file != !config->key_file)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "a TLS certificate needs its key: give both or neither");
    r = atoll_tls_server_new(&tls, err);
    if (r < 0)
        return r;
    if (config->cert_file)
        r = atoll_tls_cert_given(tls->ctx, config->cert_file, config->key_file, err);
    else
        r = atoll_tls_cert_own(tls->ctx, config->state_fd, config->domain ? config->domain : "",
                               config->names ? config->names : "", err);
    if (r < 0)
        (void)atoll_tls_free(tls);
    else
        *ret_tls = tls;
    return r;
}

int atoll_tls_accept(struct atoll_tls *tls, int fd, struct atoll_tls_conn **ret_conn)
{
    int r = atoll_tls_conn_new(tls, fd, ret_conn);

    if (r == 0)
        SSL_set_accept_state((*ret_conn)->ssl);
    return r;
}

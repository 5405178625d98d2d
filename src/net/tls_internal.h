#pragma once
#include <openssl/ssl.h>
#include "net/tls.h"

/*
 * What tls_conn.c (connections), tls.c (the server's context), tls_issuer.c and tls_client.c share.
 */
struct atoll_tls {
    SSL_CTX *ctx; /* owned */
};

struct atoll_tls_conn {
    SSL *ssl; /* owned */
    int fd;   /* borrowed */
    bool wants_out;
    bool broken; /* nothing may be sent any more, not even close_notify */
    bool deaf;   /* nothing may be received any more */
};

/* A context for servers, without a certificate. INTERNAL. */
int atoll_tls_server_new(struct atoll_tls **ret_tls, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Applies the settings of both sides. -EIO. */
int atoll_tls_configure(SSL_CTX *ctx) ATOLL_MUST_CHECK;
/* Makes a connection; the caller sets its side (SSL_set_accept_state() or …connect_state()). -ENOMEM. */
int atoll_tls_conn_new(struct atoll_tls *tls, int fd,
                       struct atoll_tls_conn **ret_conn) ATOLL_MUST_CHECK;

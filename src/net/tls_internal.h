#pragma once
#include <openssl/ssl.h>
#include "net/tls.h"

/*
 * What tls_conn.c (connections), tls.c (the server's context) and tls_client.c share.
 */
struct atoll_tls {
    SSL_CTX *ctx; /* owned */
};

struct atoll_tls_conn {
    SSL *ssl; /* owned */
    int fd;   /* borrowed */
    bool wants_out;
    bool broken; /* nothing may be sent any more, not even a farewell */
    bool deaf;   /* nothing may be received; a peer that hung up may have answered before */
};

/* What holds for both sides. -EIO. */
int atoll_tls_configure(SSL_CTX *ctx) ATOLL_MUST_CHECK;
/* A connection that is not yet told which side it is. -ENOMEM. */
int atoll_tls_conn_new(struct atoll_tls *tls, int fd,
                       struct atoll_tls_conn **ret_conn) ATOLL_MUST_CHECK;

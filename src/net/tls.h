#pragma once
#include "net/stream.h"

/*
 * TLS 1.2 and 1.3 by OpenSSL: the server's side of a stream, and the client's of net/http_client.h.
 * The protocol spoken inside is agreed in the handshake (ALPN, RFC 7301): "h2" or "http/1.1" with a
 * server of ours, "http/1.1" by our client.
 *
 * Blocking: opening a context reads files and may make a key; nothing else blocks.
 * Thread: the loop's.
 * Ownership: connections keep their context alive, so it may be freed before them.
 */
struct atoll_tls;      /* certificate and settings */
struct atoll_tls_conn; /* one connection */

struct atoll_tls_config {
    const char *cert_file; /* PEM, the server's own first, then the chain. NULL: make one */
    const char *key_file;  /* PEM, not encrypted. Given if and only if cert_file is */
    int state_fd;          /* directory below which a certificate of our own is kept (tls/) */
};

/* Without files: a self-signed certificate for this host, made at first use, kept in tls/cert.pem
 * and tls/key.pem (0600), replaced when it has expired or is damaged. INVALID_ARGUMENT for files
 * that cannot be used. */
int atoll_tls_new(const struct atoll_tls_config *config, struct atoll_tls **ret_tls,
                  struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_tls *atoll_tls_free(struct atoll_tls *tls);

/* The transport of a stream for a connected socket (borrowed; the stream has it); freed by the
 * stream. The handshake runs as part of reading: the owner's first input comes after it, and it
 * writes nothing before. -ENOMEM. */
int atoll_tls_accept(struct atoll_tls *tls, int fd,
                     struct atoll_tls_conn **ret_conn) ATOLL_MUST_CHECK;
extern const struct atoll_stream_ops atoll_tls_ops;

/* Whether the handshake is over. */
bool atoll_tls_is_ready(const struct atoll_tls_conn *conn);
/* Whether HTTP/2 was agreed; false before the handshake is over. */
bool atoll_tls_is_h2(const struct atoll_tls_conn *conn);

/* The client's side. */

struct atoll_tls_trust {
    const char *ca_file; /* PEM: trust these instead of the system's. NULL or "": the system's */
    bool insecure;       /* trust anybody; said by the user in so many words */
};

/* INVALID_ARGUMENT for a file that holds no certificate. */
int atoll_tls_client_new(const struct atoll_tls_trust *trust, struct atoll_tls **ret_tls,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* As atoll_tls_accept(), for the other end: `host` (a name, or an address without brackets) is whom
 * the certificate has to be for. -ENOMEM. */
int atoll_tls_connect(struct atoll_tls *tls, int fd, const char *host,
                      struct atoll_tls_conn **ret_conn) ATOLL_MUST_CHECK;
/* Goes on with the handshake: 0 when it is over, -EAGAIN (atoll_tls_ops.wants_out() says what to
 * wait for), -errno. */
int atoll_tls_handshake(struct atoll_tls_conn *conn) ATOLL_MUST_CHECK;
/* What is wrong with the server's certificate, or NULL when nothing is. */
const char *atoll_tls_distrust(const struct atoll_tls_conn *conn);

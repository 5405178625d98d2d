#pragma once
#include "net/stream.h"

/*
 * TLS 1.2 and 1.3 with OpenSSL: the server's side of a stream, and the client's side.
 * The handshake selects the protocol (ALPN, RFC 7301): our server offers "h2" and
 * "http/1.1", our client "http/1.1", and "h2" if that was asked for.
 *
 * Blocking: opening a context reads files and may generate a key; nothing else blocks.
 * Thread: the loop's.
 * Ownership: connections keep their context alive, so it may be freed before them.
 */
struct atoll_tls;      /* certificate and settings */
struct atoll_tls_conn; /* one connection */

struct atoll_tls_config {
    const char *cert_file; /* PEM: the server's certificate, then the chain. NULL: generate one */
    const char *key_file;  /* PEM, not encrypted. Set if and only if cert_file is set */
    int state_fd;          /* directory in which a generated certificate is stored (tls/) */
    const char *domain; /* a generated certificate is also for this and all names below, or NULL */
    const char *names;  /* and for these: "a.example,*.b.example"; or NULL */
};

/* Without files: the daemon's own certificate (net/tls_cert.h). INVALID_ARGUMENT for unusable files. */
int atoll_tls_new(const struct atoll_tls_config *config, struct atoll_tls **ret_tls,
                  struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_tls *atoll_tls_free(struct atoll_tls *tls);

/* Makes the transport of a stream for a connected socket (borrowed; the stream owns it). The stream
 * frees the transport. The handshake is part of reading: the owner gets its first input after the
 * handshake and must not write before. -ENOMEM. */
int atoll_tls_accept(struct atoll_tls *tls, int fd,
                     struct atoll_tls_conn **ret_conn) ATOLL_MUST_CHECK;
extern const struct atoll_stream_ops atoll_tls_ops;

/* Whether the handshake is complete. */
bool atoll_tls_is_ready(const struct atoll_tls_conn *conn);
/* Whether HTTP/2 was selected; false before the handshake is complete. */
bool atoll_tls_is_h2(const struct atoll_tls_conn *conn);

/* The client's side. */

struct atoll_tls_trust {
    const char *ca_file; /* PEM: certificates to trust. NULL or "": the system's */
    bool insecure;       /* accept any certificate; only if the user asked for it */
    bool http2;          /* offer HTTP/2, too */
};

/* INVALID_ARGUMENT for a file without certificates. */
int atoll_tls_client_new(const struct atoll_tls_trust *trust, struct atoll_tls **ret_tls,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* Like atoll_tls_accept(), for the client. The server's certificate must be valid for `host` (a name, or
 * an address without brackets). -ENOMEM. */
int atoll_tls_connect(struct atoll_tls *tls, int fd, const char *host,
                      struct atoll_tls_conn **ret_conn) ATOLL_MUST_CHECK;
/* Continues the handshake: 0 if it is complete, -EAGAIN (atoll_tls_ops.wants_out() tells whether to wait
 * for output), -errno. */
int atoll_tls_handshake(struct atoll_tls_conn *conn) ATOLL_MUST_CHECK;
/* Why the server's certificate is not trusted, or NULL if it is. */
const char *atoll_tls_distrust(const struct atoll_tls_conn *conn);

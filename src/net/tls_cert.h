#pragma once
#include <openssl/ssl.h>
#include "base/error.h"

/*
 * The daemon's own certificate, used if none is configured: for localhost, *.localhost, 127.0.0.1,
 * ::1, the name of the host, the domain and *.domain; ECDSA P-256. It is issued by a certificate
 * authority of this daemon (ten years), so that clients that trust the authority accept the next
 * certificate, too.
 * Blocking: reads and writes files below state_fd.
 */

/* Loads tls/cert.pem (the certificate, then the authority's) and tls/key.pem into ctx. Generates both
 * if they are missing, do not match (for example after a crash between writing the two), expire within
 * 90 days or lack a name. The same for the authority, tls/ca.pem and tls/ca-key.pem. more: further names,
 * separated by commas; "*.NAME" is possible. INTERNAL. */
int atoll_tls_cert_own(SSL_CTX *ctx, int state_fd, const char *domain, const char *more,
                       struct atoll_error *err) ATOLL_MUST_CHECK;

/* The certificate authority of atoll-egress, which issues certificates for the servers it stands in for
 * (docs/adr/0028-an-authority-of-its-own-for-egress.md): egress-ca.pem and egress-ca-key.pem below
 * state_fd. Generates both if they are missing, do not match or expire within 90 days. The caller frees
 * *ret_cert and *ret_key. INTERNAL. */
int atoll_tls_cert_egress(int state_fd, X509 **ret_cert, EVP_PKEY **ret_key,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* A certificate for the server `name`, with `key`, issued by the authority. The caller frees it. NULL for
 * a text that is not a host name, or without memory. */
X509 *atoll_tls_cert_issue(X509 *authority, EVP_PKEY *authority_key, EVP_PKEY *key,
                           const char *name) ATOLL_MUST_CHECK;

/* Loads the given files. INVALID_ARGUMENT names the unusable file and the reason. */
int atoll_tls_cert_given(SSL_CTX *ctx, const char *cert_file, const char *key_file,
                         struct atoll_error *err) ATOLL_MUST_CHECK;

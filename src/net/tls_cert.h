#pragma once
#include <openssl/ssl.h>
#include "base/error.h"

/*
 * The daemon's own certificate, used if none is configured: self-signed, ECDSA P-256, valid for ten
 * years, for localhost, *.localhost, 127.0.0.1, ::1 and the name of the host.
 * Blocking: reads and writes files below state_fd.
 */

/* Loads tls/cert.pem and tls/key.pem into ctx; generates both if they are missing, expired, or do not
 * match (for example after a crash between writing the two). INTERNAL. */
int atoll_tls_cert_own(SSL_CTX *ctx, int state_fd, struct atoll_error *err) ATOLL_MUST_CHECK;

/* Loads the given files. INVALID_ARGUMENT names the unusable file and the reason. */
int atoll_tls_cert_given(SSL_CTX *ctx, const char *cert_file, const char *key_file,
                         struct atoll_error *err) ATOLL_MUST_CHECK;

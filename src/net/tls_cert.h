#pragma once
#include <openssl/ssl.h>
#include "base/error.h"

/*
 * The certificate of the daemon itself, for where nobody gave one: self-signed, ECDSA on P-256,
 * ten years, for localhost, *.localhost, 127.0.0.1, ::1 and the name of the host.
 * Blocking: reads and writes files below state_fd.
 */

/* Loads tls/cert.pem and tls/key.pem into ctx; makes both first when they are not there, have
 * expired, or do not fit together (as after a crash between the two). INTERNAL. */
int atoll_tls_cert_own(SSL_CTX *ctx, int state_fd, struct atoll_error *err) ATOLL_MUST_CHECK;

/* Loads the given files. INVALID_ARGUMENT says which one is wrong, and how. */
int atoll_tls_cert_given(SSL_CTX *ctx, const char *cert_file, const char *key_file,
                         struct atoll_error *err) ATOLL_MUST_CHECK;

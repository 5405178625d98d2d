#pragma once
#include "net/tls.h"

/*
 * Server certificates made on demand: the transport of a client that believes to talk to `name`, with a
 * certificate for that name from the authority of atoll-egress (net/tls_cert.h). All certificates of one
 * issuer have the same key, which exists in this process only; the most recently used ones are kept.
 *
 * Blocking: opening reads files, or writes them the first time; nothing else blocks. Making a certificate
 * takes one signature.
 * Thread: the loop's.
 */
struct atoll_tls_issuer;

#define ATOLL_TLS_ISSUER_KEPT 256

/* INTERNAL. */
int atoll_tls_issuer_new(int state_fd, struct atoll_tls_issuer **ret_issuer,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_tls_issuer *atoll_tls_issuer_free(struct atoll_tls_issuer *issuer);

/* Like atoll_tls_accept(), with a certificate for `name` (lower case). -EINVAL for a text that is not a
 * host name, -ENOMEM. */
int atoll_tls_issuer_accept(struct atoll_tls_issuer *issuer, const char *name, int fd,
                            struct atoll_tls_conn **ret_conn) ATOLL_MUST_CHECK;
/* Number of certificates that are kept. */
size_t atoll_tls_issuer_kept(const struct atoll_tls_issuer *issuer);

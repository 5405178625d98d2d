#pragma once
#include "base/error.h"

/*
 * The trust store of the host template: the host's certificates, and that of atoll-egress, which stands in
 * for servers of domains with header rules (docs/adr/0028-an-authority-of-its-own-for-egress.md).
 * Blocking: some small files.
 */
#define ATOLL_TRUST_CA "egress-ca.pem"                     /* below the state directory */
#define ATOLL_TRUST_BUNDLE "ssl/certs/ca-certificates.crt" /* below /etc of the template */

/* Adds the certificate to ssl/ below etc_fd, where programs look for it by default: a file and a link by its
 * hash in ssl/certs (OpenSSL), ssl/certs/ca-certificates.crt (curl, git, Go, Node of Debian), and, if the
 * host has it, ssl/certs/java/cacerts. Does nothing if state_fd has no certificate. INTERNAL. */
int atoll_trust_add(int state_fd, int etc_fd, struct atoll_error *err) ATOLL_MUST_CHECK;

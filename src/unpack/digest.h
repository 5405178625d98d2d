#pragma once
#include "base/defs.h"

/* SHA-256, by OpenSSL. Aborts if OpenSSL cannot compute it. */
struct atoll_digest {
    void *context; /* owned: EVP_MD_CTX */
};

#define ATOLL_DIGEST_HEX 65

void atoll_digest_init(struct atoll_digest *d);
void atoll_digest_done(struct atoll_digest *d);
void atoll_digest_add(struct atoll_digest *d, const void *bytes, size_t n);
/* In hex; afterwards the digest is as new. */
void atoll_digest_end(struct atoll_digest *d, char out[ATOLL_DIGEST_HEX]);

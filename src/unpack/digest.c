#include "unpack/digest.h"

#include <openssl/evp.h>
#include <stdio.h>

static void begin(struct atoll_digest *d)
{
    /* A null type keeps the algorithm, whose lookup costs more than the digest of a small file. */
    if (EVP_DigestInit_ex(d->context, NULL, NULL) != 1)
        abort();
}

void atoll_digest_init(struct atoll_digest *d)
{
    d->context = EVP_MD_CTX_new();
    if (!d->context || EVP_DigestInit_ex(d->context, EVP_sha256(), NULL) != 1)
        abort();
}

void atoll_digest_done(struct atoll_digest *d)
{
    EVP_MD_CTX_free(d->context);
    d->context = NULL;
}

void atoll_digest_add(struct atoll_digest *d, const void *bytes, size_t n)
{
    if (EVP_DigestUpdate(d->context, bytes, n) != 1)
        abort();
}

void atoll_digest_end(struct atoll_digest *d, char out[ATOLL_DIGEST_HEX])
{
    uint8_t bytes[EVP_MAX_MD_SIZE];
    unsigned len = 0;

    if (EVP_DigestFinal_ex(d->context, bytes, &len) != 1 || len != 32)
        abort();
    for (unsigned i = 0; i < len; i++)
        (void)snprintf(out + (size_t)2 * i, 3, "%02x", bytes[i]);
    begin(d);
}

/* Apart from reference.c, so that programs which only read names do not load OpenSSL. */
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include "image/reference.h"

#define SHA256 "sha256:"
#define HEX_LEN 64

void atoll_image_digest(const void *bytes, size_t n, char out[ATOLL_IMAGE_DIGEST_MAX])
{
    uint8_t raw[HEX_LEN / 2];
    size_t at = sizeof(SHA256) - 1;

    if (EVP_Digest(bytes, n, raw, NULL, EVP_sha256(), NULL) != 1)
        abort();
    memcpy(out, SHA256, sizeof(SHA256));
    for (size_t i = 0; i < sizeof(raw); i++, at += 2)
        (void)snprintf(out + at, 3, "%02x", raw[i]);
}

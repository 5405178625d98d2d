/*
 * Names of objects at the engine that are derived from texts of tenants.
 */
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/sha1.h"
#include "provider/docker/docker_internal.h"

#define SHA256_BYTES 32

static void join(const char *prefix, const uint8_t *digest, size_t n,
                 char out[ATOLL_DOCKER_HASHED_MAX])
{
    size_t at = (size_t)snprintf(out, ATOLL_DOCKER_HASHED_MAX, "%s", prefix);

    for (size_t i = 0; i < n && at + 3 <= ATOLL_DOCKER_HASHED_MAX; i++, at += 2)
        (void)snprintf(out + at, 3, "%02x", digest[i]);
}

void atoll_docker_hashed_name(const char *prefix, const char *text,
                              char out[ATOLL_DOCKER_HASHED_MAX])
{
    uint8_t digest[SHA256_BYTES];

    if (EVP_Digest(text, strlen(text), digest, NULL, EVP_sha256(), NULL) != 1)
        abort(); /* out of memory: the daemon is crash-only */
    join(prefix, digest, sizeof(digest), out);
}

void atoll_docker_former_name(const char *prefix, const char *text,
                              char out[ATOLL_DOCKER_HASHED_MAX])
{
    uint8_t digest[ATOLL_SHA1_BYTES];

    atoll_sha1(text, strlen(text), digest);
    join(prefix, digest, sizeof(digest), out);
}

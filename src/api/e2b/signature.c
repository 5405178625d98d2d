/*
 * Signed file URLs: a hash over the request and the sandbox's token. If all sandboxes share one
 * address, the URL names no sandbox; the token that matches the signature identifies it.
 */
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>
#include "api/e2b/plane.h"
#include "base/base64.h"
#include "base/clock.h"
#include "base/text.h"

#define PREFIX "v1_"
#define HASH_BYTES 32

static void add(EVP_MD_CTX *ctx, const char *separator, const char *text)
{
    if (EVP_DigestUpdate(ctx, separator, strlen(separator)) != 1 ||
        EVP_DigestUpdate(ctx, text, strlen(text)) != 1)
        abort();
}

void atoll_e2b_sign(const struct atoll_e2b_signed *what, const char *token, char *out)
{
    uint8_t hash[EVP_MAX_MD_SIZE];
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    size_t n;

    if (!ctx || EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) != 1)
        abort();
    add(ctx, "", what->path);
    add(ctx, ":", what->operation);
    add(ctx, ":", what->user);
    add(ctx, ":", token);
    if (*what->expiration)
        add(ctx, ":", what->expiration);
    if (EVP_DigestFinal_ex(ctx, hash, NULL) != 1)
        abort();
    EVP_MD_CTX_free(ctx);
    memcpy(out, PREFIX, sizeof(PREFIX) - 1);
    atoll_base64_text(out + sizeof(PREFIX) - 1, hash, HASH_BYTES);
    n = strlen(out);
    while (n > 0 && out[n - 1] == '=')
        out[--n] = '\0';
}

static const char *query_or_empty(const struct atoll_http_request *req, const char *name)
{
    const char *value = atoll_http_query(req, name);
    return value ? value : "";
}

bool atoll_e2b_signature_fits(const struct atoll_http_request *req, const char *token)
{
    const char *shown = query_or_empty(req, "signature");
    struct atoll_e2b_signed what = {
        .path = query_or_empty(req, "path"),
        .operation = atoll_http_method(req) == ATOLL_POST ? "write" : "read",
        .user = query_or_empty(req, "username"),
        .expiration = query_or_empty(req, "signature_expiration"),
    };
    char right[ATOLL_E2B_SIGNATURE_MAX];

    atoll_e2b_sign(&what, token, right);
    return strlen(shown) == strlen(right) && CRYPTO_memcmp(shown, right, strlen(right)) == 0;
}

int atoll_e2b_signature_expired(const struct atoll_http_request *req)
{
    const char *text = query_or_empty(req, "signature_expiration");
    uint64_t seconds;

    if (!*text)
        return 0;
    if (atoll_text_u64(text, 0, INT64_MAX / 1000, &seconds) < 0)
        return -EINVAL;
    return (int64_t)seconds * 1000 < atoll_clock_unix_ms();
}

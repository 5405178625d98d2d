#include "api/kit/token.h"

#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "base/base64.h"

/* 32 bytes of a MAC in the URL-safe base64 alphabet, without padding. */
void atoll_token_make(const struct atoll_api *api, const char *purpose, const char *name, char *out)
{
    char text[256], encoded[48];
    uint8_t mac[EVP_MAX_MD_SIZE];
    int n = snprintf(text, sizeof(text), "%s\n%s", purpose, name);

    if (n < 0 || (size_t)n >= sizeof(text) ||
        !HMAC(EVP_sha256(), api->config.url_secret, ATOLL_URL_SECRET_BYTES, (const uint8_t *)text,
              (size_t)n, mac, NULL))
        abort();
    atoll_base64_text(encoded, mac, 32);
    for (size_t i = 0; i < ATOLL_TOKEN_LEN; i++)
        out[i] = encoded[i] == '+' ? '-' : encoded[i] == '/' ? '_' : encoded[i];
    out[ATOLL_TOKEN_LEN] = '\0';
}

bool atoll_token_fits(const char *shown, const char *token)
{
    return shown && strlen(shown) == ATOLL_TOKEN_LEN &&
           CRYPTO_memcmp(shown, token, ATOLL_TOKEN_LEN) == 0;
}

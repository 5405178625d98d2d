/*
 * Signed URLs of files: a client computes the signature from the key of the sandbox, without a request
 * to this daemon.
 */
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>
#include "api/daytona/daytona_internal.h"
#include "base/base64.h"
#include "base/clock.h"
#include "base/text.h"

#define PREFIX "v1_"
#define PATH_MAX_BYTES 4096

static void make_key(const struct atoll_api *api, const struct atoll_sandbox *sandbox,
                     char out[ATOLL_TOKEN_LEN + 1])
{
    json_t *facts = atoll_daytona_facts(sandbox);
    struct atoll_sandbox_view v;
    char name[100];

    atoll_sandbox_get(sandbox, &v);
    (void)snprintf(name, sizeof(name), "%s:%lld", v.id,
                   (long long)atoll_fact_number(facts, "keyNumber", 0));
    json_decref(facts);
    atoll_token_make(api, "atoll daytona files 1", name, out);
}

/* The path must be one of the routes for files: the signature covers the method and the file. */
static bool is_for_files(const struct atoll_http_request *req, const char **ret_method)
{
    static const struct {
        enum atoll_http_method method;
        const char *end, *name;
    } routes[] = {{ATOLL_GET, "/files/download", "GET"},
                  {ATOLL_POST, "/files/upload", "POST"},
                  {ATOLL_POST, "/files/upload-v2", "POST"}};
    const char *path = atoll_http_path(req);
    size_t n = strlen(path);

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(routes); i++) {
        size_t len = strlen(routes[i].end);
        if (atoll_http_method(req) == routes[i].method && n > len &&
            strcmp(path + n - len, routes[i].end) == 0) {
            *ret_method = routes[i].name;
            return true;
        }
    }
    return false;
}

static bool compute(const char *key, const char *method, const char *path, const char *expires,
                    char out[48])
{
    char text[PATH_MAX_BYTES + 64];
    uint8_t mac[EVP_MAX_MD_SIZE];
    int n = snprintf(text, sizeof(text), "v1:files:%s:%s:%s", method, path, expires);

    if (n < 0 || (size_t)n >= sizeof(text) ||
        !HMAC(EVP_sha256(), key, (int)strlen(key), (const uint8_t *)text, (size_t)n, mac, NULL))
        return false;
    atoll_base64_text(out, mac, 32);
    for (char *p = out; *p; p++)
        *p = *p == '+' ? '-' : *p == '/' ? '_' : *p;
    return true;
}

bool atoll_daytona_is_signed(const struct atoll_api_call *call)
{
    const struct atoll_sandbox *sandbox = atoll_engine_find(call->engine, call->params.id);
    const char *shown = atoll_http_query(call->req, "signature"), *method;
    const char *expires = atoll_http_query(call->req, "expires");
    const char *path = atoll_http_query(call->req, "path");
    char key[ATOLL_TOKEN_LEN + 1], wanted[48];
    uint64_t end;

    if (!sandbox || !shown || !expires || !path || !is_for_files(call->req, &method) ||
        strncmp(shown, PREFIX, strlen(PREFIX)) != 0 ||
        atoll_text_u64(expires, 0, UINT64_MAX / 2, &end) < 0)
        return false;
    if (end != 0 && end < (uint64_t)atoll_clock_unix_ms() / 1000)
        return false;
    make_key(call->api, sandbox, key);
    shown += strlen(PREFIX);
    return compute(key, method, path, expires, wanted) && strlen(shown) == ATOLL_TOKEN_LEN &&
           CRYPTO_memcmp(shown, wanted, ATOLL_TOKEN_LEN) == 0;
}

/* The key, as one JSON string. */
static void reply_key(struct atoll_api_call *call)
{
    const struct atoll_sandbox *sandbox = atoll_engine_find(call->engine, call->params.id);
    char key[ATOLL_TOKEN_LEN + 1];
    struct atoll_buf buf;
    struct atoll_json_out out;

    make_key(call->api, sandbox, key);
    atoll_api_reply_init(&buf, &out);
    atoll_json_text(&out, NULL, key);
    atoll_api_reply(call, 200, &out);
}

void atoll_daytona_signing_key(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                               size_t n ATOLL_UNUSED)
{
    reply_key(call);
}

void atoll_daytona_rotate_key(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                              size_t n ATOLL_UNUSED)
{
    const struct atoll_sandbox *sandbox = atoll_engine_find(call->engine, call->params.id);
    json_t *facts = atoll_daytona_facts(sandbox);
    int64_t number = atoll_fact_number(facts, "keyNumber", 0);
    struct atoll_error error;

    json_decref(facts);
    if (atoll_daytona_change(call->engine, call->params.id, "keyNumber", json_integer(number + 1),
                             &error) < 0)
        atoll_api_fail(call, &error);
    else
        reply_key(call);
}

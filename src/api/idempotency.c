#include "api/idempotency.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include "access/answers.h"
#include "api/api_internal.h"

#define KEY_MAX 255
#define HASH_BYTES ATOLL_ANSWER_REQUEST_BYTES

_Static_assert(ATOLL_ANSWER_NAME_LEN == 2 * HASH_BYTES, "a name is a hash in hex");

/* Each text is preceded by its length, so that different lists give different input. */
static void hash(uint8_t *out, const char *const *texts, size_t count, const uint8_t *body,
                 size_t n)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool ok = ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1;

    for (size_t i = 0; ok && i < count; i++) {
        uint64_t len = strlen(texts[i]);
        ok = EVP_DigestUpdate(ctx, &len, sizeof(len)) == 1 &&
             EVP_DigestUpdate(ctx, texts[i], (size_t)len) == 1;
    }
    if (!ok || (n > 0 && EVP_DigestUpdate(ctx, body, n) != 1) ||
        EVP_DigestFinal_ex(ctx, out, NULL) != 1)
        abort(); /* SHA-256 fails only when out of memory */
    EVP_MD_CTX_free(ctx);
}

static void name_of(const struct atoll_api_call *call, const char *key, char *out)
{
    const char *texts[] = {call->caller.tenant,
                           atoll_http_method_name(atoll_http_method(call->req)), call->route->path,
                           key};
    uint8_t digest[HASH_BYTES], tenant[HASH_BYTES];

    hash(digest, texts, ATOLL_ARRAY_LEN(texts), NULL, 0);
    hash(tenant, texts, 1, NULL, 0);
    memcpy(digest, tenant, ATOLL_ANSWER_OWNER_LEN / 2);
    for (size_t i = 0; i < HASH_BYTES; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", digest[i]);
}

static void refuse(struct atoll_api_call *call, enum atoll_error_kind kind, int errnum,
                   const char *text)
{
    struct atoll_error error;

    (void)atoll_fail(&error, kind, errnum, "%s", text);
    atoll_api_fail(call, &error);
}

static void replay(struct atoll_api_call *call, const struct atoll_kept_answer *e,
                   const uint8_t *request)
{
    if (memcmp(e->request, request, HASH_BYTES) != 0) {
        refuse(call, ATOLL_ERR_FAILED_PRECONDITION, EEXIST,
               "this Idempotency-Key was used for another request; use a new one");
    } else if (e->status == 0) {
        refuse(call, ATOLL_ERR_ABORTED, EINPROGRESS,
               "the first request with this Idempotency-Key is still under way");
    } else if (!e->text) {
        refuse(call, ATOLL_ERR_FAILED_PRECONDITION, E2BIG,
               "the first request succeeded, but its response was too large to store");
    } else {
        struct atoll_buf buf;
        struct atoll_json_out out;
        (void)atoll_http_set_header(call->req, "Idempotency-Replayed", "true");
        atoll_api_reply_init(&buf, &out);
        atoll_json_raw(&out, NULL, e->text);
        atoll_api_reply(call, e->status, &out);
    }
}

static bool is_key(const char *key)
{
    size_t n = strlen(key);

    for (size_t i = 0; i < n; i++)
        if (key[i] < 0x21 || key[i] > 0x7e)
            return false;
    return n >= 1 && n <= KEY_MAX;
}

bool atoll_idempotency_check(struct atoll_api_call *call, const uint8_t *body, size_t n)
{
    struct atoll_answers *answers = call->api->answers;
    const char *key = atoll_http_header(call->req, "idempotency-key");
    const char *target = atoll_http_target(call->req);
    char name[ATOLL_ANSWER_NAME_LEN + 1];
    uint8_t request[HASH_BYTES];
    const struct atoll_kept_answer *e;

    if (!key)
        return false;
    if (!is_key(key)) {
        refuse(call, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
               "Idempotency-Key must be 1 to 255 visible ASCII characters");
        return true;
    }
    name_of(call, key, name);
    hash(request, &target, 1, body, n);
    e = atoll_answers_find(answers, name);
    if (e) {
        replay(call, e, request);
        return true;
    }
    call->idempotency = atoll_answers_begin(answers, name, request);
    if (!call->idempotency)
        refuse(call, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
               "too many requests with an Idempotency-Key are under way");
    return !call->idempotency;
}

void atoll_idempotency_answered(struct atoll_api_call *call, int status, const void *bytes,
                                size_t n)
{
    if (!call->idempotency)
        return;
    if (status < 200 || status > 299) {
        atoll_idempotency_forget(call);
        return;
    }
    /* Without the final line break: the replay adds its own. */
    atoll_answers_keep(call->api->answers, ATOLL_TAKE_PTR(call->idempotency), status, bytes,
                       n > 0 ? n - 1 : 0);
}

void atoll_idempotency_forget(struct atoll_api_call *call)
{
    struct atoll_kept_answer *answer = ATOLL_TAKE_PTR(call->idempotency);

    if (answer)
        atoll_answers_forget(call->api->answers, answer);
}

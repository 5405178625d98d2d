#include "api/repeats.h"

#include <openssl/evp.h>
#include <string.h>
#include "api/api_internal.h"
#include "base/clock.h"

#define HASH_BYTES 32
#define REPEATS_MAX 1024 /* under way and kept; the oldest kept one makes room */
#define TEXT_MAX ((size_t)64 * 1024)

struct atoll_repeat {
    struct atoll_list node;
    uint8_t hash[HASH_BYTES];
    struct atoll_api_call *call; /* under way; NULL: it has ended, and this is kept */
    int64_t until_us;
    int status; /* 0: `text` was left by the handler; else it is the answer */
    char *text; /* owned; NULL: nothing is kept yet */
};

static struct atoll_repeat *next_of(struct atoll_api *api, const struct atoll_list *at)
{
    return at->next == &api->repeats ? NULL
                                     : ATOLL_CONTAINER_OF(at->next, struct atoll_repeat, node);
}

static void repeat_free(struct atoll_api *api, struct atoll_repeat *r)
{
    atoll_list_remove(&r->node);
    api->repeat_count--;
    free(r->text);
    free(r);
}

/* Each text is preceded by its length, so that different lists give different input. */
static void hash_of(const struct atoll_api_call *call, const uint8_t *body, size_t n, uint8_t *out)
{
    const char *texts[] = {call->caller.tenant,
                           atoll_http_method_name(atoll_http_method(call->req)),
                           atoll_http_target(call->req)};
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool ok = ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1;

    for (size_t i = 0; ok && i < ATOLL_ARRAY_LEN(texts); i++) {
        uint64_t len = strlen(texts[i]);
        ok = EVP_DigestUpdate(ctx, &len, sizeof(len)) == 1 &&
             EVP_DigestUpdate(ctx, texts[i], (size_t)len) == 1;
    }
    if (!ok || (n > 0 && EVP_DigestUpdate(ctx, body, n) != 1) ||
        EVP_DigestFinal_ex(ctx, out, NULL) != 1)
        abort(); /* SHA-256 fails only when out of memory */
    EVP_MD_CTX_free(ctx);
}

/* Removes what was kept for long enough, and the oldest kept one if there is no room. */
static void make_room(struct atoll_api *api)
{
    const int64_t now_us = atoll_clock_us();
    struct atoll_repeat *r = next_of(api, &api->repeats), *oldest = NULL;

    while (r) {
        struct atoll_repeat *next = next_of(api, &r->node);
        if (!r->call && r->until_us <= now_us)
            repeat_free(api, r);
        else if (!r->call && !oldest)
            oldest = r;
        r = next;
    }
    if (oldest && api->repeat_count >= REPEATS_MAX)
        repeat_free(api, oldest);
}

/* The oldest equal request whose client is gone. */
static struct atoll_repeat *find(struct atoll_api *api, const uint8_t *hash)
{
    for (struct atoll_repeat *r = next_of(api, &api->repeats); r; r = next_of(api, &r->node))
        if (memcmp(r->hash, hash, HASH_BYTES) == 0 &&
            (!r->call || atoll_api_client_is_gone(r->call)))
            return r;
    return NULL;
}

static void replay(struct atoll_api_call *call, struct atoll_repeat *r)
{
    ATOLL_AUTOFREE char *text = ATOLL_TAKE_PTR(r->text);
    int status = r->status;

    repeat_free(call->api, r);
    atoll_api_reply_text(call, status, "application/json", text, strlen(text));
}

bool atoll_repeat_check(struct atoll_api_call *call, const uint8_t *body, size_t n, char **ret_left)
{
    struct atoll_api *api = call->api;
    uint8_t hash[HASH_BYTES];
    struct atoll_repeat *r;

    if (ret_left)
        *ret_left = NULL;
    hash_of(call, body, n, hash);
    make_room(api);
    r = find(api, hash);
    if (r && r->call) {
        atoll_api_take_over(r->call, call);
        return true;
    }
    if (r && r->status != 0) {
        replay(call, r);
        return true;
    }
    if (r && ret_left)
        *ret_left = ATOLL_TAKE_PTR(r->text);
    if (r)
        repeat_free(api, r);
    if (api->repeat_count >= REPEATS_MAX)
        return false;
    r = atoll_api_alloc(sizeof(*r));
    memcpy(r->hash, hash, sizeof(hash));
    r->call = call;
    call->repeat = r;
    atoll_list_push_back(&api->repeats, &r->node);
    api->repeat_count++;
    return false;
}

static void keep(struct atoll_api_call *call, int status, const char *text, size_t n)
{
    struct atoll_repeat *r = ATOLL_TAKE_PTR(call->repeat);

    if (!r)
        return;
    r->text = n <= TEXT_MAX ? strndup(text ? text : "", n) : NULL;
    if (!r->text) {
        repeat_free(call->api, r);
        return;
    }
    r->call = NULL;
    r->status = status;
    r->until_us = atoll_clock_us() + ATOLL_REPEAT_MS * INT64_C(1000);
}

void atoll_repeat_leave(struct atoll_api_call *call, const char *text)
{
    keep(call, 0, text, strlen(text));
}

void atoll_repeat_answered(struct atoll_api_call *call, int status, const void *bytes, size_t n)
{
    if (call->repeat && status >= 200 && status <= 299 && atoll_api_client_is_gone(call))
        keep(call, status, bytes, n);
}

void atoll_repeat_ended(struct atoll_api_call *call)
{
    struct atoll_repeat *r = ATOLL_TAKE_PTR(call->repeat);

    if (r)
        repeat_free(call->api, r);
}

void atoll_repeats_drop(struct atoll_api *api)
{
    struct atoll_repeat *r;

    while ((r = next_of(api, &api->repeats))) {
        if (r->call)
            r->call->repeat = NULL;
        repeat_free(api, r);
    }
}

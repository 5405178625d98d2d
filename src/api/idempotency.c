#include "api/idempotency.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "base/clock.h"
#include "base/map.h"

#define KEEP_MS (INT64_C(24) * 3600 * 1000)
#define ENTRIES_MAX 4096
#define BYTES_MAX ((size_t)32 * 1024 * 1024)
#define ANSWER_MAX ((size_t)4 * 1024 * 1024)
#define KEY_MAX 255
#define HASH_BYTES 32

struct atoll_idempotency_entry {
    struct atoll_list node;        /* in keys->by_age */
    char name[2 * HASH_BYTES + 1]; /* who, what and the key, hashed */
    uint8_t request[HASH_BYTES];   /* target and body */
    int64_t until_ms;
    int status;   /* 0 while the first request is under way */
    char *answer; /* owned; NULL when it was too large to keep */
    size_t len;
};

struct atoll_idempotency {
    struct atoll_map entries; /* by name, owned */
    struct atoll_list by_age; /* oldest first */
    size_t bytes;
};

struct atoll_idempotency *atoll_idempotency_new(void)
{
    struct atoll_idempotency *keys = atoll_api_alloc(sizeof(*keys));

    atoll_map_init(&keys->entries);
    atoll_list_init(&keys->by_age);
    return keys;
}

static void entry_remove(struct atoll_idempotency *keys, struct atoll_idempotency_entry *e)
{
    (void)atoll_map_remove(&keys->entries, e->name);
    atoll_list_remove(&e->node);
    keys->bytes -= e->len;
    free(e->answer);
    free(e);
}

struct atoll_idempotency *atoll_idempotency_free(struct atoll_idempotency *keys)
{
    if (!keys)
        return NULL;
    while (!atoll_list_empty(&keys->by_age))
        entry_remove(keys,
                     ATOLL_CONTAINER_OF(keys->by_age.next, struct atoll_idempotency_entry, node));
    atoll_map_done(&keys->entries);
    free(keys);
    return NULL;
}

/* What has expired goes, and beyond the limits the oldest that is answered. */
static void make_room(struct atoll_idempotency *keys, size_t count, size_t bytes)
{
    int64_t now = atoll_clock_ms();

    ATOLL_LIST_FOREACH (&keys->by_age, node) {
        struct atoll_idempotency_entry *e =
            ATOLL_CONTAINER_OF(node, struct atoll_idempotency_entry, node);
        bool full = keys->entries.used + count > ENTRIES_MAX || keys->bytes + bytes > BYTES_MAX;
        if (!full && e->until_ms > now)
            break;
        if (e->status != 0)
            entry_remove(keys, e);
    }
}

/* Each text with its length before it, so that no two lists of texts look alike. */
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
        abort(); /* SHA-256 does not fail but for lack of memory */
    EVP_MD_CTX_free(ctx);
}

static void name_of(const struct atoll_api_call *call, const char *key, char *out)
{
    const char *texts[] = {call->caller.tenant,
                           atoll_http_method_name(atoll_http_method(call->req)), call->route->path,
                           key};
    uint8_t digest[HASH_BYTES];

    hash(digest, texts, ATOLL_ARRAY_LEN(texts), NULL, 0);
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

static void replay(struct atoll_api_call *call, const struct atoll_idempotency_entry *e,
                   const uint8_t *request)
{
    if (memcmp(e->request, request, HASH_BYTES) != 0) {
        refuse(call, ATOLL_ERR_FAILED_PRECONDITION, EEXIST,
               "this Idempotency-Key was used for another request; use a new one");
    } else if (e->status == 0) {
        refuse(call, ATOLL_ERR_ABORTED, EINPROGRESS,
               "the first request with this Idempotency-Key is still under way");
    } else if (!e->answer) {
        refuse(call, ATOLL_ERR_FAILED_PRECONDITION, E2BIG,
               "this was done before, but its answer was too large to keep");
    } else {
        struct atoll_buf buf;
        struct atoll_json_out out;
        (void)atoll_http_set_header(call->req, "Idempotency-Replayed", "true");
        atoll_api_reply_init(&buf, &out);
        atoll_json_raw(&out, NULL, e->answer);
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

static bool remember(struct atoll_idempotency *keys, struct atoll_api_call *call, const char *name,
                     const uint8_t *request)
{
    struct atoll_idempotency_entry *e;

    make_room(keys, 1, 0);
    if (keys->entries.used >= ENTRIES_MAX)
        return false;
    e = atoll_api_alloc(sizeof(*e));
    memcpy(e->name, name, sizeof(e->name));
    memcpy(e->request, request, sizeof(e->request));
    e->until_ms = atoll_clock_ms() + KEEP_MS;
    if (atoll_map_put(&keys->entries, e->name, e) < 0)
        abort(); /* a small fixed object: the daemon is crash-only */
    atoll_list_push_back(&keys->by_age, &e->node);
    call->idempotency = e;
    return true;
}

bool atoll_idempotency_check(struct atoll_api_call *call, const uint8_t *body, size_t n)
{
    struct atoll_idempotency *keys = call->api->idempotency;
    const char *key = atoll_http_header(call->req, "idempotency-key");
    const char *target = atoll_http_target(call->req);
    char name[2 * HASH_BYTES + 1];
    uint8_t request[HASH_BYTES];
    const struct atoll_idempotency_entry *e;

    if (!key)
        return false;
    if (!is_key(key)) {
        refuse(call, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
               "Idempotency-Key must be 1 to 255 visible ASCII characters");
        return true;
    }
    name_of(call, key, name);
    hash(request, &target, 1, body, n);
    make_room(keys, 0, 0);
    e = atoll_map_get(&keys->entries, name);
    if (e)
        replay(call, e, request);
    else if (remember(keys, call, name, request))
        return false;
    else
        refuse(call, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
               "too many requests with an Idempotency-Key are under way");
    return true;
}

void atoll_idempotency_answered(struct atoll_api_call *call, int status, const void *bytes,
                                size_t n)
{
    struct atoll_idempotency *keys = call->api->idempotency;
    struct atoll_idempotency_entry *e = call->idempotency;

    if (!e)
        return;
    if (status < 200 || status > 299) {
        atoll_idempotency_forget(call);
        return;
    }
    call->idempotency = NULL;
    e->status = status;
    if (n > ANSWER_MAX)
        return;
    make_room(keys, 0, n);
    /* Without the line break at the end: the next answer gets its own. */
    e->answer = strndup(bytes, n > 0 ? n - 1 : 0);
    if (!e->answer)
        abort();
    e->len = n;
    keys->bytes += n;
}

void atoll_idempotency_forget(struct atoll_api_call *call)
{
    struct atoll_idempotency_entry *e = ATOLL_TAKE_PTR(call->idempotency);

    if (e)
        entry_remove(call->api->idempotency, e);
}

#include "access/sandbox_tokens.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/map.h"
#include "base/rand.h"
#include "base/text.h"
#include "store/sandbox_tokens.h"

#define PREFIX_LEN (sizeof(ATOLL_SANDBOX_TOKEN_PREFIX) - 1)

struct token {
    struct atoll_store_sandbox_token row;
    char hash[2 * SHA256_DIGEST_LENGTH + 1]; /* in hex */
};

struct atoll_sandbox_tokens {
    struct atoll_store *store; /* borrowed, or NULL */
    struct atoll_map by_hash;  /* of struct token, owned */
};

static void view_of(const struct token *t, struct atoll_sandbox_token_view *ret)
{
    *ret = (struct atoll_sandbox_token_view){
        .id = t->row.id,
        .sandbox_id = t->row.sandbox_id,
        .created_unix_ms = t->row.created_unix_ms,
        .expires_unix_ms = t->row.expires_unix_ms,
    };
}

static void hash_text(const uint8_t *sha256, char *out)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < SHA256_DIGEST_LENGTH; i++) {
        out[2 * i] = digits[sha256[i] >> 4];
        out[2 * i + 1] = digits[sha256[i] & 15];
    }
    out[2 * SHA256_DIGEST_LENGTH] = '\0';
}

static int hold(struct atoll_sandbox_tokens *tokens, const struct atoll_store_sandbox_token *row,
                struct token **ret, struct atoll_error *err)
{
    struct token *t = calloc(1, sizeof(*t));
    int r = -ENOMEM;

    if (t) {
        t->row = *row;
        hash_text(row->sha256, t->hash);
        r = atoll_map_put(&tokens->by_hash, t->hash, t);
    }
    if (r < 0) {
        free(t);
        return atoll_fail_errno(err, -r, "token of a sandbox");
    }
    *ret = t;
    return 0;
}

static int load(void *arg, const struct atoll_store_sandbox_token *row, struct atoll_error *err)
{
    struct token *unused;

    if (!atoll_text_is_id(row->sandbox_id) || !atoll_text_is_id(row->id))
        return atoll_fail(err, ATOLL_ERR_INTERNAL, EBADMSG,
                          "the store holds a malformed token of a sandbox");
    return hold(arg, row, &unused, err);
}

int atoll_sandbox_tokens_new(struct atoll_store *store, struct atoll_sandbox_tokens **ret,
                             struct atoll_error *err)
{
    struct atoll_sandbox_tokens *tokens = calloc(1, sizeof(*tokens));
    int r = 0;

    if (!tokens)
        return atoll_fail_errno(err, ENOMEM, "tokens of sandboxes");
    tokens->store = store;
    atoll_map_init(&tokens->by_hash);
    if (store)
        r = atoll_store_each_sandbox_token(store, load, tokens, err);
    if (r < 0) {
        (void)atoll_sandbox_tokens_free(tokens);
        return r;
    }
    *ret = tokens;
    return 0;
}

struct atoll_sandbox_tokens *atoll_sandbox_tokens_free(struct atoll_sandbox_tokens *tokens)
{
    struct token *t;

    if (!tokens)
        return NULL;
    for (size_t pos = 0; (t = atoll_map_next(&tokens->by_hash, &pos));)
        free(t);
    atoll_map_done(&tokens->by_hash);
    free(tokens);
    return NULL;
}

/* Lookup. */

bool atoll_sandbox_token_is_valid(const char *text)
{
    return strlen(text) == ATOLL_SANDBOX_TOKEN_LEN &&
           strncmp(text, ATOLL_SANDBOX_TOKEN_PREFIX, PREFIX_LEN) == 0 &&
           strspn(text + PREFIX_LEN, "abcdefghijklmnopqrstuvwxyz0123456789") ==
               ATOLL_SANDBOX_TOKEN_LEN - PREFIX_LEN;
}

static bool is_over(const struct token *t)
{
    return t->row.expires_unix_ms <= atoll_clock_unix_ms();
}

/* The timing of the map lookup depends only on the hash, which a client cannot choose. The comparison
 * that decides takes constant time and is made for unknown tokens too. */
bool atoll_sandbox_tokens_find(const struct atoll_sandbox_tokens *tokens, const char *shown,
                               struct atoll_sandbox_token_view *ret)
{
    static const uint8_t unknown[SHA256_DIGEST_LENGTH];
    uint8_t sha256[SHA256_DIGEST_LENGTH];
    char hash[2 * SHA256_DIGEST_LENGTH + 1];
    const struct token *found;

    (void)SHA256((const uint8_t *)shown, strlen(shown), sha256);
    hash_text(sha256, hash);
    found = atoll_map_get(&tokens->by_hash, hash);
    if (CRYPTO_memcmp(sha256, found ? found->row.sha256 : unknown, sizeof(sha256)) != 0 || !found ||
        is_over(found))
        return false;
    view_of(found, ret);
    return true;
}

bool atoll_sandbox_tokens_next(const struct atoll_sandbox_tokens *tokens, const char *sandbox_id,
                               size_t *pos, struct atoll_sandbox_token_view *ret)
{
    const struct token *t;

    while ((t = atoll_map_next(&tokens->by_hash, pos)))
        if (!sandbox_id || strcmp(t->row.sandbox_id, sandbox_id) == 0) {
            view_of(t, ret);
            return true;
        }
    return false;
}

/* Changes: stored first, then applied in memory. */

static void release(struct atoll_sandbox_tokens *tokens, struct token *t)
{
    (void)atoll_map_remove(&tokens->by_hash, t->hash);
    free(t);
}

static int drop(struct atoll_sandbox_tokens *tokens, struct token *t, struct atoll_error *err)
{
    int r = tokens->store ? atoll_store_drop_sandbox_token(tokens->store, t->row.id, err) : 0;

    if (r == 0)
        release(tokens, t);
    return r;
}

/* Drops what is over, and counts the rest. */
static int count(struct atoll_sandbox_tokens *tokens, const char *sandbox_id, size_t *ret,
                 struct atoll_error *err)
{
    struct token *t;
    int r = 0;

    *ret = 0;
    for (size_t pos = 0; r == 0 && (t = atoll_map_next(&tokens->by_hash, &pos));) {
        if (strcmp(t->row.sandbox_id, sandbox_id) != 0)
            continue;
        if (is_over(t))
            r = drop(tokens, t, err);
        else
            (*ret)++;
    }
    return r;
}

int atoll_sandbox_tokens_create(struct atoll_sandbox_tokens *tokens, const char *sandbox_id,
                                int64_t expires_unix_ms, char *ret_token,
                                struct atoll_sandbox_token_view *ret, struct atoll_error *err)
{
    struct atoll_store_sandbox_token row = {.created_unix_ms = atoll_clock_unix_ms(),
                                            .expires_unix_ms = expires_unix_ms};
    struct token *held;
    size_t n;
    int r = count(tokens, sandbox_id, &n, err);

    if (r < 0)
        return r;
    if (n >= ATOLL_SANDBOX_TOKENS_EACH)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOBUFS,
                          "a sandbox has at most %d tokens at a time; end some of them first",
                          ATOLL_SANDBOX_TOKENS_EACH);
    if (atoll_text_copy(row.sandbox_id, sizeof(row.sandbox_id), sandbox_id) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "not a sandbox id");
    memcpy(ret_token, ATOLL_SANDBOX_TOKEN_PREFIX, sizeof(ATOLL_SANDBOX_TOKEN_PREFIX));
    atoll_rand_id(ret_token + PREFIX_LEN, ATOLL_SANDBOX_TOKEN_LEN - PREFIX_LEN);
    atoll_rand_id(row.id, ATOLL_SANDBOX_TOKEN_ID_LEN);
    (void)SHA256((const uint8_t *)ret_token, ATOLL_SANDBOX_TOKEN_LEN, row.sha256);
    if (tokens->store)
        r = atoll_store_add_sandbox_token(tokens->store, &row, err);
    if (r == 0)
        r = hold(tokens, &row, &held, err);
    if (r == 0)
        view_of(held, ret);
    return r;
}

int atoll_sandbox_tokens_remove(struct atoll_sandbox_tokens *tokens, const char *sandbox_id,
                                const char *id, struct atoll_error *err)
{
    struct token *t;

    for (size_t pos = 0; (t = atoll_map_next(&tokens->by_hash, &pos));)
        if (strcmp(t->row.sandbox_id, sandbox_id) == 0 && strcmp(t->row.id, id) == 0)
            return drop(tokens, t, err);
    return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "sandbox %s has no token %.32s", sandbox_id,
                      id);
}

static void release_all(struct atoll_sandbox_tokens *tokens, const char *sandbox_id)
{
    struct token *t;

    for (size_t pos = 0; (t = atoll_map_next(&tokens->by_hash, &pos));)
        if (strcmp(t->row.sandbox_id, sandbox_id) == 0)
            release(tokens, t);
}

int atoll_sandbox_tokens_clear(struct atoll_sandbox_tokens *tokens, const char *sandbox_id,
                               struct atoll_error *err)
{
    int r = tokens->store ? atoll_store_drop_sandbox_tokens(tokens->store, sandbox_id, err) : 0;

    if (r == 0)
        release_all(tokens, sandbox_id);
    return r;
}

void atoll_sandbox_tokens_forget(struct atoll_sandbox_tokens *tokens, const char *sandbox_id)
{
    struct atoll_sandbox_token_view view;
    size_t pos = 0;

    if (!atoll_sandbox_tokens_next(tokens, sandbox_id, &pos, &view))
        return;
    if (tokens->store)
        (void)!atoll_store_drop_sandbox_tokens(tokens->store, sandbox_id, NULL);
    release_all(tokens, sandbox_id);
}

#include "access/access.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/map.h"
#include "base/rand.h"
#include "base/text.h"
#include "store/keys.h"

#define KEY_RANDOM (ATOLL_KEY_LEN - (sizeof(ATOLL_KEY_PREFIX) - 1))

struct key {
    struct atoll_key_row row;
    enum atoll_scope scope;
    char hash[2 * SHA256_DIGEST_LENGTH + 1]; /* in hex */
};

struct atoll_access {
    struct atoll_store *store; /* borrowed, or NULL */
    struct atoll_map by_id;    /* of struct key, owned */
    struct atoll_map by_hash;  /* of the same struct key, borrowed */
};

static const char *const scope_names[] = {
    [ATOLL_SCOPE_PUBLIC] = "public", [ATOLL_SCOPE_READ] = "read",   [ATOLL_SCOPE_TOOLS] = "tools",
    [ATOLL_SCOPE_WRITE] = "write",   [ATOLL_SCOPE_ADMIN] = "admin",
};

/* Numbers in the store stay what they are when a scope is added between others. */
static const uint8_t stored_scopes[] = {
    [ATOLL_SCOPE_READ] = 1,
    [ATOLL_SCOPE_WRITE] = 2,
    [ATOLL_SCOPE_ADMIN] = 3,
    [ATOLL_SCOPE_TOOLS] = 4,
};

static int scope_of_stored(uint8_t stored, enum atoll_scope *ret)
{
    for (size_t i = ATOLL_SCOPE_READ; i < ATOLL_ARRAY_LEN(stored_scopes); i++)
        if (stored_scopes[i] == stored) {
            *ret = (enum atoll_scope)i;
            return 0;
        }
    return -EBADMSG;
}

const char *atoll_scope_name(enum atoll_scope scope)
{
    return (size_t)scope < ATOLL_ARRAY_LEN(scope_names) ? scope_names[scope] : "unknown";
}

int atoll_scope_by_name(const char *name, enum atoll_scope *ret_scope)
{
    for (size_t i = ATOLL_SCOPE_READ; i < ATOLL_ARRAY_LEN(scope_names); i++)
        if (strcmp(name, scope_names[i]) == 0) {
            *ret_scope = (enum atoll_scope)i;
            return 0;
        }
    return -EINVAL;
}

/* Keys in memory. */

static void view_of(const struct key *key, struct atoll_key_view *ret)
{
    *ret = (struct atoll_key_view){
        .id = key->row.id,
        .tenant = key->row.tenant,
        .scope = key->scope,
        .created_unix_ms = key->row.created_unix_ms,
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

static int hold(struct atoll_access *access, const struct atoll_key_row *row, struct key **ret)
{
    struct key *key = calloc(1, sizeof(*key));
    int r;

    if (!key)
        return -ENOMEM;
    key->row = *row;
    r = scope_of_stored(row->scope, &key->scope);
    if (r < 0) {
        free(key);
        return r;
    }
    hash_text(row->sha256, key->hash);
    r = atoll_map_put(&access->by_hash, key->hash, key);
    if (r == 0 && (r = atoll_map_put(&access->by_id, key->row.id, key)) < 0)
        (void)atoll_map_remove(&access->by_hash, key->hash);
    if (r < 0)
        free(key);
    else if (ret)
        *ret = key;
    return r;
}

static int hold_loaded(void *arg, const struct atoll_key_row *row)
{
    return hold(arg, row, NULL);
}

int atoll_access_new(struct atoll_store *store, struct atoll_access **ret, struct atoll_error *err)
{
    struct atoll_access *access = calloc(1, sizeof(*access));
    int r = 0;

    if (!access)
        return atoll_fail_errno(err, ENOMEM, "API keys");
    access->store = store;
    atoll_map_init(&access->by_id);
    atoll_map_init(&access->by_hash);
    if (store)
        r = atoll_keys_load(store, hold_loaded, access, err);
    if (r < 0) {
        (void)atoll_access_free(access);
        return r;
    }
    *ret = access;
    return 0;
}

struct atoll_access *atoll_access_free(struct atoll_access *access)
{
    struct key *key;
    size_t pos = 0;

    if (!access)
        return NULL;
    while ((key = atoll_map_next(&access->by_id, &pos)))
        free(key);
    atoll_map_done(&access->by_id);
    atoll_map_done(&access->by_hash);
    free(access);
    return NULL;
}

/* Lookup. */

bool atoll_key_is_valid(const char *key)
{
    size_t prefix = sizeof(ATOLL_KEY_PREFIX) - 1;

    return strlen(key) == ATOLL_KEY_LEN && strncmp(key, ATOLL_KEY_PREFIX, prefix) == 0 &&
           strspn(key + prefix, "abcdefghijklmnopqrstuvwxyz0123456789") == KEY_RANDOM;
}

void atoll_key_generate(char *out)
{
    memcpy(out, ATOLL_KEY_PREFIX, sizeof(ATOLL_KEY_PREFIX));
    atoll_rand_id(out + sizeof(ATOLL_KEY_PREFIX) - 1, KEY_RANDOM);
}

bool atoll_access_find(const struct atoll_access *access, const char *shown,
                       struct atoll_key_view *ret)
{
    static const uint8_t unknown[SHA256_DIGEST_LENGTH];
    uint8_t sha256[SHA256_DIGEST_LENGTH];
    char hash[2 * SHA256_DIGEST_LENGTH + 1];
    const struct key *found;

    (void)SHA256((const uint8_t *)shown, strlen(shown), sha256);
    hash_text(sha256, hash);
    found = atoll_map_get(&access->by_hash, hash);
    /* The timing of the map lookup depends only on the hash, which a client cannot choose. The
     * comparison that decides takes constant time and is made for unknown keys too. */
    if (CRYPTO_memcmp(sha256, found ? found->row.sha256 : unknown, sizeof(sha256)) != 0 || !found)
        return false;
    view_of(found, ret);
    return true;
}

bool atoll_access_next(const struct atoll_access *access, size_t *pos, struct atoll_key_view *ret)
{
    const struct key *key = atoll_map_next(&access->by_id, pos);

    if (key)
        view_of(key, ret);
    return key;
}

bool atoll_access_has_admin(const struct atoll_access *access)
{
    struct atoll_key_view view;
    size_t pos = 0;

    while (atoll_access_next(access, &pos, &view))
        if (view.scope == ATOLL_SCOPE_ADMIN)
            return true;
    return false;
}

/* Changes: stored first, then applied in memory. */

static int check_new(const struct atoll_access *access, const char *tenant, enum atoll_scope scope,
                     struct atoll_error *err)
{
    if (!atoll_text_is_name(tenant))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "\"%.64s\" is not a tenant name: a letter or digit, then up to 63 of "
                          "letters, digits, \".\", \"_\" and \"-\"",
                          tenant);
    if (scope < ATOLL_SCOPE_READ || scope > ATOLL_SCOPE_ADMIN)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "the scope of a key is read, tools, write or admin");
    if (access->by_id.used >= ATOLL_KEYS_MAX)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                          "there are %d API keys already, the maximum; remove some first",
                          ATOLL_KEYS_MAX);
    return 0;
}

int atoll_access_add(struct atoll_access *access, const char *key, const char *tenant,
                     enum atoll_scope scope, struct atoll_key_view *ret, struct atoll_error *err)
{
    struct atoll_key_row row = {.created_unix_ms = atoll_clock_unix_ms()};
    struct key *held;
    int r = check_new(access, tenant, scope, err);

    if (r < 0)
        return r;
    row.scope = stored_scopes[scope];
    (void)SHA256((const uint8_t *)key, strlen(key), row.sha256);
    atoll_rand_id(row.id, ATOLL_KEY_ID_LEN);
    (void)snprintf(row.tenant, sizeof(row.tenant), "%s", tenant);
    r = hold(access, &row, &held);
    if (r < 0)
        return r == -EEXIST
                   ? atoll_fail(err, ATOLL_ERR_ALREADY_EXISTS, EEXIST, "this key exists already")
                   : atoll_fail_errno(err, -r, "API key");
    if (access->store && (r = atoll_keys_add(access->store, &row, err)) < 0) {
        (void)atoll_map_remove(&access->by_hash, held->hash);
        (void)atoll_map_remove(&access->by_id, held->row.id);
        free(held);
        return r;
    }
    view_of(held, ret);
    return 0;
}

int atoll_access_create(struct atoll_access *access, const char *tenant, enum atoll_scope scope,
                        char *ret_key, struct atoll_key_view *ret, struct atoll_error *err)
{
    char key[ATOLL_KEY_LEN + 1];
    int r;

    atoll_key_generate(key);
    r = atoll_access_add(access, key, tenant, scope, ret, err);
    if (r == 0)
        memcpy(ret_key, key, sizeof(key));
    OPENSSL_cleanse(key, sizeof(key));
    return r;
}

int atoll_access_remove(struct atoll_access *access, const char *id, struct atoll_error *err)
{
    struct key *key = atoll_map_get(&access->by_id, id);
    int r = 0;

    if (!key)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no key %.32s", id);
    if (access->store)
        r = atoll_keys_remove(access->store, id, err);
    if (r < 0)
        return r;
    (void)atoll_map_remove(&access->by_hash, key->hash);
    (void)atoll_map_remove(&access->by_id, key->row.id);
    free(key);
    return 0;
}

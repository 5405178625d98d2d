#pragma once
#include "base/error.h"

/*
 * Authentication: tenants and their API keys. A tenant is a name; it exists while a key or a
 * sandbox has it. All keys are held in memory, indexed by the hash of the key. A change takes
 * effect after the store has it.
 *
 * Blocking: as store/keys.h, for changes only. Thread: the loop's.
 */
struct atoll_access;
struct atoll_store;

#define ATOLL_TENANT_DEFAULT "default"

/* Each scope includes those before it. */
enum atoll_scope {
    ATOLL_SCOPE_PUBLIC, /* no key needed */
    ATOLL_SCOPE_READ,
    ATOLL_SCOPE_TOOLS, /* also calls tools, which the guard may refuse; changes nothing about the guard */
    ATOLL_SCOPE_WRITE,
    ATOLL_SCOPE_ADMIN, /* administers the daemon: keys, templates, all tenants */
};
/* "read" and so on. */
const char *atoll_scope_name(enum atoll_scope scope);
/* -EINVAL when no key can have a scope of that name. */
int atoll_scope_by_name(const char *name, enum atoll_scope *ret_scope) ATOLL_MUST_CHECK;

#define ATOLL_KEY_PREFIX "atl_"
#define ATOLL_KEY_LEN 44 /* "atl_" and 40 characters of a-z0-9: 206 random bits */
#define ATOLL_KEYS_MAX 10000

struct atoll_key_view {
    const char *id, *tenant;
    enum atoll_scope scope;
    int64_t created_unix_ms;
};

/* store is borrowed; NULL: keys are not stored, for tests. */
int atoll_access_new(struct atoll_store *store, struct atoll_access **ret,
                     struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_access *atoll_access_free(struct atoll_access *access);

/* Finds a key; false when it is malformed or unknown. Takes the same time for all texts of one
 * length. */
bool atoll_access_find(const struct atoll_access *access, const char *shown,
                       struct atoll_key_view *ret);
/* Iterates over all keys: start with *pos = 0; false at the end. */
bool atoll_access_next(const struct atoll_access *access, size_t *pos, struct atoll_key_view *ret);
bool atoll_access_has_admin(const struct atoll_access *access);

/* Whether the text has the form of a key; does not look it up. */
bool atoll_key_is_valid(const char *key);
/* Makes a random key, which is not valid until it is added; out holds ATOLL_KEY_LEN + 1 bytes. */
void atoll_key_generate(char *out);
/* Makes and adds a key. ret_key holds ATOLL_KEY_LEN + 1 bytes and is the only copy: the daemon
 * keeps only its hash. INVALID_ARGUMENT, RESOURCE_EXHAUSTED. */
int atoll_access_create(struct atoll_access *access, const char *tenant, enum atoll_scope scope,
                        char *ret_key, struct atoll_key_view *ret,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
/* Adds a key that the caller made. ALREADY_EXISTS, and errors as above. */
int atoll_access_add(struct atoll_access *access, const char *key, const char *tenant,
                     enum atoll_scope scope, struct atoll_key_view *ret,
                     struct atoll_error *err) ATOLL_MUST_CHECK;
/* NOT_FOUND. */
int atoll_access_remove(struct atoll_access *access, const char *id,
                        struct atoll_error *err) ATOLL_MUST_CHECK;

#pragma once
#include "base/error.h"

/*
 * Who may use the daemon: tenants, and the keys that speak for them. A tenant is a name; it exists
 * where a key or a sandbox has it. All keys are held in memory by the hash of the key, and every
 * change is in the store before it counts.
 *
 * Blocking: as store/keys.h, for changes only. Thread: the loop's.
 */
struct atoll_access;
struct atoll_store;

#define ATOLL_TENANT_DEFAULT "default"

/* Each includes those before it. */
enum atoll_scope {
    ATOLL_SCOPE_PUBLIC, /* anybody */
    ATOLL_SCOPE_READ,
    ATOLL_SCOPE_WRITE,
    ATOLL_SCOPE_ADMIN, /* of the daemon: keys, templates, every tenant */
};
/* "read" and so on. */
const char *atoll_scope_name(enum atoll_scope scope);
/* -EINVAL for what is no scope a key can have. */
int atoll_scope_by_name(const char *name, enum atoll_scope *ret_scope) ATOLL_MUST_CHECK;

#define ATOLL_KEY_LEN 44 /* "atl_" and 40 of a-z0-9, which are 206 random bits */
#define ATOLL_KEYS_MAX 10000
/* The same key as clients of E2B insist on seeing it: "e2b_" and the 40 characters in hex. */
#define ATOLL_E2B_KEY_LEN 84

struct atoll_key_view {
    const char *id, *tenant;
    enum atoll_scope scope;
    int64_t created_unix_ms;
};

/* store is borrowed; NULL keeps nothing, for tests. */
int atoll_access_new(struct atoll_store *store, struct atoll_access **ret,
                     struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_access *atoll_access_free(struct atoll_access *access);

/* Whose key it is, in either spelling: false for what is no key, or none of ours. Takes the same
 * time for all of one spelling. */
bool atoll_access_find(const struct atoll_access *access, const char *shown,
                       struct atoll_key_view *ret);
/* Walks them: start with *pos = 0; false at the end. */
bool atoll_access_next(const struct atoll_access *access, size_t *pos, struct atoll_key_view *ret);
bool atoll_access_has_admin(const struct atoll_access *access);

/* Whether the text is of the form all keys have. */
bool atoll_key_is_valid(const char *key);
/* The other spelling of a valid key; out holds ATOLL_E2B_KEY_LEN + 1 bytes. */
void atoll_key_to_e2b(const char *key, char *out);
/* A new one; out holds ATOLL_KEY_LEN + 1 bytes. It counts once it is added. */
void atoll_key_generate(char *out);
/* A new key in ret_key, which holds ATOLL_KEY_LEN + 1 bytes: nobody has it but the caller.
 * INVALID_ARGUMENT, RESOURCE_EXHAUSTED. */
int atoll_access_create(struct atoll_access *access, const char *tenant, enum atoll_scope scope,
                        char *ret_key, struct atoll_key_view *ret,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
/* Makes `key` one of ours. ALREADY_EXISTS, and as above. */
int atoll_access_add(struct atoll_access *access, const char *key, const char *tenant,
                     enum atoll_scope scope, struct atoll_key_view *ret,
                     struct atoll_error *err) ATOLL_MUST_CHECK;
/* NOT_FOUND. */
int atoll_access_remove(struct atoll_access *access, const char *id,
                        struct atoll_error *err) ATOLL_MUST_CHECK;

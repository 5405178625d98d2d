#pragma once
#include "base/buf.h"
#include "base/error.h"

/*
 * Secrets of tenants: named values that a client gives once and never gets back. atoll-egress puts them
 * in place of placeholders in the headers of requests (docs/secrets.md). Names and sizes are held in
 * memory; values are in the store only, sealed, and are read where they are needed.
 *
 * Blocking: as store/secrets.h. Thread: the loop's.
 */
struct atoll_secrets;
struct atoll_store;

#define ATOLL_SECRET_VALUE_MAX ((size_t)64 * 1024)
/* Names and values of one tenant together: atoll-egress gets them in one message. */
#define ATOLL_SECRETS_BYTES_MAX ((size_t)96 * 1024)
#define ATOLL_SECRET_METADATA_MAX ((size_t)8192)
#define ATOLL_SECRET_ID_PREFIX "sec_"

struct atoll_secret_view {
    const char *tenant, *name, *id;
    uint32_t version;
    const char *metadata_json; /* NULL: none */
    int64_t created_unix_ms, updated_unix_ms;
};

/* What a put does if there is, or is not, a secret of that name. */
enum atoll_secret_put {
    ATOLL_SECRET_CREATE,  /* ALREADY_EXISTS */
    ATOLL_SECRET_UPDATE,  /* NOT_FOUND */
    ATOLL_SECRET_REPLACE, /* never an error */
};

struct atoll_secret_request {
    const char *tenant;
    const char *name; /* UPDATE: or id */
    const char *value;
    size_t value_len;
    const char *metadata_json; /* NULL: as it was */
    enum atoll_secret_put how;
};

/* store is borrowed. most: number of secrets that a tenant may have. */
int atoll_secrets_new(struct atoll_store *store, uint32_t most, struct atoll_secrets **ret,
                      struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_secrets *atoll_secrets_free(struct atoll_secrets *secrets);
/* fn is called after a secret of the tenant was changed or removed. */
void atoll_secrets_watch(struct atoll_secrets *secrets, void (*fn)(void *arg, const char *tenant),
                         void *arg);

/* How many secrets a tenant may have. */
uint32_t atoll_secrets_most(const struct atoll_secrets *secrets);
/* Views are valid until the next change. The secrets of a tenant are in the order of their names;
 * tenant NULL: of all tenants. */
size_t atoll_secrets_count(const struct atoll_secrets *secrets, const char *tenant);
void atoll_secrets_at(const struct atoll_secrets *secrets, const char *tenant, size_t i,
                      struct atoll_secret_view *ret);
/* By name or id. NOT_FOUND. */
int atoll_secrets_find(const struct atoll_secrets *secrets, const char *tenant, const char *name,
                       struct atoll_secret_view *ret, struct atoll_error *err) ATOLL_MUST_CHECK;

/* Stores a value. INVALID_ARGUMENT, RESOURCE_EXHAUSTED, and as request->how says. Returns 1 if the
 * secret is new, else 0. */
int atoll_secrets_put(struct atoll_secrets *secrets, const struct atoll_secret_request *request,
                      struct atoll_secret_view *ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* By name or id. NOT_FOUND. */
int atoll_secrets_remove(struct atoll_secrets *secrets, const char *tenant, const char *name,
                         struct atoll_error *err) ATOLL_MUST_CHECK;

/* Whether all secrets that the policy names exist and can be in a header. policy: as JSON, or NULL.
 * INVALID_ARGUMENT names the header and the secret. */
int atoll_secrets_check(struct atoll_secrets *secrets, const char *tenant, const char *policy,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
/* Appends {"NAME":"value", …} of the tenant, without values that cannot be in a header; the caller
 * erases it with atoll_buf_wipe(). */
int atoll_secrets_json(struct atoll_secrets *secrets, const char *tenant, struct atoll_buf *out,
                       struct atoll_error *err) ATOLL_MUST_CHECK;

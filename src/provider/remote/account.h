#pragma once
#include "provider/remote/api.h"
#include "sandbox/spec.h"

/*
 * Whose account at the service a request uses: the provider's, or that of the client whose request had a
 * key of its own (spec.credential). The key is in the header service.key_header. A service whose keys
 * alone do not name an account (service.scoped) has the rest after the key and a space: api.scope.
 * Blocking: nothing here. Thread: any.
 */
#define ATOLL_REMOTE_KEY_MAX 256

/* The API as one operation uses it. */
struct atoll_remote_account {
    struct atoll_remote_api api;        /* shares everything else with the provider's */
    struct curl_slist *own;             /* owned: its headers; NULL: those of the provider */
    char key[ATOLL_REMOTE_KEY_MAX + 1]; /* the client's, then its scope */
};
#define ATOLL_REMOTE_AUTOACCOUNT ATOLL_CLEANUP(atoll_remote_account_done)
/* api: the provider's; its `secret` is the provider's key. key: of the client; NULL or "": the
 * provider's. ret->api points into *ret. FAILED_PRECONDITION: there is neither. */
int atoll_remote_account_open(const struct atoll_remote_api *api, const char *key,
                              struct atoll_remote_account *ret,
                              struct atoll_error *err) ATOLL_MUST_CHECK;
/* Erases the key. Accepts a struct of zeros. */
void atoll_remote_account_done(struct atoll_remote_account *account);
/* Appends the header with the key. */
int atoll_remote_key_header(const struct atoll_remote_service *service, const char *key,
                            struct curl_slist **list, struct atoll_error *err) ATOLL_MUST_CHECK;

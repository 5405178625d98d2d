/*
 * Whose account at the service an operation uses: the provider's, or that of the client whose request had a
 * key of its own.
 */
#include <errno.h>
#include <string.h>
#include "provider/e2b/e2b_internal.h"

static const char key_header[] = "X-API-Key:";

int atoll_e2b_headers_with_key(const struct atoll_e2b_provider *p, const char *key,
                               struct curl_slist **ret, struct atoll_error *err)
{
    int r = atoll_remote_header(ret, err, "%s %s", key_header, key);

    for (const struct curl_slist *h = p->api.headers; r == 0 && h; h = h->next)
        if (strncmp(h->data, key_header, sizeof(key_header) - 1) != 0)
            r = atoll_remote_header(ret, err, "%s", h->data);
    return r;
}

int atoll_e2b_account_open(const struct atoll_e2b_provider *p, const struct atoll_spec *spec,
                           struct atoll_e2b_account *ret, struct atoll_error *err)
{
    int r = 0;

    ret->api = p->api;
    ret->own = NULL;
    if (spec->credential) {
        if (strlen(spec->credential) > ATOLL_E2B_KEY_MAX)
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "the E2B key has more than %d characters", ATOLL_E2B_KEY_MAX);
        r = atoll_e2b_headers_with_key(p, spec->credential, &ret->own, err);
        ret->api.headers = ret->own;
        ret->api.secret = spec->credential;
    } else if (!p->key) {
        r = atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ENOKEY,
                       "this provider has no key of its own: give e2b.apiKey with the request");
    }
    return r;
}

void atoll_e2b_account_done(struct atoll_e2b_account *account)
{
    for (const struct curl_slist *h = account->own; h; h = h->next)
        explicit_bzero(h->data, strlen(h->data));
    curl_slist_free_all(account->own);
}

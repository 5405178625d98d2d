#include "provider/remote/account.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int atoll_remote_key_header(const struct atoll_remote_service *service, const char *key,
                            struct curl_slist **list, struct atoll_error *err)
{
    return atoll_remote_header(list, err, "%s%s", service->key_header, key);
}

int atoll_remote_account_open(const struct atoll_remote_api *api, const char *key,
                              struct atoll_remote_account *ret, struct atoll_error *err)
{
    const char *key_header = api->service->key_header;
    size_t n = strcspn(key_header, ":") + 1;
    char *space;
    int r;

    *ret = (struct atoll_remote_account){.api = *api};
    if (!key || !*key)
        return api->secret ? 0
                           : atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ENOKEY,
                                        "this provider has no key of its own: give %s with the "
                                        "request",
                                        api->service->credential);
    if (strlen(key) > ATOLL_REMOTE_KEY_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s has more than %d characters",
                          api->service->credential, ATOLL_REMOTE_KEY_MAX);
    (void)snprintf(ret->key, sizeof(ret->key), "%s", key);
    space = api->service->scoped ? strchr(ret->key, ' ') : NULL;
    if (space) {
        *space = '\0';
        ret->api.scope = space + 1;
    }
    r = atoll_remote_key_header(api->service, ret->key, &ret->own, err);
    for (const struct curl_slist *h = api->headers; r == 0 && h; h = h->next)
        if (strncmp(h->data, key_header, n) != 0)
            r = atoll_remote_header(&ret->own, err, "%s", h->data);
    ret->api.headers = ret->own;
    ret->api.secret = ret->key;
    return r;
}

void atoll_remote_account_done(struct atoll_remote_account *account)
{
    for (const struct curl_slist *h = account->own; h; h = h->next)
        explicit_bzero(h->data, strlen(h->data));
    curl_slist_free_all(account->own);
    account->own = NULL;
    explicit_bzero(account->key, sizeof(account->key));
}

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "engine/json_memory.h"
#include "engine/network/secrets.h"
#include "network/placeholder.h"
#include "task/connectors.h"
#include "task/oauth_internal.h"

/*
 * Access tokens as secrets of tenants, and what comes with them. The metadata of such a secret say when it ends.
 */
#define SOURCE "connector"
#define EARLY_MS \
    (5 * 60 * 1000) /* before its end a token is renewed; at most a fifth of its life */

static void secret_name(const char *name, char out[static ATOLL_SECRET_NAME_MAX + 1])
{
    (void)snprintf(out, ATOLL_SECRET_NAME_MAX + 1, ATOLL_OAUTH_SECRET "%.*s", ATOLL_OAUTH_NAME_MAX,
                   name);
}

/* The metadata of the token; NULL: there is none, or a client has stored a secret of this name. */
static json_t *metadata_of(const struct atoll_oauth *oauth, const char *tenant, const char *name,
                           bool *ret_exists)
{
    char secret[ATOLL_SECRET_NAME_MAX + 1];
    struct atoll_secret_view view;
    struct atoll_error error;
    const char *source;
    json_t *json;

    secret_name(name, secret);
    *ret_exists =
        atoll_secrets_find(oauth->tasks->config.secrets, tenant, secret, &view, &error) == 0;
    json = *ret_exists ? atoll_json_load_own(view.metadata_json) : NULL;
    source = json_string_value(json_object_get(json, "source"));
    if (source && strcmp(source, SOURCE) == 0)
        return json;
    json_decref(json);
    return NULL;
}

bool atoll_oauth_times(const struct atoll_oauth *oauth, const char *tenant, const char *name,
                       int64_t *ret_expires, int64_t *ret_due)
{
    bool exists;
    json_t *json = metadata_of(oauth, tenant, name, &exists);
    int64_t lifetime = json_integer_value(json_object_get(json, "lifetime_ms"));

    *ret_expires = json_integer_value(json_object_get(json, "expires_unix_ms"));
    *ret_due = *ret_expires - ATOLL_MIN(lifetime / 5, (int64_t)EARLY_MS);
    json_decref(json);
    return json != NULL;
}

void atoll_oauth_drop(struct atoll_oauth *oauth, const char *tenant, const char *name)
{
    char secret[ATOLL_SECRET_NAME_MAX + 1];
    struct atoll_error error;
    int64_t expires, due;

    secret_name(name, secret);
    if (atoll_oauth_times(oauth, tenant, name, &expires, &due))
        (void)!atoll_secrets_remove(oauth->tasks->config.secrets, tenant, secret, &error);
}

static int put_token(struct atoll_oauth *oauth, const char *tenant, const char *name,
                     const struct atoll_oauth_tokens *tokens, struct atoll_error *err)
{
    char secret[ATOLL_SECRET_NAME_MAX + 1], metadata[200];
    struct atoll_secret_view view;
    bool exists;
    json_t *ours = metadata_of(oauth, tenant, name, &exists);

    json_decref(ours);
    secret_name(name, secret);
    if (exists && !ours)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EEXIST,
                          "there is a secret %s, in the place of the access token of the connector "
                          "%.64s: remove it",
                          secret, name);
    (void)snprintf(metadata, sizeof(metadata),
                   "{\"source\":\"" SOURCE "\",\"expires_unix_ms\":%lld,\"lifetime_ms\":%lld}",
                   (long long)(atoll_clock_unix_ms() + tokens->lifetime_ms),
                   (long long)tokens->lifetime_ms);
    return ATOLL_MIN(0, atoll_secrets_put(oauth->tasks->config.secrets,
                                          &(struct atoll_secret_request){
                                              .tenant = tenant,
                                              .name = secret,
                                              .value = tokens->access,
                                              .value_len = strlen(tokens->access),
                                              .metadata_json = metadata,
                                              .how = ATOLL_SECRET_REPLACE,
                                          },
                                          &view, err));
}

/* The refresh token first: the one before it may be worth nothing any more. */
int atoll_oauth_keep(struct atoll_oauth *oauth, const char *tenant, const char *name,
                     json_t *definition, bool changed, const struct atoll_oauth_tokens *tokens,
                     struct atoll_error *err)
{
    json_t *o = json_object_get(definition, "oauth");
    int r = 0;

    if (tokens->refresh && json_object_set_new(o, "refreshToken", json_string(tokens->refresh)) < 0)
        return atoll_fail_errno(err, ENOMEM, "a refresh token");
    changed = changed || tokens->refresh || json_object_get(o, "refused");
    (void)json_object_del(o, "refused");
    if (changed)
        r = atoll_connectors_put(oauth->tasks->config.store, tenant, name, definition, true, err);
    return r < 0 ? r : put_token(oauth, tenant, name, tokens, err);
}

int atoll_oauth_client(const struct atoll_oauth *oauth, const char *tenant, const char *name,
                       const json_t *definition, json_t **ret, struct atoll_error *err)
{
    static const char *const names[] = {"tokenUrl", "clientId", "clientSecret", "clientAuth",
                                        "refreshToken"};
    const json_t *o = json_object_get(definition, "oauth");
    json_t *all = json_object();
    int r;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(names); i++) {
        const char *value = json_string_value(json_object_get(o, names[i]));
        if (value)
            (void)json_object_set_new(all, names[i], json_string(value));
    }
    r = atoll_connectors_fill(oauth->tasks->config.store, tenant, name, all, err);
    if (r < 0)
        json_decref(all);
    else
        *ret = all;
    return r;
}

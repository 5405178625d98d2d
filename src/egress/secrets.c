#include "egress/secrets.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include "base/shares.h"

struct entry {
    char tenant[ATOLL_SHARE_NAME_MAX];
    json_t *values; /* owned */
};

static void wipe(json_t *values)
{
    const char *name;
    json_t *value;

    json_object_foreach(values, name, value)
    {
        /* jansson has no other way to reach the bytes that it frees. */
        char *text = (char *)(uintptr_t)json_string_value(value);

        if (text)
            explicit_bzero(text, json_string_length(value));
    }
}

static void entry_free(struct entry *e)
{
    wipe(e->values);
    json_decref(e->values);
    free(e);
}

int atoll_secrets_set(struct atoll_map *secrets, const char *tenant, const struct atoll_bytes *json,
                      struct atoll_error *err)
{
    json_t *values = json_loadb((const char *)json->data, json->len, 0, NULL);
    struct entry *e;

    if (!json_is_object(values) || strlen(tenant) >= sizeof(e->tenant)) {
        json_decref(values);
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "secrets are an object of names and values");
    }
    e = atoll_map_remove(secrets, tenant);
    if (e)
        entry_free(e);
    e = calloc(1, sizeof(*e));
    if (!e)
        abort();
    (void)snprintf(e->tenant, sizeof(e->tenant), "%s", tenant);
    e->values = values;
    if (atoll_map_put(secrets, e->tenant, e) < 0)
        abort();
    return 0;
}

const char *atoll_secrets_get(const struct atoll_map *secrets, const char *tenant, const char *name)
{
    const struct entry *e = atoll_map_get(secrets, tenant);

    return e ? json_string_value(json_object_get(e->values, name)) : NULL;
}

void atoll_secrets_done(struct atoll_map *secrets)
{
    struct entry *e;

    for (size_t pos = 0; (e = atoll_map_next(secrets, &pos));)
        entry_free(e);
    atoll_map_done(secrets);
}

/*
 * Secrets of the tenant, the same as in our own API. Names of this facade are in lower case. No
 * response contains a value.
 */
#include "engine/network/secrets.h"
#include <errno.h>
#include <string.h>
#include <strings.h>
#include "api/api_internal.h"
#include "api/e2b/e2b_internal.h"
#include "api/kit/secret_body.h"
#include "engine/json_memory.h"
#include "network/placeholder.h"

#define LIMIT 100
#define ENTRIES_MAX 32
#define KEY_MAX 128
#define VALUE_MAX 1024

static const struct atoll_field create_fields[] = {
    ATOLL_SECRET_BODY_NAME,
    ATOLL_SECRET_BODY_VALUE,
    {"metadata", ATOLL_FIELD_JSON, offsetof(struct atoll_secret_body, metadata), 0, 0, NULL, 0},
    ATOLL_FIELDS_TOLERANT,
    {0},
};

static const struct atoll_field update_fields[] = {
    ATOLL_SECRET_BODY_VALUE,
    {"metadata", ATOLL_FIELD_JSON, offsetof(struct atoll_secret_body, metadata), 0, 0, NULL, 0},
    ATOLL_FIELDS_TOLERANT,
    {0},
};

static struct atoll_secrets *secrets_of(struct atoll_api_call *call, struct atoll_error *err)
{
    struct atoll_secrets *secrets = call->api->config.secrets;

    if (!secrets)
        (void)atoll_fail(err, ATOLL_ERR_UNIMPLEMENTED, EOPNOTSUPP,
                         "secrets are disabled in this daemon");
    return secrets;
}

static void lower_case(const char *text, char out[static ATOLL_SECRET_NAME_MAX + 1])
{
    size_t n = strnlen(text, ATOLL_SECRET_NAME_MAX);

    for (size_t i = 0; i < n; i++)
        out[i] = (char)(text[i] >= 'A' && text[i] <= 'Z' ? text[i] + 32 : text[i]);
    out[n] = '\0';
}

/* What clients see. */

static void write_secret(struct atoll_json_out *out, const struct atoll_secret_view *view)
{
    atoll_json_open(out, NULL, '{');
    atoll_json_text(out, "secretID", view->id);
    atoll_json_text(out, "name", view->name);
    atoll_json_u64(out, "currentVersion", view->version);
    atoll_json_raw(out, "metadata", view->metadata_json ? view->metadata_json : "{}");
    atoll_json_time(out, "createdAt", view->created_unix_ms);
    atoll_json_time(out, "updatedAt", view->updated_unix_ms);
    atoll_json_close(out, '}');
}

static void reply(struct atoll_api_call *call, int status, const struct atoll_secret_view *view)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_api_reply_init(&buf, &out);
    write_secret(&out, view);
    atoll_api_reply(call, status, &out);
}

/* A token is the last name of the page before. */
static void reply_page(struct atoll_api_call *call, const struct atoll_secrets *secrets,
                       uint64_t limit)
{
    const char *tenant = call->caller.tenant, *after = atoll_http_query(call->req, "nextToken");
    size_t count = atoll_secrets_count(secrets, tenant), shown = 0;
    struct atoll_secret_view view, last = {.name = ""};
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '[');
    for (size_t i = 0; i < count; i++) {
        atoll_secrets_at(secrets, tenant, i, &view);
        if (after && strcmp(view.name, after) <= 0)
            continue;
        if (shown++ == limit) {
            (void)atoll_http_set_header(call->req, "X-Next-Token", last.name);
            break;
        }
        write_secret(&out, &view);
        last = view;
    }
    atoll_json_close(&out, ']');
    atoll_api_reply(call, 200, &out);
}

void atoll_e2b_secret_list(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                           size_t n ATOLL_UNUSED)
{
    struct atoll_error error;
    const struct atoll_secrets *secrets = secrets_of(call, &error);
    uint64_t limit = LIMIT;

    if (!secrets || atoll_api_query_u64(call, "limit", 1, LIMIT, &limit, &error) < 0)
        atoll_api_fail(call, &error);
    else
        reply_page(call, secrets, limit);
}

void atoll_e2b_secret_get(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                          size_t n ATOLL_UNUSED)
{
    char name[ATOLL_SECRET_NAME_MAX + 1];
    struct atoll_secret_view view;
    struct atoll_error error;
    const struct atoll_secrets *secrets = secrets_of(call, &error);

    lower_case(call->params.name, name);
    if (!secrets || atoll_secrets_find(secrets, call->caller.tenant, name, &view, &error) < 0)
        atoll_api_fail(call, &error);
    else
        reply(call, 200, &view);
}

/* Changes. */

static int check_metadata(const json_t *metadata, struct atoll_error *err)
{
    json_t *object = (json_t *)metadata, *value; /* jansson's iterators are not const */
    const char *key;

    if (metadata && (!json_is_object(metadata) || json_object_size(metadata) > ENTRIES_MAX))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "metadata must be an object of at most %d strings", ENTRIES_MAX);
    json_object_foreach(object, key, value)
    {
        if (strlen(key) > KEY_MAX || !json_is_string(value) ||
            json_string_length(value) > VALUE_MAX)
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "metadata has keys of at most %d bytes, and strings of at most %d",
                              KEY_MAX, VALUE_MAX);
    }
    return 0;
}

static int check_name(const char *name, struct atoll_error *err)
{
    if (!name || !atoll_secret_is_name(name) || strchr(name, '.'))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "the name of a secret has 1 to %d characters of A-Z a-z 0-9 _ -",
                          ATOLL_SECRET_NAME_MAX);
    if (strncasecmp(name, ATOLL_SECRET_ID_PREFIX, sizeof(ATOLL_SECRET_ID_PREFIX) - 1) == 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "names of secrets cannot begin with " ATOLL_SECRET_ID_PREFIX);
    return 0;
}

static int put(struct atoll_api_call *call, const struct atoll_secret_body *body,
               enum atoll_secret_put how, struct atoll_secret_view *ret, struct atoll_error *err)
{
    struct atoll_secrets *secrets = secrets_of(call, err);
    char name[ATOLL_SECRET_NAME_MAX + 1];
    ATOLL_AUTOFREE char *metadata = NULL;
    struct atoll_secret_request request = {
        .tenant = call->caller.tenant,
        .name = name,
        .value = body->value,
        .value_len = body->value_len,
        .how = how,
    };
    int r = check_metadata(body->metadata, err);

    if (r == 0 && how == ATOLL_SECRET_CREATE)
        r = check_name(body->name, err);
    if (r < 0 || !secrets)
        return -EINVAL;
    lower_case(how == ATOLL_SECRET_CREATE ? body->name : call->params.name, name);
    if (body->metadata)
        request.metadata_json = metadata = atoll_json_dump(body->metadata, JSON_COMPACT);
    if (body->metadata && !metadata)
        return atoll_fields_no_memory(err);
    return atoll_secrets_put(secrets, &request, ret, err);
}

static void store(struct atoll_api_call *call, const uint8_t *bytes, size_t n,
                  const struct atoll_field *fields, enum atoll_secret_put how)
{
    struct atoll_secret_body body;
    struct atoll_secret_view view;
    struct atoll_error error;
    int r = atoll_secret_body_decode(&body, bytes, n, fields, &error);

    if (r == 0)
        r = put(call, &body, how, &view, &error);
    atoll_secret_body_done(&body);
    if (r < 0)
        atoll_api_fail(call, &error);
    else
        reply(call, how == ATOLL_SECRET_CREATE ? 201 : 200, &view);
}

void atoll_e2b_secret_create(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    store(call, bytes, n, create_fields, ATOLL_SECRET_CREATE);
}

void atoll_e2b_secret_update(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    store(call, bytes, n, update_fields, ATOLL_SECRET_UPDATE);
}

void atoll_e2b_secret_remove(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                             size_t n ATOLL_UNUSED)
{
    char name[ATOLL_SECRET_NAME_MAX + 1];
    struct atoll_error error;
    struct atoll_secrets *secrets = secrets_of(call, &error);

    lower_case(call->params.name, name);
    if (!secrets || atoll_secrets_remove(secrets, call->caller.tenant, name, &error) < 0)
        atoll_api_fail(call, &error);
    else
        atoll_api_reply_empty(call, 204);
}

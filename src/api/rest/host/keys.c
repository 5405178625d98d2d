/*
 * API keys, for admins. Only the response that creates a key contains it.
 */
#include <errno.h>
#include <openssl/crypto.h>
#include "api/api_internal.h"
#include "api/fields.h"
#include "api/kit/list_reply.h"
#include "api/rest/rest_internal.h"

struct key_fields {
    const char *tenant, *scope;
};

static const struct atoll_field key_fields[] = {
    {"tenant", ATOLL_FIELD_STRING, offsetof(struct key_fields, tenant), 1, 64, NULL, 0},
    {"scope", ATOLL_FIELD_STRING, offsetof(struct key_fields, scope), 1, 16, NULL, 0},
    {0},
};

static struct atoll_access *access_of(struct atoll_api_call *call, struct atoll_error *err)
{
    struct atoll_access *access = call->api->config.auth.access;

    if (!access)
        (void)atoll_fail(err, ATOLL_ERR_UNIMPLEMENTED, EOPNOTSUPP,
                         "API keys are disabled in this daemon");
    return access;
}

/* The key in the form of each facade that has one. */
static void write_spellings(struct atoll_json_out *out, const char *key)
{
    char text[ATOLL_KEY_SPELLING_MAX + 1] = "";

    for (const struct atoll_facade *const *f = atoll_facades; *f; f++)
        if ((*f)->key && (*f)->key->field) {
            (*f)->key->write(key, text);
            atoll_json_text(out, (*f)->key->field, text);
        }
    OPENSSL_cleanse(text, sizeof(text));
}

static void write_key(struct atoll_json_out *out, const struct atoll_key_view *view,
                      const char *key)
{
    atoll_json_open(out, NULL, '{');
    atoll_json_text(out, "id", view->id);
    if (key) {
        atoll_json_text(out, "key", key);
        write_spellings(out, key);
    }
    atoll_json_text(out, "tenant", view->tenant);
    atoll_json_text(out, "scope", atoll_scope_name(view->scope));
    atoll_json_time(out, "created_at", view->created_unix_ms);
    atoll_json_close(out, '}');
}

static int decode(const struct key_fields *fields, const char **ret_tenant,
                  enum atoll_scope *ret_scope, struct atoll_error *err)
{
    if (!fields->tenant || !fields->scope)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "a key needs tenant and scope");
    if (atoll_scope_by_name(fields->scope, ret_scope) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "scope must be read, tools, write or admin (got \"%.16s\")",
                          fields->scope);
    *ret_tenant = fields->tenant;
    return 0;
}

void atoll_rest_key_create(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct key_fields fields = {0};
    char key[ATOLL_KEY_LEN + 1];
    struct atoll_key_view view;
    struct atoll_error error;
    enum atoll_scope scope = ATOLL_SCOPE_READ;
    const char *tenant = "";
    struct atoll_body body;
    struct atoll_buf buf;
    struct atoll_json_out out;
    int r = atoll_body_decode(&body, bytes, n, key_fields, &fields, &error);

    if (r == 0)
        r = decode(&fields, &tenant, &scope, &error);
    if (r == 0)
        r = access_of(call, &error) ? 0 : -EOPNOTSUPP;
    if (r == 0)
        r = atoll_access_create(call->api->config.auth.access, tenant, scope, key, &view, &error);
    atoll_body_done(&body);
    if (r < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    atoll_api_reply_init(&buf, &out);
    write_key(&out, &view, key);
    OPENSSL_cleanse(key, sizeof(key));
    if (call->req)
        (void)atoll_http_set_header(call->req, "Cache-Control", "no-store");
    atoll_api_reply(call, 201, &out);
}

void atoll_rest_key_list(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                         size_t n ATOLL_UNUSED)
{
    struct atoll_error error;
    const struct atoll_access *access = access_of(call, &error);
    struct atoll_key_view view;
    struct atoll_list_reply *list;
    size_t pos = 0;

    if (!access) {
        atoll_api_fail(call, &error);
        return;
    }
    list = atoll_list_reply_new(call, "keys", ']');
    while (atoll_access_next(access, &pos, &view))
        write_key(&list->out, &view, NULL);
    atoll_list_reply_done(list, NULL);
}

void atoll_rest_key_remove(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                           size_t n ATOLL_UNUSED)
{
    struct atoll_error error;

    if (!access_of(call, &error) ||
        atoll_auth_remove_key(&call->api->config.auth, call->params.name, &error) < 0)
        atoll_api_fail(call, &error);
    else
        atoll_api_reply_empty(call, 204);
}

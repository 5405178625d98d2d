/*
 * Secrets of the caller's tenant. No response contains a value.
 */
#include "engine/network/secrets.h"
#include <errno.h>
#include "api/api_internal.h"
#include "api/kit/list_reply.h"
#include "api/kit/secret_body.h"
#include "api/rest/rest_internal.h"

static const struct atoll_field fields[] = {
    ATOLL_SECRET_BODY_NAME,
    ATOLL_SECRET_BODY_VALUE,
    {"replace", ATOLL_FIELD_BOOL, offsetof(struct atoll_secret_body, replace), 0, 0, NULL, 0},
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

static void write_secret(struct atoll_json_out *out, const struct atoll_secret_view *view)
{
    atoll_json_open(out, NULL, '{');
    atoll_json_text(out, "name", view->name);
    atoll_json_text(out, "tenant", view->tenant);
    atoll_json_u64(out, "version", view->version);
    atoll_json_time(out, "created_at", view->created_unix_ms);
    atoll_json_time(out, "updated_at", view->updated_unix_ms);
    atoll_json_close(out, '}');
}

static int create(struct atoll_api_call *call, const struct atoll_secret_body *body,
                  struct atoll_secret_view *ret, struct atoll_error *err)
{
    struct atoll_secrets *secrets = secrets_of(call, err);
    const struct atoll_secret_request request = {
        .tenant = call->caller.tenant,
        .name = body->name ? body->name : "",
        .value = body->value,
        .value_len = body->value_len,
        .how = body->replace ? ATOLL_SECRET_REPLACE : ATOLL_SECRET_CREATE,
    };
    int r = secrets ? atoll_secrets_put(secrets, &request, ret, err) : -EOPNOTSUPP;

    if (r < 0 && err->kind == ATOLL_ERR_ALREADY_EXISTS)
        atoll_advise(err, "set \"replace\": true to give it a new value");
    return r;
}

void atoll_rest_secret_create(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct atoll_secret_body body;
    struct atoll_secret_view view;
    struct atoll_error error;
    struct atoll_buf buf;
    struct atoll_json_out out;
    int r = atoll_secret_body_decode(&body, bytes, n, fields, &error);

    if (r == 0)
        r = create(call, &body, &view, &error);
    atoll_secret_body_done(&body);
    if (r < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    atoll_api_reply_init(&buf, &out);
    write_secret(&out, &view);
    atoll_api_reply(call, r > 0 ? 201 : 200, &out);
}

void atoll_rest_secret_list(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                            size_t n ATOLL_UNUSED)
{
    const char *tenant = atoll_api_list_tenant(call);
    struct atoll_secret_view view;
    struct atoll_error error;
    const struct atoll_secrets *secrets = secrets_of(call, &error);
    struct atoll_list_reply *list;
    size_t count;

    if (!secrets) {
        atoll_api_fail(call, &error);
        return;
    }
    list = atoll_list_reply_new(call, "secrets", ']');
    count = atoll_secrets_count(secrets, tenant);
    for (size_t i = 0; i < count; i++) {
        atoll_secrets_at(secrets, tenant, i, &view);
        write_secret(&list->out, &view);
    }
    atoll_list_reply_done(list, NULL);
}

void atoll_rest_secret_remove(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                              size_t n ATOLL_UNUSED)
{
    struct atoll_error error;
    struct atoll_secrets *secrets = secrets_of(call, &error);

    if (!secrets ||
        atoll_secrets_remove(secrets, call->caller.tenant, call->params.name, &error) < 0)
        atoll_api_fail(call, &error);
    else
        atoll_api_reply_empty(call, 204);
}

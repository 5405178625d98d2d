/* Logins of connectors with OAuth (task/oauth.h): a client opens a URL in a browser and brings back the code. */
#include <errno.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/fields.h"
#include "api/rest/rest_internal.h"
#include "task/oauth.h"
#include "task/task.h"

#define TEXT_MAX 8192

struct login {
    const char *redirect_uri, *client_id, *client_secret;
    const char *code, *state, *iss;
    const json_t *scopes;
};

#define AT(member) offsetof(struct login, member)
static const struct atoll_field fields[] = {
    {"redirectUri", ATOLL_FIELD_STRING, AT(redirect_uri), 1, 1000, NULL, 0},
    {"clientId", ATOLL_FIELD_STRING, AT(client_id), 1, TEXT_MAX, NULL, 0},
    {"clientSecret", ATOLL_FIELD_STRING, AT(client_secret), 1, TEXT_MAX, NULL, 0},
    {"scopes", ATOLL_FIELD_JSON, AT(scopes), 0, 0, NULL, 0},
    {"code", ATOLL_FIELD_STRING, AT(code), 1, 4096, NULL, 0},
    {"state", ATOLL_FIELD_STRING, AT(state), 1, 200, NULL, 0},
    {"iss", ATOLL_FIELD_STRING, AT(iss), 1, 2000, NULL, 0},
    {0},
};
#undef AT

static struct atoll_oauth *oauth_of(const struct atoll_api_call *call)
{
    return atoll_tasks_oauth(call->api->config.tasks);
}

static void client_gone(struct atoll_api_call *call)
{
    atoll_oauth_unwait(oauth_of(call), call);
    atoll_api_drop(call);
}

/* --- answers --- */

static void begun(void *arg, const char *url, const char *state, const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;
    struct atoll_json_out out;
    struct atoll_buf buf;

    call->on_gone = NULL;
    if (!atoll_api_reply_begin(call, error, &buf, &out))
        return;
    atoll_json_open(&out, NULL, '{');
    atoll_json_text(&out, "url", url);
    atoll_json_text(&out, "state", state);
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

static void completed(void *arg, const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;

    call->on_gone = NULL;
    if (error)
        atoll_api_fail(call, error);
    else
        atoll_rest_connector_get(call, NULL, 0);
}

/* --- requests --- */

static bool is_scopes(const json_t *value)
{
    bool good = json_is_array(value) && json_array_size(value) <= 64;

    for (size_t i = 0; good && i < json_array_size(value); i++) {
        const char *text = json_string_value(json_array_get(value, i));
        good = text && *text && strlen(text) <= 200;
        for (; good && *text; text++)
            good = *text > ' ' && *text < 0x7f;
    }
    return good;
}

static int check(const struct login *q, struct atoll_error *err)
{
    if (q->code && (!q->state || q->redirect_uri || q->client_id || q->scopes))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "code is given with state, and nothing else but iss");
    if (!q->code && (!q->redirect_uri || !atoll_oauth_is_endpoint(q->redirect_uri)))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "redirectUri must be an https URL, or http://127.0.0.1:PORT/…");
    if (q->client_secret && !q->client_id)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "clientSecret is given with clientId");
    return q->scopes && !is_scopes(q->scopes)
               ? atoll_fields_refuse(err, "", "scopes", q->scopes,
                                     "a list of at most 64 texts without blanks")
               : 0;
}

static void go(struct atoll_api_call *call, const struct login *q)
{
    const struct atoll_oauth_login_request request = {
        .tenant = call->caller.tenant,
        .name = call->params.name,
        .redirect_uri = q->redirect_uri,
        .client_id = q->client_id,
        .client_secret = q->client_secret,
        .scopes = q->scopes,
    };

    call->on_gone = client_gone;
    if (q->code)
        atoll_oauth_login_complete(oauth_of(call), call->caller.tenant, call->params.name, q->state,
                                   q->code, q->iss, completed, call);
    else
        atoll_oauth_login(oauth_of(call), &request, begun, call);
}

void atoll_rest_connector_login(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct atoll_body body = {0};
    struct atoll_error error;
    struct login q = {0};
    int r = atoll_body_decode(&body, bytes, n, fields, &q, &error);

    if (r == 0)
        r = check(&q, &error);
    if (r < 0)
        atoll_api_fail(call, &error);
    else
        go(call, &q);
    atoll_body_done(&body);
}

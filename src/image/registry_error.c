/*
 * What refusals of registries mean, for users.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "image/json.h"
#include "image/registry_internal.h"

#define MESSAGE_MAX 160

bool atoll_image_is_anonymous(const struct atoll_image_call *call)
{
    return !call->login ||
           (!call->login->user && !call->login->identity_token && !call->login->registry_token);
}

void atoll_image_advise_login(const struct atoll_image_ask *ask, struct atoll_error *err)
{
    const char *helper = ask->call->login ? ask->call->login->helper : "";
    const char *host = ask->ref->host;

    if (*helper)
        atoll_advise(
            err,
            "The login for %s is kept by %s, which Atoll does not run. Give a user name and "
            "a password, or log in with a config.json that has no such program:\n"
            "  docker --config DIR login %s",
            host, helper, host);
    else
        atoll_advise(err, "Log in to the registry:\n  docker login %s", host);
}

/* "code: message" of the first error of the body, printable; "" without one. */
static void reason_of(const char *body, size_t n, char out[MESSAGE_MAX])
{
    ATOLL_IMAGE_AUTOJSON json_t *json = json_loadb(body ? body : "", n, 0, NULL);
    const json_t *first = json_array_get(json_object_get(json, "errors"), 0);
    const char *code = json_string_value(json_object_get(first, "code"));
    const char *message = json_string_value(json_object_get(first, "message"));

    if (!message) /* of token servers */
        message = json_string_value(json_object_get(json, "details"));
    (void)snprintf(out, MESSAGE_MAX, "%s%s%s", code ? code : "", code && message ? ": " : "",
                   message ? message : "");
    for (char *p = out; *p; p++)
        if (*p < ' ' || *p > '~')
            *p = ' ';
}

static const struct {
    long status;
    enum atoll_error_kind kind;
    int errnum;
    const char *text;
} refusals[] = {
    {401, ATOLL_ERR_UNAUTHENTICATED, EACCES, "refuses the login"},
    {403, ATOLL_ERR_PERMISSION_DENIED, EPERM, "does not allow this"},
    {404, ATOLL_ERR_NOT_FOUND, ENOENT, "does not have it"},
    {405, ATOLL_ERR_FAILED_PRECONDITION, EOPNOTSUPP, "does not accept this request"},
    {413, ATOLL_ERR_FAILED_PRECONDITION, EFBIG, "says that it is too large"},
    {429, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN, "has had too many requests"},
};

/* Without a login the registry does not tell what does not exist from what is private. */
static int hidden(const struct atoll_image_ask *ask, const char *name, struct atoll_error *err)
{
    int r = atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT,
                       "%s does not exist, or it is private and there is no login for %s", name,
                       ask->ref->host);

    atoll_image_advise_login(ask, err);
    return r;
}

int atoll_image_refused(const struct atoll_image_ask *ask, long status, const char *body, size_t n,
                        uint32_t retry_after_s, struct atoll_error *err)
{
    enum atoll_error_kind kind =
        status >= 500 ? ATOLL_ERR_UNAVAILABLE : ATOLL_ERR_FAILED_PRECONDITION;
    const char *text = "answers", *host = ask->place->host;
    char name[ATOLL_IMAGE_REFERENCE_MAX], reason[MESSAGE_MAX];
    int errnum = status >= 500 ? EAGAIN : EPROTO, r;
    bool anonymous = atoll_image_is_anonymous(ask->call);

    (void)atoll_image_reference_short(ask->ref, name);
    reason_of(body, n, reason);
    if ((status == 401 || status == 403) && anonymous && ask->sent_auth && !ask->push)
        return hidden(ask, name, err);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(refusals); i++)
        if (refusals[i].status == status) {
            kind = refusals[i].kind;
            errnum = refusals[i].errnum;
            text = refusals[i].text;
        }
    if (status == 401 && anonymous)
        text = "wants a login";
    r = atoll_fail(err, kind, errnum, "%.200s: the registry %.100s %s (%ld%s%s)", name, host, text,
                   status, *reason ? ", " : "", reason);
    err->retry_ms = errnum == EAGAIN ? (int)retry_after_s * 1000 : 0;
    if (status == 401 || (status == 403 && anonymous))
        atoll_image_advise_login(ask, err);
    return r;
}

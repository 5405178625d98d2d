#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/base64.h"
#include "engine/json_memory.h"
#include "engine/network/secrets.h"
#include "task/oauth_internal.h"

/*
 * Requests to token servers (RFC 6749, sections 2.3.1, 4.4, 5 and 6). Texts of the server are in no error: it may
 * repeat credentials.
 */
#define BODY_MAX ((size_t)256 * 1024)
#define ANSWER_MAX ((size_t)256 * 1024)
#define LIFETIME_S 3600 /* if the server does not say */
#define LIFETIME_MAX_S (365 * 24 * 3600)

const struct atoll_remote_service atoll_oauth_service = {.name = "the token server",
                                                         .label = "oauth"};

static void erase(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}

void atoll_oauth_tokens_done(struct atoll_oauth_tokens *tokens)
{
    erase(tokens->access);
    erase(tokens->refresh);
    *tokens = (struct atoll_oauth_tokens){0};
}

/* --- forms --- */

static int add_encoded(struct atoll_buf *out, const char *text)
{
    char *encoded = curl_easy_escape(NULL, text, 0);
    int r = encoded ? atoll_buf_appends(out, encoded) : -ENOMEM;

    if (encoded)
        explicit_bzero(encoded, strlen(encoded));
    curl_free(encoded);
    return r;
}

int atoll_oauth_add_pair(struct atoll_buf *out, char before, const char *name, const char *value)
{
    int r = atoll_buf_size(out) > 0 ? atoll_buf_append(out, &before, 1) : 0;

    if (r == 0)
        r = atoll_buf_appendf(out, "%s=", name);
    return r < 0 ? r : add_encoded(out, value);
}

int atoll_oauth_form_add(struct atoll_oauth_form *form, const char *name, const char *value)
{
    return atoll_oauth_add_pair(&form->body, '&', name, value);
}

int atoll_oauth_form_scopes(struct atoll_oauth_form *form, const json_t *scopes)
{
    struct atoll_buf text;
    int r = 0;

    atoll_buf_init(&text, BODY_MAX);
    for (size_t i = 0; r == 0 && i < json_array_size(scopes); i++)
        r = atoll_buf_appendf(&text, "%s%s", i > 0 ? " " : "",
                              json_string_value(json_array_get(scopes, i)));
    if (r == 0 && atoll_buf_size(&text) > 0)
        r = atoll_oauth_form_add(form, "scope", atoll_buf_str(&text));
    atoll_buf_done(&text);
    return r;
}

/* "Authorization: Basic", of the encoded id and secret. */
static int add_basic(struct atoll_oauth_form *form, const char *id, const char *secret,
                     struct atoll_error *err)
{
    struct atoll_buf pair, coded;
    int r;

    atoll_buf_init_erasing(&pair, BODY_MAX);
    atoll_buf_init_erasing(&coded, BODY_MAX);
    r = add_encoded(&pair, id);
    if (r == 0)
        r = atoll_buf_appends(&pair, ":");
    if (r == 0)
        r = add_encoded(&pair, secret);
    if (r == 0)
        r = atoll_base64_encode(&coded, atoll_buf_head(&pair), atoll_buf_size(&pair));
    r = r < 0 ? atoll_fail_errno(err, -r, "a request for tokens")
              : atoll_remote_header(&form->headers, err, "Authorization: Basic %s",
                                    atoll_buf_str(&coded));
    atoll_buf_done(&pair);
    atoll_buf_done(&coded);
    return r;
}

int atoll_oauth_form_init(struct atoll_oauth_form *form, const json_t *client,
                          struct atoll_error *err)
{
    const char *id = json_string_value(json_object_get(client, "clientId"));
    const char *secret = json_string_value(json_object_get(client, "clientSecret"));
    const char *how = json_string_value(json_object_get(client, "clientAuth"));
    bool basic = secret && (!how || strcmp(how, "basic") == 0);
    int r;

    *form = (struct atoll_oauth_form){0};
    atoll_buf_init_erasing(&form->body, BODY_MAX);
    (void)snprintf(form->url, sizeof(form->url), "%s",
                   json_string_value(json_object_get(client, "tokenUrl")));
    r = atoll_remote_header(&form->headers, err, "Content-Type: application/x-www-form-urlencoded");
    if (r == 0)
        r = atoll_remote_header(&form->headers, err, "Accept: application/json");
    if (r == 0 && basic)
        return add_basic(form, id, secret, err);
    if (r == 0 && (atoll_oauth_form_add(form, "client_id", id) < 0 ||
                   (secret && atoll_oauth_form_add(form, "client_secret", secret) < 0)))
        r = atoll_fail_errno(err, ENOMEM, "a request for tokens");
    return r;
}

void atoll_oauth_form_done(struct atoll_oauth_form *form)
{
    for (struct curl_slist *h = form->headers; h; h = h->next)
        explicit_bzero(h->data, strlen(h->data));
    curl_slist_free_all(form->headers);
    form->headers = NULL;
    atoll_buf_done(&form->body);
}

/* --- answers --- */

static int refused(struct atoll_oauth_tokens *ret, const json_t *root, long status,
                   struct atoll_error *err)
{
    static const char *const known[] = {
        "invalid_request", "invalid_client",         "invalid_grant",  "unauthorized_client",
        "invalid_scope",   "unsupported_grant_type", "invalid_target", "access_denied"};
    const char *code = json_string_value(json_object_get(root, "error"));

    (void)snprintf(ret->refused, sizeof(ret->refused), "status %ld", status);
    for (size_t i = 0; code && i < ATOLL_ARRAY_LEN(known); i++)
        if (strcmp(code, known[i]) == 0)
            (void)snprintf(ret->refused, sizeof(ret->refused), "%s", code);
    return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EACCES,
                      "the token server has refused: %s", ret->refused);
}

/* A token that can be in a header: visible characters (RFC 6749, appendix A.12). */
static bool is_token(const char *text)
{
    size_t n = text ? strlen(text) : 0;

    for (size_t i = 0; i < n; i++)
        if (text[i] <= ' ' || text[i] >= 0x7f)
            return false;
    return n > 0 && n <= ATOLL_SECRET_VALUE_MAX / 2;
}

static int take(struct atoll_oauth_tokens *ret, const json_t *root, struct atoll_error *err)
{
    const char *access = json_string_value(json_object_get(root, "access_token"));
    const char *refresh = json_string_value(json_object_get(root, "refresh_token"));
    const char *type = json_string_value(json_object_get(root, "token_type"));
    const json_t *lifetime = json_object_get(root, "expires_in");
    double seconds = json_is_number(lifetime) ? json_number_value(lifetime) : LIFETIME_S;

    if (!is_token(access) || (type && strcasecmp(type, "Bearer") != 0))
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EPROTO,
                          "the token server's answer has no access token of the type Bearer");
    ret->access = strdup(access);
    ret->refresh = is_token(refresh) ? strdup(refresh) : NULL;
    if (!ret->access || (is_token(refresh) && !ret->refresh))
        return atoll_fail_errno(err, ENOMEM, "an access token");
    seconds = ATOLL_MIN(ATOLL_MAX(seconds, 0.0), (double)LIFETIME_MAX_S);
    ret->lifetime_ms = (int64_t)(1000 * seconds);
    return 0;
}

int atoll_oauth_ask(struct atoll_outgoing *outgoing, const char *tenant,
                    const struct atoll_oauth_form *form, struct atoll_oauth_tokens *ret,
                    struct atoll_error *err)
{
    const struct atoll_remote_request request = {
        .what = "an access token",
        .method = "POST",
        .url = form->url,
        .headers = form->headers,
        .body = atoll_buf_head(&form->body),
        .body_len = atoll_buf_size(&form->body),
        .answer_max = ANSWER_MAX,
    };
    ATOLL_REMOTE_AUTOANSWER struct atoll_remote_answer answer = {0};
    json_error_t why;
    json_t *root = NULL;
    int r = atoll_outgoing_ask(outgoing, tenant, &request, &answer, err);

    *ret = (struct atoll_oauth_tokens){0};
    if (r == 0)
        root = atoll_json_load(atoll_buf_head(&answer.body), atoll_buf_size(&answer.body), 0, &why);
    if (r == 0 && answer.status >= 200 && answer.status <= 299)
        r = take(ret, root, err);
    else if (r == 0 && answer.status >= 400 && answer.status < 500 && answer.status != 408 &&
             answer.status != 429)
        r = refused(ret, root, answer.status, err);
    else if (r == 0)
        r = atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EAGAIN,
                       "the token server answers with status %ld", answer.status);
    if (atoll_buf_size(&answer.body) > 0)
        explicit_bzero((void *)(uintptr_t)atoll_buf_head(&answer.body),
                       atoll_buf_size(&answer.body));
    json_decref(root);
    return r;
}

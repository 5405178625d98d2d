#include <errno.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>
#include "base/base64.h"
#include "engine/json_memory.h"
#include "task/oauth_login.h"

/*
 * Where a user logs in, from the URL of an MCP server: its protected resource metadata (RFC 9728) names the
 * authorization server, whose metadata (RFC 8414) name its endpoints; there a client may register itself (RFC 7591).
 */
#define ANSWER_MAX ((size_t)256 * 1024)
#define CANDIDATES 3

static const char hello[] =
    "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\","
    "\"capabilities\":{},\"clientInfo\":{\"name\":\"atoll\",\"version\":\"" ATOLL_VERSION "\"}}}";

/* --- requests --- */

static int end_now(void *arg ATOLL_UNUSED, const void *bytes ATOLL_UNUSED, size_t n ATOLL_UNUSED)
{
    return -1;
}

/* The challenge of the server to a client without a token; "": none. */
static int challenge(struct atoll_oauth_login *l, char out[static 512], struct atoll_error *err)
{
    struct curl_slist *headers = NULL;
    ATOLL_REMOTE_AUTOANSWER struct atoll_remote_answer answer = {0};
    int r = atoll_remote_header(&headers, err, "Content-Type: application/json");

    if (r == 0)
        r = atoll_remote_header(&headers, err, "Accept: application/json, text/event-stream");
    if (r == 0)
        r = atoll_outgoing_ask(l->oauth->outgoing, l->tenant,
                               &(struct atoll_remote_request){.what = "the MCP server",
                                                              .method = "POST",
                                                              .url = l->server,
                                                              .headers = headers,
                                                              .body = hello,
                                                              .body_len = sizeof(hello) - 1,
                                                              .sink = end_now,
                                                              .answer_max = ANSWER_MAX,
                                                              .header = "WWW-Authenticate"},
                               &answer, err);
    curl_slist_free_all(headers);
    (void)snprintf(out, 512, "%s", r == 0 ? answer.header : "");
    return r;
}

/* 1: *ret is an object; 0: there is none at this URL. */
static int ask_json(struct atoll_oauth_login *l, const char *url, const char *body, json_t **ret,
                    struct atoll_error *err)
{
    struct curl_slist *headers = NULL;
    ATOLL_REMOTE_AUTOANSWER struct atoll_remote_answer answer = {0};
    json_error_t why;
    int r = atoll_remote_header(&headers, err, "Accept: application/json");

    *ret = NULL;
    if (r == 0 && body)
        r = atoll_remote_header(&headers, err, "Content-Type: application/json");
    if (r == 0)
        r = atoll_outgoing_ask(l->oauth->outgoing, l->tenant,
                               &(struct atoll_remote_request){.what = "the authorization server",
                                                              .method = body ? "POST" : "GET",
                                                              .url = url,
                                                              .headers = headers,
                                                              .body = body,
                                                              .body_len = body ? strlen(body) : 0,
                                                              .answer_max = ANSWER_MAX},
                               &answer, err);
    curl_slist_free_all(headers);
    if (r < 0)
        return r;
    if (answer.status >= 500)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EAGAIN,
                          "the authorization server answers with status %ld", answer.status);
    if (answer.status >= 200 && answer.status <= 299)
        *ret = atoll_json_load(atoll_buf_head(&answer.body), atoll_buf_size(&answer.body), 0, &why);
    if (json_is_object(*ret))
        return 1;
    json_decref(*ret);
    *ret = NULL;
    return 0;
}

/* --- addresses --- */

/* Length of "https://HOST:PORT". */
static size_t origin_length(const char *url)
{
    size_t scheme = (size_t)(strstr(url, "://") - url) + 3;

    return scheme + strcspn(url + scheme, "/?#");
}

/* ORIGIN/.well-known/NAME, and the path of the URL behind it (after), or in front of it, or nowhere. */
enum place { AFTER, BEFORE, NOWHERE };
static void well_known(const char *url, const char *name, enum place place,
                       char out[static ATOLL_OAUTH_URL_MAX + 1])
{
    size_t n = origin_length(url), path = strcspn(url + n, "?#");

    while (path > 0 && url[n + path - 1] == '/')
        path--;
    (void)snprintf(out, ATOLL_OAUTH_URL_MAX + 1, "%.*s%.*s/.well-known/%s%.*s", (int)n, url,
                   place == BEFORE ? (int)path : 0, url + n, name, place == AFTER ? (int)path : 0,
                   url + n);
}

/* resource_metadata="URL" of a challenge. */
static bool take_link(const char *header, char out[static ATOLL_OAUTH_URL_MAX + 1])
{
    static const char name[] = "resource_metadata=\"";
    const char *at = strcasestr(header, name);

    if (!at)
        return false;
    at += sizeof(name) - 1;
    (void)snprintf(out, ATOLL_OAUTH_URL_MAX + 1, "%.*s", (int)strcspn(at, "\""), at);
    return atoll_oauth_is_endpoint(out);
}

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "";
}

static bool is_same(const char *a, const char *b)
{
    size_t n = strlen(a), k = strlen(b);

    n -= n > 0 && a[n - 1] == '/';
    k -= k > 0 && b[k - 1] == '/';
    return n == k && strncmp(a, b, n) == 0;
}

/* --- the two kinds of metadata --- */

/* Tries the URLs in turn. */
static int first_of(struct atoll_oauth_login *l, char urls[CANDIDATES][ATOLL_OAUTH_URL_MAX + 1],
                    size_t n, json_t **ret, struct atoll_error *err)
{
    int r = 0;

    *ret = NULL;
    for (size_t i = 0; r == 0 && i < n; i++)
        r = ask_json(l, urls[i], NULL, ret, err);
    return r;
}

/* Which authorization server protects the MCP server; without metadata the server itself (2025-03-26). */
static int find_issuer(struct atoll_oauth_login *l, struct atoll_error *err)
{
    static const char name[] = "oauth-protected-resource";
    char urls[CANDIDATES][ATOLL_OAUTH_URL_MAX + 1], header[512];
    json_t *root = NULL;
    const char *resource, *issuer;
    size_t n = 0, origin = origin_length(l->server);
    int r = challenge(l, header, err);

    if (r < 0)
        return r;
    if (take_link(header, urls[n]))
        n++;
    well_known(l->server, name, AFTER, urls[n++]);
    well_known(l->server, name, NOWHERE, urls[n++]);
    r = first_of(l, urls, n, &root, err);
    resource = text_of(root, "resource");
    issuer = json_string_value(json_array_get(json_object_get(root, "authorization_servers"), 0));
    (void)snprintf(l->issuer, sizeof(l->issuer), "%.*s", issuer ? ATOLL_OAUTH_URL_MAX : (int)origin,
                   issuer ? issuer : l->server);
    if (r > 0 && *resource && strncmp(resource, l->server, origin) == 0 &&
        strlen(resource) <= ATOLL_OAUTH_URL_MAX && strchr("/?#", resource[origin]))
        (void)snprintf(l->resource, sizeof(l->resource), "%s", resource);
    else if (r > 0 && *resource)
        r = atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EPERM,
                       "the MCP server names another server as the resource to log in for");
    if (r > 0 && !l->scopes && json_is_array(json_object_get(root, "scopes_supported")))
        l->scopes = json_deep_copy(json_object_get(root, "scopes_supported"));
    json_decref(root);
    if (r >= 0 && !atoll_oauth_is_endpoint(l->issuer))
        r = atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EPROTO,
                       "the MCP server names no authorization server with https");
    return r < 0 ? r : 0;
}

static bool has(const json_t *list, const char *text)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *one = json_string_value(json_array_get(list, i));
        if (one && strcmp(one, text) == 0)
            return true;
    }
    return false;
}

static int check_metadata(struct atoll_oauth_login *l, const json_t *root, struct atoll_error *err)
{
    if (!is_same(text_of(root, "issuer"), l->issuer))
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EPERM,
                          "the authorization server %.200s says that it is another one", l->issuer);
    if (!atoll_oauth_is_endpoint(text_of(root, "authorization_endpoint")) ||
        !atoll_oauth_is_endpoint(text_of(root, "token_endpoint")))
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EPROTO,
                          "the authorization server %.200s names no endpoints with https",
                          l->issuer);
    if (!has(json_object_get(root, "code_challenge_methods_supported"), "S256"))
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EOPNOTSUPP,
                          "the authorization server %.200s does not support PKCE with S256",
                          l->issuer);
    return 0;
}

static int find_metadata(struct atoll_oauth_login *l, json_t **ret, struct atoll_error *err)
{
    char urls[CANDIDATES][ATOLL_OAUTH_URL_MAX + 1];
    int r;

    well_known(l->issuer, "oauth-authorization-server", AFTER, urls[0]);
    well_known(l->issuer, "openid-configuration", AFTER, urls[1]);
    well_known(l->issuer, "openid-configuration", BEFORE, urls[2]);
    r = first_of(l, urls, CANDIDATES, ret, err);
    if (r == 0)
        r = atoll_fail(
            err, ATOLL_ERR_FAILED_PRECONDITION, ENOENT,
            "the MCP server does not say where to log in (RFC 9728), and %.200s has no "
            "metadata of an authorization server (RFC 8414): give tokenUrl, clientId and "
            "refreshToken in oauth of the connector",
            l->issuer);
    return r < 0 ? r : check_metadata(l, *ret, err);
}

/* --- the client --- */

static int register_client(struct atoll_oauth_login *l, const char *url, struct atoll_error *err)
{
    json_t *request =
        json_pack("{s:s, s:[s], s:[s, s], s:[s], s:s}", "client_name", "Atoll", "redirect_uris",
                  l->redirect_uri, "grant_types", "authorization_code", "refresh_token",
                  "response_types", "code", "token_endpoint_auth_method", "none");
    char *text = request ? atoll_json_dump(request, JSON_COMPACT) : NULL;
    json_t *root = NULL;
    const char *id, *secret;
    int r = text ? ask_json(l, url, text, &root, err)
                 : atoll_fail_errno(err, ENOMEM, "the registration of a client");

    free(text);
    json_decref(request);
    id = text_of(root, "client_id");
    secret = text_of(root, "client_secret");
    if (r >= 0 && !*id)
        r = atoll_fail(
            err, ATOLL_ERR_FAILED_PRECONDITION, EACCES,
            "the authorization server %.200s does not register Atoll as a client: make one "
            "there, and give its clientId",
            l->issuer);
    if (r > 0) {
        (void)json_object_set_new(l->client, "clientId", json_string(id));
        if (*secret)
            (void)json_object_set_new(l->client, "clientSecret", json_string(secret));
        if (*secret &&
            strcmp(text_of(root, "token_endpoint_auth_method"), "client_secret_post") == 0)
            (void)json_object_set_new(l->client, "clientAuth", json_string("post"));
        l->own_client = true;
    }
    json_decref(root);
    return r < 0 ? r : 0;
}

static int find_client(struct atoll_oauth_login *l, const json_t *metadata, struct atoll_error *err)
{
    const char *url = text_of(metadata, "registration_endpoint");

    (void)json_object_set(l->client, "tokenUrl", json_object_get(metadata, "token_endpoint"));
    if (json_object_get(l->client, "clientId"))
        return 0;
    if (atoll_oauth_is_endpoint(url))
        return register_client(l, url, err);
    return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EACCES,
                      "clients do not register themselves at the authorization server %.200s: make "
                      "one there with the redirect URI %.200s, and give its clientId",
                      l->issuer, l->redirect_uri);
}

/* --- the URL for the browser --- */

static int add_scopes(struct atoll_oauth_login *l, const json_t *metadata)
{
    struct atoll_buf text;
    int r = 0;

    atoll_buf_init(&text, ANSWER_MAX);
    for (size_t i = 0; r == 0 && i < json_array_size(l->scopes); i++) {
        const char *one = json_string_value(json_array_get(l->scopes, i));
        r = one ? atoll_buf_appendf(&text, "%s%s", atoll_buf_size(&text) > 0 ? " " : "", one) : 0;
    }
    /* Servers of OpenID give a refresh token only with this one. */
    if (r == 0 && has(json_object_get(metadata, "scopes_supported"), "offline_access") &&
        !has(l->scopes, "offline_access"))
        r = atoll_buf_appendf(&text, "%soffline_access", atoll_buf_size(&text) > 0 ? " " : "");
    if (r == 0 && atoll_buf_size(&text) > 0)
        r = atoll_oauth_add_pair(&l->url, '&', "scope", atoll_buf_str(&text));
    atoll_buf_done(&text);
    return r;
}

/* BASE64URL(SHA256(verifier)), RFC 7636. */
static void make_challenge(const char *verifier, char out[static ATOLL_OAUTH_RANDOM_MAX + 1])
{
    uint8_t hash[SHA256_DIGEST_LENGTH];

    (void)SHA256((const uint8_t *)verifier, strlen(verifier), hash);
    atoll_base64_text(out, hash, sizeof(hash));
    for (char *c = out; *c; c++)
        *c = *c == '+' ? '-' : *c == '/' ? '_' : *c;
    out[strcspn(out, "=")] = '\0';
}

static int make_url(struct atoll_oauth_login *l, const json_t *metadata)
{
    const char *endpoint = text_of(metadata, "authorization_endpoint");
    char code_challenge[ATOLL_OAUTH_RANDOM_MAX + 1];
    const char *const pairs[][2] = {
        {"client_id", text_of(l->client, "clientId")},
        {"redirect_uri", l->redirect_uri},
        {"state", l->state},
        {"code_challenge", code_challenge},
        {"code_challenge_method", "S256"},
    };
    int r = atoll_buf_appends(&l->url, endpoint);

    make_challenge(l->verifier, code_challenge);
    if (r == 0)
        r = atoll_oauth_add_pair(&l->url, strchr(endpoint, '?') ? '&' : '?', "response_type",
                                 "code");
    for (size_t i = 0; r == 0 && i < ATOLL_ARRAY_LEN(pairs); i++)
        r = atoll_oauth_add_pair(&l->url, '&', pairs[i][0], pairs[i][1]);
    if (r == 0 && *l->resource)
        r = atoll_oauth_add_pair(&l->url, '&', "resource", l->resource);
    return r < 0 ? r : add_scopes(l, metadata);
}

int atoll_oauth_discover(struct atoll_oauth_login *l, struct atoll_error *err)
{
    json_t *metadata = NULL;
    int r = find_issuer(l, err);

    if (r == 0)
        r = find_metadata(l, &metadata, err);
    if (r == 0)
        r = find_client(l, metadata, err);
    if (r == 0 && make_url(l, metadata) < 0)
        r = atoll_fail_errno(err, ENOMEM, "the URL of a login");
    json_decref(metadata);
    return r;
}

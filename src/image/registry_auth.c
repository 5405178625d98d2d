/*
 * Logins of requests: basic ones, and bearer tokens of a token server (the registry's Docker token and
 * OAuth2 protocols). What a registry accepted is kept by registry, scope and login.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/base64.h"
#include "base/clock.h"
#include "image/json.h"
#include "image/registry_internal.h"

#define TOKEN_MAX ((size_t)64 * 1024)
#define TOKEN_S 60       /* life of a token whose server does not say it */
#define TOKEN_S_MAX 3600 /* what is kept of a longer one */
#define TOKEN_EARLY_S 10 /* a token is not used in its last seconds */
#define ANSWER_MAX ((size_t)256 * 1024)
#define TOKEN_MS 30000

static void erase(char **text)
{
    if (*text)
        explicit_bzero(*text, strlen(*text));
    free(*text);
    *text = NULL;
}

/* Registry, scope, and a digest of the login: another login must not get its tokens. */
static char *key_of(const struct atoll_image_ask *ask)
{
    const struct atoll_image_login none = {0}, *l = ask->call->login ? ask->call->login : &none;
    ATOLL_AUTOFREE char *secret = NULL;
    char digest[ATOLL_IMAGE_DIGEST_MAX], *key = NULL;

    if (ask->place->mirror)
        l = &none;
    if (asprintf(&secret, "%s\n%s\n%s\n%s", l->user ? l->user : "", l->password ? l->password : "",
                 l->identity_token ? l->identity_token : "",
                 l->registry_token ? l->registry_token : "") < 0)
        abort();
    atoll_image_digest(secret, strlen(secret), digest);
    explicit_bzero(secret, strlen(secret));
    if (asprintf(&key, "%s %s %s %s %s", ask->place->origin, ask->place->repository,
                 ask->push ? "push" : "pull", ask->from ? ask->from : "", digest) < 0)
        abort();
    return key;
}

static struct atoll_image_token *find(struct atoll_image_registry *r, const char *key)
{
    for (size_t i = 0; i < ATOLL_IMAGE_TOKENS_MAX; i++)
        if (r->tokens[i].key && strcmp(r->tokens[i].key, key) == 0)
            return &r->tokens[i];
    return NULL;
}

static void drop(struct atoll_image_token *t)
{
    erase(&t->key);
    erase(&t->value);
    *t = (struct atoll_image_token){0};
}

char *atoll_image_auth_known(struct atoll_image_registry *r, const struct atoll_image_ask *ask)
{
    ATOLL_AUTOFREE char *key = key_of(ask);
    struct atoll_image_token *t;
    char *value = NULL;

    (void)pthread_mutex_lock(&r->lock);
    t = find(r, key);
    if (t && t->until_ms <= atoll_clock_ms()) {
        drop(t);
        t = NULL;
    }
    if (t) {
        t->used = ++r->uses;
        value = strdup(t->value);
    }
    (void)pthread_mutex_unlock(&r->lock);
    return value;
}

/* A free one has never been used. */
static struct atoll_image_token *oldest(struct atoll_image_registry *r)
{
    struct atoll_image_token *t = &r->tokens[0];

    for (size_t i = 1; i < ATOLL_IMAGE_TOKENS_MAX; i++)
        if (r->tokens[i].used < t->used)
            t = &r->tokens[i];
    return t;
}

/* Forgets what was not used for the longest time. */
static void remember(struct atoll_image_registry *r, const struct atoll_image_ask *ask,
                     const char *value, int64_t life_s)
{
    ATOLL_AUTOFREE char *key = key_of(ask);
    struct atoll_image_token *t;

    (void)pthread_mutex_lock(&r->lock);
    t = find(r, key);
    if (!t)
        t = oldest(r);
    drop(t);
    t->key = ATOLL_TAKE_PTR(key);
    t->value = strdup(value);
    t->until_ms = atoll_clock_ms() + life_s * 1000;
    t->used = ++r->uses;
    if (!t->value)
        drop(t);
    (void)pthread_mutex_unlock(&r->lock);
}

void atoll_image_auth_forget(struct atoll_image_registry *r, const struct atoll_image_ask *ask)
{
    ATOLL_AUTOFREE char *key = key_of(ask);
    struct atoll_image_token *t;

    (void)pthread_mutex_lock(&r->lock);
    t = find(r, key);
    if (t)
        drop(t);
    (void)pthread_mutex_unlock(&r->lock);
}

void atoll_image_auth_done(struct atoll_image_registry *r)
{
    for (size_t i = 0; i < ATOLL_IMAGE_TOKENS_MAX; i++)
        drop(&r->tokens[i]);
}

static int basic_of(const struct atoll_image_login *login, char **ret, struct atoll_error *err)
{
    struct atoll_buf out, plain;
    int r = 0;

    atoll_buf_init(&out, TOKEN_MAX);
    atoll_buf_init(&plain, TOKEN_MAX / 2);
    if (atoll_buf_appendf(&plain, "%s:%s", login->user, login->password ? login->password : "") <
            0 ||
        atoll_buf_appends(&out, "Basic ") < 0 ||
        atoll_base64_encode(&out, atoll_buf_head(&plain), atoll_buf_size(&plain)) < 0)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EMSGSIZE, "the login is too long");
    else
        *ret = strdup(atoll_buf_str(&out));
    atoll_buf_wipe(&plain);
    atoll_buf_wipe(&out);
    return r < 0 || *ret ? r : atoll_fail_errno(err, ENOMEM, "login");
}

static int append_pair(struct atoll_buf *out, const char *name, const char *value)
{
    char *escaped = value ? curl_easy_escape(NULL, value, 0) : NULL;
    int r = value ? -ENOMEM : 0;

    if (escaped)
        r = atoll_buf_appendf(out, "%s%s=%s", atoll_buf_size(out) > 0 ? "&" : "", name, escaped);
    curl_free(escaped);
    return r;
}

static int append_scopes(struct atoll_buf *out, const struct atoll_image_ask *ask)
{
    char scope[sizeof(ask->place->repository) + 32];
    int r;

    (void)snprintf(scope, sizeof(scope), "repository:%s:pull%s", ask->place->repository,
                   ask->push ? ",push" : "");
    r = append_pair(out, "scope", scope);
    if (r == 0 && ask->from) {
        (void)snprintf(scope, sizeof(scope), "repository:%.*s:pull", ATOLL_IMAGE_PATH_MAX,
                       ask->from);
        r = append_pair(out, "scope", scope);
    }
    return r;
}

/* The parameters of the request for a token: a query, or a form with an identity token. */
static int parameters(const struct atoll_image_ask *ask, const struct atoll_image_login *login,
                      const struct atoll_image_challenge *challenge, struct atoll_buf *out)
{
    int r = append_pair(out, "service", *challenge->service ? challenge->service : NULL);

    if (r == 0)
        r = append_scopes(out, ask);
    if (r == 0 && login && login->identity_token) {
        r = append_pair(out, "grant_type", "refresh_token");
        if (r == 0)
            r = append_pair(out, "client_id", "atoll");
        if (r == 0)
            r = append_pair(out, "refresh_token", login->identity_token);
    } else if (r == 0 && login && login->user) {
        r = append_pair(out, "account", login->user);
    }
    return r;
}

static bool is_sendable(const char *token)
{
    for (const char *p = token; *p; p++)
        if (*p <= ' ' || *p > '~')
            return false;
    return *token && strlen(token) < TOKEN_MAX;
}

/* Answers of a token server. */
static int take_token(const char *body, size_t n, char **ret, int64_t *ret_life_s,
                      struct atoll_error *err)
{
    ATOLL_IMAGE_AUTOJSON json_t *json = json_loadb(body ? body : "", n, 0, NULL);
    const char *token = json_string_value(json_object_get(json, "token"));
    const json_t *life = json_object_get(json, "expires_in");

    if (!token || !*token)
        token = json_string_value(json_object_get(json, "access_token"));
    if (!token || !is_sendable(token))
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EPROTO,
                          "the token server's answer has no token");
    *ret_life_s = json_is_integer(life) ? json_integer_value(life) : TOKEN_S;
    *ret_life_s = ATOLL_MIN(*ret_life_s, (int64_t)TOKEN_S_MAX) - TOKEN_EARLY_S;
    if (asprintf(ret, "Bearer %s", token) < 0)
        return atoll_fail_errno(err, ENOMEM, "token");
    return 0;
}

/* A login that the token server refuses: without one the image may just not exist. */
static int token_refused(const struct atoll_image_ask *ask, const char *host, long status,
                         const struct atoll_remote_answer *answer, struct atoll_error *err)
{
    struct atoll_image_ask said = *ask;
    int r;

    said.sent_auth = status == 403;
    r = atoll_image_refused(&said, status, (const char *)atoll_buf_head(&answer->body),
                            atoll_buf_size(&answer->body), answer->retry_after_s, err);
    /* 404 and the like are about the token server, not about the image. */
    if (status != 401 && status != 403 && status != 429 && status < 500)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EPROTO,
                          "the token server %.100s of the registry %.100s answers %ld", host,
                          ask->place->host, status);
    return r;
}

struct token_request {
    struct atoll_buf parameters, url;
    char *basic;
    struct curl_slist *headers;
};

static void token_request_done(struct token_request *q)
{
    atoll_buf_wipe(&q->parameters);
    atoll_buf_done(&q->url);
    erase(&q->basic);
    curl_slist_free_all(q->headers);
}

static int make_request(const struct atoll_image_ask *ask, const struct atoll_image_login *login,
                        const struct atoll_image_challenge *challenge, struct token_request *q,
                        struct atoll_error *err)
{
    bool form = login && login->identity_token;
    int r = 0;

    atoll_buf_init(&q->parameters, TOKEN_MAX);
    atoll_buf_init(&q->url, TOKEN_MAX);
    if (parameters(ask, login, challenge, &q->parameters) < 0 ||
        atoll_buf_appends(&q->url, challenge->realm) < 0 ||
        (!form && atoll_buf_appendf(&q->url, "%s%s", strchr(challenge->realm, '?') ? "&" : "?",
                                    atoll_buf_str(&q->parameters)) < 0))
        r = atoll_fail_errno(err, ENOMEM, "request for a token");
    if (r == 0 && !form && login && login->user)
        r = basic_of(login, &q->basic, err);
    if (r == 0 && q->basic)
        r = atoll_remote_header(&q->headers, err, "Authorization: %s", q->basic);
    if (r == 0 && form)
        r = atoll_remote_header(&q->headers, err,
                                "Content-Type: application/x-www-form-urlencoded");
    return r;
}

static int get_token(struct atoll_image_registry *r, const struct atoll_image_ask *ask,
                     const struct atoll_image_login *login,
                     const struct atoll_image_challenge *challenge, char **ret, int64_t *ret_life_s,
                     struct atoll_error *err)
{
    const struct atoll_sync_call call = {.deadline_ms = ask->call->deadline_ms,
                                         .cancel_fd = ask->call->cancel_fd};
    ATOLL_CLEANUP(token_request_done) struct token_request q = {0};
    ATOLL_REMOTE_AUTOANSWER struct atoll_remote_answer answer = {0};
    struct atoll_remote_http *http;
    struct atoll_image_url url;
    char what[400];
    bool form = login && login->identity_token;
    int e;

    if (!atoll_image_url_split(challenge->realm, &url))
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EPROTO,
                          "the registry %.200s names a token server that is not a URL",
                          ask->place->host);
    (void)snprintf(what, sizeof(what), "token of %.100s from %.200s", ask->place->host,
                   url.authority);
    e = atoll_image_client_for(r, ask->place, challenge->realm, ask->call, &http, err);
    if (e == 0)
        e = make_request(ask, login, challenge, &q, err);
    if (e == 0)
        e = atoll_remote_http_ask(http, &call,
                                  &(struct atoll_remote_request){
                                      .what = what,
                                      .method = form ? "POST" : "GET",
                                      .url = atoll_buf_str(&q.url),
                                      .headers = q.headers,
                                      .body = form ? atoll_buf_head(&q.parameters) : NULL,
                                      .body_len = form ? atoll_buf_size(&q.parameters) : 0,
                                      .answer_max = ANSWER_MAX,
                                      .timeout_ms = TOKEN_MS,
                                  },
                                  &answer, err);
    if (e == 0 && answer.status != 200)
        e = token_refused(ask, url.authority, answer.status, &answer, err);
    return e < 0 ? e
                 : take_token((const char *)atoll_buf_head(&answer.body),
                              atoll_buf_size(&answer.body), ret, ret_life_s, err);
}

int atoll_image_auth_get(struct atoll_image_registry *r, const struct atoll_image_ask *ask,
                         const char *challenge, char **ret, struct atoll_error *err)
{
    /* A mirror does not get the login of the registry that it stands for. */
    const struct atoll_image_login *login = ask->place->mirror ? NULL : ask->call->login;
    struct atoll_image_challenge c;
    int64_t life_s = TOKEN_S_MAX;
    char *value = NULL;
    int e = 0;

    atoll_image_challenge_parse(challenge, &c);
    if (login && login->registry_token && c.kind == ATOLL_IMAGE_BEARER) {
        if (!is_sendable(login->registry_token))
            return 1;
        if (asprintf(&value, "Bearer %s", login->registry_token) < 0)
            abort();
    } else if (c.kind == ATOLL_IMAGE_BEARER) {
        e = get_token(r, ask, login, &c, &value, &life_s, err);
    } else if (c.kind == ATOLL_IMAGE_BASIC && login && login->user) {
        e = basic_of(login, &value, err);
    } else {
        return 1;
    }
    if (e < 0)
        return e;
    if (life_s > 0)
        remember(r, ask, value, life_s);
    *ret = value;
    return 0;
}

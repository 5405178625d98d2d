#include "task/oauth_login.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/base64.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/rand.h"
#include "task/connectors.h"

/*
 * Logins with the authorization code flow and PKCE. The client (the CLI) opens the URL for the browser and brings back
 * the code; the verifier and the tokens stay in the daemon. A login that is not completed is forgotten.
 */
#define WAIT_MS (10 * 60 * 1000)
#define URL_MAX ((size_t)16 * 1024)
#define CODE_MAX 4096

static void random_text(char out[static ATOLL_OAUTH_RANDOM_MAX])
{
    char text[ATOLL_OAUTH_RANDOM_MAX + 1];
    uint8_t bytes[32];

    atoll_rand_bytes(bytes, sizeof(bytes));
    atoll_base64_text(text, bytes, sizeof(bytes));
    for (char *c = text; *c; c++)
        *c = *c == '+' ? '-' : *c == '/' ? '_' : *c;
    (void)snprintf(out, ATOLL_OAUTH_RANDOM_MAX, "%.*s", (int)strcspn(text, "="), text);
}

struct atoll_oauth_login *atoll_oauth_login_free(struct atoll_oauth_login *l)
{
    if (!l)
        return NULL;
    atoll_timer_cancel(&l->timer);
    json_decref(l->client);
    json_decref(l->scopes);
    atoll_buf_done(&l->url);
    atoll_oauth_form_done(&l->form);
    atoll_oauth_tokens_done(&l->tokens);
    explicit_bzero(l->verifier, sizeof(l->verifier));
    free(l);
    return NULL;
}

/* --- answers to the client --- */

static void answer(struct atoll_oauth_login *l, const struct atoll_error *error)
{
    atoll_oauth_login_fn *begun = l->begun;
    void (*completed)(void *arg, const struct atoll_error *error) = l->completed;

    l->begun = NULL;
    l->completed = NULL;
    if (begun)
        begun(l->arg, error ? NULL : atoll_buf_str(&l->url), error ? NULL : l->state, error);
    if (completed)
        completed(l->arg, error);
}

void atoll_oauth_unwait(struct atoll_oauth *oauth, const void *arg)
{
    struct atoll_oauth_login *l;
    size_t pos = 0;

    while ((l = atoll_map_next(&oauth->logins, &pos)))
        if (l->arg == arg) {
            l->begun = NULL;
            l->completed = NULL;
        }
}

/* Takes it out of the map, and frees it as soon as that can be. */
static void drop(struct atoll_oauth_login *l)
{
    (void)atoll_map_remove(&l->oauth->logins, l->key);
    l->dropped = true;
    if (l->phase == ATOLL_OAUTH_WAITING)
        (void)atoll_oauth_login_free(l);
}

void atoll_oauth_login_forget(struct atoll_oauth *oauth, const char *key)
{
    struct atoll_oauth_login *l = atoll_map_get(&oauth->logins, key);
    struct atoll_error error;

    if (!l)
        return;
    (void)atoll_fail(&error, ATOLL_ERR_ABORTED, ECANCELED,
                     "the login was ended: the connector was changed, or another login began");
    answer(l, &error);
    drop(l);
}

static void expired(void *arg)
{
    drop(arg);
}

/* --- the end of a job --- */

/* The members of "oauth" that the login has found out. */
static void describe(const struct atoll_oauth_login *l, json_t *oauth)
{
    (void)json_object_set(oauth, "tokenUrl", json_object_get(l->client, "tokenUrl"));
    if (l->own_client) {
        static const char *const names[] = {"clientId", "clientSecret", "clientAuth"};
        for (size_t i = 0; i < ATOLL_ARRAY_LEN(names); i++) {
            json_t *value = json_object_get(l->client, names[i]);
            if (value)
                (void)json_object_set(oauth, names[i], value);
            else
                (void)json_object_del(oauth, names[i]);
        }
    }
    if (l->scopes)
        (void)json_object_set(oauth, "scopes", l->scopes);
    (void)json_object_set_new(oauth, "resource", json_string(l->resource));
    (void)json_object_del(oauth, "grant");
    (void)json_object_del(oauth, "refreshToken"); /* of another login */
}

static int store(struct atoll_oauth_login *l, struct atoll_error *err)
{
    struct atoll_connector_view view;
    json_t *definition = NULL;
    int r = atoll_connectors_find(l->oauth->tasks->config.store, l->tenant, l->name, &view,
                                  &definition, err);

    if (r == 0 && !json_object_get(definition, "oauth"))
        (void)json_object_set_new(definition, "oauth", json_object());
    if (r == 0) {
        describe(l, json_object_get(definition, "oauth"));
        r = atoll_oauth_keep(l->oauth, l->tenant, l->name, definition, true, &l->tokens, err);
    }
    json_decref(definition);
    return r;
}

static int settle(struct atoll_oauth_login *l, struct atoll_error *err)
{
    if (l->failed && *l->tokens.refused)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EACCES,
                          "the token server has refused the login (%s): begin again",
                          l->tokens.refused);
    if (l->failed) {
        *err = l->error;
        return atoll_wrap(err, "log in at %s", l->name);
    }
    return l->phase == ATOLL_OAUTH_EXCHANGING ? store(l, err) : 0;
}

static void ended(struct atoll_job *job)
{
    struct atoll_oauth_login *l = ATOLL_CONTAINER_OF(job, struct atoll_oauth_login, job);
    bool exchanged = l->phase == ATOLL_OAUTH_EXCHANGING;
    struct atoll_oauth *oauth = l->oauth;
    struct atoll_error error;
    int r;

    if (oauth->closing) { /* atoll_oauth_free() frees those in the map */
        if (l->dropped)
            (void)atoll_oauth_login_free(l);
        return;
    }
    if (l->dropped) {
        (void)atoll_oauth_login_free(l);
        return;
    }
    r = settle(l, &error);
    l->phase = ATOLL_OAUTH_WAITING;
    atoll_log(ATOLL_LOG_INFO, "login of a connector", "tenant", l->tenant, "connector", l->name,
              "result",
              r < 0       ? error.text
              : exchanged ? "completed"
                          : "begun",
              NULL);
    if (r == 0 && !exchanged)
        atoll_timer_set(&l->timer, oauth->tasks->config.loop, WAIT_MS, expired, l);
    answer(l, r < 0 ? &error : NULL);
    if (r < 0 || exchanged)
        drop(l);
    if (r == 0 && exchanged)
        atoll_oauth_tend(oauth);
}

/* --- its beginning --- */

/* On a worker. */
static void discover(struct atoll_job *job)
{
    struct atoll_oauth_login *l = ATOLL_CONTAINER_OF(job, struct atoll_oauth_login, job);

    l->failed = atoll_oauth_discover(l, &l->error) < 0;
}

static int take_client(struct atoll_oauth_login *l, const struct atoll_oauth_login_request *request,
                       const json_t *definition, struct atoll_error *err)
{
    int r = atoll_oauth_client(l->oauth, l->tenant, l->name, definition, &l->client, err);

    if (r < 0)
        return r;
    (void)json_object_del(l->client, "refreshToken");
    if (request->client_id) {
        (void)json_object_set_new(l->client, "clientId", json_string(request->client_id));
        (void)json_object_del(l->client, "clientSecret");
        if (request->client_secret)
            (void)json_object_set_new(l->client, "clientSecret",
                                      json_string(request->client_secret));
        l->own_client = true;
    }
    return 0;
}

static int prepare(struct atoll_oauth_login *l, const struct atoll_oauth_login_request *request,
                   struct atoll_error *err)
{
    struct atoll_connector_view view;
    json_t *definition = NULL;
    const json_t *scopes;
    const char *url;
    int r = atoll_connectors_find(l->oauth->tasks->config.store, l->tenant, l->name, &view,
                                  &definition, err);

    if (r == 0 && !json_object_get(definition, "oauth"))
        (void)json_object_set_new(definition, "oauth", json_object());
    (void)json_object_del(json_object_get(definition, "oauth"), "refused");
    if (r == 0)
        r = atoll_connector_check(definition, l->name, err);
    if (r == 0 && atoll_oauth_is(json_object_get(definition, "oauth"), "client_credentials"))
        r = atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EINVAL,
                       "the connector %s needs no login: it has the credentials of a client",
                       l->name);
    if (r == 0)
        r = take_client(l, request, definition, err);
    if (r == 0) {
        url = json_string_value(json_object_get(definition, "url"));
        (void)snprintf(l->server, sizeof(l->server), "%.*s", (int)strcspn(url, "?#"), url);
        atoll_oauth_resource(definition, l->resource);
        scopes = request->scopes ? request->scopes
                                 : json_object_get(json_object_get(definition, "oauth"), "scopes");
        l->scopes = scopes ? json_deep_copy(scopes) : NULL;
    }
    json_decref(definition);
    return r;
}

void atoll_oauth_login(struct atoll_oauth *oauth, const struct atoll_oauth_login_request *request,
                       atoll_oauth_login_fn *done, void *arg)
{
    struct atoll_oauth_login *l = atoll_alloc(sizeof(*l));
    struct atoll_error error;
    int r;

    l->job = (struct atoll_job){.run = discover, .done = ended, .owner = l->tenant};
    l->oauth = oauth;
    (void)atoll_oauth_key(request->tenant, request->name, l->key);
    (void)snprintf(l->tenant, sizeof(l->tenant), "%s", request->tenant);
    (void)snprintf(l->name, sizeof(l->name), "%s", request->name);
    (void)snprintf(l->redirect_uri, sizeof(l->redirect_uri), "%s", request->redirect_uri);
    atoll_buf_init(&l->url, URL_MAX);
    random_text(l->state);
    random_text(l->verifier);
    r = prepare(l, request, &error);
    if (r == 0) {
        atoll_oauth_login_forget(oauth, l->key);
        if (atoll_map_put(&oauth->logins, l->key, l) < 0)
            r = atoll_fail_errno(&error, ENOMEM, "a login");
    }
    if (r == 0) {
        r = atoll_outgoing_submit(oauth->outgoing, &l->job, &error);
        if (r < 0)
            (void)atoll_map_remove(&oauth->logins, l->key);
    }
    l->begun = done;
    l->arg = arg;
    if (r < 0) {
        answer(l, &error);
        (void)atoll_oauth_login_free(l);
    }
}

/* --- the code --- */

/* On a worker. */
static void exchange(struct atoll_job *job)
{
    struct atoll_oauth_login *l = ATOLL_CONTAINER_OF(job, struct atoll_oauth_login, job);

    l->failed = atoll_oauth_ask(l->oauth->outgoing, l->tenant, &l->form, &l->tokens, &l->error) < 0;
}

static int fill_form(struct atoll_oauth_login *l, const char *code, struct atoll_error *err)
{
    int r = atoll_oauth_form_init(&l->form, l->client, err);

    if (r < 0)
        return r;
    r = atoll_oauth_form_add(&l->form, "grant_type", "authorization_code");
    if (r == 0)
        r = atoll_oauth_form_add(&l->form, "code", code);
    if (r == 0)
        r = atoll_oauth_form_add(&l->form, "redirect_uri", l->redirect_uri);
    if (r == 0)
        r = atoll_oauth_form_add(&l->form, "code_verifier", l->verifier);
    if (r == 0 && *l->resource)
        r = atoll_oauth_form_add(&l->form, "resource", l->resource);
    return r < 0 ? atoll_fail_errno(err, -r, "a request for tokens") : 0;
}

static int check_code(const struct atoll_oauth_login *l, const char *state, const char *code,
                      const char *iss, struct atoll_error *err)
{
    if (!l || l->phase != ATOLL_OAUTH_WAITING || strlen(state) != strlen(l->state) ||
        CRYPTO_memcmp(state, l->state, strlen(l->state)) != 0)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ENOENT,
                          "there is no login that waits for this code: it has ended, or another "
                          "one began. Begin again");
    if (!*code || strlen(code) > CODE_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "code must have 1 to %d characters", CODE_MAX);
    if (iss && strcmp(iss, l->issuer) != 0)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EPERM,
                          "the code is of another authorization server than %.200s", l->issuer);
    return 0;
}

void atoll_oauth_login_complete(struct atoll_oauth *oauth, const char *tenant, const char *name,
                                const char *state, const char *code, const char *iss,
                                void (*done)(void *arg, const struct atoll_error *error), void *arg)
{
    char key[ATOLL_OAUTH_KEY_MAX];
    struct atoll_oauth_login *l = atoll_map_get(&oauth->logins, atoll_oauth_key(tenant, name, key));
    struct atoll_error error;
    int r = check_code(l, state, code, iss, &error);

    if (r < 0) {
        done(arg, &error);
        return;
    }
    atoll_timer_cancel(&l->timer);
    r = fill_form(l, code, &error);
    if (r == 0) {
        l->job = (struct atoll_job){.run = exchange, .done = ended, .owner = l->tenant};
        r = atoll_outgoing_submit(oauth->outgoing, &l->job, &error);
    }
    if (r < 0) {
        drop(l);
        done(arg, &error);
        return;
    }
    l->phase = ATOLL_OAUTH_EXCHANGING;
    l->completed = done;
    l->arg = arg;
}

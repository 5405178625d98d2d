#pragma once
#include "base/buf.h"
#include "base/map.h"
#include "loop/loop.h"
#include "task/oauth.h"
#include "task/outgoing.h"
#include "task/task_internal.h"

/*
 * Internal to the OAuth of connectors.
 */
#define ATOLL_OAUTH_KEY_MAX 136 /* "TENANT/NAME" */
#define ATOLL_OAUTH_URL_MAX 2000

struct atoll_oauth {
    struct atoll_tasks *tasks; /* borrowed */
    struct atoll_outgoing *outgoing;
    struct atoll_map flights; /* renewals under way, of struct flight by "TENANT/NAME"; owned */
    struct atoll_map logins;  /* of struct atoll_oauth_login by the same; owned */
    struct atoll_timer timer; /* of the next renewal for running tasks */
    bool closing;
};

/* oauth.c */
const char *atoll_oauth_key(const char *tenant, const char *name,
                            char out[static ATOLL_OAUTH_KEY_MAX]);
/* Whether the token is good for a while. */
bool atoll_oauth_is_fresh(const struct atoll_oauth *oauth, const char *tenant, const char *name);
/* Gets a token; atoll_task_oauth_got() follows. One request serves all tasks. */
int atoll_oauth_get(struct atoll_oauth *oauth, const char *tenant, const char *name,
                    const char *task_id, struct atoll_error *err) ATOLL_MUST_CHECK;
/* The error of a connector for which no user has logged in. */
int atoll_oauth_no_login(const char *name, struct atoll_error *err);
/* Renews the tokens of running tasks when it is time, from now on. */
void atoll_oauth_tend(struct atoll_oauth *oauth);

/* oauth_check.c */
/* The resource of tokens (RFC 8707): that of the definition, or its URL without the query; "": none. */
void atoll_oauth_resource(const json_t *definition, char out[static ATOLL_OAUTH_URL_MAX + 1]);
bool atoll_oauth_is(const json_t *oauth, const char *grant);

/* oauth_token.c: requests for tokens */
struct atoll_oauth_tokens {
    char *access, *refresh; /* owned; refresh NULL: there is no new one */
    int64_t lifetime_ms;
    char refused[40]; /* the reason, if it is one of RFC 6749 or a status; "": it has not refused */
};
void atoll_oauth_tokens_done(struct atoll_oauth_tokens *tokens); /* erases them */

struct atoll_oauth_form {
    char url[ATOLL_OAUTH_URL_MAX + 1];
    struct curl_slist *headers; /* may have the secret of the client */
    struct atoll_buf body;
};
/* A form with the identity of the client: tokenUrl, clientId, clientSecret, clientAuth, whose values are
 * complete. form_done() also after a failure. */
int atoll_oauth_form_init(struct atoll_oauth_form *form, const json_t *client,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_oauth_form_add(struct atoll_oauth_form *form, const char *name,
                         const char *value) ATOLL_MUST_CHECK;
/* The scopes, with blanks; none: nothing. */
int atoll_oauth_form_scopes(struct atoll_oauth_form *form, const json_t *scopes) ATOLL_MUST_CHECK;
void atoll_oauth_form_done(struct atoll_oauth_form *form); /* erases it */
/* NAME=VALUE, encoded, behind the character `before` unless out is empty. */
int atoll_oauth_add_pair(struct atoll_buf *out, char before, const char *name,
                         const char *value) ATOLL_MUST_CHECK;
/* Thread: a worker. FAILED_PRECONDITION with ret->refused; UNAVAILABLE and so on. */
int atoll_oauth_ask(struct atoll_outgoing *outgoing, const char *tenant,
                    const struct atoll_oauth_form *form, struct atoll_oauth_tokens *ret,
                    struct atoll_error *err) ATOLL_MUST_CHECK;
extern const struct atoll_remote_service atoll_oauth_service;

/* oauth_store.c: what is stored */
/* The values of the client that a definition has, with secrets in place: an object, owned by the caller. */
int atoll_oauth_client(const struct atoll_oauth *oauth, const char *tenant, const char *name,
                       const json_t *definition, json_t **ret,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
/* Stores new tokens, and a changed definition if there is one. */
int atoll_oauth_keep(struct atoll_oauth *oauth, const char *tenant, const char *name,
                     json_t *definition, bool changed, const struct atoll_oauth_tokens *tokens,
                     struct atoll_error *err) ATOLL_MUST_CHECK;
/* When the token ends and when it is to be renewed; false: there is none. */
bool atoll_oauth_times(const struct atoll_oauth *oauth, const char *tenant, const char *name,
                       int64_t *ret_expires, int64_t *ret_due);
/* Removes the token. */
void atoll_oauth_drop(struct atoll_oauth *oauth, const char *tenant, const char *name);

/* oauth_login.c */
struct atoll_oauth_login;
struct atoll_oauth_login *atoll_oauth_login_free(struct atoll_oauth_login *login);
void atoll_oauth_login_forget(struct atoll_oauth *oauth, const char *key);

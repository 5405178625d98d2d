#pragma once
#include <jansson.h>
#include "base/error.h"

/*
 * OAuth of connectors. A connector with the member "oauth" is a server elsewhere that wants an access token. The daemon gets
 * the token, by a login, a refresh token or the credentials of a client, and stores it as the secret "oauth.NAME" of
 * the tenant; atoll-egress puts it into requests. It is renewed before a task uses it and while one does.
 *
 *   {"grant": "refresh_token" | "client_credentials" | "authorization_code", "tokenUrl", "clientId", "clientSecret",
 *    "clientAuth": "basic" | "post", "refreshToken", "scopes": […], "resource"}
 *
 * The daemon adds "refused", the reason of the token server, and changes "refreshToken" when it gets a new one.
 *
 * Blocking: as store/secrets.h; requests run on worker threads. Thread: the loop's.
 */
struct atoll_tasks;
struct atoll_oauth;

#define ATOLL_OAUTH_SECRET "oauth." /* and the name of the connector */
#define ATOLL_OAUTH_NAME_MAX 58     /* of such a connector */

int atoll_oauth_new(struct atoll_tasks *tasks, struct atoll_oauth **ret,
                    struct atoll_error *err) ATOLL_MUST_CHECK;
/* Interrupts requests. Accepts NULL. */
struct atoll_oauth *atoll_oauth_free(struct atoll_oauth *oauth);

/* Whether the definition of a server has a good "oauth". where: its name in errors. INVALID_ARGUMENT. */
int atoll_oauth_check(const json_t *definition, const char *where,
                      struct atoll_error *err) ATOLL_MUST_CHECK;

/* https, or http to this machine; without user, blanks and fragment. */
bool atoll_oauth_is_endpoint(const char *url);

struct atoll_oauth_view {
    /* "ready": there is a token; "idle": one is got when a task needs it; "login": a user has to log in;
     * "refused": the token server has refused */
    const char *state;
    const char *reason;      /* of "refused"; or NULL */
    int64_t expires_unix_ms; /* of the token; 0: there is none */
};
void atoll_oauth_look(const struct atoll_oauth *oauth, const char *tenant, const char *name,
                      const json_t *definition, struct atoll_oauth_view *ret);

/* Forgets the token of a connector that will be changed or removed, and ends its login. */
void atoll_oauth_forget(struct atoll_oauth *oauth, const char *tenant, const char *name);
struct atoll_oauth *atoll_tasks_oauth(const struct atoll_tasks *tasks);

/* --- logins with the authorization code flow (oauth_login.c) --- */

struct atoll_oauth_login_request {
    const char *tenant, *name; /* of the connector */
    const char *redirect_uri;  /* of the client: where the browser is sent afterwards */
    const char *client_id,
        *client_secret;   /* NULL: those of the connector, or Atoll registers itself */
    const json_t *scopes; /* a list of texts; NULL: those of the connector or of the server */
};
/* One login of each connector at a time: a new one ends the one before. `done` is called once, from the loop: url is
 * where the browser of the user goes; the code that it brings belongs to `state`. NOT_FOUND, INVALID_ARGUMENT,
 * FAILED_PRECONDITION, UNAVAILABLE. */
typedef void atoll_oauth_login_fn(void *arg, const char *url, const char *state,
                                  const struct atoll_error *error);
void atoll_oauth_login(struct atoll_oauth *oauth, const struct atoll_oauth_login_request *request,
                       atoll_oauth_login_fn *done, void *arg);
/* Completes it: exchanges the code for tokens, and stores them. iss: as the browser brought it, or NULL. */
void atoll_oauth_login_complete(struct atoll_oauth *oauth, const char *tenant, const char *name,
                                const char *state, const char *code, const char *iss,
                                void (*done)(void *arg, const struct atoll_error *error),
                                void *arg);
/* The caller is gone: its `done` is not called any more. */
void atoll_oauth_unwait(struct atoll_oauth *oauth, const void *arg);

#pragma once
#include "task/oauth_internal.h"

/*
 * A login with the authorization code flow: shared by oauth_login.c (the loop) and oauth_discovery.c (a worker).
 */
#define ATOLL_OAUTH_RANDOM_MAX 44 /* 32 random bytes as base64 for URLs */

enum atoll_oauth_phase {
    ATOLL_OAUTH_DISCOVERING, /* a worker finds the endpoints and the client */
    ATOLL_OAUTH_WAITING,     /* for the code */
    ATOLL_OAUTH_EXCHANGING,  /* a worker gets tokens for the code */
};

struct atoll_oauth_login {
    struct atoll_job job;
    struct atoll_oauth *oauth;
    char key[ATOLL_OAUTH_KEY_MAX], tenant[65], name[65];
    enum atoll_oauth_phase phase;
    bool dropped; /* it is in no map any more: freed when its job has ended */
    struct atoll_timer timer;
    char state[ATOLL_OAUTH_RANDOM_MAX], verifier[ATOLL_OAUTH_RANDOM_MAX];
    char redirect_uri[ATOLL_OAUTH_URL_MAX + 1];
    char server[ATOLL_OAUTH_URL_MAX + 1]; /* URL of the MCP server, without its query */
    json_t *
        client; /* owned: tokenUrl, clientId, clientSecret, clientAuth; complete after the discovery */
    bool own_client; /* Atoll has registered itself, or a client was named */
    json_t *scopes;  /* owned; NULL: none given */
    char resource[ATOLL_OAUTH_URL_MAX + 1], issuer[ATOLL_OAUTH_URL_MAX + 1];
    struct atoll_buf url; /* where the browser goes */
    struct atoll_oauth_form form;
    struct atoll_oauth_tokens tokens;
    struct atoll_error error;
    bool failed;
    atoll_oauth_login_fn *begun; /* NULL: called, or the client is gone */
    void (*completed)(void *arg, const struct atoll_error *error); /* likewise */
    void *arg;
};

/* Thread: a worker. Finds the authorization server of login->server, registers a client if there is none, and
 * makes login->url. */
int atoll_oauth_discover(struct atoll_oauth_login *login, struct atoll_error *err) ATOLL_MUST_CHECK;

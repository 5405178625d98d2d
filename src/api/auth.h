#pragma once
#include "access/access.h"
#include "base/error.h"
#include "net/http_server.h"

/*
 * Authentication. A client sends a key as "Authorization: Bearer KEY" or "X-API-Key: KEY"; the key
 * identifies its tenant. On a unix socket the kernel reports the peer's uid: without a key, root
 * and the daemon's own user are admins of the default tenant. An admin may act for another tenant
 * with the header X-Atoll-Tenant. Every authentication failure gets the same answer, whatever is
 * wrong with the key.
 */
struct atoll_auth {
    struct atoll_access *access; /* borrowed; NULL: keys are not supported */
    int state_fd;                /* borrowed; the directory of the file api-key */
    /* Programs of this host, run by root or the daemon's own user, need no key over TCP either. Pages
     * in a browser do. */
    bool open_loopback;
    struct atoll_sandbox_tokens *tokens; /* borrowed; NULL: not supported */
};

/* The tag (struct atoll_http_peer) of connections that always need a key or a token, also from root. */
#define ATOLL_AUTH_NEEDS_KEY 1

struct atoll_caller {
    char tenant[65]; /* "" while unknown */
    char key_id[33]; /* "" for a caller identified by the socket */
    uid_t uid;       /* set when key_id is "" */
    enum atoll_scope scope;
    bool every_tenant;       /* an admin without X-Atoll-Tenant: finds every id */
    char sandbox_id[33];     /* of a token, which opens nothing else; "" for others */
    int64_t expires_unix_ms; /* of the token */
};

/* Ensures that at least one admin key exists, for clients over TCP. If no admin key is stored,
 * takes the key in the file api-key of the state directory; if the file does not exist, generates a
 * key and creates the file. new_key holds ATOLL_KEY_LEN + 1 bytes and is "" when no key was
 * generated. FAILED_PRECONDITION when the file is malformed or readable by others. Blocking: one
 * small file. */
int atoll_auth_open(const struct atoll_auth *auth, char *new_key,
                    struct atoll_error *err) ATOLL_MUST_CHECK;
/* Removes a key. If the key is in the file api-key, removes the file first; otherwise the next
 * start would add the key again. NOT_FOUND. */
int atoll_auth_remove_key(const struct atoll_auth *auth, const char *id,
                          struct atoll_error *err) ATOLL_MUST_CHECK;

/* The key or token that the request shows; NULL: none. Borrowed. */
const char *atoll_auth_shown(const struct atoll_http_request *req);
/* As atoll_access_find(), for a key as the clients of any facade write it. */
bool atoll_auth_find_key(const struct atoll_auth *auth, const char *shown,
                         struct atoll_key_view *ret);
/* Identifies the sender of the request. UNAUTHENTICATED, PERMISSION_DENIED, INVALID_ARGUMENT. */
int atoll_auth_check(const struct atoll_auth *auth, const struct atoll_http_request *req,
                     struct atoll_caller *ret, struct atoll_error *err) ATOLL_MUST_CHECK;

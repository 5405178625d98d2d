#pragma once
#include "base/error.h"
#include "net/http_server.h"

/*
 * Who may call. On a unix socket the kernel says who the peer is: root and the daemon's own user
 * are let in. On TCP the caller shows the key, as "Authorization: Bearer KEY" or "X-API-Key: KEY";
 * only its SHA-256 is kept in memory.
 */
enum atoll_scope {
    ATOLL_SCOPE_PUBLIC, /* anybody */
    ATOLL_SCOPE_READ,
    ATOLL_SCOPE_WRITE,
};

struct atoll_auth {
    bool has_key; /* without one nobody is let in over TCP */
    uint8_t key_sha256[32];
};

#define ATOLL_AUTH_KEY_LEN 44 /* "atl_" and 40 of a-z0-9 */

/* Reads the key from the file api-key in state_fd, made with a new key where it is not there.
 * FAILED_PRECONDITION when the file is malformed or open to others. Blocking: one small file. */
int atoll_auth_load(struct atoll_auth *auth, int state_fd,
                    struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_auth_set_key(struct atoll_auth *auth, const char *key);

/* What the sender of the request may do. UNAUTHENTICATED, PERMISSION_DENIED. */
int atoll_auth_check(const struct atoll_auth *auth, const struct atoll_http_request *req,
                     enum atoll_scope *ret_scope, struct atoll_error *err) ATOLL_MUST_CHECK;

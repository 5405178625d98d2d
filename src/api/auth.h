#pragma once
#include "access/access.h"
#include "base/error.h"
#include "net/http_server.h"

/*
 * Who calls. A key comes as "Authorization: Bearer KEY" or "X-API-Key: KEY" and speaks for its
 * tenant. On a unix socket the kernel says who the peer is: without a key, root and the daemon's own
 * user are admins of the default tenant. An admin may act for another tenant with the header
 * X-Atoll-Tenant. Whatever is wrong with a key, the answer is the same.
 */
struct atoll_auth {
    struct atoll_access *access; /* borrowed; NULL: there are no keys */
    int state_fd;                /* borrowed; where the file api-key is */
};

struct atoll_caller {
    char tenant[65]; /* "" until it is known */
    char key_id[33]; /* "" where the socket told who it is */
    uid_t uid;       /* then */
    enum atoll_scope scope;
    bool every_tenant; /* an admin who acts for nobody in particular: finds every id */
};

/* Sees to it that there is a key for TCP: where no admin has one, that in the file api-key of the
 * state directory, which is made with a new one if it is not there. new_key holds
 * ATOLL_KEY_LEN + 1 bytes and is "" when no key was made.
 * FAILED_PRECONDITION when the file is malformed or open to others. Blocking: one small file. */
int atoll_auth_open(const struct atoll_auth *auth, char *new_key,
                    struct atoll_error *err) ATOLL_MUST_CHECK;
/* Takes a key away; if it is the one in the file api-key, the file goes first, or the next start
 * would bring it back. NOT_FOUND. */
int atoll_auth_remove_key(const struct atoll_auth *auth, const char *id,
                          struct atoll_error *err) ATOLL_MUST_CHECK;

/* Who sent the request. UNAUTHENTICATED, PERMISSION_DENIED, INVALID_ARGUMENT. */
int atoll_auth_check(const struct atoll_auth *auth, const struct atoll_http_request *req,
                     struct atoll_caller *ret, struct atoll_error *err) ATOLL_MUST_CHECK;

#include "api/auth.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include "api/facade.h"
#include "base/fd.h"
#include "base/text.h"
#include "net/local_peer.h"

#define KEY_FILE "api-key"

/* The api-key file, which holds the first key. */

static int write_key(int state_fd, const char *key)
{
    char line[ATOLL_KEY_LEN + 2];
    int n = snprintf(line, sizeof(line), "%s\n", key);
    int r = atoll_fd_replace_file(state_fd, KEY_FILE, line, (size_t)n);

    OPENSSL_cleanse(line, sizeof(line));
    return r;
}

static int parse_key_file(int fd, char *key, struct atoll_error *err)
{
    char text[ATOLL_KEY_LEN + 8] = "";
    struct stat st;
    bool valid;

    if (fstat(fd, &st) < 0)
        return atoll_fail_errno(err, errno, "reading the file " KEY_FILE);
    if (!S_ISREG(st.st_mode) || st.st_mode & 077)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EPERM,
                          "the file " KEY_FILE " in the state directory is open to other users; "
                          "remove it to get a new key, or chmod it to 600");
    if (read(fd, text, sizeof(text) - 1) < 0)
        return atoll_fail_errno(err, errno, "reading the file " KEY_FILE);
    text[strcspn(text, "\r\n")] = '\0';
    valid = atoll_key_is_valid(text);
    if (valid)
        memcpy(key, text, ATOLL_KEY_LEN + 1);
    OPENSSL_cleanse(text, sizeof(text));
    return valid
               ? 0
               : atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EINVAL,
                            "the file " KEY_FILE " in the state directory holds no key; remove it "
                            "to get a new one");
}

/* 1: key is filled in, 0: the file does not exist. */
static int read_key(int state_fd, char *key, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int fd =
        openat(state_fd, KEY_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    int r;

    if (fd < 0)
        return errno == ENOENT ? 0 : atoll_fail_errno(err, errno, "opening the file " KEY_FILE);
    r = parse_key_file(fd, key, err);
    return r < 0 ? r : 1;
}

int atoll_auth_open(const struct atoll_auth *auth, char *new_key, struct atoll_error *err)
{
    char key[ATOLL_KEY_LEN + 1];
    struct atoll_key_view view;
    int found = read_key(auth->state_fd, key, err), r = found < 0 ? found : 0;

    new_key[0] = '\0';
    if (r == 0 && !atoll_access_has_admin(auth->access)) {
        /* The file is written before the store: after a crash in between, the next start reads
         * the key from the file and stores it. */
        if (!found) {
            atoll_key_generate(key);
            r = write_key(auth->state_fd, key);
            if (r < 0)
                r = atoll_fail_errno(err, -r, "writing the file " KEY_FILE);
        }
        if (r == 0)
            r = atoll_access_add(auth->access, key, ATOLL_TENANT_DEFAULT, ATOLL_SCOPE_ADMIN, &view,
                                 err);
        if (r == 0 && !found)
            memcpy(new_key, key, sizeof(key));
    }
    OPENSSL_cleanse(key, sizeof(key));
    return r;
}

int atoll_auth_remove_key(const struct atoll_auth *auth, const char *id, struct atoll_error *err)
{
    char key[ATOLL_KEY_LEN + 1];
    struct atoll_key_view view;

    if (read_key(auth->state_fd, key, NULL) > 0) {
        if (atoll_access_find(auth->access, key, &view) && strcmp(view.id, id) == 0 &&
            unlinkat(auth->state_fd, KEY_FILE, 0) < 0 && errno != ENOENT)
            return atoll_fail_errno(err, errno, "removing the file " KEY_FILE);
        OPENSSL_cleanse(key, sizeof(key));
    }
    return atoll_access_remove(auth->access, id, err);
}

/* Identifying the caller. */

const char *atoll_auth_shown(const struct atoll_http_request *req)
{
    const char *authorization = atoll_http_header(req, "authorization");

    if (authorization && strncasecmp(authorization, "bearer ", 7) == 0)
        return authorization + 7 + strspn(authorization + 7, " ");
    if (authorization)
        return ""; /* an unknown scheme counts as a wrong key, not as a missing one */
    return atoll_http_header(req, "x-api-key");
}

bool atoll_auth_find_key(const struct atoll_auth *auth, const char *shown,
                         struct atoll_key_view *ret)
{
    char own[ATOLL_KEY_LEN + 1];
    bool found;

    for (const struct atoll_facade *const *f = atoll_facades; *f; f++)
        if ((*f)->key && (*f)->key->read(shown, own)) {
            found = atoll_access_find(auth->access, own, ret);
            OPENSSL_cleanse(own, sizeof(own));
            return found;
        }
    return atoll_access_find(auth->access, shown, ret);
}

static int identify_by_key(const struct atoll_auth *auth, const char *key, struct atoll_caller *ret,
                           struct atoll_error *err)
{
    struct atoll_key_view view;

    if (!auth->access || !atoll_auth_find_key(auth, key, &view))
        return atoll_fail(err, ATOLL_ERR_UNAUTHENTICATED, EACCES, "this needs a valid API key");
    (void)snprintf(ret->tenant, sizeof(ret->tenant), "%s", view.tenant);
    (void)snprintf(ret->key_id, sizeof(ret->key_id), "%s", view.id);
    ret->scope = view.scope;
    return 0;
}

static int identify_by_socket(const struct atoll_http_peer *peer, struct atoll_caller *ret,
                              struct atoll_error *err)
{
    if (peer->tag == ATOLL_AUTH_NEEDS_KEY)
        return atoll_fail(err, ATOLL_ERR_UNAUTHENTICATED, EACCES, "this needs a valid API key");
    if (peer->uid != 0 && peer->uid != geteuid())
        return atoll_fail(err, ATOLL_ERR_PERMISSION_DENIED, EPERM,
                          "this socket serves root and the user the daemon runs as, not uid %u; "
                          "others need an API key",
                          (unsigned)peer->uid);
    (void)snprintf(ret->tenant, sizeof(ret->tenant), ATOLL_TENANT_DEFAULT);
    ret->uid = peer->uid;
    ret->scope = ATOLL_SCOPE_ADMIN;
    return 0;
}

/* "localhost:8000" and the like: a page can also use other names that resolve to 127.0.0.1. */
static bool is_loopback_name(const char *host)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(names); i++) {
        size_t n = strlen(names[i]);
        if (strncasecmp(host, names[i], n) == 0 && (host[n] == '\0' || host[n] == ':'))
            return true;
    }
    return false;
}

/* Whether this is a request of a program, or of a page that the daemon itself served. A page of
 * another site can make a browser send requests here. */
static bool is_sent_by_program(const struct atoll_http_request *req)
{
    const char *host = atoll_http_header(req, "host");
    const char *origin = atoll_http_header(req, "origin");
    const char *site = atoll_http_header(req, "sec-fetch-site");

    if (!host || !is_loopback_name(host))
        return false;
    if (site && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0)
        return false;
    if (!origin)
        return true;
    origin = strstr(origin, "://");
    return origin && strcmp(origin + 3, host) == 0;
}

static bool is_local(const struct atoll_auth *auth, const struct atoll_http_request *req,
                     struct atoll_http_peer *peer)
{
    return auth->open_loopback && !peer->is_unix && is_sent_by_program(req) &&
           atoll_local_peer_uid(peer->address, &peer->uid) == 0 &&
           (peer->uid == 0 || peer->uid == geteuid());
}

static int act_for(struct atoll_caller *caller, const char *tenant, struct atoll_error *err)
{
    if (!atoll_text_is_name(tenant))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "the header X-Atoll-Tenant must be the name of a tenant");
    if (caller->scope != ATOLL_SCOPE_ADMIN && strcmp(caller->tenant, tenant) != 0)
        return atoll_fail(err, ATOLL_ERR_PERMISSION_DENIED, EPERM,
                          "only a key of scope admin may act for another tenant");
    (void)snprintf(caller->tenant, sizeof(caller->tenant), "%s", tenant);
    caller->every_tenant = false;
    return 0;
}

int atoll_auth_check(const struct atoll_auth *auth, const struct atoll_http_request *req,
                     struct atoll_caller *ret, struct atoll_error *err)
{
    struct atoll_http_peer peer = *atoll_http_peer(req);
    const char *key = atoll_auth_shown(req), *tenant = atoll_http_header(req, "x-atoll-tenant");
    struct atoll_caller caller = {.uid = (uid_t)-1};
    bool by_socket = !key && (peer.is_unix || is_local(auth, req, &peer));
    int r = by_socket ? identify_by_socket(&peer, &caller, err)
                      : identify_by_key(auth, key ? key : "", &caller, err);

    if (r < 0)
        return r;
    caller.every_tenant = caller.scope == ATOLL_SCOPE_ADMIN;
    if (tenant)
        r = act_for(&caller, tenant, err);
    if (r == 0)
        *ret = caller;
    return r;
}

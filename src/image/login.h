#pragma once
#include "image/reference.h"

/*
 * The logins that exist for Docker: config.json, as `docker login`, podman and skopeo write it. Programs
 * that keep logins (credsStore, credHelpers) are not run; they are named in the error when the registry
 * refuses. Texts in it are secrets: _done() erases them.
 */
#define ATOLL_IMAGE_LOGINS_MAX ((size_t)1024 * 1024) /* bytes of config.json */

struct atoll_image_login {
    char *user, *password; /* owned; NULL: anonymous */
    char *identity_token;  /* owned; an OAuth2 refresh token in place of the password; or NULL */
    char *registry_token;  /* owned; a bearer token to send as it is; or NULL */
    char helper[64];       /* the program that keeps the login of this host; "": none */
};
void atoll_image_login_done(struct atoll_image_login *login);
/* Copies; user NULL: anonymous. Aborts without memory. */
void atoll_image_login_set(struct atoll_image_login *login, const char *user, const char *password);

/* The login for a host of references ("docker.io" is https://index.docker.io/v1/ there) in the text of a
 * config.json; anonymous if it has no login for the host. FAILED_PRECONDITION: malformed. */
int atoll_image_login_find(const char *json, size_t n, const char *host,
                           struct atoll_image_login *ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* The same with a file; anonymous if there is no such file. Blocking: reads a file. */
int atoll_image_login_load(const char *path, const char *host, struct atoll_image_login *ret,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
/* Where Docker keeps it: $DOCKER_CONFIG/config.json, else ~/.docker/config.json. -ENOENT: no home. */
int atoll_image_login_path(char *out, size_t cap) ATOLL_MUST_CHECK;

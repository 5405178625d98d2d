#include "image/login.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "base/base64.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/text.h"
#include "image/json.h"

#define AUTH_MAX ((size_t)64 * 1024) /* of one login, decoded: some are long tokens */
#define TOKEN_USER "<token>"         /* the user of an identity token in the file */

static char *must_dup(const char *text)
{
    char *copy = text ? strdup(text) : NULL;

    if (text && !copy)
        abort();
    return copy;
}

static void erase(char **text)
{
    if (*text)
        explicit_bzero(*text, strlen(*text));
    free(*text);
    *text = NULL;
}

void atoll_image_login_done(struct atoll_image_login *login)
{
    erase(&login->user);
    erase(&login->password);
    erase(&login->identity_token);
    erase(&login->registry_token);
    login->helper[0] = '\0';
}

void atoll_image_login_set(struct atoll_image_login *login, const char *user, const char *password)
{
    atoll_image_login_done(login);
    login->user = must_dup(user);
    login->password = must_dup(user ? (password ? password : "") : NULL);
}

static int malformed(struct atoll_error *err, const char *host)
{
    return atoll_fail(
        err, ATOLL_ERR_FAILED_PRECONDITION, EPROTO,
        "the login for %.200s in Docker's config.json is malformed; run `docker login "
        "%.200s` again",
        host, host);
}

/* Whether a key of `auths` is of this host: "https://HOST/v1/", "HOST" or "HOST/path". */
static bool is_key_of(const char *key, const char *host)
{
    static const char *const schemes[] = {"https://", "http://"};
    static const char *const hub[] = {"index.docker.io", "registry-1.docker.io"};
    size_t n;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(schemes); i++)
        if (strncmp(key, schemes[i], strlen(schemes[i])) == 0)
            key += strlen(schemes[i]);
    n = strcspn(key, "/");
    if (strlen(host) == n && strncasecmp(key, host, n) == 0)
        return true;
    for (size_t i = 0; strcmp(host, ATOLL_IMAGE_DOCKER_HUB) == 0 && i < ATOLL_ARRAY_LEN(hub); i++)
        if (strlen(hub[i]) == n && strncasecmp(key, hub[i], n) == 0)
            return true;
    return false;
}

static json_t *member_of(const json_t *map, const char *host)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)map, key, value)
    {
        if (is_key_of(key, host))
            return value;
    }
    return NULL;
}

/* "user:password" in base64. */
static int take_auth(const char *auth, struct atoll_image_login *login, const char *host,
                     struct atoll_error *err)
{
    struct atoll_buf plain;
    const char *text, *colon;
    int r = 0;

    atoll_buf_init(&plain, AUTH_MAX);
    if (atoll_base64_decode(&plain, auth, strlen(auth)) < 0)
        r = malformed(err, host);
    text = atoll_buf_str(&plain);
    colon = strchr(text, ':');
    if (r == 0 && (!colon || strlen(text) != atoll_buf_size(&plain)))
        r = malformed(err, host);
    if (r == 0) {
        login->user = strndup(text, (size_t)(colon - text));
        login->password = must_dup(colon + 1);
    }
    atoll_buf_wipe(&plain);
    return r;
}

static int take_entry(const json_t *entry, struct atoll_image_login *login, const char *host,
                      struct atoll_error *err)
{
    const char *auth = json_string_value(json_object_get(entry, "auth"));
    const char *user = json_string_value(json_object_get(entry, "username"));
    const char *password = json_string_value(json_object_get(entry, "password"));
    int r = 0;

    if (!json_is_object(entry))
        return malformed(err, host);
    login->identity_token = must_dup(json_string_value(json_object_get(entry, "identitytoken")));
    login->registry_token = must_dup(json_string_value(json_object_get(entry, "registrytoken")));
    if (user && password) {
        login->user = must_dup(user);
        login->password = must_dup(password);
    } else if (auth && *auth) {
        r = take_auth(auth, login, host, err);
    }
    if (r == 0 && login->identity_token && login->user && strcmp(login->user, TOKEN_USER) == 0) {
        erase(&login->user);
        erase(&login->password);
    }
    return r;
}

static bool is_anonymous(const struct atoll_image_login *login)
{
    return !login->user && !login->identity_token && !login->registry_token;
}

int atoll_image_login_find(const char *json, size_t n, const char *host,
                           struct atoll_image_login *ret, struct atoll_error *err)
{
    ATOLL_IMAGE_AUTOJSON json_t *root = json_loadb(json ? json : "", n, 0, NULL);
    struct atoll_image_login login = {0};
    const json_t *entry, *helper;
    int r = 0;

    if (!json_is_object(root) || n > ATOLL_IMAGE_LOGINS_MAX)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EPROTO,
                          "Docker's config.json is not a JSON object");
    entry = member_of(json_object_get(root, "auths"), host);
    helper = member_of(json_object_get(root, "credHelpers"), host);
    /* With a store the file has empty entries for the hosts whose logins are there. */
    if (!helper && entry)
        helper = json_object_get(root, "credsStore");
    if (entry)
        r = take_entry(entry, &login, host, err);
    if (r < 0) {
        atoll_image_login_done(&login);
        return r;
    }
    if (is_anonymous(&login) && json_is_string(helper) &&
        atoll_text_is_name(json_string_value(helper)))
        (void)snprintf(login.helper, sizeof(login.helper), "docker-credential-%.40s",
                       json_string_value(helper));
    *ret = login;
    return 0;
}

int atoll_image_login_load(const char *path, const char *host, struct atoll_image_login *ret,
                           struct atoll_error *err)
{
    ATOLL_AUTOFREE char *text = malloc(ATOLL_IMAGE_LOGINS_MAX);
    int n = text ? atoll_fd_read_file(AT_FDCWD, path, text, ATOLL_IMAGE_LOGINS_MAX) : -ENOMEM, r;

    if (n == -ENOENT || n == -ENOTDIR) {
        *ret = (struct atoll_image_login){0};
        return 0;
    }
    if (n == -EFBIG)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EFBIG,
                          "Docker's config.json is longer than 1 MiB");
    if (n < 0)
        return atoll_fail_errno(err, -n, "%s", path);
    r = atoll_image_login_find(text, (size_t)n, host, ret, err);
    explicit_bzero(text, (size_t)n);
    return r;
}

int atoll_image_login_path(char *out, size_t cap)
{
    const char *dir = getenv("DOCKER_CONFIG"), *home = getenv("HOME");
    int n;

    if (dir && *dir)
        n = snprintf(out, cap, "%s/config.json", dir);
    else if (home && *home)
        n = snprintf(out, cap, "%s/.docker/config.json", home);
    else
        return -ENOENT;
    return n < 0 || (size_t)n >= cap ? -ENAMETOOLONG : 0;
}

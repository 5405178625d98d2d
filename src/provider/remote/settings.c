#include "provider/remote/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include "base/fd.h"
#include "provider/remote/http.h"

#define KEY_MAX 512
#define HEADERS_MAX 32

static bool is_set(const char *text)
{
    return text && *text;
}

bool atoll_remote_is_header_text(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            return false;
    return true;
}

int atoll_remote_take_text(const char *given, const char *otherwise, char **ret,
                           struct atoll_error *err)
{
    *ret = strdup(is_set(given) ? given : otherwise);
    return *ret ? 0 : atoll_fail_errno(err, ENOMEM, "settings");
}

int atoll_remote_take_url(const char *provider, const char *setting, const char *given, char **ret,
                          struct atoll_error *err)
{
    size_t n = strlen(given);

    if ((strncmp(given, "http://", 7) != 0 && strncmp(given, "https://", 8) != 0) ||
        strpbrk(given, "@?# \t\r\n"))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "%s: %s must be like https://HOST or http://HOST:PORT", provider,
                          setting);
    while (n > 0 && given[n - 1] == '/')
        n--;
    *ret = strndup(given, n);
    return *ret ? 0 : atoll_fail_errno(err, ENOMEM, "settings");
}

static int read_key_file(const char *provider, const char *path, char *out, struct atoll_error *err)
{
    int n = atoll_fd_read_file(AT_FDCWD, path, out, KEY_MAX);

    if (n < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, -n, "%s: api_key_file: %s", provider,
                          strerror(-n));
    while (n > 0 && strchr(" \t\r\n", out[n - 1]))
        out[--n] = '\0';
    return 0;
}

int atoll_remote_take_key(const char *provider, const struct atoll_remote_key *key, char **ret,
                          struct atoll_error *err)
{
    const char *given = is_set(key->value) ? key->value : NULL;
    char text[KEY_MAX] = "";
    int r = 0;

    if (!given && is_set(key->file)) {
        r = read_key_file(provider, key->file, text, err);
        given = text;
    } else if (!given) {
        given = getenv(key->env);
    }
    if (r == 0 && !is_set(given))
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENOKEY,
                       "%s: there is no API key: set the variable %.64s, or api_key_file", provider,
                       key->env);
    else if (r == 0 && (strlen(given) >= KEY_MAX || !atoll_remote_is_header_text(given)))
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s: the API key is not valid",
                       provider);
    if (r == 0)
        r = atoll_remote_take_text(given, "", ret, err);
    explicit_bzero(text, sizeof(text));
    return r;
}

void atoll_remote_key_free(char *key)
{
    if (key)
        explicit_bzero(key, strlen(key));
    free(key);
}

int atoll_remote_take_headers(const char *provider,
                              const struct atoll_remote_header_setting *headers, size_t count,
                              struct curl_slist **list, struct atoll_error *err)
{
    int r = 0;

    if (count > HEADERS_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s: there are too many headers",
                          provider);
    for (size_t i = 0; r == 0 && i < count; i++) {
        const struct atoll_remote_header_setting *h = &headers[i];
        if (!*h->name || strpbrk(h->name, ": \t") || !atoll_remote_is_header_text(h->name) ||
            !atoll_remote_is_header_text(h->value))
            r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                           "%s: headers must be names with values of one line", provider);
        else
            r = atoll_remote_header(list, err, "%s: %s", h->name, h->value);
    }
    return r;
}

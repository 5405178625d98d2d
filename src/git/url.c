#include "git/url.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "base/text.h"

bool atoll_git_is_credential(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return false;
    return true;
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes %XX. False: malformed, too long, or a control character. */
static bool decode(const char *text, size_t n, char *out, size_t cap)
{
    size_t len = 0;

    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        if (c == '%') {
            if (i + 2 >= n || hex(text[i + 1]) < 0 || hex(text[i + 2]) < 0)
                return false;
            c = (char)(hex(text[i + 1]) * 16 + hex(text[i + 2]));
            i += 2;
        }
        if (len + 1 >= cap || c == '\0')
            return false;
        out[len++] = c;
    }
    out[len] = '\0';
    return atoll_git_is_credential(out);
}

/* The last part of the path without ".git" and slashes at the end. */
static void take_name(const char *text, char *out, size_t cap)
{
    size_t n = strlen(text), start;

    while (n > 0 && text[n - 1] == '/')
        n--;
    if (n > 5 && memcmp(text + n - 5, "/.git", 5) == 0)
        n -= 5;
    else if (n > 4 && memcmp(text + n - 4, ".git", 4) == 0)
        n -= 4;
    for (start = n; start > 0 && text[start - 1] != '/' && text[start - 1] != ':';)
        start--;
    n -= start;
    if (n == 0 || n >= cap || text[start] == '.' || text[start] == '-')
        n = 0;
    (void)snprintf(out, cap, "%.*s", (int)n, text + start);
}

static bool take_login(const char *login, size_t n, struct atoll_git_url *ret)
{
    const char *colon = memchr(login, ':', n);
    size_t user = colon ? (size_t)(colon - login) : n;

    return decode(login, user, ret->username, sizeof(ret->username)) &&
           (!colon || decode(colon + 1, n - user - 1, ret->password, sizeof(ret->password)));
}

static int refuse(struct atoll_error *err, const char *what)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "url %s", what);
}

int atoll_git_url_split(const char *text, struct atoll_git_url *ret, struct atoll_error *err)
{
    const char *host, *end, *at;
    size_t scheme;

    *ret = (struct atoll_git_url){0};
    if (!*text || *text == '-' || !atoll_git_is_credential(text))
        return refuse(err, "must be the URL of a repository, without control characters");
    if (atoll_text_copy(ret->text, sizeof(ret->text), text) < 0)
        return refuse(err, "is too long");
    take_name(text, ret->name, sizeof(ret->name));
    ret->http = strncasecmp(text, "http://", 7) == 0 || strncasecmp(text, "https://", 8) == 0;
    if (!ret->http)
        return 0;
    scheme = (size_t)(strchr(text, ':') - text) + 3;
    host = text + scheme;
    end = host + strcspn(host, "/?#");
    at = memrchr(host, '@', (size_t)(end - host));
    if (at && !take_login(host, (size_t)(at - host), ret))
        return refuse(err, "has a malformed user name or password");
    host = at ? at + 1 : host;
    if (host == end)
        return refuse(err, "has no host");
    (void)snprintf(ret->text, sizeof(ret->text), "%.*s%s", (int)scheme, text, host);
    (void)snprintf(ret->server, sizeof(ret->server), "%.*s%.*s", (int)scheme, text,
                   (int)(end - host), host);
    /* A URL that is only a server names no directory. */
    if (!*end || !end[1])
        ret->name[0] = '\0';
    return 0;
}

void atoll_git_clone_name(const char *url, char out[static ATOLL_GIT_NAME_MAX])
{
    struct atoll_git_url parts;
    struct atoll_error error;

    *out = '\0';
    if (atoll_git_url_split(url, &parts, &error) == 0)
        memcpy(out, parts.name, sizeof(parts.name));
    explicit_bzero(&parts, sizeof(parts)); /* the URL may have a password */
}

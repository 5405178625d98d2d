/*
 * outboundProxyUrl of a new sandbox. An HTTP proxy becomes variables of the environment, as in Daytona: programs
 * that ignore them connect directly. A SOCKS5 proxy becomes part of the network policy, which carries all
 * connections, whatever the programs do.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "api/daytona/control_create.h"

#define URL_MAX 1024

static const char *const variables[] = {"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"};

/* The part behind the scheme; NULL: another scheme. */
static const char *after(const char *url, const char *scheme)
{
    size_t n = strlen(scheme);

    return strncmp(url, scheme, n) == 0 ? url + n : NULL;
}

static const char *http_rest(const char *url)
{
    const char *rest = after(url, "http://");

    return rest ? rest : after(url, "https://");
}

static const char *socks_rest(const char *url)
{
    const char *rest = after(url, "socks5://");

    return rest ? rest : after(url, "socks5h://");
}

/* The host behind user and password. */
static const char *host_of(const char *rest)
{
    size_t n = strcspn(rest, "/?#");
    const char *at = memrchr(rest, '@', n);

    return at ? at + 1 : rest;
}

static int refuse(struct atoll_error *err, const char *text)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "outboundProxyUrl %s", text);
}

int atoll_daytona_proxy_check(const struct atoll_daytona_create *q, struct atoll_error *err)
{
    const char *url = q->proxy, *rest, *host;

    if (!url || !*url)
        return 0;
    rest = http_rest(url);
    if (!rest)
        rest = socks_rest(url);
    host = rest ? host_of(rest) : NULL;
    if (!host || !host[strcspn(host, ":/?#")] || *host == ':' || strlen(url) > URL_MAX)
        return refuse(err, "must be http://, https:// or socks5://, with a host and a port; for "
                           "example \"http://proxy.example.org:3128\"");
    for (const char *p = url; *p; p++)
        if (*p <= ' ' || *p == 0x7f)
            return refuse(err, "must not contain blanks or control characters");
    if (http_rest(url) && q->domains && *q->domains)
        return refuse(err,
                      "with an HTTP proxy cannot be enforced, as domainAllowList would have it: "
                      "give a socks5:// proxy, or no domainAllowList");
    if (socks_rest(url) && (strchr(rest, '%') || host[strcspn(host, "/?#")]))
        return refuse(err, "of a SOCKS5 proxy must be socks5://USER:PASSWORD@HOST:PORT, without "
                           "escapes and a path");
    return 0;
}

int atoll_daytona_proxy_show(const char *url, struct atoll_body *body, const char **ret,
                             struct atoll_error *err)
{
    const char *rest = http_rest(url);
    char *text;

    rest = rest ? rest : socks_rest(url);
    if (asprintf(&text, "%.*s%s", (int)(rest - url), url, host_of(rest)) < 0)
        return atoll_fields_no_memory(err);
    atoll_body_take(body, text);
    *ret = text;
    return 0;
}

/* Copies a part of a URL into an object. */
static void put(json_t *object, const char *name, const char *from, size_t n)
{
    if (n > 0)
        (void)json_object_set_new(object, name, json_stringn(from, n));
}

json_t *atoll_daytona_proxy_policy(const char *url)
{
    const char *rest = url ? socks_rest(url) : NULL, *host;
    json_t *proxy;
    size_t user;

    if (!rest)
        return NULL;
    host = host_of(rest);
    proxy = json_object();
    put(proxy, "address", host, strlen(host));
    if (host > rest) {
        user = strcspn(rest, ":@");
        put(proxy, "username", rest, user);
        if (rest[user] == ':')
            put(proxy, "password", rest + user + 1, (size_t)(host - rest) - user - 2);
    }
    return proxy;
}

static bool has_variable(const char *const *env, const char *name)
{
    size_t n = strlen(name);

    for (; env && *env; env++)
        if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
            return true;
    return false;
}

int atoll_daytona_proxy_env(const char *url, struct atoll_body *body, const char *const **env,
                            struct atoll_error *err)
{
    size_t count = 0;
    const char **list;

    if (!url || !http_rest(url))
        return 0;
    while (*env && (*env)[count])
        count++;
    list = calloc(count + ATOLL_ARRAY_LEN(variables) + 1, sizeof(*list));
    if (!list)
        return atoll_fields_no_memory(err);
    atoll_body_take(body, list);
    if (count > 0)
        memcpy(list, *env, count * sizeof(*list));
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(variables); i++) {
        char *text;
        if (has_variable(*env, variables[i]))
            continue;
        if (asprintf(&text, "%s=%s", variables[i], url) < 0)
            return atoll_fields_no_memory(err);
        atoll_body_take(body, text);
        list[count++] = text;
    }
    *env = list;
    return 0;
}

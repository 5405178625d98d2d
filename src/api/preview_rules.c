#include "api/preview_rules.h"

#include <string.h>
#include <strings.h>
#include "api/facade.h"
#include "net/url.h"

#define DIGITS "0123456789"
#define ID_CHARS "abcdefghijklmnopqrstuvwxyz0123456789"
#define COOKIE_PREFIX "atoll_"
#define KEY_SUSPECT 16 /* characters after the prefix that make a text suspicious */

/* 0 if the text is not a port: "0", "080", "65536". */
static uint16_t parse_port(const char *text, size_t n)
{
    uint32_t port = 0;

    if (n < 1 || n > 5 || text[0] == '0')
        return 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9')
            return 0;
        port = port * 10 + (uint32_t)(text[i] - '0');
    }
    return port <= UINT16_MAX ? (uint16_t)port : 0;
}

static bool take_id(const char *text, size_t n, struct atoll_preview_name *ret)
{
    if (n < 20 || n > 40)
        return false;
    memcpy(ret->sandbox_id, text, n);
    ret->sandbox_id[n] = '\0';
    return strspn(ret->sandbox_id, ID_CHARS) == n;
}

/* Empty, or ":" and one to five digits. */
static bool is_port_suffix(const char *text)
{
    size_t n;

    if (*text == '\0')
        return true;
    n = strspn(text + 1, DIGITS);
    return *text == ':' && n >= 1 && n <= 5 && text[1 + n] == '\0';
}

bool atoll_preview_parse_host(const char *host, const char *domain, struct atoll_preview_name *ret)
{
    size_t digits = strspn(host, DIGITS), len = strlen(domain), id;
    const char *p = host + digits;

    ret->port = parse_port(host, digits);
    if (ret->port == 0 || *p != '-' || len == 0)
        return false;
    p++;
    id = strspn(p, ID_CHARS);
    if (!take_id(p, id, ret))
        return false;
    p += id;
    return *p == '.' && strncmp(p + 1, domain, len) == 0 && is_port_suffix(p + 1 + len);
}

/* Length of the name in "name:port" and "[::1]:port". */
static size_t name_len(const char *host)
{
    if (*host == '[')
        return strcspn(host, "]") + (strchr(host, ']') != NULL);
    return strcspn(host, ":");
}

bool atoll_preview_in_domain(const char *host, const char *domain)
{
    size_t n = name_len(host), len = strlen(domain);

    while (n > 0 && host[n - 1] == '.')
        n--;
    return len > 0 && n > len && host[n - len - 1] == '.' &&
           strncasecmp(host + n - len, domain, len) == 0;
}

bool atoll_preview_parse_path(const char *target, struct atoll_preview_name *ret,
                              const char **ret_rest)
{
    static const char prefix[] = "/preview/";
    const char *p = target + sizeof(prefix) - 1;
    size_t n;

    if (strncmp(target, prefix, sizeof(prefix) - 1) != 0)
        return false;
    n = strcspn(p, "/?");
    if (p[n] != '/' || !take_id(p, n, ret))
        return false;
    p += n + 1;
    n = strcspn(p, "/?");
    ret->port = parse_port(p, n);
    *ret_rest = p + n;
    return ret->port != 0;
}

static bool is_address(const char *host, size_t n)
{
    size_t dots = 0, digits = 0;

    if (*host == '[')
        return n > 2 && host[n - 1] == ']' && strspn(host + 1, "0123456789abcdefABCDEF:.") == n - 2;
    for (size_t i = 0; i < n; i++) {
        dots += host[i] == '.';
        digits += host[i] >= '0' && host[i] <= '9';
    }
    return dots == 3 && digits >= 4 && dots + digits == n;
}

static bool is_name(const char *host, size_t n, const char *name)
{
    return strlen(name) == n && strncasecmp(host, name, n) == 0;
}

bool atoll_host_is_own(const char *host, const char *const *names)
{
    size_t n = name_len(host);

    if (!is_port_suffix(host + n))
        return false;
    if (is_name(host, n, "localhost") || is_address(host, n))
        return true;
    for (; names && *names; names++)
        if (is_name(host, n, *names))
            return true;
    return false;
}

const char *atoll_target_path(const char *target, const char **ret_authority, size_t *ret_len)
{
    size_t scheme = strncasecmp(target, "http://", 7) == 0    ? 7
                    : strncasecmp(target, "https://", 8) == 0 ? 8
                                                              : 0;

    *ret_authority = NULL;
    *ret_len = 0;
    if (scheme == 0)
        return target;
    *ret_authority = target + scheme;
    *ret_len = strcspn(target + scheme, "/?#");
    return target + scheme + *ret_len;
}

bool atoll_preview_strip_token(const char *target, const char *token, char *out)
{
    const char *query = strchr(target, '?');
    size_t len = strlen(token), n = query ? (size_t)(query - target) : strlen(target);
    bool found = false;
    char separator = '?';

    memcpy(out, target, n);
    out += n;
    for (const char *p = query ? query + 1 : ""; *p || (query && p == query + 1);) {
        size_t part = strcspn(p, "&");
        if (part == 6 + len && strncmp(p, "token=", 6) == 0 && memcmp(p + 6, token, len) == 0) {
            found = true;
        } else {
            *out++ = separator;
            memcpy(out, p, part);
            out += part;
            separator = '&';
        }
        p += part;
        if (*p != '&')
            break;
        p++;
    }
    *out = '\0';
    return found;
}

/* The next "name=value" of a Cookie header, without surrounding blanks; NULL at the end. */
static const char *next_cookie(const char **at, size_t *ret_len)
{
    const char *p = *at + strspn(*at, "; \t");
    size_t n = strcspn(p, ";");

    if (*p == '\0')
        return NULL;
    *at = p + n;
    while (n > 0 && (p[n - 1] == ' ' || p[n - 1] == '\t'))
        n--;
    *ret_len = n;
    return p;
}

const char *atoll_preview_find_cookie(const char *cookies, size_t *ret_len)
{
    static const char name[] = ATOLL_PREVIEW_COOKIE "=";
    const char *p;
    size_t n;

    for (const char *at = cookies; (p = next_cookie(&at, &n));)
        if (n > sizeof(name) - 1 && strncmp(p, name, sizeof(name) - 1) == 0) {
            *ret_len = n - (sizeof(name) - 1);
            return p + sizeof(name) - 1;
        }
    return NULL;
}

void atoll_preview_strip_cookies(const char *cookies, char *out)
{
    const char *p;
    bool first = true;
    size_t n;

    for (const char *at = cookies; (p = next_cookie(&at, &n));) {
        if (n == 0 || strncasecmp(p, COOKIE_PREFIX, sizeof(COOKIE_PREFIX) - 1) == 0)
            continue;
        if (!first)
            *out++ = ';';
        /* Write a blank only where the input had one: "a;b" must not grow. */
        if (!first && p > cookies && (p[-1] == ' ' || p[-1] == '\t'))
            *out++ = ' ';
        memmove(out, p, n);
        out += n;
        first = false;
    }
    *out = '\0';
}

bool atoll_preview_clean_set_cookie(const char *value, char *out)
{
    bool first = true;
    const char *p = value;

    p += strspn(p, " \t");
    if (strncasecmp(p, COOKIE_PREFIX, sizeof(COOKIE_PREFIX) - 1) == 0)
        return false;
    for (;;) {
        size_t n = strcspn(p, ";"), blanks = strspn(p, " \t");
        bool domain = !first && strncasecmp(p + blanks, "domain", 6) == 0 &&
                      strchr("=; \t", p[blanks + 6]) != NULL;
        if (!domain) {
            if (!first)
                *out++ = ';';
            memcpy(out, p, n);
            out += n;
        }
        first = false;
        p += n;
        if (*p == '\0')
            break;
        p++;
    }
    *out = '\0';
    return true;
}

/* Headers that make a reverse proxy in front of the daemon send a file or address of its own,
 * the daemon's own header names, and headers that affect the whole registered domain, as "cookies"
 * in Clear-Site-Data does. */
static const char *const answers_refused[] = {
    "clear-site-data", "x-accel-*", "x-atoll-*", "x-lighttpd-*", "x-reproxy-*", "x-sendfile*",
};

/* Headers that describe only the response they come with. A header that a browser remembers for
 * an origin is not in the list, even one defined in the future. Browsers remember nothing from X-
 * headers. */
static const char *const answers_plain[] = {
    "accept-ranges",
    "access-control-allow-credentials",
    "access-control-allow-headers",
    "access-control-allow-methods",
    "access-control-allow-origin",
    "access-control-expose-headers",
    "access-control-max-age",
    "age",
    "allow",
    "cache-control",
    "content-digest",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-length",
    "content-range",
    "content-security-policy", /* an additional policy can only restrict */
    "content-type",
    "cross-origin-resource-policy",
    "date",
    "etag",
    "expires",
    "grpc-*",
    "last-modified",
    "location",
    "mcp-*",
    "pragma",
    "referrer-policy",
    "retry-after",
    "sec-websocket-*",
    "server",
    "upgrade",
    "vary",
    "x-*",
};

static bool is_listed(const char *name, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t len = strcspn(list[i], "*");
        if (strncasecmp(name, list[i], len) == 0 && (list[i][len] == '*' || !name[len]))
            return true;
    }
    return false;
}

bool atoll_preview_may_answer(const char *name, enum atoll_preview_reach reach)
{
    if (is_listed(name, answers_refused, ATOLL_ARRAY_LEN(answers_refused)))
        return false;
    return reach == ATOLL_PREVIEW_OWN_HOST ||
           is_listed(name, answers_plain, ATOLL_ARRAY_LEN(answers_plain));
}

static bool holds_key_of(const char *text, const char *prefix)
{
    for (const char *p = text; (p = strstr(p, prefix)); p++)
        if (strspn(p + strlen(prefix), ID_CHARS) >= KEY_SUSPECT)
            return true;
    return false;
}

bool atoll_preview_holds_key(const char *text)
{
    for (const struct atoll_facade *const *f = atoll_facades; *f; f++)
        if ((*f)->key && holds_key_of(text, (*f)->key->prefix))
            return true;
    return holds_key_of(text, ATOLL_KEY_PREFIX);
}

/* A part that cannot be decoded counts as the parameter: it is not passed on. */
static bool is_parameter(const char *part, size_t n, const char *parameter)
{
    struct atoll_buf pairs;
    bool is;

    atoll_buf_init(&pairs, n + 2);
    is = atoll_url_decode_query(&pairs, part, n) < 0 ||
         atoll_url_pair(atoll_buf_str(&pairs), atoll_buf_size(&pairs), parameter);
    atoll_buf_done(&pairs);
    return is;
}

bool atoll_preview_strip_parameter(const char *target, const char *parameter, char *out)
{
    const char *query = strchr(target, '?');
    size_t n = query ? (size_t)(query - target) : strlen(target);
    bool found = false;
    char mark = '?';

    memcpy(out, target, n);
    for (const char *p = query ? query + 1 : ""; *p;) {
        size_t part = strcspn(p, "&");
        if (part > 0 && is_parameter(p, part, parameter)) {
            found = true;
        } else {
            out[n++] = mark;
            memcpy(out + n, p, part);
            n += part;
            mark = '&';
        }
        p += part + (p[part] == '&');
    }
    out[n] = '\0';
    return found;
}

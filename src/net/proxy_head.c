/*
 * The head of a request for an upstream. Hop-by-hop headers are removed, and the headers that identify
 * the client (X-Forwarded-* and the like) are written only by us: a client cannot forge them.
 */
#include <errno.h>
#include <string.h>
#include <strings.h>
#include "net/http_internal.h"
#include "net/proxy_internal.h"

bool atoll_proxy_is_hop(const char *name)
{
    static const char *const names[] = {
        "connection",
        "content-length",
        "expect",
        "forwarded",
        "host",
        "http2-settings",
        "keep-alive",
        "te",
        "proxy-authenticate",
        "trailer",
        "proxy-authorization",
        "upgrade",
        "x-real-ip",
        "transfer-encoding",
        "proxy-connection",
    };

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(names); i++)
        if (strcasecmp(name, names[i]) == 0)
            return true;
    return strncasecmp(name, "x-forwarded-", 12) == 0;
}

bool atoll_proxy_list_has(const char *list, const char *token)
{
    size_t len = strlen(token);

    for (const char *p = list; *p;) {
        size_t n, blanks = strspn(p, ", \t");
        p += blanks;
        n = strcspn(p, ", \t");
        if (n == len && strncasecmp(p, token, n) == 0)
            return true;
        p += n;
    }
    return false;
}

/* Whether a Connection header lists the name, which makes it hop-by-hop. */
static bool is_listed(const struct atoll_http_request *req, const char *token)
{
    const char *name, *value;

    for (size_t i = 0; atoll_http_header_at(req, i, &name, &value); i++)
        if (strcasecmp(name, "connection") == 0 && atoll_proxy_list_has(value, token))
            return true;
    return false;
}

/* The protocol that the client asks to upgrade to, or NULL. HTTP/2 is refused: its requests would
 * bypass the proxy. */
static const char *wanted_upgrade(const struct atoll_http_request *req)
{
    const char *protocol = atoll_http_header(req, "upgrade");

    if (!protocol || !*protocol || !is_listed(req, "upgrade") ||
        atoll_http_content_length(req) != 0 || atoll_http_method(req) != ATOLL_GET)
        return NULL;
    if (atoll_proxy_list_has(protocol, "h2c") || strchr(protocol, ','))
        return NULL;
    return protocol;
}

static int put_headers(struct atoll_buf *out, const struct atoll_http_request *req,
                       const struct atoll_proxy_request *request)
{
    bool has_connection = atoll_http_header(req, "connection") != NULL;
    const char *name, *value;
    int r = 0;

    for (size_t i = 0; r == 0 && atoll_http_header_at(req, i, &name, &value); i++) {
        if (*name == ':' || atoll_proxy_is_hop(name) || (has_connection && is_listed(req, name)))
            continue;
        if (request->hooks->request_header &&
            !request->hooks->request_header(request->arg, name, &value))
            continue;
        r = atoll_buf_appends(out, name);
        if (r == 0)
            r = atoll_buf_append(out, ": ", 2);
        if (r == 0)
            r = atoll_buf_appends(out, value);
        if (r == 0)
            r = atoll_buf_append(out, "\r\n", 2);
    }
    return r;
}

/* "127.0.0.1:4711" → "127.0.0.1", "[::1]:4711" → "::1". */
static int put_peer(struct atoll_buf *out, const struct atoll_http_peer *peer)
{
    const char *address = peer->address, *end = strrchr(address, ':');

    if (peer->is_unix || !end)
        return 0;
    if (*address == '[' && end > address + 1)
        return atoll_buf_appendf(out, "X-Forwarded-For: %.*s\r\n", (int)(end - address - 2),
                                 address + 1);
    return atoll_buf_appendf(out, "X-Forwarded-For: %.*s\r\n", (int)(end - address), address);
}

static int put_framing(struct atoll_buf *out, const struct atoll_http_request *req,
                       const char *upgrade)
{
    enum atoll_http_method method = atoll_http_method(req);
    int64_t length = atoll_http_content_length(req);

    if (upgrade)
        return atoll_buf_appendf(out, "Connection: Upgrade\r\nUpgrade: %s\r\n", upgrade);
    if (length < 0)
        return atoll_buf_appends(out, "Transfer-Encoding: chunked\r\n");
    if (length > 0 || method == ATOLL_POST || method == ATOLL_PUT || method == ATOLL_PATCH)
        return atoll_buf_appendf(out, "Content-Length: %lld\r\n", (long long)length);
    return 0;
}

int atoll_proxy_head_write(struct atoll_buf *out, const struct atoll_http_request *req,
                           const struct atoll_proxy_request *request, bool *ret_upgrade)
{
    const char *upgrade = wanted_upgrade(req);
    const char *host = atoll_http_header(req, "host");
    int r = atoll_buf_appendf(out, "%s %s HTTP/1.1\r\nHost: %s\r\n",
                              atoll_http_method_name(atoll_http_method(req)), request->target,
                              request->host);

    if (r == 0)
        r = put_headers(out, req, request);
    if (r == 0)
        r = put_peer(out, atoll_http_peer(req));
    if (r == 0 && host)
        r = atoll_buf_appendf(out, "X-Forwarded-Host: %s\r\n", host);
    if (r == 0)
        r = atoll_buf_appendf(out, "X-Forwarded-Proto: %s\r\n", request->scheme);
    if (r == 0)
        r = put_framing(out, req, upgrade);
    if (r == 0)
        r = atoll_buf_appendf(out, "%s\r\n", request->extra);
    *ret_upgrade = upgrade != NULL;
    return r;
}

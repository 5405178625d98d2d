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
    return atoll_http_is_hop(name) || strcasecmp(name, "forwarded") == 0 ||
           strcasecmp(name, "x-real-ip") == 0 || strncasecmp(name, "x-forwarded-", 12) == 0;
}

static int put_headers(struct atoll_buf *out, const struct atoll_http_request *req,
                       const struct atoll_proxy_request *request)
{
    bool has_connection = atoll_http_header(req, "connection") != NULL;
    const char *name, *value;
    int r = 0;

    for (size_t i = 0; r == 0 && atoll_http_header_at(req, i, &name, &value); i++) {
        if (*name == ':' || atoll_proxy_is_hop(name) ||
            (has_connection && atoll_http_is_listed(req, name)))
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
    const char *upgrade = atoll_http_wanted_upgrade(req);
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

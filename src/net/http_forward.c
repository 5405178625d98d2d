/*
 * What every proxy has to know about the headers of a message (RFC 9110 section 7.6.1).
 */
#include <string.h>
#include <strings.h>
#include "net/http_server.h"

bool atoll_http_is_hop(const char *name)
{
    static const char *const names[] = {
        "connection",
        "content-length",
        "expect",
        "host",
        "http2-settings",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    };

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(names); i++)
        if (strcasecmp(name, names[i]) == 0)
            return true;
    return false;
}

bool atoll_http_list_has(const char *list, const char *token)
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

bool atoll_http_is_listed(const struct atoll_http_request *req, const char *token)
{
    const char *name, *value;

    for (size_t i = 0; atoll_http_header_at(req, i, &name, &value); i++)
        if (strcasecmp(name, "connection") == 0 && atoll_http_list_has(value, token))
            return true;
    return false;
}

const char *atoll_http_wanted_upgrade(const struct atoll_http_request *req)
{
    const char *protocol = atoll_http_header(req, "upgrade");

    if (!protocol || !*protocol || !atoll_http_is_listed(req, "upgrade") ||
        atoll_http_content_length(req) != 0 || atoll_http_method(req) != ATOLL_GET)
        return NULL;
    if (atoll_http_list_has(protocol, "h2c") || strchr(protocol, ','))
        return NULL;
    return protocol;
}

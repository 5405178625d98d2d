#include "api/kit/cors.h"

#include <string.h>

static void allow(struct atoll_http_request *req, const char *origin, const char *exposed)
{
    (void)atoll_http_set_header(req, "Access-Control-Allow-Origin", origin);
    (void)atoll_http_set_header(req, "Access-Control-Expose-Headers", exposed);
}

void atoll_cors_allow(struct atoll_http_request *req, const char *exposed)
{
    if (atoll_http_header(req, "origin"))
        allow(req, "*", exposed);
}

static void answer_preflight(struct atoll_http_request *req, const char *origin)
{
    const char *headers = atoll_http_header(req, "access-control-request-headers");

    (void)atoll_http_set_header(req, "Access-Control-Allow-Origin", origin);
    (void)atoll_http_set_header(req, "Access-Control-Allow-Methods",
                                "GET, HEAD, POST, PUT, PATCH, DELETE");
    (void)atoll_http_set_header(req, "Access-Control-Allow-Headers", headers ? headers : "*");
    (void)atoll_http_set_header(req, "Access-Control-Max-Age", "7200");
    (void)atoll_http_set_header(req, "Vary", "Access-Control-Request-Headers");
    atoll_http_respond(req, 204, NULL, NULL, 0);
}

void atoll_cors_preflight(struct atoll_http_request *req)
{
    answer_preflight(req, "*");
}

static bool is_listed(const char *origins, const char *origin)
{
    size_t n = strlen(origin);

    for (const char *p = origins; *p; p += strcspn(p, " ,")) {
        p += strspn(p, " ,");
        if (strcspn(p, " ,") == n && strncmp(p, origin, n) == 0)
            return true;
    }
    return false;
}

bool atoll_cors_serve(struct atoll_http_request *req, const char *origins, const char *exposed)
{
    const char *origin = atoll_http_header(req, "origin");
    bool any = strcmp(origins, "*") == 0;

    if (!origin || (!any && !is_listed(origins, origin)))
        return false;
    if (atoll_http_method(req) == ATOLL_OPTIONS &&
        atoll_http_header(req, "access-control-request-method")) {
        answer_preflight(req, any ? "*" : origin);
        return true;
    }
    if (!any)
        (void)atoll_http_set_header(req, "Vary", "Origin");
    allow(req, any ? "*" : origin, exposed);
    return false;
}

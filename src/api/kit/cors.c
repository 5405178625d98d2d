#include "api/kit/cors.h"

void atoll_cors_allow(struct atoll_http_request *req, const char *exposed)
{
    if (!atoll_http_header(req, "origin"))
        return;
    (void)atoll_http_set_header(req, "Access-Control-Allow-Origin", "*");
    (void)atoll_http_set_header(req, "Access-Control-Expose-Headers", exposed);
}

void atoll_cors_preflight(struct atoll_http_request *req)
{
    const char *headers = atoll_http_header(req, "access-control-request-headers");

    (void)atoll_http_set_header(req, "Access-Control-Allow-Origin", "*");
    (void)atoll_http_set_header(req, "Access-Control-Allow-Methods",
                                "GET, HEAD, POST, PUT, PATCH, DELETE");
    (void)atoll_http_set_header(req, "Access-Control-Allow-Headers", headers ? headers : "*");
    (void)atoll_http_set_header(req, "Access-Control-Max-Age", "7200");
    (void)atoll_http_set_header(req, "Vary", "Access-Control-Request-Headers");
    atoll_http_respond(req, 204, NULL, NULL, 0);
}

#include "api/kit/origin.h"

#include <stdio.h>
#include <string.h>
#include "api/preview.h"

void atoll_origin(const struct atoll_api *api, const struct atoll_http_request *req,
                  char out[ATOLL_ORIGIN_MAX])
{
    const char *host = req ? atoll_http_header(req, "host") : NULL;
    const char *proto = req ? atoll_http_header(req, "x-forwarded-proto") : NULL;
    const struct atoll_preview_site *site = atoll_api_site(api);
    bool tls = req && (atoll_http_peer(req)->is_tls || (proto && strcmp(proto, "https") == 0));

    if (host && *host && strlen(host) < 256 && !(req && atoll_http_peer(req)->is_unix))
        (void)snprintf(out, ATOLL_ORIGIN_MAX, "%s://%s", tls ? "https" : "http", host);
    else
        (void)snprintf(out, ATOLL_ORIGIN_MAX, "http://localhost:%u",
                       site ? (unsigned)site->port : 0u);
}

#pragma once
#include "net/http_server.h"

/* Cross-origin requests (Fetch standard, CORS protocol), for APIs that pages of any origin use with a
 * token of their own; cookies are not allowed. */

/* Lets the page read the response, with the headers in `exposed`, as in "Location, X-Request-Id". */
void atoll_cors_allow(struct atoll_http_request *req, const char *exposed);
/* Answers OPTIONS. */
void atoll_cors_preflight(struct atoll_http_request *req);
/* The same for pages of some origins only. origins: "https://a.example http://localhost:3000",
 * separated by blanks or commas, or "*". Does nothing for other origins. True: it was a preflight, and
 * is answered. */
bool atoll_cors_serve(struct atoll_http_request *req, const char *origins, const char *exposed);

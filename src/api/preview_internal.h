#pragma once
#include "api/preview.h"
#include "net/http_server.h"

/* preview_page.c: responses made by the daemon, not by the sandbox. */
enum atoll_preview_page {
    ATOLL_PREVIEW_UNKNOWN,     /* 404: no such preview, or no access */
    ATOLL_PREVIEW_MISDIRECTED, /* 421 */
    ATOLL_PREVIEW_TWO_HOSTS,   /* 400 */
    ATOLL_PREVIEW_FOREIGN,     /* 403: a page of another site sent it */
    ATOLL_PREVIEW_SILENT,      /* 502: nothing listens on the port */
    ATOLL_PREVIEW_PAUSED,      /* 409 */
    ATOLL_PREVIEW_STOPPED,     /* 409 */
    ATOLL_PREVIEW_BROKEN,      /* 502: the response is not valid HTTP */
    ATOLL_PREVIEW_SLOW,        /* 504 */
    ATOLL_PREVIEW_BUSY,        /* 503 */
    ATOLL_PREVIEW_ENDING,      /* 503: the daemon is shutting down */
    ATOLL_PREVIEW_TOO_LARGE,   /* 431 */
};

/* Sends HTML to clients that accept it, else JSON; with `answer` what it makes of the text. Ends the request and
 * returns the status. port: for pages whose text names the port. */
int atoll_preview_page(struct atoll_http_request *req, enum atoll_preview_page page, unsigned port,
                       atoll_preview_failed_fn *answer);

#pragma once
#include "net/http_server.h"

/* preview_page.c: answers that are not the sandbox's own. */
enum atoll_preview_page {
    ATOLL_PREVIEW_UNKNOWN,     /* 404: no such preview, or not for you */
    ATOLL_PREVIEW_MISDIRECTED, /* 421 */
    ATOLL_PREVIEW_TWO_HOSTS,   /* 400 */
    ATOLL_PREVIEW_FOREIGN,     /* 403: another site's page asks */
    ATOLL_PREVIEW_SILENT,      /* 502: nothing listens */
    ATOLL_PREVIEW_BROKEN,      /* 502: no sense in the answer */
    ATOLL_PREVIEW_SLOW,        /* 504 */
    ATOLL_PREVIEW_BUSY,        /* 503 */
    ATOLL_PREVIEW_ENDING,      /* 503: the daemon shuts down */
    ATOLL_PREVIEW_TOO_LARGE,   /* 431 */
};

/* In HTML for those who want that, else in JSON. Ends the request; returns the status. port: where
 * the page names one. */
int atoll_preview_page(struct atoll_http_request *req, enum atoll_preview_page page, unsigned port);

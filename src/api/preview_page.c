#include "api/preview_internal.h"

#include <stdio.h>
#include <string.h>

/* message contains at most one %u, for the port. */
static const struct page {
    int status;
    bool refresh; /* the condition may be temporary: the page reloads itself */
    const char *code, *message, *hint;
} pages[] = {
    [ATOLL_PREVIEW_UNKNOWN] =
        {404, false, "not_found", "there is no such preview",
         "check the address; a private preview needs its token, as ?token= or "
         "in the header X-Atoll-Preview-Token"},
    [ATOLL_PREVIEW_MISDIRECTED] =
        {421, false, "invalid_argument", "this daemon does not serve that host name",
         "add it with atolld --host-names, or use an address of this host"},
    [ATOLL_PREVIEW_TWO_HOSTS] = {400, false, "invalid_argument",
                                 "the request names two different hosts", NULL},
    [ATOLL_PREVIEW_FOREIGN] = {403, false, "permission_denied",
                               "a page of another site may not use this private preview",
                               "make it public, or send its token in X-Atoll-Preview-Token"},
    [ATOLL_PREVIEW_SILENT] = {502, true, "unavailable",
                              "nothing listens on port %u of this sandbox",
                              "start a server there; this page reloads every two seconds"},
    [ATOLL_PREVIEW_PAUSED] =
        {409, true, "failed_precondition", "this sandbox is paused",
         "resume it (atoll resume, or POST /api/sandboxes/{id}/resume); this page reloads every two "
         "seconds"},
    [ATOLL_PREVIEW_STOPPED] =
        {409, true, "failed_precondition", "this sandbox is stopped",
         "resume it (atoll resume, or POST /api/sandboxes/{id}/resume) and start the server again; "
         "this page reloads every two seconds"},
    [ATOLL_PREVIEW_BROKEN] = {502, false, "unavailable",
                              "the server on port %u of this sandbox gave no valid HTTP answer",
                              "read its output"},
    [ATOLL_PREVIEW_SLOW] = {504, false, "deadline_exceeded",
                            "the server on port %u of this sandbox did not answer in time", NULL},
    [ATOLL_PREVIEW_BUSY] = {503, true, "unavailable", "too many requests are in progress",
                            "try again in a moment"},
    [ATOLL_PREVIEW_ENDING] = {503, false, "unavailable", "the daemon is shutting down", NULL},
    [ATOLL_PREVIEW_TOO_LARGE] = {431, false, "resource_exhausted",
                                 "the headers of the request are too large", NULL},
};

static bool wants_html(const struct atoll_http_request *req)
{
    const char *accept = atoll_http_header(req, "accept");
    return accept && strstr(accept, "text/html");
}

/* The page contains no client data, so nothing needs to be escaped. */
static int make_html(char *out, size_t cap, const struct page *page, const char *message)
{
    return snprintf(out, cap,
                    "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">"
                    "<meta name=\"viewport\" content=\"width=device-width\">%s"
                    "<title>%d</title><style>body{font:16px/1.5 system-ui,sans-serif;"
                    "max-width:34em;margin:18vh auto;padding:0 1em}</style></head>"
                    "<body><h1>%d</h1><p>%c%s.</p><p>%s</p></body></html>\n",
                    page->refresh ? "<meta http-equiv=\"refresh\" content=\"2\">" : "",
                    page->status, page->status, message[0] - 'a' + 'A', message + 1,
                    page->hint ? page->hint : "");
}

int atoll_preview_page(struct atoll_http_request *req, enum atoll_preview_page which, unsigned port,
                       atoll_preview_failed_fn *answer)
{
    const struct page *page = &pages[which];
    char message[200], html[1200];
    const char *at = strstr(page->message, "%u");
    int n;

    if (at)
        (void)snprintf(message, sizeof(message), "%.*s%u%s", (int)(at - page->message),
                       page->message, port, at + 2);
    else
        (void)snprintf(message, sizeof(message), "%s", page->message);
    (void)atoll_http_set_header(req, "Cache-Control", "no-store");
    if (page->refresh)
        (void)atoll_http_set_header(req, "Retry-After", "2");
    if (answer) {
        answer(req, page->status, message);
        return page->status;
    }
    n = wants_html(req) ? make_html(html, sizeof(html), page, message) : 0;
    if (n > 0 && (size_t)n < sizeof(html))
        atoll_http_respond(req, page->status, "text/html; charset=utf-8", html, (size_t)n);
    else
        atoll_http_respond_error(req, page->status, page->code, message, page->hint);
    return page->status;
}

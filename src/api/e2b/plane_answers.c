/*
 * Responses for a sandbox or port that cannot be reached or may not be accessed. Programs read the
 * status and the JSON; a browser that navigates gets an HTML page.
 */
#include <stdio.h>
#include <string.h>
#include "api/e2b/plane.h"

static bool is_navigation(const struct atoll_http_request *req)
{
    const char *accept = atoll_http_header(req, "accept");
    return accept && strstr(accept, "text/html");
}

/* id: only letters and digits, or "", so nothing needs to be escaped. */
static void answer(struct atoll_http_request *req, const char *id, const char *message,
                   uint16_t port)
{
    char text[800], where[32] = "";
    int n;

    (void)atoll_http_set_header(req, "Cache-Control", "no-store");
    if (is_navigation(req)) {
        n = snprintf(text, sizeof(text),
                     "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">"
                     "<title>502</title><style>body{font:16px/1.5 system-ui,sans-serif;"
                     "max-width:34em;margin:18vh auto;padding:0 1em}</style></head>"
                     "<body><h1>502</h1><p>%s.</p><p>Sandbox %s</p></body></html>\n",
                     message, id);
        atoll_http_respond(req, 502, "text/html; charset=utf-8", text, (size_t)n);
        return;
    }
    if (port)
        (void)snprintf(where, sizeof(where), ",\"port\":%u", port);
    n = snprintf(text, sizeof(text), "{\"sandboxId\":\"%s\",\"message\":\"%s\"%s,\"code\":502}\n",
                 id, message, where);
    atoll_http_respond(req, 502, "application/json", text, (size_t)n);
}

void atoll_plane_no_sandbox(struct atoll_http_request *req, const char *id)
{
    answer(req, id, "The sandbox was not found", 0);
}

void atoll_plane_no_port(struct atoll_http_request *req, const char *id, uint16_t port)
{
    answer(req, id, "The sandbox is running but port is not open", port);
}

void atoll_plane_refuse(struct atoll_http_request *req, int status, const char *text)
{
    atoll_http_respond(req, status, "text/plain; charset=utf-8", text, strlen(text));
}

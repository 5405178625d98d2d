#include <stdio.h>
#include <string.h>
#include "api/preview.h"

static void add_token(const struct atoll_preview_view *view, char *out)
{
    size_t n = strlen(out);

    if (!view->is_public)
        (void)snprintf(out + n, ATOLL_PREVIEW_URL_MAX - n, "?token=%s", view->token);
}

void atoll_preview_url(const struct atoll_preview_site *site, const struct atoll_preview_view *view,
                       char *out)
{
    /* Loopback traffic cannot be intercepted, and browsers would reject the self-signed
     * certificate. */
    bool tls = site->tls_port && (!site->port || strcmp(site->domain, "localhost") != 0);
    uint16_t usual = tls ? 443 : 80, port = tls ? site->tls_port : site->port;
    char suffix[8] = "";

    out[0] = '\0';
    if (port == 0)
        return;
    if (port != usual)
        (void)snprintf(suffix, sizeof(suffix), ":%u", port);
    (void)snprintf(out, ATOLL_PREVIEW_URL_MAX, "%s://%u-%s.%s%s/", tls ? "https" : "http",
                   view->port, view->sandbox_id, site->domain, suffix);
    add_token(view, out);
}

void atoll_preview_path_url(const struct atoll_preview_view *view, char *out)
{
    (void)snprintf(out, ATOLL_PREVIEW_URL_MAX, "/preview/%s/%u/", view->sandbox_id, view->port);
    add_token(view, out);
}

/* The URL of a session: the preview of its environment's port, if it has one, or its API path. */
#include <stdio.h>
#include "api/api_internal.h"
#include "api/preview.h"
#include "api/rest/session/sessions_view.h"
#include "base/log.h"

_Static_assert(ATOLL_REST_SESSION_URL_MAX >= ATOLL_PREVIEW_URL_MAX, "a preview URL must fit");

/* 0 if the environment has no port, or no longer exists. */
static uint16_t port_of(const struct atoll_api_call *call, const struct atoll_session_view *v)
{
    struct atoll_environment e;
    struct atoll_error error;

    if (!atoll_api_previews(call->api) ||
        atoll_environment_find(atoll_sessions_registry(call->api->config.sessions), v->environment,
                               &e, &error) < 0)
        return 0;
    return e.port;
}

void atoll_rest_session_show_port(struct atoll_api_call *call, const struct atoll_session *session)
{
    struct atoll_session_view v;
    struct atoll_preview_view preview;
    struct atoll_error error;
    uint16_t port;

    atoll_session_get(session, &v);
    port = port_of(call, &v);
    if (port && atoll_previews_add(atoll_api_previews(call->api), v.sandbox_id, port, false,
                                   &preview, &error) < 0)
        atoll_log(ATOLL_LOG_WARN, "preview of a session not created", "session", v.id, "error",
                  error.text, NULL);
}

void atoll_rest_session_url(struct atoll_api_call *call, const struct atoll_session_view *v,
                            char *out)
{
    struct atoll_preview_view preview;
    uint16_t port = port_of(call, v);

    (void)snprintf(out, ATOLL_REST_SESSION_URL_MAX, "/api/sessions/%s", v->id);
    if (!port || !atoll_previews_find(atoll_api_previews(call->api), v->sandbox_id, port, &preview))
        return;
    /* Only a caller that could create the preview gets its token. */
    preview.is_public = preview.is_public || call->caller.scope < ATOLL_SCOPE_WRITE;
    atoll_preview_url(atoll_api_site(call->api), &preview, out);
    if (!*out)
        atoll_preview_path_url(&preview, out);
}

/* Where a session is seen: the server of its environment, if that names a port, or the session. */
#include <stdio.h>
#include "api/api_internal.h"
#include "api/preview.h"
#include "api/rest/session/sessions_view.h"
#include "base/log.h"

_Static_assert(ATOLL_REST_SESSION_URL_MAX >= ATOLL_PREVIEW_URL_MAX, "it may be a preview's");

/* 0 when its environment has none, or there is no such environment any more. */
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
        atoll_log(ATOLL_LOG_WARN, "port of a session not shown", "session", v.id, "error",
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
    /* The token is for those who could ask for it. */
    preview.is_public = preview.is_public || call->caller.scope < ATOLL_SCOPE_WRITE;
    atoll_preview_url(atoll_api_site(call->api), &preview, out);
    if (!*out)
        atoll_preview_path_url(&preview, out);
}

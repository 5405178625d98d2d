#include <errno.h>
#include <string.h>
#include "api/api_internal.h"
#include "base/text.h"

int atoll_api_enter_session(struct atoll_api_call *call, const char *id, struct atoll_error *err)
{
    struct atoll_sessions *sessions = call->api->config.sessions;
    const struct atoll_session *session = sessions ? atoll_sessions_find(sessions, id) : NULL;
    struct atoll_session_view view;

    if (session) {
        atoll_session_get(session, &view);
        if (call->caller.every_tenant || atoll_api_sees(call, view.owner))
            return atoll_text_copy(call->params.id, sizeof(call->params.id), view.sandbox_id);
    }
    return atoll_api_check_ended(call, "session", id, err);
}

#include "api/kit/ws_link.h"

#include <stdio.h>

bool atoll_ws_link_accept(struct atoll_ws_link *w, struct atoll_api_call *call,
                          const struct atoll_ws_callbacks *callbacks, void *arg, size_t max_message,
                          void (*drop)(struct atoll_api_session *session))
{
    struct atoll_error error;

    w->engine = call->engine;
    w->loop = atoll_http_loop(call->req);
    (void)snprintf(w->sandbox_id, sizeof(w->sandbox_id), "%.32s", call->params.id);
    if (atoll_ws_accept(call->req, callbacks, arg, max_message, &w->ws, &error) < 0) {
        atoll_api_fail(call, &error);
        return false;
    }
    atoll_api_session_add(call->api, &w->session);
    w->session.drop = drop;
    call->req = NULL;
    call->upgraded = true;
    atoll_api_drop(call);
    return true;
}

void atoll_ws_link_close(struct atoll_ws_link *w)
{
    if (!w->ws)
        return;
    atoll_api_session_remove(&w->session);
    w->ws = atoll_ws_free(w->ws);
}

void atoll_ws_link_send(struct atoll_ws_link *w, const struct atoll_json_out *out)
{
    if (w->ws && out->error == 0)
        (void)!atoll_ws_send(w->ws, false, atoll_buf_head(out->buf), atoll_buf_size(out->buf));
}

#include <stdio.h>
#include <string.h>
#include "api/daytona/toolbox_internal.h"

#define PROTOCOL_HEADER "sec-websocket-protocol"
#define PREFERRED "X-Daytona-Pty-Exit-Control"
#define TOKEN_MAX 512

/* Walks the offered subprotocols: start with the value of the header; 0 at the end. */
static size_t next_token(const char **at, const char **ret)
{
    size_t n;

    *at += strspn(*at, ", \t");
    *ret = *at;
    n = strcspn(*at, ", \t");
    *at += n;
    return n;
}

bool atoll_toolbox_ws_offered(const struct atoll_http_request *req, const char *prefix, char *out,
                              size_t cap)
{
    const char *at = atoll_http_header(req, PROTOCOL_HEADER), *token;
    size_t n, skip = strlen(prefix);

    while (at && (n = next_token(&at, &token)) > 0)
        if (n >= skip && memcmp(token, prefix, skip) == 0 && n - skip < cap) {
            (void)snprintf(out, cap, "%.*s", (int)(n - skip), token + skip);
            return true;
        }
    return false;
}

static void choose_subprotocol(struct atoll_http_request *req)
{
    char token[TOKEN_MAX], rest[2];

    if (atoll_toolbox_ws_offered(req, PREFERRED, rest, sizeof(rest)))
        (void)atoll_http_set_header(req, "Sec-WebSocket-Protocol", PREFERRED);
    else if (atoll_toolbox_ws_offered(req, "", token, sizeof(token)))
        (void)atoll_http_set_header(req, "Sec-WebSocket-Protocol", token);
}

bool atoll_toolbox_ws_accept(struct atoll_toolbox_ws *w, struct atoll_api_call *call,
                             const struct atoll_ws_callbacks *callbacks, void *arg,
                             size_t max_message, void (*drop)(struct atoll_api_session *session))
{
    struct atoll_error error;

    w->engine = call->engine;
    w->loop = atoll_http_loop(call->req);
    (void)snprintf(w->sandbox_id, sizeof(w->sandbox_id), "%.32s", call->params.id);
    choose_subprotocol(call->req);
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

void atoll_toolbox_ws_close(struct atoll_toolbox_ws *w)
{
    if (!w->ws)
        return;
    atoll_api_session_remove(&w->session);
    w->ws = atoll_ws_free(w->ws);
}

struct atoll_json_out atoll_toolbox_ws_begin(struct atoll_buf *buf, const char *type)
{
    struct atoll_json_out out;

    atoll_buf_clear(buf);
    atoll_json_out_init(&out, buf);
    atoll_json_open(&out, NULL, '{');
    atoll_json_text(&out, "type", type);
    return out;
}

/* A failed send means that the client has disconnected; on_close follows. */
void atoll_toolbox_ws_send(struct atoll_toolbox_ws *w, struct atoll_json_out *out)
{
    atoll_json_close(out, '}');
    if (w->ws && out->error == 0)
        (void)!atoll_ws_send(w->ws, false, atoll_buf_head(out->buf), atoll_buf_size(out->buf));
}

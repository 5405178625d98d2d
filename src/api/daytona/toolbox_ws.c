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

void atoll_toolbox_ws_choose(struct atoll_http_request *req)
{
    char token[TOKEN_MAX], rest[2];

    if (atoll_toolbox_ws_offered(req, PREFERRED, rest, sizeof(rest)))
        (void)atoll_http_set_header(req, "Sec-WebSocket-Protocol", PREFERRED);
    else if (atoll_toolbox_ws_offered(req, "", token, sizeof(token)))
        (void)atoll_http_set_header(req, "Sec-WebSocket-Protocol", token);
}

bool atoll_toolbox_ws_accept(struct atoll_ws_link *w, struct atoll_api_call *call,
                             const struct atoll_ws_callbacks *callbacks, void *arg,
                             size_t max_message, void (*drop)(struct atoll_api_session *session))
{
    atoll_toolbox_ws_choose(call->req);
    return atoll_ws_link_accept(w, call, callbacks, arg, max_message, drop);
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

void atoll_toolbox_ws_send(struct atoll_ws_link *w, struct atoll_json_out *out)
{
    atoll_json_close(out, '}');
    atoll_ws_link_send(w, out);
}

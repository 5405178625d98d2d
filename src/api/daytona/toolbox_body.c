/*
 * What handlers of the toolbox take from requests.
 */
#include <string.h>
#include "api/daytona/toolbox_internal.h"

bool atoll_toolbox_decode(struct atoll_api_call *call, struct atoll_body *body,
                          const uint8_t *bytes, size_t n, const struct atoll_field *table,
                          void *into)
{
    struct atoll_error error;

    if (atoll_body_decode(body, bytes, n, table, into, &error) == 0)
        return true;
    atoll_body_done(body);
    if (error.kind == ATOLL_ERR_INVALID_ARGUMENT)
        atoll_daytona_refuse(call, 400, ATOLL_TOOLBOX_BAD_BODY, "invalid request body: %s",
                             error.text);
    else
        atoll_api_fail(call, &error);
    return false;
}

const char *atoll_toolbox_query(struct atoll_api_call *call, const char *name)
{
    const char *value = atoll_http_query(call->req, name);

    if (value && *value && strlen(value) <= ATOLL_TOOLBOX_PATH_MAX)
        return value;
    atoll_daytona_refuse(call, 400, NULL, "%s must be given, with at most %d bytes", name,
                         ATOLL_TOOLBOX_PATH_MAX);
    return NULL;
}

int atoll_toolbox_quote(struct atoll_buf *out, const char *text, size_t n)
{
    int r = atoll_buf_append(out, "'", 1);

    while (r == 0 && n > 0) {
        const char *mark = memchr(text, '\'', n);
        size_t len = mark ? (size_t)(mark - text) : n;
        r = atoll_buf_append(out, text, len);
        if (r == 0 && mark)
            r = atoll_buf_append(out, "'\\''", 4);
        len += mark != NULL;
        text += len;
        n -= len;
    }
    return r < 0 ? r : atoll_buf_append(out, "'", 1);
}

struct atoll_exec *atoll_toolbox_find_exec(const struct atoll_api_call *call, const char *exec_id)
{
    struct atoll_sandbox *sandbox = atoll_engine_find(call->engine, call->params.id);

    return sandbox ? atoll_sandbox_find_exec(sandbox, exec_id) : NULL;
}

bool atoll_toolbox_is_running(const struct atoll_api_call *call)
{
    const struct atoll_sandbox *sandbox = atoll_engine_find(call->engine, call->params.id);
    struct atoll_sandbox_view view;

    if (!sandbox)
        return false;
    atoll_sandbox_get(sandbox, &view);
    return view.state == ATOLL_SANDBOX_RUNNING;
}

/*
 * Copies of a sandbox: snapshots of its disk.
 */
#include <errno.h>
#include "api/daytona/daytona_internal.h"
#include "base/text.h"
#include "engine/state/state.h"

struct request {
    const char *name;
};

static const struct atoll_field fields[] = {
    {"name", ATOLL_FIELD_STRING, offsetof(struct request, name), 1, 64, NULL, 0},
    ATOLL_FIELDS_TOLERANT,
    {0},
};

static void made(void *arg, const struct atoll_template_view *view ATOLL_UNUSED,
                 const struct atoll_snapshot_facts *facts ATOLL_UNUSED,
                 const struct atoll_error *error)
{
    atoll_daytona_done(arg, error);
}

void atoll_daytona_snapshot_sandbox(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct request q = {0};
    struct atoll_error error;
    struct atoll_body body;
    int r = atoll_body_decode(&body, bytes, n, fields, &q, &error);

    if (r == 0 && (!q.name || !atoll_text_is_name(q.name)))
        r = atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "name must have up to 64 letters, digits, \".\", \"_\" and \"-\"");
    if (r < 0)
        atoll_api_fail(call, &error);
    else
        atoll_engine_snapshot(call->engine, call->params.id, q.name, made, call);
    atoll_body_done(&body);
}

void atoll_daytona_unsupported(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                               size_t n ATOLL_UNUSED)
{
    atoll_daytona_refuse(call, 501, NULL, "%s %s is not offered by this service",
                         atoll_http_method_name(call->route->method), call->route->path);
}

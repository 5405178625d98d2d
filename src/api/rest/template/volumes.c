/*
 * Objects at a provider that outlive sandboxes: snapshots of disks, which become templates, and
 * volumes.
 */
#include <errno.h>
#include "api/fields.h"
#include "api/kit/list_reply.h"
#include "api/rest/rest_internal.h"
#include "api/rest/views.h"
#include "base/text.h"

/* Snapshots. */

struct snapshot_request {
    const char *name;
};

static const struct atoll_field snapshot_fields[] = {
    {"name", ATOLL_FIELD_STRING, offsetof(struct snapshot_request, name), 1, 64, NULL, 0},
    {0},
};

void atoll_rest_sandbox_snapshot(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct snapshot_request request = {0};
    struct atoll_body body;
    struct atoll_error error;
    int r = atoll_body_decode(&body, bytes, n, snapshot_fields, &request, &error);

    if (r == 0 && (!request.name || !atoll_text_is_name(request.name)))
        r = atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "name must be a name for the new template: a letter or digit, then "
                       "letters, digits, dots, dashes or underscores");
    if (r < 0)
        atoll_api_fail(call, &error);
    else
        atoll_engine_snapshot(call->engine, call->params.id, request.name, atoll_rest_template_made,
                              call);
    atoll_body_done(&body);
}

/* Volumes. */

static void list_one(void *arg, const struct atoll_volume_view *view)
{
    struct atoll_list_reply *l = arg;

    atoll_json_open(&l->out, NULL, '{');
    atoll_json_text(&l->out, "name", view->name);
    atoll_json_text(&l->out, "provider", view->provider);
    atoll_json_time(&l->out, "created_at", view->created_unix_ms);
    atoll_json_close(&l->out, '}');
}

void atoll_rest_volume_list(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                            size_t n ATOLL_UNUSED)
{
    atoll_volumes_list(call->engine, call->caller.tenant, atoll_http_query(call->req, "provider"),
                       list_one, atoll_list_reply_done, atoll_list_reply_new(call, "volumes", ']'));
}

void atoll_rest_volume_remove(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                              size_t n ATOLL_UNUSED)
{
    atoll_volumes_remove(call->engine, call->caller.tenant, atoll_http_query(call->req, "provider"),
                         call->params.name, atoll_rest_done, call);
}

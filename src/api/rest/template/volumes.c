/*
 * Volumes: they outlive sandboxes.
 */
#include "api/kit/list_reply.h"
#include "api/rest/rest_internal.h"
#include "api/rest/views.h"

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

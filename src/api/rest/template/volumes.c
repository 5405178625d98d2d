/*
 * Volumes: they outlive sandboxes.
 */
#include <errno.h>
#include "api/fields.h"
#include "api/kit/list_reply.h"
#include "api/rest/rest_internal.h"
#include "api/rest/views.h"
#include "base/text.h"
#include "engine/volume/opened.h"

static void list_one(void *arg, const struct atoll_volume_view *view)
{
    struct atoll_list_reply *l = arg;

    atoll_json_open(&l->out, NULL, '{');
    atoll_json_text(&l->out, "name", view->name);
    atoll_json_text(&l->out, "provider", view->provider);
    atoll_json_time(&l->out, "created_at", view->created_unix_ms);
    if (view->size_bytes) {
        atoll_json_u64(&l->out, "size_bytes", view->size_bytes);
        atoll_json_u64(&l->out, "used_bytes", view->used_bytes);
    }
    atoll_json_close(&l->out, '}');
}

void atoll_rest_volume_list(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                            size_t n ATOLL_UNUSED)
{
    atoll_volumes_list(call->engine, call->caller.tenant, atoll_http_query(call->req, "provider"),
                       list_one, atoll_list_reply_done, atoll_list_reply_new(call, "volumes", ']'));
}

/* Less is not worth a file system of its own. */
#define SIZE_MB_LEAST 16

struct volume_request {
    const char *name, *provider, *from;
    uint64_t size_mb;
};

#define AT(member) offsetof(struct volume_request, member)
static const struct atoll_field volume_fields[] = {
    {"name", ATOLL_FIELD_STRING, AT(name), 1, 64, NULL, 0},
    {"provider", ATOLL_FIELD_STRING, AT(provider), 1, 64, NULL, 0},
    {"from", ATOLL_FIELD_STRING, AT(from), 1, 64, NULL, 0},
    {"sizeMB", ATOLL_FIELD_U64, AT(size_mb), SIZE_MB_LEAST, 1 << 24, NULL, 0},
    {0},
};
#undef AT

static void copied(void *arg, const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (!atoll_api_reply_begin(call, error, &buf, &out))
        return;
    atoll_json_open(&out, NULL, '{');
    atoll_json_text(&out, "name", call->params.name);
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 201, &out);
}

static void made(void *arg, struct atoll_volume_use *use, const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;

    if (!error)
        call->volume = use;
    copied(call, error);
}

void atoll_rest_volume_create(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct volume_request q = {0};
    struct atoll_error error;
    struct atoll_body body;
    int r = atoll_body_decode(&body, bytes, n, volume_fields, &q, &error);

    if (r == 0 && !q.name)
        r = atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "name is missing");
    if (r == 0 && q.from && q.size_mb)
        r = atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "a copy has the size of its volume: leave out sizeMB");
    if (r == 0)
        (void)!atoll_text_copy(call->params.name, sizeof(call->params.name), q.name);
    if (r < 0) {
        atoll_api_fail(call, &error);
    } else if (q.from) {
        atoll_volumes_copy(call->engine, call->caller.tenant, q.provider, q.from, q.name, copied,
                           call);
    } else {
        atoll_volume_enter(call->engine,
                           &(struct atoll_volume_request){.tenant = call->caller.tenant,
                                                          .name = q.name,
                                                          .provider = q.provider,
                                                          .entry = ATOLL_VOLUME_NEW,
                                                          .size_bytes = q.size_mb << 20},
                           made, call);
    }
    atoll_body_done(&body);
}

void atoll_rest_volume_remove(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                              size_t n ATOLL_UNUSED)
{
    atoll_volumes_remove(call->engine, call->caller.tenant, atoll_http_query(call->req, "provider"),
                         call->params.name, atoll_rest_done, call);
}

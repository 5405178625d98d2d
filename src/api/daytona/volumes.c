/*
 * Volumes by name.
 */
#include "api/kit/volumes.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/daytona/daytona_internal.h"
#include "api/kit/list_reply.h"
#include "base/clock.h"
#include "base/text.h"
#include "engine/volume/opened.h"

static void view(struct atoll_json_out *out, const char *tenant, const char *name,
                 int64_t created_unix_ms)
{
    int64_t created = created_unix_ms ? created_unix_ms : 1;

    atoll_json_open(out, NULL, '{');
    atoll_json_text(out, "id", name);
    atoll_json_text(out, "name", name);
    atoll_json_text(out, "organizationId", tenant);
    atoll_json_text(out, "state", "ready");
    atoll_json_time(out, "createdAt", created);
    atoll_json_time(out, "updatedAt", created);
    atoll_json_null(out, "errorReason");
    atoll_json_close(out, '}');
}

/* Without a provider of volumes there are none. */
static bool is_failure(const struct atoll_error *error)
{
    return error && error->kind != ATOLL_ERR_UNIMPLEMENTED;
}

static void list_one(void *arg, const struct atoll_volume_view *v)
{
    struct atoll_list_reply *l = arg;

    view(&l->out, l->call->caller.tenant, v->name, v->created_unix_ms);
}

static void listed(void *arg, const struct atoll_error *error)
{
    atoll_list_reply_done(arg, is_failure(error) ? error : NULL);
}

void atoll_daytona_volume_list(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                               size_t n ATOLL_UNUSED)
{
    atoll_volumes_list(call->engine, call->caller.tenant, NULL, list_one, listed,
                       atoll_list_reply_new(call, NULL, ']'));
}

static void reply(struct atoll_api_call *call, const char *name, int64_t created_unix_ms)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_api_reply_init(&buf, &out);
    view(&out, call->caller.tenant, name, created_unix_ms);
    atoll_api_reply(call, 200, &out);
}

static void looked(void *arg, const struct atoll_volume_found *volume,
                   const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;

    if (is_failure(error))
        atoll_api_fail(call, error);
    else if (!volume->found)
        atoll_daytona_refuse(call, 404, NULL, "Volume with ID or name %.100s not found",
                             call->params.template);
    else
        reply(call, call->params.template, volume->created_unix_ms);
}

void atoll_daytona_volume_get(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                              size_t n ATOLL_UNUSED)
{
    atoll_volume_find(call->engine, call->caller.tenant, call->params.template, looked, call);
}

/* Creating. */

struct request {
    const char *name;
};

static const struct atoll_field fields[] = {
    {"name", ATOLL_FIELD_STRING, offsetof(struct request, name), 1, 64, NULL, 0},
    ATOLL_FIELDS_TOLERANT,
    {0},
};

static void made(void *arg, struct atoll_volume_use *use, const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;
    const char *name = call->params.template;

    atoll_volume_leave(use);
    if (error && error->kind == ATOLL_ERR_ALREADY_EXISTS) {
        atoll_daytona_refuse(call, 409, NULL, "Volume with name %.64s already exists", name);
    } else if (error) {
        atoll_api_fail(call, error);
    } else {
        reply(call, name, atoll_clock_unix_ms());
    }
}

void atoll_daytona_volume_create(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct atoll_volume_request request = {
        .tenant = call->caller.tenant, .name = call->params.template, .entry = ATOLL_VOLUME_NEW};
    struct request q = {0};
    struct atoll_error error;
    struct atoll_body body;
    int r = atoll_body_decode(&body, bytes, n, fields, &q, &error);

    if (r == 0 && (!q.name || !atoll_text_is_name(q.name)))
        r = atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "name must be a name for the volume: a letter or digit, then letters, "
                       "digits, dots, dashes or underscores");
    if (r == 0)
        (void)snprintf(call->params.template, sizeof(call->params.template), "%s", q.name);
    atoll_body_done(&body);
    if (r < 0)
        atoll_api_fail(call, &error);
    else
        atoll_volume_enter(call->engine, &request, made, call);
}

/* Removing. */

static void removed(void *arg, const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;

    if (error && error->kind == ATOLL_ERR_NOT_FOUND)
        atoll_daytona_refuse(call, 404, NULL, "Volume with ID or name %.100s not found",
                             call->params.template);
    else if (error)
        atoll_api_fail(call, error);
    else
        atoll_api_reply_empty(call, 200);
}

void atoll_daytona_volume_remove(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                 size_t n ATOLL_UNUSED)
{
    atoll_volumes_remove(call->engine, call->caller.tenant, NULL, call->params.template, removed,
                         call);
}

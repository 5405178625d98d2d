/*
 * /volumes: the control plane of volumes.
 */
#include "api/e2b/volumes.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/kit/list_reply.h"
#include "api/kit/volumes.h"
#include "base/text.h"

#define PURPOSE "e2b volume"

void atoll_e2b_volume_token(const struct atoll_api *api, const char *tenant, const char *name,
                            char *out)
{
    char thing[2 * 65], token[ATOLL_TOKEN_LEN + 1];

    (void)snprintf(thing, sizeof(thing), "%.64s/%.64s", tenant, name);
    atoll_token_make(api, PURPOSE, thing, token);
    (void)snprintf(out, ATOLL_E2B_VOLUME_TOKEN_MAX + 1, "%.64s.%s", tenant, token);
}

static void reply_volume(struct atoll_api_call *call, int status)
{
    char token[ATOLL_E2B_VOLUME_TOKEN_MAX + 1];
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_e2b_volume_token(call->api, call->caller.tenant, call->params.name, token);
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_text(&out, "volumeID", call->params.name);
    atoll_json_text(&out, "name", call->params.name);
    atoll_json_text(&out, "token", token);
    atoll_json_close(&out, '}');
    atoll_api_reply(call, status, &out);
}

/* List, and the lookup of one. */

static void list_one(void *arg, const struct atoll_volume_view *v)
{
    struct atoll_list_reply *l = arg;

    atoll_json_open(&l->out, NULL, '{');
    atoll_json_text(&l->out, "volumeID", v->name);
    atoll_json_text(&l->out, "name", v->name);
    atoll_json_close(&l->out, '}');
}

void atoll_e2b_volume_list(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                           size_t n ATOLL_UNUSED)
{
    atoll_volumes_list(call->engine, call->caller.tenant, NULL, list_one, atoll_list_reply_done,
                       atoll_list_reply_new(call, NULL, ']'));
}

static void looked(void *arg, const struct atoll_volume_found *volume,
                   const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;
    struct atoll_error missing;

    if (!error && !volume->found) {
        (void)atoll_fail(&missing, ATOLL_ERR_NOT_FOUND, ENOENT, "Volume '%s' not found",
                         call->params.name);
        error = &missing;
    }
    if (error)
        atoll_api_fail(call, error);
    else
        reply_volume(call, 200);
}

void atoll_e2b_volume_get(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                          size_t n ATOLL_UNUSED)
{
    atoll_volume_find(call->engine, call->caller.tenant, call->params.name, looked, call);
}

/* Create. */

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
    struct atoll_error shown;

    call->volume = use;
    if (!error) {
        reply_volume(call, 201);
        return;
    }
    shown = *error;
    if (error->kind == ATOLL_ERR_ALREADY_EXISTS) /* clients expect 400 */
        (void)atoll_fail(&shown, ATOLL_ERR_INVALID_ARGUMENT, EEXIST,
                         "Volume with name '%s' already exists", call->params.name);
    atoll_api_fail(call, &shown);
}

void atoll_e2b_volume_create(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct request q = {0};
    struct atoll_error error;
    struct atoll_body body;
    int r = atoll_e2b_decode(&body, bytes, n, fields, &q, &error);

    if (r < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    if (!q.name || !atoll_text_is_name(q.name) || strchr(q.name, '.'))
        r = atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "name must have letters, digits, dashes and underscores only, and begin "
                       "with a letter or digit");
    else
        (void)!atoll_text_copy(call->params.name, sizeof(call->params.name), q.name);
    atoll_body_done(&body);
    if (r < 0)
        atoll_api_fail(call, &error);
    else
        atoll_volume_enter(call->engine,
                           &(struct atoll_volume_request){.tenant = call->caller.tenant,
                                                          .name = call->params.name,
                                                          .entry = ATOLL_VOLUME_NEW},
                           made, call);
}

void atoll_e2b_volume_remove(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                             size_t n ATOLL_UNUSED)
{
    atoll_volumes_remove(call->engine, call->caller.tenant, NULL, call->params.name, atoll_e2b_done,
                         call);
}

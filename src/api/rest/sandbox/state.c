/*
 * Snapshots of a sandbox's files, forks of it, and restores. A snapshot is a template; templates/ has
 * what else can be done with it.
 */
#include "engine/state/state.h"
#include <errno.h>
#include <string.h>
#include "api/fields.h"
#include "api/kit/list_reply.h"
#include "api/rest/rest_internal.h"
#include "api/rest/views.h"
#include "base/text.h"

#define YEAR_S 31536000

/* Snapshots. */

struct snapshot_request {
    const char *name;
};

static const struct atoll_field snapshot_fields[] = {
    {"name", ATOLL_FIELD_STRING, offsetof(struct snapshot_request, name), 1, 193, NULL, 0},
    {0},
};

static void snapshot_made(void *arg, const struct atoll_template_view *view,
                          const struct atoll_snapshot_facts *facts, const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (!atoll_api_reply_begin(call, error, &buf, &out))
        return;
    atoll_json_open(&out, NULL, '{');
    atoll_view_template_fields(&out, view);
    if (view->kind == ATOLL_TEMPLATE_ROOTFS) {
        atoll_json_open(&out, "made", '{');
        atoll_json_u64(&out, "bytes", facts->bytes);
        atoll_json_u64(&out, "files", facts->files);
        atoll_json_double(&out, "frozen_ms", (double)facts->frozen_us / 1000, 3);
        atoll_json_double(&out, "flush_ms", (double)facts->flush_us / 1000, 3);
        atoll_json_close(&out, '}');
    }
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 201, &out);
}

static void snapshot(struct atoll_api_call *call, const uint8_t *bytes, size_t n, bool needs_name)
{
    struct snapshot_request request = {0};
    struct atoll_body body;
    struct atoll_error error;
    int r = atoll_body_decode(&body, bytes, n, snapshot_fields, &request, &error);

    if (r == 0 && needs_name && !request.name)
        r = atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "name must be a name for the new template: a letter or digit, then "
                       "letters, digits, dots, dashes or underscores");
    if (r < 0)
        atoll_api_fail(call, &error);
    else
        atoll_engine_snapshot(call->engine, call->params.id, request.name, snapshot_made, call);
    atoll_body_done(&body);
}

void atoll_rest_sandbox_snapshot(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    snapshot(call, bytes, n, true);
}

void atoll_rest_snapshot_create(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    snapshot(call, bytes, n, false);
}

static void list_one(void *arg, const struct atoll_template_view *view)
{
    struct atoll_list_reply *list = arg;
    atoll_view_template(&list->out, NULL, view);
}

void atoll_rest_snapshot_list(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                              size_t n ATOLL_UNUSED)
{
    struct atoll_list_reply *list = atoll_list_reply_new(call, "snapshots", ']');

    atoll_snapshots_each(call->engine, atoll_api_list_tenant(call), NULL, list_one, list);
    atoll_list_reply_done(list, NULL);
}

void atoll_rest_sandbox_snapshots(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                  size_t n ATOLL_UNUSED)
{
    struct atoll_list_reply *list = atoll_list_reply_new(call, "snapshots", ']');

    atoll_snapshots_each(call->engine, NULL, call->params.id, list_one, list);
    atoll_list_reply_done(list, NULL);
}

/* Forks. */

static const struct atoll_field fork_fields[] = {
    {"count", ATOLL_FIELD_U32, offsetof(struct atoll_fork_request, count), 0, UINT32_MAX, NULL, 0},
    {"timeoutSeconds", ATOLL_FIELD_CEIL, offsetof(struct atoll_fork_request, timeout_s), 0, YEAR_S,
     NULL, 0},
    {"memory", ATOLL_FIELD_BOOL, offsetof(struct atoll_fork_request, memory), 0, 0, NULL, 0},
    {0},
};

/* The client did not receive the ids, so no client could destroy the sandboxes. */
static void drop_forks(struct atoll_api_call *call, const char (*ids)[ATOLL_ID_LEN + 1],
                       size_t count)
{
    for (size_t i = 0; i < count; i++)
        atoll_engine_destroy(call->engine, ids[i], ATOLL_REST_WHO_GONE, atoll_rest_ignore, NULL);
    atoll_api_drop(call);
}

static void forked(void *arg, const char (*ids)[ATOLL_ID_LEN + 1], size_t count,
                   const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;
    const struct atoll_sandbox *sandbox;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (error) {
        atoll_api_fail(call, error);
        return;
    }
    if (atoll_api_client_is_gone(call)) {
        drop_forks(call, ids, count);
        return;
    }
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_open(&out, "sandboxes", '[');
    for (size_t i = 0; i < count; i++)
        if ((sandbox = atoll_engine_find(call->engine, ids[i])) != NULL)
            atoll_view_sandbox(&out, NULL, sandbox);
    atoll_json_close(&out, ']');
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 201, &out);
}

void atoll_rest_sandbox_fork(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct atoll_fork_request request = {.count = 1, .timeout_s = UINT32_MAX};
    struct atoll_body body;
    struct atoll_error error;
    int r = atoll_body_decode(&body, bytes, n, fork_fields, &request, &error);

    atoll_body_done(&body);
    request.timeout_is_given = request.timeout_s != UINT32_MAX;
    if (r < 0)
        atoll_api_fail(call, &error);
    else
        atoll_engine_fork(call->engine, call->params.id, &request, forked, call);
}

/* Restore. */

struct restore_request {
    const char *snapshot;
};

static const struct atoll_field restore_fields[] = {
    {"snapshot", ATOLL_FIELD_STRING, offsetof(struct restore_request, snapshot), 1,
     ATOLL_TEMPLATE_REFERENCE_MAX, NULL, 0},
    {0},
};

static void restored(void *arg, const struct atoll_error *error)
{
    struct atoll_api_call *call = arg;
    struct atoll_error gone;
    const struct atoll_sandbox *sandbox = error ? NULL : atoll_rest_find_sandbox(call, &gone);
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (!sandbox) {
        atoll_api_fail(call, error ? error : &gone);
        return;
    }
    atoll_api_reply_init(&buf, &out);
    atoll_view_sandbox(&out, NULL, sandbox);
    atoll_api_reply(call, 200, &out);
}

void atoll_rest_sandbox_restore(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct restore_request request = {0};
    struct atoll_body body;
    struct atoll_error error;
    int r = atoll_body_decode(&body, bytes, n, restore_fields, &request, &error);

    if (r == 0 && (!request.snapshot || !atoll_template_is_reference(request.snapshot)))
        r = atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "snapshot must name the snapshot to restore: NAME, NAME:TAG or "
                       "NAME@sha256:DIGEST");
    if (r < 0)
        atoll_api_fail(call, &error);
    else
        atoll_engine_restore(call->engine, call->params.id, request.snapshot, "restore", restored,
                             call);
    atoll_body_done(&body);
}

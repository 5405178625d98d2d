/*
 * The commands of a sandbox with checkpoints: history, blame and undo.
 */
#include "engine/state/history.h"
#include <errno.h>
#include <string.h>
#include "api/fields.h"
#include "api/rest/rest_internal.h"
#include "api/rest/views.h"

#define LIMIT_DEFAULT 20

static void write_command(struct atoll_json_out *out, const char *key,
                          const struct atoll_command_view *v)
{
    atoll_json_open(out, key, '{');
    atoll_json_u64(out, "number", v->number);
    atoll_json_text_or_null(out, "exec_id", v->exec_id);
    atoll_json_text(out, "command", v->command);
    atoll_json_time(out, "started_at", v->started_unix_ms);
    atoll_json_bool(out, "shared", v->shared);
    atoll_json_bool(out, "before", v->has_before);
    atoll_json_bool(out, "after", v->has_after);
    if (v->counted) {
        atoll_json_open(out, "changes", '{');
        atoll_json_u64(out, "added", v->added);
        atoll_json_u64(out, "changed", v->changed);
        atoll_json_u64(out, "removed", v->removed);
        atoll_json_u64(out, "bytes", v->bytes);
        atoll_json_close(out, '}');
    } else {
        atoll_json_null(out, "changes");
    }
    atoll_json_close(out, '}');
}

static void listed(void *arg, const struct atoll_command_view *views, size_t count,
                   const struct atoll_error *error)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (!atoll_api_reply_begin(arg, error, &buf, &out))
        return;
    atoll_json_open(&out, NULL, '{');
    atoll_json_open(&out, "commands", '[');
    for (size_t i = 0; i < count; i++)
        write_command(&out, NULL, &views[i]);
    atoll_json_close(&out, ']');
    atoll_json_close(&out, '}');
    atoll_api_reply(arg, 200, &out);
}

void atoll_rest_sandbox_history(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                size_t n ATOLL_UNUSED)
{
    uint64_t limit = LIMIT_DEFAULT;
    struct atoll_error err;

    if (atoll_api_query_u64(call, "limit", 1, ATOLL_HISTORY_LIMIT, &limit, &err) < 0)
        atoll_api_fail(call, &err);
    else
        atoll_commands_history(call->engine, call->params.id, (size_t)limit, listed, call);
}

static void blamed(void *arg, const struct atoll_command_view *view, const char *kind,
                   const struct atoll_error *error)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (!atoll_api_reply_begin(arg, error, &buf, &out))
        return;
    atoll_json_open(&out, NULL, '{');
    atoll_json_text(&out, "kind", kind);
    write_command(&out, "command", view);
    atoll_json_close(&out, '}');
    atoll_api_reply(arg, 200, &out);
}

void atoll_rest_sandbox_blame(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                              size_t n ATOLL_UNUSED)
{
    const char *path = NULL;
    struct atoll_error err;
    int r = atoll_rest_read_path(call, &path, &err);

    if (r == 0 && !path)
        r = atoll_fail(&err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "path must name a file, or a directory other than /; the history lists all "
                       "commands");
    if (r < 0)
        atoll_api_fail(call, &err);
    else
        atoll_engine_blame(call->engine, call->params.id, path, blamed, call);
}

/* Undo. */

struct undo_request {
    uint32_t commands;
    bool force;
};

static const struct atoll_field undo_fields[] = {
    {"commands", ATOLL_FIELD_U32, offsetof(struct undo_request, commands), 1, 1000, NULL, 0},
    {"force", ATOLL_FIELD_BOOL, offsetof(struct undo_request, force), 0, 0, NULL, 0},
    {0},
};

static void undone(void *arg, uint64_t number, const struct atoll_error *error)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (!atoll_api_reply_begin(arg, error, &buf, &out))
        return;
    atoll_json_open(&out, NULL, '{');
    atoll_json_u64(&out, "number", number);
    atoll_json_close(&out, '}');
    atoll_api_reply(arg, 200, &out);
}

void atoll_rest_sandbox_undo(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct undo_request request = {.commands = 1};
    struct atoll_body body;
    struct atoll_error err;
    int r = atoll_body_decode(&body, bytes, n, undo_fields, &request, &err);

    atoll_body_done(&body);
    if (r < 0)
        atoll_api_fail(call, &err);
    else
        atoll_engine_undo(call->engine, call->params.id, request.commands, request.force, undone,
                          call);
}

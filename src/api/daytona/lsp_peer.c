#include "api/daytona/lsp_peer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/daytona/lsp_frames.h"
#include "api/fields.h"
#include "engine/json_memory.h"

#define BYTES_MAX (ATOLL_LSP_MESSAGE_MAX + ATOLL_LSP_HEAD_MAX + ATOLL_EXEC_PUMP_SLICE_MAX)

void atoll_lsp_close(struct atoll_lsp_request *r)
{
    atoll_exec_pump_close(&r->pump);
    atoll_timer_cancel(&r->late);
    atoll_buf_done(&r->bytes);
}

static void finish(struct atoll_lsp_request *r, const json_t *result, int code,
                   const struct atoll_error *error)
{
    atoll_lsp_fn *done = r->done;
    void *arg = r->arg;

    atoll_lsp_close(r);
    done(arg, result, code, error);
}

static void ignore(void *arg ATOLL_UNUSED, const struct atoll_error *error ATOLL_UNUSED)
{
}

static void send_json(struct atoll_exec *server, json_t *message, atoll_done_fn *done, void *arg)
{
    ATOLL_AUTOFREE char *text = atoll_json_dump(message, JSON_COMPACT);
    struct atoll_error error;
    struct atoll_buf frame;
    int r = -ENOMEM;

    json_decref(message);
    atoll_buf_init(&frame, BYTES_MAX);
    if (text)
        r = atoll_lsp_append(&frame, text);
    if (r == 0) {
        atoll_exec_write(server, atoll_buf_head(&frame), atoll_buf_size(&frame), false, done, arg);
    } else {
        (void)atoll_fail_errno(&error, -r, "writing to the language server");
        done(arg, &error);
    }
    atoll_buf_done(&frame);
}

/* Answers. */

static void answer(const struct atoll_lsp_request *r, json_t *id)
{
    struct atoll_sandbox *sandbox = atoll_engine_find(r->engine, r->sandbox_id);
    struct atoll_exec *server = sandbox ? atoll_sandbox_find_exec(sandbox, r->exec_id) : NULL;

    if (server)
        send_json(server, json_pack("{s:s,s:O,s:n}", "jsonrpc", "2.0", "id", id, "result"), ignore,
                  NULL);
}

static void take_response(struct atoll_lsp_request *r, const json_t *message)
{
    const json_t *refusal = json_object_get(message, "error");
    const char *text = json_string_value(json_object_get(refusal, "message"));
    struct atoll_error error;

    if (!json_is_object(refusal)) {
        finish(r, json_object_get(message, "result"), 0, NULL);
        return;
    }
    (void)atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, 0, "the language server refuses: %.400s",
                     text ? text : "it does not say why");
    finish(r, NULL, (int)json_integer_value(json_object_get(refusal, "code")), &error);
}

/* 1: the request has ended. */
static int take_message(struct atoll_lsp_request *r, const struct atoll_lsp_message *m)
{
    bool no_memory = false, is_ours;
    json_error_t why;
    json_t *message = atoll_fields_load(m->json, m->len, &why, &no_memory);
    json_t *id = json_object_get(message, "id");
    const char *text = json_string_value(id);

    is_ours = text && strcmp(text, r->id) == 0 && !json_object_get(message, "method");
    if (is_ours)
        take_response(r, message);
    else if (id && json_object_get(message, "method"))
        answer(r, id);
    json_decref(message);
    return is_ours;
}

static int take_data(void *arg, int stream, uint64_t offset ATOLL_UNUSED, const uint8_t *bytes,
                     size_t n)
{
    struct atoll_lsp_request *r = arg;
    struct atoll_lsp_message message;
    int found = 1, error;
    size_t used;

    if (stream != ATOLL_STREAM_STDOUT)
        return 0;
    error = atoll_buf_append(&r->bytes, bytes, n);
    while (error == 0 && found == 1) {
        found =
            atoll_lsp_next(atoll_buf_head(&r->bytes), atoll_buf_size(&r->bytes), &message, &used);
        if (found < 0)
            error = found;
        else if (found == 1 && take_message(r, &message))
            return 1;
        else
            atoll_buf_consume(&r->bytes, used);
    }
    return error;
}

/* The next message is found by its head. */
static int take_gap(void *arg, const struct atoll_reader_item *gap)
{
    struct atoll_lsp_request *r = arg;

    if (gap->stream == ATOLL_STREAM_STDOUT)
        atoll_buf_clear(&r->bytes);
    return 0;
}

static void ended(void *arg, const struct atoll_exec_result *result)
{
    struct atoll_error error;

    (void)atoll_fail(&error, ATOLL_ERR_FAILED_PRECONDITION, 0,
                     "the language server has ended: %s %d",
                     result ? atoll_end_kind_name(result->kind) : "",
                     result ? (result->signal ? result->signal : result->code) : 0);
    finish(arg, NULL, 0, &error);
}

static void failed(void *arg, int failure)
{
    struct atoll_error error;

    (void)atoll_fail_errno(&error, -failure, "reading from the language server");
    finish(arg, NULL, 0, &error);
}

static const struct atoll_exec_pump_ops ops = {
    .slice = ATOLL_EXEC_PUMP_SLICE_MAX,
    .data = take_data,
    .gap = take_gap,
    .end = ended,
    .failed = failed,
};

static void too_late(void *arg)
{
    struct atoll_error error;

    (void)atoll_fail(&error, ATOLL_ERR_DEADLINE_EXCEEDED, 0,
                     "the language server did not answer within %d s", ATOLL_LSP_WAIT_MS / 1000);
    finish(arg, NULL, 0, &error);
}

void atoll_lsp_ask(struct atoll_lsp_request *r, struct atoll_loop *loop,
                   struct atoll_engine *engine, struct atoll_exec *server, const char *method,
                   json_t *params, atoll_lsp_fn *done, void *arg)
{
    const struct atoll_exec_pump_config config = {
        .ops = &ops,
        .arg = r,
        .loop = loop,
        .follow = true,
        .from = {ATOLL_READ_FROM_END, ATOLL_READ_FROM_END},
    };
    struct atoll_exec_view view;
    struct atoll_error error;

    *r = (struct atoll_lsp_request){.engine = engine, .done = done, .arg = arg};
    atoll_exec_get(server, &view);
    (void)snprintf(r->sandbox_id, sizeof(r->sandbox_id), "%s", view.sandbox_id);
    (void)snprintf(r->exec_id, sizeof(r->exec_id), "%s", view.id);
    atoll_rand_id(r->id, ATOLL_ID_LEN);
    atoll_buf_init(&r->bytes, BYTES_MAX);
    if (atoll_exec_pump_open(&r->pump, server, &config, &error) < 0) {
        json_decref(params);
        finish(r, NULL, 0, &error);
        return;
    }
    atoll_timer_set(&r->late, loop, ATOLL_LSP_WAIT_MS, too_late, r);
    send_json(server,
              json_pack("{s:s,s:s,s:s,s:o}", "jsonrpc", "2.0", "id", r->id, "method", method,
                        "params", params),
              ignore, NULL);
    atoll_exec_pump_run(&r->pump);
}

void atoll_lsp_tell(struct atoll_exec *server, const char *method, json_t *params,
                    atoll_done_fn *done, void *arg)
{
    send_json(server,
              json_pack("{s:s,s:s,s:o}", "jsonrpc", "2.0", "method", method, "params", params),
              done, arg);
}

/*
 * The output and the end of a command, as lines of JSON or, to wait for the end, as one body. A client of
 * a silent command gets bytes that its parser skips, so that neither the client nor a proxy gives up.
 */
#include <errno.h>
#include <string.h>
#include "api/kit/exec_pump.h"
#include "api/vercel/session_internal.h"
#include "engine/sandbox/ended.h"

#define SLICE ((size_t)16 * 1024)
#define LINE_BYTES_MAX ((size_t)1024 * 1024)
#define BEAT_MS 15000

/* Codes of errors in a stream. */
#define LOST "command_lost"
#define TRUNCATED "output_truncated"

struct stream {
    struct atoll_api_call *call;
    struct atoll_exec_pump pump;
    enum atoll_vercel_stream kind;
    struct atoll_buf head; /* the command without its end */
    struct atoll_buf line;
};

static void stream_free(struct stream *s)
{
    atoll_exec_pump_close(&s->pump);
    atoll_buf_done(&s->head);
    atoll_buf_done(&s->line);
    free(s);
}

static void client_gone(struct atoll_api_call *call)
{
    stream_free(call->state);
    atoll_api_drop(call);
}

/* Lines. */

static struct atoll_json_out line_begin(struct stream *s)
{
    struct atoll_json_out out;

    atoll_buf_clear(&s->line);
    atoll_json_out_init(&out, &s->line);
    return out;
}

static int line_send(struct stream *s, const struct atoll_json_out *out)
{
    int r = out->error < 0 ? out->error : atoll_buf_append(&s->line, "\n", 1);

    return r < 0
               ? r
               : atoll_http_write(s->call->req, atoll_buf_head(&s->line), atoll_buf_size(&s->line));
}

static struct atoll_json_out write_command(struct stream *s, const struct atoll_exec_result *result)
{
    struct atoll_json_out out = line_begin(s);

    out.error = atoll_buf_append(&s->line, atoll_buf_head(&s->head), atoll_buf_size(&s->head));
    out.comma = true;
    atoll_vercel_command_tail(&out, result);
    return out;
}

static int send_command(struct stream *s, const struct atoll_exec_result *result)
{
    struct atoll_json_out out = write_command(s, result);

    return line_send(s, &out);
}

static int send_error(struct stream *s, const char *code, const char *text)
{
    struct atoll_json_out out = line_begin(s);

    atoll_json_open(&out, NULL, '{');
    atoll_json_text(&out, "stream", "error");
    atoll_json_open(&out, "data", '{');
    atoll_json_text(&out, "code", code);
    atoll_json_text(&out, "message", text);
    atoll_json_close(&out, '}');
    atoll_json_close(&out, '}');
    return line_send(s, &out);
}

/* Callbacks of the pump. */

static bool shows_output(const struct stream *s)
{
    return s->kind == ATOLL_VERCEL_RUN || s->kind == ATOLL_VERCEL_LOGS;
}

static int take_data(void *arg, int stream, uint64_t offset ATOLL_UNUSED, const uint8_t *bytes,
                     size_t n)
{
    struct stream *s = arg;
    struct atoll_json_out out;

    if (!shows_output(s))
        return 0;
    out = line_begin(s);
    atoll_json_open(&out, NULL, '{');
    atoll_json_text(&out, "stream", stream == ATOLL_STREAM_STDERR ? "stderr" : "stdout");
    atoll_json_bytes(&out, "data", bytes, n);
    atoll_json_close(&out, '}');
    return line_send(s, &out);
}

static int take_gap(void *arg, const struct atoll_reader_item *gap ATOLL_UNUSED)
{
    struct stream *s = arg;

    return shows_output(s) ? send_error(s, TRUNCATED, "some output of the command was not kept")
                           : 0;
}

static int keep_alive(void *arg)
{
    struct stream *s = arg;

    if (s->kind == ATOLL_VERCEL_WAIT && !atoll_http_begun(s->call->req))
        atoll_api_begin(s->call, 200, "application/json", -1);
    return atoll_http_write(s->call->req, "\n", 1);
}

/* Ends a call whose answer was begun, or sends the answer. */
static void finish_wait(struct stream *s, const struct atoll_exec_result *result)
{
    struct atoll_api_call *call = s->call;
    struct atoll_json_out out;

    if (result->kind == ATOLL_END_LOST) {
        if (atoll_http_begun(call->req))
            atoll_api_abort(call, "the end of the command is unknown");
        else
            atoll_vercel_refuse(call, 422, LOST, "the end of the command is unknown: %s",
                                result->reason);
    } else if (atoll_http_begun(call->req)) {
        (void)!send_command(s, result);
        atoll_api_end(call);
    } else {
        out = write_command(s, result);
        atoll_api_reply_text(call, 200, "application/json", atoll_buf_head(out.buf),
                             atoll_buf_size(out.buf));
    }
}

static void finish_lines(struct stream *s, const struct atoll_exec_result *result)
{
    if (result->kind == ATOLL_END_LOST)
        (void)!send_error(s, LOST, "the end of the command is unknown");
    else if (s->kind != ATOLL_VERCEL_LOGS)
        (void)!send_command(s, result);
    atoll_api_end(s->call);
}

static void ended(void *arg, const struct atoll_exec_result *result)
{
    struct stream *s = arg;

    s->call->on_gone = NULL;
    if (s->kind == ATOLL_VERCEL_WAIT)
        finish_wait(s, result);
    else
        finish_lines(s, result);
    stream_free(s);
}

static void failed(void *arg, int r)
{
    struct stream *s = arg;
    struct atoll_api_call *call = s->call;

    call->on_gone = NULL;
    stream_free(s);
    atoll_api_abort(call, strerror(-r));
}

static const struct atoll_exec_pump_ops ops = {
    .slice = SLICE,
    .whole_characters = true,
    .data = take_data,
    .gap = take_gap,
    .keep_alive = keep_alive,
    .end = ended,
    .failed = failed,
};

/* Start. */

static int open_pump(struct stream *s, struct atoll_exec *exec, struct atoll_error *err)
{
    uint64_t from = shows_output(s) ? 0 : ATOLL_READ_FROM_END;
    const struct atoll_exec_pump_config config = {
        .ops = &ops,
        .arg = s,
        .loop = atoll_http_loop(s->call->req),
        .req = s->call->req,
        .from = {from, from},
        .follow = true,
        .keep_alive_ms = BEAT_MS,
    };

    return atoll_exec_pump_open(&s->pump, exec, &config, err);
}

void atoll_vercel_stream_start(struct atoll_api_call *call, struct atoll_exec *exec,
                               enum atoll_vercel_stream kind)
{
    struct stream *s = atoll_api_alloc(sizeof(*s));
    struct atoll_exec_view view;
    struct atoll_json_out out;
    struct atoll_error error;

    s->call = call;
    s->kind = kind;
    atoll_exec_get(exec, &view);
    atoll_buf_init(&s->head, LINE_BYTES_MAX);
    atoll_buf_init(&s->line, LINE_BYTES_MAX + SLICE);
    atoll_json_out_init(&out, &s->head);
    atoll_vercel_command_head(&out, call, &view);
    if (open_pump(s, exec, &error) < 0) {
        stream_free(s);
        atoll_api_fail(call, &error);
        return;
    }
    call->state = s;
    call->on_gone = client_gone;
    if (kind != ATOLL_VERCEL_WAIT)
        atoll_api_begin(call, 200, ATOLL_VERCEL_NDJSON, -1);
    if (kind == ATOLL_VERCEL_RUN || kind == ATOLL_VERCEL_RUN_ONLY)
        (void)!send_command(s, NULL);
    atoll_exec_pump_run(&s->pump);
}

void atoll_vercel_command_logs(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                               size_t n ATOLL_UNUSED)
{
    bool ended_sandbox;
    struct atoll_exec *exec = atoll_vercel_command_find(call, &ended_sandbox);

    if (!exec)
        return;
    atoll_vercel_stream_start(call, exec, ATOLL_VERCEL_LOGS);
    if (ended_sandbox)
        atoll_ended_exec_close(exec);
}

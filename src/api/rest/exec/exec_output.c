/*
 * GET …/execs/{exec}/output, and the response to POST …/execs?stream=true: the journal as lines of
 * JSON or as Server-Sent Events. Bytes that are not UTF-8 are sent in base64.
 */
#include "api/rest/exec/exec_output.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/kit/exec_pump.h"
#include "api/kit/sse.h"
#include "api/rest/rest_internal.h"
#include "api/rest/views.h"
#include "base/text.h"
#include "engine/sandbox/ended.h"

#define KEEP_ALIVE_MS 15000
struct output {
    struct atoll_api_call *call;
    struct atoll_exec_pump pump;
    uint64_t sent[ATOLL_STREAM_STDERR + 1]; /* offset after the last byte sent */
    struct atoll_buf line;
    bool sse;
};

static void output_free(struct output *o)
{
    atoll_exec_pump_close(&o->pump);
    atoll_buf_done(&o->line);
    free(o);
}

static void client_gone(struct atoll_api_call *call)
{
    output_free(call->state);
    atoll_api_drop(call);
}

static struct atoll_json_out line_begin(struct output *o)
{
    struct atoll_json_out out;

    atoll_buf_clear(&o->line);
    atoll_json_out_init(&out, &o->line);
    atoll_json_open(&out, NULL, '{');
    return out;
}

/* The id holds both offsets. An EventSource sends it back as Last-Event-ID when it reconnects. */
static int event_send(struct output *o, const char *event)
{
    char id[48];

    (void)snprintf(id, sizeof(id), "%llu-%llu", (unsigned long long)o->sent[ATOLL_STREAM_STDOUT],
                   (unsigned long long)o->sent[ATOLL_STREAM_STDERR]);
    return atoll_sse_write(o->call->req, event, id, &o->line);
}

static int line_send(struct output *o, struct atoll_json_out *out, const char *event)
{
    atoll_json_close(out, '}');
    if (out->error == 0 && !o->sse)
        out->error = atoll_buf_append(&o->line, "\n", 1);
    if (out->error < 0)
        return out->error;
    if (o->sse)
        return event_send(o, event);
    return atoll_http_write(o->call->req, atoll_buf_head(&o->line), atoll_buf_size(&o->line));
}

static int send_data(void *arg, int stream, uint64_t offset, const uint8_t *bytes, size_t n)
{
    struct output *o = arg;
    struct atoll_json_out out = line_begin(o);

    atoll_json_text(&out, "stream", atoll_view_stream_name(stream));
    atoll_json_u64(&out, "offset", offset);
    if (atoll_json_utf8_prefix(bytes, n) == n)
        atoll_json_bytes(&out, "data", bytes, n);
    else
        atoll_json_base64(&out, "data_base64", bytes, n);
    o->sent[stream] = offset + n;
    return line_send(o, &out, atoll_view_stream_name(stream));
}

static int send_gap(void *arg, const struct atoll_reader_item *gap)
{
    struct output *o = arg;
    struct atoll_json_out out = line_begin(o);

    atoll_view_gap(&out, gap);
    o->sent[gap->stream] = gap->offset + gap->length;
    return line_send(o, &out, "truncated");
}

static int send_result(struct output *o, const struct atoll_exec_result *result)
{
    struct atoll_json_out out = line_begin(o);

    atoll_view_result(&out, "result", result);
    return line_send(o, &out, "result");
}

static int keep_alive(void *arg)
{
    struct output *o = arg;

    return atoll_http_write(o->call->req, ATOLL_SSE_BEAT, sizeof(ATOLL_SSE_BEAT) - 1);
}

/* r: 0 for the end of the response, or the error that ends it early. */
static void finish(void *arg, int r)
{
    struct output *o = arg;
    struct atoll_api_call *call = o->call;

    if (r == -EPIPE)
        return; /* on_gone follows */
    output_free(o);
    if (r == 0)
        atoll_api_end(call);
    else
        atoll_api_abort(call, strerror(-r));
}

static void ended(void *arg, const struct atoll_exec_result *result)
{
    finish(arg, result ? send_result(arg, result) : 0);
}

static const struct atoll_exec_pump_ops ops = {
    .slice = ATOLL_EXEC_PUMP_SLICE_MAX,
    .whole_characters = true,
    .data = send_data,
    .gap = send_gap,
    .keep_alive = keep_alive,
    .end = ended,
    .failed = finish,
};

static int announce(struct output *o, const char *exec_id)
{
    struct atoll_json_out out = line_begin(o);

    atoll_json_text(&out, "exec_id", exec_id);
    return line_send(o, &out, "start");
}

void atoll_exec_output_send(struct atoll_api_call *call, struct atoll_exec *exec,
                            const struct atoll_exec_output *options)
{
    struct output *o = atoll_api_alloc(sizeof(*o));
    bool sse = atoll_sse_wanted(call->req);
    bool follow = options->follow && atoll_http_method(call->req) != ATOLL_HEAD;
    const struct atoll_exec_pump_config config = {
        .ops = &ops,
        .arg = o,
        .loop = atoll_http_loop(call->req),
        .req = call->req,
        .from = {options->from[0], options->from[1]},
        .follow = follow,
        .keep_alive_ms = sse && follow ? KEEP_ALIVE_MS : 0,
    };
    struct atoll_exec_view view;
    struct atoll_error error;
    int r;

    if (atoll_exec_pump_open(&o->pump, exec, &config, &error) < 0) {
        free(o);
        atoll_api_fail(call, &error);
        return;
    }
    o->call = call;
    o->sse = sse;
    o->sent[ATOLL_STREAM_STDOUT] = options->from[0];
    o->sent[ATOLL_STREAM_STDERR] = options->from[1];
    atoll_buf_init(&o->line, ATOLL_API_REPLY_MAX);
    call->state = o;
    call->on_gone = client_gone;
    if (sse)
        atoll_sse_begin(call);
    else
        atoll_api_begin(call, 200, "application/x-ndjson", -1);
    atoll_exec_get(exec, &view);
    r = options->announce ? announce(o, view.id) : 0;
    if (r < 0)
        finish(o, r);
    else
        atoll_exec_pump_run(&o->pump);
}

/* "STDOUT-STDERR", as in the ids of the events sent by event_send(). */
static int take_last_event(const struct atoll_api_call *call, uint64_t *from,
                           struct atoll_error *err)
{
    const char *text = atoll_http_header(call->req, "last-event-id");
    const char *dash = text ? strchr(text, '-') : NULL;
    char first[24];

    if (!text)
        return 0;
    if (dash && (size_t)(dash - text) < sizeof(first)) {
        (void)snprintf(first, sizeof(first), "%.*s", (int)(dash - text), text);
        if (atoll_text_u64(first, 0, INT64_MAX, &from[0]) == 0 &&
            atoll_text_u64(dash + 1, 0, INT64_MAX, &from[1]) == 0)
            return 0;
    }
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                      "Last-Event-ID must be the id of an event of this output (got \"%.48s\")",
                      text);
}

static int find_exec(const struct atoll_api_call *call, struct atoll_exec **ret,
                     struct atoll_error *err)
{
    if (call->ended)
        return atoll_ended_exec_open(call->engine, call->params.id, call->params.exec, ret, err);
    *ret = atoll_rest_find_exec(call->engine, call->params.id, call->params.exec, err);
    return *ret ? 0 : -ENOENT;
}

void atoll_rest_exec_output(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                            size_t n ATOLL_UNUSED)
{
    const bool is_ended = call->ended; /* the call may be gone after the send */
    struct atoll_exec_output options = {0};
    struct atoll_error error;
    struct atoll_exec *exec = NULL;
    int r = atoll_api_query_flag(call, "follow", &options.follow, &error);

    if (r == 0)
        r = take_last_event(call, options.from, &error);
    if (r == 0)
        r = atoll_api_query_u64(call, "stdout", 0, INT64_MAX, &options.from[0], &error);
    if (r == 0)
        r = atoll_api_query_u64(call, "stderr", 0, INT64_MAX, &options.from[1], &error);
    if (r == 0)
        r = find_exec(call, &exec, &error);
    if (r < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    atoll_exec_output_send(call, exec, &options);
    if (is_ended)
        atoll_ended_exec_close(exec);
}

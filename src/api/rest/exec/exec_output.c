/*
 * GET …/execs/{exec}/output, and the response to POST …/execs?stream=true: the journal as lines of
 * JSON or as Server-Sent Events. The client sets the pace: nothing is read from the journal while
 * more than ATOLL_HTTP_HIGH_WATER bytes are waiting to be sent.
 *
 * An incomplete character at the end of a piece is held back (at most 3 bytes per stream) and sent
 * with the next piece, so that text stays valid; bytes that are not UTF-8 are sent in base64.
 */
#include "api/rest/exec/exec_output.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/kit/sse.h"
#include "api/rest/rest_internal.h"
#include "api/rest/views.h"
#include "base/text.h"

#define BEAT_MS 15000
#define SLICE_MAX ((size_t)64 * 1024)
/* Bytes sent per turn of the loop before other connections are served. */
#define TURN_MAX ((size_t)1024 * 1024)

struct carry {
    uint8_t bytes[3];
    size_t len;
    uint64_t offset; /* offset of the first held byte */
};

struct output {
    struct atoll_api_call *call;
    struct atoll_reader *reader;            /* owned */
    struct atoll_timer turn;                /* continues after other connections were served */
    struct atoll_timer beat;                /* SSE: keep-alive while the command is silent */
    uint64_t sent[ATOLL_STREAM_STDERR + 1]; /* offset after the last byte sent */
    struct carry carries[ATOLL_STREAM_STDERR + 1];
    struct atoll_buf line;
    bool follow, sse;
};

static void output_free(struct output *o)
{
    o->reader = atoll_reader_close(o->reader);
    atoll_timer_cancel(&o->turn);
    atoll_timer_cancel(&o->beat);
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

static int send_bytes(struct output *o, int stream, uint64_t offset, const uint8_t *bytes, size_t n)
{
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

/* Sends held bytes that will not be completed. */
static int flush_carry(struct output *o, int stream)
{
    struct carry *carry = &o->carries[stream];
    size_t n = carry->len;

    carry->len = 0;
    return n > 0 ? send_bytes(o, stream, carry->offset, carry->bytes, n) : 0;
}

static int send_slice(struct output *o, int stream, uint64_t offset, const uint8_t *data, size_t n)
{
    struct carry *carry = &o->carries[stream];
    uint8_t joined[SLICE_MAX + sizeof(carry->bytes)];
    size_t held = carry->len, tail;

    memcpy(joined, carry->bytes, held);
    memcpy(joined + held, data, n);
    offset -= held;
    n += held;
    tail = atoll_json_utf8_open_tail(joined, n);
    n -= tail;
    memcpy(carry->bytes, joined + n, tail);
    carry->len = tail;
    carry->offset = offset + n;
    return n > 0 ? send_bytes(o, stream, offset, joined, n) : 0;
}

static int send_data(struct output *o, const struct atoll_reader_item *item)
{
    int r = 0;

    for (uint64_t at = 0; r == 0 && at < item->length; at += SLICE_MAX) {
        size_t n = (size_t)ATOLL_MIN(item->length - at, (uint64_t)SLICE_MAX);
        r = send_slice(o, item->stream, item->offset + at, item->data + at, n);
    }
    return r;
}

static int flush_carries(struct output *o)
{
    int r = flush_carry(o, ATOLL_STREAM_STDOUT);
    return r < 0 ? r : flush_carry(o, ATOLL_STREAM_STDERR);
}

static int send_gap(struct output *o, const struct atoll_reader_item *item)
{
    struct atoll_json_out out;
    int r = flush_carry(o, item->stream);

    if (r < 0)
        return r;
    out = line_begin(o);
    atoll_view_gap(&out, item);
    o->sent[item->stream] = item->offset + item->length;
    return line_send(o, &out, "truncated");
}

static int send_result(struct output *o, const struct atoll_reader_item *item)
{
    struct atoll_json_out out;
    int r = flush_carries(o);

    if (r < 0)
        return r;
    out = line_begin(o);
    atoll_view_result(&out, "result", item->result);
    return line_send(o, &out, "result");
}

/* The daemon need not keep output that the client's socket has taken. */
static void release_output(struct output *o)
{
    if (atoll_http_pending(o->call->req) > 0)
        atoll_http_await_empty(o->call->req);
    else
        atoll_reader_forget(o->reader, o->carries[ATOLL_STREAM_STDOUT].len,
                            o->carries[ATOLL_STREAM_STDERR].len);
}

/* r: 0 for the end of the response, or the error that ends it early. */
static void finish(struct output *o, int r)
{
    struct atoll_api_call *call = o->call;

    if (r == -EPIPE)
        return; /* on_gone follows */
    output_free(o);
    if (r == 0)
        atoll_api_end(call);
    else
        atoll_api_abort(call, strerror(-r));
}

static int send_item(struct output *o, const struct atoll_reader_item *item)
{
    switch (item->kind) {
    case ATOLL_READ_DATA:
        return send_data(o, item);
    case ATOLL_READ_GAP:
        return send_gap(o, item);
    default:
        return send_result(o, item);
    }
}

static void pump(void *arg)
{
    struct output *o = arg;
    struct atoll_reader_item item;
    size_t sent = 0;
    int r;

    if (o->turn.loop)
        return;
    while (atoll_http_pending(o->call->req) <= ATOLL_HTTP_HIGH_WATER) {
        if (sent > TURN_MAX) {
            atoll_timer_set(&o->turn, atoll_http_loop(o->call->req), 0, pump, o);
            return;
        }
        r = atoll_reader_next(o->reader, &item);
        if (r == 0 && o->follow) {
            release_output(o);
            return;
        }
        if (r == 0)
            r = flush_carries(o);
        else if (r > 0) {
            r = send_item(o, &item);
            sent += item.kind == ATOLL_READ_DATA ? (size_t)item.length : 0;
            if (r == 0 && item.kind != ATOLL_READ_END)
                continue;
        }
        finish(o, r);
        return;
    }
}

static void drained(void *arg, struct atoll_http_request *req)
{
    (void)req;
    pump(arg);
}

static void beat(void *arg)
{
    struct output *o = arg;

    (void)!atoll_http_write(o->call->req, ATOLL_SSE_BEAT, sizeof(ATOLL_SSE_BEAT) - 1);
    atoll_timer_set(&o->beat, atoll_http_loop(o->call->req), BEAT_MS, beat, o);
}

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
    struct atoll_exec_view view;
    struct atoll_error error;
    int r;

    if (atoll_reader_open(exec, options->from[0], options->from[1], pump, o, &o->reader, &error) <
        0) {
        free(o);
        atoll_api_fail(call, &error);
        return;
    }
    o->call = call;
    o->follow = options->follow && atoll_http_method(call->req) != ATOLL_HEAD;
    if (o->follow)
        atoll_reader_follow(o->reader);
    o->sse = atoll_sse_wanted(call->req);
    o->sent[ATOLL_STREAM_STDOUT] = options->from[0];
    o->sent[ATOLL_STREAM_STDERR] = options->from[1];
    atoll_buf_init(&o->line, ATOLL_API_REPLY_MAX);
    call->state = o;
    call->on_gone = client_gone;
    atoll_http_on_drain(call->req, drained, o);
    if (o->sse)
        atoll_sse_begin(call);
    else
        atoll_api_begin(call, 200, "application/x-ndjson", -1);
    if (o->sse && o->follow)
        atoll_timer_set(&o->beat, atoll_http_loop(call->req), BEAT_MS, beat, o);
    atoll_exec_get(exec, &view);
    r = options->announce ? announce(o, view.id) : 0;
    if (r < 0)
        finish(o, r);
    else
        pump(o);
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

void atoll_rest_exec_output(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                            size_t n ATOLL_UNUSED)
{
    struct atoll_exec_output options = {0};
    struct atoll_error error;
    struct atoll_exec *exec;
    int r = atoll_api_query_flag(call, "follow", &options.follow, &error);

    if (r == 0)
        r = take_last_event(call, options.from, &error);
    if (r == 0)
        r = atoll_api_query_u64(call, "stdout", 0, INT64_MAX, &options.from[0], &error);
    if (r == 0)
        r = atoll_api_query_u64(call, "stderr", 0, INT64_MAX, &options.from[1], &error);
    exec = r < 0 ? NULL
                 : atoll_rest_find_exec(call->engine, call->params.id, call->params.exec, &error);
    if (exec)
        atoll_exec_output_send(call, exec, &options);
    else
        atoll_api_fail(call, &error);
}

/*
 * Output of a process from a cursor on: a page of frames, or with ?follow=true Server-Sent Events until
 * the process ends. A cursor is "STDOUT.STDERR", the offsets behind the last frame; "start" is "0.0".
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/daytona/toolbox_internal.h"
#include "api/kit/sse.h"
#include "base/clock.h"

#define SLICE ((size_t)16 * 1024)
#define FRAMES_MAX 1000
#define PAGE_MAX ((size_t)4 * 1024 * 1024) /* bytes of output in a page */
#define EVENT_MAX (8 * SLICE)
#define BEAT_MS 15000

struct logs {
    struct atoll_api_call *call;
    struct atoll_exec_pump pump;
    uint64_t at[ATOLL_STREAM_STDERR + 1]; /* the cursor */
    bool follow, base64, pty, truncated;
    uint64_t limit, frames;
    size_t bytes;
    char exec_id[17];
    struct atoll_buf buf; /* the page, or one event */
    struct atoll_json_out out;
};

static void logs_free(struct logs *l)
{
    atoll_exec_pump_close(&l->pump);
    atoll_buf_done(&l->buf);
    free(l);
}

static void client_gone(struct atoll_api_call *call)
{
    logs_free(call->state);
    atoll_api_drop(call);
}

static void write_cursor(struct logs *l, struct atoll_json_out *out, const char *name)
{
    char text[48];

    (void)snprintf(text, sizeof(text), "%llu.%llu", (unsigned long long)l->at[ATOLL_STREAM_STDOUT],
                   (unsigned long long)l->at[ATOLL_STREAM_STDERR]);
    atoll_json_text(out, name, text);
}

/* Frames. */

static void write_frame(struct logs *l, struct atoll_json_out *out, int stream,
                        const uint8_t *bytes, size_t n)
{
    atoll_json_open(out, NULL, '{');
    atoll_json_text(out, "channel",
                    l->pty                          ? "pty"
                    : stream == ATOLL_STREAM_STDERR ? "stderr"
                                                    : "stdout");
    write_cursor(l, out, "cursor");
    atoll_json_u64(out, "seq", l->at[ATOLL_STREAM_STDOUT] + l->at[ATOLL_STREAM_STDERR]);
    atoll_json_time(out, "timestamp", atoll_clock_unix_ms());
    atoll_json_text(out, "encoding", l->base64 ? "base64" : "text");
    if (l->base64)
        atoll_json_base64(out, "data", bytes, n);
    else
        atoll_json_bytes(out, "data", bytes, n);
    atoll_json_close(out, '}');
}

/* Begins an event; event_send() sends it. */
static struct atoll_json_out event_begin(struct logs *l)
{
    struct atoll_json_out out;

    atoll_buf_clear(&l->buf);
    atoll_json_out_init(&out, &l->buf);
    return out;
}

static int event_send(struct logs *l, const struct atoll_json_out *out, const char *event)
{
    return out->error < 0 ? out->error : atoll_sse_write(l->call->req, event, NULL, &l->buf);
}

static void reply_page(struct logs *l, bool is_end)
{
    struct atoll_api_call *call = l->call;

    call->on_gone = NULL;
    atoll_exec_pump_close(&l->pump);
    atoll_json_close(&l->out, ']');
    atoll_json_bool(&l->out, "eof", is_end);
    atoll_json_bool(&l->out, "truncatedHead", l->truncated);
    write_cursor(l, &l->out, "nextCursor");
    atoll_json_close(&l->out, '}');
    atoll_api_reply(call, 200, &l->out);
    free(l);
}

static int take_data(void *arg, int stream, uint64_t offset, const uint8_t *bytes, size_t n)
{
    struct logs *l = arg;
    struct atoll_json_out out;

    l->at[stream] = offset + n;
    if (l->follow) {
        out = event_begin(l);
        write_frame(l, &out, stream, bytes, n);
        return event_send(l, &out, "log");
    }
    write_frame(l, &l->out, stream, bytes, n);
    l->bytes += n;
    if (++l->frames < l->limit && l->bytes < PAGE_MAX)
        return 0;
    reply_page(l, false);
    return 1;
}

static int take_gap(void *arg, const struct atoll_reader_item *gap)
{
    struct logs *l = arg;
    struct atoll_json_out out;

    l->at[gap->stream] = gap->offset + gap->length;
    l->truncated = true;
    if (!l->follow)
        return 0;
    out = event_begin(l);
    atoll_json_open(&out, NULL, '{');
    write_cursor(l, &out, "cursor");
    atoll_json_text(&out, "message", "some output was not kept");
    write_cursor(l, &out, "firstAvailableCursor");
    atoll_json_close(&out, '}');
    return event_send(l, &out, "warning");
}

static int keep_alive(void *arg)
{
    struct logs *l = arg;

    return atoll_http_write(l->call->req, ATOLL_SSE_BEAT, sizeof(ATOLL_SSE_BEAT) - 1);
}

static void send_end(struct logs *l)
{
    const struct atoll_exec *exec = atoll_toolbox_find_exec(l->call, l->exec_id);
    struct atoll_api_call *call = l->call;
    struct atoll_json_out out = event_begin(l);
    struct atoll_exec_view view;

    if (exec) {
        atoll_exec_get(exec, &view);
        atoll_json_open(&out, NULL, '{');
        atoll_toolbox_process_members(&out, &view);
        write_cursor(l, &out, "cursor");
        atoll_json_close(&out, '}');
        (void)!event_send(l, &out, "state");
    }
    out = event_begin(l);
    atoll_json_open(&out, NULL, '{');
    write_cursor(l, &out, "cursor");
    atoll_json_close(&out, '}');
    (void)!event_send(l, &out, "eof");
    call->on_gone = NULL;
    logs_free(l);
    atoll_api_end(call);
}

static void ended(void *arg, const struct atoll_exec_result *result)
{
    struct logs *l = arg;

    if (l->follow)
        send_end(l);
    else
        reply_page(l, result != NULL);
}

static void failed(void *arg, int r)
{
    struct logs *l = arg;
    struct atoll_api_call *call = l->call;

    call->on_gone = NULL;
    logs_free(l);
    atoll_api_abort(call, strerror(-r));
}

static const struct atoll_exec_pump_ops text_ops = {
    .slice = SLICE,
    .whole_characters = true,
    .data = take_data,
    .gap = take_gap,
    .keep_alive = keep_alive,
    .end = ended,
    .failed = failed,
};
static const struct atoll_exec_pump_ops base64_ops = {
    .slice = SLICE,
    .data = take_data,
    .gap = take_gap,
    .keep_alive = keep_alive,
    .end = ended,
    .failed = failed,
};

static bool take_query(struct atoll_api_call *call, struct logs *l)
{
    const char *cursor = atoll_http_query(call->req, "cursor");
    const char *encoding = atoll_http_query(call->req, "encoding");
    unsigned long long out = 0, err = 0;
    struct atoll_error error;
    char rest;

    l->limit = FRAMES_MAX;
    l->base64 = encoding && strcmp(encoding, "base64") == 0;
    if (atoll_api_query_flag(call, "follow", &l->follow, &error) < 0 ||
        atoll_api_query_u64(call, "limit", 1, FRAMES_MAX, &l->limit, &error) < 0) {
        atoll_api_fail(call, &error);
        return false;
    }
    if (cursor && *cursor && strcmp(cursor, "start") != 0 &&
        sscanf(cursor, "%19llu.%19llu%c", &out, &err, &rest) != 2) {
        atoll_daytona_refuse(call, 400, NULL,
                             "cursor must be \"start\" or one of an earlier answer");
        return false;
    }
    l->at[ATOLL_STREAM_STDOUT] = out;
    l->at[ATOLL_STREAM_STDERR] = err;
    return true;
}

static void begin(struct logs *l)
{
    if (l->follow) {
        atoll_buf_init(&l->buf, EVENT_MAX);
        atoll_sse_begin(l->call);
    } else {
        atoll_api_reply_init(&l->buf, &l->out);
        atoll_json_open(&l->out, NULL, '{');
        atoll_json_open(&l->out, "frames", '[');
    }
}

void atoll_daytona_process_logs(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                size_t n ATOLL_UNUSED)
{
    struct atoll_exec_view view;
    struct atoll_exec *exec = atoll_toolbox_process_find(call, &view);
    struct atoll_error error;
    struct logs *l;

    if (!exec)
        return;
    l = atoll_api_alloc(sizeof(*l));
    l->call = call;
    l->pty = view.pty;
    (void)snprintf(l->exec_id, sizeof(l->exec_id), "%s", view.id);
    if (!take_query(call, l)) {
        free(l);
        return;
    }
    const struct atoll_exec_pump_config config = {
        .ops = l->base64 ? &base64_ops : &text_ops,
        .arg = l,
        .loop = atoll_http_loop(call->req),
        .req = l->follow ? call->req : NULL,
        .from = {l->at[ATOLL_STREAM_STDOUT], l->at[ATOLL_STREAM_STDERR]},
        .follow = l->follow,
        .keep_alive_ms = l->follow ? BEAT_MS : 0,
    };
    if (atoll_exec_pump_open(&l->pump, exec, &config, &error) < 0) {
        free(l);
        atoll_api_fail(call, &error);
        return;
    }
    begin(l);
    call->state = l;
    call->on_gone = client_gone;
    atoll_exec_pump_run(&l->pump);
}

/*
 * Start and Connect: streams the events of a process. The client sets the pace: nothing is read
 * from the journal while more than ATOLL_HTTP_HIGH_WATER bytes are waiting to be sent. If the
 * client disconnects, the process continues.
 *
 * If the sandbox is destroyed, the connection is cut: clients distinguish that from an end of the
 * process.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/e2b/process.h"

#define SLICE_MAX ((size_t)32 * 1024)
/* A slice in base64, and the JSON around it. */
#define FRAME_MAX (SLICE_MAX * 4 / 3 + 1024)
/* Bytes sent per turn of the loop before other connections are served. */
#define TURN_MAX ((size_t)1024 * 1024)

struct stream {
    struct atoll_api_call *call;
    struct atoll_reader *reader; /* owned */
    struct atoll_timer turn, beat, deadline;
    struct atoll_buf frame;
    int64_t beat_ms, sent_ms;
    bool pty, is_start;
};

static void stream_free(struct stream *s)
{
    s->reader = atoll_reader_close(s->reader);
    atoll_timer_cancel(&s->turn);
    atoll_timer_cancel(&s->beat);
    atoll_timer_cancel(&s->deadline);
    atoll_buf_done(&s->frame);
    free(s);
}

static void client_gone(struct atoll_api_call *call)
{
    stream_free(call->state);
    atoll_api_drop(call);
}

/* Opens {"event":{NAME:{; event_send() closes all three. */
static struct atoll_json_out event_begin(struct stream *s, const char *name)
{
    struct atoll_json_out out = atoll_connect_frame_begin(&s->frame);

    atoll_json_open(&out, NULL, '{');
    atoll_json_open(&out, "event", '{');
    atoll_json_open(&out, name, '{');
    return out;
}

static int event_send(struct stream *s, struct atoll_json_out *out)
{
    for (int i = 0; i < 3; i++)
        atoll_json_close(out, '}');
    s->sent_ms = atoll_loop_now_ms(atoll_http_loop(s->call->req));
    return atoll_connect_frame_send(s->call, out);
}

static int send_start(struct stream *s, uint32_t pid)
{
    struct atoll_json_out out = event_begin(s, "start");

    atoll_json_u64(&out, "pid", pid);
    return event_send(s, &out);
}

static int send_data(struct stream *s, const struct atoll_reader_item *item)
{
    const char *name = s->pty ? "pty" : item->stream == ATOLL_STREAM_STDERR ? "stderr" : "stdout";
    int r = 0;

    for (uint64_t at = 0; r == 0 && at < item->length; at += SLICE_MAX) {
        size_t n = (size_t)ATOLL_MIN(item->length - at, (uint64_t)SLICE_MAX);
        struct atoll_json_out out = event_begin(s, "data");
        atoll_json_base64(&out, name, item->data + at, n);
        r = event_send(s, &out);
    }
    return r;
}

void atoll_process_write_end(struct atoll_json_out *out, const struct atoll_exec_result *result)
{
    bool exited = result->kind == ATOLL_END_EXITED;
    const char *name = exited ? NULL : sigdescr_np(result->signal);
    char status[80];

    if (exited)
        (void)snprintf(status, sizeof(status), "exit status %d", result->code);
    else if (name)
        (void)snprintf(status, sizeof(status), "signal: %c%s", tolower((unsigned char)name[0]),
                       name + 1);
    else
        (void)snprintf(status, sizeof(status), "signal: signal %d", result->signal);
    atoll_json_i64(out, "exitCode", exited ? result->code : -1);
    atoll_json_bool(out, "exited", exited);
    atoll_json_text(out, "status", status);
    if (!exited || result->code != 0)
        atoll_json_text(out, "error", status);
}

/* Ends the stream and the call. */
static void conclude(struct stream *s, const struct atoll_error *error)
{
    struct atoll_api_call *call = s->call;

    stream_free(s);
    atoll_connect_end(call, error);
}

static void cut(struct stream *s, const char *why)
{
    struct atoll_api_call *call = s->call;

    stream_free(s);
    atoll_api_abort(call, why);
}

static void time_is_up(void *arg)
{
    struct atoll_error error;

    (void)atoll_fail(&error, ATOLL_ERR_DEADLINE_EXCEEDED, ETIMEDOUT, "context deadline exceeded");
    conclude(arg, &error);
}

static void process_ended(struct stream *s, const struct atoll_exec_result *result)
{
    struct atoll_json_out out;
    struct atoll_error error;
    int r;

    if (!atoll_envd_is_running(s->call)) {
        cut(s, "the sandbox is gone");
        return;
    }
    if (result->kind == ATOLL_END_TIMED_OUT && s->is_start) {
        time_is_up(s);
        return;
    }
    if (result->kind == ATOLL_END_LOST) {
        (void)atoll_fail(&error, ATOLL_ERR_DATA_LOSS, EIO,
                         "the result of the process is unknown: %s", result->reason);
        conclude(s, &error);
        return;
    }
    out = event_begin(s, "end");
    atoll_process_write_end(&out, result);
    r = event_send(s, &out);
    if (r == -EPIPE)
        return; /* on_gone follows */
    if (r < 0)
        cut(s, strerror(-r));
    else
        conclude(s, NULL);
}

/* The protocol has no event for a gap, and an end event would claim that the output is complete. */
static void output_missing(struct stream *s, const struct atoll_reader_item *gap)
{
    struct atoll_error error;

    (void)atoll_fail(
        &error, ATOLL_ERR_DATA_LOSS, EIO, "%llu bytes of %s from offset %llu on were not kept",
        (unsigned long long)gap->length, gap->stream == ATOLL_STREAM_STDERR ? "stderr" : "stdout",
        (unsigned long long)gap->offset);
    conclude(s, &error);
}

/* The daemon need not keep output that the client's socket has taken. */
static void release_output(struct stream *s)
{
    if (atoll_http_pending(s->call->req) > 0)
        atoll_http_await_empty(s->call->req);
    else
        atoll_reader_forget(s->reader, 0, 0);
}

static void pump(void *arg)
{
    struct stream *s = arg;
    struct atoll_reader_item item;
    size_t sent = 0;
    int r;

    if (s->turn.loop)
        return;
    while (atoll_http_pending(s->call->req) <= ATOLL_HTTP_HIGH_WATER) {
        if (sent > TURN_MAX) {
            atoll_timer_set(&s->turn, atoll_http_loop(s->call->req), 0, pump, s);
            return;
        }
        r = atoll_reader_next(s->reader, &item);
        if (r == 0) {
            release_output(s);
            return;
        }
        if (r > 0 && item.kind == ATOLL_READ_END) {
            process_ended(s, item.result);
            return;
        }
        if (r > 0 && item.kind == ATOLL_READ_GAP) {
            output_missing(s, &item);
            return;
        }
        if (r > 0)
            r = send_data(s, &item);
        if (r == -EPIPE)
            return;
        if (r < 0) {
            cut(s, strerror(-r));
            return;
        }
        sent += (size_t)item.length;
    }
}

static void drained(void *arg, struct atoll_http_request *req ATOLL_UNUSED)
{
    pump(arg);
}

static void beat(void *arg)
{
    struct stream *s = arg;
    struct atoll_loop *loop = atoll_http_loop(s->call->req);
    int64_t silent_ms = atoll_loop_now_ms(loop) - s->sent_ms;

    if (silent_ms >= s->beat_ms && atoll_http_pending(s->call->req) <= ATOLL_HTTP_HIGH_WATER) {
        struct atoll_json_out out = event_begin(s, "keepalive");
        if (event_send(s, &out) < 0)
            return; /* on_gone follows */
        silent_ms = 0;
    }
    atoll_timer_set(&s->beat, loop, ATOLL_MAX(s->beat_ms - silent_ms, (int64_t)1000), beat, s);
}

void atoll_process_stream(struct atoll_api_call *call, struct atoll_exec *exec, bool is_start,
                          uint32_t timeout_ms)
{
    uint64_t from = is_start ? 0 : ATOLL_READ_FROM_END;
    struct stream *s = atoll_api_alloc(sizeof(*s));
    struct atoll_loop *loop = atoll_http_loop(call->req);
    struct atoll_exec_view view;
    struct atoll_error error;

    atoll_exec_get(exec, &view);
    if (atoll_reader_open(exec, from, from, pump, s, &s->reader, &error) < 0) {
        free(s);
        atoll_api_fail(call, &error);
        return;
    }
    atoll_reader_follow(s->reader);
    s->call = call;
    s->pty = view.pty;
    s->is_start = is_start;
    s->beat_ms = atoll_connect_keepalive_ms(call);
    atoll_buf_init(&s->frame, FRAME_MAX);
    call->state = s;
    call->on_gone = client_gone;
    atoll_http_on_drain(call->req, drained, s);
    atoll_connect_begin(call);
    atoll_timer_set(&s->beat, loop, s->beat_ms, beat, s);
    if (timeout_ms > 0 && !is_start) /* the agent enforces the timeout of a started process */
        atoll_timer_set(&s->deadline, loop, timeout_ms, time_is_up, s);
    if (send_start(s, view.pid) == 0)
        pump(s);
}
